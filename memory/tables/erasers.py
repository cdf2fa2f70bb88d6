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
    """What goes from a user's *namespace* in one forgetting, in one transaction with it.

    *entries* are ids by lane (a namespace of the store), archived versions among them; *texts* what was embedded of
    them; *messages* the rows of history. *everything*: nothing of the namespace stays, and each part lets go of all
    that it has there, whether it is named here or not.
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
        """What it keeps, as the receipt calls it ("summaries")."""
        ...

    def erase(self, gone: ErasedItems) -> int:
        """Remove all that it keeps of what is gone, so that the bytes go too; return how many things."""
        ...


class ExportedPart(Protocol):
    """A part whose things an export carries, a line each, and an import takes in again."""

    @property
    def line(self) -> str:
        """How an export calls one of them ("document")."""
        ...

    def lines(self, namespace: str) -> Iterator[dict[str, Any]]:
        """Yield what it keeps of a namespace as JSON objects, in an order that is always the same."""
        ...

    def named(self, namespace: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Return what names one of them, of which there is one at most; what is not right raises ``ArgumentError``."""
        ...

    def take(self, namespace: str, fields: Mapping[str, Any], *, write: bool, emptied: bool) -> bool:
        """Take one in, within the transaction of the import; say whether it was not there yet, nor was taken out.

        Without *write* it is only looked at. *emptied*: all that is here goes before, or went.
        """
        ...


@runtime_checkable
class RestorableEraser(Protocol):
    """An eraser whose part comes back when a forgetting is taken back within its time of grace."""

    def put_away(self, gone: ErasedItems) -> str | None:
        """Return as text what ``erase`` is about to remove and nothing else could make again; None for nothing."""
        ...

    def put_back(self, namespace: str, kept: str) -> None:
        """Put back what ``put_away`` returned."""
        ...
