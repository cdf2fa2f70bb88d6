"""Policies over a function of the caller, plain or a coroutine: a judge of memories, an extractor of facts.

>>> Judge(lambda memory: "lunch" not in memory.text, reason="small talk")
Judge(small talk)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Final, Literal, TypeAlias

from tellback.memory.errors import ArgumentError
from tellback.memory.models import Memory, Trust
from tellback.memory.runtime import call_sync_or_async
from tellback.memory.validation import checked_int, checked_labels, checked_number
from tellback.memory.write.policies.base import (
    Action,
    MemoryLookup,
    MemoryTurn,
    OnPolicyFailure,
    PolicyDecision,
    ReplacementCandidates,
    TurnDecision,
    accept_all,
)

_OWN_FORMS: Final = (("fact", None), ("turn", "user"))
"""Kinds and roles of what a person states: a note, a turn."""
CALLBACK_PATIENCE: Final = 60.0
"""Seconds that a function has for its answer, unless its policy says otherwise."""


async def call_function(function: Callable[..., Any], argument: object, patience: float | None) -> Any:
    """Return the answer of *function* to *argument*; a plain one runs in a thread, since it may ask a model and wait.

    After *patience* seconds without an answer it has failed (``TimeoutError``); None waits for as long as it takes.
    """
    limit = asyncio.timeout(patience)
    try:
        async with limit:
            return await call_sync_or_async(function, argument, name="tellback-policy")
    except TimeoutError as error:
        if limit.expired():
            raise TimeoutError(f"no answer within {patience:g} seconds") from error
        raise


def _check_callback(function: object, argument: str, patience: object) -> None:
    """Raise ``ArgumentError`` unless *function* can be called with *argument* ("a turn"), and *patience* is usable."""
    if not callable(function):
        raise ArgumentError("function", function, f"something to call with {argument} is needed")
    if patience is not None:
        expected = "a number of seconds above 0 is needed, or None"
        checked_number(patience, "patience", expected, lambda number: number > 0)


MemoryVerdict: TypeAlias = bool | str | Memory | PolicyDecision | None
"""Keep it (True), do not (False, None), keep these words or this memory instead, or a decision of its own."""
TurnVerdict: TypeAlias = bool | str | Sequence[bool] | TurnDecision | None
"""Keep all or nothing, keep one text instead of all, keep those that are True, or a decision of its own."""
_DISTILLED_KIND = "distilled"


@dataclass(frozen=True, slots=True, repr=False)
class Judge:
    """Asks *function* what becomes of each memory, or (*of* "turn") of prompt and answer together.

    *function* may be a coroutine; a plain one runs in a thread. *reason* is what the report of a rejected one says.
    When it fails, or has not answered after *patience* seconds, *on_failure* decides: "store" keeps the memory as it
    was, "reject" does not; None leaves it to the memory's own setting. Either way the report says so, and history keeps
    what was said.
    """

    function: (
        Callable[[Memory], MemoryVerdict | Awaitable[MemoryVerdict]]
        | Callable[[MemoryTurn], TurnVerdict | Awaitable[TurnVerdict]]
    )
    _: KW_ONLY
    of: Literal["item", "turn"] = "item"
    reason: str = "judged not worth keeping"
    on_failure: OnPolicyFailure | None = None
    patience: float | None = CALLBACK_PATIENCE

    def __post_init__(self) -> None:
        _check_callback(self.function, "a memory", self.patience)
        if self.of not in ("item", "turn"):
            raise ArgumentError("of", self.of, 'one of "item", "turn" is needed')

    def __repr__(self) -> str:
        return f"Judge({self.reason})"

    @staticmethod
    def of_replacements(
        function: Callable[[ReplacementCandidates], Iterable[str] | Awaitable[Iterable[str] | None] | None],
        *,
        similarity: float = 0.3,
        count: int = 5,
        on_failure: OnPolicyFailure | None = None,
        patience: float | None = CALLBACK_PATIENCE,
    ) -> ReplacementJudge:
        """Return the policy that asks *function* which older memories a new one replaces."""
        return ReplacementJudge(function, similarity=similarity, count=count, on_failure=on_failure, patience=patience)

    async def decide(self, memory: Memory) -> PolicyDecision:
        """Ask about one memory; of a judge of turns, as a turn of one."""
        if self.of == "turn":
            return (await self.decide_turn(MemoryTurn((memory,)))).decisions[0]
        return self._read(memory, await call_function(self.function, memory, self.patience))

    async def decide_turn(self, turn: MemoryTurn) -> TurnDecision:
        """Ask about prompt and answer together, or about each."""
        if self.of == "item":
            return TurnDecision(tuple([await self.decide(memory) for memory in turn.memories]))
        memories, verdict = turn.memories, await call_function(self.function, turn, self.patience)
        if isinstance(verdict, TurnDecision):
            return verdict
        if isinstance(verdict, str) and len(memories) > 1:
            summary, places = Memory(text=verdict, kind="summary"), tuple(range(len(memories)))
            return TurnDecision((PolicyDecision(Action.REJECT, _DISTILLED_KIND),) * len(places), ((summary, places),))
        if verdict is None or isinstance(verdict, (bool, str)):
            verdict = [verdict] * len(memories)
        return TurnDecision(tuple(self._read(memory, answer) for memory, answer in zip(memories, verdict, strict=True)))

    def _read(self, memory: Memory, verdict: object) -> PolicyDecision:
        if isinstance(verdict, PolicyDecision):
            return verdict
        if isinstance(verdict, Memory):
            return PolicyDecision(Action.TRANSFORM, _DISTILLED_KIND, verdict)
        if isinstance(verdict, str):
            return PolicyDecision(Action.TRANSFORM, _DISTILLED_KIND, replace(memory, text=verdict))
        if verdict is None or isinstance(verdict, bool):
            return PolicyDecision(Action.ACCEPT) if verdict else PolicyDecision(Action.REJECT, self.reason)
        raise ArgumentError("verdict", verdict, "True, False, a text, a Memory or a Decision is needed from a judge")


@dataclass(frozen=True, slots=True, repr=False)
class ReplacementJudge:
    """Asks *function* which older memories a new one replaces, where there are some like it; these end at its time.

    *function* gets ``ReplacementCandidates`` and returns the ids of those that hold no longer, or None. The candidates
    are the *count* most like it of its kind and speaker (a person's notes and own turns are of one), at least as like
    as *similarity* (a cosine, or the share of common words), and only those that its author may change. Other ids are
    ignored. A function that fails leaves all as it was (*on_failure* and *patience* as for a judge).
    """

    function: Callable[[ReplacementCandidates], Iterable[str] | Awaitable[Iterable[str] | None] | None]
    _: KW_ONLY
    similarity: float = 0.3
    count: int = 5
    on_failure: OnPolicyFailure | None = None
    patience: float | None = CALLBACK_PATIENCE

    def __post_init__(self) -> None:
        _check_callback(self.function, "a memory and the older ones", self.patience)
        checked_int(self.count, "count", 1)
        checked_number(self.similarity, "similarity", "a number in [0, 1] is needed", lambda number: 0 <= number <= 1)

    def decide(self, memory: Memory) -> PolicyDecision:
        """Accept: there is nothing to replace."""
        return PolicyDecision(Action.ACCEPT)

    async def decide_beside(self, memory: Memory, stored: MemoryLookup) -> PolicyDecision:
        """Ask about *memory* beside those *stored* that are like it."""
        found = [near for form in _own_forms(memory) for near in await stored.nearest(form, self.count)]
        alike = sorted(
            (near for near in found if near.similarity >= self.similarity), key=lambda near: -near.similarity
        )
        nearest = [near.memory for near in alike[: self.count]]
        trust = Trust.least([memory.trust, Trust.of(memory.actor)])
        older = tuple(other for other in nearest if other.trust.rank >= trust.rank and other.scopes == memory.scopes)
        if not older or memory.replaces:
            return PolicyDecision(Action.ACCEPT)
        answer = await call_function(self.function, ReplacementCandidates(memory, older), self.patience)
        chosen = set(checked_labels(answer or (), "replaced"))
        replaces = tuple(other.id for other in older if other.id in chosen)
        if not replaces:
            return PolicyDecision(Action.ACCEPT)
        return PolicyDecision(Action.TRANSFORM, memory=replace(memory, replaces=replaces))


def _own_forms(memory: Memory) -> tuple[Memory, ...]:
    """Return *memory*, and a person's own as a note and as a turn: what was noted may change in a talk, and back."""
    if memory.speaker is not None or (memory.kind, memory.role) not in _OWN_FORMS:
        return (memory,)
    others = (replace(memory, kind=kind, role=role) for kind, role in _OWN_FORMS if kind != memory.kind)
    return (memory, *others)


@dataclass(frozen=True, slots=True)
class ExtractedFact:
    """A fact that was found in a turn: its *memory* (or its text), and the places of the memories it stands in.

    Without *places* it comes from the whole turn, and is trusted no more than the least trusted part of it.
    """

    memory: Memory | str
    places: tuple[int, ...] = ()


ExtractedFacts: TypeAlias = Iterable[str | Memory | ExtractedFact] | None


@dataclass(frozen=True, slots=True)
class Extractor:
    """Asks *function* for the facts in what is said (memories of *kinds*), and has them stored beside it.

    Each fact has ``derived_from``, and the source, time and scopes of what it was found in. With *keep* off the words
    themselves stay in history only, wherever a fact was found; where none was, they are kept. A function that fails
    changes nothing but the report (*on_failure* and *patience* as for a judge). Corrected words are looked through
    again, and so is what is imported without its facts.
    """

    makes: ClassVar = True

    function: Callable[[MemoryTurn], ExtractedFacts | Awaitable[ExtractedFacts]]
    _: KW_ONLY
    keep: bool = True
    kinds: Iterable[str] = ("turn",)
    on_failure: OnPolicyFailure | None = None
    patience: float | None = CALLBACK_PATIENCE

    def __post_init__(self) -> None:
        _check_callback(self.function, "a turn", self.patience)
        object.__setattr__(self, "kinds", frozenset(checked_labels(self.kinds, "kinds")))

    def decide(self, memory: Memory) -> PolicyDecision:
        """Accept: without a way to store facts beside it, nothing is extracted."""
        return PolicyDecision(Action.ACCEPT)

    async def decide_turn(self, turn: MemoryTurn) -> TurnDecision:
        """Ask for the facts, unless nothing of the turn is of the kinds to look at."""
        if not any(memory.kind in self.kinds for memory in turn.memories):
            return TurnDecision(accept_all(turn))
        answer = await call_function(self.function, turn, self.patience) or ()
        if not isinstance(answer, Iterable):
            raise ArgumentError("facts", answer, "a list of facts is needed from an extractor")
        facts = tuple(self._made(turn, fact) for fact in answer)
        if self.keep or not facts:
            return TurnDecision(accept_all(turn), facts)
        used = {place for _, places in facts for place in places}
        decisions = (
            PolicyDecision(Action.REJECT, "kept as facts") if place in used else PolicyDecision(Action.ACCEPT)
            for place in range(len(turn.memories))
        )
        return TurnDecision(tuple(decisions), facts)

    def _made(self, turn: MemoryTurn, fact: object) -> tuple[Memory, tuple[int, ...]]:
        found = fact if isinstance(fact, ExtractedFact) else ExtractedFact(fact)  # type: ignore[arg-type]  # checked right below
        memory = Memory(text=found.memory) if isinstance(found.memory, str) else found.memory
        if not isinstance(memory, Memory):
            raise ArgumentError("facts", fact, "texts, memories or Facts are needed from an extractor")
        count = len(turn.memories)
        places = tuple(dict.fromkeys(checked_int(place, "places") for place in found.places)) or tuple(range(count))
        if max(places) >= count:
            raise ArgumentError("places", found.places, f"places below {count} are needed")
        return memory, places
