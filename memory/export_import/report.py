"""Reports of an export and of an import. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeAlias

from tellback.memory.models import choice
from tellback.memory.results import Outcome, Report
from tellback.vectorstore import Finding

ImportMode: TypeAlias = Literal["merge", "upsert"]
"""Treatment of what is here already: it stays; it stays and is corrected where it differs."""


class ExportItem(StrEnum):
    """Type of an item, which is one line of an export."""

    MEMORY = "memory"
    PASSAGE = "passage"
    VERSION = "version"
    MESSAGE = "message"
    SESSION = "session"
    OPERATION = "operation"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class ExportReport:
    """Result of an export to *path*: the number of items of each type, and the *hash* of their lines.

    *damaged* names the messages that could not be read and are not in it.
    """

    path: str
    counts: Mapping[str, int]
    hash: str
    vectors: bool
    operation: str | None = None
    damaged: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportLine:
    """Outcome of the memory or passage *id* on a *line* of the file, with its reason.

    *pending*: its vector is of another space, or missing in the file; it is made when the memory embeds again. *of*,
    *spans* and *made* as in ``Report``.
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
    """Outcome of every item: a line for each memory and passage, counts (*taken*, *left*) by type for all others.

    *trusted*: whether the trust that the file states was accepted. *notes* name what was not taken, with the reason.
    """

    lines: tuple[ImportLine, ...]
    taken: Mapping[str, int] = field(default_factory=dict)
    left: Mapping[str, int] = field(default_factory=dict)
    trusted: bool = False
    dry_run: bool = False
    operation: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def pending(self) -> int:
        """The number of memories, passages and facts that wait for their vector."""
        facts = sum(fact.stored and fact.deferred is not None for line in self.lines for fact in line.made)
        return facts + sum(line.pending for line in self.lines)
