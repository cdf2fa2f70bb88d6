"""Contract of handles: a store closed and opened again, used by several threads, and opened by several objects."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from vectorstore.errors import RevisionConflict, SpaceChanged, SpaceMismatch, SpaceNotReady, StoreClosed
from vectorstore.protocol import LifecycleStore, VectorStore
from vectorstore.testing.suite import (
    COSINE_SPACE,
    NEXT_SPACE,
    RENAMED_SPACE,
    StoreContract,
    all_entries,
    as_lifecycle,
    begin_second_space,
    fill_second_space,
    get_entry,
    ids_and_scores,
    make_entry,
    result_ids,
    vector_numbers,
)
from vectorstore.types import Entry, Metric, Space, SpaceMigration


def data_calls(store: VectorStore) -> dict[str, Callable[[], object]]:
    """Return each method of the data part as a call with good arguments."""
    return {
        "upsert": lambda: store.upsert([make_entry("a")]),
        "patch": lambda: store.patch({"a": {}}),
        "put_vectors": lambda: store.put_vectors({"a": [1, 0, 0]}),
        "get": lambda: store.get(["a"]),
        "search": lambda: store.search([1, 0, 0]),
        "search_many": lambda: store.search_many([[1, 0, 0]]),
        "search_text": lambda: store.search_text("zorb"),
        "delete": lambda: store.delete(["a"]),
        "count": lambda: store.count(),
        "scan": lambda: list(store.scan()),
        "namespaces": lambda: store.namespaces(),
    }


class ReopenContract(StoreContract):
    """A closed store says so, an opened one is as it was left, and threads may share it."""

    def test_a_closed_store_answers_nothing(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0], "zorb")])
        store.search([1, 0, 0])
        store.close()
        store.close()
        for call in data_calls(store).values():
            with pytest.raises(StoreClosed):
                call()

    def test_a_scan_ends_with_its_store(self) -> None:
        store = self.open()
        store.upsert(make_entry(f"e{i:05}") for i in range(3000))
        scan = store.scan()
        next(scan)
        store.close()
        with pytest.raises(StoreClosed):
            list(scan)

    def test_a_store_opened_again_is_as_it_was_left(self) -> None:
        store = self.open()
        for name in ("", "other", "é"):
            store.upsert(
                (
                    Entry(f"e{i}", None if i % 4 == 0 else [i, 1, 0], f"zorb {'quil ' * i}", "vexa", {"n": i})
                    for i in range(20)
                ),
                namespace=name,
            )
            store.upsert([Entry("never", text="zorb", no_vector="too long")], namespace=name)
            store.patch({"e3": {"deep": {"list": [1.0, 1, True, None, 2**70]}}}, namespace=name)
            store.put_vectors({"e4": [0.1, 0.2, 0.3]}, namespace=name)
            store.delete(["e5", "e6"], namespace=name)
        names = store.namespaces()
        before = all_entries(store, names)
        vector = {name: ids_and_scores(store.search([0.3, 1, 0.1], 99, namespace=name)) for name in names}
        text = {name: ids_and_scores(store.search_text("zorb quil vexa", 99, namespace=name)) for name in names}
        reopened = self.reopened(store)
        assert reopened.space == store.space
        assert reopened.namespaces() == names
        assert all_entries(reopened, names) == before
        assert {name: ids_and_scores(reopened.search([0.3, 1, 0.1], 99, namespace=name)) for name in names} == vector
        assert {
            name: ids_and_scores(reopened.search_text("zorb quil vexa", 99, namespace=name)) for name in names
        } == text
        assert all(vector.values())
        assert all(text.values())

    def test_a_revision_is_not_used_again_after_opening_again(self) -> None:
        store = self.open()
        store.upsert([make_entry("a"), make_entry("b")])
        used = max(entry.revision for entry in store.scan())
        store.delete(["a", "b"])
        reopened = self.reopened(store)
        reopened.upsert([make_entry("c")])
        assert get_entry(reopened, "c").revision > used

    def test_a_store_opened_again_goes_on(self) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0], "zorb"), make_entry("b", [0, 1, 0], "quil")])
        reopened = self.reopened(store)
        reopened.upsert([make_entry("c", [1, 0, 0], "zorb vexa"), make_entry("a", [0, 0, 1], "vexa")])
        assert result_ids(reopened.search([1, 0, 0], 1)) == ["c"]
        assert result_ids(reopened.search_text("zorb")) == ["c"]
        assert result_ids(reopened.search_text("vexa")) == ["a", "c"]
        assert reopened.delete(["b"]) == 1
        assert result_ids(reopened.scan()) == ["a", "c"]

    def test_threads_share_a_store(self) -> None:
        store = self.open()
        failures: list[BaseException] = []
        start = threading.Barrier(4)

        def work(number: int) -> None:
            try:
                start.wait(timeout=60)
                for i in range(12):
                    store.upsert([make_entry(f"{number}-{i}", [number, i, 1], "zorb", n=number)])
                    assert len(store.search([1, 1, 1], 5, where={"n": number})) == min(i + 1, 5)
                    assert store.count(where={"n": number}) == i + 1
                    assert f"{number}-{i}" in result_ids(store.search_text("zorb", 99))
            except BaseException as failure:  # handed to the test's own thread
                failures.append(failure)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)
        assert failures == []
        assert store.count() == 48
        assert sorted({entry.revision for entry in store.scan()}) == sorted(entry.revision for entry in store.scan())


def store_answers(store: VectorStore) -> dict[str, object]:
    """Return the answer of each way to read the entries."""
    answers: dict[str, object] = {"names": store.namespaces(), "entries": all_entries(store, ["", "other"])}
    for name in ("", "other"):
        answers[f"near {name}"] = ids_and_scores(store.search([0.9, 0.2, 0.1], 99, namespace=name))
        answers[f"many {name}"] = [
            ids_and_scores(found) for found in store.search_many([[0, 1, 1]] * 2, 5, namespace=name)
        ]
        answers[f"text {name}"] = ids_and_scores(store.search_text("zorb quil vexa", 99, namespace=name))
        for field in ("declared", "other"):
            answers[f"{field} {name}"] = result_ids(store.search([1, 0, 0], 99, where={field: 1}, namespace=name))
            answers[f"count {field} {name}"] = store.count(where={field: 1}, namespace=name)
    return answers


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

    def test_what_another_writes_is_seen_at_the_next_call(self) -> None:
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

    def test_what_another_deleted_and_wrote_again_is_not_mixed_up(self) -> None:
        store = self.open()
        store.upsert(make_entry(f"e{i}", [i, 1, 0], "zorb") for i in range(5))
        other = self.beside(store)
        assert store_answers(other) == store_answers(store)
        other.delete([f"e{i}" for i in range(5)])
        other.upsert(make_entry(f"e{i}", [1, i, 0], "quil") for i in (4, 0, 2))
        assert store.search_text("zorb") == []
        assert result_ids(store.search([0, 1, 0], 9)) == ["e4", "e2", "e0"]
        assert store_answers(store) == store_answers(other)

    def test_a_revision_that_another_wrote_is_in_the_way(self) -> None:
        store = self.open()
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


def vector_calls(store: LifecycleStore, vector: list[float]) -> dict[str, Callable[[], object]]:
    """Return each call that takes a vector of the space in use."""

    def viewed(method: str, *arguments: Any) -> object:
        with store.view([""]) as view:
            return getattr(view, method)(vector, *arguments)

    return {
        "upsert": lambda: store.upsert([make_entry("new", text="lost"), make_entry("a", vector)]),
        "put_vectors": lambda: store.put_vectors({"a": vector}),
        "search": lambda: store.search(vector),
        "search_many": lambda: store.search_many([vector]),
        "view.search": lambda: viewed("search"),
        "view.nearest": lambda: viewed("nearest", 3),
        "view.similarity": lambda: viewed("similarity", ["a"]),
    }


def entries_of_both_namespaces(store: LifecycleStore) -> list[Entry]:
    """Return all entries of both namespaces."""
    return [entry for name in ("", "other") for entry in store.scan(namespace=name)]


class SharedSpaceContract(StoreContract):
    """Objects that have the same store open, of stores with the second protocol that *share*."""

    def test_a_switch_by_another_is_noticed_by_who_gives_a_vector(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        other = self._beside(store)
        store.abort_space()
        store.begin_space(RENAMED_SPACE)
        assert result_ids(other.search([1, 0, 0], 1)) == ["a"]
        assert other.filling() == SpaceMigration(RENAMED_SPACE, 0, {"": 3, "other": 1})
        for name in ("", "other"):
            vectors = {entry.id: [0, 0, i + 1] for i, entry in enumerate(store.unfilled(namespace=name))}
            store.fill_space(RENAMED_SPACE, vectors, namespace=name)
        store.commit_space(RENAMED_SPACE)
        state = entries_of_both_namespaces(store)
        for call in vector_calls(other, [1, 0, 0]).values():
            with pytest.raises(SpaceChanged) as caught:
                call()
            assert (caught.value.recorded, caught.value.given) == (RENAMED_SPACE, COSINE_SPACE)
            with pytest.raises(SpaceChanged), other.transaction():
                call()
        assert entries_of_both_namespaces(store) == entries_of_both_namespaces(other) == state
        assert other.space == COSINE_SPACE

    def test_the_recorded_space_is_that_of_the_last_switch_whoever_made_it(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        other = self._beside(store)
        assert other.recorded_space() == other.space == COSINE_SPACE
        fill_second_space(store)
        with store.transaction():
            store.commit_space(NEXT_SPACE)
            assert store.recorded_space() == NEXT_SPACE
        assert (other.recorded_space(), other.space) == (NEXT_SPACE, COSINE_SPACE)
        other.set_space(NEXT_SPACE)
        assert other.recorded_space() == other.space == NEXT_SPACE

    def test_a_vector_of_the_new_dimension_says_that_the_space_changed_and_not_that_it_is_too_short(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        other = self._beside(store)
        assert result_ids(other.search([1, 0, 0], 1)) == ["a"]
        fill_second_space(store)
        store.commit_space(NEXT_SPACE)
        state = entries_of_both_namespaces(store)
        for call in vector_calls(other, [1, 2]).values():
            with pytest.raises(SpaceChanged):
                call()
        assert entries_of_both_namespaces(store) == state

    def test_whoever_gives_no_vector_goes_on_after_a_switch_by_another(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        other = self._beside(store)
        assert result_ids(other.search([1, 0, 0], 1)) == ["a"]
        fill_second_space(store)
        store.commit_space(NEXT_SPACE)
        assert result_ids(other.search_text("zorb")) == ["a"]
        assert other.upsert([make_entry("c", text="zorb zorb")]) == 1
        other.patch({"a": {"n": 5}})
        assert other.delete(["b"]) == 1
        entry = get_entry(other, "a")
        assert (vector_numbers(entry), dict(entry.metadata)) == ([1, 2], {"n": 5})
        with other.view([""]) as view:
            assert [name for name, _ in view.matching("zorb", 9)] == ["c", "a"]
        other.begin_space(COSINE_SPACE)
        assert store.filling() == SpaceMigration(COSINE_SPACE, 0, {"": 3, "other": 1})
        assert result_ids(store.search([1, 2])) == ["a", "pending"]
        assert other.verify() == []

    def test_after_a_switch_by_another_one_goes_on_by_opening_again(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        other, third = self._beside(store), self._beside(store)
        fill_second_space(store)
        store.commit_space(NEXT_SPACE)
        reopened = self._beside(store)
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
        assert result_ids(store.search([1, 2], 2)) == result_ids(other.search([1, 2], 2)) == ["a", "c"]

    def test_a_filling_that_another_ended_is_not_mixed_with_its_own(self) -> None:
        store = begin_second_space(self.open_lifecycle())
        other = self._beside(store)
        other.fill_space(NEXT_SPACE, {"a": [1, 2]})
        store.abort_space()
        store.begin_space(Space("another", 2, Metric.L2))
        for call in (other.commit_space, lambda space: other.fill_space(space, {"b": [3, 4]})):
            with pytest.raises(SpaceNotReady):
                call(NEXT_SPACE)
        assert other.filling() == SpaceMigration(Space("another", 2, Metric.L2), 0, {"": 3, "other": 1})

    def _beside(self, store: LifecycleStore) -> LifecycleStore:
        return as_lifecycle(self.beside(store))
