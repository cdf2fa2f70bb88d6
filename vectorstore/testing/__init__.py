"""Tests that a store must pass, shipped for everybody's stores: contract suites, and a plain model.

    from tellback.vectorstore.testing import FilterContract, LifecycleContract, VectorStoreContract

The suites need pytest, which ``pip install '.[dev]'`` brings; the model does not.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from tellback.vectorstore.errors import MissingExtra as _MissingExtra
from tellback.vectorstore.testing.model import ModelStore

if TYPE_CHECKING:
    from tellback.vectorstore.testing.filter_contract import BAD_FILTERS, FILTER_CASES, FilterCase, FilterContract
    from tellback.vectorstore.testing.store_contract import LifecycleContract, VectorStoreContract
    from tellback.vectorstore.testing.suite import StoreContract
    from tellback.vectorstore.testing.wrapper_contract import WrapperContract

__all__ = [
    "BAD_FILTERS",
    "FILTER_CASES",
    "FilterCase",
    "FilterContract",
    "LifecycleContract",
    "ModelStore",
    "StoreContract",
    "VectorStoreContract",
    "WrapperContract",
]

_SUITES = {
    "filter_contract": "BAD_FILTERS FILTER_CASES FilterCase FilterContract",
    "store_contract": "LifecycleContract VectorStoreContract",
    "suite": "StoreContract",
    "wrapper_contract": "WrapperContract",
}
_SUITE_OF = {name: module for module, names in _SUITES.items() for name in names.split()}
_TOPICS = (
    *("durability", "filter", "multi_handle", "namespace", "search"),
    *("space", "validation", "view", "wrapper", "write"),
)

try:
    import pytest
except ModuleNotFoundError:
    pass  # the model is for programs, too
else:
    pytest.register_assert_rewrite(*(f"{__name__}.{topic}_contract" for topic in _TOPICS))


def __getattr__(name: str) -> object:
    if name not in _SUITE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value: object = getattr(_import_module(f"{__name__}.{_SUITE_OF[name]}"), name)
    except ModuleNotFoundError as error:
        raise _MissingExtra(f"{__name__}.{name}", "dev") from error
    globals()[name] = value
    return value
