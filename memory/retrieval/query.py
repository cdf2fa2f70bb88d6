"""A query: a question with everything that bounds its answers, checked where it is made; the options of a recall."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, TypedDict

from memory.errors import ArgumentError
from memory.partitions import ARCHIVE, CONVERSATION, DOCUMENTS
from memory.retrieval.hooks import RecallHooks
from memory.retrieval.scoring.settings import check_whole_number
from memory.scopes import Scopes
from vectorstore import Filter, Vector

EXCHANGE: Final = "exchange"
NeighbourExpansion: TypeAlias = int | Literal["exchange"]
SEARCHABLE_PARTITIONS = (CONVERSATION, DOCUMENTS, ARCHIVE)
_NO_VECTORS: Mapping[str, Vector] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class QueryVariant:
    """Other words for a question, and what they weigh beside its own, which weigh 1; not *sure*: they are imagined."""

    text: str
    weight: float = 1.0
    sure: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question and everything that bounds its answers.

    *vectors* maps each wording of the question that ``Retriever.wordings`` named to its vector; a wording
    that is missing falls back to that of *text*, and none at all means search by words alone. *now* decides
    what is valid and what has expired; *as_of* asks for what held then, *known_at* for what was recorded by
    then (both search the archive too). *collections* of documents: None for all. *counter* counts the
    tokens of a text for *token_budget*. *context* is what was said before, that *text* leans on: it is asked together
    with it (``asked``), but what kind of question it is, *text* says alone. *wordings* are asked beside it, and their
    rankings fused. *around* asks for so many turns on each side of a hit, or its whole "exchange".
    """

    text: str
    now: datetime
    context: tuple[str, ...] = ()
    vectors: Mapping[str, Vector] = field(default_factory=lambda: _NO_VECTORS)
    namespaces: tuple[str, ...] = ("",)
    lanes: tuple[str, ...] = (CONVERSATION, DOCUMENTS)
    collections: tuple[str, ...] | None = None
    k: int = 10
    where: Filter | None = None
    tags: tuple[str, ...] = ()
    as_of: datetime | None = None
    known_at: datetime | None = None
    token_budget: int | None = None
    counter: Callable[[str], int] | None = None
    explain: bool = False
    wordings: tuple[QueryVariant, ...] = ()
    around: NeighbourExpansion = 0

    def worded(self, wording: QueryVariant) -> Query:
        """Return the same asked in other words."""
        return replace(self, text=wording.text, context=(), wordings=())

    @property
    def asked(self) -> str:
        """The words to search for: those of the question, and before them what it leans on."""
        return " ".join((*self.context, self.text))

    def __post_init__(self) -> None:
        check_question(self.text)
        check_whole_number("k", self.k)
        if not self.namespaces:
            raise ArgumentError("namespace", self.namespaces, "at least one is needed")
        if not self.lanes or not set(self.lanes) <= set(SEARCHABLE_PARTITIONS):
            raise ArgumentError("lanes", self.lanes, f"one or more of {', '.join(SEARCHABLE_PARTITIONS)} are needed")
        for name in ("now", "as_of", "known_at"):
            moment = getattr(self, name)
            if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):
                raise ArgumentError(name, moment, "an aware datetime is needed")
        if self.token_budget is not None:
            check_whole_number("token_budget", self.token_budget)
            if self.counter is None:
                raise ArgumentError("counter", None, "a token budget needs a function that counts tokens")
        if self.around != EXCHANGE and (type(self.around) is not int or self.around < 0):
            raise ArgumentError("around", self.around, f"a number of turns or {EXCHANGE!r} is needed")


def check_question(text: object) -> None:
    """Raise unless *text* can be asked."""
    if not isinstance(text, str) or not text.strip():
        raise ArgumentError("question", text, "a text that is not empty is needed")


class RecallOptions(TypedDict, total=False):
    """The keywords of ``LongTermMemory.recall`` that bound its answer."""

    context: Sequence[str]
    namespace: str | Sequence[str]
    where: Filter | None
    tags: Sequence[str]
    scopes: Scopes | None
    as_of: datetime | None
    known_at: datetime | None
    token_budget: int | None
    counter: Callable[[str], int] | None
    lanes: Sequence[str]
    collections: Sequence[str] | None
    around: NeighbourExpansion
    hooks: RecallHooks | None
