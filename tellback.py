"""Tellback: tell it once, and it tells it back, right, later.

>>> from tellback import open_memory
>>> memory = open_memory("assistant.db")

The packages are ``tellback.agent``, ``tellback.memory`` and ``tellback.vectorstore``. Installed, this file is the
``__init__.py`` of a folder that holds them. In a checkout it is a module whose path is the checkout, where they lie at
the top: the same names, imported from the files that are edited.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if sys.version_info < (3, 11):  # noqa: UP036  # a checkout on Python's path is not held back by pip
    raise ImportError(f"Tellback needs Python 3.11 or newer; this is {sys.version.split()[0]} ({sys.executable})")

if TYPE_CHECKING:
    from tellback.agent import Agent as Agent
    from tellback.agent import tool as tool
    from tellback.memory import open_memory as open_memory
    from tellback.vectorstore import open_store as open_store

# pathlib would cost each hook a tenth of its time
__path__ = [os.path.dirname(os.path.realpath(__file__))]  # noqa: PTH120
__all__ = ("Agent", "open_memory", "open_store", "tool")

_FACES = {"Agent": "agent", "open_memory": "memory", "open_store": "vectorstore", "tool": "agent"}


def __getattr__(name: str) -> object:
    if name not in _FACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tellback.{_FACES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__]


def main() -> None:
    """Run the command line."""
    from tellback.agent.assistant.cli.launcher import main as run

    run()


if __name__ == "__main__":
    main()
