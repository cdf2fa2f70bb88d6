"""``tellback config rights``: what a role of a PostgreSQL server may do with a memory on it."""

from __future__ import annotations

from typing import Annotated

import typer

from tellback.agent.assistant.cli.command_context import global_options
from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import print_json, print_text


def grant(
    context: typer.Context,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="A role of the server.")],
    tenants: Annotated[
        bool, typer.Option("--tenants", help="Only the namespace that its own address names (?tenant=NAME).")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Let a role of the server work with the memory, without the right to make tables.

    It is for the role that owns the tables, which makes all of them now; and again after an upgrade.
    """
    from tellback.memory import grant_rights

    withheld = grant_rights(str(global_options(context).configuration().settings.memory), role, tenants=tenants)
    if json:
        print_json({"role": role, "withheld": withheld})
        return
    print_text(f"{role} may work with this memory" + (", a connection with one namespace" if tenants else ""))
    if withheld:
        print_text(f"  without {', '.join(withheld)}, which do not tell whose a row is")
