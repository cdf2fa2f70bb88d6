"""Draft: the one shape of an item in the write path, from the caller's memory to the line of its report.

Each step of the path (``WritePipeline``) takes a list of drafts and returns one of the same length and order. What the
policies make of items are drafts too, each among the ``facts`` of the first item that it was found in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from tellback.memory.codec import embedding_text, to_entry
from tellback.memory.errors import MemoryLayerError
from tellback.memory.models import Actor, Memory
from tellback.memory.results import Outcome, Report
from tellback.memory.write.embedding_service import NOT_YET_EMBEDDED, EmbeddedText
from tellback.vectorstore import Entry

if TYPE_CHECKING:
    from tellback.memory.messages import Message


@dataclass(frozen=True, slots=True)
class Draft:
    """An item on its way into the store, and what was decided about it so far."""

    memory: Memory
    """The memory as it is to be stored."""
    given: Memory
    """The memory as it came to the policies, which may not raise its trust nor change its id and key."""
    origins: tuple[int, ...] = ()
    """The place of the item among those that came with it; of a fact, the places of all items it was found in."""
    turn: int = 0
    """The same number for items that came together, such as prompt and answer."""
    message: Message | None = None
    """The message of conversation history that it is, with secrets taken out."""
    in_place: bool = False
    """True if it replaces a memory that was wrong, so that neither a similar memory nor facts can stand for it."""
    outcome: Outcome = Outcome.STORED
    reasons: tuple[str, ...] = ()
    spans: int = 0
    """The number of parts that were taken out of it."""
    of: str | None = None
    """The id of the memory that it repeats, or nearly repeats."""
    may_replace: str | None = None
    """The id of the older statement that it may replace, as a policy suggests."""
    facts: tuple[Draft, ...] = ()
    settled: Report | None = None
    """Its report where it is not to be stored, or not again."""
    conflict: MemoryLayerError | None = None
    """The error behind the report where its key names another text, or it may not replace what it names."""
    approved_by: Actor | None = None
    """The actor that approved what it replaces."""
    embedded: EmbeddedText = NOT_YET_EMBEDDED
    """Its vector, or why it has none."""

    @classmethod
    def new(cls, memory: Memory, *, origin: int = 0, turn: int | None = None, message: Message | None = None) -> Draft:
        """Return the draft of a *memory* that was checked; without a *turn* it came alone."""
        return cls(memory, memory, (origin,), origin if turn is None else turn, message)

    @property
    def origin(self) -> int:
        """The place of the item; of a fact, that of the first item that it was found in."""
        return self.origins[0]

    @property
    def named(self) -> bool:
        """True if the caller chose the id; a forgotten one is then not brought back."""
        return bool(self.given.id)

    @property
    def text(self) -> str:
        """The text that is embedded."""
        return embedding_text(self.memory)

    @property
    def reason(self) -> str:
        """Reasons of the policies, in order."""
        return "; ".join(self.reasons)

    def settle(self, report: Report, conflict: MemoryLayerError | None = None) -> Draft:
        """Return it as not to be stored, nor the facts that were made of it."""
        return replace(self, settled=report, conflict=conflict, facts=())

    def reject(self, outcome: Outcome, reason: str) -> Draft:
        """Return it as not to be stored; the facts that were made of it are."""
        return replace(self, settled=Report(outcome, self.of or "", reason, of=self.of))

    def entry(self) -> Entry:
        """Return the entry that is stored for it."""
        return to_entry(self.memory, vector=self.embedded.vector, no_vector=self.embedded.no_vector)

    def report(self) -> Report:
        """Return its report, with those of its facts."""
        cut = self.embedded.truncated
        report = self.settled or Report(
            self.outcome,
            self.memory.id,
            self.reason,
            self.embedded.deferred,
            self.memory.operation,
            of=self.of,
            spans=self.spans,
            kept=None if cut is None else cut.kept,
            total=None if cut is None else cut.of,
            replaced=self.memory.replaces,
            may_replace=self.may_replace,
        )
        facts = tuple(fact.report() for fact in self.facts if fact.conflict is None)
        return replace(report, made=facts) if facts else report


def drafts_to_store(drafts: Iterable[Draft]) -> Iterator[Draft]:
    """Yield what is to be stored, in order of writing: of each turn the items, then the facts."""
    for turn in drafts_by_turn(drafts):
        yield from (draft for draft in turn if draft.settled is None)
        yield from (fact for draft in turn for fact in draft.facts if fact.settled is None)


def drafts_by_turn(drafts: Iterable[Draft]) -> list[list[Draft]]:
    """Return *drafts*, in which those of one turn stand together, in their turns."""
    return [list(turn) for _, turn in groupby(drafts, key=lambda draft: draft.turn)]


def change_unsettled(drafts: Iterable[Draft], change: Callable[[Draft], Draft]) -> list[Draft]:
    """Return *drafts* with *change* done to each, and to each fact, that is not settled."""
    changed = []
    for draft in drafts:
        changed_draft = change(draft) if draft.settled is None else draft
        facts = tuple(change(fact) if fact.settled is None else fact for fact in changed_draft.facts)
        changed.append(replace(changed_draft, facts=facts) if facts else changed_draft)
    return changed


def with_operation(drafts: Iterable[Draft], operation: str | None) -> list[Draft]:
    """Return *drafts* and their facts as written by *operation*."""
    return change_unsettled(drafts, lambda draft: replace(draft, memory=replace(draft.memory, operation=operation)))


def with_facts(drafts: Sequence[Draft], facts: Iterable[Draft]) -> list[Draft]:
    """Return *drafts* with *facts*, each under the first item that it was found in."""
    found: dict[int, list[Draft]] = {}
    for fact in facts:
        found.setdefault(fact.origin, []).append(fact)
    return [replace(draft, facts=tuple(found.get(draft.origin, ()))) if found else draft for draft in drafts]
