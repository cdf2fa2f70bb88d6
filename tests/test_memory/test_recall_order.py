"""Neighbours and answer links, kept through any order of writes and removals."""

from hypothesis import given, settings
from hypothesis import strategies as st

from memory.recall.order import NO_ROW, Order

TURNS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 3), st.booleans()), min_size=1, max_size=25
)


def links(order: Order, names: dict[int, int]) -> dict[int, tuple[int, int, int]]:
    """Return (before, after, answers) by turn, whatever rows the turns are in."""

    def name(row: int) -> int:
        return -1 if row == NO_ROW else names[row]

    columns = (order.before.values, order.after.values, order.answers.values)
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


@settings(max_examples=150, deadline=None)
@given(TURNS, st.randoms(use_true_random=False), st.data())
def test_links_equal_the_plain_version_in_any_order_of_writes(turns: list, random: object, data: st.DataObject) -> None:
    order = Order()
    written = list(range(len(turns)))
    random.shuffle(written)  # type: ignore[attr-defined]
    for at in written:
        session, sequence, speaker, asks = turns[at]
        order.add(session, (float(sequence), at, ""), speaker=speaker, asks=asks)
    names = dict(enumerate(written))
    gone = data.draw(st.sets(st.sampled_from(written), max_size=5))
    for row, at in names.items():
        if at in gone:
            order.remove(row, turns[at][0], (float(turns[at][1]), at, ""))
    left = {row: at for row, at in names.items() if at not in gone}
    assert links(order, left) == plain_links(turns, list(left.values()))


def test_a_turn_of_no_session_has_no_neighbours() -> None:
    order = Order()
    order.add(-1, (1.0, 0, "a"), speaker=1, asks=True)
    order.add(-1, (2.0, 0, "b"), speaker=2, asks=False)
    order.add(0, None, speaker=2, asks=False)
    assert links(order, {0: 0, 1: 1, 2: 2}) == dict.fromkeys(range(3), (-1, -1, -1))
