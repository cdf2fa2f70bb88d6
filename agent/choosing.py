"""What is shown of what there is: recalled items and turns of history compete for the room that is left. Pure.

Each has a value on one scale. Recalled items have their score beside the best one's, halved where they may not be
about the prompt; the newest turn of history has 1, each older one a tenth less. The most valuable come first; history
stays without gaps, so that it ends where the first turn finds no room.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from agent.items import ContextItem
from agent.rendering import rendered
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
    """What is shown; *shortened* items stand in *recalled* as far as whole sentences of them had room."""

    pinned: tuple[ContextItem, ...]
    recalled: tuple[ContextItem, ...]
    history: tuple[Message, ...]
    shortened: tuple[LeftOut, ...] = ()


def first_fitting(
    items: Sequence[ContextItem], room: int, heading: str, counter: TokenCounter
) -> tuple[tuple[ContextItem, ...], int]:
    """Return the items that fit, in their order (a long one is passed over), and what they cost."""
    kept: list[ContextItem] = []
    spent = 0
    for item in items:
        cost = item_cost(item, counter) + (0 if kept else heading_cost(heading, counter))
        if spent + cost <= room:
            kept.append(item)
            spent += cost
    return tuple(kept), spent


def competing(
    recalled: Sequence[ContextItem],
    history: Sequence[Message],
    room: int,
    *,
    heading: str,
    doubtful: bool,
    counter: TokenCounter,
) -> Chosen:
    """Choose from both for *room* tokens; both keep their order."""
    system = tuple(message for message in history if message.role == "system")
    turns = _turns([message for message in history if message.role != "system"])
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
            left = room - (0 if kept else heading_cost(heading, counter))
            shown = item if item_cost(item, counter) <= left else _beginning(item, left, counter)
            if shown is None:
                continue
            if shown is not item:
                note = f"shortened to {len(shown.text)} of {len(item.text)} characters"
                shortened.append(LeftOut(item.id, note, item.id))
            room = left - item_cost(shown, counter)
            kept[place] = shown
        elif history_open and (cost := sum(message_tokens(one, counter) for one in turns[-1 - place])) <= room:
            room -= cost
            told += 1
        else:
            history_open = False
    newest = [message for turn in turns[len(turns) - told :] for message in turn]
    items = tuple(kept[place] for place in sorted(kept))
    return Chosen((), items, (*system, *newest) if newest else (), tuple(shortened))


def item_cost(item: ContextItem, counter: TokenCounter) -> int:
    """Return what *item* costs by itself: a little more than beside others, so the sum never exceeds the room."""
    return counter.count(rendered([item], ""))


def heading_cost(heading: str, counter: TokenCounter) -> int:
    """Return what the line above the items costs."""
    return counter.count(f"{heading} (mark {'0' * 16}):\n")


def _value(item: ContextItem, place: int, best: float) -> float:
    return item.score / best if best > 0 else 1 / (1 + place)


def _turns(messages: Sequence[Message]) -> list[tuple[Message, ...]]:
    """Cut *messages* at each message of the user: what belongs together is shown together, or not at all."""
    borders = [place for place, message in enumerate(messages) if message.role == "user"] + [len(messages)]
    return [tuple(messages[start:end]) for start, end in pairwise(borders)]


def _beginning(item: ContextItem, room: int, counter: TokenCounter) -> ContextItem | None:
    """Return as many whole sentences of *item*, from its beginning, as fit into *room*; None where too few do."""
    if room < _LEAST:
        return None
    ends = [match.end() for match in _SENTENCE.finditer(item.text)]
    low, high, found = 0, len(ends) - 1, None
    while low <= high:
        middle = (low + high) // 2
        text = item.text[: ends[middle]]
        shorter = replace(item, text=text, end=item.start + len(text))
        if item_cost(shorter, counter) <= room:
            found, low = shorter, middle + 1
        else:
            high = middle - 1
    return found
