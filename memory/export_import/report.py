"""Reports of an export and of an import. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from memory.models import choice
from memory.results import Outcome, Report

ImportMode: TypeAlias = Literal["replace", "merge", "upsert"]
"""What becomes of what is here: all of it goes first; it stays as it is; what differs is corrected by the file."""


class ExportItem(StrEnum):
    """What one line of an export holds."""

    MEMORY = "memory"
    PASSAGE = "passage"
    VERSION = "version"
    MESSAGE = "message"
    SESSION = "session"
    OPERATION = "operation"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What was written to *path*: how many of each item, and the *hash* of their lines."""

    path: str
    counts: Mapping[str, int]
    hash: str
    vectors: bool
    operation: str | None = None


@dataclass(frozen=True, slots=True)
class ImportLine:
    """What became of the memory or passage *id* on a *line* of the file, and why.

    *pending*: its vector is of another space, or the file has none; it is made when the memory embeds again. *of*,
    *spans* and *made* as in the ``Report`` of what is remembered.
    """

    line: int
    id: str
    outcome: Outcome
    reason: str = ""
    pending: bool = False
    of: str | None = None
    spans: int = 0
    made: tuple[Report, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcome", choice(Outcome, self.outcome, "outcome"))


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of every item: a line for each memory and passage, counts (*taken*, *left*) for all others.

    *trusted*: whether the file's own word on trust was taken. *removed* is how many memories went before (mode
    replace). *notes* say what was not taken and why.
    """

    lines: tuple[ImportLine, ...]
    taken: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)
    trusted: bool = False
    removed: int = 0
    dry_run: bool = False
    operation: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def pending(self) -> int:
        """How many wait for their vector."""
        made = sum(one.stored and one.deferred is not None for line in self.lines for one in line.made)
        return made + sum(line.pending for line in self.lines)
