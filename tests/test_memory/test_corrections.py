"""Changes of memories: marks, end of validity, merging, and their effect on recall and the operation log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tellback.memory import (
    ArgumentError,
    Extractor,
    HashingEmbedder,
    Judge,
    LongTermMemory,
    Memory,
    MinimumLength,
    NearDuplicates,
    RejectedText,
    Source,
    Trust,
    run_sync,
)
from tellback.memory.internals import ARCHIVE, CONVERSATION, DOCUMENTS, Outcome, store_namespace
from tellback.vectorstore import BusyError, Entry, LifecycleStore, RevisionConflict, open_store
from tellback.vectorstore.sqlite import SqliteDatabase
from tests.support.clocks import ManualClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LANE = store_namespace("", CONVERSATION)


@pytest.fixture
def memory(store: LifecycleStore) -> LongTermMemory:
    return LongTermMemory(store, embedder=HashingEmbedder(), clock=ManualClock(NOW), zone=ZoneInfo("Europe/Lisbon"))


def get(memory: LongTermMemory, id: str) -> Memory:
    (found,) = run_sync(memory.get([id]))
    assert found is not None
    return found


def found(memory: LongTermMemory, question: str, **options: Any) -> list[str]:
    return sorted(hit.memory.text for hit in run_sync(memory.recall(question, **options)))


# --- marks


def test_pinning_a_memory_changes_neither_its_text_nor_its_vector_nor_its_version(memory):
    each = run_sync(memory.remember("I live in Lisbon.")).id
    (before,) = memory.store.get([each], namespace=LANE)
    done = run_sync(memory.pin(each, actor="assistant", approved_by="user"))
    (after,) = memory.store.get([each], namespace=LANE)
    assert (after.text, after.context, after.vector.tolist()) == (before.text, before.context, before.vector.tolist())
    assert after.revision > before.revision
    assert {**after.metadata, "pinned": None} == {**before.metadata, "pinned": None}
    assert len(run_sync(memory.history(each))) == 1
    (change,) = done.changes
    assert (done.kind, done.actor, change.before) == ("pin", "assistant", before.revision)
    assert (dict(change.old), dict(change.new)) == ({"pinned": None}, {"pinned": True})
    assert run_sync(memory.history(each)).operations[0] == done


def test_a_mark_without_effect_adds_no_operation(memory):
    each = run_sync(memory.remember(Memory("I live in Lisbon.", tags=("home",)))).id
    revision = get(memory, each).revision
    for call in (
        memory.unpin(each),
        memory.enable(each),
        memory.tag(each, ["home"]),
        memory.untag(each, ["away"]),
        memory.set_importance(each, None),
        memory.expire(each, None),
    ):
        assert run_sync(call) is None
    assert len(run_sync(memory.operations())) == 1
    assert get(memory, each).revision == revision


def test_an_operation_lists_only_the_changed_memories(memory):
    each = run_sync(memory.remember(Memory("one", pinned=True))).id
    other = run_sync(memory.remember("other")).id
    assert [change.id for change in run_sync(memory.pin([each, other, each])).changes] == [other]


def test_tags_are_added_and_removed_in_order(memory):
    each = run_sync(memory.remember(Memory("I live in Lisbon.", tags=("a", "b")))).id
    run_sync(memory.tag(each, ["c", "a"]))
    assert get(memory, each).tags == ("a", "b", "c")
    run_sync(memory.untag(each, ["b", "x"]))
    assert get(memory, each).tags == ("a", "c")
    run_sync(memory.untag(each, ["a", "c"]))
    assert get(memory, each).tags == ()


def test_importance_is_a_number_from_zero_to_one(memory):
    each = run_sync(memory.remember("I live in Lisbon.")).id
    for bad in (-0.1, 1.1, "much", True, float("nan")):
        with pytest.raises(ArgumentError, match="importance"):
            run_sync(memory.set_importance(each, bad))
    run_sync(memory.set_importance(each, 0))
    assert get(memory, each).importance == 0.0


def test_a_disabled_memory_is_recalled_in_none_of_its_versions(memory):
    each = run_sync(memory.remember("I live in Lisbon.")).id
    memory.clock.now += timedelta(days=2)
    run_sync(memory.correct(each, "I live in Porto."))
    then = NOW + timedelta(days=1)
    assert found(memory, "Where do I live?", as_of=then) == ["I live in Lisbon."]
    run_sync(memory.disable(each))
    assert found(memory, "Where do I live?") == []
    assert found(memory, "Where do I live?", as_of=then) == found(memory, "Where do I live?", known_at=then) == []
    assert [version.text for version in run_sync(memory.history(each))] == ["I live in Porto.", "I live in Lisbon."]
    run_sync(memory.enable(each))
    assert found(memory, "Where do I live?") == ["I live in Porto."]
    assert found(memory, "Where do I live?", known_at=then) == ["I live in Lisbon."]


def test_an_expired_memory_is_recalled_in_none_of_its_versions_from_its_expiry_on(memory):
    each = run_sync(memory.remember("The guest code is 4711.")).id
    memory.clock.now += timedelta(hours=1)
    run_sync(memory.correct(each, "The guest code is 4712."))
    run_sync(memory.expire(each, datetime.fromisoformat("2026-07-01T12:00:05")))  # as read in Lisbon, an hour ahead
    end = datetime(2026, 7, 1, 11, 0, 5, tzinfo=UTC)
    assert get(memory, each).expires_at == end
    assert get(memory, each).expires_at.utcoffset() == timedelta(hours=1)
    memory.clock.now = end - timedelta(microseconds=1)
    assert found(memory, "guest code") == ["The guest code is 4712."]
    assert found(memory, "guest code", known_at=NOW) == ["The guest code is 4711."]
    memory.clock.now = end
    assert found(memory, "guest code") == found(memory, "guest code", known_at=NOW) == []
    run_sync(memory.expire(each, None))
    assert found(memory, "guest code") == ["The guest code is 4712."]


def test_expired_memories_take_no_place_among_the_first_k_hits(memory):
    gone = [run_sync(memory.remember(f"The guest code of room {room} is 4711.")).id for room in range(5)]
    run_sync(memory.remember("A code of manners for guests, of many words and little use."))
    run_sync(memory.expire(gone, NOW))
    assert found(memory, "guest code", k=1) == ["A code of manners for guests, of many words and little use."]


def test_arguments_of_marks_are_checked_before_any_memory_is_changed(memory):
    each = run_sync(memory.remember("one")).id
    memory.store.upsert([Entry("chunk", text="passage")], namespace=store_namespace("", DOCUMENTS, "x"))
    calls = [
        (memory.pin([each, "chunk"]), "passage of a document"),
        (memory.pin([each, 5]), "ids"),
        (memory.pin(each, actor="nobody"), "actor"),
        (memory.tag(each, []), "tags"),
        (memory.tag(each, "home"), "tags"),
        (memory.expire(each, "tomorrow"), "at"),
    ]
    for call, named in calls:
        with pytest.raises(ArgumentError, match=named):
            run_sync(call)
    assert get(memory, each).pinned is False
    assert len(run_sync(memory.operations())) == 1


# --- the end of validity


def test_an_ended_memory_is_recalled_as_of_earlier_times_and_keeps_its_vector(memory):
    each = run_sync(memory.remember("I work at the harbour.")).id
    (before,) = memory.store.get([each], namespace=LANE)
    memory.clock.now += timedelta(days=10)
    report = run_sync(memory.end(each, NOW + timedelta(days=5)))
    assert (report.outcome, report.id) == (Outcome.STORED, each)
    (after,) = memory.store.get([each], namespace=LANE)
    assert after.vector.tolist() == before.vector.tolist()
    assert found(memory, "Where do I work?") == []
    for days, held in ((-100, True), (4, True), (5, False), (9, False)):
        hits = run_sync(memory.recall("Where do I work?", as_of=NOW + timedelta(days=days)))
        assert [hit.memory.id for hit in hits] == [each] * held
    run_sync(memory.end(each, None))
    assert found(memory, "Where do I work?") == ["I work at the harbour."]
    assert [version.valid_to is None for version in run_sync(memory.history(each))] == [True, False, True]


def test_a_version_names_the_version_that_it_supersedes(memory):
    each = run_sync(memory.remember("I work at the harbour.")).id
    other = run_sync(memory.remember("I mend boats.")).id
    changes = [
        lambda: memory.end(each, NOW),
        lambda: memory.correct(each, "I work at the market."),
        lambda: memory.merge([each, other], "I work at the market and mend boats."),
    ]
    for change in changes:
        (before,) = run_sync(memory.get([each]))
        run_sync(change())
        (after,) = run_sync(memory.get([each]))
        assert after.supersedes == f"{each}@{before.revision}"
        assert run_sync(memory.get([after.supersedes]))[0].text == before.text


def test_ending_a_memory_again_at_the_same_time_adds_no_version(memory):
    each = run_sync(memory.remember(Memory("I work at the harbour.", valid_from=NOW, valid_to=NOW))).id
    assert run_sync(memory.end(each, NOW)).outcome is Outcome.DUPLICATE
    with pytest.raises(ArgumentError, match=r"ended.valid_to"):
        run_sync(memory.end(each, NOW - timedelta(days=1)))
    assert len(run_sync(memory.history(each))) == 1


def test_a_correction_with_valid_from_ends_the_old_version_at_that_time(memory):
    each = run_sync(memory.remember("I live in Lisbon.")).id
    memory.clock.now += timedelta(days=10)
    moved = NOW + timedelta(days=3)
    run_sync(memory.correct(each, "I live in Porto.", valid_from=moved))
    question = "Where do I live?"
    assert found(memory, question, as_of=moved - timedelta(seconds=1)) == ["I live in Lisbon."]
    assert found(memory, question, as_of=moved) == ["I live in Porto."]
    assert found(memory, question, known_at=NOW + timedelta(days=5), as_of=moved) == ["I live in Lisbon."]


def test_a_correction_of_a_memory_with_valid_from_is_valid_from_the_same_time(memory):
    each = run_sync(memory.remember(Memory("I live in Lisbon.", valid_from=NOW))).id
    memory.clock.now += timedelta(days=10)
    run_sync(memory.correct(each, "I live in Porto."))
    assert found(memory, "Where do I live?", as_of=NOW + timedelta(days=5)) == ["I live in Porto."]


@pytest.mark.parametrize("how", ["correct", "merge"])
def test_the_replacement_of_an_ended_memory_is_valid_from_its_recorded_time(memory, how):
    """The ended version holds from always, as the first one did; what replaces it says something else."""
    each = run_sync(memory.remember("I live in Lisbon.")).id
    other = run_sync(memory.remember("I am at home.")).id
    run_sync(memory.end(each, NOW + timedelta(days=50)))
    memory.clock.now += timedelta(days=10)
    if how == "correct":
        run_sync(memory.correct(each, "I live in Porto."))
    else:
        run_sync(memory.merge([each, other], "I live in Porto."))
    for day, home in ((-900, "Lisbon"), (5, "Lisbon"), (10, "Porto")):
        present = found(memory, "Where do I live?", as_of=NOW + timedelta(days=day))
        assert [text for text in present if "live" in text] == [f"I live in {home}."]


# --- merging


def test_a_merge_keeps_one_memory_and_archives_the_others(memory):
    each = run_sync(memory.remember("Ana likes tea.")).id
    two = run_sync(memory.remember("Ana likes green tea.")).id
    three = run_sync(memory.remember("Ana drinks tea at four.")).id
    memory.clock.now += timedelta(days=1)
    report = run_sync(memory.merge([two, each, three], "Ana likes green tea at four.", actor="system"))
    assert report.id == two
    merged = get(memory, two)
    assert merged.derived_from == (merged.supersedes, each, three)
    assert (merged.actor, merged.operation) == ("system", report.operation)
    assert found(memory, "What does Ana like?") == ["Ana likes green tea at four."]
    assert found(memory, "What does Ana like?", as_of=NOW) == [
        "Ana drinks tea at four.",
        "Ana likes green tea.",
        "Ana likes tea.",
    ]
    assert run_sync(memory.get([each, three])) == [None, None]
    assert [version.text for version in run_sync(memory.history(each))] == ["Ana likes tea."]
    assert [operation.kind for operation in run_sync(memory.history(three)).operations] == ["merge", "remember"]


def test_a_merged_memory_has_the_most_cautious_marks_and_the_lowest_trust_of_its_sources(memory):
    each = Memory("a", speaker="Ana", session="s", sequence=1, source=Source(session="s", sequence=1), tags=("x", "y"))
    other = Memory(
        "b",
        speaker="Ben",
        tags=("y", "z"),
        pinned=True,
        sensitive=True,
        importance=0.4,
        trust=Trust.TOOL,
        actor="tool",
        expires_at=NOW + timedelta(days=9),
        valid_from=NOW,
        valid_to=NOW + timedelta(days=5),
    )
    ids = [run_sync(memory.remember(given)).id for given in (each, other)]
    run_sync(memory.merge(ids, "a and b"))
    merged = get(memory, ids[0])
    assert (merged.speaker, merged.source, merged.sequence) == ("Ana", Source(session="s", sequence=1), 1)
    assert (merged.tags, merged.pinned, merged.sensitive) == (("x", "y", "z"), True, True)
    assert (merged.importance, merged.trust, merged.expires_at) == (0.4, Trust.TOOL, NOW + timedelta(days=9))
    assert (merged.valid_from, merged.valid_to) == (None, None)
    (archived,) = run_sync(memory.history(ids[1]))
    assert (archived.speaker, archived.trust) == ("Ben", Trust.TOOL)


def test_a_merged_memory_has_the_earliest_expiry_and_the_whole_validity_of_its_sources(memory):
    day = timedelta(days=1)
    bounds = [(3, 1, 5, 0.2), (2, 2, 9, 0.7), (4, 0, 6, 0.4)]
    ids = [
        run_sync(
            memory.remember(
                Memory(
                    f"part {expires}",
                    expires_at=NOW + expires * day,
                    valid_from=NOW + start * day,
                    valid_to=NOW + end * day,
                    importance=weight,
                )
            )
        ).id
        for expires, start, end, weight in bounds
    ]
    run_sync(memory.merge(ids, "all parts"))
    merged = get(memory, ids[0])
    assert (merged.expires_at, merged.importance) == (NOW + 2 * day, 0.7)
    assert (merged.valid_from, merged.valid_to) == (NOW, NOW + 9 * day)


def test_the_history_of_a_memory_lists_every_one_of_many_operations(memory):
    each = run_sync(memory.remember("Ana likes tea.")).id
    for number in range(101):
        run_sync(memory.tag(each, [f"tag {number}"]))
    history = run_sync(memory.history(each))
    assert (len(history.operations), len(history.versions)) == (102, 1)
    assert [operation.changes[0].new["tags"][-1] for operation in history.operations[:2]] == ["tag 100", "tag 99"]


def test_a_mark_does_not_overwrite_a_concurrent_write(memory):
    class Racing:
        """A store with the data part alone, to which somebody else writes between a look and a write."""

        def __init__(self, store):
            self.store = store

        def __getattr__(self, name):
            if name in ("transaction", "erase", "changes", "view", "verify"):
                raise AttributeError(name)
            return getattr(self.store, name)

        def patch(self, metadata, **options):
            ((id, fields),) = metadata.items()
            self.store.patch({id: {**fields, "meta.theirs": 1}}, namespace=options["namespace"])
            return self.store.patch(metadata, **options)

    each = run_sync(memory.remember("Ana likes tea.")).id
    racing = LongTermMemory(Racing(memory.store), clock=memory.clock)
    with pytest.raises(RevisionConflict):
        run_sync(racing.pin(each))
    assert get(memory, each).metadata == {"theirs": 1}


def test_an_earlier_expiry_by_a_merge_applies_to_earlier_versions_until_the_merge_is_undone(memory):
    each = run_sync(memory.remember("I live in Lisbon.")).id
    other = run_sync(memory.remember(Memory("I live by the sea.", expires_at=NOW + timedelta(days=9)))).id
    memory.clock.now += timedelta(days=1)
    operation = run_sync(memory.merge([each, other], "I live in Lisbon by the sea.")).operation
    assert sorted(found(memory, "Where do I live?", known_at=NOW)) == ["I live by the sea.", "I live in Lisbon."]
    memory.clock.now += timedelta(days=8)
    assert found(memory, "Where do I live?", known_at=NOW) == []
    run_sync(memory.undo(operation))  # the first one never expires, and neither do its earlier versions
    assert found(memory, "Where do I live?") == ["I live in Lisbon."]
    assert found(memory, "Where do I live?", known_at=NOW) == ["I live in Lisbon."]


def test_a_merged_text_is_no_near_duplicate_of_its_sources_and_yields_no_extracted_facts(memory):
    asked = []
    policies = [NearDuplicates(), Extractor(lambda turn: asked.append(turn.text), kinds=["fact"])]
    judging = LongTermMemory(memory.store, policies=policies, clock=memory.clock)
    ids = [run_sync(memory.remember(text)).id for text in ("I live in Lisbon.", "I live by the sea.")]
    report = run_sync(judging.merge(ids, "I live by the sea!"))
    assert (report.of, asked) == (None, [])


def test_a_correction_during_a_merge_is_archived_and_restored_by_undoing_the_merge(memory):
    ids = [run_sync(memory.remember(text)).id for text in ("I live in Lisbon.", "I live by the sea.")]
    corrections = iter(["I live by the river."])

    def meanwhile(item):
        for text in corrections:
            run_sync(memory.correct(ids[1], text))
        return True

    judging = LongTermMemory(memory.store, policies=[Judge(meanwhile)], clock=memory.clock)
    operation = run_sync(judging.merge(ids, "I live in Lisbon by the river.")).operation
    texts = [version.text for version in run_sync(memory.history(ids[1]))]
    assert texts == ["I live by the river.", "I live by the sea."]
    run_sync(judging.undo(operation))
    assert [each.text for each in run_sync(memory.get(ids))] == ["I live in Lisbon.", "I live by the river."]


def test_ending_a_memory_reads_and_writes_within_one_transaction(tmp_path):
    with SqliteDatabase(tmp_path / "m.db") as others:
        looked = []

        def clock():
            try:
                with others.write(wait=False):
                    looked.append("free")
            except BusyError:
                looked.append("busy")
            return NOW

        memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"), clock=clock)
        each = run_sync(memory.remember("Ana likes tea.")).id
        looked.clear()
        run_sync(memory.end(each, NOW))
        run_sync(memory.close())
    assert set(looked) == {"busy"}


def test_a_refused_merge_changes_nothing(memory):
    each = run_sync(memory.remember("Ana likes tea.")).id
    hidden = run_sync(memory.remember(Memory("Ana likes gin.", disabled=True))).id
    bens = run_sync(memory.remember(Memory("Ben likes gin.", scopes={"user": "ben"}))).id
    for ids, why in (([each], "two or more"), ([each, each], "two or more"), ([each, hidden], "disabled")):
        with pytest.raises(ArgumentError, match=why):
            run_sync(memory.merge(ids, "both"))
    with pytest.raises(ArgumentError, match="scopes"):
        run_sync(memory.merge([bens, each], "both"))
    strict = LongTermMemory(memory.store, policies=[MinimumLength(9)])
    with pytest.raises(RejectedText):
        run_sync(strict.merge([each, run_sync(memory.remember("x")).id], "short"))
    assert memory.store.count(namespace=store_namespace("", ARCHIVE)) == 0
