"""Jobs: work beside the calls, kept in the memory's database until it is done, whichever process does it.

A worker that is killed is followed by another one; what a step wrote is there once.
"""

from __future__ import annotations

from typing import Final

from tellback.vectorstore.lazy_face import LazyFace as _LazyFace

_FACE: Final = _LazyFace(__name__)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
