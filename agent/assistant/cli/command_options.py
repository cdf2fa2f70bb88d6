"""Options of a command as one frozen value, for commands that have many."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_type_hints

import typer

OptionsT = TypeVar("OptionsT")


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
