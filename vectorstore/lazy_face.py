"""Lazy face: public names of a package that are imported, each from its own module, when they are first used.

A program then loads only the parts that it needs. The names stand once, in the stub (``.pyi``) beside the package that
type checkers read too: a line ``from .module import Name as Name`` each.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from importlib.util import resolve_name
from typing import Final

_IMPORT: Final = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


class LazyFace:
    """Names of *package*, as its stub lists them.

    A package takes ``names`` for its ``__all__``, ``load`` for its ``__getattr__`` and ``list`` for its ``__dir__``.
    With *hints*, calls with an unknown keyword name the one that was meant (``call_hints``). Where a module is missing
    that *extra* brings, ``MissingExtra`` is raised.

    In a checkout on Python's path ``memory`` can be imported beside ``tellback.memory``: it then has the names of that
    one, and no modules, so that no class exists twice.
    """

    def __init__(self, package: str, *, hints: bool = True, extra: str | None = None) -> None:
        self._package = package
        self._hints, self._extra = hints, extra
        if not package.startswith("tellback."):
            sys.modules[package].__path__ = []
        spec = sys.modules[package].__spec__
        assert spec is not None, package
        assert spec.origin is not None, package
        with open(spec.origin + "i", encoding="utf-8") as stub:  # noqa: PTH123  # pathlib would be imported for it alone
            lines = _IMPORT.findall(stub.read())
        parent = "tellback." + (spec.parent or "").removeprefix("tellback.")
        self.modules = {name: resolve_name(module, parent) for module, name in lines}
        self.names = tuple(sorted(self.modules))

    def load(self, name: str) -> object:
        """Return the value of *name* from its module, and keep it in the package."""
        if name not in self.modules:
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
        if not self._package.startswith("tellback."):
            value: object = getattr(import_module(f"tellback.{self._package}"), name)
        else:
            try:
                value = getattr(import_module(self.modules[name]), name)
            except ModuleNotFoundError as error:
                if self._extra is None:
                    raise
                from tellback.vectorstore.errors import MissingExtra

                raise MissingExtra(f"{self._package}.{name}", self._extra) from error
        if self._hints:
            from tellback.vectorstore.call_hints import with_hints

            value = with_hints(value)
        setattr(sys.modules[self._package], name, value)
        return value

    def list(self) -> list[str]:
        """Return the names, sorted."""
        return [*self.names]
