"""Salvage of a damaged memory: component by component, row by row; lost rows are counted by table.

Inner parts, on no face: ``tellback.memory.partitions``.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from tellback.memory import (
    ArgumentError,
    EmbeddingSettings,
    HashingEmbedder,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Message,
    open_memory,
    salvage_memory,
)
from tellback.memory.partitions import store_namespace
from tellback.vectorstore import DamageError, NotAStore
from tests.support.slow import first_fast

_COUNTED = (
    *("entries", "vectors", "history_sessions", "history_messages", "history_bounds", "operations"),
    *("operation_changes", "memory_facts", "tombstones", "tombstone_words", "held", "held_things", "keys"),
    *("documents", "embedder_probes", "embedder_profiles", "embedding_cache"),
)


@contextmanager
def opened(path: Path) -> Iterator[LongTermMemory]:
    memory = open_memory(path, embedder=HashingEmbedder(), embedding_settings=EmbeddingSettings(cache_bytes=10_000_000))
    try:
        yield memory
    finally:
        asyncio.run(memory.close())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Memory with rows in every component."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "notes.md").write_text("# Boats\n\nThe ferry leaves at nine.\n")

    async def fill(memory: LongTermMemory) -> None:
        await memory.remember_many(
            [Memory(f"Note {number}: the zorb of town {number} is blue.") for number in range(40)]
        )
        for number in range(3):
            turn = [Message.user(f"My café number {number} is in Évora."), Message.assistant("Noted.")]
            await memory.remember_turn(f"s{number}", turn)
        home = await memory.remember("I live in Braga.")
        await memory.correct(home.id, "I live in Faro.")
        gone = await memory.remember("The vault opens with seven turns.")
        await memory.forget([gone.id])
        soft = await memory.remember("The second vault opens with nine turns.")
        await memory.forget([soft.id], grace=timedelta(days=30))
        await KnowledgeBase(memory).ingest(folder / "notes.md")
        memory.keys.name_key("", "elsewhere", home.id)

    with opened(folder / "m.db") as memory:
        asyncio.run(fill(memory))
        assert memory.store.verify() == []
    return folder / "m.db"


@pytest.fixture
def path(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tellback.vectorstore.sqlite.salvage._FEW_KEYS", 1000)  # no table here has more rows
    return Path(shutil.copyfile(whole, tmp_path / "m.db"))


def counts(path: Path) -> dict[str, int]:
    with apsw.Connection(str(path)) as connection:
        found = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in _COUNTED}
    connection.close()
    return found


def change(path: Path, sql: str) -> None:
    """Damage a file as SQLite itself would never."""
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.pragma("foreign_keys", False)
    connection.execute(sql)
    assert connection.changes()
    connection.close()


def test_salvage_of_a_whole_memory_saves_every_row_and_the_new_file_is_a_normal_memory(
    path: Path, tmp_path: Path
) -> None:
    before, expected = path.read_bytes(), counts(path)
    assert min(expected.values()) > 0, "a part has no row to save"
    report = salvage_memory(path, tmp_path / "new.db")
    assert report.whole, [str(table) for table in report.tables]
    assert counts(tmp_path / "new.db") == expected
    assert path.read_bytes() == before
    with opened(tmp_path / "new.db") as memory:
        assert memory.store.verify() == []
        assert asyncio.run(memory.recall("Where do I live?"))[0].memory.text == "I live in Faro."
        assert not asyncio.run(memory.remember("The vault opens with seven turns.")).deferred
        assert memory.keys.id_of_key("", "elsewhere") != ""


_BAD = "CAST(x'ff' AS TEXT)"


@pytest.mark.parametrize(
    ("table", "lost", "sql"),
    first_fast(
        [
            ("history_messages", 1, f"UPDATE history_messages SET message = {_BAD} WHERE key = 1"),
            ("history_messages", 1, "UPDATE history_messages SET message = '{}' WHERE key = 1"),
            ("history_messages", 0, "UPDATE history_sessions SET session = 'another' WHERE key = 1"),
            ("history_messages", 0, f"UPDATE history_sessions SET session = {_BAD} WHERE key = 1"),
            ("history_messages", 0, "DELETE FROM history_sessions WHERE key = 1"),
            ("entries", 1, f"UPDATE entries SET text = {_BAD} WHERE key = 3"),
            ("entries", 1, "UPDATE entries SET text = 'other words' WHERE key = 3"),
            ("vectors", 1, "UPDATE vectors SET vector = zeroblob(length(vector)) WHERE key = 3"),
            ("operations", 1, f"UPDATE operations SET actor = {_BAD} WHERE number = 1"),
            ("operations", 1, "UPDATE operations SET at = 'no time' WHERE number = 2"),
            ("operation_changes", 1, "UPDATE operation_changes SET fields = 'no json' WHERE place = 0 AND number = 2"),
            ("memory_facts", 1, "UPDATE memory_facts SET value = x'00' WHERE name = 'key'"),
            ("tombstones", 1, "UPDATE tombstones SET at = 'no time' WHERE id = (SELECT min(id) FROM tombstones)"),
            ("held", 1, f"UPDATE held SET space = {_BAD}"),
            ("held_things", 1, "UPDATE held_things SET data = '[]' WHERE key = 1"),
            (
                "keys",
                1,
                f"UPDATE keys SET id = {_BAD} WHERE (namespace, name) IN (SELECT namespace, name FROM keys LIMIT 1)",
            ),
            ("documents", 1, "UPDATE documents SET location = 'elsewhere'"),
            ("embedder_probes", 1, "UPDATE embedder_probes SET texts = 7"),
            (
                "embedding_cache",
                1,
                "UPDATE embedding_cache SET vector = x'00' WHERE used = (SELECT max(used) FROM embedding_cache)",
            ),
            ("components", 0, "DELETE FROM components"),
        ]
    ),
)
def test_a_damaged_row_loses_no_other_row_and_is_counted_and_named(
    table: str, lost: int, sql: str, path: Path, tmp_path: Path
) -> None:
    change(path, sql)
    before = path.read_bytes()
    report = salvage_memory(path, tmp_path / "new.db")
    assert path.read_bytes() == before
    damaged = [part for part in report.tables if part.lost != 0]
    assert sum(part.lost or 0 for part in damaged if part.table == table) == lost, [str(part) for part in damaged]
    assert all(part.reasons for part in damaged)
    assert report.findings == ()
    saved = counts(tmp_path / "new.db")
    for name, number in counts(path).items():
        expected = number - sum(part.lost or 0 for part in damaged if part.table == name)
        assert saved[name] == expected or name == "history_sessions", name
    with opened(tmp_path / "new.db") as memory:
        assert memory.store.verify() == []
        assert len(asyncio.run(memory.recall("Which town has a blue zorb?"))) > 0
        assert asyncio.run(memory.remember("Something new.")).stored
        messages = [asyncio.run(memory.conversations.load(f"s{number}")) for number in range(3)]
        assert sum(map(len, messages)) >= 4


@pytest.mark.parametrize("table", ["namespaces", "history_sessions"])
def test_names_on_an_unreadable_page_are_read_from_their_index(table: str, path: Path, tmp_path: Path) -> None:
    with apsw.Connection(str(path)) as connection:
        ((page,),) = connection.execute("SELECT pageno FROM dbstat WHERE name = ?", (table,)).fetchall()
    connection.close()
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    report = salvage_memory(path, tmp_path / "new.db")
    assert report.saved("history_messages") == 6
    with opened(tmp_path / "new.db") as memory:
        assert memory.store.verify() == []
        assert asyncio.run(memory.recall("Where do I live?"))[0].memory.text == "I live in Faro."
        assert len(asyncio.run(memory.conversations.load("s1"))) == 2
        assert asyncio.run(memory.conversations.append("s1", [Message.user("More.")])) == [3]


@pytest.mark.parametrize(
    ("lost", "namespace"), [("name = '/conversation'", ""), ("1", "name-lost-1")], ids=["the default", "all"]
)
def test_the_report_says_where_the_memories_of_a_namespace_with_a_lost_name_are(
    lost: str, namespace: str, path: Path, tmp_path: Path
) -> None:
    change(path, f"DELETE FROM namespaces WHERE {lost}")
    report = salvage_memory(path, tmp_path / "new.db")
    (part,) = (part for part in report.tables if part.table == "namespaces")
    assert [reason for reason in part.reasons if repr(store_namespace(namespace, "conversation")) in reason]
    assert not report.whole
    with opened(tmp_path / "new.db") as memory:
        found = asyncio.run(memory.recall("Where do I live?", namespace=namespace))
        assert found[0].memory.text == "I live in Faro."


def test_messages_of_a_session_with_a_lost_name_get_a_new_session(path: Path, tmp_path: Path) -> None:
    change(path, "DELETE FROM history_sessions WHERE session = 's1'")
    salvage_memory(path, tmp_path / "new.db")
    with opened(tmp_path / "new.db") as memory:
        (namespace,) = set(asyncio.run(memory.conversations.namespaces())) - {""}
        (session,) = asyncio.run(memory.conversations.sessions(namespace=namespace))
        assert session.session == namespace
        assert session.begins == "My café number 1 is in Évora."


def test_salvage_overwrites_no_file_and_refuses_foreign_files(path: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ArgumentError, match="nothing is yet"):
        salvage_memory(path, tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"
    (tmp_path / "list.txt").write_text("milk, bread " * 100)
    with pytest.raises(DamageError):
        salvage_memory(tmp_path / "list.txt", tmp_path / "new.db")
    apsw.Connection(str(tmp_path / "other.db")).execute("CREATE TABLE songs (title TEXT)")
    for foreign in ("other.db", "missing.db"):
        with pytest.raises(NotAStore):
            salvage_memory(tmp_path / foreign, tmp_path / "new.db")
    assert not (tmp_path / "new.db").exists()


def test_an_unknown_component_is_left_out_and_named(path: Path, tmp_path: Path) -> None:
    change(path, "INSERT INTO components VALUES ('songs', 1)")
    report = salvage_memory(path, tmp_path / "new.db")
    assert [str(part) for part in report.tables if part.lost != 0] == [
        "songs: 0 saved, an unknown number lost (a part that is not known here)"
    ]


@pytest.mark.parametrize("content", [_BAD, "'{}'"], ids=["no UTF-8", "changed"])
def test_a_damaged_message_does_not_prevent_exporting_or_showing_the_others(
    content: str, path: Path, tmp_path: Path
) -> None:
    change(path, f"UPDATE history_messages SET message = {content} WHERE key = 1")
    with opened(path) as memory:
        report = asyncio.run(memory.export(tmp_path / "out.jsonl"))
        assert [finding.subject for finding in report.damaged] == ["s0 1"]
        assert report.counts["message"] == 5
        begins = {info.session: info.begins for info in asyncio.run(memory.conversations.sessions())}
        assert begins == {"s0": "(damaged)"} | {f"s{n}": f"My café number {n} is in Évora." for n in (1, 2)}
        with pytest.raises(DamageError):
            asyncio.run(memory.conversations.load("s0"))
    with opened(tmp_path / "second.db") as memory:
        assert asyncio.run(memory.import_(tmp_path / "out.jsonl", trust="user")).taken["message"] == 5
