"""Replacements by a memory: the older statement ends, is recalled as of its time, and is restored by undo.

Inner parts, on no face: ``tellback.memory.retrieval``, ``tellback.memory.embedders.local``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tellback.memory import (
    ArgumentError,
    Extractor,
    HashingEmbedder,
    Judge,
    LongTermMemory,
    Memory,
    MemoryTurn,
    NearDuplicates,
    NoSuchMemory,
    NotTrusted,
    Trust,
    run_sync,
)
from tellback.memory.embedders.local import LocalWordVectors
from tellback.memory.internals import DOCUMENTS, Outcome, ReplacementCandidates, store_namespace
from tellback.memory.retrieval import conflicts
from tellback.vectorstore import Entry, LifecycleStore, open_store
from tests.support.clocks import ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=365)
WHERE = "Where do I live?"


@pytest.fixture
def memory(store: LifecycleStore) -> LongTermMemory:
    return LongTermMemory(store, embedder=HashingEmbedder(), clock=ManualClock(NOW))


def get(memory: LongTermMemory, id: str) -> Memory:
    (found,) = run_sync(memory.get([id]))
    assert found is not None
    return found


def found(memory: LongTermMemory, question: str = WHERE, **options: Any) -> list[str]:
    return [hit.memory.text for hit in run_sync(memory.recall(question, **options))]


def test_a_replaced_statement_is_recalled_as_of_its_time_and_restored_by_undo(memory: LongTermMemory) -> None:
    lisbon = run_sync(memory.remember(Memory("I live in Lisbon.", occurred_at=NOW - 2 * YEAR)))
    report = run_sync(memory.remember(Memory("The boxes are in Porto.", occurred_at=NOW - YEAR), replaces=[lisbon.id]))
    assert (report.replaced, str(report)) == ((lisbon.id,), f"stored, replaces {lisbon.id}")
    assert found(memory) == ["The boxes are in Porto."]
    assert found(memory, as_of=NOW - 1.5 * YEAR) == ["I live in Lisbon."]
    assert found(memory, as_of=NOW - YEAR / 2) == ["The boxes are in Porto."]
    assert get(memory, report.id).replaces == (lisbon.id,)
    assert get(memory, lisbon.id).valid_to == NOW - YEAR
    (operation, _) = run_sync(memory.operations())
    assert [change.id for change in operation.changes] == [report.id, lisbon.id]
    undone = run_sync(memory.undo(operation.id))
    assert found(memory) == found(memory, as_of=NOW - 1.5 * YEAR) == ["I live in Lisbon."]
    assert get(memory, lisbon.id).valid_to is None
    run_sync(memory.undo(undone.id))
    assert found(memory) == ["The boxes are in Porto."]
    assert found(memory, as_of=NOW - 1.5 * YEAR) == ["I live in Lisbon."]


def test_memories_of_one_list_replace_one_another_and_a_repeated_key_replaces_nothing_again(
    memory: LongTermMemory,
) -> None:
    items = [
        Memory("I live in Lisbon.", id="one", occurred_at=NOW - 3 * YEAR),
        Memory("I live in Porto.", id="two", occurred_at=NOW - 2 * YEAR, replaces=("one",)),
        Memory("I live in Faro.", key="k", occurred_at=NOW - YEAR, replaces=("two", "two")),
    ]
    reports = run_sync(memory.remember_many(items))
    assert [report.replaced for report in reports] == [(), ("one",), ("two",)]
    times = (2.5, 1.5, 0.5)
    assert [found(memory, as_of=NOW - years * YEAR) for years in times] == [[item.text] for item in items]
    run_sync(memory.forget(["two"]))
    assert run_sync(memory.remember(items[2])).outcome == Outcome.DUPLICATE
    assert get(memory, reports[2].id).replaces == ()  # what is forgotten is named nowhere


def test_memories_derived_only_from_a_replaced_statement_end_with_it(store: LifecycleStore) -> None:
    def facts(turn: MemoryTurn) -> list[str]:
        return [f"home: {memory.text}" for memory in turn.memories if "live" in memory.text]

    memory = LongTermMemory(store, clock=ManualClock(NOW), policies=[Extractor(facts, kinds=("fact",))])
    old = run_sync(memory.remember("I live in Lisbon."))
    run_sync(memory.remember("I live in Porto.", replaces=[old.id]))
    assert sorted(found(memory)) == ["I live in Porto.", "home: I live in Porto."]
    run_sync(memory.undo(run_sync(memory.operations())[0].id))
    assert sorted(found(memory)) == ["I live in Lisbon.", "home: I live in Lisbon."]


def test_a_near_duplicate_that_replaces_is_stored(store: LifecycleStore) -> None:
    memory = LongTermMemory(store, clock=ManualClock(NOW), policies=[NearDuplicates(fold=True)])
    old = run_sync(memory.remember("The key is under the blue pot"))
    report = run_sync(memory.remember("the KEY is under the blue pot", replaces=[old.id]))
    assert (report.stored, found(memory, "Where is the key?")) == (True, ["the KEY is under the blue pot"])


def test_an_invalid_replacement_is_refused_and_nothing_is_written(memory: LongTermMemory) -> None:
    run_sync(memory.remember(Memory("I live in Lisbon.", id="home", valid_from=NOW)))
    run_sync(memory.remember("Ana lives in Faro.", namespace="ana"))
    (elsewhere,) = run_sync(memory.list(namespace="ana"))
    passage = Entry(id="passage", text="Porto is a town.", metadata={"document": "towns.md"})
    memory.store.upsert([passage], namespace=store_namespace("", DOCUMENTS, "default"))
    early = Memory("I live in Porto.", occurred_at=NOW - YEAR)
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        ("I live in Porto.", ["gone"], NoSuchMemory, "gone"),
        ("I live in Porto.", [elsewhere.id], NoSuchMemory, elsewhere.id),
        ("I live in Porto.", "home", ArgumentError, "replaces"),
        ("I live in Porto.", ["passage"], ArgumentError, "passage"),
        (early, ["home"], ArgumentError, "later time"),
    ]
    for item, replaces, error, words in cases:
        with pytest.raises(error, match=words):
            run_sync(memory.remember(item, replaces=replaces))
    reports = run_sync(memory.remember_many([Memory("A", replaces=("gone",)), "B"]))
    assert [report.outcome for report in reports] == [Outcome.REJECTED, Outcome.STORED]
    assert sorted(listed.text for listed in run_sync(memory.list())) == ["B", "I live in Lisbon."]
    assert get(memory, "home").valid_to is None


@pytest.mark.parametrize(("actor", "trust"), [("assistant", Trust.ASSISTANT), ("document", Trust.DOCUMENT)])
def test_a_less_trusted_memory_replaces_a_user_statement_only_with_approval(
    memory: LongTermMemory, actor: Any, trust: Trust
) -> None:
    run_sync(memory.remember(Memory("I live in Lisbon.", id="home")))
    item = Memory("The user lives in Porto.", actor=actor, trust=trust, replaces=("home",))
    with pytest.raises(NotTrusted) as raised:
        run_sync(memory.remember(item))
    assert (raised.value.id, raised.value.operation) == ("home", "replace")
    (report,) = run_sync(memory.remember_many([item]))
    assert (report.outcome, found(memory)) == (Outcome.REJECTED, ["I live in Lisbon."])
    run_sync(memory.remember(item, approved_by="user"))
    assert found(memory) == ["The user lives in Porto."]
    assert run_sync(memory.recall(WHERE))[0].memory.trust == trust


def test_replacements_survive_export_and_import(memory: LongTermMemory, tmp_path: Path) -> None:
    run_sync(memory.remember(Memory("I live in Lisbon.", id="home", occurred_at=NOW - 2 * YEAR)))
    report = run_sync(memory.remember(Memory("I live in Porto.", occurred_at=NOW - YEAR, replaces=("home",))))
    run_sync(memory.export(tmp_path / "e.jsonl"))
    other = LongTermMemory(open_store("numpy:"), embedder=HashingEmbedder(), clock=ManualClock(NOW))
    run_sync(other.import_(tmp_path / "e.jsonl", trust="user"))
    for imported in (memory, other):
        assert get(imported, report.id).replaces == ("home",)
        assert found(imported) == ["I live in Porto."]
        assert found(imported, as_of=NOW - 1.5 * YEAR) == ["I live in Lisbon."]
    kinds = [operation.kind for operation in run_sync(other.operations(memory="home"))]
    assert kinds == ["import", "remember", "remember"]


def test_forgetting_a_replaced_memory_leaves_no_reference_to_it(memory: LongTermMemory) -> None:
    run_sync(memory.remember(Memory("I live in Lisbon.", id="home")))
    report = run_sync(memory.remember("I live in Porto.", replaces=["home"]))
    run_sync(memory.correct(report.id, "I live in Porto Alegre."))
    receipt = run_sync(memory.forget(["home"]))
    assert receipt.named == ()  # it was not made with it
    assert run_sync(memory.verify_forgotten(receipt)).left == ()
    assert [version.replaces for version in run_sync(memory.history(report.id))] == [(), ()]


# --- settling


STATEMENTS = (
    Memory("I live in Lisbon.", id="old", occurred_at=NOW - 3 * YEAR),
    Memory("I live in Porto.", id="user", occurred_at=NOW - 2 * YEAR),
    Memory("The user lives in Faro.", id="web", occurred_at=NOW - YEAR, actor="document", trust=Trust.DOCUMENT),
)


@pytest.mark.parametrize(
    ("keep", "then", "later", "now"),
    [
        ("newest", "old", "user", "web"),
        ("most trusted", "old", "user", "user"),
        ("old", "old", "old", "old"),
        ("user", "old", "user", "user"),
    ],
)
def test_settle_keeps_one_statement_valid_and_ends_or_invalidates_the_others(
    memory: LongTermMemory, keep: str, then: str, later: str, now: str
) -> None:
    def held(moment: datetime | None = None) -> set[str]:
        return {hit.memory.id for hit in run_sync(memory.recall(WHERE, as_of=moment))}

    run_sync(memory.remember_many(STATEMENTS))
    before = held()
    operation = run_sync(memory.settle(["old", "user", "web"], keep=keep))
    assert (operation.kind, {change.id for change in operation.changes}) == ("settle", before - {now})
    assert held() == {now}
    for moment, id in ((NOW - 2.5 * YEAR, then), (NOW - 1.5 * YEAR, later)):
        assert id in held(moment)
    undone = run_sync(memory.undo(operation.id))
    assert held() == before
    run_sync(memory.undo(undone.id))
    assert held() == {now}


def test_settle_respects_trust_and_refuses_invalid_arguments(memory: LongTermMemory) -> None:
    run_sync(memory.remember_many(STATEMENTS))
    with pytest.raises(NotTrusted):
        run_sync(memory.settle(["old", "web"], actor="assistant"))
    cases: list[tuple[list[str], str, type[Exception]]] = [
        (["old"], "newest", ArgumentError),
        (["old", "old"], "newest", ArgumentError),
        (["old", "gone"], "newest", NoSuchMemory),
        (["old", "user"], "oldest", ArgumentError),
    ]
    for ids, keep, error in cases:
        with pytest.raises(error):
            run_sync(memory.settle(ids, keep=keep))
    assert len(run_sync(memory.operations())) == 1
    run_sync(memory.settle(["old", "user"]))
    with pytest.raises(ArgumentError, match="settled already"):
        run_sync(memory.settle(["old", "user"]))


# --- suggestions and judges


@pytest.mark.parametrize(
    ("old", "new", "suggested"),
    [
        ("I live in Lisbon.", "Now I live in Porto.", True),
        ("My doctor is Dr Hale.", "My doctor is Dr Moss.", True),
        ("I live in Lisbon.", "Maybe I will live in Porto.", False),
        ("I live in Lisbon.", 'Ana says "you should live in Porto now".', False),
        ("I live in Lisbon.", "Do I live in Porto now?", False),
        ("I live in Lisbon.", "The bicycle has a new chain.", False),
        ("I live in Lisbon.", "I live in lisbon", False),
    ],
)
def test_a_change_names_the_linked_older_statement_in_its_report(
    store: LifecycleStore, old: str, new: str, *, suggested: bool
) -> None:
    memory = LongTermMemory(store, clock=ManualClock(NOW), policies=[NearDuplicates()])
    older = run_sync(memory.remember(old)).id
    report = run_sync(memory.remember(new))
    assert report.may_replace == (older if suggested else None)
    assert get(memory, older).valid_to is None
    if suggested:
        assert f"may replace {older}" in str(report)
        assert run_sync(memory.settle([older, report.id], keep=report.id)).changes[0].id == older


def test_a_judge_chooses_replaced_memories_among_those_the_actor_may_change(store: LifecycleStore) -> None:
    asked: list[tuple[str, list[str]]] = []

    async def replaced(candidates: ReplacementCandidates) -> list[str]:
        asked.append((candidates.memory.text, [older.id for older in candidates.older]))
        return [*(older.id for older in candidates.older if "live" in older.text), "elsewhere"]

    judge = Judge.of_replacements(replaced)
    memory = LongTermMemory(store, embedder=HashingEmbedder(), clock=ManualClock(NOW), policies=[judge])
    run_sync(memory.remember(Memory("I live in Lisbon.", id="home")))
    assert asked == []  # nothing was like it
    document = Memory("I live in Paris.", actor="document", trust=Trust.DOCUMENT)
    assert run_sync(memory.remember(document)).replaced == ()
    report = run_sync(memory.remember("I live in Porto now."))
    assert "home" in report.replaced
    assert asked[-1][0] == "I live in Porto now."
    assert all("home" not in ids for text, ids in asked if "Paris" in text)
    run_sync(memory.correct(report.id, "I live in Porto Alegre now."))
    assert get(memory, report.id).replaces == report.replaced


@pytest.mark.parametrize(("on_failure", "outcome"), [("store", Outcome.STORED), ("reject", Outcome.REJECTED)])
def test_a_failing_judge_of_replacements_ends_no_memory(
    store: LifecycleStore, on_failure: Any, outcome: Outcome
) -> None:
    def failing(_: ReplacementCandidates) -> list[str]:
        raise ConnectionError("the model is away")

    policies = [Judge.of_replacements(failing)]
    memory = LongTermMemory(store, clock=ManualClock(NOW), policies=policies, on_policy_failure=on_failure)
    home = run_sync(memory.remember("I live in Lisbon.")).id
    report = run_sync(memory.remember("I live in Porto."))
    assert (report.outcome, report.replaced, get(memory, home).valid_to) == (outcome, (), None)
    assert "the model is away" in report.reason


# --- conflicts


NO_CONFLICTS = (
    "I like tea.",
    "I like coffee.",
    "Maybe I will live in Rome.",
    "Do I live in Berlin?",
    'Ben says "you live in Madrid, I know it".',
    "Ben lives in Rome.",
    "My dog is called Rex.",
    "My cat is called Bello.",
    "The key of the attic is in the drawer.",
    "The key of the cellar is in the drawer.",
)


@pytest.mark.parametrize("word_vectors", [None, LocalWordVectors()], ids=["words alone", "word vectors"])
def test_contradicting_statements_of_one_subject_are_listed_until_they_are_settled(
    store: LifecycleStore, word_vectors: LocalWordVectors | None
) -> None:
    memory = LongTermMemory(store, clock=ManualClock(NOW), word_vectors=word_vectors)
    given = ("I live in Lisbon.", "Ana lives in Porto.", "My doctor is Dr Hale.")
    given += (*NO_CONFLICTS, "My new doctor is Dr Moss.", "Ana lives in Rome.", "Now I live in Faro.")
    items = [Memory(text, occurred_at=NOW - YEAR + timedelta(days=day)) for day, text in enumerate(given)]
    run_sync(memory.remember_many(items))
    run_sync(memory.remember("I live in Oslo.", namespace="other"))
    listed = run_sync(memory.conflicts())
    texts = [[statement.text for statement in conflict.memories] for conflict in listed]
    assert texts == [
        ["Now I live in Faro.", "I live in Lisbon."],
        ["Ana lives in Rome.", "Ana lives in Porto."],
        ["My new doctor is Dr Moss.", "My doctor is Dr Hale."],
    ]
    assert run_sync(memory.conflicts(limit=1)) == listed[:1]
    operations = [run_sync(memory.settle(conflict.ids)) for conflict in listed]
    assert run_sync(memory.conflicts()) == []
    run_sync(memory.undo(operations[0].id))
    assert [conflict.ids for conflict in run_sync(memory.conflicts())] == [listed[0].ids]


@pytest.mark.slow
def test_conflicts_of_many_statements_with_one_word_are_compared_in_bounded_number(store: LifecycleStore) -> None:
    memory = LongTermMemory(store, clock=ManualClock(NOW))
    numbers = range(1500)
    items = [Memory(f"I keep w{n} x{n} y{n}", occurred_at=NOW - YEAR + timedelta(hours=n)) for n in numbers]
    run_sync(memory.remember_many([*items, "I live in Lisbon.", "I live in Porto."]))
    compared = []

    def counted(*arguments: Any, **options: Any) -> bool:
        compared.append(arguments)
        return original(*arguments, **options)

    original = conflicts._contradict
    with mock.patch.object(conflicts, "_contradict", counted):
        found = run_sync(memory.conflicts())
    assert [len(conflict.memories) for conflict in found] == [2]
    assert len(compared) <= 25 * len(items)
