"""The contract of refusing: what cannot be kept raises, and nothing of its batch is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from vectorstore.errors import ArgumentError, DimensionError
from vectorstore.testing.suite import (
    SPACES,
    StoreContract,
    bad_vectors,
    entry,
    ids_of,
    one,
    read_only,
)
from vectorstore.types import Entry, Space


def nested(levels: int) -> dict[str, Any]:
    """Return an object of that many levels."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


def looped() -> dict[str, Any]:
    """Return an object that contains itself."""
    value: dict[str, Any] = {}
    value["self"] = value
    return value


BAD_ENTRIES: dict[str, Callable[[], Any]] = {
    "no entry": lambda: {"id": "bad"},
    "an empty id": lambda: entry(""),
    "an id that is no text": lambda: entry(7),  # type: ignore[arg-type]
    "an id that is too long": lambda: entry("x" * 1025),
    "NUL in an id": lambda: entry("a\0b"),
    "a lone surrogate in an id": lambda: entry("a\ud800"),
    "a text that is none": lambda: Entry("bad", text=b"bytes"),  # type: ignore[arg-type]
    "a lone surrogate in a text": lambda: entry("bad", text="a\udfff"),
    "a context that is none": lambda: Entry("bad", context=3),  # type: ignore[arg-type]
    "a lone surrogate in a context": lambda: entry("bad", context="\ud800"),
    "metadata that is no object": lambda: Entry("bad", metadata=[1]),  # type: ignore[arg-type]
    "metadata that is None": lambda: Entry("bad", metadata=None),  # type: ignore[arg-type]
    "NaN in metadata": lambda: entry("bad", score=float("nan")),
    "infinity deep in metadata": lambda: entry("bad", scores=[{"x": [float("-inf")]}]),
    "bytes in metadata": lambda: entry("bad", data=b"x"),
    "a set in metadata": lambda: entry("bad", tags={"x"}),
    "a number as a key": lambda: Entry("bad", metadata={1: "x"}),  # type: ignore[dict-item]
    "a number as a deep key": lambda: entry("bad", inner={1: "x"}),
    "a lone surrogate in metadata": lambda: entry("bad", title="\ud800"),
    "a lone surrogate in a key": lambda: Entry("bad", metadata={"\ud800": 1}),
    "metadata that are too deep": lambda: Entry("bad", metadata=nested(101)),
    "metadata inside themselves": lambda: Entry("bad", metadata=looped()),
    "a whole number without end": lambda: entry("bad", number=10**5000),
    "an empty reason": lambda: Entry("bad", no_vector=""),
    "a reason that is no text": lambda: Entry("bad", no_vector=1),  # type: ignore[arg-type]
    "a reason beside a vector": lambda: Entry("bad", read_only([1, 0, 0]), no_vector="too long"),
}


class RefusingContract(StoreContract):
    """What cannot be kept is refused whole."""

    def test_a_single_text_is_not_a_list_of_ids(self) -> None:
        store = self.open()
        with pytest.raises(ArgumentError):
            store.get("ab")

    def test_a_bad_entry_spoils_its_own_batch_only(self) -> None:
        store = self.open()
        batch = [entry(f"e{i:04}", [1, 0, 0]) for i in range(1500)]
        batch[1200] = entry("the-bad-one", [1, 0])
        with pytest.raises(DimensionError, match="the-bad-one"):
            store.upsert(batch)
        assert store.count() == 1000

    def test_an_iterator_that_fails_writes_nothing_of_its_batch(self) -> None:
        store = self.open()

        def failing() -> Iterator[Entry]:
            yield entry("a")
            raise LookupError("the source went away")

        with pytest.raises(LookupError, match="went away"):
            store.upsert(failing())
        assert store.count() == 0

    @pytest.mark.parametrize("case", sorted(BAD_ENTRIES))
    def test_a_bad_entry_is_refused_and_nothing_of_its_batch_written(self, case: str) -> None:
        store = self.open()
        store.upsert([entry("kept", text="before")])
        with pytest.raises(ArgumentError):
            store.upsert([entry("good"), entry("kept", text="after"), BAD_ENTRIES[case]()])
        assert ids_of(store.scan()) == ["kept"]
        assert one(store, "kept").text == "before"

    @pytest.mark.parametrize("space", SPACES, ids=lambda space: str(space.metric))
    def test_a_bad_vector_is_refused_and_nothing_of_its_batch_written(self, space: Space) -> None:
        store = self.open(space)
        store.upsert([entry("kept")])
        for vector in bad_vectors(space).values():
            with pytest.raises(ArgumentError):
                store.upsert([entry("good", [1, 0, 0]), entry("bad", vector)])
            with pytest.raises(ArgumentError):
                store.put_vectors({"kept": [1, 0, 0], "bad": vector})
        assert ids_of(store.scan()) == ["kept"]
        assert one(store, "kept").vector is None

    def test_a_wrong_dimension_names_both(self) -> None:
        store = self.open()
        with pytest.raises(DimensionError) as caught:
            store.upsert([entry("a", [1.0] * 5)])
        assert (caught.value.given, caught.value.dimension) == (5, 3)

    @pytest.mark.parametrize("given", [None, 7, "text", entry("alone")])
    def test_what_is_no_batch_is_refused(self, given: Any) -> None:
        store = self.open()
        with pytest.raises(ArgumentError):
            store.upsert(given)
        assert store.count() == 0

    @pytest.mark.parametrize("bad", [None, [1], {"x": float("nan")}, {1: 2}, {"x": b"y"}])
    def test_a_bad_patch_changes_nothing(self, bad: Any) -> None:
        store = self.open()
        store.upsert([entry("a", x=1), entry("b", x=1)])
        with pytest.raises(ArgumentError):
            store.patch({"a": {"x": 2}, "b": bad})
        assert [dict(kept.metadata) for kept in store.scan()] == [{"x": 1}] * 2

    def test_a_store_without_a_space_keeps_text_alone(self) -> None:
        store = self.open(None)
        assert store.space is None
        store.upsert([entry("a", text="zorb"), Entry("b", no_vector="too long")])
        with pytest.raises(ArgumentError):
            store.upsert([entry("c", [1, 0, 0])])
        with pytest.raises(ArgumentError):
            store.put_vectors({"a": [1, 0, 0]})
        with pytest.raises(ArgumentError):
            store.search([1, 0, 0])
        with pytest.raises(ArgumentError):
            store.search_many([[1, 0, 0]])
        assert ids_of(store.search_text("zorb")) == ["a"]
        assert ids_of(store.scan(embedded=False)) == ["a"]
        assert store.count() == 2
