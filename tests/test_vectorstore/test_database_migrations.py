"""Before tables of an older file are changed it is copied; the copy is named, and goes when the result is verified."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import apsw
import pytest

from vectorstore import (
    ArgumentError,
    BusyError,
    DamageError,
    NewerFile,
    NotAStore,
    StorageFull,
    StorageUnwritable,
    UnsupportedError,
)
from vectorstore.sqlite import SqliteDatabase, migrations
from vectorstore.sqlite.migrations import drop_copy_records
from vectorstore.types import Finding


def at_noon():
    return datetime(2026, 5, 1, 12, tzinfo=UTC)


class Notes:
    """A component with one table, at the version of its last step; *wrong* is what its verification says."""

    def __init__(self, *later, name="notes", wrong=()):
        self.name = name
        self.migrations = (self.m001_table, *later)
        self.wrong = list(wrong)

    def m001_table(self, connection):
        connection.execute(f"CREATE TABLE {self.name} (key INTEGER PRIMARY KEY, text TEXT NOT NULL)")

    def verify(self, connection):
        return self.wrong

    def rebuild(self, connection):
        return None

    def salvage(self, source, target):
        return 0


def m002_louder(connection):
    connection.execute("UPDATE notes SET text = upper(text)")


def m002_tasks(connection):
    connection.execute("UPDATE tasks SET text = text || '!'")


def m002_failing(connection):
    m002_louder(connection)
    raise RuntimeError("the second half fails")


WRONG = [Finding("notes", "not what it should be")]


@pytest.fixture
def path(tmp_path):
    """A file of an older version with one note."""
    return filled(tmp_path / "m.db", Notes())


def filled(path, *components):
    with SqliteDatabase(path, components=components, clock=at_noon) as database, database.write() as connection:
        for component in components:
            connection.execute(f"INSERT INTO {component.name} (text) VALUES ('a note')")
    return path


def opened(path, *components, **options):
    return SqliteDatabase(path, components=components or (Notes(m002_louder),), clock=at_noon, **options)


def texts(path, table="notes"):
    connection = apsw.Connection(str(path))
    try:
        return [text for (text,) in connection.execute(f"SELECT text FROM {table}")]
    finally:
        connection.close()


def beside(path):
    """What is in the folder beside the file and what SQLite makes with it."""
    return sorted(
        one.name for one in path.parent.iterdir() if one.name not in (f"m.db{end}" for end in ("", "-wal", "-shm"))
    )


COPY = "m.db.before-notes-1-to-2.backup"


def test_an_older_file_is_copied_beside_itself_and_the_copy_recorded(path):
    with opened(path) as database:
        copy = path.with_name(COPY)
        assert beside(path) == [COPY]
        assert texts(copy) == ["a note"]
        assert texts(path) == ["A NOTE"]
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        assert database.backups() == {str(copy): "2026-05-01T12:00:00+00:00"}
        (recorded,) = database.migration_copies()
        assert (recorded.path, recorded.state) == (str(copy), "made")
        assert dict(recorded.parts) == {"notes": (1, 2)}


def test_the_copy_is_the_older_version_whole_and_opens_as_it(path):
    with opened(path):
        elsewhere = path.with_name("elsewhere")
        shutil.copy(path.with_name(COPY), elsewhere)
    with opened(elsewhere, Notes()) as restored:
        assert restored.verify() == []
        assert restored.migration_copies() == []
        assert list(restored.backups()) == [str(path.with_name(COPY))]  # which still holds what may be erased here


def test_the_copy_goes_before_the_next_write_when_the_migrated_part_is_right(path):
    with opened(path) as database:
        with database.write():
            assert beside(path) == []
        assert database.backups() == {}
        assert database.migration_copies() == []


def test_the_copy_goes_at_closing_when_nothing_is_written(path):
    with opened(path) as database:
        with database.read():
            pass
        assert beside(path) == [COPY]
    assert beside(path) == []
    with opened(path) as database:
        assert database.backups() == {}


def test_what_the_copy_held_is_overwritten_before_its_blocks_are_freed(path):
    with opened(path) as database:
        watching = os.open(path.with_name(COPY), os.O_RDONLY)
        try:
            size = os.fstat(watching).st_size
            assert b"a note" in os.read(watching, size)
            database.close()
            os.lseek(watching, 0, os.SEEK_SET)
            assert os.fstat(watching).st_nlink == 0
            left = os.read(watching, size)
        finally:
            os.close(watching)
    assert len(left) == size
    assert b"a note" not in left
    assert set(left[100:]) == {0}


def test_a_copy_kept_under_another_name_too_loses_only_ours(path):
    with opened(path):
        os.link(path.with_name(COPY), path.with_name("mine"))
    assert beside(path) == ["mine"]
    assert texts(path.with_name("mine")) == ["a note"]


def test_a_migrated_part_that_is_wrong_keeps_the_copy_and_says_so(path):
    with opened(path, Notes(m002_louder, wrong=WRONG)):
        pass
    with opened(path) as database:
        with database.write():
            pass
        (copy,) = database.migration_copies()
        assert copy.state == "wrong"
        assert beside(path) == [COPY]
        assert database.verify() == []  # it was made good meanwhile
        assert beside(path) == []
        assert database.backups() == {}


def test_a_copy_that_stays_is_removed_on_request(path):
    with opened(path, Notes(m002_louder, wrong=WRONG)) as database:
        with database.write():
            pass
        assert database.verify() == WRONG
        assert database.remove_backup(str(path.with_name(COPY)))
        assert beside(path) == []
        with database.read() as connection:
            facts = connection.execute("SELECT name FROM file_facts ORDER BY name").fetchall()
        assert facts == [("created",), ("identity",)]


def test_a_large_file_is_verified_only_when_it_is_asked_for(path, monkeypatch):
    monkeypatch.setattr(migrations, "VERIFY_AT_ONCE_BYTES", path.stat().st_size - 1)
    with opened(path) as database, database.write():
        pass
    with opened(path) as database:
        assert beside(path) == [COPY]
        assert database.verify() == []
        assert beside(path) == []


def test_a_copy_waits_until_the_part_that_was_migrated_is_attached(path):
    opened(path, Notes(m002_louder, wrong=WRONG)).close()
    with SqliteDatabase(path) as database:
        assert database.verify() == []
        assert beside(path) == [COPY]
        database.attach(Notes(m002_louder))
        assert database.verify() == []
        assert beside(path) == []


def test_new_files_new_parts_and_empty_files_are_not_copied(tmp_path):
    opened(tmp_path / "m.db").close()
    with opened(tmp_path / "m.db") as database:
        database.attach(Notes(m002_tasks, name="tasks"))
        assert beside(tmp_path / "m.db") == []
    path = tmp_path / "empty" / "m.db"
    opened(path, Notes()).close()
    with opened(path):
        assert beside(path) == []


def test_parts_migrated_one_after_another_share_the_copy_from_before_all(tmp_path):
    path = filled(tmp_path / "m.db", Notes(), Notes(name="tasks"))
    with opened(path) as database:
        database.attach(Notes(name="new"))
        database.attach(Notes(m002_tasks, name="tasks"))
        assert beside(path) == [COPY]
        (copy,) = database.migration_copies()
        assert dict(copy.parts) == {"notes": (1, 2), "tasks": (1, 2)}
        assert texts(path, "tasks") == ["a note!"]
        assert texts(path.with_name(COPY), "tasks") == ["a note"]
    assert beside(path) == []


@pytest.mark.parametrize("writer", ["this", "another"])
def test_a_part_migrated_after_something_was_written_has_a_copy_of_its_own(tmp_path, writer, monkeypatch):
    monkeypatch.setattr(migrations, "VERIFY_AT_ONCE_BYTES", 0)
    path = filled(tmp_path / "m.db", Notes(), Notes(name="tasks"))
    with opened(path) as database:
        other = opened(path) if writer == "another" else database
        with other.write() as connection:
            connection.execute("INSERT INTO notes (text) VALUES ('later')")
        database.attach(Notes(m002_tasks, name="tasks"))
        second = "m.db.before-tasks-1-to-2.backup"
        assert beside(path) == [COPY, second]
        assert texts(path.with_name(second)) == ["A NOTE", "later"]
        assert database.verify() == []
        assert beside(path) == []
        other.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was_and_no_copy(path):
    for _ in range(2):
        with pytest.raises(RuntimeError, match="second half"):
            opened(path, Notes(m002_failing))
        assert beside(path) == []
    with opened(path, Notes()) as database:
        assert database.backups() == {}
        assert texts(path) == ["a note"]


def test_a_file_that_can_only_be_read_is_neither_migrated_nor_copied(path):
    before = path.read_bytes()
    with pytest.raises(StorageUnwritable, match="only be read"):
        opened(path, read_only=True)
    assert beside(path) == []
    assert path.read_bytes() == before


def test_reading_only_leaves_a_copy_that_waits(path, monkeypatch):
    monkeypatch.setattr(migrations, "VERIFY_AT_ONCE_BYTES", 0)
    opened(path).close()
    monkeypatch.undo()
    with opened(path, read_only=True) as database:
        assert database.verify() == []
        assert [copy.state for copy in database.migration_copies()] == ["made"]
    assert beside(path) == [COPY]


def test_inside_a_write_an_older_part_is_refused_since_it_could_not_be_copied(path):
    with SqliteDatabase(path) as database:
        with pytest.raises(UnsupportedError, match="outside of write"), database.write():
            database.attach(Notes(m002_louder))
        assert beside(path) == []
        with database.write():
            database.attach(Notes(name="new"))
        database.attach(Notes(m002_louder))
        assert beside(path) == [COPY]


def test_a_damaged_file_is_not_migrated(path):
    with opened(path, Notes()) as database, database.write() as connection:
        connection.execute("CREATE INDEX by_text ON notes (text)")
        (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'by_text'").fetchone()
        size = connection.pragma("page_size")
    with path.open("rb+") as file:
        file.seek((root - 1) * size)
        file.write(bytes(size))
    with pytest.raises(DamageError):
        opened(path)
    assert beside(path) == []


# ---- room and permission


def test_no_room_for_the_copy_is_said_with_the_way_on_and_changes_nothing(path, monkeypatch):
    monkeypatch.setattr(migrations, "write_backup", full)
    with pytest.raises(StorageFull, match="migrate_without_copy"):
        opened(path)
    assert beside(path) == []
    with opened(path, Notes()) as database:
        assert database.backups() == {}
        assert texts(path) == ["a note"]


def test_where_there_is_no_room_at_all_nothing_of_the_disk_is_used_up(path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=path.stat().st_size - 1))
    monkeypatch.setattr(migrations, "write_backup", lambda *_, **__: pytest.fail("it was tried"))
    with pytest.raises(StorageFull, match="no room for a copy of"):
        opened(path)


def test_what_is_let_go_without_a_copy_is_migrated_and_that_is_recorded(path, monkeypatch):
    monkeypatch.setattr(migrations, "write_backup", full)
    with SqliteDatabase(path, clock=at_noon) as database:
        database.migrate_without_copy()
    with opened(path) as database:
        assert texts(path) == ["A NOTE"]
        assert database.backups() == {}
        with database.read() as connection:
            (told,) = connection.execute("SELECT value FROM file_facts WHERE name = 'uncopied'").fetchone()
        assert told == '{"at": "2026-05-01T12:00:00+00:00", "versions": {"notes": 1}}'


def test_that_permission_is_for_the_present_versions_alone(path):
    with SqliteDatabase(path) as database:
        database.migrate_without_copy()
    opened(path).close()
    with opened(path, Notes(m002_louder, m002_louder)):
        assert beside(path) == ["m.db.before-notes-2-to-3.backup"]


def full(*_, **__):
    raise StorageFull("the disk is full")


# ---- what stands in the way, or in its place


def test_a_file_or_link_of_that_name_is_left_and_another_name_taken(path, tmp_path):
    (tmp_path / "target").write_text("mine")
    path.with_name(COPY).symlink_to(tmp_path / "target")
    second = "m.db.before-notes-1-to-2-2.backup"
    with opened(path) as database:
        assert list(database.backups()) == [str(path.with_name(second))]
    assert beside(path) == [COPY, "target"]
    assert (tmp_path / "target").read_text() == "mine"


def test_what_comes_to_stand_there_meanwhile_is_not_overwritten(path, monkeypatch):
    real = migrations.write_backup

    def raced(source, target, **options):
        target.write_text("mine")
        real(source, target, **options)

    monkeypatch.setattr(migrations, "write_backup", raced)
    with pytest.raises(StorageUnwritable, match="came to stand"):
        opened(path)
    assert path.with_name(COPY).read_text() == "mine"
    assert beside(path) == [COPY]


@pytest.mark.parametrize("stranger", ["link", "text", "other memory"])
def test_a_stranger_in_its_place_is_never_removed_and_stays_named(path, tmp_path, stranger, monkeypatch):
    with opened(path) as database:
        copy = path.with_name(COPY)
        copy.rename(tmp_path / "moved")
        if stranger == "link":
            copy.symlink_to(tmp_path / "moved")
        elif stranger == "text":
            copy.write_text("a letter of mine")
        else:
            opened(copy).close()
        with database.write():
            pass
        assert os.path.lexists(copy)
        assert list(database.backups()) == [str(copy)]
        assert database.migration_copies() == []
        with pytest.raises(NotAStore):
            database.remove_backup(str(copy))


def test_a_copy_that_is_put_to_use_as_a_memory_is_no_copy_any_more(path):
    copy = path.with_name(COPY)
    with opened(path):
        filled(copy, Notes())
    assert texts(copy) == ["a note", "a note"]
    with opened(path) as database:
        assert list(database.backups()) == [str(copy)]
        assert database.verify() == []
        assert copy.exists()


def test_a_copy_that_is_open_elsewhere_is_left(path):
    with opened(path) as database, SqliteDatabase(path.with_name(COPY), read_only=True), database.write():
        assert path.with_name(COPY).exists()


@pytest.mark.parametrize("way", ["copied", "moved"])
def test_a_file_that_was_copied_or_moved_removes_nothing_of_the_others_by_itself(path, tmp_path, way, monkeypatch):
    monkeypatch.setattr(migrations, "VERIFY_AT_ONCE_BYTES", 0)
    opened(path).close()
    monkeypatch.undo()
    (shutil.copy if way == "copied" else shutil.move)(path, tmp_path / "n.db")
    with opened(tmp_path / "n.db") as database:
        assert database.verify() == []
        assert list(database.backups()) == [str(path.with_name(COPY))]
    assert path.with_name(COPY).exists()


def test_a_record_that_cannot_be_read_leaves_a_backup_as_any_other(path, monkeypatch):
    monkeypatch.setattr(migrations, "VERIFY_AT_ONCE_BYTES", 0)
    opened(path).close()
    for value in ("", "[]", "{}", '{"parts": {"notes": 1}, "state": "made", "of": "", "private": ""}', "null"):
        with opened(path) as database:
            with database.write() as connection:
                connection.execute("UPDATE file_facts SET value = ? WHERE name LIKE 'migration %'", (value,))
            assert database.migration_copies() == []
            assert list(database.backups()) == [str(path.with_name(COPY))]


def test_names_that_are_no_good_in_a_file_s_name_are_made_plain(tmp_path):
    path = filled(tmp_path / "m.db")
    part = Notes(m002_louder)
    part.name = "../no/tes"
    older = Notes()
    older.name = part.name
    older.migrations, part.migrations = (m001_notes,), (m001_notes, m002_louder)
    with opened(path, older) as database, database.write() as connection:
        connection.execute("INSERT INTO notes (text) VALUES ('a note')")
    with opened(path, part):
        assert beside(path) == ["m.db.before----no-tes-1-to-2.backup"]


def m001_notes(connection):
    connection.execute("CREATE TABLE notes (key INTEGER PRIMARY KEY, text TEXT NOT NULL)")


def test_a_long_name_of_the_file_leaves_room_for_that_of_the_copy(tmp_path):
    path = filled(tmp_path / ("ü" * 120 + ".db"), Notes())
    with opened(path) as database:
        (copy,) = database.migration_copies()
        assert texts(copy.path) == ["a note"]


# ---- several at once


def test_two_that_open_at_once_make_one_copy(path, monkeypatch):
    monkeypatch.setattr(migrations, "VERIFY_AT_ONCE_BYTES", 0)
    real, made, both = migrations.write_backup, [], threading.Barrier(2)

    def counted(source, target, **options):
        made.append(target)
        real(source, target, **options)

    def open_it():
        both.wait()
        opened(path).close()

    monkeypatch.setattr(migrations, "write_backup", counted)
    threads = [threading.Thread(target=open_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    with opened(path) as database:
        assert [copy.path for copy in database.migration_copies()] == [str(made[0])]
        assert beside(path) == [made[0].name]


@pytest.mark.parametrize("times", [1, 100])
def test_a_record_that_another_process_took_for_left_over_is_made_again(path, monkeypatch, times):
    real, cleared = migrations.Migrator._migrated, []

    def raced(self, connection, component, copy):
        if copy is not None and len(cleared) < times:
            cleared.append(copy.path)
            drop_copy_records(connection, copy.path)  # as what another one opens the file with would have done
        return real(self, connection, component, copy)

    monkeypatch.setattr(migrations.Migrator, "_migrated", raced)
    if times == 1:
        with opened(path):
            assert beside(path) == [COPY]
    else:
        with pytest.raises(BusyError, match="try again"):
            opened(path)
        assert texts(path) == ["a note"]
        assert beside(path) == []


def test_removing_backups_waits_until_the_copy_is_made(path, monkeypatch):
    older = opened(path, Notes(), busy_timeout=0.0)
    real = migrations.write_backup

    def asked(source, target, **options):
        with pytest.raises(BusyError):
            older.remove_backup(str(target))
        real(source, target, **options)

    monkeypatch.setattr(migrations, "write_backup", asked)
    with opened(path) as database:
        with pytest.raises(NewerFile):
            older.remove_backup(str(path.with_name(COPY)))
        assert list(database.backups()) == [str(path.with_name(COPY))]
        with pytest.raises(ArgumentError, match="recorded"):
            database.remove_backup("elsewhere")
    older.close()
