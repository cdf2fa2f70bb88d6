"""Opening and creating a file, settings of every connection, and components with their migrations.

Inner parts, on no face: ``tellback.vectorstore.sqlite.connection``, ``tellback.vectorstore.sqlite.files``.
"""

# ruff: noqa: PT012 - it is leaving a block of several statements that must raise
from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from tellback.vectorstore import (
    ArgumentError,
    Finding,
    NewerFile,
    NotAStore,
    StorageUnwritable,
    StoreClosed,
    UnsupportedError,
)
from tellback.vectorstore.sqlite import SqliteDatabase
from tellback.vectorstore.sqlite.connection import check_sqlite_version
from tellback.vectorstore.sqlite.files import FileIdentity, create_database_file


class Notes:
    """A component with one table; *steps* are its migrations."""

    name = "notes"

    def __init__(self, *steps):
        self.migrations = steps or (m001_notes,)

    def verify(self, connection) -> list[Finding]:
        return []

    def rebuild(self, connection) -> None:
        return None

    def salvage(self, source, target) -> int:
        return 0


def m001_notes(connection):
    connection.execute("CREATE TABLE notes (key INTEGER PRIMARY KEY, text TEXT NOT NULL)")


def m002_stars(connection):
    connection.execute("ALTER TABLE notes ADD COLUMN stars INTEGER NOT NULL DEFAULT 0")


def m002_half(connection):
    connection.execute("ALTER TABLE notes ADD COLUMN stars INTEGER NOT NULL DEFAULT 0")
    raise RuntimeError("the second half fails")


def columns(database):
    with database.read() as connection:
        return [row[1] for row in connection.execute("PRAGMA table_info(notes)").fetchall()]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_database_file_and_its_folders_are_accessible_to_the_owner_only(tmp_path):
    umask = os.umask(0)
    try:
        with SqliteDatabase(tmp_path / "a" / "b" / "m.db", components=[Notes()]) as database:
            with database.write() as connection:
                connection.execute("INSERT INTO notes (text) VALUES ('x')")
            folder = tmp_path / "a" / "b"
            assert {mode(path) for path in folder.iterdir()} == {0o600}
            assert {path.name for path in folder.iterdir()} == {"m.db", "m.db-wal", "m.db-shm"}
            assert mode(folder) == mode(folder.parent) == 0o700
    finally:
        os.umask(umask)


def test_a_new_database_file_has_its_application_id_format_and_wal_mode_in_the_header(tmp_path):
    create_database_file(tmp_path / "m.db", [], FileIdentity("identity", "created"), token=os.urandom)
    header = (tmp_path / "m.db").read_bytes()[:100]
    assert header[68:72] == b"Mnem"
    assert int.from_bytes(header[60:64]) == 1
    assert header[18:20] == b"\x02\x02", "WAL mode"


def test_closing_a_database_leaves_only_its_file(tmp_path):
    SqliteDatabase(tmp_path / "m.db", components=[Notes()]).close()
    assert [path.name for path in tmp_path.iterdir()] == ["m.db"]


def test_the_database_identity_is_random_and_survives_reopening(tmp_path):
    with SqliteDatabase(tmp_path / "m.db") as item, SqliteDatabase(tmp_path / "n.db") as other:
        assert item.identity != other.identity
        first = item.identity
    with SqliteDatabase(tmp_path / "m.db") as again:
        assert again.identity == first


def test_clock_and_token_are_taken_from_the_caller(tmp_path):
    clock = datetime(2020, 2, 3, 4, 5, 6, tzinfo=UTC)
    with SqliteDatabase(tmp_path / "m.db", clock=lambda: clock, token=lambda n: b"\x07" * n) as database:
        assert database.identity == "07" * 16
        with database.read() as connection:
            assert connection.execute("SELECT value FROM file_facts WHERE name = 'created'").fetchall() == [
                ("2020-02-03T04:05:06+00:00",)
            ]


@pytest.mark.parametrize("way", ["read", "write"])
def test_every_connection_has_every_setting(tmp_path, way):
    wanted = {
        "journal_mode": "wal",
        "synchronous": 2,
        "secure_delete": 1,
        "foreign_keys": 1,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "temp_store": 2,
        "busy_timeout": 3000,
    }
    with SqliteDatabase(tmp_path / "m.db", busy_timeout=3) as database, getattr(database, way)() as connection:
        assert {name: connection.pragma(name) for name in wanted} == wanted
        assert connection.execute("SELECT vec_version()").fetchall() == [("v0.1.9",)]
        with pytest.raises(apsw.SQLError, match="not authorized"):
            connection.execute("SELECT load_extension('nothing')")


def test_an_old_sqlite_is_refused():
    check_sqlite_version(3_052_000, "3.52.0")
    with pytest.raises(UnsupportedError, match=r"3\.52 or newer"):
        check_sqlite_version(3_054_000, "3.51.3")
    with pytest.raises(UnsupportedError, match=r"3\.52 or newer"):
        check_sqlite_version(3_051_003, "3.54.0")


def test_opening_a_missing_file_without_create_is_refused_and_makes_no_file(tmp_path):
    with pytest.raises(NotAStore, match="there is no such file"):
        SqliteDatabase(tmp_path / "m.db", create=False)
    with pytest.raises(NotAStore, match="there is no such file"):
        SqliteDatabase(tmp_path / "sub" / "m.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["", "a\0b", ":memory:", "..", ".", 7, None, b"m.db", "\ud800.db"])
def test_a_path_that_names_no_file_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError) as caught:
        SqliteDatabase(path)
    assert caught.value.argument == "path"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seconds", [-1, True, "1", float("nan"), float("inf"), None])
def test_an_invalid_busy_timeout_is_refused(seconds, tmp_path):
    with pytest.raises(ArgumentError, match="busy_timeout"):
        SqliteDatabase(tmp_path / "m.db", busy_timeout=seconds)
    assert list(tmp_path.iterdir()) == []


def test_a_relative_path_keeps_its_meaning_when_the_working_folder_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with SqliteDatabase("m.db", components=[Notes()]) as database:
        monkeypatch.chdir("/")
        with database.write() as connection:
            connection.execute("INSERT INTO notes (text) VALUES ('x')")
    assert (tmp_path / "m.db").exists()


def test_file_names_with_spaces_percent_signs_and_umlauts_are_taken_literally(tmp_path):
    name = "file: ä %41?mode=ro#x.db"
    with SqliteDatabase(tmp_path / name, components=[Notes()]):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with SqliteDatabase(tmp_path / name, read_only=True) as database:
        assert columns(database) == ["key", "text"]


def test_a_new_database_file_has_the_tables_of_its_components(tmp_path):
    with SqliteDatabase(tmp_path / "m.db", components=[Notes()]) as database:
        assert columns(database) == ["key", "text"]


def test_attaching_a_component_twice_is_harmless_and_another_of_its_name_is_refused(tmp_path):
    class Other(Notes):
        pass

    with SqliteDatabase(tmp_path / "m.db") as database:
        database.attach(Notes())
        database.attach(Notes())
        with pytest.raises(ArgumentError, match="notes"):
            database.attach(Other())


def test_an_older_component_is_migrated_from_its_recorded_version(tmp_path):
    with SqliteDatabase(tmp_path / "m.db", components=[Notes(m001_notes)]) as database, database.write() as c:
        c.execute("INSERT INTO notes (text) VALUES ('kept')")
    with SqliteDatabase(tmp_path / "m.db", components=[Notes(m001_notes, m002_stars)]) as database:
        with database.read() as connection:
            assert connection.execute("SELECT text, stars FROM notes").fetchall() == [("kept", 0)]
            versions = connection.execute("SELECT name, version FROM components").fetchall()
        assert versions == [("notes", 2)]


def test_a_failing_migration_leaves_the_component_as_it_was(tmp_path):
    SqliteDatabase(tmp_path / "m.db", components=[Notes()]).close()
    with pytest.raises(RuntimeError):
        SqliteDatabase(tmp_path / "m.db", components=[Notes(m001_notes, m002_half)])
    with SqliteDatabase(tmp_path / "m.db", components=[Notes()]) as database:
        assert columns(database) == ["key", "text"]


def test_a_failing_migration_of_a_new_file_leaves_no_file(tmp_path):
    with pytest.raises(RuntimeError):
        SqliteDatabase(tmp_path / "sub" / "m.db", components=[Notes(m001_notes, m002_half)])
    assert list((tmp_path / "sub").iterdir()) == []


def test_a_newer_component_is_refused_and_nothing_is_migrated(tmp_path):
    class Early(Notes):
        name = "early"
        migrations = (lambda connection: connection.execute("CREATE TABLE early (a)"),)

        def __init__(self):
            pass

    SqliteDatabase(tmp_path / "m.db", components=[Notes(m001_notes, m002_stars)]).close()
    before = (tmp_path / "m.db").read_bytes()
    with pytest.raises(NewerFile) as caught:
        SqliteDatabase(tmp_path / "m.db", components=[Early(), Notes()])
    assert (caught.value.part, caught.value.found, caught.value.known) == ("notes", 2, 1)
    assert (tmp_path / "m.db").read_bytes() == before
    with SqliteDatabase(tmp_path / "m.db") as database, pytest.raises(NewerFile):
        database.attach(Notes())
    assert (tmp_path / "m.db").read_bytes() == before


def test_a_migration_by_a_newer_process_is_noticed_at_the_next_call(tmp_path):
    with SqliteDatabase(tmp_path / "m.db", components=[Notes()]) as old:
        SqliteDatabase(tmp_path / "m.db", components=[Notes(m001_notes, m002_stars)]).close()
        with pytest.raises(NewerFile), old.read():
            pass
        with pytest.raises(NewerFile), old.write() as connection:
            connection.execute("INSERT INTO notes (text) VALUES ('of the old')")
    with SqliteDatabase(tmp_path / "m.db", components=[Notes(m001_notes, m002_stars)]) as new, new.read() as c:
        assert c.execute("SELECT count(*) FROM notes").fetchall() == [(0,)]


def test_a_component_can_be_attached_again_after_a_rollback(tmp_path):
    with SqliteDatabase(tmp_path / "m.db") as database:
        with pytest.raises(RuntimeError), database.write():
            database.attach(Notes())
            database.attach(Notes())
            raise RuntimeError
        assert columns(database) == []
        database.attach(Notes())
        assert columns(database) == ["key", "text"]


def test_a_moved_or_replaced_database_file_is_refused_at_the_next_call(tmp_path):
    with SqliteDatabase(tmp_path / "m.db", components=[Notes()]) as database:
        (tmp_path / "m.db").rename(tmp_path / "elsewhere.db")
        with pytest.raises(NotAStore, match="moved, removed or replaced"), database.write():
            pass
        SqliteDatabase(tmp_path / "n.db", components=[Notes()]).close()
        (tmp_path / "n.db").rename(tmp_path / "m.db")
        with pytest.raises(NotAStore, match="moved, removed or replaced"), database.read():
            pass
        (tmp_path / "elsewhere.db").rename(tmp_path / "m.db")
        assert columns(database) == ["key", "text"]


def test_a_read_only_database_can_be_read_and_refuses_writes(tmp_path):
    SqliteDatabase(tmp_path / "m.db", components=[Notes()]).close()
    with SqliteDatabase(tmp_path / "m.db", components=[Notes()], read_only=True) as database:
        assert database.read_only
        assert columns(database) == ["key", "text"]
        with pytest.raises(StorageUnwritable), database.write():
            pass
        assert database.finish_erasure()
    with SqliteDatabase(tmp_path / "m.db", read_only=True) as database, pytest.raises(StorageUnwritable):
        database.attach(Notes(m001_notes, m002_stars))


def test_a_read_only_database_sees_the_commits_of_a_writer(tmp_path):
    with (
        SqliteDatabase(tmp_path / "m.db", components=[Notes()]) as writer,
        SqliteDatabase(tmp_path / "m.db", read_only=True) as reader,
    ):
        with writer.write() as connection:
            connection.execute("INSERT INTO notes (text) VALUES ('x')")
        with reader.read() as connection:
            assert connection.execute("SELECT text FROM notes").fetchall() == [("x",)]


def test_every_call_on_a_closed_database_raises_store_closed(tmp_path):
    database = SqliteDatabase(tmp_path / "m.db")
    database.close()
    database.close()
    calls = [
        lambda: database.read().__enter__(),
        lambda: database.write().__enter__(),
        lambda: database.attach(Notes()),
        database.finish_erasure,
        database.pending_erasure,
        database.verify,
        database.rebuild,
        lambda: database.backup(tmp_path / "b.db"),
        lambda: database.salvage(tmp_path / "s.db"),
    ]
    for call in calls:
        with pytest.raises(StoreClosed):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["m.db"]
