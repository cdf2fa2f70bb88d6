"""Contract of validation: what cannot be kept raises, and nothing of its batch is written."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from tellback.vectorstore.errors import ArgumentError, DimensionError
from tellback.vectorstore.protocol import VectorStore
from tellback.vectorstore.testing.suite import (
    StoreContract,
    calls_not_refused,
    every_metric,
    get_entry,
    invalid_vectors,
    make_entry,
    protocol_calls,
    result_ids,
    vector_calls,
)
from tellback.vectorstore.testing.write_contract import nested
from tellback.vectorstore.types import Entry, Space

_CYCLE: dict[str, Any] = {}
_CYCLE["self"] = _CYCLE

INVALID_ENTRIES: dict[str, Any] = {
    "no entry": {"id": "bad"},
    "an empty id": make_entry(""),
    "an id that is no text": make_entry(7),  # type: ignore[arg-type]
    "an id that is too long": make_entry("x" * 1025),
    "NUL in an id": make_entry("a\0b"),
    "a lone surrogate in an id": make_entry("a\ud800"),
    "a text that is none": Entry("bad", text=b"bytes"),  # type: ignore[arg-type]
    "a lone surrogate in a text": make_entry("bad", text="a\udfff"),
    "a context that is none": Entry("bad", context=3),  # type: ignore[arg-type]
    "a lone surrogate in a context": make_entry("bad", context="\ud800"),
    "metadata that is no object": Entry("bad", metadata=[1]),  # type: ignore[arg-type]
    "metadata that is None": Entry("bad", metadata=None),  # type: ignore[arg-type]
    "NaN in metadata": make_entry("bad", score=float("nan")),
    "infinity deep in metadata": make_entry("bad", scores=[{"x": [float("-inf")]}]),
    "bytes in metadata": make_entry("bad", data=b"x"),
    "a set in metadata": make_entry("bad", tags={"x"}),
    "a number as a key": Entry("bad", metadata={1: "x"}),  # type: ignore[dict-item]
    "a number as a deep key": make_entry("bad", inner={1: "x"}),
    "a lone surrogate in metadata": make_entry("bad", title="\ud800"),
    "a lone surrogate in a key": Entry("bad", metadata={"\ud800": 1}),
    "metadata that are too deep": Entry("bad", metadata=nested(101, lambda value: {"in": value})),
    "metadata ten thousand levels deep": Entry("bad", metadata=nested(10_000, lambda value: {"in": value})),
    "a list ten thousand levels deep": make_entry("bad", list=nested(10_000, lambda value: [value])),
    "metadata inside themselves": Entry("bad", metadata=_CYCLE),
    "a whole number without end": make_entry("bad", number=10**5000),
    "an empty reason": Entry("bad", no_vector=""),
    "a reason that is no text": Entry("bad", no_vector=1),  # type: ignore[arg-type]
    "a reason beside a vector": Entry("bad", [1, 0, 0], no_vector="too long"),
}

INVALID_ARGUMENTS: dict[str, list[Any]] = {
    "entries": [None, 7, "text", make_entry("alone")],
    "metadata": [{"a": {"x": 2}, "b": bad} for bad in (None, [1], {"x": float("nan")}, {1: 2}, {"x": b"y"})],
    "ids": ["a", b"a", None, 7, [7], ["a", ""], ["a", None], ["a", "x" * 1025], ["a", "\0"]],
    "namespace": ["a\0b", "x" * 1025, "\ud800", 7, b"a", ["a"], None],
    "expect": [{"a": -1}, {"a": True}, {"a": 1.0}, {"a": None}, {"": 0}, [("a", 0)], "a"],
    "query": [None, 7, b"zorb", ["zorb"], "\ud800"],
    "k": [-1, True, False, 1.0, "3", None],
    "min_score": [math.nan, True, "0.5", [0.5]],
    "after": [7, b"a", "x" * 1025, "a\0"],
}

INJECTIONS = [
    *("'; DROP TABLE entries; --", '" OR 1=1 --', "\\'; SELECT load_extension('x')", "%_*?[]", "a$.b'\"]"),
    *("a.$where", "{0} %s ${HOME} `id`", "\u202e", "\U0001f600\u200d"),
]


class ValidationContract(StoreContract):
    """Validation: what cannot be stored is refused whole."""

    @pytest.mark.parametrize(
        ("argument", "bad"),
        [(argument, bad) for argument, values in INVALID_ARGUMENTS.items() for bad in values],
        ids=lambda value: repr(value)[:20],
    )
    def test_a_bad_argument_is_refused_by_every_call_and_nothing_is_written(
        self, store: VectorStore, argument: str, bad: Any
    ) -> None:
        store.upsert([make_entry("a", [1, 0, 0], "zorb", x=1), make_entry("b", x=1)])
        before = list(store.scan())
        for options in ({}, {"namespace": "empty"}):
            calls = protocol_calls(VectorStore, store, **options | {argument: bad})
            assert calls_not_refused(ArgumentError, calls) == []
        assert list(store.scan()) == before
        assert store.namespaces() == [""]

    @every_metric
    def test_a_bad_vector_is_refused_by_every_call_and_nothing_is_written(self, space: Space) -> None:
        store = self.open(space)
        store.upsert([make_entry("a"), make_entry("b", [1, 0, 0])])
        before = list(store.scan())
        for vector in invalid_vectors(space).values():
            assert calls_not_refused(ArgumentError, vector_calls(store, vector)) == []
            with pytest.raises(ArgumentError):
                store.put_vectors({"a": [1, 0, 0], "b": vector})
        with pytest.raises(DimensionError) as caught:
            store.upsert([make_entry("a", [1.0] * 5)])
        assert (caught.value.given, caught.value.dimension) == (5, 3)
        with pytest.raises(DimensionError):
            store.search([1, 0])
        assert list(store.scan()) == before

    @pytest.mark.parametrize("bad", INVALID_ENTRIES.values(), ids=INVALID_ENTRIES)
    def test_a_bad_entry_is_refused_and_nothing_of_its_batch_written(self, store: VectorStore, bad: Any) -> None:
        store.upsert([make_entry("kept", text="before")])
        with pytest.raises(ArgumentError):
            store.upsert([make_entry("good"), make_entry("kept", text="after"), bad])
        assert result_ids(store.scan()) == ["kept"]
        assert get_entry(store, "kept").text == "before"

    def test_a_bad_entry_spoils_its_own_batch_only(self, store: VectorStore) -> None:
        entries = (make_entry(f"e{i:04}", [1, 0, 0] if i != 1200 else [1, 0]) for i in range(1500))
        with pytest.raises(DimensionError, match="e1200"):
            store.upsert(entries)
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
    def test_a_refusal_says_which_entry_which_field_and_what_is_right(
        self, store: VectorStore, bad: Entry, field: str, right: str
    ) -> None:
        with pytest.raises(ArgumentError) as caught:
            store.upsert([make_entry("good"), bad])
        assert all(part in caught.value.argument for part in ("entries[1]", "bad-one", field))
        assert right in str(caught.value)

    @pytest.mark.parametrize("text", INJECTIONS)
    def test_a_text_that_looks_like_code_is_a_text_everywhere(self, store: VectorStore, text: str) -> None:
        entry = Entry("kept", [0, 1, 0], "zorb", metadata={text: 1})
        store.upsert([entry, Entry(text, [1, 0, 0], text, text, {text: text})])
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

    def test_a_text_of_ten_million_letters_is_kept_whole_and_found(self, store: VectorStore) -> None:
        text = "vexa " * 20_000 + "=" * 9_900_000 + " zorb"
        store.upsert([make_entry("long", text=text), make_entry("short", text="vexa")])
        assert get_entry(store, "long").text == text
        assert result_ids(store.search_text("zorb")) == ["long"]
        assert sorted(result_ids(store.search_text("vexa"))) == ["long", "short"]

    def test_an_iterator_that_fails_writes_nothing_of_its_batch(self, store: VectorStore) -> None:
        def failing() -> Iterator[Entry]:
            yield make_entry("a")
            raise LookupError("the source went away")

        with pytest.raises(LookupError, match="went away"):
            store.upsert(failing())
        assert store.count() == 0

    def test_a_store_without_a_space_keeps_text_alone(self) -> None:
        store = self.open(None)
        assert store.space is None
        store.upsert([make_entry("a", text="zorb"), Entry("b", no_vector="too long")])
        assert calls_not_refused(ArgumentError, vector_calls(store, [1, 0, 0])) == []
        assert result_ids(store.search_text("zorb")) == ["a"]
        assert result_ids(store.scan(embedded=False)) == ["a"]
        assert store.count() == 2
