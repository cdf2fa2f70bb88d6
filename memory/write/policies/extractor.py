"""The policy that asks a function of the caller's for the facts in a turn, and keeps each with its source."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from memory.errors import ArgumentError
from memory.records import Memory
from memory.write.checking import names, whole
from memory.write.policies.calling import PATIENCE, called, checked_function, checked_patience
from memory.write.policies.protocol import Action, Decision, OnFailure, Turn, TurnDecision, accepted


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that was found in a turn: its *memory* (or its text), and the places of the memories it stands in.

    Without *places* it comes from the whole turn, and is trusted no more than the least trusted part of it.
    """

    memory: Memory | str
    places: tuple[int, ...] = ()


Facts: TypeAlias = Iterable[str | Memory | Fact] | None


class Extractor:
    """Asks *function* for the facts in what is said (memories of *kinds*), and has them stored beside it.

    Each fact has ``derived_from``, and the source, time and scopes of what it was found in. With *keep* off the words
    themselves stay in history only, wherever a fact was found; where none was, they are kept. A function that fails
    changes nothing but the report (*on_failure* and *patience* as for a judge). Corrected words are looked through
    again, and so is what is imported without its facts.
    """

    makes = True

    def __init__(
        self,
        function: Callable[[Turn], Facts | Awaitable[Facts]],
        *,
        keep: bool = True,
        kinds: Iterable[str] = ("turn",),
        on_failure: OnFailure | None = None,
        patience: float | None = PATIENCE,
    ) -> None:
        checked_function(function, "a turn")
        self._function = function
        self._keep = keep
        self._kinds = frozenset(names(kinds, "kinds"))
        self.on_failure = on_failure
        self._patience = checked_patience(patience)

    def decide(self, memory: Memory) -> Decision:
        """Accept: without a way to store facts beside it, nothing is extracted."""
        return Decision(Action.ACCEPT)

    async def decide_turn(self, turn: Turn) -> TurnDecision:
        """Ask for the facts, unless nothing of the turn is of the kinds to look at."""
        if not any(memory.kind in self._kinds for memory in turn.memories):
            return TurnDecision(accepted(turn))
        made = tuple(self._made(turn, fact) for fact in await called(self._function, turn, self._patience) or ())
        if self._keep or not made:
            return TurnDecision(accepted(turn), made)
        used = {place for _, places in made for place in places}
        decisions = (
            Decision(Action.REJECT, "kept as facts") if place in used else Decision(Action.ACCEPT)
            for place in range(len(turn.memories))
        )
        return TurnDecision(tuple(decisions), made)

    def _made(self, turn: Turn, fact: object) -> tuple[Memory, tuple[int, ...]]:
        found = fact if isinstance(fact, Fact) else Fact(fact)  # type: ignore[arg-type]  # checked right below
        memory = Memory(text=found.memory) if isinstance(found.memory, str) else found.memory
        if not isinstance(memory, Memory):
            raise ArgumentError("facts", fact, "texts, memories or Facts are needed from an extractor")
        places = tuple(dict.fromkeys(whole(place, "places") for place in found.places)) or range(len(turn.memories))
        if max(places) >= len(turn.memories):
            raise ArgumentError("places", found.places, f"places below {len(turn.memories)} are needed")
        return memory, tuple(places)
