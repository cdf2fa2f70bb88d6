"""Tombstones of forgotten ids and texts, and how a forgotten text is found in another one.

Inner parts, on no face: ``tellback.memory.erasure.verbatim_match``, ``tellback.memory.tables.tombstones``.
"""

from datetime import UTC, datetime, timedelta

import pytest

from tellback.memory.erasure.verbatim_match import VerbatimTexts
from tellback.memory.tables.tombstones import Tombstones
from tellback.vectorstore.sqlite import SqliteDatabase

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def tombstones(database):
    return Tombstones(database)


def test_an_id_tombstone_applies_to_its_store_namespace_only(tombstones):
    tombstones.add("/conversation", ["a", "b"], NOW)
    assert tombstones.which("/conversation", ["a", "c"]) == {"a"}
    assert tombstones.which("x/conversation", ["a"]) == set()
    tombstones.lift("/conversation", ["a", "z"])
    assert tombstones.which("/conversation", ["a", "b"]) == {"b"}


def test_a_text_tombstone_returns_its_latest_time_for_the_same_text_and_namespace(tombstones):
    tombstones.add_words("n", ["The code is 4417"], NOW)
    tombstones.add_words("n", ["The code is 4417"], NOW + timedelta(hours=1))
    assert tombstones.words_at("n", " The code is 4417\n") == NOW + timedelta(hours=1)
    assert tombstones.words_at("n", "The code is") is None
    assert tombstones.words_at("m", "The code is 4417") is None


def test_the_tombstone_key_of_a_file_persists_and_differs_between_files(tmp_path):
    first = SqliteDatabase(tmp_path / "a.db")
    key = Tombstones(first).key
    first.close()
    again, other = SqliteDatabase(tmp_path / "a.db"), SqliteDatabase(tmp_path / "b.db")
    assert Tombstones(again).key == key
    assert len(key) == 32
    assert Tombstones(other).key != key
    assert again.verify() == []
    again.close()
    other.close()


def test_no_words_are_in_the_tables_of_tombstones(tmp_path):
    database = SqliteDatabase(tmp_path / "m.db")
    Tombstones(database).add_words("n", ["canary words 4417"], NOW)
    database.close()
    assert b"canary" not in (tmp_path / "m.db").read_bytes()


def test_verify_finds_a_damaged_or_missing_tombstone_key(tmp_path):
    database = SqliteDatabase(tmp_path / "m.db")
    Tombstones(database).add_words("n", ["words"], NOW)
    with database.write() as connection:
        connection.execute("UPDATE memory_facts SET value = x'00'")
    assert [finding.what for finding in database.verify()] == ["the key of the file is not whole"]
    with database.write() as connection:
        connection.execute("DELETE FROM memory_facts")
    assert [finding.what for finding in database.verify()] == ["the key of the file is missing"]
    database.close()


def test_tombstones_are_salvaged(tmp_path):
    database = SqliteDatabase(tmp_path / "m.db")
    tombstones = Tombstones(database)
    tombstones.add("/conversation", ["a"], NOW)
    tombstones.add_words("n", ["words"], NOW)
    database.salvage(tmp_path / "saved.db")
    database.close()
    saved = SqliteDatabase(tmp_path / "saved.db")
    kept = Tombstones(saved)
    assert kept.which("/conversation", ["a"]) == {"a"}
    assert kept.words_at("n", "words") == NOW
    saved.close()


def test_verbatim_texts_find_a_long_text_anywhere_in_another_text():
    assert VerbatimTexts(["my code is 4417"]).held_by("you said: my code is 4417!")
    assert VerbatimTexts(["CANARY123"]).held_by("xCANARY123y")
    assert not VerbatimTexts(["my code is 4417"]).held_by("my code is 441")


def test_verbatim_texts_find_a_short_text_only_as_whole_words():
    assert VerbatimTexts(["4417"]).held_by("it is 4417, he said")
    assert VerbatimTexts(["ok"]).held_by("ok")
    assert not VerbatimTexts(["ok"]).held_by("a book")
    assert VerbatimTexts(["ok"]).held_by("a book is ok")
    assert not VerbatimTexts(["ok"]).held_by("")
