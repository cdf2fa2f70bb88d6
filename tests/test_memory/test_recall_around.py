"""The turns around a hit: so many on each side, or the whole exchange, each once and inside the budget."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory.codec import to_entry
from memory.errors import ArgumentError
from memory.long_term import LongTermMemory
from memory.models import Memory, Source, Trust
from memory.results import Hit, RecallResult
from memory.runtime import run_sync as run
from vectorstore import open_store

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


@pytest.fixture(params=["numpy:", "sqlite"])
def memory(request, tmp_path: Path):
    url = request.param if request.param == "numpy:" else f"sqlite:///{tmp_path}/m.db"
    opened = LongTermMemory(open_store(url), clock=lambda: NOW, counter=lambda text: len(text.split()))
    run(opened.remember_many(turns()))
    yield opened
    run(opened.close())


def turns(session: str = "s") -> list[Memory]:
    return [
        Memory(text, kind="turn", role=role, session=session, sequence=at, key=f"{session}{at}")
        for at, (role, text) in enumerate(TALK)
    ]


def ask(memory: LongTermMemory, text: str, **options) -> tuple[Hit, RecallResult]:
    found = run(memory.recall(text, options.pop("k", 1), **options))
    return found[0], found


def texts(memories: tuple[Memory, ...]) -> list[str]:
    return [TALK.index((one.role or "", one.text)) for one in memories]


def test_so_many_turns_of_each_side_come_in_the_order_of_the_talk(memory):
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
def test_an_exchange_is_what_was_said_and_what_was_answered(memory, question, before, after):
    hit, _ = ask(memory, question, neighbours="exchange")
    assert (texts(hit.before), texts(hit.after)) == (before, after)


def test_turns_of_another_session_do_not_stand_beside(memory):
    run(memory.remember_many(turns("t")))
    hit, _ = ask(memory, "a fine trade", neighbours=5)
    assert {one.session for one in hit.before} == {hit.memory.session}


def test_a_turn_that_is_a_hit_itself_is_not_repeated(memory):
    _, found = ask(memory, "silicate paint or lime wash", k=3, neighbours=3)
    every = [one.id for hit in found for one in (hit.memory, *hit.before, *hit.after)]
    assert len(every) == len(set(every))
    assert len(every) > 3


def test_the_turns_around_count_in_the_budget_and_the_nearest_come_first(memory):
    hit, found = ask(memory, "silicate paint", neighbours=3, token_budget=17)
    assert (texts(hit.before), texts(hit.after)) == ([3], [])
    reasons = {one.reason for one in found.left_out}
    assert reasons == {f"over the token budget, beside {hit.memory.id}"}
    assert len(found.left_out) == 5


def test_turns_that_do_not_pass_or_do_not_stand_are_passed_over(memory):
    run(memory.remember(Memory("Hush.", role="user", session="s", sequence=4, expires_at=NOW - timedelta(1))))
    hit, _ = ask(memory, "silicate paint", neighbours=1)
    assert (texts(hit.before), texts(hit.after)) == ([3], [5])
    hit, _ = ask(memory, "silicate paint", neighbours=2, where={"role": "assistant"})
    assert {one.role for one in (*hit.before, *hit.after)} == {"assistant"}


def test_a_memory_of_no_session_stands_alone(memory):
    run(memory.remember("The spare key hangs behind the oven."))
    hit, found = ask(memory, "Where does the spare key hang?", neighbours=4)
    assert (hit.before, hit.after, found.notes[:-1]) == ((), (), ())


SHELF = ("Paint comes in tins.", "Oil paint smells.", "Silicate is breathable.", "Lime wash is cheap.", "Wax is last.")


def passages(document: str, *, shelf: str) -> list[Memory]:
    return [
        Memory(
            text,
            id=f"{shelf}-{document}-{9 - at}",
            kind="document",
            source=Source(document=document, start=at * 10, end=at * 10 + 9),
            trust=Trust.DOCUMENT,
        )
        for at, text in enumerate(SHELF)
    ]


def shelved(memory: LongTermMemory, document: str, *, shelf: str) -> None:
    entries = [to_entry(one) for one in passages(document, shelf=shelf)]
    memory.store.upsert(entries, namespace=f"/documents/{shelf}")


def test_a_passage_comes_with_those_beside_it_in_its_own_document_in_order(memory):
    for shelf in ("one", "two"):
        for document in ("paint.md", "other.md"):
            shelved(memory, document, shelf=shelf)
    _, found = ask(memory, "breathable silicate", partitions=["documents"], neighbours=2)
    (hit,) = found
    assert [one.text for one in hit.before] == list(SHELF[:2])
    assert [one.text for one in hit.after] == list(SHELF[3:])
    around = (*hit.before, *hit.after)
    assert {one.id.rpartition("-")[0] for one in around} == {hit.memory.id.rpartition("-")[0]}
    assert {one.source.document for one in around} == {hit.memory.source.document}


def test_passages_at_the_ends_and_hits_themselves_are_not_repeated(memory):
    shelved(memory, "paint.md", shelf="one")
    found = run(memory.recall("Paint in tins, oil paint", 2, partitions=["documents"], neighbours=1))
    beside = {hit.memory.text: (hit.before, [one.text for one in hit.after]) for hit in found}
    assert beside == {SHELF[0]: ((), []), SHELF[1]: ((), [SHELF[2]])}


def test_passages_around_count_in_the_budget(memory):
    shelved(memory, "paint.md", shelf="one")
    _, found = ask(memory, "breathable silicate", partitions=["documents"], neighbours=1, token_budget=6)
    (hit,) = found
    assert ([one.text for one in hit.before], hit.after) == ([SHELF[1]], ())
    assert found.left_out


def test_of_a_passage_it_is_said_that_it_has_no_exchange(memory):
    shelved(memory, "paint.md", shelf="one")
    hit, found = ask(memory, "breathable silicate", partitions=["documents"], neighbours="exchange")
    assert (hit.before, hit.after) == ((), ())
    assert any("no exchange" in note for note in found.notes)


@pytest.mark.parametrize("neighbours", [-1, "all", 1.5, True, None])
def test_what_is_no_number_of_turns_is_refused(memory, neighbours):
    with pytest.raises(ArgumentError, match="neighbours"):
        run(memory.recall("paint", neighbours=neighbours))
