"""Built-in policies: store everything, reject short texts, link near-duplicates.

>>> MinimumLength(10).decide(Memory(text="ok")).action
<Action.REJECT: 'reject'>
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Literal

from tellback.memory.analysis.texts import SILENT_KINDS, analyze_text
from tellback.memory.currency import Claim, bounds, replaces
from tellback.memory.errors import ArgumentError
from tellback.memory.models import Memory, statement_time
from tellback.memory.validation import checked_int, checked_number
from tellback.memory.write.policies.base import (
    NEAR_DUPLICATE_KEY,
    Action,
    MemoryLookup,
    MemoryTurn,
    PolicyDecision,
    SimilarMemory,
    TurnDecision,
)

_TOO_SHORT = PolicyDecision(Action.REJECT, "too short")


@dataclass(frozen=True, slots=True)
class MinimumLength:
    """Keeps what has strictly more than *characters*, blanks at both ends not counted; the rest is "too short".

    *of* "turn" counts prompt and answer together, so that a short question stays with its long answer.
    """

    characters: int
    of: Literal["item", "turn"] = "item"

    def __post_init__(self) -> None:
        checked_int(self.characters, "characters", 1)
        if self.of not in ("item", "turn"):
            raise ArgumentError("of", self.of, 'one of "item", "turn" is needed')

    def decide(self, memory: Memory) -> PolicyDecision:
        """Reject what is too short."""
        return PolicyDecision(Action.ACCEPT) if _text_length(memory) > self.characters else _TOO_SHORT

    def decide_turn(self, turn: MemoryTurn) -> TurnDecision:
        """As ``decide``, for each memory or for all together."""
        if self.of == "item":
            return TurnDecision(tuple(self.decide(memory) for memory in turn.memories))
        long = sum(_text_length(memory) for memory in turn.memories) > self.characters
        return TurnDecision((PolicyDecision(Action.ACCEPT) if long else _TOO_SHORT,) * len(turn.memories))


def _text_length(memory: Memory) -> int:
    return len(memory.text.strip())


_NEAR_DUPLICATE: Final = "near-duplicate"
_WORD: Final = re.compile(r"\w+", re.UNICODE)


@dataclass(frozen=True, slots=True)
class NearDuplicates:
    """Links a memory to the one of the same kind and speaker that it nearly repeats (metadata "near").

    Near is a cosine of at least *meaning* where an embedder answers, else a share of common words of at least
    *words*. With *fold* on, one that has no word that the other lacks is not stored a second time: the report names
    the other. One with a word, number or "not" more is always stored, since it may say something else. A memory that
    tells of a change names in its report the nearest older statement that it may replace; nothing is done about it.
    """

    meaning: float = 0.92
    words: float = 0.8
    fold: bool = False

    def __post_init__(self) -> None:
        for name in ("meaning", "words"):
            checked_number(getattr(self, name), name, "a number in (0, 1] is needed", lambda number: 0 < number <= 1)

    def decide(self, memory: Memory) -> PolicyDecision:
        """Accept: there is nothing to compare with."""
        return PolicyDecision(Action.ACCEPT)

    async def decide_beside(self, memory: Memory, stored: MemoryLookup) -> PolicyDecision:
        """Look for the nearest one of the same kind and speaker."""
        nearest = await stored.nearest(memory)
        older = None if memory.replaces else replaceable_statement(memory, nearest)
        for similar in nearest:
            limit = self.meaning if similar.by == "meaning" else self.words
            if similar.similarity >= limit and _shared_fields(similar.memory) == _shared_fields(memory):
                other = similar.memory.id
                if self.fold and _sorted_words(memory.text) == _sorted_words(similar.memory.text):
                    return PolicyDecision(Action.REJECT, _NEAR_DUPLICATE, of=other)
                linked = replace(memory, metadata={**memory.metadata, NEAR_DUPLICATE_KEY: other})
                return PolicyDecision(Action.TRANSFORM, _NEAR_DUPLICATE, linked, of=other, may_replace=older)
        return PolicyDecision(Action.ACCEPT, may_replace=older)


def replaceable_statement(memory: Memory, nearest: Iterable[SimilarMemory]) -> str | None:
    """Return the id of the stored statement that *memory* most probably replaces; None where the judge doubts it."""
    new = _claim(memory)
    likely = [
        (replaces(_claim(similar.memory), new), similar.memory.id)
        for similar in nearest
        if _shared_fields(similar.memory) == _shared_fields(memory)
        and _sorted_words(similar.memory.text) != _sorted_words(memory.text)
        and not _asks(similar.memory)
    ]
    share, older = max(likely, default=(0.0, ""))
    return older if older and not _asks(memory) and share >= bounds(by_meaning=False).proposes else None


def _asks(memory: Memory) -> bool:
    return analyze_text(memory.text).utterance.kind in SILENT_KINDS


def _claim(memory: Memory) -> Claim:
    analysis = analyze_text(memory.text)
    topics = frozenset(part.strip() for part in memory.about.casefold().split(";") if part.strip())
    time = statement_time(memory)
    return Claim.of_traits(
        _WORD.findall(memory.text.casefold()), analysis.traits, analysis.subject, topics,
        0 if time is None else int(time.timestamp() * 1e6),
    )  # fmt: skip


def _shared_fields(memory: Memory) -> tuple[object, ...]:
    """Return kind, speaker and scopes: memories that agree in all of them could stand for one another."""
    return memory.kind, memory.role, memory.speaker, dict(memory.scopes)


def _sorted_words(text: str) -> list[str]:
    return sorted(_WORD.findall(text.casefold()))
