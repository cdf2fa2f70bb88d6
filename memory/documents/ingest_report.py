"""The report of an ingest: a line for each document, and their totals. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tellback.memory.models import choice


class IngestAction(StrEnum):
    """Outcome of one document."""

    ADDED = "added"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    REMOVED = "removed"
    """It vanished from its folder, and its chunks are erased."""
    SKIPPED = "skipped"
    """Left out on purpose, for the reason given."""
    UNREADABLE = "unreadable"
    """No loader reads its format."""
    FAILED = "failed"
    """It could not be read; what an earlier ingest kept of it stays."""
    PLANNED = "planned"
    """It would be read: the line of a dry run."""


@dataclass(frozen=True, slots=True)
class IngestLine:
    """Line of an ingest report: a document's *source*, its *action*, and the *reason*.

    Of its *chunks*, *embedded* were given a new vector now, *pending* still wait for one, *forgotten* stay
    out because they were forgotten. *erased* chunks of its earlier state are gone. *notes* say what was
    assumed.
    """

    source: str
    action: IngestAction
    reason: str = ""
    chunks: int = 0
    embedded: int = 0
    pending: int = 0
    forgotten: int = 0
    erased: int = 0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "action", choice(IngestAction, self.action, "action"))

    def __str__(self) -> str:
        parts = [f"{self.source}: {self.action}"]
        if self.action in (IngestAction.ADDED, IngestAction.UPDATED):
            parts.append(f"{self.chunks} {'chunk' if self.chunks == 1 else 'chunks'}, {self.embedded} embedded")
            for count, label in (
                (self.erased, "erased"),
                (self.pending, "waiting for a vector"),
                (self.forgotten, "forgotten earlier and left out"),
            ):
                if count:
                    parts.append(f"{count} {label}")
        elif self.erased:
            parts.append(f"{self.erased} {'chunk' if self.erased == 1 else 'chunks'} erased")
        return ", ".join(part for part in (*parts, self.reason, *self.notes) if part)


@dataclass(frozen=True, slots=True)
class IngestReport:
    """Report of an ingest, a line for each document in the order of reading."""

    lines: tuple[IngestLine, ...]

    @property
    def totals(self) -> Mapping[IngestAction, int]:
        """Number of documents by action, 0 included."""
        counted = Counter(line.action for line in self.lines)
        return {action: counted[action] for action in IngestAction}

    @property
    def chunks(self) -> int:
        """Chunks of the documents that were added or updated."""
        written = (IngestAction.ADDED, IngestAction.UPDATED)
        return sum(line.chunks for line in self.lines if line.action in written)

    @property
    def embedded(self) -> int:
        """Chunks that were given a new vector."""
        return sum(line.embedded for line in self.lines)

    @property
    def pending(self) -> int:
        """Chunks that were written and wait for their vector."""
        return sum(line.pending for line in self.lines)

    @property
    def changed(self) -> bool:
        """True if anything was written."""
        written = (IngestAction.ADDED, IngestAction.UPDATED, IngestAction.REMOVED)
        return any(line.action in written for line in self.lines)

    @property
    def complete(self) -> bool:
        """False if a file failed, or if most files are of formats that no loader reads."""
        totals = self.totals
        considered = sum(totals.values()) - totals[IngestAction.SKIPPED] - totals[IngestAction.REMOVED]
        return not totals[IngestAction.FAILED] and totals[IngestAction.UNREADABLE] * 2 <= considered

    def of(self, action: IngestAction | str) -> tuple[IngestLine, ...]:
        """Return the lines with *action*."""
        wanted = choice(IngestAction, action, "action")
        return tuple(line for line in self.lines if line.action == wanted)

    @property
    def counts(self) -> str:
        """The totals in words, such as "3 added, 1 skipped"."""
        return ", ".join(f"{count} {action}" for action, count in self.totals.items() if count) or "no documents"

    def __str__(self) -> str:
        chunks = f"{self.chunks} {'chunk' if self.chunks == 1 else 'chunks'}"
        return f"{self.counts}; {chunks}, {self.embedded} embedded"


@dataclass(frozen=True, slots=True)
class IngestProgress:
    """Progress of an ingest: *done* of *total* files, *bytes_done* of the *bytes_total* that are read.

    *line* is the document that was just finished.
    """

    done: int
    total: int
    line: IngestLine
    bytes_done: int = 0
    bytes_total: int = 0


OnIngestProgress: TypeAlias = Callable[[IngestProgress], None]
