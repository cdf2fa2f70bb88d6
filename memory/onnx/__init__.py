"""ONNX models on this machine, by fastembed: an embedder and a cross-encoder reranker, of the extra `encoder`."""

from __future__ import annotations

from typing import Final

from vectorstore.lazy_face import LazyFace as _LazyFace

_EXPORTS: Final = {
    "memory.onnx.embedder": "OnnxEmbedder",
    "memory.onnx.reranker": "OnnxReranker",
}
"""The public names by the module that defines them; the stub beside this file lists the same for type checkers."""
_FACE: Final = _LazyFace(__name__, _EXPORTS)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
