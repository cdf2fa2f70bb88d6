"""The memory layer of Tellback: what is said and read is kept, found again, corrected and forgotten.

>>> from tellback.memory import open_memory, run_sync
>>> memory = open_memory("assistant.db")
>>> report = run_sync(memory.remember("I moved to Lisbon."))
>>> run_sync(memory.recall("Where do I live?"))[0].memory.text
'I moved to Lisbon.'
"""

from __future__ import annotations

from typing import Final

from tellback.vectorstore.lazy_face import LazyFace as _LazyFace

_FACE: Final = _LazyFace(__name__)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
