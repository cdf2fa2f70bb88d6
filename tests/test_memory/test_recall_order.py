"""Neighbours and answer links, kept through any order of writes and removals."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.retrieval.index.turn_links import NO_ROW, TurnLinks
from vectorstore.internals import GrowableArray

TURNS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 3), st.booleans()), min_size=1, max_size=25
)


class Line:
    """An order with what it looks at: times and ids of all rows."""

    def __init__(self) -> None:
        self.occurred, self.ids = GrowableArray(np.int64), []
        self.order = TurnLinks(self.occurred, self.ids)

    def extend(self, turns: list[tuple[int, int | None, int, bool, int, str]]) -> None:
        """Add turns of session, sequence, speaker, whether it asks, time and id."""
        self.occurred.extend([time for *_, time, _ in turns])
        self.ids.extend(id for *_, id in turns)
        self.order.extend(
            np.array([session for session, *_ in turns], np.int32),
            placed=np.array([sequence is not None for _, sequence, *_ in turns]),
            sequence=np.array([sequence or 0.0 for _, sequence, *_ in turns]),
            speakers=np.array([speaker for _, _, speaker, *_ in turns], np.int32),
            asks=np.array([asks for _, _, _, asks, *_ in turns]),
        )


def links(order: TurnLinks, names: dict[int, int]) -> dict[int, tuple[int, int, int]]:
    """Return (before, after, answers) by turn, whatever rows the turns are in."""

    def name(row: int) -> int:
        return -1 if row == NO_ROW else names[row]

    columns = (order.before.rows, order.after.rows, order.answers.rows)
    return {turn: tuple(name(int(column[row])) for column in columns) for row, turn in names.items()}  # type: ignore[misc]


def plain_links(turns: list[tuple[int, int, int, bool]], left: list[int]) -> dict[int, tuple[int, int, int]]:
    """The slow, clear version: sort each session, split it into runs, look at the run before."""
    found = {}
    for session in {turns[at][0] for at in left}:
        line = sorted((at for at in left if turns[at][0] == session), key=lambda at: (turns[at][1], at))
        for place, at in enumerate(line):
            start = place
            while start > 0 and turns[line[start - 1]][2] == turns[at][2]:
                start -= 1
            answers = -1
            if start > 0:
                other = turns[line[start - 1]][2]
                run = start
                while run > 0 and turns[line[run - 1]][2] == other:
                    run -= 1
                    if turns[line[run]][3]:
                        answers = line[run]
                        break
            before = line[place - 1] if place else -1
            after = line[place + 1] if place + 1 < len(line) else -1
            found[at] = (before, after, answers)
    return found


@settings(max_examples=200, deadline=None)
@given(TURNS, st.randoms(use_true_random=False), st.data())
def test_links_equal_the_plain_version_in_any_order_of_writes(turns: list, random: object, data: st.DataObject) -> None:
    line = Line()
    written = list(range(len(turns)))
    random.shuffle(written)  # type: ignore[attr-defined]
    left = list(written)
    while left:
        batch = left[: data.draw(st.integers(1, 9))]
        del left[: len(batch)]
        line.extend([(*turns[at], at // 4, f"{at:02d}") for at in batch])  # type: ignore[misc]
    names = dict(enumerate(written))
    gone = data.draw(st.sets(st.sampled_from(written), max_size=5))
    for row, at in names.items():
        if at in gone:
            line.order.remove(row, turns[at][0])
    there = {row: at for row, at in names.items() if at not in gone}
    assert links(line.order, there) == plain_links(turns, list(there.values()))


def test_a_turn_of_no_session_has_no_neighbours() -> None:
    line = Line()
    line.extend([(-1, 1, 1, True, 0, "a"), (-1, 2, 2, False, 0, "b"), (0, None, 2, False, 0, "c")])
    assert links(line.order, {0: 0, 1: 1, 2: 2}) == dict.fromkeys(range(3), (-1, -1, -1))
    line.order.remove(0, -1)
    line.order.remove(2, 0)
