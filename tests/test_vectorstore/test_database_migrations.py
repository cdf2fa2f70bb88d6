"""An older file is migrated and verified in one transaction; verification findings keep a migration copy."""

from __future__ import annotations

import shutil
import stat
import threading
from datetime import UTC, datetime

import apsw
import pytest

from tellback.vectorstore import (
    BusyError,
    DamageError,
    Finding,
    NotAStore,
    StorageFull,
    StorageUnwritable,
    UnsupportedError,
)
from tellback.vectorstore.sqlite import SqliteDatabase, backup


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


def wrong(**options):
    """A newer component whose migrated tables are found to be wrong."""
    return Notes(m002_louder, wrong=WRONG, **options)


def texts(path, table="notes"):
    connection = apsw.Connection(str(path))
    try:
        return [text for (text,) in connection.execute(f"SELECT text FROM {table}")]
    finally:
        connection.close()


def beside(path):
    """Return what is in the folder beside the file and what SQLite makes with it."""
    return sorted(
        item.name for item in path.parent.iterdir() if item.name not in (f"m.db{end}" for end in ("", "-wal", "-shm"))
    )


COPY = "m.db.before-notes-1-to-2.backup"


def test_a_migration_without_verification_findings_makes_no_migration_copy(path, monkeypatch):
    monkeypatch.setattr(backup, "write_backup", full)
    with opened(path) as database:
        assert texts(path) == ["A NOTE"]
        assert beside(path) == []
        assert database.backups() == {}


def test_a_migration_with_verification_findings_keeps_and_records_a_migration_copy(path):
    with opened(path, wrong()) as database:
        copy = path.with_name(COPY)
        assert beside(path) == [COPY]
        assert texts(copy) == ["a note"]
        assert texts(path) == ["A NOTE"]
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        assert database.backups() == database.migration_copies() == {str(copy): "2026-05-01T12:00:00+00:00"}
        assert database.verify() == WRONG


def test_a_migration_copy_is_complete_and_opens_with_the_older_version(path):
    with opened(path, wrong()):
        elsewhere = path.with_name("elsewhere")
        shutil.copy(path.with_name(COPY), elsewhere)
    with opened(elsewhere, Notes()) as restored:
        assert restored.verify() == []
        assert list(restored.backups()) == [str(path.with_name(COPY))]  # which still holds what may be erased here


def test_a_migration_copy_opened_in_place_does_not_list_itself_as_a_backup(path):
    opened(path, wrong()).close()
    with opened(path.with_name(COPY), Notes()) as restored:
        assert restored.backups() == {}


def test_a_migration_copy_stays_recorded_until_remove_backup(path):
    with opened(path, wrong()) as database, database.write() as connection:
        connection.execute("INSERT INTO notes (text) VALUES ('later')")
    with opened(path) as database:
        assert database.verify() == []
        assert beside(path) == [COPY]
        assert list(database.backups()) == [str(path.with_name(COPY))]
        assert database.remove_backup(str(path.with_name(COPY)))
        assert beside(path) == []
        with database.read() as connection:
            facts = connection.execute("SELECT name FROM file_facts ORDER BY name").fetchall()
        assert facts == [("created",), ("identity",)]


def test_remove_backup_also_deletes_the_legacy_record_of_a_migration_copy(path):
    with opened(path, wrong()) as database:
        with database.write() as connection:
            connection.execute("INSERT INTO file_facts VALUES (?, '{}')", (f"migration {path.with_name(COPY)}",))
        assert database.remove_backup(str(path.with_name(COPY)))
        with database.read() as connection:
            facts = connection.execute("SELECT name FROM file_facts ORDER BY name").fetchall()
        assert facts == [("created",), ("identity",)]


def test_new_files_new_components_and_empty_files_get_no_migration_copy(tmp_path):
    opened(tmp_path / "m.db", wrong()).close()
    with opened(tmp_path / "m.db", wrong()) as database:
        database.attach(Notes(m002_tasks, name="tasks", wrong=WRONG))
        assert beside(tmp_path / "m.db") == []
    path = tmp_path / "empty" / "m.db"
    opened(path, Notes()).close()
    with opened(path, wrong()) as database:
        assert beside(path) == []
        assert database.backups() == {}


def test_each_component_with_findings_has_a_copy_from_before_its_own_migration(tmp_path):
    path = filled(tmp_path / "m.db", Notes(), Notes(name="tasks"))
    with opened(path, wrong()) as database:
        database.attach(Notes(m002_tasks, name="tasks", wrong=WRONG))
        second = "m.db.before-tasks-1-to-2.backup"
        assert beside(path) == [COPY, second]
        assert (texts(path.with_name(COPY)), texts(path.with_name(second))) == (["a note"], ["A NOTE"])
        assert (texts(path, "tasks"), texts(path.with_name(second), "tasks")) == (["a note!"], ["a note"])
        assert list(database.backups()) == [str(path.with_name(name)) for name in (COPY, second)]


def test_a_failing_migration_leaves_the_file_unchanged_and_no_migration_copy(path):
    for _ in range(2):
        with pytest.raises(RuntimeError, match="second half"):
            opened(path, Notes(m002_failing))
        assert beside(path) == []
    with opened(path, Notes()) as database:
        assert database.backups() == {}
        assert texts(path) == ["a note"]


def test_a_failing_commit_of_a_migration_leaves_the_file_unchanged_and_no_migration_copy(path, monkeypatch):
    def failing(connection, *_):
        recorded.append(connection)
        if len(recorded) == 2:
            raise StorageFull("the disk is full")

    recorded = []
    monkeypatch.setattr(backup, "record_backup", failing)
    with pytest.raises(StorageFull):
        opened(path, wrong())
    assert beside(path) == []
    assert texts(path) == ["a note"]


def test_a_file_opened_read_only_is_neither_migrated_nor_copied(path):
    before = path.read_bytes()
    with pytest.raises(StorageUnwritable, match="only be read"):
        opened(path, read_only=True)
    assert beside(path) == []
    assert path.read_bytes() == before


def test_attaching_an_older_component_inside_a_write_is_refused(path):
    with SqliteDatabase(path) as database:
        with pytest.raises(UnsupportedError, match="outside of write"), database.write():
            database.attach(Notes(m002_louder))
        assert texts(path) == ["a note"]
        with database.write():
            database.attach(Notes(name="new"))
        database.attach(wrong())
        assert beside(path) == [COPY]


def test_a_component_attached_in_a_failing_write_is_not_attached(path):
    with SqliteDatabase(path) as database:
        with pytest.raises(KeyError), database.write():
            attach_twice_and_fail(database, Notes(name="new"))
        database.attach(Notes(name="new"))
        with database.read() as connection:
            assert connection.execute("SELECT count(*) FROM new").fetchall() == [(0,)]


def attach_twice_and_fail(database, component):
    database.attach(component)
    database.attach(component)
    raise KeyError


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


def test_a_full_disk_for_the_migration_copy_raises_storage_full_and_changes_nothing(path, monkeypatch):
    monkeypatch.setattr(backup, "write_backup", full)
    with pytest.raises(StorageFull, match="Nothing was changed; make room"):
        opened(path, wrong())
    assert beside(path) == []
    with opened(path, Notes()) as database:
        assert database.backups() == {}
        assert texts(path) == ["a note"]


def full(*_, **__):
    raise StorageFull("the disk is full")


def test_a_migration_copy_takes_another_name_when_its_name_is_in_use(path, tmp_path):
    (tmp_path / "target").write_text("mine")
    path.with_name(COPY).symlink_to(tmp_path / "target")
    second = "m.db.before-notes-1-to-2-2.backup"
    with opened(path, wrong()) as database:
        assert list(database.backups()) == [str(path.with_name(second))]
    assert beside(path) == [second, COPY, "target"]
    assert (tmp_path / "target").read_text() == "mine"


def test_a_migration_copy_does_not_overwrite_a_file_created_meanwhile(path, monkeypatch):
    real = backup.write_backup

    def raced(source, target, **options):
        target.write_text("mine")
        real(source, target, **options)

    monkeypatch.setattr(backup, "write_backup", raced)
    with pytest.raises(StorageUnwritable, match="came to stand"):
        opened(path, wrong())
    assert path.with_name(COPY).read_text() == "mine"
    assert beside(path) == [COPY]


@pytest.mark.parametrize("stranger", ["link", "text", "other memory"])
def test_a_foreign_file_in_place_of_a_migration_copy_is_not_removed_and_stays_recorded(path, tmp_path, stranger):
    with opened(path, wrong()) as database:
        copy = path.with_name(COPY)
        copy.rename(tmp_path / "moved")
        if stranger == "link":
            copy.symlink_to(tmp_path / "moved")
        elif stranger == "text":
            copy.write_text("a letter of mine")
        else:
            opened(copy).close()
        with pytest.raises(NotAStore):
            database.remove_backup(str(copy))
        assert copy.exists()
        assert list(database.backups()) == [str(copy)]


def test_component_names_are_sanitized_in_file_names_of_migration_copies(tmp_path):
    path = filled(tmp_path / "m.db")
    part = wrong()
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


def test_a_migration_copy_is_made_for_a_very_long_file_name(tmp_path):
    path = filled(tmp_path / ("ü" * 120 + ".db"), Notes())
    with opened(path, wrong()) as database:
        (copy,) = database.migration_copies()
        assert texts(copy) == ["a note"]


def test_two_concurrent_openings_make_one_migration_copy(path, monkeypatch):
    real, made, both = backup.write_backup, [], threading.Barrier(2)

    def counted(source, target, **options):
        made.append(target)
        real(source, target, **options)

    def open_it():
        both.wait()
        opened(path, wrong()).close()

    monkeypatch.setattr(backup, "write_backup", counted)
    threads = [threading.Thread(target=open_it) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    with opened(path) as database:
        assert list(database.backups()) == [str(made[0])]
        assert beside(path) == [made[0].name]


def test_remove_backup_raises_busy_error_while_a_migration_copy_is_made(path, monkeypatch):
    older = opened(path, Notes(), busy_timeout=0.0)
    real = backup.write_backup

    def asked(source, target, **options):
        with pytest.raises(BusyError):
            older.remove_backup(str(target))
        real(source, target, **options)

    monkeypatch.setattr(backup, "write_backup", asked)
    with opened(path, wrong()) as database:
        assert list(database.backups()) == [str(path.with_name(COPY))]
    older.close()
