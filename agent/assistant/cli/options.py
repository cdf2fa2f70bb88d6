"""Options of commands: declarations that several share, many options as one frozen value, and parsing of values."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar, get_type_hints

import typer

from tellback.agent.assistant.cli.command_context import run
from tellback.agent.assistant.cli.times import parse_time

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.vectorstore import Filter

OptionsT = TypeVar("OptionsT")

AsOfOption: TypeAlias = Annotated[str | None, typer.Option(metavar="TIME", help="What held then, as is known now")]
IdArgument: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="Which memory.")]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
KnownAtOption: TypeAlias = Annotated[str | None, typer.Option(metavar="TIME", help="What was known then.")]
LimitOption: TypeAlias = Annotated[int, typer.Option(metavar="COUNT", help="How many at most.", min=1)]
QuestionArgument: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="QUESTION", help="What you want to know; '-' reads it from standard input.")
]
QuietOption: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
ScopeOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only of this scope; may be repeated.")
]
FullOption: TypeAlias = Annotated[bool, typer.Option("--full", help="Texts and ids whole, not shortened.")]
YesOption: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
SourceOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="A file, a folder, or a pattern; repeatable.")
]
TypeOption: TypeAlias = Annotated[list[str] | None, typer.Option(metavar="TYPE", help="pdf, markdown, …; repeatable.")]
ModifiedSinceOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="Files that changed since then.")
]
ModifiedUntilOption: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TIME", help="Files that did not change after it.")
]
IntoCollectionOption: TypeAlias = Annotated[
    str, typer.Option("--collection", metavar="NAME", help="Collection that the documents belong to.")
]
CollectionOption: TypeAlias = Annotated[str | None, typer.Option(metavar="NAME", help="Of this collection only.")]
TagOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="TAG", help="Only what has this tag; may be repeated.")
]
AttachOption: TypeAlias = Annotated[
    list[str] | None, typer.Option("--attach", metavar="FILE", help="Ask about this file too; may be repeated.")
]
DEFAULT_LIMIT = 20


def with_options(kind: type[OptionsT]) -> Callable[[Callable[[typer.Context, OptionsT], None]], Callable[..., None]]:
    """Return a decorator that gives a command one parameter for each field of the dataclass *kind*.

    The fields are annotated as parameters of a command are. The command itself takes the context and the options as one
    value.
    """
    hints = get_type_hints(kind, include_extras=True)
    parameters = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(kind)  # type: ignore[arg-type]  # a dataclass, which typing cannot ask for
    ]
    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)

    def decorate(command: Callable[[typer.Context, OptionsT], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapped(context: typer.Context, **options: Any) -> None:
            command(context, kind(**options))

        wrapped.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]  # typer reads it
        wrapped.__annotations__ = {"context": typer.Context, **hints}
        return wrapped

    return decorate


def parse_scopes(words: Sequence[str], *, name: str) -> dict[str, str] | None:
    """Return the scopes that *words* name, each as NAME=VALUE; None where there are none."""
    scopes: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise typer.BadParameter(f"{word!r} is not NAME=VALUE, as in project=garden", param_hint=name)
        scopes[key.strip()] = value.strip()
    return scopes or None


def parse_filter(text: str | None, *, name: str) -> Mapping[str, Any] | None:
    """Return the filter in the JSON object *text*; None for None."""
    if text is None:
        return None
    try:
        where = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"is not JSON ({error})", param_hint=name) from error
    if not isinstance(where, dict):
        raise typer.BadParameter('is not a JSON object, as in {"kind": "event"}', param_hint=name)
    return where


def chosen_documents(
    opened: OpenedMemory,
    sources: Sequence[str] | None,
    types: Sequence[str] | None,
    since: str | None,
    until: str | None,
    *,
    collection: str | None,
) -> Filter | None:
    """Return the filter of the documents that the options choose, None without options; no match is an error."""
    if not (sources or types or since or until):
        return None
    where = run(
        opened.knowledge(collection or "default").document_filter(
            sources=sources or (),
            types=types or (),
            modified_since=parse_time(since, name="--modified-since"),
            modified_until=parse_time(until, name="--modified-until"),
        )
    )
    if not where["document"]["$in"]:
        raise typer.BadParameter("no document is of that source, type or time; `tellback documents` lists all")
    return where
