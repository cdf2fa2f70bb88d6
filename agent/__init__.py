"""Agents that remember: a loop over messages and a model provider, with long-term memory around it.

>>> from tellback.agent import Agent, QuotingProvider
>>> from tellback.memory import open_memory
>>> agent = Agent(QuotingProvider(), memory=open_memory("chat.db"))
>>> agent.run_sync("I moved to Lisbon.").text
'Noted: “I moved to Lisbon.”'
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

if sys.version_info < (3, 11):  # noqa: UP036  # a checkout on Python's path is not held back by pip
    raise ImportError(f"Tellback needs Python 3.11 or newer; this is {sys.version.split()[0]} ({sys.executable})")


def _refuse_foreign(name: str) -> None:
    """Raise ``ImportError`` if Python finds another module in the place of our package *name*.

    A program's own ``memory.py`` or another distribution's package comes first where its folder does on the path.
    """
    spec = find_spec(name)
    origin = spec.origin if spec is not None else None
    ours = __file__.replace("\\", "/").rsplit("/", 2)[0]
    if origin is not None and origin.replace("\\", "/").rsplit("/", 2)[:2] != [ours, name]:
        raise ImportError(
            f"Python finds {origin} in the place of Tellback's package {name!r}: "
            "rename it, or take its folder from the path",
            name=name,
            path=origin,
        )


_refuse_foreign("memory")
_refuse_foreign("vectorstore")

from tellback.vectorstore.lazy_face import LazyFace as _LazyFace  # noqa: E402  # behind the refusal of another vectorstore

_FACE: Final = _LazyFace(__name__)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
