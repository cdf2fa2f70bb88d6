"""``tellback index``: indexes on a PostgreSQL server for namespaces that are too large for the memory of a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tellback.agent.assistant.cli.command_context import global_options
from tellback.agent.assistant.cli.options import JsonOption
from tellback.agent.assistant.cli.output import format_count, print_json, print_note, print_table, print_text

if TYPE_CHECKING:
    from tellback.agent.assistant.config import AssistantSettings


def build(
    context: typer.Context,
    half: Annotated[bool, typer.Option("--half", help="Keep vectors in half of the room.")] = False,
    smallest: Annotated[
        int, typer.Option(metavar="COUNT", help="Build none of fewer memories or passages.", min=1)
    ] = 50_000,
    json: JsonOption = False,
) -> None:
    """Build indexes of a namespace on the server.

    For a namespace that is too large for the memory of a worker. Words are found with the same scores as before,
    vectors by HNSW, which may miss some. Again builds anew. It needs the role that owns the tables.
    """
    from tellback.memory.internals import ServerIndexes

    settings = _settings(context)
    kind: Literal["halfvec", "vector"] = "halfvec" if half else "vector"
    _print(
        ServerIndexes(str(settings.memory)).build(namespace=settings.namespace, kind=kind, smallest=smallest),
        json=json,
        none=f"nothing in {settings.namespace or 'the default namespace'} has {smallest:,} memories or passages",
    )


def drop(context: typer.Context, json: JsonOption = False) -> None:
    """Drop the indexes of a namespace; it is searched in the memory of the workers again."""
    from tellback.memory.internals import ServerIndexes

    settings = _settings(context)
    dropped = ServerIndexes(str(settings.memory)).drop(namespace=settings.namespace)
    if json:
        print_json({"dropped": list(map(asdict, dropped))})
        return
    print_text(f"dropped {format_count(len(dropped), 'index', 'indexes')}")


def list_indexes(context: typer.Context, json: JsonOption = False) -> None:
    """List the indexes of all namespaces."""
    from tellback.memory.internals import ServerIndexes

    settings = _settings(context)
    _print(ServerIndexes(str(settings.memory)).all(), json=json, none="no index")


def _settings(context: typer.Context) -> AssistantSettings:
    return global_options(context).configuration().settings


def _print(indexes: Sequence[Any], *, json: bool, none: str) -> None:
    if json:
        print_json({"indexes": list(map(asdict, indexes))})
        return
    if not indexes:
        print_note(none)
        return
    rows = [
        (
            index.namespace,
            index.collection or "",
            f"{index.entries:,}",
            index.vectors or "none: build it again",
            f"{index.bytes / 1e6:,.0f} MB",
        )
        for index in indexes
    ]
    print_table(("namespace", "collection", "entries", "vectors", "HNSW"), rows)
