"""``tellback config users``: the people who use the memory through a server, each with a token and a namespace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.options import JsonOption, YesOption
from tellback.agent.assistant.cli.output import print_json, print_note, print_table, print_text
from tellback.agent.assistant.cli.prompts import confirm_or_exit, require_terminal_or_yes

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory.internals import Users

UserArgument: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="Which user.")]
_UNLIMITED = "none"


@contextmanager
def _users(context: typer.Context) -> Iterator[tuple[OpenedMemory, Users]]:
    from tellback.memory.internals import Users

    with opened_memory(context, create=True) as opened:
        yield opened, Users(opened.memory.database)


def list_users(context: typer.Context, json: JsonOption = False) -> None:
    """List the users of the memory: role, namespace, what is shared with each, and quotas; never tokens."""
    with _users(context) as (_, users):
        listed = [
            {
                "name": user.name,
                "role": user.role,
                "namespace": user.namespace,
                "shares": dict(users.shares(user.name)),
                "quota": {name: most for name, most in asdict(user.quota).items() if most is not None},
            }
            for user in users.list()
        ]
    if json:
        print_json({"users": listed})
    elif not listed:
        print_text("there is no user beside the owner; `tellback config users add NAME` adds one")
    else:
        rows = [tuple(_shown(value) for value in user.values()) for user in listed]
        print_table(("user", "role", "namespace", "shares", "quota"), rows)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items()) or "-"
    return str(value)


def add_user(
    context: typer.Context,
    name: UserArgument,
    role: Annotated[str, typer.Option(metavar="ROLE", help="owner, member or reader.")] = "member",
    own: Annotated[
        str | None, typer.Option("--own", metavar="NAMESPACE", help="Namespace of their own (else their name).")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Add a user, and show their token once.

    A member keeps and reads memories in a namespace of their own, a reader reads alone, an owner also sees users and
    health.
    """
    from tellback.agent.errors import ArgumentError
    from tellback.memory.internals import User

    with _users(context) as (opened, users):
        namespace = name if own is None else own
        if namespace == opened.namespace:
            raise ArgumentError("namespace", namespace, "another one than your own is needed")
        if own is None and namespace in run(opened.memory.namespaces()):
            needed = f"it holds memories already; --own {namespace} lets this user have them"
            raise ArgumentError("namespace", namespace, needed)
        token = users.add(User(name, namespace, role))  # type: ignore[arg-type]  # it is checked there
    _show_token(name, token, json=json)


def renew_token(context: typer.Context, name: UserArgument, json: JsonOption = False) -> None:
    """Give a user a new token, shown once; the former one is worth nothing from now on."""
    with _users(context) as (_, users):
        token = users.renew_token(name)
    _show_token(name, token, json=json)


def _show_token(name: str, token: str, *, json: bool) -> None:
    if json:
        print_json({"outcome": "done", "name": name, "token": token})
        return
    print_note(f"The token of {name}; it is shown this once, and kept nowhere:")
    print_text(token)


def share_namespace(
    context: typer.Context,
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE", help="Which namespace; one that nobody has is new.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="With which user.")],
    write: Annotated[bool, typer.Option("--write", help="To change it, too.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Share it no more.")] = False,
    json: JsonOption = False,
) -> None:
    """Share a namespace with a user, to read or to read and write."""
    if write and stop:
        raise typer.BadParameter("goes without --stop", param_hint="--write")
    access = None if stop else "write" if write else "read"
    with _users(context) as (_, users):
        users.share(namespace, name, access)  # type: ignore[arg-type]
    if json:
        print_json({"outcome": "done", "namespace": namespace, "name": name, "access": access})
    else:
        print_text(f"{name} may {'no longer see' if access is None else access} {namespace}")


def set_quota(
    context: typer.Context,
    name: UserArgument,
    memories: Annotated[str | None, typer.Option(metavar="N", help="Most memories; 'none' is no limit.")] = None,
    documents: Annotated[str | None, typer.Option(metavar="N", help="Most documents.")] = None,
    size: Annotated[str | None, typer.Option("--bytes", metavar="N", help="Most bytes of text.")] = None,
    requests: Annotated[str | None, typer.Option(metavar="N", help="Most requests a minute.")] = None,
    json: JsonOption = False,
) -> None:
    """Set what a user may keep and ask; what is not given stays."""
    given = {"memories": memories, "documents": documents, "bytes": size, "requests": requests}
    changes = {option: _limit(value, option) for option, value in given.items() if value is not None}
    with _users(context) as (_, users):
        users.set_quota(name, replace(users.get(name).quota, **changes))
        quota = asdict(users.get(name).quota)
    if json:
        print_json({"outcome": "done", "name": name, "quota": quota})
    else:
        print_text(", ".join(f"{what} {_UNLIMITED if most is None else most}" for what, most in quota.items()))


def _limit(value: str, option: str) -> int | None:
    if value == _UNLIMITED:
        return None
    if not (value.isascii() and value.isdecimal() and int(value) > 0):
        raise typer.BadParameter(f"a whole number above 0 is needed, or {_UNLIMITED}", param_hint=f"--{option}")
    return int(value)


def remove_user(
    context: typer.Context,
    name: UserArgument,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """Remove a user, and erase everything in the namespace of their own; prints the receipt of erasure.

    Their token is worth nothing from the first moment. Where it is broken off, run it again.
    """
    from tellback.agent.desk.results import receipt_object

    with _users(context) as (opened, users):
        user = users.get(name)
        plan = run(opened.memory.forget_namespace(user.namespace, dry_run=True))
        count = len(plan.memories)
        require_terminal_or_yes(yes=yes)
        if not yes:
            question = f"Remove {name}, and erase {count} memories of {user.namespace} for good?"
            confirm_or_exit(question, "nothing was done")
        users.revoke(name)
        receipt = run(opened.memory.forget_namespace(user.namespace))
        users.remove(name)
    if json:
        print_json({"outcome": "done", "name": name, "receipt": receipt_object(receipt)})
        return
    print_text(f"{name} is removed, and {count} memories of {user.namespace} are erased")
    for copy in receipt.unreached:
        print_note(f"not reached: {copy.kind} {copy.path}")
