"""Tests of agents and providers: a scripted provider, scripted servers, the contract of providers, items shown.

Only the contract needs pytest, which ``pip install '.[dev]'`` brings.
"""

from __future__ import annotations

from typing import Final

from tellback.vectorstore.lazy_face import LazyFace as _LazyFace

_FACE: Final = _LazyFace(__name__, hints=False, extra="dev")
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
