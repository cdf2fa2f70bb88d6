"""The query: a question with everything that bounds its answers, checked where it is made, and the options of a recall.

``RecallOptions`` is the one list of what a caller may ask for; ``Query.of`` turns it into a checked value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, tzinfo
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, TypedDict

from tellback.memory.errors import ArgumentError
from tellback.memory.partitions import ARCHIVE, CONVERSATION, DOCUMENTS
from tellback.memory.retrieval.hooks import RecallHooks
from tellback.memory.retrieval.index.validity import ValidityFilter
from tellback.memory.retrieval.scoring.scores import QueryVariant
from tellback.memory.scopes import Scopes, scope_filter
from tellback.memory.timestamps import to_aware
from tellback.memory.tokens.counter import TextMeasure, measuring_function
from tellback.memory.validation import checked_bool, checked_int, checked_number
from tellback.vectorstore import Filter, Vector

EXCHANGE: Final = "exchange"
NeighbourExpansion: TypeAlias = int | Literal["exchange"]
DEFAULT_PARTITIONS: Final = (CONVERSATION, DOCUMENTS)
SEARCHABLE_PARTITIONS: Final = (CONVERSATION, DOCUMENTS, ARCHIVE)
_NO_VECTORS: Mapping[str, Vector] = MappingProxyType({})


class RecallOptions(TypedDict, total=False):
    """The options of ``LongTermMemory.recall`` and ``why_not``; an option that is not given bounds nothing.

    - *context*: what was said before, oldest first. A follow-up question ("and when was that?") is searched together
      with the turns that it refers to.
    - *namespace*: one namespace or several; each is ranked by its own statistics.
    - *where*: a filter on metadata. *tags*: any of them. *scopes*: all of them, as ``{"project": "atlas"}``, or with a
      list of values of which any will do.
    - *as_of*: search for what was valid at this time. *known_at*: search for what was recorded by this time. Naive
      times are taken in the memory's zone.
    - *token_budget*: tokens that all hits together may have, counted by *counter*, a ``TokenCounter`` or a function
      of a text (None: the memory's own).
    - *explain*: give each hit the parts of its score and the terms that matched. ``why_not`` always does.
    - *min_confidence*: in [0, 1]; a result that is less confident shows no hits, and names in ``left_out`` what it had.
    - *partitions*: where to search, of "conversation", "documents" and "archive". *collections*: the collections of
      documents to search (None: all).
    - *all_utterances*: find, too, what states nothing: questions, commands and small talk of a chat, and answers that
      only repeat.
    - *neighbours*: neighbour expansion. Each hit comes with so many turns of its session, or passages of its document,
      on either side, or a turn with its whole "exchange", inside the *token_budget*.
    - *hooks*: used instead of the hooks with which the memory was opened.
    """

    context: Sequence[str]
    namespace: str | Sequence[str]
    where: Filter | None
    tags: Sequence[str]
    scopes: Scopes | None
    as_of: datetime | None
    known_at: datetime | None
    token_budget: int | None
    counter: TextMeasure | None
    explain: bool
    min_confidence: float
    partitions: str | Sequence[str]
    collections: str | Sequence[str] | None
    all_utterances: bool
    neighbours: NeighbourExpansion
    hooks: RecallHooks | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question and everything that bounds its answers.

    *text* alone decides which kind of question it is. *context* are the turns that it refers to; they are searched
    together with it (``search_text``). *variants* are searched beside it, and their rankings fused.

    *vectors* maps the texts that ``Retriever.texts_to_embed`` names to their vectors; a text that is missing falls back
    to that of ``search_text``, and no vectors at all mean a search by words alone. *passage_vectors* are those for
    documents, which may be another embedder's. *where* holds the caller's filter,
    scopes and tags. *now* decides what is valid and what has expired; *as_of* and *known_at* as in ``RecallOptions``;
    both search the archive too. *excluded* are terms of what the question sets aside. *counter*
    counts the tokens of a text for *token_budget*.
    """

    text: str
    now: datetime
    context: tuple[str, ...] = ()
    vectors: Mapping[str, Vector] = field(default_factory=lambda: _NO_VECTORS)
    passage_vectors: Mapping[str, Vector] = field(default_factory=lambda: _NO_VECTORS)
    namespaces: tuple[str, ...] = ("",)
    partitions: tuple[str, ...] = DEFAULT_PARTITIONS
    collections: tuple[str, ...] | None = None
    k: int = 10
    where: Filter | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    token_budget: int | None = None
    counter: Callable[[str], int] | None = None
    explain: bool = False
    min_confidence: float = 0.0
    variants: tuple[QueryVariant, ...] = ()
    neighbours: NeighbourExpansion = 0
    all_utterances: bool = False
    excluded: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not isinstance(self.text, str) or not self.text.strip():
            raise ArgumentError("question", self.text, "a text that is not empty is needed")
        checked_int(self.k, "k")
        if not self.namespaces:
            raise ArgumentError("namespace", self.namespaces, "at least one is needed")
        if not self.partitions or not set(self.partitions) <= set(SEARCHABLE_PARTITIONS):
            expected = f"one or more of {', '.join(SEARCHABLE_PARTITIONS)} are needed"
            raise ArgumentError("partitions", self.partitions, expected)
        for name in ("now", "as_of", "known_at"):
            moment = getattr(self, name)
            if moment is not None and (not isinstance(moment, datetime) or moment.utcoffset() is None):
                raise ArgumentError(name, moment, "an aware datetime is needed")
        expected = "a number in [0, 1] is needed"
        checked_number(self.min_confidence, "min_confidence", expected, lambda number: 0 <= number <= 1)
        if self.token_budget is not None:
            checked_int(self.token_budget, "token_budget")
            if self.counter is None:
                raise ArgumentError("counter", None, "a token budget needs a function that counts tokens")
        if self.neighbours != EXCHANGE and (type(self.neighbours) is not int or self.neighbours < 0):
            raise ArgumentError("neighbours", self.neighbours, f"a number of turns or {EXCHANGE!r} is needed")

    @classmethod
    def of(
        cls,
        question: str,
        k: int,
        options: RecallOptions,
        *,
        now: datetime,
        zone: tzinfo | None,
        counter: TextMeasure,
    ) -> Query:
        """Return the query of a caller's *options*; *context* and *hooks* are the retriever's to add.

        Naive times are taken in *zone*; *counter* counts tokens where the options name no other. An unusable
        value raises ``ArgumentError``.
        """
        collections = options.get("collections")
        as_of, known_at, own_counter = options.get("as_of"), options.get("known_at"), options.get("counter")
        return cls(
            text=question,
            now=now,
            namespaces=_as_names(options.get("namespace", "")),
            partitions=_as_names(options.get("partitions", DEFAULT_PARTITIONS)),
            collections=None if collections is None else _as_names(collections),
            k=k,
            where=scope_filter(options.get("scopes"), options.get("tags", ()), options.get("where")),
            as_of=None if as_of is None else to_aware(as_of, zone, argument="as_of"),
            known_at=None if known_at is None else to_aware(known_at, zone, argument="known_at"),
            token_budget=options.get("token_budget"),
            counter=measuring_function(counter if own_counter is None else own_counter),
            explain=options.get("explain", False),
            min_confidence=options.get("min_confidence", 0.0),
            neighbours=options.get("neighbours", 0),
            all_utterances=checked_bool(options.get("all_utterances", False), "all_utterances"),
        )

    @property
    def search_text(self) -> str:
        """The text to search for: the turns that the question refers to, and the question."""
        return " ".join((*self.context, self.text))

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts to search for: that of the question, and those of its variants."""
        return tuple(dict.fromkeys((self.search_text, *(variant.text for variant in self.variants))))

    def vectors_of(self, partition: str) -> Mapping[str, Vector]:
        """Return the vectors of the texts for *partition*."""
        return self.passage_vectors if partition == DOCUMENTS else self.vectors

    @property
    def validity(self) -> ValidityFilter:
        """Filter of the memories that are valid and known at the times of the query."""
        return ValidityFilter(self.now, self.as_of, self.known_at)

    def wordings(self) -> list[tuple[QueryVariant, Query]]:
        """Return the question itself and its variants, which need no context, each with its query."""
        variants = [(variant, replace(self, text=variant.text, context=(), variants=())) for variant in self.variants]
        return [(QueryVariant(self.text), self), *variants]


def _as_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return one name, given as a text, or several."""
    return (names,) if isinstance(names, str) else tuple(names)
