"""Results of writing, recalling, listing and forgetting. Values only.

Reports of writes, hits of a recall and the reason why a memory was not recalled, pages and counts of a listing, the
receipt of a forgetting and its verification.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal

from tellback.memory.models import Memory, Operation, choice


@dataclass(frozen=True, slots=True, eq=False)
class MemoryHistory(Sequence[Memory]):
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
class MemoryPage(Sequence[Memory]):
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
        return isinstance(other, (list, tuple, MemoryPage)) and self.memories == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # memories hold mappings


@dataclass(frozen=True, slots=True)
class Stats:
    """Contents of one namespace. All but *lanes*, *collections*, *pending* and bytes is of the conversation's lane.

    *lines* counts the memories that say what they are about, by the author of that line.
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
    lines: Mapping[str, int]
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


KNOWN: Final = "known already"
"""Reason of an item whose words are here."""


class Outcome(StrEnum):
    """Outcome of one item that was to be remembered."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near-duplicate"
    """Not stored again: one with nearly the same words is there."""
    REDACTED = "redacted"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Report:
    """Report of one item: its *outcome*, the *id* of its memory, and the *reason*.

    *deferred* says that its vector is still to come and why; the text is found by its words meanwhile. *of* is the
    memory that it repeats, or nearly repeats (then it may be stored all the same). *spans* counts what was taken out
    of it. *kept* and *total* are tokens: of a text too long for the embedder, only its beginning has a vector; the
    text is kept whole. *made* are the lines of what a policy made of it, such as facts; *retired* the ids of what had
    been made of the words that it corrects, and went to the archive with them. *replaced* are the ids that it names in
    ``replaces``, which hold until its time; *may_replace* is the linked older statement that it may replace, if it says
    that something changed: a suggestion, nothing was done.
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
    replaced: tuple[str, ...] = ()
    may_replace: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "outcome", choice(Outcome, self.outcome, "outcome"))

    @property
    def stored(self) -> bool:
        """True if a memory was written for it."""
        return self.outcome in (Outcome.STORED, Outcome.REDACTED)

    @property
    def headline(self) -> str:
        """The outcome in words: of an item that is here itself, that it is known already."""
        return KNOWN if self.outcome == Outcome.DUPLICATE and self.of == self.id else self.outcome.value

    def __str__(self) -> str:
        """The line in words, such as "redacted 1 span (secret: card number)"."""
        line = self.headline
        if self.outcome == Outcome.REDACTED and self.spans:
            line += f" {self.spans} span{'s' * (self.spans != 1)}"
        if self.of is not None and line != KNOWN:
            line += f", near-duplicate of {self.of}" if self.stored else f" of {self.of}"
        if self.replaced:
            line += f", replaces {', '.join(self.replaced)}"
        if self.may_replace is not None:
            line += f", may replace {self.may_replace}"
        if self.reason and self.reason not in line:
            line += f" ({self.reason})"
        if self.kept is not None and self.total is not None:
            line += f", truncated (kept {self.kept} of {self.total} tokens)"
        return f"{line}, deferred ({self.deferred})" if self.deferred else line


NEWEST: Final = "newest"
"""Choice of the memory of a conflict that holds, where no id is given."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Statements that hold now and contradict one another: one attribute of one subject, newest first."""

    memories: tuple[Memory, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids that ``LongTermMemory.settle`` takes."""
        return tuple(memory.id for memory in self.memories)


@dataclass(frozen=True, slots=True)
class KnownPerson:
    """A relative of the user: *name* and *role* as the *memory* writes them ("Ana", "my sister").

    *kin* is the word of the role in every language ("sister").
    """

    name: str
    role: str
    kin: str
    memory: Memory

    @property
    def split_tag(self) -> str:
        """The tag of the memory by which it does not say so."""
        return f"not:{self.name.lower()}/{self.kin}"


class ProfileTopic(StrEnum):
    """Topic of what is known about a person, in the order in which a profile tells it."""

    NAME = "name"
    HOME = "home"
    WORK = "work"
    FAMILY = "family"
    HEALTH = "health"
    PREFERENCES = "preferences"
    POSSESSIONS = "possessions"
    ROUTINES = "routines"
    PLANS = "plans"
    OTHER = "other"
    """Something said of a relative that fits no other topic."""

    @property
    def is_attribute(self) -> bool:
        """True if a person has one at a time: an older one is history."""
        return self in (ProfileTopic.NAME, ProfileTopic.HOME, ProfileTopic.WORK)


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """Memory that tells something of the user, or of the relative *subject* ("", "sister Ana"), under a *topic*.

    *since* is when it was said or began to hold, *until* when it ended or something newer took its place (None: it
    holds).
    """

    subject: str
    topic: ProfileTopic
    memory: Memory
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "topic", choice(ProfileTopic, self.topic, "topic"))


@dataclass(frozen=True, slots=True, eq=False)
class Profile(Sequence[ProfileEntry]):
    """Profile of a person, each entry with its memory: the user first, then relatives; by topic, newest first.

    *omitted* counts entries beyond the limit of each topic; *looked_at* are the statements that were read for it.
    """

    entries: tuple[ProfileEntry, ...]
    omitted: int = 0
    looked_at: int = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, index: Any) -> Any:
        return self.entries[index]


@dataclass(frozen=True, slots=True)
class TermMatch:
    """A *word* of the question and the one *by* which a hit matched it, how nearly (*similarity*, in (0, 1]).

    *weight* is the word's share of the question's weight, by how rare it is. *where* is "here", or the
    "question" that the hit answers.
    """

    word: str
    by: str
    similarity: float
    weight: float
    where: Literal["here", "question"] = "here"


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that was found, with its *score*.

    When an explanation was asked for, *parts* add up to the score, and *matched* are the words it was found by.
    *outdated_by* is the id of a newer statement of the same, where there is one; *later_than* that of an older one
    which this one may have changed, where that is not certain. *likely_change*: it has probably changed an older one,
    so that an answer should say both. *before* and *after* are the turns around it in its session, in the order in
    which they were said, where they were asked for. *passage* is the part of a memory of more than 1,500 characters
    that is nearest to the question, "" of a shorter one.
    """

    memory: Memory
    score: float
    parts: Mapping[str, float] = field(default_factory=dict)
    namespace: str = ""
    partition: str = "conversation"
    matched: tuple[TermMatch, ...] = ()
    outdated_by: str | None = None
    later_than: str | None = None
    likely_change: bool = False
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()
    passage: str = ""


@dataclass(frozen=True, slots=True)
class Omitted:
    """A memory that would have been found but for *reason*: over budget, not sure enough, folded *into* another."""

    id: str
    reason: str
    into: str | None = None


@dataclass(frozen=True, slots=True)
class RecallResult(Sequence[Hit]):
    """Result of a recall: the hits, best first, and how far to trust them.

    *confidence* is in [0, 1]. *abstain* names why nothing here may answer: "nothing" (nothing here is about
    this), "other" (said, but by or about someone else), None when there is no such doubt. *notes* say what was done
    differently than asked, such as searching by words alone; *degraded* are those that tell of a failure: the embedder
    or a hook failed, or gave no answer in time. *searched* is how many memories and passages there are
    where it looked, before any filter. *tokens_exact* tells whether a token budget was counted exactly (False: by an
    estimate that rather counts too many); None without a budget, and where a function of the caller's counted.
    *near*: False where the best is so far from the question that it is better not shown to a model. *likely*: False
    where the first hit is rather not the answer than the answer. *beyond*: so many of the hits are more than were asked
    for, since the question asks for a list and they score nearly as high.
    """

    hits: tuple[Hit, ...]
    confidence: float = 0.0
    abstain: Literal["nothing", "other"] | None = None
    left_out: tuple[Omitted, ...] = ()
    notes: tuple[str, ...] = ()
    searched: int = 0
    tokens_exact: bool | None = None
    degraded: tuple[str, ...] = ()
    near: bool = True
    beyond: int = 0
    likely: bool = True

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: Any) -> Any:
        return self.hits[index]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)


class RecallStage(StrEnum):
    """The stage of recall at which a memory dropped out, in the order of the stages."""

    UNKNOWN = "unknown"
    """No memory of that id in the namespaces asked, or none any more."""
    PARTITION = "lane"
    """In a partition that was not searched."""
    SUPERSEDED = "superseded"
    DISABLED = "disabled"
    EXPIRED = "expired"
    VALIDITY = "validity"
    FILTER = "filter"
    EVIDENCE = "evidence"
    """It states nothing: a question, a command, small talk, a repetition."""
    CANDIDATES = "candidates"
    """Neither among the best by words nor by vector, nor beside one of them."""
    FOLDED = "folded"
    BUDGET = "budget"
    RANK = "rank"
    CONFIDENCE = "confidence"
    """The whole result is less confident than was asked for."""
    FOUND = "found"


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a recall did or did not give the memory *id*: the first *stage* that stopped it, and the *reason* in words.

    *rank* is its place among everything that was ranked, from 1; *score* and *parts* as in a hit; *needed* the score
    of the last hit. *by_words* and *by_vector* are its places in the two searches that name the candidates, among all
    memories that pass; None where it was not reached or does not occur there.
    """

    id: str
    stage: RecallStage
    reason: str
    rank: int | None = None
    score: float | None = None
    needed: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)
    by_words: int | None = None
    by_vector: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "stage", choice(RecallStage, self.stage, "stage"))


@dataclass(frozen=True, slots=True)
class ExternalCopy:
    """A copy that ``forget`` did not reach: *kind* is "export" or "backup", made *at* a time, "unfinished", "store",
    "history" or "server".

    An unfinished one is being written by another process now, or was left by a killed one and could not be removed. A
    store with data alone and a history of one's own (*path* is the class) deleted what was forgotten, and cannot prove
    that the bytes are gone; nor can a server (*path* is its kind), and *note* says where they may be.

    *removed*: it was removed with it, since that was asked for. *note* says why it could not be, or that nothing is
    at its *path* any more.
    """

    kind: Literal["export", "backup", "unfinished", "store", "history", "server"]
    path: str
    at: datetime | None = None
    removed: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt of a ``forget``: ids and counts, never content.

    *memories* and *versions* went; *derived* were made from them alone; *also* hold the same words; *messages*
    counts conversation messages; *named* are answers of a model that used them. *pending*: bytes wait for a
    reader to leave. *due*: when the bytes go, where a time of grace was given; until then it can be taken back.

    *hashes* are those of the texts, under the secret of the memory's file and the *salt*: they say nothing to anybody
    else. *parts* counts what else was erased, by who kept it; *unreached* are copies elsewhere. *whole*: all of the
    namespace went. *spared* counts the pinned memories that were selected and stayed.
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
    unreached: tuple[ExternalCopy, ...] = ()
    whole: bool = False
    spared: int = 0

    @property
    def ids(self) -> tuple[str, ...]:
        """Every memory that went."""
        return (*self.memories, *self.derived, *self.also)


@dataclass(frozen=True, slots=True)
class Remnant:
    """Something that ``verify_forgotten`` still found: *where* (a table, a file) and *what*; never the words."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class ErasureVerification:
    """Result of ``verify_forgotten``: *gone* where nothing is *left*.

    *rows* counts the namespace's rows that were looked through, *files* are those whose bytes were searched, for
    *texts* texts. *notes* say what could not be told, or is left elsewhere for a reason.
    """

    left: tuple[Remnant, ...] = ()
    rows: int = 0
    files: tuple[str, ...] = ()
    texts: int = 0
    notes: tuple[str, ...] = ()

    @property
    def gone(self) -> bool:
        """True if nothing was found."""
        return not self.left
