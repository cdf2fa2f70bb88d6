"""Backups are recorded in the file that they copy, and removed only when identified as its copies."""

import os
import shutil
from datetime import UTC, datetime

import pytest

from tellback.vectorstore import ArgumentError, NotAStore
from tellback.vectorstore.sqlite import SqliteDatabase


def at_noon():
    return datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def database(tmp_path):
    with SqliteDatabase(tmp_path / "m.db", clock=at_noon) as opened:
        yield opened


def test_a_backup_is_recorded_with_its_place_and_time(database, tmp_path):
    assert database.backups() == {}
    database.backup(tmp_path / "copies" / "a.db")
    assert database.backups() == {str(tmp_path / "copies" / "a.db"): "2026-05-01T12:00:00+00:00"}
    database.close()
    with SqliteDatabase(tmp_path / "m.db") as again:
        assert list(again.backups()) == [str(tmp_path / "copies" / "a.db")]


def test_a_backup_onto_an_existing_file_is_refused_and_not_recorded(database, tmp_path):
    (tmp_path / "a.db").write_text("mine")
    with pytest.raises(ArgumentError, match="nothing is yet"):
        database.backup(tmp_path / "a.db")
    assert database.backups() == {}


def test_removing_a_backup_deletes_its_file_and_its_record(database, tmp_path):
    database.backup(tmp_path / "a.db")
    database.backup(tmp_path / "b.db")
    assert database.remove_backup(str(tmp_path / "a.db"))
    assert not (tmp_path / "a.db").exists()
    assert list(database.backups()) == [str(tmp_path / "b.db")]


def test_removing_a_moved_backup_returns_false_and_drops_its_record(database, tmp_path):
    database.backup(tmp_path / "a.db")
    (tmp_path / "a.db").rename(tmp_path / "elsewhere.db")
    assert not database.remove_backup(str(tmp_path / "a.db"))
    assert database.backups() == {}
    assert (tmp_path / "elsewhere.db").exists()


@pytest.mark.parametrize("stranger", ["text", "other memory", "link", "the memory itself"])
def test_a_foreign_file_at_the_path_of_a_backup_is_not_removed(database, tmp_path, stranger):
    copy = tmp_path / "a.db"
    database.backup(copy)
    copy.unlink()
    if stranger == "text":
        copy.write_text("a letter of mine that happens to stand here")
    elif stranger == "other memory":
        SqliteDatabase(copy).close()
    elif stranger == "link":
        other = tmp_path / "b.db"
        database.backup(other)
        copy.symlink_to(other)
    else:
        os.link(tmp_path / "m.db", copy)
    with pytest.raises(NotAStore):
        database.remove_backup(str(copy))
    assert os.path.lexists(copy)


def test_removing_an_unrecorded_backup_is_refused(database, tmp_path):
    shutil.copy(tmp_path / "m.db", tmp_path / "mine.db")
    with pytest.raises(ArgumentError, match="recorded"):
        database.remove_backup(str(tmp_path / "mine.db"))
    assert (tmp_path / "mine.db").exists()
