"""Tests that a store must pass, shipped for everybody's stores: contract suites, parity runs, a plain model.

    from vectorstore.testing import FilterContract, LifecycleContract, VectorStoreContract

Needs pytest, which ``pip install -e '.[dev]'`` brings.
"""

from vectorstore.errors import MissingExtra as _MissingExtra

try:
    import pytest
except ImportError as error:
    raise _MissingExtra("vectorstore.testing", "dev") from error
else:
    _TOPICS = (
        *("durability", "filter", "multi_handle", "namespace", "search"),
        *("space", "validation", "view", "wrapper", "write"),
    )
    pytest.register_assert_rewrite(*(f"vectorstore.testing.{topic}_contract" for topic in _TOPICS))

from vectorstore.testing.filter_contract import BAD_FILTERS, FILTER_CASES, FilterCase, FilterContract
from vectorstore.testing.model import ModelStore, SpacesModel
from vectorstore.testing.parity import ParityError, check_parity
from vectorstore.testing.store_contract import LifecycleContract, VectorStoreContract
from vectorstore.testing.suite import StoreContract
from vectorstore.testing.wrapper_contract import WrapperContract

__all__ = [
    "BAD_FILTERS",
    "FILTER_CASES",
    "FilterCase",
    "FilterContract",
    "LifecycleContract",
    "ModelStore",
    "ParityError",
    "SpacesModel",
    "StoreContract",
    "VectorStoreContract",
    "WrapperContract",
    "check_parity",
]
