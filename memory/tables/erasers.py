"""Protocols of parts that keep data of memories: erased with a memory, restored with it, carried by an export.

A part (summaries, caches, lists of documents) registers itself with the memory; a forgetting calls each registered
eraser inside its own transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from tellback.memory.history.protocol import HistoryRow


@dataclass(frozen=True, slots=True)
class ErasedItems:
    """Entries and messages of a user's *namespace* that one transaction erases.

    *entries* are ids by partition (a namespace of the store), archived versions among them; *texts* their texts,
    and what was embedded of them; *messages* the rows of history. *everything*: the whole namespace goes, and each
    part erases all that it keeps there, whether it is named here or not.
    """

    namespace: str
    at: datetime
    entries: Mapping[str, Sequence[str]]
    texts: frozenset[str]
    messages: Sequence[HistoryRow] = ()
    everything: bool = False


class Eraser(Protocol):
    """A part that keeps data of memories. It writes inside the forgetting's own transaction."""

    @property
    def name(self) -> str:
        """Name of the data it keeps, as the receipt shows it ("summaries")."""

    def erase(self, gone: ErasedItems) -> int:
        """Remove all data of the erased items, bytes included; return how many things were removed."""


def run_erasers(erasers: Iterable[Eraser], items: ErasedItems) -> Counter[str]:
    """Let every eraser remove its data of *items*; return how many things each removed, by its name."""
    removed: Counter[str] = Counter()
    for eraser in erasers:
        removed[eraser.name] += eraser.erase(items)
    return removed


class ExportedPart(Protocol):
    """A part whose items an export carries, a line each, and an import takes in again."""

    @property
    def line(self) -> str:
        """Type of its lines in an export ("document")."""

    def lines(self, namespace: str) -> Iterator[dict[str, Any]]:
        """Yield the items of a namespace as JSON objects, in an order that is always the same."""

    def named(self, namespace: str, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the identity of an item, which no other has; wrong fields raise ``ArgumentError``."""

    def take(self, namespace: str, fields: Mapping[str, Any], *, write: bool) -> bool:
        """Take an item in, within the transaction of the import; return False if it is here or was removed here.

        Without *write* nothing changes.
        """


@runtime_checkable
class RestorableEraser(Protocol):
    """An eraser whose data comes back when a soft delete is restored within its grace period."""

    def put_away(self, gone: ErasedItems) -> str | None:
        """Return as text the data that ``erase`` removes and that nothing else could make again; None for none."""

    def put_back(self, namespace: str, kept: str) -> None:
        """Put back the data that ``put_away`` returned."""
