"""Token budget of the context: recalled items and turns of history compete for the tokens that are left. Pure.

Each candidate has a value on one scale. A recalled item has its score relative to the best one, halved where the items
may not be about the prompt; the newest turn of history has 1, each older one a tenth less. The most valuable come
first. History stays without gaps: it ends at the first turn that does not fit. Pinned memories have a budget of their
own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from agent.context.rendering import render_item
from agent.context_items import ContextItem
from memory import Message, TokenCounter, message_tokens
from memory.internals import Omitted

TURN_DECAY = 0.9
"""How much each turn of history is worth beside the next newer one."""
DOUBT_FACTOR = 0.5
"""How much recalled items are worth where they may not be about the prompt."""
_TURN_CANDIDATE, _ITEM_CANDIDATE = 0, 1
_MIN_EXCERPT_TOKENS = 40
"""Tokens below which the beginning of an item is not worth showing."""
_SENTENCE_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f\u061f]+[\"'\u201d\u2019)\]]*(?=\s|$)|\n(?=\n)")


@dataclass(frozen=True, slots=True)
class ContextSelection:
    """What is shown; *shortened* items stand in *recalled* or *pinned* as far as whole sentences of them had room."""

    pinned: tuple[ContextItem, ...]
    recalled: tuple[ContextItem, ...]
    history: tuple[Message, ...]
    shortened: tuple[Omitted, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemCosts:
    """What items cost: their *mark* is part of it, *counter* counts."""

    mark: str
    counter: TokenCounter

    def item(self, item: ContextItem) -> int:
        """Return what *item* costs by itself: no less than beside others, so the sum never exceeds the room."""
        return self.counter.count(render_item(item, self.mark) + "\n")

    def heading(self, heading: str) -> int:
        """Return what the line above the items costs."""
        return self.counter.count(f"{heading} (mark {self.mark}):\n")

    def fitting(self, item: ContextItem, room: int) -> ContextItem | None:
        """Return *item* whole if it fits into *room*, else as many whole sentences as do, else None."""
        return item if self.item(item) <= room else self._beginning(item, room)

    def _beginning(self, item: ContextItem, room: int) -> ContextItem | None:
        if room < _MIN_EXCERPT_TOKENS:
            return None
        ends = [match.end() for match in _SENTENCE_END.finditer(item.text)]
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


def select_fitting_items(
    items: Sequence[ContextItem], room: int, heading: str, weighing: ItemCosts
) -> tuple[tuple[ContextItem, ...], tuple[Omitted, ...], int]:
    """Return the items that fit, in their order, those of them that were shortened, and what all cost.

    One for which there is no room is passed over; a smaller one after it may still fit.
    """
    kept: list[ContextItem] = []
    shortened: list[Omitted] = []
    spent = 0
    for item in items:
        before = spent + (0 if kept else weighing.heading(heading))
        shown = weighing.fitting(item, room - before)
        if shown is None:
            continue
        if shown is not item:
            shortened.append(_shortened_note(item, shown))
        kept.append(shown)
        spent = before + weighing.item(shown)
    return tuple(kept), tuple(shortened), spent


def select_within_budget(
    recalled: Sequence[ContextItem],
    history: Sequence[Message],
    room: int,
    *,
    heading: str,
    doubtful: bool,
    weighing: ItemCosts,
    said_in: Mapping[int, int] | None = None,
) -> ContextSelection:
    """Choose from both for *room* tokens; both keep their order.

    *said_in* names, by their places, the items that are messages of *history* (``id(message)``): shown there, they
    take no room of their own.
    """
    counter = weighing.counter
    turns = _split_turns([message for message in history if message.role != "system"])
    system = tuple(message for message in history if message.role == "system")
    ages = {id(message): len(turns) - 1 - place for place, turn in enumerate(turns) for message in turn}
    told_at = {place: ages[message] for place, message in (said_in or {}).items() if message in ages}
    shown = _BudgetedItems(room - sum(message_tokens(message, counter) for message in system), heading, weighing)
    told = 0
    history_open = True
    for kind, place in _ranked_candidates(recalled, len(turns), doubtful=doubtful):
        if kind == _ITEM_CANDIDATE:
            shown.add(place, recalled[place], is_told=told_at.get(place, told) < told)
        elif history_open and (cost := sum(message_tokens(one, counter) for one in turns[-1 - place])) <= shown.room:
            shown.room -= cost
            told += 1
            for one in (one for one, age in told_at.items() if age == place):
                shown.is_told(one, recalled[one])
        else:
            history_open = False
    newest = [message for turn in turns[len(turns) - told :] for message in turn]
    items = tuple(shown.kept[place] for place in sorted(shown.kept))
    return ContextSelection((), items, (*system, *newest) if newest else (), tuple(shown.shortened.values()))


class _BudgetedItems:
    """Items that are shown by their places, and the room that is left: those that a message shows take none."""

    def __init__(self, room: int, heading: str, weighing: ItemCosts) -> None:
        self.room = room
        self.kept: dict[int, ContextItem] = {}
        self.shortened: dict[int, Omitted] = {}
        self._paid: dict[int, int] = {}
        self._heading, self._weighing = weighing.heading(heading), weighing

    def add(self, place: int, item: ContextItem, *, is_told: bool) -> None:
        """Show *item*, if it fits or is told anyway."""
        if is_told:
            self.kept[place] = item
            return
        before = 0 if self._paid else self._heading
        fitting = self._weighing.fitting(item, self.room - before)
        if fitting is None:
            return
        if fitting is not item:
            self.shortened[place] = _shortened_note(item, fitting)
        self.kept[place], self._paid[place] = fitting, self._weighing.item(fitting)
        self.room -= before + self._paid[place]

    def is_told(self, place: int, item: ContextItem) -> None:
        """Give back the room of an item that a message shows now, whole."""
        if place in self._paid:
            self.room += self._paid.pop(place) + (0 if self._paid else self._heading)
            self.kept[place] = item
            self.shortened.pop(place, None)


def _ranked_candidates(recalled: Sequence[ContextItem], turns: int, *, doubtful: bool) -> list[tuple[int, int]]:
    """Return items by their places and turns by their ages, the most valuable first."""
    best = max((item.score for item in recalled), default=0.0)
    doubt = DOUBT_FACTOR if doubtful else 1.0
    offers = [(_item_value(item, place, best) * doubt, _ITEM_CANDIDATE, place) for place, item in enumerate(recalled)]
    offers += [(TURN_DECAY**age, _TURN_CANDIDATE, age) for age in range(turns)]
    return [(kind, place) for _, kind, place in sorted(offers, key=lambda offer: (-offer[0], offer[1], offer[2]))]


def _item_value(item: ContextItem, place: int, best: float) -> float:
    return item.score / best if best > 0 else 1 / (1 + place)


def _split_turns(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Cut *messages* at each message of the user: what belongs together is shown together, or not at all."""
    borders = [place for place, message in enumerate(messages) if message.role == "user"] + [len(messages)]
    return [tuple(messages[start:end]) for start, end in pairwise(borders)]


def _shortened_note(item: ContextItem, shown: ContextItem) -> Omitted:
    return Omitted(item.id, f"shortened to {len(shown.text)} of {len(item.text)} characters", item.id)
