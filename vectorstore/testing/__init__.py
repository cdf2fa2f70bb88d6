"""Tests that a store must pass, shipped for everybody's stores: contract suites, and a plain model.

    from tellback.vectorstore.testing import FilterContract, LifecycleContract, VectorStoreContract

The suites need pytest, which ``pip install '.[dev]'`` brings; the model does not.
"""

from __future__ import annotations

from typing import Final

from tellback.vectorstore.lazy_face import LazyFace as _LazyFace

_TOPICS: Final = (
    *("durability", "filter", "multi_handle", "namespace", "search"),
    *("space", "validation", "view", "wrapper", "write"),
)

try:
    import pytest
except ModuleNotFoundError:
    pass  # the model is for programs, too
else:
    pytest.register_assert_rewrite(*(f"{__name__}.{topic}_contract" for topic in _TOPICS))

_FACE: Final = _LazyFace(__name__, hints=False, extra="dev")
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
