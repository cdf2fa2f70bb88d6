"""The decorator ``dataclass``, as the standard library's, at a quarter of its time: a command defines a hundred classes
before it answers.

The standard library writes and compiles up to six functions for a class. Here that is done for the constructor alone,
and when it is first asked for; the other five are closures. ``fields``, ``replace``, ``asdict``, pickling and type
checkers find a dataclass.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["dataclass"]

ClassT = TypeVar("ClassT", bound=type)

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        repr: bool = True,  # noqa: A002  # as the standard library calls it
        eq: bool = True,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
    ) -> Any:
        """Make *cls* a dataclass; the options are those of the standard library."""

        def decorate(cls: type) -> type:
            if any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:]):
                options = {"repr": repr, "eq": eq, "frozen": frozen, "slots": slots, "kw_only": kw_only}
                return dataclasses.dataclass(**options)(cls)
            plain = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            plain.__dataclass_params__.frozen = frozen  # a class that inherits from it must be so, too
            return _with_methods(plain, shown=repr, eq=eq, frozen=frozen, slots=slots)

        return decorate if cls is None else decorate(cls)


def _with_methods(cls: ClassT, *, shown: bool, eq: bool, frozen: bool, slots: bool) -> ClassT:
    fields = dataclasses.fields(cls)
    names = tuple(field.name for field in fields)
    methods: dict[str, Any] = {"__init__": _LazyConstructor(cls, frozen=frozen)}
    if shown:
        methods["__repr__"] = _representation([field.name for field in fields if field.repr])
    if eq:
        methods["__eq__"] = _equality([field.name for field in fields if field.compare])
        hashed = [field.name for field in fields if (field.compare if field.hash is None else field.hash)]
        methods["__hash__"] = _hash(hashed) if frozen else None
    if frozen:
        methods |= _refusals(cls, frozenset(names))
    if frozen and slots:
        methods |= _state(names)
    for name, method in methods.items():
        if name not in cls.__dict__ or (name == "__hash__" and cls.__dict__[name] is None):
            setattr(cls, name, method)
    return cls


class _LazyConstructor:
    """Descriptor in the place of ``__init__`` of *cls*: the first use compiles the constructor and puts it there.

    Most commands make objects of few of their classes. Two threads at once compile it twice, which is harmless.
    """

    def __init__(self, cls: type, *, frozen: bool) -> None:
        self._cls = cls
        self._frozen = frozen

    def __get__(self, value: object, owner: type | None = None) -> Callable[..., None]:
        constructor = _constructor(self._cls, dataclasses.fields(self._cls), frozen=self._frozen)
        if self._cls.__dict__.get("__init__") is self:
            self._cls.__init__ = constructor
        return constructor if value is None else partial(constructor, value)


_FACTORY = object()
"""The default of a parameter whose value a factory makes."""


def _constructor(cls: type, fields: Sequence[dataclasses.Field[Any]], *, frozen: bool) -> Callable[..., None]:
    parameters: dict[bool, list[str]] = {False: [], True: []}
    names: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    body = []
    for field in fields:
        name, parameter, value = field.name, field.name, field.name
        if field.default is not dataclasses.MISSING:
            names[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            names[f"_make_{name}"] = field.default_factory
            parameter = f"{name}=_FACTORY"
            value = f"_make_{name}() if {name} is _FACTORY else {name}" if field.init else f"_make_{name}()"
        elif not field.init:
            continue
        if field.init:
            parameters[bool(field.kw_only)].append(parameter)
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    signature = ", ".join(["self", *parameters[False], *(["*", *parameters[True]] if parameters[True] else ())])
    exec(f"def __init__({signature}):\n " + "\n ".join(body or ["pass"]), names)  # noqa: S102  # names of fields alone
    constructor: Callable[..., None] = names["__init__"]
    constructor.__qualname__ = f"{cls.__qualname__}.__init__"
    constructor.__module__ = cls.__module__
    constructor.__annotations__ = {**{field.name: field.type for field in fields if field.init}, "return": None}
    return constructor


def _values_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _equality(names: Sequence[str]) -> Callable[[Any, object], Any]:
    values = _values_of(names)

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return __eq__


def _hash(names: Sequence[str]) -> Callable[[Any], int]:
    values = _values_of(names)

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values(self))

    return __hash__


def _representation(names: Sequence[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _refusals(cls: type, names: frozenset[str]) -> dict[str, Callable[..., None]]:
    def __setattr__(self: Any, name: str, value: object) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


def _state(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    def __getstate__(self: Any) -> list[Any]:  # noqa: N807
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: Sequence[Any]) -> None:  # noqa: N807
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    return {"__getstate__": __getstate__, "__setstate__": __setstate__}
