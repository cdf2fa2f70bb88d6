"""What listing, counting and looking back give: pages of memories, a memory's history, counts. Values only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from memory.records import Memory, Operation


@dataclass(frozen=True, slots=True, eq=False)
class History(Sequence[Memory]):
    """All versions of one memory, newest first (archived ones have the id "id@revision"), and what was done to it.

    A memory that was undone or merged into another has archived versions alone. *operations*: newest first.
    """

    versions: tuple[Memory, ...]
    operations: tuple[Operation, ...] = ()

    def __len__(self) -> int:
        return len(self.versions)

    def __getitem__(self, index: Any) -> Any:
        return self.versions[index]


@dataclass(frozen=True, slots=True, eq=False)
class Page(Sequence[Memory]):
    """Memories as they are listed; *next* is the cursor behind which the next page begins, None after the last.

    It equals any list of the same memories.
    """

    memories: tuple[Memory, ...]
    next: str | None = None

    def __len__(self) -> int:
        return len(self.memories)

    def __getitem__(self, index: Any) -> Any:
        return self.memories[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (list, tuple, Page)) and self.memories == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # memories hold mappings


@dataclass(frozen=True, slots=True)
class Stats:
    """What one namespace holds. All but *lanes*, *collections*, *pending* and bytes is of the conversation's lane.

    *lanes* counts what was said or noted, passages of documents, and earlier versions; *collections* the passages of
    each. *expired* and *ended* ones are in no answer. *first* and *last*: when something was said, or else written.
    *pending* wait for their vector. *text_bytes* and *vector_bytes* are those of the rows, not of the file.
    """

    memories: int
    lanes: Mapping[str, int]
    collections: Mapping[str, int]
    kinds: Mapping[str, int]
    trust: Mapping[str, int]
    tags: Mapping[str, int]
    pinned: int
    disabled: int
    sensitive: int
    expired: int
    ended: int
    pending: int
    first: datetime | None
    last: datetime | None
    text_bytes: int
    vector_bytes: int
