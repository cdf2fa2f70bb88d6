"""A store with a second space begun, for the contracts that fill it, switch to it, and share it."""

from __future__ import annotations

from typing import Any

from vectorstore.protocol import LifecycleStore
from vectorstore.testing.suite import entry, scored
from vectorstore.types import Entry, Metric, Space

NEXT = Space("next", 2, Metric.L2)
LIKE = Space("like-toy", 3)
"""A space that only its name tells from the one in use."""


def filled(store: LifecycleStore) -> LifecycleStore:
    """Return *store* with entries of every kind in two namespaces, and the second space begun."""
    store.upsert(
        [
            entry("a", [1, 0, 0], "zorb", n=1),
            entry("b", [0, 1, 0], "quil", n=2),
            entry("pending", text="vexa"),
            Entry("never", text="morp", no_vector="too long"),
        ]
    )
    store.upsert([entry("a", [0, 0, 1], "zorb zorb")], namespace="other")
    store.begin_space(NEXT)
    return store


def fill_all(store: LifecycleStore) -> None:
    """Fill in what is pending."""
    store.fill_space(NEXT, {"a": [1, 2], "b": [3, 4], "pending": [5, 6]})
    store.fill_space(NEXT, {"a": [7, 8]}, namespace="other")


def numbers(kept: Entry) -> list[float] | None:
    """Return the vector of an entry as a list."""
    return None if kept.vector is None else kept.vector.tolist()


def shown(store: LifecycleStore) -> dict[str, Any]:
    """Return what the space in use answers."""
    return {
        name: (
            list(store.scan(namespace=name)),
            scored(store.search([0.9, 0.1, 0.2], 99, namespace=name)),
            scored(store.search_text("zorb quil vexa morp", 99, namespace=name)),
        )
        for name in ("", "other")
    }
