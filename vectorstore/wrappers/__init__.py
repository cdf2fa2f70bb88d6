"""Stores around a store: each holds another and adds one behaviour to it."""

from vectorstore.wrappers.base import WrapperStore, lacking, lifecycle_of
from vectorstore.wrappers.observable import ObservableStore, StoreEvent

__all__ = ["ObservableStore", "StoreEvent", "WrapperStore", "lacking", "lifecycle_of"]
