"""Turn links and neighbour expansion: links kept through any order of writes, turns around a hit inside the budget.

Inner parts, on no face: ``tellback.memory.retrieval.index.record``, ``tellback.memory.retrieval.index.record_batch``,
``tellback.memory.retrieval.index.turn_links``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.memory import ArgumentError, Hit, LongTermMemory, Memory, RecallResult, Source, Trust
from tellback.memory import run_sync as run
from tellback.memory.internals import to_entry
from tellback.memory.retrieval.index.record import TextFeature
from tellback.memory.retrieval.index.record_batch import RECORD_DTYPE
from tellback.memory.retrieval.index.turn_links import NO_ROW, TurnLinks
from tellback.vectorstore import open_store
from tellback.vectorstore.internals import GrowableArray
from tests.support.homes import HOMES, address_in_home

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


TALK = [
    ("user", "Good morning!"),
    ("assistant", "Good morning. What can I do?"),
    ("user", "Which paint suits a damp cellar?"),
    ("user", "It has no window."),
    ("assistant", "Take silicate paint, it lets the wall breathe."),
    ("assistant", "Lime wash would do as well."),
    ("user", "Thanks. My brother repairs clocks in Graz."),
    ("assistant", "A fine trade."),
]


@pytest.fixture(params=HOMES)
def memory(request, tmp_path: Path):
    url = address_in_home(request, tmp_path)
    opened = LongTermMemory(open_store(url), clock=lambda: NOW, counter=lambda text: len(text.split()))
    run(opened.remember_many(turns()))
    yield opened
    run(opened.close())


def turns(session: str = "s") -> list[Memory]:
    return [
        Memory(text, kind="turn", role=role, session=session, sequence=position, key=f"{session}{position}")
        for position, (role, text) in enumerate(TALK)
    ]


def ask(memory: LongTermMemory, text: str, **options) -> tuple[Hit, RecallResult]:
    found = run(memory.recall(text, options.pop("k", 1), **options))
    return found[0], found


def texts(memories: tuple[Memory, ...]) -> list[str]:
    return [TALK.index((item.role or "", item.text)) for item in memories]


def test_neighbours_n_adds_up_to_n_turns_of_each_side_in_session_order(memory):
    hit, _ = ask(memory, "silicate paint", neighbours=2)
    assert (texts(hit.before), texts(hit.after)) == ([2, 3], [5, 6])
    hit, _ = ask(memory, "A fine trade", neighbours=3)
    assert (texts(hit.before), texts(hit.after)) == ([4, 5, 6], [])
    assert ask(memory, "silicate paint")[0].before == ()


@pytest.mark.parametrize(
    ("question", "before", "after"),
    [
        ("Has it no window?", [2], [4, 5]),
        ("silicate paint that breathes", [2, 3], [5]),
        ("lime wash", [2, 3, 4], []),
        ("who repairs clocks in Graz", [], [7]),
        ("a fine trade", [6], []),
    ],
)
def test_neighbours_exchange_adds_the_other_turns_of_the_exchange_of_the_hit(memory, question, before, after):
    hit, _ = ask(memory, question, neighbours="exchange")
    assert (texts(hit.before), texts(hit.after)) == (before, after)


def test_turns_of_another_session_are_no_neighbours(memory):
    run(memory.remember_many(turns("t")))
    hit, _ = ask(memory, "a fine trade", neighbours=5)
    assert {item.session for item in hit.before} == {hit.memory.session}


def test_a_turn_that_is_itself_a_hit_is_not_repeated_as_a_neighbour(memory):
    _, found = ask(memory, "silicate paint or lime wash", k=3, neighbours=3)
    every = [item.id for hit in found for item in (hit.memory, *hit.before, *hit.after)]
    assert len(every) == len(set(every))
    assert len(every) > 3


def test_neighbour_turns_count_in_the_token_budget_nearest_first(memory):
    hit, found = ask(memory, "silicate paint", neighbours=3, token_budget=17)
    assert (texts(hit.before), texts(hit.after)) == ([3], [])
    reasons = {item.reason for item in found.left_out}
    assert reasons == {f"over the token budget, beside {hit.memory.id}"}
    assert len(found.left_out) == 5


def test_neighbour_turns_that_are_expired_or_fail_the_filter_are_skipped(memory):
    run(memory.remember(Memory("Hush.", role="user", session="s", sequence=4, expires_at=NOW - timedelta(1))))
    hit, _ = ask(memory, "silicate paint", neighbours=1)
    assert (texts(hit.before), texts(hit.after)) == ([3], [5])
    hit, _ = ask(memory, "silicate paint", neighbours=2, where={"role": "assistant"})
    assert {item.role for item in (*hit.before, *hit.after)} == {"assistant"}


def test_a_memory_without_a_session_gets_no_neighbours(memory):
    run(memory.remember("The spare key hangs behind the oven."))
    hit, found = ask(memory, "Where does the spare key hang?", neighbours=4)
    assert (hit.before, hit.after, found.notes[:-1]) == ((), (), ())


SHELF = ("Paint comes in tins.", "Oil paint smells.", "Silicate is breathable.", "Lime wash is cheap.", "Wax is last.")


def passages(document: str, *, shelf: str) -> list[Memory]:
    return [
        Memory(
            text,
            id=f"{shelf}-{document}-{9 - position}",
            kind="document",
            source=Source(document=document, start=position * 10, end=position * 10 + 9),
            trust=Trust.DOCUMENT,
        )
        for position, text in enumerate(SHELF)
    ]


def shelved(memory: LongTermMemory, document: str, *, shelf: str) -> None:
    entries = [to_entry(passage) for passage in passages(document, shelf=shelf)]
    memory.store.upsert(entries, namespace=f"/documents/{shelf}")


def test_neighbours_of_a_passage_are_adjacent_passages_of_its_document_in_order(memory):
    for shelf in ("one", "two"):
        for document in ("paint.md", "other.md"):
            shelved(memory, document, shelf=shelf)
    _, found = ask(memory, "breathable silicate", partitions=["documents"], neighbours=2)
    (hit,) = found
    assert [item.text for item in hit.before] == list(SHELF[:2])
    assert [item.text for item in hit.after] == list(SHELF[3:])
    around = (*hit.before, *hit.after)
    assert {item.id.rpartition("-")[0] for item in around} == {hit.memory.id.rpartition("-")[0]}
    assert {item.source.document for item in around} == {hit.memory.source.document}


def test_passages_at_document_ends_and_hits_are_not_repeated_as_neighbours(memory):
    shelved(memory, "paint.md", shelf="one")
    found = run(memory.recall("Paint in tins, oil paint", 2, partitions=["documents"], neighbours=1))
    beside = {hit.memory.text: (hit.before, [item.text for item in hit.after]) for hit in found}
    assert beside == {SHELF[0]: ((), []), SHELF[1]: ((), [SHELF[2]])}


def test_neighbour_passages_count_in_the_token_budget(memory):
    shelved(memory, "paint.md", shelf="one")
    _, found = ask(memory, "breathable silicate", partitions=["documents"], neighbours=1, token_budget=6)
    (hit,) = found
    assert ([item.text for item in hit.before], hit.after) == ([SHELF[1]], ())
    assert found.left_out


def test_neighbours_exchange_of_a_passage_adds_nothing_with_a_note(memory):
    shelved(memory, "paint.md", shelf="one")
    hit, found = ask(memory, "breathable silicate", partitions=["documents"], neighbours="exchange")
    assert (hit.before, hit.after) == ((), ())
    assert any("no exchange" in note for note in found.notes)


@pytest.mark.parametrize("neighbours", [-1, "all", 1.5, True, None])
def test_recall_refuses_an_invalid_neighbours_argument(memory, neighbours):
    with pytest.raises(ArgumentError, match="neighbours"):
        run(memory.recall("paint", neighbours=neighbours))


TURNS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(1, 3), st.booleans()), min_size=1, max_size=25
)


class Line:
    """The links of turns, with the columns and ids of all rows."""

    def __init__(self) -> None:
        self.columns, self.ids = GrowableArray(RECORD_DTYPE), []
        self.order = TurnLinks(self.columns, self.ids)

    def extend(self, turns: list[tuple[int, int | None, int, bool, int, str]]) -> None:
        """Add turns of session, sequence, speaker, whether it asks, time and id."""
        added = np.zeros(len(turns), RECORD_DTYPE)
        added["session"] = [session for session, *_ in turns]
        added["placed"] = [sequence is not None for _, sequence, *_ in turns]
        added["sequence"] = [sequence or 0.0 for _, sequence, *_ in turns]
        added["speaker"] = [speaker for _, _, speaker, *_ in turns]
        added["text_features"] = [TextFeature.ASKS * asks for _, _, _, asks, *_ in turns]
        added["occurred_at"] = [time for *_, time, _ in turns]
        self.columns.extend(added)
        self.ids.extend(id for *_, id in turns)
        self.order.extend()


def links(order: TurnLinks, names: dict[int, int]) -> dict[int, tuple[int, int, int]]:
    """Return (before, after, answers) by turn, whatever rows the turns are in."""

    def name(row: int) -> int:
        return -1 if row == NO_ROW else names[row]

    columns = (order.before.rows, order.after.rows, order.answers.rows)
    return {turn: tuple(name(int(column[row])) for column in columns) for row, turn in names.items()}  # type: ignore[misc]


def plain_links(turns: list[tuple[int, int, int, bool]], left: list[int]) -> dict[int, tuple[int, int, int]]:
    """The slow, clear version: sort each session, split it into runs, look at the run before."""
    found = {}
    for session in {turns[position][0] for position in left}:
        line = sorted(
            (position for position in left if turns[position][0] == session),
            key=lambda position: (turns[position][1], position),
        )
        for place, position in enumerate(line):
            start = place
            while start > 0 and turns[line[start - 1]][2] == turns[position][2]:
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
            found[position] = (before, after, answers)
    return found


@given(TURNS, st.randoms(use_true_random=False), st.data())
def test_links_equal_the_plain_version_in_any_order_of_writes(turns: list, random: object, data: st.DataObject) -> None:
    line = Line()
    written = list(range(len(turns)))
    random.shuffle(written)  # type: ignore[attr-defined]
    left = list(written)
    while left:
        batch = left[: data.draw(st.integers(1, 9))]
        del left[: len(batch)]
        line.extend([(*turns[position], position // 4, f"{position:02d}") for position in batch])  # type: ignore[misc]
    names = dict(enumerate(written))
    gone = data.draw(st.sets(st.sampled_from(written), max_size=5))
    for row, position in names.items():
        if position in gone:
            line.order.remove(row)
    values = {row: position for row, position in names.items() if position not in gone}
    assert links(line.order, values) == plain_links(turns, list(values.values()))


def test_a_turn_of_no_session_has_no_neighbours() -> None:
    line = Line()
    line.extend([(-1, 1, 1, True, 0, "a"), (-1, 2, 2, False, 0, "b"), (0, None, 2, False, 0, "c")])
    assert links(line.order, {0: 0, 1: 1, 2: 2}) == dict.fromkeys(range(3), (-1, -1, -1))
    line.order.remove(0)
    line.order.remove(2)
