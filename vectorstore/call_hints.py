"""Call hints: an unknown keyword of a public name is answered with the one that was meant.

Faces add hints to a name when it is first used (``LazyFace``); a class whose objects come from a factory is decorated
(``with_hints``). A call that is right pays for one more frame: the hint is looked for when a call has failed. The
signature that tools see has the keywords of ``**options: Unpack[…]`` by name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from functools import cache, wraps
from inspect import Parameter, Signature, signature, unwrap
from types import CodeType, FunctionType
from typing import Any, Final, TypeVar

HintedT = TypeVar("HintedT")
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


@cache
def _hint_class(cls: type) -> None:
    for base in (*cls.__mro__, type(cls)):
        if base.__module__.startswith("tellback."):
            _hint_methods(base)
    if not _is_protocol(cls):
        pydantic_model = cls if hasattr(cls, "model_fields") else None
        cls.__init__ = _hinted(cls.__init__, cls.__name__, parameters_of=pydantic_model)  # type: ignore[misc]


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
    code: CodeType | None = getattr(function, "__code__", None)
    flags = 0 if code is None else code.co_flags
    checks_first = bool(flags & _CO_VARKEYWORDS)  # unknown ones would go in, to be noticed late or never

    @wraps(function)
    def called(*arguments: Any, **options: Any) -> Any:
        if checks_first and options:
            _check_keywords(options, parameters_of or function, _title_of(title, arguments))
        try:
            return function(*arguments, **options)
        except (TypeError, ValueError):
            _check_keywords(options, parameters_of or function, _title_of(title, arguments))
            raise

    called._call_hints_of = title  # type: ignore[attr-defined]
    if checks_first and parameters_of is None and (full := _full_signature(function)) is not None:
        called.__signature__ = full  # type: ignore[attr-defined]
    origin = getattr(unwrap(function), "__code__", None)
    if origin is not None:  # ``inspect.getsourcefile`` asks the code, and follows no ``__wrapped__``
        place = {"co_filename": origin.co_filename, "co_firstlineno": origin.co_firstlineno}
        called.__code__ = called.__code__.replace(**place)  # type: ignore[attr-defined]
    return _as_coroutine_function(called) if flags & _CO_COROUTINE else called


def _title_of(title: str, arguments: tuple[Any, ...]) -> str:
    """Return the *title* of a method with the class of its object: the one that defines it may be no public name."""
    defined_in, _, name = title.rpartition(".")
    kind = type(arguments[0]) if arguments else None
    is_method = kind is not None and any(base.__name__ == defined_in for base in kind.__mro__)
    return f"{kind.__name__}.{name}" if is_method and kind is not None else title


def _check_keywords(names: Iterable[str], function: Callable[..., Any], title: str) -> None:
    known = _keywords_of(function)
    for name in names:
        if known is not None and name not in known:
            raise unknown_keyword(title, name, known) from None


@cache
def _keywords_of(function: Callable[..., Any]) -> frozenset[str] | None:
    """Return the keywords that *function* takes, those of ``**options: Unpack[…]`` too; None where it takes any."""
    if function is object.__init__:
        return frozenset()
    parameters = (_full_signature(function) or signature(function)).parameters.values()
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
        return None
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return frozenset(parameter.name for parameter in parameters if parameter.kind in kinds) - {"self", "cls"}


def _full_signature(function: Callable[..., Any]) -> Signature | None:
    """Return the signature with the keywords of ``**options: Unpack[…]`` by name; None without such options.

    An option that may be left out has the default ``...``.
    """
    short = signature(function)
    *named, last = short.parameters.values() or [Parameter("none", Parameter.KEYWORD_ONLY)]
    options = re.fullmatch(r"Unpack\[(\w+)\]", str(last.annotation))
    if last.kind is not Parameter.VAR_KEYWORD or options is None:
        return None
    fields = unwrap(function).__globals__[options[1]]
    for name, annotation in fields.__annotations__.items():
        default = ... if name in fields.__optional_keys__ else Parameter.empty
        text = getattr(annotation, "__forward_arg__", annotation)
        named.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=text))
    return short.replace(parameters=named)


def _as_coroutine_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark *function*, which returns coroutines, as a coroutine function."""
    if sys.version_info >= (3, 12):
        from inspect import markcoroutinefunction

        return markcoroutinefunction(function)
    import asyncio

    function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return function
