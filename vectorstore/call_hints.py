"""Call hints: sentences for calls of the public names that were written wrongly, in the place of Python's own words.

An unknown keyword names the one that was meant; a forgotten ``await`` or ``async`` says where it belongs. Faces add
hints to a name when it is first used (``LazyFace``); a class whose objects come from a factory is decorated
(``with_hints``). A call that is right pays for one more frame: the hint is looked for when a call has failed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator, Iterable, Mapping
from enum import Enum
from functools import cache, wraps
from types import AsyncGeneratorType, CoroutineType, FunctionType, TracebackType
from typing import Any, ClassVar, Final, NoReturn, TypeVar

HintedT = TypeVar("HintedT")
_OUR_PACKAGES: Final = frozenset({"vectorstore", "memory", "agent"})
_CO_VARKEYWORDS: Final = 0x08
_CO_COROUTINE: Final = 0x80
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


def with_hints(value: HintedT) -> HintedT:
    """Return a function with hints; a class gets them in its constructor and methods, those it inherits from ours too.

    Errors, enumerations and what a protocol only declares stay as they are.
    """
    if isinstance(value, FunctionType):
        return _hinted(value, value.__qualname__)  # type: ignore[return-value]
    if isinstance(value, type) and not issubclass(value, (BaseException, Enum)):
        _hint_class(value)  # type: ignore[arg-type]  # a class can be hashed
    return value


def unknown_keyword(function: str, name: str, known: Collection[str]) -> TypeError:
    """Return the error for the keyword *name* that *function* does not take, with the *known* one that was meant."""
    from difflib import get_close_matches

    ours = _OTHER_WORDS.get(name)
    close = [ours] if ours in known else get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}=?" if close else f"it takes {', '.join(sorted(known)) or 'no arguments'}"
    return TypeError(f"{function} takes no {name}=; {hint}")


class _NotYetAResult:
    """Base of what a call returns before it is awaited: uses as if it were the result raise with *_remedy*."""

    _remedy: ClassVar[str]

    def __init__(self, awaited: Any, name: str) -> None:
        self._awaited = awaited
        self._name = name

    @property
    def _problem(self) -> str:
        return self._remedy.format(name=self._name, call=f"{self._name.rpartition('.')[2]}(…)")

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("cr_", "ag_", "__")):
            return getattr(self._awaited, name)
        raise AttributeError(f"{self._problem}, before .{name}")

    def __repr__(self) -> str:
        return repr(self._awaited)

    def _refused(self, *_: object) -> NoReturn:
        raise TypeError(self._problem)

    __iter__ = __getitem__ = __len__ = __contains__ = __bool__ = _refused
    __enter__ = __exit__ = __aenter__ = __aexit__ = _refused


class AwaitedCall(_NotYetAResult, Coroutine[Any, Any, Any]):
    """Coroutine of a call; without ``await`` it says so."""

    _remedy = "{name} was not awaited: write `await …{call}`, or `run_sync(…{call})` in a plain script"
    __aiter__ = _NotYetAResult._refused

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._awaited.__await__()  # type: ignore[no-any-return]

    def send(self, value: Any) -> Any:
        """Go on with *value*, as an event loop does."""
        return self._awaited.send(value)

    def throw(self, kind: Any, value: BaseException | object = None, trace: TracebackType | None = None) -> Any:
        """Go on with an error, as an event loop does."""
        error = kind if isinstance(kind, BaseException) else value if isinstance(value, BaseException) else kind()
        return self._awaited.throw(error.with_traceback(trace) if trace is not None else error)

    def close(self) -> None:
        """End the call."""
        self._awaited.close()


class AwaitedStream(_NotYetAResult, AsyncGenerator[Any, Any]):
    """Asynchronous generator of a call; iterated without ``async``, or awaited, it says so."""

    _remedy = "{name} is a stream: write `async for item in …{call}` inside an `async def`"
    __next__ = __await__ = _NotYetAResult._refused

    def __anext__(self) -> Coroutine[Any, Any, Any]:
        return self._awaited.__anext__()  # type: ignore[no-any-return]

    def asend(self, value: Any) -> Coroutine[Any, Any, Any]:
        """Go on with *value*."""
        return self._awaited.asend(value)  # type: ignore[no-any-return]

    def athrow(self, kind: Any, *rest: Any) -> Coroutine[Any, Any, Any]:
        """Go on with an error."""
        return self._awaited.athrow(kind, *rest)  # type: ignore[no-any-return]

    def aclose(self) -> Coroutine[Any, Any, None]:
        """End the stream."""
        return self._awaited.aclose()  # type: ignore[no-any-return]


_AWAITED: Final[Mapping[type, Callable[[Any, str], object]]] = {
    CoroutineType: AwaitedCall,
    AsyncGeneratorType: AwaitedStream,
}


@cache
def _hint_class(cls: type) -> None:
    for base in (*cls.__mro__, type(cls)):
        if base.__module__.partition(".")[0] in _OUR_PACKAGES:
            _hint_methods(base)
    if _is_protocol(cls):
        return
    pydantic_model = cls if hasattr(cls, "model_fields") else None
    cls.__init__ = _hinted(cls.__init__, cls.__name__, parameters_of=pydantic_model)  # type: ignore[misc]
    if hasattr(cls, "__aenter__") and not hasattr(cls, "__enter__"):
        cls.__enter__ = cls.__exit__ = _without_async(cls.__name__)  # type: ignore[attr-defined]


def _hint_methods(cls: type) -> None:
    for name, member in list(vars(cls).items()):
        title = f"{cls.__name__}.{name}"
        if name.startswith("_"):
            continue
        if isinstance(member, (classmethod, staticmethod)) and isinstance(member.__func__, FunctionType):
            setattr(cls, name, type(member)(_hinted(member.__func__, title)))
        elif isinstance(member, FunctionType) and not _is_protocol(cls):
            setattr(cls, name, _hinted(member, title))


def _is_protocol(cls: type) -> bool:
    return bool(cls.__dict__.get("_is_protocol"))


def _hinted(
    function: Callable[..., Any], title: str, *, parameters_of: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    if hasattr(function, "_call_hints_of"):
        if function._call_hints_of == title:
            return function
        function = function.__wrapped__  # type: ignore[attr-defined]
    code = getattr(function, "__code__", None)
    flags = 0 if code is None else code.co_flags
    checks_first = bool(flags & _CO_VARKEYWORDS)  # unknown ones would go in, to be noticed late or never

    @wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        if checks_first and options:
            _check_keywords(options, parameters_of or function, title)
        try:
            result = function(*arguments, **options)
        except (TypeError, ValueError):
            _check_keywords(options, parameters_of or function, title)
            raise
        awaited = _AWAITED.get(type(result))
        return result if awaited is None else awaited(result, title)

    called._call_hints_of = title  # type: ignore[attr-defined]
    return _as_coroutine_function(called) if flags & _CO_COROUTINE else called


def _check_keywords(names: Iterable[str], function: Callable[..., Any], title: str) -> None:
    known = _keywords_of(function)
    for name in names:
        if known is not None and name not in known:
            raise unknown_keyword(title, name, known) from None


@cache
def _keywords_of(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the keywords that *function* takes, those of ``**options: Unpack[…]`` too; None where it takes any."""
    from inspect import Parameter, signature, unwrap

    if function is object.__init__:
        return frozenset()
    names = set()
    for parameter in signature(function).parameters.values():
        if parameter.kind is Parameter.VAR_KEYWORD:
            options = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
            if options is None:
                return None
            names |= set(unwrap(function).__globals__[options[1]].__annotations__)
        elif parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            names.add(parameter.name)
    return frozenset(names - {"self", "cls"})


def _as_coroutine_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark *function*, which returns coroutines, as a coroutine function."""
    if sys.version_info >= (3, 12):
        from inspect import markcoroutinefunction

        return markcoroutinefunction(function)
    import asyncio

    function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return function


def _without_async(name: str) -> Callable[..., NoReturn]:
    def refused(*_: object) -> NoReturn:
        raise TypeError(f"{name} is opened with `async with`, inside an `async def`")

    return refused
