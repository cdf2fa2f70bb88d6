"""The contract of ``upsert`` and ``get``: what is written is kept exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from vectorstore.testing.suite import (
    COSINE,
    StoreContract,
    entry,
    ids_of,
    one,
    read_only,
    scored,
    worst_vectors,
)
from vectorstore.types import Entry, Metric, Space


class WritingContract(StoreContract):
    """What is written is kept exactly, in batches."""

    def test_what_was_written_is_read_back(self) -> None:
        store = self.open()
        data = {"kind": "fact", "n": 2**70, "x": 0.1, "deep": {"list": [1, 1.5, None, True, {"é": "\0"}]}}
        store.upsert([Entry("a", read_only([3, 4, 0]), "text\0 \r\n\U0001f600", "when: now", data)])
        kept = one(store, "a")
        assert (kept.text, kept.context, kept.no_vector) == ("text\0 \r\n\U0001f600", "when: now", None)
        assert kept.metadata == data
        assert kept.vector is not None
        assert kept.vector.dtype == np.float32
        assert kept.vector.tolist() == [3, 4, 0]

    def test_an_entry_needs_only_an_id(self) -> None:
        store = self.open()
        store.upsert([Entry("a")])
        kept = one(store, "a")
        assert (kept.vector, kept.text, kept.context, dict(kept.metadata), kept.no_vector) == (
            None,
            "",
            "",
            {},
            None,
        )

    def test_metadata_keep_the_types_of_their_values(self) -> None:
        store = self.open()
        store.upsert([entry("a", yes=True, one=1, real=1.0, none=None, word="1", pair=(1, 2))])
        kept = one(store, "a").metadata
        assert {name: type(value) for name, value in kept.items()} == {
            "yes": bool,
            "one": int,
            "real": float,
            "none": type(None),
            "word": str,
            "pair": list,
        }

    def test_metadata_may_be_a_hundred_levels_deep(self) -> None:
        store = self.open()
        store.upsert([Entry("a", metadata=_nested(100))])
        assert one(store, "a").metadata == _nested(100)

    def test_get_answers_in_the_order_of_its_ids_with_none_for_the_missing(self) -> None:
        store = self.open()
        store.upsert([entry("b"), entry("a")])
        found = store.get(["a", "x", "b", "a"])
        assert [None if kept is None else kept.id for kept in found] == ["a", None, "b", "a"]
        assert store.get([]) == []

    @pytest.mark.parametrize("form", sorted(worst_vectors([1, 2, 3])))
    def test_a_vector_of_any_form_is_kept_as_float32(self, form: str) -> None:
        store = self.open()
        given = worst_vectors([1, 2, 3])[form]
        store.upsert([entry("a", given)])
        store.upsert([entry("b")])
        store.put_vectors({"b": given})
        for kept in (one(store, "a").vector, one(store, "b").vector):
            assert kept is not None
            assert kept.dtype == np.float32
            assert kept.tolist() == [1, 2, 3]
        assert ids_of(store.search(given, 2)) == ["a", "b"]

    def test_what_was_given_may_change_afterwards(self) -> None:
        store = self.open()
        vector, tags, filled = np.ones(3, dtype=np.float32), ["x"], np.ones(3, dtype=np.float32)
        store.upsert([entry("a", vector, tags=tags), entry("b")])
        store.put_vectors({"b": filled})
        patched = {"deep": {"list": [1]}}
        store.patch({"b": patched})
        vector[:] = 0
        filled[:] = 0
        tags.append("y")
        patched["deep"]["list"].append(2)
        assert [kept.vector.tolist() for kept in store.scan() if kept.vector is not None] == [[1, 1, 1]] * 2
        assert [dict(kept.metadata) for kept in store.scan()] == [{"tags": ["x"]}, {"deep": {"list": [1]}}]
        assert [score for _, score in scored(store.search([1, 1, 1]))] == pytest.approx([1, 1])

    def test_what_was_returned_may_be_changed(self) -> None:
        store = self.open()
        store.upsert([entry("a", [1, 0, 0], "zorb", tags=["x"])])
        for found in (
            one(store, "a"),
            next(iter(store.scan())),
            store.search([1, 0, 0])[0].entry,
            store.search_text("zorb")[0].entry,
        ):
            found.metadata["tags"].append("y")
            assert found.vector is not None
            if found.vector.flags.writeable:
                found.vector[:] = 9
        assert one(store, "a").metadata == {"tags": ["x"]}
        assert scored(store.search([1, 0, 0])) == [("a", 1.0)]

    def test_an_id_is_compared_exactly(self) -> None:
        store = self.open()
        names = [
            "a",
            "A",
            "a ",
            " a",
            "é",
            "e\u0301",
            "a\n",
            "%",
            "_",
            "'",
            '"',
            "\U0001f600",
            "x" * 1024,
            "\U0001f600" * 1024,
        ]
        assert store.upsert(entry(name, n=i) for i, name in enumerate(names)) == len(names)
        assert [one(store, name).metadata["n"] for name in names] == list(range(len(names)))
        assert store.delete(["a"]) == 1
        assert store.count() == len(names) - 1

    def test_of_an_id_repeated_in_a_batch_the_last_wins(self) -> None:
        store = self.open()
        assert store.upsert([entry("a", text="first"), entry("b"), entry("a", text="last")]) == 2
        assert one(store, "a").text == "last"
        assert store.count() == 2

    def test_an_upsert_replaces_the_whole_entry(self) -> None:
        store = self.open()
        store.upsert([Entry("a", read_only([1, 0, 0]), "zorb", "quil", {"x": 1})])
        assert store.upsert([Entry("a", no_vector="too long")]) == 1
        kept = one(store, "a")
        assert (kept.vector, kept.text, kept.context, dict(kept.metadata)) == (None, "", "", {})
        assert kept.no_vector == "too long"
        assert store.search([1, 0, 0]) == []
        assert store.search_text("zorb quil") == []

    def test_nothing_is_a_batch_too(self) -> None:
        store = self.open()
        assert store.upsert([]) == 0
        assert store.upsert(iter(())) == 0
        assert (store.patch({}), store.put_vectors({}), store.count(), store.namespaces()) == (0, 0, 0, [])

    def test_any_iterable_is_a_batch(self) -> None:
        store = self.open()
        given = {"a": entry("a"), "b": entry("b")}
        assert store.upsert(given.values()) == 2
        assert store.upsert(entry(f"c{i}") for i in range(3)) == 3
        assert store.upsert((entry("d"),)) == 1
        assert store.count() == 6

    def test_a_long_iterator_commits_every_thousand_and_says_so(self) -> None:
        store = self.open()
        drawn = 0

        def many() -> Iterator[Entry]:
            nonlocal drawn
            for i in range(2500):
                drawn += 1
                yield entry(f"e{i:04}")

        seen: list[tuple[int, int, bool]] = []
        store.upsert(many(), on_progress=lambda done: seen.append((done, store.count(), drawn <= done + 1)))
        assert seen == [(1000, 1000, True), (2000, 2000, True), (2500, 2500, True)]

    @pytest.mark.parametrize("metric", [Metric.DOT, Metric.L2])
    def test_a_zero_vector_is_one_where_length_does_not_matter(self, metric: Metric) -> None:
        store = self.open(Space("toy", 3, metric))
        store.upsert([entry("zero", [0, 0, 0]), entry("one", [1, 0, 0])])
        assert ids_of(store.search([1, 0, 0])) == ["one", "zero"]

    def test_a_store_knows_its_space(self) -> None:
        assert self.open(COSINE).space == COSINE


def _nested(levels: int) -> dict[str, Any]:
    """Return an object of that many levels."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value
