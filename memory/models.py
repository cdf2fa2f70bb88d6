"""Values of long-term memory: a memory, its source and trust, and the operations that change it.

What a write, a recall or an erasure returns is in ``results``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias, TypeVar

from tellback.memory.errors import ArgumentError

Kind: TypeAlias = str
"""turn, fact, event, preference, summary, document, note, …: any word; those named here have a meaning to recall."""

Actor: TypeAlias = Literal["user", "assistant", "tool", "document", "system"]

AboutAuthor: TypeAlias = Literal["", "caller", "model", "head"]
"""Author of the line that says what a memory is about: whoever stored it, the memory's own model, a trained head."""

ABOUT_AUTHORS: Final[tuple[AboutAuthor, ...]] = ("caller", "model", "head", "")
"""Authors from the best to none: a line of a later one never overwrites that of an earlier one."""

MAX_ABOUT_LENGTH: Final = 200


def is_worse_author(author: AboutAuthor, other: AboutAuthor) -> bool:
    """Return whether *author* comes after *other*, whose line it may then not overwrite."""
    return ABOUT_AUTHORS.index(author) > ABOUT_AUTHORS.index(other)


_Choice = TypeVar("_Choice", bound=StrEnum)


def choice(kind: type[_Choice], value: object, argument: str) -> _Choice:
    """Return *value* as a member of *kind*; the text of one will do, and another value raises ``ArgumentError``."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, str) or value not in tuple(kind):
        raise ArgumentError(argument, value, f"one of {', '.join(kind)} is needed")
    return kind(value)


class Trust(StrEnum):
    """Trust in a memory by whose word it is, from most to least."""

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


class UtteranceKind(StrEnum):
    """Kind of an utterance in a conversation."""

    STATEMENT = "statement"
    STATING_QUESTION = "stating question"
    """A question that also states something: "is my sister's dog Rex allowed on trains?"."""
    STATING_COMMAND = "stating command"
    """A command with content: "remind me to water Petra's tomatoes"."""
    QUESTION = "question"
    COMMAND = "command"
    SMALL_TALK = "small talk"
    REPETITION = "repetition"
    """An answer or a note that only repeats what is remembered."""

    @property
    def is_evidence(self) -> bool:
        """True if it states something, so that it is recalled."""
        return self in _EVIDENCE


_EVIDENCE: Final = (UtteranceKind.STATEMENT, UtteranceKind.STATING_QUESTION, UtteranceKind.STATING_COMMAND)


@dataclass(frozen=True, slots=True)
class Utterance:
    """Kind of an utterance, and the *reason* of the rules; a plain statement has none."""

    kind: UtteranceKind
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", choice(UtteranceKind, self.kind, "kind"))


ORIGIN: Final = "origin"
"""Key in a memory's metadata: the program through which it came here, with its version."""

DEFAULT_IMPORTANCE: Final = 0.5
"""Importance of a memory that has none: it counts neither for it nor against it."""


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a memory: a place in a session, or a span of a document.

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
class Repetition:
    """Repetition of a memory: the time *at* which it was said again, the *session*, and the *actor*."""

    at: datetime
    session: str | None = None
    actor: Actor = "user"


_ENUMERATIONS: Final[Mapping[str, Mapping[str, StrEnum]]] = {
    "trust": {str(trust): trust for trust in Trust},
    "utterance": {str(kind): kind for kind in UtteranceKind},
}


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory, as it goes in and comes out. Only *text* is needed to make one.

    *id* names the memory, not the version, and is given by the store of memories when empty. Times are aware;
    a naive one is taken in the configured zone. *occurred_at* is when it was said or happened; *valid_from* and
    *valid_to* bound when it holds; *recorded_at* and *retired_at* when it was written and replaced here.
    *importance*, in [0, 1], moves the score in a recall by a tenth of it at most; 0.5 and None leave it.

    *utterance* is the kind of what was said, with the reason (*utterance_reason*); of a user's turn the rules tell it
    at writing, where the caller does not. *evidence* promotes a memory that states nothing (True), or demotes one
    (False); None leaves it to the kind. *repeated* names when and where the same was kept again.

    *about* is a derived line of 3 to 10 words on its own: the attribute, and the person or thing by name, without the
    value ("spare house key: who keeps it"); one line, ``MAX_ABOUT_LENGTH`` characters at most. It is searched and
    embedded with the text, and is no evidence: it is never quoted. *about_by* is who made it: "caller" (whoever stored
    the memory, such as a client's model), "model" (the memory's own, in the background) or "head" (a trained one);
    with an empty line, who found that there is none to write.

    *replaces* names memories that hold no longer since this one's time (``valid_from``, else ``occurred_at``, else
    ``recorded_at``): writing it ends them there. They stay, as memories of their own time.

    Given by replacing, corrections and undoing alone: asked what held at a time, a version that says nothing of its
    validity counts from *counts_from* until *counts_to*, and one that was taken back (*withdrawn*) never held.
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
    replaces: tuple[str, ...] = ()
    supersedes: str | None = None
    operation: str | None = None
    caption: str = ""
    about: str = ""
    about_by: AboutAuthor = ""
    utterance: UtteranceKind | None = None
    utterance_reason: str = ""
    evidence: bool | None = None
    repeated: tuple[Repetition, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    revision: int = 0

    def __post_init__(self) -> None:
        for name, values in _ENUMERATIONS.items():  # what names none is refused at writing
            given = getattr(self, name)
            if type(given) is str and given in values:
                object.__setattr__(self, name, values[given])

    @property
    def is_evidence(self) -> bool:
        """True if recall finds it by default: somebody promoted it, or it states something."""
        if self.evidence is not None:
            return self.evidence
        return self.utterance is None or self.utterance.is_evidence


def statement_time(memory: Memory) -> datetime | None:
    """Return the time of a statement: from when it is valid, else when it was said, else when it was recorded."""
    return memory.valid_from or memory.occurred_at or memory.recorded_at


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """Change that an operation made to the memory *id*.

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
    """Operation on memories: *kind* is the verb ("remember", "correct", "pin", …), *actor* who did it.

    *undoes* is the operation that it took back, *undone_by* the one that took it back. *user* names the user of a
    server with several; "" elsewhere.
    """

    id: str
    kind: str
    actor: Actor
    at: datetime
    changes: tuple[MemoryChange, ...] = ()
    undoes: str | None = None
    undone_by: str | None = None
    user: str = ""
