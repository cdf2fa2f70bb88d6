"""Options of commands: declarations that several share, many options as one frozen value, and parsing of values."""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

import typer

OptionsT = TypeVar("OptionsT")

AsOfOption: TypeAlias = Annotated[str | None, typer.Option(metavar="TIME", help="What held then, as is known now.")]
IdArgument: TypeAlias = Annotated[str, typer.Argument(metavar="ID", help="Which memory.")]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
KnownAtOption: TypeAlias = Annotated[str | None, typer.Option(metavar="TIME", help="What was known then.")]
LimitOption: TypeAlias = Annotated[int, typer.Option(metavar="COUNT", help="How many at most.", min=1)]
QuestionArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="QUESTION", help="What you want to know; '-' reads it from standard input.")
]
QuietOption: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
ScopeOption: TypeAlias = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="Only of this scope; may be repeated.")
]
YesOption: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
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


_DURATION_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION: Final = re.compile(r"(\d+)\s*([mhdw])")


def parse_duration(text: str, *, name: str) -> timedelta:
    """Return the length of time that *text* names: a number and one of m, h, d, w."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no length of time; say 12h, 30d or 2w", param_hint=name)
    try:
        return timedelta(**{_DURATION_UNITS[match[2]]: int(match[1])})
    except OverflowError as error:
        raise typer.BadParameter(f"{text!r} is too long", param_hint=name) from error


def parse_time(text: str | None, *, name: str) -> datetime | None:
    """Return the time that *text* names, None for None; without an offset in the local zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        problem = f"a time such as 2026-05-03 or 2026-05-03T18:30+01:00 is needed, got {text!r}"
        raise typer.BadParameter(problem, param_hint=name) from None
    try:
        return moment.astimezone()
    except (OverflowError, OSError, ValueError):  # at the ends of the calendar
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def parse_time_or_duration(text: str, *, name: str) -> datetime | timedelta:
    """Return the time that *text* names (2026-05-01, with or without a time of day), or a length of time."""
    if _DURATION.fullmatch(text.strip().lower()):
        return parse_duration(text, name=name)
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise typer.BadParameter(
            f"{text!r} is neither a day (2026-05-01) nor a length of time (30d)", param_hint=name
        ) from error


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
    """Return the filter that *text* writes as a JSON object."""
    if text is None:
        return None
    try:
        where = json.loads(text)
    except ValueError as error:
        raise typer.BadParameter(f"is not JSON ({error})", param_hint=name) from error
    if not isinstance(where, dict):
        raise typer.BadParameter('is not a JSON object, as in {"kind": "event"}', param_hint=name)
    return where
