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

from tellback.agent.context.rendering import closing_line, opening_line, render_item
from tellback.agent.context_items import ContextItem
from tellback.memory import Message, TokenCounter, message_tokens
from tellback.memory.internals import Omitted

TURN_DECAY = 0.9
"""Value of a turn of history relative to the next newer turn."""
DOUBT_FACTOR = 0.5
"""Factor of the value of recalled items that may not be about the prompt."""
_TURN_CANDIDATE, _ITEM_CANDIDATE = 0, 1
_MIN_EXCERPT_TOKENS = 40
"""Tokens below which an excerpt of an item is not shown."""
_SENTENCE_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f\u061f]+[\"'\u201d\u2019)\]]*(?=\s|$)|\n(?=\n)")


@dataclass(frozen=True, slots=True)
class ContextSelection:
    """Selection of what is shown; *shortened* items are in *recalled* or *pinned*, cut after a whole sentence."""

    pinned: tuple[ContextItem, ...]
    recalled: tuple[ContextItem, ...]
    history: tuple[Message, ...]
    shortened: tuple[Omitted, ...] = ()


@dataclass(frozen=True, slots=True)
class ItemCosts:
    """Costs of rendered items in tokens, as *counter* counts them, the *mark* included."""

    mark: str
    counter: TokenCounter

    def item(self, item: ContextItem) -> int:
        """Return the cost of *item* alone, which is at least its cost beside others: the sum never exceeds the room."""
        return self.counter.count(render_item(item) + "\n")

    def heading(self, heading: str) -> int:
        """Return the cost of the lines around the items."""
        return self.counter.count(f"{heading}\n{opening_line(self.mark)}\n{closing_line(self.mark)}\n")

    def fitting(self, item: ContextItem, room: int) -> ContextItem | None:
        """Return *item* whole if it fits into *room*, else as many whole sentences as do, else None."""
        return item if self.item(item) <= room else self._excerpt(item, room)

    def _excerpt(self, item: ContextItem, room: int) -> ContextItem | None:
        if room < _MIN_EXCERPT_TOKENS:
            return None
        ends = [match.end() for match in _SENTENCE_END.finditer(item.text)]
        low, high, longest = 0, len(ends) - 1, None
        while low <= high:
            middle = (low + high) // 2
            text = item.text[: ends[middle]]
            shorter = replace(item, text=text, end=item.start + len(text))
            if self.item(shorter) <= room:
                longest, low = shorter, middle + 1
            else:
                high = middle - 1
        return longest


def select_fitting_items(
    items: Sequence[ContextItem], room: int, heading: str, costs: ItemCosts
) -> tuple[tuple[ContextItem, ...], tuple[Omitted, ...], int]:
    """Return the items that fit, in their order, those of them that were shortened, and the cost of all.

    An item without room is left out; a smaller one after it may still fit.
    """
    shown = _BudgetedItems(room, heading, costs)
    for index, item in enumerate(items):
        shown.add(index, item)
    return tuple(shown.kept.values()), tuple(shown.shortened.values()), room - shown.room


def select_within_budget(
    recalled: Sequence[ContextItem],
    history: Sequence[Message],
    room: int,
    *,
    heading: str,
    doubtful: bool,
    costs: ItemCosts,
    in_history: Mapping[int, int] | None = None,
) -> ContextSelection:
    """Select from *recalled* and *history* for *room* tokens; both keep their order.

    *in_history* maps indexes of items that are messages of *history* to these (``id(message)``): shown there, they take
    no room of their own.
    """
    counter = costs.counter
    turns = _split_turns([message for message in history if message.role != "system"])
    system = tuple(message for message in history if message.role == "system")
    ages = {id(message): len(turns) - 1 - index for index, turn in enumerate(turns) for message in turn}
    item_ages = {index: ages[message] for index, message in (in_history or {}).items() if message in ages}
    shown = _BudgetedItems(room - _tokens(system, counter), heading, costs)
    shown_turns = 0
    history_open = True
    for kind, index in _ranked_candidates(recalled, len(turns), doubtful=doubtful):
        if kind == _ITEM_CANDIDATE:
            shown.add(index, recalled[index], in_history=item_ages.get(index, shown_turns) < shown_turns)
        elif history_open and (cost := _tokens(turns[-1 - index], counter)) <= shown.room:
            shown.room -= cost
            shown_turns += 1
            for item in (item for item, age in item_ages.items() if age == index):
                shown.release(item, recalled[item])
        else:
            history_open = False
    newest = [message for turn in turns[len(turns) - shown_turns :] for message in turn]
    items = tuple(shown.kept[index] for index in sorted(shown.kept))
    return ContextSelection((), items, (*system, *newest) if newest else (), tuple(shown.shortened.values()))


def _tokens(messages: Sequence[Message], counter: TokenCounter) -> int:
    return sum(message_tokens(message, counter) for message in messages)


class _BudgetedItems:
    """Items that are shown, by their indexes, and the room left; an item that a message shows takes none."""

    def __init__(self, room: int, heading: str, costs: ItemCosts) -> None:
        self.room = room
        self.kept: dict[int, ContextItem] = {}
        self.shortened: dict[int, Omitted] = {}
        self._paid: dict[int, int] = {}
        self._heading, self._costs = costs.heading(heading), costs

    def add(self, index: int, item: ContextItem, *, in_history: bool = False) -> None:
        """Show *item* if it fits, or if the history shows it anyway."""
        if in_history:
            self.kept[index] = item
            return
        base = 0 if self._paid else self._heading
        fitting = self._costs.fitting(item, self.room - base)
        if fitting is None:
            return
        if fitting is not item:
            note = f"shortened to {len(fitting.text)} of {len(item.text)} characters"
            self.shortened[index] = Omitted(item.id, note, item.id)
        self.kept[index], self._paid[index] = fitting, self._costs.item(fitting)
        self.room -= base + self._paid[index]

    def release(self, index: int, item: ContextItem) -> None:
        """Give back the room of an item that is now shown by a message."""
        if index in self._paid:
            self.room += self._paid.pop(index) + (0 if self._paid else self._heading)
            self.kept[index] = item
            self.shortened.pop(index, None)


def _ranked_candidates(recalled: Sequence[ContextItem], turns: int, *, doubtful: bool) -> list[tuple[int, int]]:
    """Return items by their indexes and turns by their ages, the most valuable first."""
    best = max((item.score for item in recalled), default=0.0)
    doubt = DOUBT_FACTOR if doubtful else 1.0
    values = [item.score / best if best > 0 else 1 / (1 + index) for index, item in enumerate(recalled)]
    ranked = [(value * doubt, _ITEM_CANDIDATE, index) for index, value in enumerate(values)]
    ranked += [(TURN_DECAY**age, _TURN_CANDIDATE, age) for age in range(turns)]
    ranked.sort(key=lambda candidate: (-candidate[0], candidate[1], candidate[2]))
    return [(kind, index) for _, kind, index in ranked]


def _split_turns(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Cut *messages* at each message of the user: a turn is shown whole, or not at all."""
    starts = [index for index, message in enumerate(messages) if message.role == "user"] + [len(messages)]
    return [tuple(messages[start:end]) for start, end in pairwise(starts)]
