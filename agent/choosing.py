"""What is shown of what there is: recalled items and turns of history compete for the room that is left. Pure.

Each has a value on one scale. Recalled items have their score beside the best one's, halved where they may not be
about the prompt; the newest turn of history has 1, each older one a tenth less. The most valuable come first; history
stays without gaps, so that it ends where the first turn finds no room. Pinned memories compete with nothing: they have
a room of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from agent.items import ContextItem
from agent.rendering import block
from memory import LeftOut, Message, TokenCounter, message_tokens

OLDER = 0.9
"""How much each turn of history is worth beside the next newer one."""
DOUBT = 0.5
"""How much recalled items are worth where they may not be about the prompt."""
_LEAST = 40
"""Tokens below which the beginning of an item is not worth showing."""
_SENTENCE = re.compile(r"[.!?\u2026\u3002\uff01\uff1f\u061f]+[\"'\u201d\u2019)\]]*(?=\s|$)|\n(?=\n)")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What is shown; *shortened* items stand in *recalled* or *pinned* as far as whole sentences of them had room."""

    pinned: tuple[ContextItem, ...]
    recalled: tuple[ContextItem, ...]
    history: tuple[Message, ...]
    shortened: tuple[LeftOut, ...] = ()


@dataclass(frozen=True, slots=True)
class Weighing:
    """What items cost: their *mark* is part of it, *counter* counts."""

    mark: str
    counter: TokenCounter

    def item(self, item: ContextItem) -> int:
        """Return what *item* costs by itself: no less than beside others, so the sum never exceeds the room."""
        return self.counter.count(block(item, self.mark) + "\n")

    def heading(self, heading: str) -> int:
        """Return what the line above the items costs."""
        return self.counter.count(f"{heading} (mark {self.mark}):\n")

    def fitting(self, item: ContextItem, room: int) -> ContextItem | None:
        """Return *item* whole if it fits into *room*, else as many whole sentences as do, else None."""
        return item if self.item(item) <= room else self._beginning(item, room)

    def _beginning(self, item: ContextItem, room: int) -> ContextItem | None:
        if room < _LEAST:
            return None
        ends = [match.end() for match in _SENTENCE.finditer(item.text)]
        low, high, found = 0, len(ends) - 1, None
        while low <= high:
            middle = (low + high) // 2
            text = item.text[: ends[middle]]
            shorter = replace(item, text=text, end=item.start + len(text))
            if self.item(shorter) <= room:
                found, low = shorter, middle + 1
            else:
                high = middle - 1
        return found


def first_fitting(
    items: Sequence[ContextItem], room: int, heading: str, weighing: Weighing
) -> tuple[tuple[ContextItem, ...], tuple[LeftOut, ...], int]:
    """Return the items that fit, in their order, those of them that were shortened, and what all cost.

    One for which there is no room is passed over; a smaller one after it may still fit.
    """
    kept: list[ContextItem] = []
    shortened: list[LeftOut] = []
    spent = 0
    for item in items:
        before = spent + (0 if kept else weighing.heading(heading))
        shown = weighing.fitting(item, room - before)
        if shown is None:
            continue
        if shown is not item:
            shortened.append(_note(item, shown))
        kept.append(shown)
        spent = before + weighing.item(shown)
    return tuple(kept), tuple(shortened), spent


def competing(
    recalled: Sequence[ContextItem],
    history: Sequence[Message],
    room: int,
    *,
    heading: str,
    doubtful: bool,
    weighing: Weighing,
) -> Chosen:
    """Choose from both for *room* tokens; both keep their order."""
    system = tuple(message for message in history if message.role == "system")
    turns = _turns([message for message in history if message.role != "system"])
    counter = weighing.counter
    room -= sum(message_tokens(message, counter) for message in system)
    best = max((item.score for item in recalled), default=0.0)
    offers: list[tuple[float, int, int]] = [
        (_value(item, place, best) * (DOUBT if doubtful else 1.0), 1, place) for place, item in enumerate(recalled)
    ]
    offers += [(OLDER**age, 0, age) for age in range(len(turns))]
    kept: dict[int, ContextItem] = {}
    shortened: list[LeftOut] = []
    told = 0
    history_open = True
    for _, kind, place in sorted(offers, key=lambda offer: (-offer[0], offer[1], offer[2])):
        if kind:
            item = recalled[place]
            left = room - (0 if kept else weighing.heading(heading))
            shown = weighing.fitting(item, left)
            if shown is None:
                continue
            if shown is not item:
                shortened.append(_note(item, shown))
            room = left - weighing.item(shown)
            kept[place] = shown
        elif history_open and (cost := sum(message_tokens(one, counter) for one in turns[-1 - place])) <= room:
            room -= cost
            told += 1
        else:
            history_open = False
    newest = [message for turn in turns[len(turns) - told :] for message in turn]
    items = tuple(kept[place] for place in sorted(kept))
    return Chosen((), items, (*system, *newest) if newest else (), tuple(shortened))


def _value(item: ContextItem, place: int, best: float) -> float:
    return item.score / best if best > 0 else 1 / (1 + place)


def _turns(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Cut *messages* at each message of the user: what belongs together is shown together, or not at all."""
    borders = [place for place, message in enumerate(messages) if message.role == "user"] + [len(messages)]
    return [tuple(messages[start:end]) for start, end in pairwise(borders)]


def _note(item: ContextItem, shown: ContextItem) -> LeftOut:
    return LeftOut(item.id, f"shortened to {len(shown.text)} of {len(item.text)} characters", item.id)
