"""Parts of the write path: validation, ids, tombstones, vectors.

Inner parts, on no face: ``memory.erasure.verbatim_match``, ``memory.tables.idempotency_keys``,
``memory.tables.tombstones``, ``memory.validation``, ``memory.write.embedding_service``.
"""

import asyncio
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from memory import ArgumentError, EmbedderMismatch, Memory, Source, Trust
from memory.erasure.verbatim_match import VerbatimTexts
from memory.tables.idempotency_keys import TimeOrderedIds, keyed_id
from memory.tables.tombstones import Tombstones
from memory.validation import checked_memory
from memory.write.embedding_service import NO_EMBEDDER, NOTHING_TO_EMBED, EmbeddingService
from vectorstore import Space, open_store
from vectorstore.sqlite import InMemoryDatabase, SqliteDatabase

NOW = datetime(2026, 1, 1, tzinfo=UTC)


# --- validation


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


# --- ids


def test_ids_are_short_and_rise_with_time():
    now = [NOW]
    ids = TimeOrderedIds(clock=lambda: now[0])
    given = []
    for _ in range(50):
        given.append(ids())
        now[0] += timedelta(milliseconds=random.Random(len(given)).choice([0, 1, 500]))
    assert given == sorted(set(given))
    assert {len(item) for item in given} == {16}


def test_ids_rise_when_the_clock_steps_back():
    moments = iter([NOW, NOW - timedelta(days=1), NOW + timedelta(days=1)])
    ids = TimeOrderedIds(clock=lambda: next(moments))
    given = [ids(), ids(), ids()]
    assert given == sorted(set(given))


def test_time_ordered_ids_of_two_processes_differ_in_the_random_part():
    item = TimeOrderedIds(clock=lambda: NOW, token=lambda count: b"\x00" * count)()
    other = TimeOrderedIds(clock=lambda: NOW, token=lambda count: b"\xff" * count)()
    assert item[:9] == other[:9]
    assert item[9:] == "0000000"
    assert other[9:] == "zzzzzzz"


def test_a_keyed_id_depends_only_on_file_key_namespace_and_idempotency_key():
    assert keyed_id(b"s" * 32, "n", "k") == keyed_id(b"s" * 32, "n", "k")
    others = [(b"t" * 32, "n", "k"), (b"s" * 32, "m", "k"), (b"s" * 32, "n", "l"), (b"s" * 32, "nk", "")]
    assert len({keyed_id(b"s" * 32, "n", "k"), *(keyed_id(*item) for item in others)}) == 5


# --- tombstones


@pytest.fixture(params=["memory", "sqlite"])
def tombstones(request, tmp_path):
    if request.param == "memory":
        yield Tombstones(InMemoryDatabase())
    else:
        database = SqliteDatabase(tmp_path / "m.db")
        yield Tombstones(database)
        database.close()


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


# --- verbatim matches


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


# --- vectors


class Counting:
    """An embedder whose vectors say how long a text is; blank-looking texts get zeros."""

    fingerprint = "counting/1"
    dimension = 2

    def __init__(self, answer=None, error=None):
        self.answer = answer
        self.error = error

    async def embed(self, texts, kind="document"):
        if self.error is not None:
            raise self.error
        if self.answer is not None:
            return self.answer
        return np.array([[len(text), 1] if text.isprintable() else [0, 0] for text in texts], dtype=np.float32)


def test_the_first_vectors_set_the_space_of_the_store():
    store = open_store("numpy:")
    made = asyncio.run(EmbeddingService(store, Counting()).vectors(["ab", "\0"]))
    assert store.space == Space("counting/1", 2)
    assert made[0].vector.tolist() == [2, 1]
    assert made[1].vector is None
    assert [text.no_vector for text in made] == [None, NOTHING_TO_EMBED]
    assert [text.deferred for text in made] == [None, None]


@pytest.mark.parametrize(
    "embedder",
    [
        Counting(error=RuntimeError("boom")),
        Counting(answer=np.zeros((5, 2), dtype=np.float32)),
        Counting(answer=np.full((1, 2), np.nan, dtype=np.float32)),
        Counting(answer=[[1.0], [2.0]]),
        Counting(answer="nonsense"),
    ],
)
def test_vectors_of_an_embedder_that_fails_or_returns_nonsense_are_deferred(embedder):
    store = open_store("numpy:")
    made = asyncio.run(EmbeddingService(store, embedder).vectors(["text"]))
    assert [(text.vector, text.no_vector) for text in made] == [(None, None)]
    assert "the embedder failed" in made[0].deferred
    assert store.space is None


def test_vectors_without_an_embedder_are_deferred():
    made = asyncio.run(EmbeddingService(open_store("numpy:"), None).vectors(["a"]))
    assert [(text.vector, text.deferred) for text in made] == [(None, NO_EMBEDDER)]


def test_an_embedder_of_another_space_is_refused():
    store = open_store("numpy:", space=Space("other/1", 2))
    with pytest.raises(EmbedderMismatch, match="other/1"):
        EmbeddingService(store, Counting())


def test_vectors_of_another_length_than_the_spaces_are_deferred():
    store = open_store("numpy:", space=Space("counting/1", 3))
    made = asyncio.run(EmbeddingService(store, Counting()).vectors(["a"]))
    assert "dimensions" in made[0].deferred


def test_vectors_are_deferred_if_another_process_sets_another_space_meanwhile():
    store = open_store("numpy:")

    class Late(Counting):
        async def embed(self, texts, kind="document"):
            store.set_space(Space("other/1", 2))
            return await super().embed(texts, kind)

    embedding = EmbeddingService(store, Late())
    assert "other/1" in asyncio.run(embedding.vectors(["a"]))[0].deferred
    assert asyncio.run(embedding.vectors([])) == []


def test_cancelling_a_write_that_waits_for_its_vector_cancels_it():
    class Waiting(Counting):
        async def embed(self, texts, kind="document"):
            asked.set()
            await asyncio.Event().wait()

    async def cancelled():
        writing = asyncio.ensure_future(EmbeddingService(open_store("numpy:"), Waiting()).vectors(["a"]))
        await asked.wait()
        writing.cancel()
        return await writing

    asked = asyncio.Event()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
