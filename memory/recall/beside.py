"""The turns around a turn in its session: so many before and after, or the whole exchange. Rows in, rows out.

An exchange is what one side said and what the other answered: the run of turns that a turn stands in, with the run
that it answers, or the one that answers it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from memory.recall.cues import Cue
from memory.recall.index import Index
from memory.recall.order import NO_ROW
from memory.recall.query import Around

LONGEST = 12
"""Turns of an exchange on either side of a hit; a longer run of one speaker is a speech."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The rows before a row and those after it, each in the order in which they were said."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def beside(index: Index, row: int, around: Around, shown: Callable[[int], bool]) -> Beside:
    """Return the rows around *row*: *around* of each side, or its exchange; those not *shown* are passed over."""
    if isinstance(around, int):
        return Beside(
            tuple(reversed(_walked(index.order.before.rows, row, around, shown))),
            tuple(_walked(index.order.after.rows, row, around, shown)),
        )
    before = _walked(index.order.before.rows, row, LONGEST, shown)
    after = _walked(index.order.after.rows, row, LONGEST, shown)
    own_before, own_after = _run(index, row, before), _run(index, row, after)
    if _opens(index, row, before[:own_before]):
        other = _other_run(index, after[own_after:])
        return Beside(tuple(reversed(before[:own_before])), tuple(after[: own_after + other]))
    other = _other_run(index, before[own_before:])
    return Beside(tuple(reversed(before[: own_before + other])), tuple(after[:own_after]))


def _opens(index: Index, row: int, run_before: list[int]) -> bool:
    """Whether *row* begins an exchange rather than ends one: it asks, goes on after a question of its own run, or
    neither answers nor is the assistant's.
    """
    cues = index.cues.rows
    if cues[row] & int(Cue.ENDS_ASKING) or any(cues[one] & int(Cue.ASKS) for one in run_before):
        return True
    return bool(index.order.answers.rows[row] == NO_ROW and not index.assistant.rows[row])


def _run(index: Index, row: int, following: list[int]) -> int:
    """Return how many of *following* go on in the voice of *row*."""
    speakers = index.speaker.rows
    return next((at for at, one in enumerate(following) if speakers[one] != speakers[row]), len(following))


def _other_run(index: Index, following: list[int]) -> int:
    return 1 + _run(index, following[0], following[1:]) if following else 0


def _walked(links: NDArray[np.int32], row: int, count: int, shown: Callable[[int], bool]) -> list[int]:
    """Return the next *count* rows along *links*, the nearest first."""
    found: list[int] = []
    at = int(links[row])
    while at != NO_ROW and len(found) < count:
        if shown(at):
            found.append(at)
        at = int(links[at])
    return found
