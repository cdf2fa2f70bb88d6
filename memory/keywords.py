"""Hints for unknown keyword arguments: the name that was meant, among those that a function takes.

People come with the words of other libraries, such as ``limit=`` or ``user_id=``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from difflib import get_close_matches
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

_OTHER_WORDS: Final[Mapping[str, str]] = {
    "limit": "k",
    "n": "k",
    "n_results": "k",
    "top_k": "k",
    "key": "api_key",
    "url": "base_url",
    "api_base": "base_url",
    "max_iterations": "max_rounds",
    "max_turns": "max_rounds",
    "user": "namespace",
    "user_id": "namespace",
    "tenant": "namespace",
    "filter": "where",
    "filters": "where",
    "threshold": "where",
    "collection": "collections",
    "model": "provider",
    "llm": "provider",
    "system": "settings",
    "system_prompt": "settings",
    "instructions": "settings",
    "max_rounds": "settings",
    "message_history": "session",
    "history": "session",
    "thread_id": "session",
    "session_id": "session",
    "output_type": "result_type",
    "response_format": "result_type",
    "timeout": "deadline",
    "embedding": "embedder",
    "embedding_function": "embedder",
    "content": "text",
    "metadata": "tags",
}
"""Words of other libraries, and ours for the same."""


def unknown_keyword(function: str, name: str, known: Collection[str]) -> TypeError:
    """Return the error for the keyword *name* that *function* does not take, with the *known* one that was meant."""
    meant = _OTHER_WORDS.get(name)
    close = [meant] if meant in known else get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}=?" if close else f"it takes {', '.join(sorted(known))}"
    return TypeError(f"{function} takes no {name}=; {hint}")


def keywords_of(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the names of the parameters of *function*; None where it takes any (``**options``)."""
    code = function.__code__
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return None
    return frozenset(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def suggests_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate *function*: an unknown keyword raises ``TypeError`` with the one meant; ``**options`` take any."""
    known = keywords_of(cast("Callable[..., Any]", function))
    if known is None:
        return function
    title = function.__qualname__.removesuffix(".__init__")

    def check(names: Iterable[str]) -> None:
        for name in names:
            if name not in known:
                raise unknown_keyword(title, name, known - {"self", "cls"})

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def checked_coroutine(*args: Any, **kwargs: Any) -> Any:
            check(kwargs)
            return await function(*args, **kwargs)

        return cast("Callable[P, R]", checked_coroutine)

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        check(kwargs)
        return function(*args, **kwargs)

    return checked


def suggests_fields(cls: C) -> C:
    """Decorate a class as ``suggests_keywords`` does a function: its constructor names the keyword that was meant."""
    cls.__init__ = suggests_keywords(cls.__init__)  # type: ignore[misc]
    return cls
