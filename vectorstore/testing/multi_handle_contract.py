"""Contract of handles: a store closed and opened again, used by several threads, and opened by several objects."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier

import pytest

from tellback.vectorstore.errors import RevisionConflict, SpaceChanged, SpaceMismatch, SpaceNotReady, StoreClosed
from tellback.vectorstore.protocol import LifecycleStore, VectorStore, View
from tellback.vectorstore.testing.model import vector_score
from tellback.vectorstore.testing.suite import (
    COSINE_SPACE,
    NEXT_SPACE,
    RENAMED_SPACE,
    StoreContract,
    calls_not_refused,
    fill_pending,
    fill_second_space,
    get_entry,
    make_entry,
    protocol_calls,
    result_ids,
    store_answers,
    vector_calls,
    vector_numbers,
)
from tellback.vectorstore.types import Entry, Metric, Space, SpaceMigration


class ReopenContract(StoreContract):
    """Closing, reopening, and threads that share a store."""

    def test_a_closed_store_refuses_every_method_of_the_data_part(self, store: VectorStore) -> None:
        store.upsert([make_entry("a", [1, 0, 0], "zorb")])
        store.search([1, 0, 0])
        store.close()
        store.close()
        assert calls_not_refused(StoreClosed, protocol_calls(VectorStore, store)) == []

    def test_a_scan_ends_with_its_store(self, store: VectorStore) -> None:
        store.upsert(make_entry(f"e{i:05}") for i in range(3000))
        scan = store.scan()
        next(scan)
        store.close()
        with pytest.raises(StoreClosed):
            list(scan)

    def test_a_store_opened_again_is_as_it_was_left(self, store: VectorStore) -> None:
        names = ["", "other", "é"]
        for name in names:
            vectors = [[i, 1, 0] if i % 4 else None for i in range(20)]
            texts = [f"zorb {'quil ' * i}" for i in range(20)]
            store.upsert((Entry(f"e{i}", vectors[i], texts[i], "vexa", {"n": i}) for i in range(20)), namespace=name)
            store.upsert([Entry("never", text="zorb", no_vector="too long")], namespace=name)
            store.patch({"e3": {"deep": {"list": [1.0, 1, True, None, 2**70]}}}, namespace=name)
            store.put_vectors({"e4": [0.1, 0.2, 0.3]}, namespace=name)
            store.delete(["e5", "e6"], namespace=name)
        before = store_answers(store, names)
        reopened = self.reopened(store)
        assert reopened.space == store.space
        assert store_answers(reopened, names) == before
        assert all(before[name]["near"] and before[name]["text"] for name in names)

    def test_a_store_opened_again_goes_on_and_uses_no_revision_again(self, store: VectorStore) -> None:
        store.upsert([make_entry("a", [1, 0, 0], "zorb"), make_entry("b", [0, 1, 0], "quil")])
        used = get_entry(store, "b").revision
        store.delete(["b"])
        reopened = self.reopened(store)
        reopened.upsert([make_entry("c", [1, 0, 0], "zorb vexa"), make_entry("a", [0, 0, 1], "vexa")])
        assert get_entry(reopened, "c").revision > used
        assert result_ids(reopened.search([1, 0, 0], 1)) == result_ids(reopened.search_text("zorb")) == ["c"]
        assert result_ids(reopened.search_text("vexa")) == ["a", "c"]
        assert reopened.delete(["c"]) == 1
        assert result_ids(reopened.scan()) == ["a"]

    def test_threads_share_a_store(self, store: VectorStore) -> None:
        start = Barrier(4)

        def work(number: int) -> None:
            start.wait(timeout=60)
            for i in range(12):
                store.upsert([make_entry(f"{number}-{i}", [number, i, 1], "zorb", n=number)])
                assert len(store.search([1, 1, 1], 5, where={"n": number})) == min(i + 1, 5)
                assert store.count(where={"n": number}) == i + 1
                assert f"{number}-{i}" in result_ids(store.search_text("zorb", 99))

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(work, range(4), timeout=120)) == [None] * 4
        assert store.count() == len({entry.revision for entry in store.scan()}) == 48

    def test_a_reader_sees_whole_batches_and_each_answer_is_of_one_state(self, store: VectorStore) -> None:
        reader = self.beside(store) if self.shares else store
        names, query = [f"e{i:03}" for i in range(120)], [0.3, 1.0, 0.2]

        def write() -> None:
            for n in range(1, 9):
                text = "zorb " * n
                store.upsert([make_entry(name, [1, n, i], text, n=n) for i, name in enumerate(names)])

        with ThreadPoolExecutor(1) as threads:
            writing, ended = threads.submit(write), False
            while not ended:
                ended = writing.done()  # before the last look, so that it sees the last state
                matches = reader.search(query, 999)
                answers = {
                    "search": [match.entry for match in matches],
                    "search_text": [match.entry for match in reader.search_text("zorb", 999)],
                    "get": [entry for entry in reader.get(names) if entry is not None],
                }
                for call, entries in answers.items():
                    states = {entry.metadata["n"] for entry in entries}
                    assert len(entries) in (0, 120), f"{call} saw a part of a batch"
                    assert len(states) <= 1, f"{call} answered from the states {states}"
                vectors = [match.entry.vector for match in matches]
                expected = [
                    vector_score(Metric.COSINE, vector.tolist(), query) for vector in vectors if vector is not None
                ]
                assert [match.score for match in matches] == pytest.approx(expected, abs=1e-5), (
                    "scores of another state"
                )
                assert reader.count(where={"n": {"$gt": 0}}) in (0, 120)
            writing.result(timeout=120)
        assert {entry.metadata["n"] for entry in reader.get(names) if entry is not None} == {8}


def write_calls(store: VectorStore, n: int) -> list[Callable[[], object]]:
    """Return the *n*-th round of writes, each of which changes an answer."""
    return [
        lambda: store.upsert([make_entry(f"new{n}", [n, 0, 1], "quil", declared=1, other=1)]),
        lambda: store.upsert([make_entry("e1", [0, n, 1], "vexa " * n, declared=0, other=1)]),
        lambda: store.patch({"e2": {"declared": n % 2, "other": 1}}),
        lambda: store.put_vectors({"e3": [1, n, n]}),
        lambda: store.delete([f"new{n}", f"e{n + 3}"]),
        lambda: store.upsert([make_entry("x", [n, 1, 1], "zorb")], namespace="other"),
        lambda: store.delete(["x"], namespace="other"),
    ]


class SharedWritesContract(StoreContract):
    """Objects that have the same store open, of stores that *share*."""

    def test_writes_of_another_handle_are_seen_at_the_next_call(self) -> None:
        store = self.open(fields=("declared",))
        store.upsert(make_entry(f"e{i}", [i, 1, 0], "zorb " * i, declared=i % 2, other=i % 2) for i in range(7))
        other = self.beside(store)
        assert store_answers(other) == store_answers(store)
        answers = [store_answers(store)]
        for n, (writer, reader) in enumerate(((other, store), (store, other), (other, store)), start=1):
            for write in write_calls(writer, n):
                write()
                assert store_answers(reader) == store_answers(writer)
                assert store_answers(reader) != answers[-1]
                found = [match.entry for match in reader.search([0.9, 0.2, 0.1], 99)]
                assert found == reader.get([entry.id for entry in found])
                answers.append(store_answers(reader))

    def test_entries_deleted_and_written_again_by_another_handle_are_seen(self, store: VectorStore) -> None:
        store.upsert(make_entry(f"e{i}", [i, 1, 0], "zorb") for i in range(5))
        other = self.beside(store)
        assert store_answers(other) == store_answers(store)
        other.delete([f"e{i}" for i in range(5)])
        other.upsert(make_entry(f"e{i}", [1, i, 0], "quil") for i in (4, 0, 2))
        assert store.search_text("zorb") == []
        assert result_ids(store.search([0, 1, 0], 9)) == ["e4", "e2", "e0"]
        assert store_answers(store) == store_answers(other)

    def test_a_revision_written_by_another_handle_is_a_conflict(self, store: VectorStore) -> None:
        store.upsert([make_entry("a", text="first")])
        other = self.beside(store)
        revision = get_entry(store, "a").revision
        other.upsert([make_entry("a", text="second")])
        with pytest.raises(RevisionConflict) as caught:
            store.upsert([make_entry("a", text="lost")], expect={"a": revision})
        assert caught.value.actual == get_entry(other, "a").revision
        store.upsert([make_entry("b")])
        other.upsert([make_entry("c")])
        revisions = [entry.revision for entry in store.scan()]
        assert len(set(revisions)) == 3
        assert get_entry(other, "c").revision == max(revisions)


def vector_calls_and_views(store: LifecycleStore, vector: list[float]) -> dict[str, Callable[[], object]]:
    """Return each call that takes a vector of the space in use."""

    def call_on_view(name: str) -> object:
        with store.view([""]) as view:
            return protocol_calls(View, view, vector=vector)[name]()

    names = ("search", "nearest", "similarity")
    return vector_calls(store, vector) | {f"view.{name}": partial(call_on_view, name) for name in names}


def entries_of_both_namespaces(store: LifecycleStore) -> list[Entry]:
    """Return all entries of both namespaces."""
    return [entry for name in ("", "other") for entry in store.scan(namespace=name)]


class SharedSpaceContract(StoreContract):
    """Objects that have the same store open, of stores with the second protocol that *share*."""

    @pytest.mark.parametrize(("space", "vector"), [(RENAMED_SPACE, [1, 0, 0]), (NEXT_SPACE, [1, 2])])
    def test_a_vector_given_after_a_switch_by_another_handle_raises_space_changed(
        self, migrating: LifecycleStore, space: Space, vector: list[float]
    ) -> None:
        other = self.beside(migrating)
        assert result_ids(other.search([1, 0, 0], 1)) == ["a"]
        migrating.abort_space()
        migrating.begin_space(space)
        assert other.filling() == SpaceMigration(space, 0, {"": 3, "other": 1})
        fill_pending(migrating, space, [0.5] * space.dimension)
        migrating.commit_space(space)
        state = entries_of_both_namespaces(migrating)
        for call in vector_calls_and_views(other, vector).values():
            with pytest.raises(SpaceChanged) as caught:
                call()
            assert (caught.value.recorded, caught.value.given) == (space, COSINE_SPACE)
            with pytest.raises(SpaceChanged), other.transaction():
                call()
        assert entries_of_both_namespaces(migrating) == entries_of_both_namespaces(other) == state
        assert other.space == COSINE_SPACE

    def test_the_recorded_space_is_that_of_the_last_switch_by_any_handle(self, migrating: LifecycleStore) -> None:
        other = self.beside(migrating)
        assert other.recorded_space() == other.space == COSINE_SPACE
        fill_second_space(migrating)
        with migrating.transaction():
            migrating.commit_space(NEXT_SPACE)
            assert migrating.recorded_space() == NEXT_SPACE
        assert (other.recorded_space(), other.space) == (NEXT_SPACE, COSINE_SPACE)
        other.set_space(NEXT_SPACE)
        assert other.recorded_space() == other.space == NEXT_SPACE

    def test_calls_without_a_vector_go_on_after_a_switch_by_another_handle(self, migrating: LifecycleStore) -> None:
        other = self.beside(migrating)
        assert result_ids(other.search([1, 0, 0], 1)) == ["a"]
        fill_second_space(migrating)
        migrating.commit_space(NEXT_SPACE)
        assert result_ids(other.search_text("zorb")) == ["a"]
        assert other.upsert([make_entry("c", text="zorb zorb")]) == 1
        other.patch({"a": {"n": 5}})
        assert other.delete(["b"]) == 1
        entry = get_entry(other, "a")
        assert (vector_numbers(entry), dict(entry.metadata)) == ([1, 2], {"n": 5})
        with other.view([""]) as view:
            assert [name for name, _ in view.matching("zorb", 9)] == ["c", "a"]
        other.begin_space(COSINE_SPACE)
        assert migrating.filling() == SpaceMigration(COSINE_SPACE, 0, {"": 3, "other": 1})
        assert result_ids(migrating.search([1, 2])) == ["a", "pending"]
        assert other.verify() == []

    def test_opening_again_after_a_switch_by_another_handle_uses_the_new_space(self, migrating: LifecycleStore) -> None:
        other, third = self.beside(migrating), self.beside(migrating)
        fill_second_space(migrating)
        migrating.commit_space(NEXT_SPACE)
        reopened = self.beside(migrating)
        assert (reopened.space, result_ids(reopened.search([1, 2], 1))) == (NEXT_SPACE, ["a"])
        with pytest.raises(SpaceChanged):
            other.search([1, 0, 0])
        other.set_space(NEXT_SPACE)
        assert (other.space, result_ids(other.search([1, 2], 1))) == (NEXT_SPACE, ["a"])
        with pytest.raises(SpaceMismatch):
            third.set_space(COSINE_SPACE)
        with pytest.raises(SpaceNotReady):
            third.fill_space(NEXT_SPACE, {"a": [1, 2]})
        reopened.upsert([make_entry("c", [1, 2])])
        assert result_ids(migrating.search([1, 2], 2)) == result_ids(other.search([1, 2], 2)) == ["a", "c"]

    def test_a_migration_ended_by_another_handle_cannot_be_filled(self, migrating: LifecycleStore) -> None:
        other = self.beside(migrating)
        other.fill_space(NEXT_SPACE, {"a": [1, 2]})
        migrating.abort_space()
        migrating.begin_space(Space("another", 2, Metric.L2))
        for call in (other.commit_space, lambda space: other.fill_space(space, {"b": [3, 4]})):
            with pytest.raises(SpaceNotReady):
                call(NEXT_SPACE)
        assert other.filling() == SpaceMigration(Space("another", 2, Metric.L2), 0, {"": 3, "other": 1})
