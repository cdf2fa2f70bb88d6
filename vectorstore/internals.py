"""The internal face of the vector store: what the memory layer needs of index and scans, and users do not.

It may change without notice.
"""

from __future__ import annotations

from typing import Final

from tellback.vectorstore.lazy_face import LazyFace as _LazyFace

_FACE: Final = _LazyFace(__name__, hints=False)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
