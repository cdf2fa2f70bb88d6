"""What one memory is, what a write reports, and what a recall gives back. Values only.

A little longer than other files, so that what goes in and comes out is read in one place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias, TypeVar

from memory.errors import ArgumentError

Kind: TypeAlias = str
"""turn, fact, event, preference, summary, document, note, …: any word; those named here have a meaning to recall."""

Actor: TypeAlias = Literal["user", "assistant", "tool", "document", "system"]


_Choice = TypeVar("_Choice", bound=StrEnum)


def choice(kind: type[_Choice], value: object, argument: str) -> _Choice:
    """Return *value* as a member of *kind*; the text of one will do, and another value raises ``ArgumentError``."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, str) or value not in tuple(kind):
        raise ArgumentError(argument, value, f"one of {', '.join(kind)} is needed")
    return kind(value)


class Trust(StrEnum):
    """Whose word a memory is, from most to least trusted."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DOCUMENT = "document"

    @property
    def rank(self) -> int:
        """The place in the order of trust; 0 is the most trusted."""
        return _RANKS[self]

    @classmethod
    def of(cls, actor: str) -> Trust:
        """Return how far the word of *actor* (an ``Actor``, or the role of a message) is trusted."""
        return cls.USER if actor == "system" else cls(actor)  # system: the owner's own settings at work

    @classmethod
    def least(cls, trusts: Iterable[Trust]) -> Trust:
        """Return the least of *trusts*; of none, the most."""
        return max(trusts, key=_RANKS.__getitem__, default=cls.USER)


_RANKS: Final = {trust: rank for rank, trust in enumerate(Trust)}


@dataclass(frozen=True, slots=True)
class Source:
    """Where a memory comes from: a place in a session, or a span of a document.

    *start* and *end* are character offsets in the document's text; *page* counts from 1; *heading* is the path of
    headings above the span.
    """

    session: str | None = None
    sequence: int | None = None
    document: str | None = None
    title: str | None = None
    page: int | None = None
    heading: tuple[str, ...] = ()
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory, as it goes in and comes out. Only *text* is needed to make one.

    *id* names the memory, not the version, and is given by the store of memories when empty. Times are aware;
    a naive one is taken in the configured zone. *occurred_at* is when it was said or happened; *valid_from* and
    *valid_to* bound when it holds; *recorded_at* and *retired_at* when it was written and replaced here.

    Given by corrections and undoing alone: asked what held at a time, a version that says nothing of its validity
    counts from *counts_from* until *counts_to*, and one that was taken back (*withdrawn*) never held.
    """

    text: str
    id: str = ""
    kind: Kind = "fact"
    role: str | None = None
    speaker: str | None = None
    session: str | None = None
    sequence: int | None = None
    source: Source | None = None
    tags: tuple[str, ...] = ()
    scopes: Mapping[str, str] = field(default_factory=dict)
    key: str | None = None
    importance: float | None = None
    pinned: bool = False
    disabled: bool = False
    sensitive: bool = False
    trust: Trust = Trust.USER
    actor: Actor = "user"
    occurred_at: datetime | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    expires_at: datetime | None = None
    recorded_at: datetime | None = None
    retired_at: datetime | None = None
    counts_from: datetime | None = None
    counts_to: datetime | None = None
    withdrawn: bool = False
    derived_from: tuple[str, ...] = ()
    supersedes: str | None = None
    operation: str | None = None
    caption: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    revision: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.trust, Trust) and self.trust in tuple(Trust):  # what names none is refused at writing
            object.__setattr__(self, "trust", Trust(self.trust))


@dataclass(frozen=True, slots=True)
class Change:
    """What an operation did to the memory *id*.

    *before* is the revision that it found, None where the memory is new; that version is in the archive as
    "id@revision" when text or validity changed. *gone*: the memory is not there any more. *old* and *new* are the
    fields that are kept without versions (pinned, disabled, tags, importance, …), before and after; empty once the
    memory was forgotten.
    """

    id: str
    before: int | None = None
    gone: bool = False
    old: Mapping[str, Any] = field(default_factory=dict)
    new: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that was done to memories: *kind* is the verb ("remember", "correct", "pin", …), *actor* who did it.

    *undoes* is the operation that it took back, *undone_by* the one that took it back.
    """

    id: str
    kind: str
    actor: Actor
    at: datetime
    changes: tuple[Change, ...] = ()
    undoes: str | None = None
    undone_by: str | None = None


class Outcome(StrEnum):
    """What became of one item that was to be remembered."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near-duplicate"
    """Not stored again: one with nearly the same words is there."""
    REDACTED = "redacted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Report:
    """The line that every item gets: what became of it (*outcome*), under which *id*, and why (*reason*).

    *deferred* says that its vector is still to come and why; the text is found by its words meanwhile. *of* is the
    memory that it repeats, or nearly repeats (then it may be stored all the same). *spans* counts what was taken out
    of it. *kept* and *total* are tokens: of a text too long for the embedder, only its beginning has a vector; the
    text is kept whole. *made* are the lines of what a policy made of it, such as facts; *retired* the ids of what had
    been made of the words that it corrects, and went to the archive with them.
    """

    outcome: Outcome
    id: str
    reason: str = ""
    deferred: str | None = None
    operation: str | None = None
    of: str | None = None
    spans: int = 0
    kept: int | None = None
    total: int | None = None
    made: tuple[Report, ...] = ()
    retired: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcome", choice(Outcome, self.outcome, "outcome"))

    @property
    def stored(self) -> bool:
        """Whether a memory was written for it."""
        return self.outcome in (Outcome.STORED, Outcome.REDACTED)

    def __str__(self) -> str:
        """The line in words, such as "redacted 1 span (secret: card number)"."""
        line = self.outcome.value
        if self.outcome is Outcome.REDACTED and self.spans:
            line += f" {self.spans} span{'s' * (self.spans != 1)}"
        if self.of is not None:
            line += f", near-duplicate of {self.of}" if self.stored else f" of {self.of}"
        if self.reason and self.reason not in line:
            line += f" ({self.reason})"
        if self.kept is not None and self.total is not None:
            line += f", truncated (kept {self.kept} of {self.total} tokens)"
        return f"{line}, deferred ({self.deferred})" if self.deferred else line


@dataclass(frozen=True, slots=True)
class Matched:
    """A *word* of the question and the one *by* which a hit matched it, how nearly (*similarity*, in (0, 1]).

    *weight* is the word's share of the question's weight, by how rare it is. *where* is "here", or the turn beside
    the hit that holds the term: "before", "after", or the "question" that it answers.
    """

    word: str
    by: str
    similarity: float
    weight: float
    where: Literal["here", "before", "after", "question"] = "here"


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that was found, with its *score*.

    When an explanation was asked for, *parts* add up to the score, and *matched* are the words it was found by.
    *outdated_by* is the id of a newer statement of nearly the same, where there is one. *before* and *after* are the
    turns around it in its session, in the order in which they were said, where they were asked for.
    """

    memory: Memory
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    namespace: str = ""
    lane: str = "conversation"
    matched: tuple[Matched, ...] = ()
    outdated_by: str | None = None
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A memory that would have been found but for *reason*: over budget, or folded *into* another."""

    id: str
    reason: str
    into: str | None = None


@dataclass(frozen=True, slots=True)
class Found(Sequence[Hit]):
    """What a recall gives: the hits, best first, and how far to trust them.

    *confidence* is in [0, 1]. *abstain* names why nothing here may answer: "nothing" (nothing here is about
    this), "other" (said, but by someone else), None when there is no such doubt. *notes* say what was done
    differently than asked, such as searching by words alone. *searched* is how many memories and passages there are
    where it looked, before any filter.
    """

    hits: tuple[Hit, ...]
    confidence: float = 0.0
    abstain: Literal["nothing", "other"] | None = None
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    searched: int = 0

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: Any) -> Any:
        return self.hits[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


class Stage(StrEnum):
    """Where the way of a memory to an answer ended; in the order in which they are passed."""

    UNKNOWN = "unknown"
    """No memory of that id in the namespaces asked, or none any more."""
    LANE = "lane"
    SUPERSEDED = "superseded"
    DISABLED = "disabled"
    EXPIRED = "expired"
    VALIDITY = "validity"
    FILTER = "filter"
    CANDIDATES = "candidates"
    """Neither among the best by words nor by vector, nor beside one of them."""
    FOLDED = "folded"
    BUDGET = "budget"
    RANK = "rank"
    FOUND = "found"


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a recall did or did not give the memory *id*: the first *stage* that stopped it, and the *reason* in words.

    *rank* is its place among everything that was ranked, from 1; *score* and *parts* as in a hit; *needed* the score
    of the last hit. *by_words* and *by_vector* are its places in the two searches that name the candidates, among all
    memories that pass; None where it was not reached or does not occur there.
    """

    id: str
    stage: Stage
    reason: str
    rank: int | None = None
    score: float | None = None
    needed: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    by_words: int | None = None
    by_vector: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stage", choice(Stage, self.stage, "stage"))


@dataclass(frozen=True, slots=True)
class Unreached:
    """A copy that a ``forget`` did not reach: *kind* is "export" or "backup", made *at* a time.

    *removed*: it was removed with it, since that was asked for. *note* says why it could not be, or that nothing is
    at its *path* any more.
    """

    kind: Literal["export", "backup"]
    path: str
    at: datetime | None = None
    removed: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The receipt of a ``forget``: ids and counts, never content.

    *memories* and *versions* went; *derived* were made from them alone; *also* hold the same words; *messages*
    counts conversation messages; *named* are answers of a model that used them. *pending*: bytes wait for a
    reader to leave. *due*: when the bytes go, where a time of grace was given; until then it can be taken back.

    *hashes* are those of the texts, under the secret of the memory's file and the *salt*: they say nothing to anybody
    else. *parts* counts what else was erased, by who kept it; *unreached* are copies elsewhere. *whole*: all of the
    namespace went.
    """

    memories: tuple[str, ...]
    versions: int = 0
    derived: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    messages: int = 0
    named: tuple[str, ...] = ()
    pending: bool = False
    dry_run: bool = False
    operation: str | None = None
    namespace: str = ""
    at: datetime | None = None
    due: datetime | None = None
    salt: str = ""
    hashes: tuple[str, ...] = ()
    parts: Mapping[str, int] = field(default_factory=dict)
    unreached: tuple[Unreached, ...] = ()
    whole: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """Every memory that went."""
        return (*self.memories, *self.derived, *self.also)


@dataclass(frozen=True, slots=True)
class Left:
    """Something that ``verify_forgotten`` still found: *where* (a table, a file) and *what*; never the words."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What ``verify_forgotten`` saw: *gone* where nothing is *left*.

    *rows* counts the namespace's rows that were looked through, *files* are those whose bytes were searched, for
    *texts* texts. *notes* say what could not be told, or is left elsewhere for a reason.
    """

    left: tuple[Left, ...] = ()
    rows: int = 0
    files: tuple[str, ...] = ()
    texts: int = 0
    notes: tuple[str, ...] = ()

    @property
    def gone(self) -> bool:
        """Whether nothing was found."""
        return not self.left
