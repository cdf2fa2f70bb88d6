"""Validation of a memory that is to be written.

Inner parts, on no face: ``tellback.memory.validation``.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tellback.memory import ArgumentError, Memory, Source, Trust
from tellback.memory.validation import checked_memory

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_checked_memory_turns_a_text_into_a_memory():
    assert checked_memory("I moved.") == Memory("I moved.")


def test_naive_times_are_taken_in_the_configured_zone():
    memory = checked_memory(
        Memory("x", occurred_at=datetime.fromisoformat("2026-07-01T12:00")), zone=ZoneInfo("Europe/Berlin")
    )
    assert memory.occurred_at.utcoffset() == timedelta(hours=2)


def test_trust_may_be_given_as_a_word():
    assert checked_memory(Memory("x", trust="document")).trust is Trust.DOCUMENT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("text", ""),
        ("text", " \n\t"),
        ("text", "\ud800"),
        ("text", None),
        ("text", b"bytes"),
        ("id", "a\0b"),
        ("id", "x" * 1001),
        ("id", 5),
        ("kind", ""),
        ("kind", None),
        ("speaker", " "),
        ("session", 7),
        ("key", ""),
        ("tags", "tag"),
        ("tags", [1]),
        ("tags", [""]),
        ("tags", {"a": 1}),
        ("scopes", {"user": 1}),
        ("scopes", []),
        ("metadata", {"x": float("inf")}),
        ("metadata", {"x": {1, 2}}),
        ("metadata", {"x": {3: 4}}),
        ("metadata", {"x": ["\ud800"]}),
        ("metadata", {1: 2}),
        ("metadata", []),
        ("importance", 1.5),
        ("importance", -0.1),
        ("importance", float("nan")),
        ("importance", True),
        ("importance", "high"),
        ("sequence", -1),
        ("sequence", True),
        ("sequence", 1.0),
        ("trust", "god"),
        ("trust", None),
        ("actor", "robot"),
        ("actor", []),
        ("pinned", 1),
        ("disabled", None),
        ("derived_from", "abc"),
        ("occurred_at", "yesterday"),
        ("expires_at", 5),
        ("retired_at", NOW),
        ("source", "a.md"),
        ("source", Source(page=0)),
        ("source", Source(start=-1)),
        ("source", Source(heading="Install")),
        ("caption", None),
    ],
)
def test_checked_memory_of_an_invalid_field_raises_naming_the_field(field, value):
    with pytest.raises(ArgumentError) as error:
        checked_memory(replace(Memory("fine"), **{field: value}))
    assert field in error.value.argument
    assert error.value.expected


def test_a_validity_that_ends_before_it_begins_is_refused():
    with pytest.raises(ArgumentError, match="valid_to"):
        checked_memory(Memory("x", valid_from=NOW, valid_to=NOW - timedelta(seconds=1)))


def test_metadata_nested_too_deeply_is_rejected():
    deep = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(ArgumentError, match="levels"):
        checked_memory(Memory("x", metadata={"deep": deep}))


@pytest.mark.parametrize("bad", [None, 5, b"x", ["x"]])
def test_remember_refuses_anything_but_texts_and_memories(bad):
    with pytest.raises(ArgumentError, match="item"):
        checked_memory(bad)
