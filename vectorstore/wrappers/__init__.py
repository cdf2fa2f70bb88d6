"""Stores around a store: each holds another and adds one behaviour to it."""

from tellback.vectorstore.wrappers.base import WrapperStore, lifecycle_of, missing_operations
from tellback.vectorstore.wrappers.observable import ObservableStore, StoreEvent

__all__ = ["ObservableStore", "StoreEvent", "WrapperStore", "lifecycle_of", "missing_operations"]
