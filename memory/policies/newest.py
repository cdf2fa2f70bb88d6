"""The walk that all windows share: groups from the newest back, whole, until one does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memory.messages import Message
from memory.policies.protocol import Window, checked_messages
from memory.turns import groups

Cost = Callable[[Message], int]


def newest_groups(messages: Sequence[Message], budget: int, cost: Cost, *, system_cost: Cost) -> Window:
    """Return system messages and the newest groups whose costs sum up to at most *budget*.

    A tool message whose call is not in the window would be refused by a model: such orphans at the window's
    start are left out, unless there is nothing else.
    """
    checked_messages(messages)
    system = [message for message in messages if message.role == "system"]
    found = groups([message for message in messages if message.role != "system"])
    spent = sum(map(system_cost, system))
    kept: list[tuple[Message, ...]] = []
    for group in reversed(found):
        price = sum(map(cost, group))
        if kept and spent + price > budget:
            break
        kept.insert(0, group)
        spent += price
    while len(kept) > 1 and kept[0][0].role == "tool":
        kept.pop(0)  # more than one group is never over the budget, so what is spent need not be told anew
    chosen = (*system, *(message for group in kept for message in group))
    return Window(chosen, dropped=len(messages) - len(chosen), over_budget=spent > budget)
