"""Corpora with their questions, and the data they were made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from memory import Memory

Status = Literal["tuned on", "seen", "unseen", "generated", "yours"]
"""Whether settings of Tellback were chosen with this data at hand, only looked at it, or never saw it; made by rule;
given by whoever runs it."""

AS_OF, REFUSES = "as_of", "refuses"
"""Abilities that a question may need: answering for a time in the past, abstention."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the *id* it has in its task. No *evidence* means that nothing there answers it."""

    id: str
    text: str
    group: str
    evidence: Mapping[str, int]
    context: tuple[str, ...] = ()
    as_of: datetime | None = None

    @property
    def needs(self) -> frozenset[str]:
        """Abilities that a system needs to be asked this."""
        needed = {AS_OF: self.as_of is not None, REFUSES: not self.evidence}
        return frozenset(name for name, needs in needed.items() if needs)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Contents of one memory, each item with its ``id``, and the questions about it. Documents are ingested whole.

    *now* is the moment of asking (None: the clock of a run).
    """

    name: str
    items: tuple[Memory, ...]
    questions: tuple[Asked, ...]
    documents: bool = False
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """One line of the report, or several: its questions are told apart by their group.

    *headline*: the groups that make the task's own line (empty: all); *sessions*: the title of a second line, where a
    session stands for its best turn (empty: none); *session_of* says whose session an item is.
    """

    key: str
    title: str
    status: Status
    unit: str
    corpora: Callable[[], Iterable[Corpus]]
    headline: tuple[str, ...] = ()
    sessions: str = ""
    data: str = ""
    note: str = field(default="", compare=False)


def session_of(items: Iterable[Memory]) -> dict[str, str]:
    """Return the session of each item that has one, by its id."""
    return {item.id: item.session for item in items if item.session is not None}
