"""What the write policies make of an export's items, asked before anything is written: they may be slow, or remote.

An item is judged by itself: an export is whole, so what is nearly the same as something here is taken all the same,
and nothing is derived from it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from memory.portable.items import memory_of
from memory.portable.reading import Checked, lines_of
from memory.portable.report import Item
from memory.records import Memory, Outcome, Trust
from memory.write.judging import Judged

Decide: TypeAlias = Callable[[Sequence[Memory]], Sequence[Judged]]
"""Asks the policies about memories, each by itself."""

MEMORIES: Final = (Item.MEMORY, Item.PASSAGE, Item.VERSION)
_BATCH: Final = 256
_RANK: Final = tuple(Trust)


def lowered(memory: Memory, ceiling: Trust | None) -> Memory:
    """Return *memory* with no more trust than *ceiling*; what was trusted more is not pinned any more either."""
    if ceiling is None or _RANK.index(memory.trust) >= _RANK.index(ceiling):
        return memory
    return replace(memory, trust=ceiling, pinned=False)


def decisions(checked: Checked, ceiling: Trust | None, decide: Decide) -> dict[int, Judged]:
    """Return, by line, what becomes of the memories that the policies do not let through as they are."""
    found: dict[int, Judged] = {}
    batch: dict[int, Memory] = {}

    def ask() -> None:
        for (line, memory), judged in zip(batch.items(), decide(list(batch.values())), strict=True):
            if judged.memory != memory or judged.outcome is not Outcome.STORED or judged.reason:
                found[line] = judged
        batch.clear()

    for number, given in lines_of(checked.path):
        if number > 1 and given["type"] in MEMORIES:
            batch[number] = lowered(memory_of(given), ceiling)
            if len(batch) == _BATCH:
                ask()
    ask()
    return found
