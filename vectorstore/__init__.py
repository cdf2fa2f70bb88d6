"""The vector store of Tellback: ids, vectors, text and metadata in; the nearest out.

>>> from tellback.vectorstore import Entry, Space, open_store
>>> store = open_store("numpy:", space=Space("toy", 2))
>>> store.upsert([Entry("a", [1, 0], "north"), Entry("b", [0, 1], "east")])
2
>>> store.search([1, 0.1], k=1)[0].entry.text
'north'
"""

from __future__ import annotations

from typing import Final

from tellback.vectorstore.lazy_face import LazyFace as _LazyFace

_FACE: Final = _LazyFace(__name__)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
