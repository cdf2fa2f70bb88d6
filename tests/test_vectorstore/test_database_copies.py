"""Backup, verification, rebuilding and salvage: a copy counts when it was opened and compared."""

from __future__ import annotations

import os
import random
import stat
import threading
from hashlib import blake2b

import apsw
import pytest

from tellback.vectorstore import ArgumentError, DamageError, Finding, StorageUnwritable, UnsupportedError
from tellback.vectorstore.sqlite import SqliteDatabase


class Notes:
    """Rows with a checksum, and a table of their lengths that is derived from them."""

    name = "notes"

    @property
    def migrations(self):
        return (m001_notes,)

    def verify(self, connection) -> list[Finding]:
        rows = connection.execute("SELECT key, text, checksum, length FROM notes LEFT JOIN lengths USING (key)")
        return [
            Finding("notes", "differs", str(key))
            for key, text, checksum, length in rows
            if checksum != digest(text) or length != len(text)
        ]

    def rebuild(self, connection) -> None:
        connection.execute("DELETE FROM lengths")
        for key, text in connection.execute("SELECT key, text FROM notes").fetchall():
            connection.execute("INSERT INTO lengths VALUES (?, ?)", (key, len(text)))

    def salvage(self, source, target) -> None:
        for key, text, checksum in source.rows("notes", "key, text, checksum"):
            if checksum == digest(text):
                target.execute("INSERT INTO notes VALUES (?, ?, ?)", (key, text, checksum))
        self.rebuild(target)


def m001_notes(connection):
    connection.execute("CREATE TABLE notes (key INTEGER PRIMARY KEY, text TEXT, checksum BLOB)")
    connection.execute("CREATE TABLE lengths (key INTEGER PRIMARY KEY REFERENCES notes (key), length INTEGER)")
    connection.execute("CREATE INDEX notes_by_text ON notes (substr(text, 1, 12))")


def digest(text) -> bytes:
    return blake2b(str(text).encode(), digest_size=8).digest()


def add(database, *texts):
    with database.write() as connection:
        for text in texts:
            connection.execute("INSERT INTO notes (text, checksum) VALUES (?, ?)", (text, digest(text)))
            connection.execute("INSERT INTO lengths VALUES (last_insert_rowid(), ?)", (len(text),))


def texts(database):
    with database.read() as connection:
        return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY key").fetchall()]


def everything(path):
    """Every row of every table of a file, by table."""
    with SqliteDatabase(path, create=False) as database, database.read() as connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in tables}


@pytest.fixture
def database(tmp_path):
    with SqliteDatabase(tmp_path / "m.db", components=[Notes()], busy_timeout=300) as opened:
        add(opened, *(f"note {i:05} " + "x" * 300 for i in range(400)))
        yield opened


def test_a_backup_is_complete_and_accessible_to_the_owner_only(database, tmp_path):
    umask = os.umask(0)
    try:
        database.backup(tmp_path / "sub" / "b.db")
    finally:
        os.umask(umask)
    copy = tmp_path / "sub" / "b.db"
    assert [path.name for path in copy.parent.iterdir()] == ["b.db"]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with SqliteDatabase(copy, components=[Notes()], create=False) as opened:
        assert opened.identity == database.identity
        assert opened.verify() == []
        with opened.read() as connection:
            assert connection.pragma("journal_mode") == "wal"
    with database.write() as connection:
        connection.execute("DELETE FROM file_facts WHERE name LIKE 'backup %'")
    database.close()
    assert everything(copy) == everything(tmp_path / "m.db")


def test_a_backup_includes_commits_in_the_wal_and_excludes_uncommitted_rows(database, tmp_path):
    add(database, "committed")
    entered, leave = threading.Event(), threading.Event()

    def write():
        with database.write() as connection:
            connection.execute("INSERT INTO notes (text) VALUES ('not yet')")
            entered.set()
            leave.wait(600)

    thread = threading.Thread(target=write)
    thread.start()
    assert entered.wait(300)
    try:
        database.backup(tmp_path / "b.db")
    finally:
        leave.set()
        thread.join()
    assert list(database.backups()) == [str(tmp_path / "b.db")]  # recorded with the commit that was under way
    with SqliteDatabase(tmp_path / "b.db", create=False) as copy:
        assert texts(copy)[-1] == "committed"


def test_a_backup_during_concurrent_writes_is_one_consistent_state(database, tmp_path):
    written, stop = threading.Event(), threading.Event()

    def write():
        while not stop.is_set():
            add(database, "one of two", "two of two")
            written.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for i in range(5):
            assert written.wait(300)
            written.clear()
            database.backup(tmp_path / f"b{i}.db")
    finally:
        stop.set()
        thread.join()
    sizes = []
    for i in range(5):
        with SqliteDatabase(tmp_path / f"b{i}.db", components=[Notes()], create=False) as copy:
            assert copy.verify() == []
            sizes.append(len(texts(copy)))
    assert sizes == sorted(sizes)
    assert all(size % 2 == 0 for size in sizes), "half of a transaction was copied"
    assert sizes[-1] > 400, "nothing was written meanwhile, so this showed nothing"


def test_backup_and_salvage_never_replace_an_existing_file(database, tmp_path):
    (tmp_path / "there").write_text("precious")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("there", "link", "m.db", "."):
        for copy in (database.backup, database.salvage):
            with pytest.raises(ArgumentError, match="path"):
                copy(tmp_path / name)
    assert (tmp_path / "there").read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_backup_to_an_unwritable_path_is_refused_and_leaves_no_file(database, tmp_path):
    (tmp_path / "file").touch()
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(StorageUnwritable):
        database.backup(tmp_path / "file" / "b.db")
    with pytest.raises(StorageUnwritable):
        database.backup("/proc/b.db")
    assert {path.name for path in tmp_path.iterdir()} == before


def test_backup_and_salvage_are_refused_inside_a_write(database, tmp_path):
    with database.write():
        for copy in (database.backup, database.salvage):
            with pytest.raises(UnsupportedError):
                copy(tmp_path / "b.db")
    assert not (tmp_path / "b.db").exists()


def test_verifying_an_intact_database_gives_no_findings(database):
    assert database.verify() == []
    with database.write():
        add(database, "not committed yet")
        assert database.verify() == []


def test_verify_gives_the_findings_of_a_component_and_rebuild_repairs_them(database):
    with database.write() as connection:
        connection.execute("UPDATE lengths SET length = 0 WHERE key = 7")
    assert database.verify() == [Finding("notes", "differs", "7")]
    database.rebuild()
    assert database.verify() == []


def test_verify_reports_a_dangling_foreign_key(database):
    connection = apsw.Connection(str(database.path))
    connection.execute("INSERT INTO lengths VALUES (9999, 1)")
    connection.close()
    assert Finding("references", "row 9999 refers to a missing row of notes", "lengths") in database.verify()


def test_verify_reports_a_changed_header_and_a_missing_file_fact(database):
    connection = apsw.Connection(str(database.path))
    connection.pragma("user_version", 0)
    connection.execute("DELETE FROM file_facts WHERE name = 'created'")
    connection.close()
    named = {finding.part for finding in database.verify()}
    assert named == {"header", "file_facts"}


def pages_of(path, name):
    """The page numbers of the leaves of a table or index."""
    connection = apsw.Connection(str(path))
    rows = connection.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (name,)).fetchall()
    connection.close()
    return [number for (number,) in rows]


def overwrite(path, page, content):
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(content)


def test_verify_reports_a_damaged_index_and_rebuild_repairs_it(database, tmp_path):
    database.close()
    for first in (2, 1):  # the index is filled by another expression
        connection = apsw.Connection(str(database.path))
        connection.execute("REINDEX")
        connection.pragma("writable_schema", True)
        sql = f"CREATE INDEX notes_by_text ON notes (substr(text, {first}, 12))"
        connection.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'notes_by_text'", (sql,))
        connection.close()
    with SqliteDatabase(database.path, components=[Notes()]) as again:
        assert {finding.part for finding in again.verify()} == {"pages"}
        again.rebuild()
        assert again.verify() == []


@pytest.mark.parametrize("chosen", [[0, 1], [-1], [0, -1], [27, 28, 29, -1], [0, 5, 6, 7, 8, 9, 20, -1], None], ids=str)
def test_damaged_pages_are_named_and_every_other_row_is_salvaged(database, tmp_path, chosen):
    seed = random.randrange(2**32)
    print("seed", seed)
    rng = random.Random(seed)
    expected = texts(database)
    database.close()
    leaves = pages_of(database.path, "notes")
    damaged = rng.sample(leaves, 3) if chosen is None else [sorted(leaves)[place] for place in chosen]
    lost = set()
    for page in damaged:
        before = database.path.read_bytes()[(page - 1) * 4096 : page * 4096]
        lost |= {text for text in expected if text.encode() in before}
        overwrite(database.path, page, rng.randbytes(4096))
    damaged_bytes = database.path.read_bytes()
    with SqliteDatabase(database.path, components=[Notes()], read_only=True) as again:
        with pytest.raises(DamageError):
            texts(again)
        assert {"pages", "notes"} <= {finding.part for finding in again.verify()}
        assert again.salvage(tmp_path / "saved.db").saved("notes") == len(expected) - len(lost)
    assert database.path.read_bytes() == damaged_bytes
    with SqliteDatabase(tmp_path / "saved.db", components=[Notes()], create=False) as saved:
        assert texts(saved) == [text for text in expected if text not in lost]
        assert saved.verify() == []
        assert saved.identity == database.identity
    assert len(lost) > (10 if chosen != [-1] else 3), "the damage hit nothing"  # the last page holds four rows


def test_a_backup_of_a_damaged_file_is_refused_and_leaves_nothing(database, tmp_path):
    database.close()
    overwrite(database.path, pages_of(database.path, "notes")[5], b"\xff" * 4096)
    with SqliteDatabase(database.path, components=[Notes()]) as again, pytest.raises(DamageError):
        again.backup(tmp_path / "b.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.db"]


def test_salvage_of_an_intact_database_saves_every_row(database, tmp_path):
    with database.write() as connection:
        for key in (-(2**63), -5, 0, 2**40, 2**63 - 1):
            connection.execute("INSERT INTO notes VALUES (?, 'edge', ?)", (key, digest("edge")))
        connection.execute("INSERT INTO lengths SELECT key, 4 FROM notes WHERE text = 'edge'")
    assert database.salvage(tmp_path / "s.db").saved("notes") == 405
    with SqliteDatabase(tmp_path / "s.db", components=[Notes()], create=False) as saved:
        assert texts(saved) == texts(database)
        assert stat.S_IMODE(saved.path.stat().st_mode) == 0o600


def test_salvage_without_every_component_of_the_file_attached_is_refused(database, tmp_path):
    database.close()
    with SqliteDatabase(database.path) as stranger, pytest.raises(UnsupportedError, match="notes"):
        stranger.salvage(tmp_path / "s.db")
    assert not (tmp_path / "s.db").exists()
