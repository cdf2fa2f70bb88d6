"""Lazy face: public names of a package that are imported, each from its own module, when they are first used.

A program then loads only the parts that it needs. A stub beside the package lists the same names for type checkers.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module


class LazyFace:
    """Names of *package* by the module that defines them: *exports* has a module's names in one text.

    A package takes ``names`` for its ``__all__``, ``load`` for its ``__getattr__`` and ``list`` for its ``__dir__``.
    With *hints*, calls that are written wrongly say what is right (``call_hints``).
    """

    def __init__(self, package: str, exports: Mapping[str, str], *, hints: bool = True) -> None:
        self._package = package
        self._hints = hints
        self.modules = {name: module for module, names in exports.items() for name in names.split()}
        self.names = tuple(sorted(self.modules))

    def load(self, name: str) -> object:
        """Return the value of *name* from its module, and keep it in the package."""
        if name not in self.modules:
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
        value: object = getattr(import_module(self.modules[name]), name)
        if self._hints:
            from vectorstore.call_hints import with_hints

            value = with_hints(value)
        setattr(sys.modules[self._package], name, value)
        return value

    def list(self) -> list[str]:
        """Return the names, sorted."""
        return [*self.names]
