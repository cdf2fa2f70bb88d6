"""The internal face of the memory layer: names that the agent layer and the benchmarks need and users seldom do.

Helpers that may change without notice, and types of values that a program receives but does not construct, for
annotations. What a program calls, constructs, implements or catches stands in ``memory``.
"""

from __future__ import annotations

from typing import Final

from tellback.vectorstore.lazy_face import LazyFace as _LazyFace

_FACE: Final = _LazyFace(__name__, hints=False)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
