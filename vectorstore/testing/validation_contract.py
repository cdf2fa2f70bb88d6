"""Contract of validation: what cannot be kept raises, and nothing of its batch is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from vectorstore.errors import ArgumentError, DimensionError
from vectorstore.testing.suite import (
    METRIC_SPACES,
    StoreContract,
    get_entry,
    invalid_vectors,
    make_entry,
    read_only_vector,
    result_ids,
)
from vectorstore.types import Entry, Space


def nested_metadata(levels: int) -> dict[str, Any]:
    """Return an object of that many levels."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


def nested_lists(levels: int) -> list[Any]:
    """Return a list of that many levels."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def cyclic_metadata() -> dict[str, Any]:
    """Return an object that contains itself."""
    value: dict[str, Any] = {}
    value["self"] = value
    return value


INVALID_ENTRIES: dict[str, Callable[[], Any]] = {
    "no entry": lambda: {"id": "bad"},
    "an empty id": lambda: make_entry(""),
    "an id that is no text": lambda: make_entry(7),  # type: ignore[arg-type]
    "an id that is too long": lambda: make_entry("x" * 1025),
    "NUL in an id": lambda: make_entry("a\0b"),
    "a lone surrogate in an id": lambda: make_entry("a\ud800"),
    "a text that is none": lambda: Entry("bad", text=b"bytes"),  # type: ignore[arg-type]
    "a lone surrogate in a text": lambda: make_entry("bad", text="a\udfff"),
    "a context that is none": lambda: Entry("bad", context=3),  # type: ignore[arg-type]
    "a lone surrogate in a context": lambda: make_entry("bad", context="\ud800"),
    "metadata that is no object": lambda: Entry("bad", metadata=[1]),  # type: ignore[arg-type]
    "metadata that is None": lambda: Entry("bad", metadata=None),  # type: ignore[arg-type]
    "NaN in metadata": lambda: make_entry("bad", score=float("nan")),
    "infinity deep in metadata": lambda: make_entry("bad", scores=[{"x": [float("-inf")]}]),
    "bytes in metadata": lambda: make_entry("bad", data=b"x"),
    "a set in metadata": lambda: make_entry("bad", tags={"x"}),
    "a number as a key": lambda: Entry("bad", metadata={1: "x"}),  # type: ignore[dict-item]
    "a number as a deep key": lambda: make_entry("bad", inner={1: "x"}),
    "a lone surrogate in metadata": lambda: make_entry("bad", title="\ud800"),
    "a lone surrogate in a key": lambda: Entry("bad", metadata={"\ud800": 1}),
    "metadata that are too deep": lambda: Entry("bad", metadata=nested_metadata(101)),
    "metadata ten thousand levels deep": lambda: Entry("bad", metadata=nested_metadata(10_000)),
    "a list ten thousand levels deep": lambda: make_entry("bad", list=nested_lists(10_000)),
    "metadata inside themselves": lambda: Entry("bad", metadata=cyclic_metadata()),
    "a whole number without end": lambda: make_entry("bad", number=10**5000),
    "an empty reason": lambda: Entry("bad", no_vector=""),
    "a reason that is no text": lambda: Entry("bad", no_vector=1),  # type: ignore[arg-type]
    "a reason beside a vector": lambda: Entry("bad", read_only_vector([1, 0, 0]), no_vector="too long"),
}


INJECTIONS = [
    "'; DROP TABLE entries; --",
    '" OR 1=1 --',
    "\\'; SELECT load_extension('x')",
    "%_*?[]",
    "a$.b'\"]",
    "a.$where",
    "{0} %s ${HOME} `id`",
    "\u202e",
    "\U0001f600\u200d",
]


class ValidationContract(StoreContract):
    """Validation: what cannot be stored is refused whole."""

    def test_a_single_text_is_not_a_list_of_ids(self) -> None:
        store = self.open()
        with pytest.raises(ArgumentError):
            store.get("ab")

    def test_a_bad_entry_spoils_its_own_batch_only(self) -> None:
        store = self.open()

        def generated() -> Iterator[Entry]:
            for i in range(1500):
                yield make_entry("the-bad-one", [1, 0]) if i == 1200 else make_entry(f"e{i:04}", [1, 0, 0])

        with pytest.raises(DimensionError, match="the-bad-one"):
            store.upsert(generated())
        assert store.count() == 1000

    @pytest.mark.parametrize(
        ("bad", "field", "right"),
        [
            (make_entry("bad-one", [1, 0]), "vector", "3 numbers"),
            (make_entry("bad-one", [1, float("nan"), 0]), "vector", "finite"),
            (make_entry("bad-one", score=float("inf")), "metadata", "finite"),
            (make_entry("bad-one", text=7), "text", "a text"),  # type: ignore[arg-type]
            (Entry("bad-one", no_vector=""), "no_vector", "a reason"),
        ],
    )
    def test_a_refusal_says_which_entry_which_field_and_what_is_right(self, bad: Entry, field: str, right: str) -> None:
        store = self.open()
        with pytest.raises(ArgumentError) as caught:
            store.upsert([make_entry("good"), bad])
        assert "entries[1]" in caught.value.argument
        assert "bad-one" in caught.value.argument
        assert field in caught.value.argument
        assert right in str(caught.value)

    @pytest.mark.parametrize("text", INJECTIONS)
    def test_a_text_that_looks_like_code_is_a_text_everywhere(self, text: str) -> None:
        store = self.open()
        entry = Entry("kept", read_only_vector([0, 1, 0]), "zorb", metadata={text: 1})
        store.upsert([entry, Entry(text, read_only_vector([1, 0, 0]), text, text, {text: text})])
        store.upsert([make_entry(text)], namespace=text)
        assert get_entry(store, text).metadata == {text: text}
        assert (get_entry(store, text).text, get_entry(store, text).context) == (text, text)
        assert result_ids(store.search([1, 0, 0], where={text: text})) == [text]
        assert result_ids(store.search_text("zorb " + text, where={text: 1})) == ["kept"]
        assert store.count(where={text: {"$in": [text, 1]}}) == 2
        assert result_ids(store.scan(where={text: {"$contains": text}})) == [text]
        assert store.patch({text: {text: [text]}}) == 1
        assert sorted(store.namespaces()) == ["", text]
        assert store.delete([text], where={text: {"$contains": text}}) == 1
        assert store.delete([text], namespace=text) == 1
        assert result_ids(store.scan()) == ["kept"]
        assert store.namespaces() == [""]

    def test_a_text_of_ten_million_letters_is_kept_whole_and_found(self) -> None:
        store = self.open()
        text = "vexa " * 20_000 + "=" * 9_900_000 + " zorb"
        store.upsert([make_entry("long", text=text), make_entry("short", text="vexa")])
        assert get_entry(store, "long").text == text
        assert result_ids(store.search_text("zorb")) == ["long"]
        assert sorted(result_ids(store.search_text("vexa"))) == ["long", "short"]

    @pytest.mark.parametrize("k", [10**9, 2**70])
    def test_k_beyond_every_count_returns_what_there_is(self, k: int) -> None:
        store = self.open()
        store.upsert([make_entry("a", [1, 0, 0], "zorb"), make_entry("b", [0, 1, 0], "zorb", x=1)])
        assert result_ids(store.search([1, 0, 0], k)) == ["a", "b"]
        assert result_ids(store.search([1, 0, 0], k, where={"x": 1})) == ["b"]
        assert [result_ids(found) for found in store.search_many([[1, 0, 0]], k)] == [["a", "b"]]
        assert result_ids(store.search_text("zorb", k)) == ["a", "b"]

    def test_an_iterator_that_fails_writes_nothing_of_its_batch(self) -> None:
        store = self.open()

        def failing() -> Iterator[Entry]:
            yield make_entry("a")
            raise LookupError("the source went away")

        with pytest.raises(LookupError, match="went away"):
            store.upsert(failing())
        assert store.count() == 0

    @pytest.mark.parametrize("case", sorted(INVALID_ENTRIES))
    def test_a_bad_entry_is_refused_and_nothing_of_its_batch_written(self, case: str) -> None:
        store = self.open()
        store.upsert([make_entry("kept", text="before")])
        with pytest.raises(ArgumentError):
            store.upsert([make_entry("good"), make_entry("kept", text="after"), INVALID_ENTRIES[case]()])
        assert result_ids(store.scan()) == ["kept"]
        assert get_entry(store, "kept").text == "before"

    @pytest.mark.parametrize("space", METRIC_SPACES, ids=lambda space: str(space.metric))
    def test_a_bad_vector_is_refused_and_nothing_of_its_batch_written(self, space: Space) -> None:
        store = self.open(space)
        store.upsert([make_entry("kept")])
        for vector in invalid_vectors(space).values():
            with pytest.raises(ArgumentError):
                store.upsert([make_entry("good", [1, 0, 0]), make_entry("bad", vector)])
            with pytest.raises(ArgumentError):
                store.put_vectors({"kept": [1, 0, 0], "bad": vector})
        assert result_ids(store.scan()) == ["kept"]
        assert get_entry(store, "kept").vector is None

    def test_a_wrong_dimension_names_both(self) -> None:
        store = self.open()
        with pytest.raises(DimensionError) as caught:
            store.upsert([make_entry("a", [1.0] * 5)])
        assert (caught.value.given, caught.value.dimension) == (5, 3)

    @pytest.mark.parametrize("given", [None, 7, "text", make_entry("alone")])
    def test_what_is_no_batch_is_refused(self, given: Any) -> None:
        store = self.open()
        with pytest.raises(ArgumentError):
            store.upsert(given)
        assert store.count() == 0

    @pytest.mark.parametrize("bad", [None, [1], {"x": float("nan")}, {1: 2}, {"x": b"y"}])
    def test_a_bad_patch_changes_nothing(self, bad: Any) -> None:
        store = self.open()
        store.upsert([make_entry("a", x=1), make_entry("b", x=1)])
        with pytest.raises(ArgumentError):
            store.patch({"a": {"x": 2}, "b": bad})
        assert [dict(entry.metadata) for entry in store.scan()] == [{"x": 1}] * 2

    def test_a_store_without_a_space_keeps_text_alone(self) -> None:
        store = self.open(None)
        assert store.space is None
        store.upsert([make_entry("a", text="zorb"), Entry("b", no_vector="too long")])
        with pytest.raises(ArgumentError):
            store.upsert([make_entry("c", [1, 0, 0])])
        with pytest.raises(ArgumentError):
            store.put_vectors({"a": [1, 0, 0]})
        with pytest.raises(ArgumentError):
            store.search([1, 0, 0])
        with pytest.raises(ArgumentError):
            store.search_many([[1, 0, 0]])
        assert result_ids(store.search_text("zorb")) == ["a"]
        assert result_ids(store.scan(embedded=False)) == ["a"]
        assert store.count() == 2
