"""Protocols of parts that keep something of memories: erasing it, restoring it, exporting it.

A part (summaries, caches, lists of documents) is registered with the memory; forgetting calls each of them inside its
own transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from memory.history.protocol import HistoryRow


@dataclass(frozen=True, slots=True)
class ErasedItems:
    """Items of a user's *namespace* that one forgetting removes, in one transaction with it.

    *entries* are ids by partition (a namespace of the store), archived versions among them; *texts* are their embedded
    texts; *messages* are rows of history. *everything*: nothing of the namespace stays, and each part removes all that
    it has there, whether it is named here or not.
    """

    namespace: str
    at: datetime
    entries: Mapping[str, Sequence[str]]
    texts: frozenset[str]
    messages: Sequence[HistoryRow] = ()
    everything: bool = False


class Eraser(Protocol):
    """A part that keeps something of memories. It writes inside the forgetting's own transaction."""

    @property
    def name(self) -> str:
        """Name of the things it keeps, as the receipt has it ("summaries")."""
        ...

    def erase(self, gone: ErasedItems) -> int:
        """Remove all that it keeps of the items, so that the bytes go too; return how many things."""
        ...


class ExportedPart(Protocol):
    """A part whose things an export carries, a line each, and an import takes in again."""

    @property
    def line(self) -> str:
        """Name of one of its things in an export ("document")."""
        ...

    def lines(self, namespace: str) -> Iterator[dict[str, Any]]:
        """Yield its things of a namespace as JSON objects, in an order that is always the same."""
        ...

    def named(self, namespace: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the key of a thing, which is unique; wrong fields raise ``ArgumentError``."""
        ...

    def take(self, namespace: str, fields: Mapping[str, Any], *, write: bool, emptied: bool) -> bool:
        """Import a thing, in the import's transaction; return whether it is new here and was not forgotten.

        Without *write* it is only checked. *emptied*: all that is here is removed before, or was.
        """
        ...


@runtime_checkable
class RestorableEraser(Protocol):
    """Eraser whose things come back when a forgetting is undone within its grace period."""

    def put_away(self, gone: ErasedItems) -> str | None:
        """Return as text what ``erase`` is about to remove and nothing else could make again; None for nothing."""
        ...

    def put_back(self, namespace: str, kept: str) -> None:
        """Put back what ``put_away`` returned."""
        ...
