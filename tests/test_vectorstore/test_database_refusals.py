"""Foreign and damaged files are refused with the reason and left byte for byte as they were."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import tempfile
from contextlib import chdir, closing
from pathlib import Path

import apsw
import pytest

from tellback.vectorstore import (
    DamageError,
    Entry,
    NewerFile,
    NotAStore,
    Space,
    StorageUnwritable,
    TableComponent,
    open_store,
    salvage_store,
    scan_by,
)
from tellback.vectorstore.sqlite import SqliteDatabase
from tests.support.slow import first_fast

ROOT = Path(__file__).resolve().parents[2]


def text_file(path: Path) -> None:
    path.write_text("a shopping list, and long enough to hold a header of a hundred bytes\n" * 3)


def short_file(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00 and no more")


def stranger(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.commit()
    connection.close()


def stranger_in_wal_mode(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.commit()
    connection.close()


def empty_file(path: Path) -> None:
    path.touch()


def empty_file_with_log(path: Path) -> None:
    path.touch()
    path.with_name(path.name + "-wal").write_bytes(b"what was written and not yet moved")


def log_without_file(path: Path) -> None:
    path.with_name(path.name + "-wal").write_bytes(b"what was written and not yet moved")


def link_to_a_file(path: Path) -> None:
    SqliteDatabase(path.with_name("real.db")).close()
    path.symlink_to("real.db")


def dangling_link(path: Path) -> None:
    path.symlink_to("nowhere.db")


def folder(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def socket_file(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server, chdir(path.parent):  # a socket's whole path may be too long for it
        server.bind(path.name)


def our_id_without_tables(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE things (a)")
    connection.pragma("application_id", int.from_bytes(b"Mnem"))
    connection.close()


REFUSED = {
    text_file: "not a memory file",
    short_file: "not a memory file",
    stranger: "another program",
    stranger_in_wal_mode: "another program",
    empty_file: "empty, which no memory is",
    empty_file_with_log: "empty, which no memory is",
    log_without_file: "its log .* is there",
    link_to_a_file: r"a link to 'real\.db'",
    dangling_link: r"a link to 'nowhere\.db'",
    folder: "a folder",
    pipe: "a named pipe",
    socket_file: "a socket",
    our_id_without_tables: "lacks the tables",
}


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """Every name in the folder with its kind, mode and content."""
    found = {}
    for path in folder.iterdir():
        mode = path.lstat().st_mode
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(mode) else ""
        found[path.name] = (mode, content)
    return found


@pytest.mark.parametrize("make", REFUSED, ids=lambda make: make.__name__)
@pytest.mark.parametrize("options", [{}, {"create": False}, {"read_only": True}], ids=str)
def test_opening_anything_but_a_memory_file_raises_not_a_store_and_leaves_it_unchanged(make, options, tmp_path):
    path = tmp_path / "m.db"
    make(path)
    before = state(tmp_path)
    with pytest.raises(NotAStore, match=REFUSED[make]) as caught:
        SqliteDatabase(path, **options)
    assert caught.value.path == str(path)
    assert state(tmp_path) == before


FOREIGN = {
    "CREATE TRIGGER evil AFTER INSERT ON entries BEGIN DELETE FROM entries; END": "trigger 'evil' was not made",
    "CREATE VIEW evil AS SELECT * FROM entries": "view 'evil' was not made",
    "ALTER TABLE entries RENAME TO e; CREATE VIEW entries AS SELECT * FROM e": "view 'entries' was not made",
    "CREATE TABLE evil (key REFERENCES entries (key) ON DELETE RESTRICT)": "table 'evil' was not made",
    "CREATE VIRTUAL TABLE evil USING fts5(a)": "table 'evil' was not made",
    "CREATE UNIQUE INDEX evil ON entries (text, id)": "index 'evil' was not made",
    "CREATE INDEX entries_by_at ON entries (namespace, abs(metadata), id)": "index 'entries_by_at' was not made",
    "ALTER TABLE entries ADD COLUMN more TEXT DEFAULT 1": "table 'entries' is not as Tellback made it",
    "ALTER TABLE file_facts ADD COLUMN more TEXT": "table 'file_facts' is not as Tellback made it",
}


@pytest.mark.parametrize("sql", first_fast(FOREIGN))
def test_a_file_with_a_schema_of_somebody_else_is_refused_untouched_and_its_rows_are_salvaged(sql, tmp_path):
    path = tmp_path / "m.db"
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.upsert([Entry("a", text="kept"), Entry("b", text="kept")])
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()
    before = state(tmp_path)
    with pytest.raises(DamageError, match=FOREIGN[sql]) as caught:
        open_store(f"sqlite:///{path}")
    assert {finding.part for finding in caught.value.findings} == {"schema"}
    assert state(tmp_path) == before
    report = salvage_store(path, tmp_path / "saved.db")
    assert report.saved("entries") == (0 if "RENAME" in sql else 2)
    with closing(open_store(f"sqlite:///{tmp_path / 'saved.db'}")) as saved:
        assert saved.verify() == []


def test_a_schema_that_a_store_made_itself_is_taken(tmp_path):
    path, space = tmp_path / "m.db", Space("a", 2, "cosine")
    with closing(open_store(f"sqlite:///{path}", space=space)) as store:
        store.upsert([Entry("a", [1, 0], "kept")])
        list(scan_by(store, ["at_or_on", "created"]))
        for dimension in (3, 2, 3):  # each switch renames the tables of vectors
            space = Space("abc"[dimension - 1], dimension, "cosine")
            store.begin_space(space)
            store.fill_space(space, {"a": [1] * dimension})
            store.commit_space(space)
        with store.database.write() as connection:
            connection.execute("ANALYZE")
    with closing(open_store(f"sqlite:///{path}")) as store:
        assert store.verify() == []
        assert [entry.text for entry in scan_by(store, ["at_or_on", "created"])] == ["kept"]
    with SqliteDatabase(path) as database:  # that knows none of the file's parts
        assert database.verify() == []


def test_a_device_is_refused():
    with pytest.raises(NotAStore, match="a device"):
        SqliteDatabase("/dev/zero")


def test_a_newer_format_is_refused_untouched(tmp_path):
    path = tmp_path / "m.db"
    SqliteDatabase(path).close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 9)
    connection.close()
    before = state(tmp_path)
    with pytest.raises(NewerFile) as caught:
        SqliteDatabase(path)
    assert (caught.value.found, caught.value.known) == (9, 1)
    assert state(tmp_path) == before


def test_a_newer_format_recorded_only_in_the_wal_is_refused_untouched(tmp_path):
    path = tmp_path / "m.db"
    SqliteDatabase(path).close()
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.pragma("user_version", 9)
    connection.close()
    before = state(tmp_path)
    assert before["m.db-wal"]
    with pytest.raises(NewerFile):
        SqliteDatabase(path)
    after = state(tmp_path)
    assert (after["m.db"], after["m.db-wal"]) == (before["m.db"], before["m.db-wal"])


def test_a_valid_header_over_a_damaged_page_raises_damage_error(tmp_path):
    path = tmp_path / "m.db"
    SqliteDatabase(path).close()
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(data)
    with pytest.raises(DamageError, match=r"m\.db"):
        SqliteDatabase(path)
    assert path.read_bytes() == data


def test_a_path_below_a_regular_file_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageUnwritable):
        SqliteDatabase(tmp_path / "file" / "m.db")


def test_a_symbolic_link_among_the_parent_folders_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with SqliteDatabase(tmp_path / "link" / "m.db") as database:
        assert database.path == tmp_path / "real" / "m.db"


AS_NOBODY = """
import os, pathlib, sys
from tellback.vectorstore import StorageUnwritable
from tellback.vectorstore.sqlite import SqliteDatabase
import apsw, sqlite_vec
# The other user may not be able to read this environment: what is loaded late is loaded before, or kept open.
pathlib.Path("/").as_uri()
loaded = apsw.Connection(":memory:")
loaded.enable_load_extension(True)
loaded.load_extension(os.path.abspath(sqlite_vec.loadable_path()))
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
path = sys.argv[1]
"""


def as_somebody_else(program: str, path: Path) -> str:
    """Run *program* as a user who may not write what this one protects; root becomes nobody."""
    done = subprocess.run(
        [sys.executable, "-c", AS_NOBODY + program, str(path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


READ_AND_WRITE = """
with SqliteDatabase(path) as database:
    with database.read() as connection:
        print(connection.execute("SELECT a FROM t").fetchall(), database.read_only)
    try:
        with database.write():
            print("written")
    except StorageUnwritable as error:
        print("StorageUnwritable")
    print(database.verify())
"""


@pytest.fixture
def protected():
    """A file in a folder, both open to reading by everybody; not in pytest's own, which others cannot enter."""
    places = [Path(place) for place in (tempfile.gettempdir(), "/tmp", "/var/tmp") if Path(place).is_dir()]
    entered = (item for item in places if all(up.stat().st_mode & stat.S_IXOTH for up in (item, *item.parents)))
    place = next(entered, None)
    if place is None and os.geteuid() == 0:
        pytest.skip("no folder that another user may enter")
    folder = Path(tempfile.mkdtemp(dir=place))
    path = folder / "m.db"
    rows = TableComponent("t", [lambda connection: connection.execute("CREATE TABLE t (a)")], ["t"])
    with SqliteDatabase(path, components=[rows]) as database, database.write() as connection:
        connection.execute("INSERT INTO t VALUES (1)")
    path.chmod(0o444)
    folder.chmod(0o555)
    yield path
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_read_only_file_in_a_read_only_folder_is_read_without_new_files(protected):
    before = state(protected.parent)
    assert as_somebody_else(READ_AND_WRITE, protected).splitlines() == ["[(1,)] True", "StorageUnwritable", "[]"]
    assert state(protected.parent) == before


def test_a_read_only_file_in_a_writable_folder_is_read_and_no_other_file_is_left(protected):
    protected.parent.chmod(0o777)
    assert as_somebody_else(READ_AND_WRITE, protected).splitlines() == ["[(1,)] True", "StorageUnwritable", "[]"]
    assert [path.name for path in protected.parent.iterdir()] == ["m.db"]


def test_a_writable_file_in_a_read_only_folder_is_read(protected):
    protected.chmod(0o666)
    assert as_somebody_else(READ_AND_WRITE, protected).splitlines() == ["[(1,)] True", "StorageUnwritable", "[]"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user who writes")
def test_a_reader_without_write_permission_sees_the_commits_of_the_owner(protected):
    protected.chmod(0o644)
    with SqliteDatabase(protected) as owner:
        with owner.write() as connection:
            connection.execute("INSERT INTO t VALUES (2)")
        assert as_somebody_else(READ_AND_WRITE, protected).splitlines()[0] == "[(1,), (2,)] True"


def test_opening_an_unreadable_file_raises_storage_unwritable_with_the_reason(protected):
    protected.chmod(0o000)
    program = "try:\n    SqliteDatabase(path)\nexcept StorageUnwritable as error:\n    print(error)"
    assert "no permission to read" in as_somebody_else(program, protected)


def test_creating_a_file_in_a_read_only_folder_raises_storage_unwritable_with_the_reason(protected):
    program = "try:\n    SqliteDatabase(path + '2')\nexcept StorageUnwritable as error:\n    print(error)"
    assert "no permission" in as_somebody_else(program, protected)
    assert [path.name for path in protected.parent.iterdir()] == ["m.db"]


MIGRATING = """
from tellback.vectorstore import Finding
class Part:
    name = "t"
    migrations = (
        lambda connection: connection.execute("CREATE TABLE t (a)"),
        lambda connection: connection.execute("UPDATE t SET a = 2"),
    )
    def verify(self, connection):
        return [Finding("t", "wrong")]
try:
    SqliteDatabase(path, components=[Part()])
except StorageUnwritable as error:
    print(error)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user who writes")
def test_a_migration_without_permission_for_its_copy_is_refused_with_advice(protected):
    protected.chmod(0o666)
    with SqliteDatabase(protected) as owner:
        with owner.write():
            pass  # which makes its files beside it
        for beside in protected.parent.iterdir():
            beside.chmod(0o666)
        advice = as_somebody_else(MIGRATING, protected)
        assert "no permission" in advice
        assert "make room for a copy beside it" in advice
        with owner.read() as connection:
            assert connection.execute("SELECT a FROM t").fetchall() == [(1,)]
        assert owner.backups() == {}
