"""Stores around a store: each holds another and adds one behaviour to it."""

from vectorstore.wrappers.base import WrapperStore, lifecycle_of, missing_operations
from vectorstore.wrappers.observable import ObservableStore, StoreEvent

__all__ = ["ObservableStore", "StoreEvent", "WrapperStore", "lifecycle_of", "missing_operations"]
