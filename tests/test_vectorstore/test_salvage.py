"""The readable rest of a damaged store is saved, also of one that cannot be opened; the damaged file stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tellback.vectorstore import (
    ArgumentError,
    DamageError,
    Entry,
    NotAStore,
    Space,
    SpaceMigration,
    SqliteStore,
    UnsupportedError,
    open_store,
    salvage_store,
)
from tests.support.slow import first_fast

SPACE, NEXT = Space("toy", 2), Space("next", 3)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A file of three entries in two namespaces, with a second space begun."""
    path = tmp_path / "memory.db"
    with closing(SqliteStore(path, space=SPACE, fields=("n",))) as store:
        store.upsert([Entry("a", [1, 0], "zorb", metadata={"n": 1}), Entry("b", [0, 1], "quil")])
        store.upsert([Entry("c", text="vexa", no_vector="too long")], namespace="other")
        store.begin_space(NEXT)
        store.fill_space(NEXT, {"a": [1, 2, 3]})
    return path


def change(path: Path, *statements: str) -> None:
    """Damage a file as SQLite itself would never."""
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    connection.pragma("foreign_keys", False)
    for statement in statements:
        connection.execute(statement)
        assert connection.changes()
    connection.close()


def everything(path: Path) -> dict[str, list[Entry]]:
    with closing(SqliteStore(path)) as store:
        assert store.verify() == []
        return {name: list(store.scan(namespace=name)) for name in store.namespaces()}


def test_salvaging_an_intact_file_saves_every_entry_and_its_space_migration(path: Path, tmp_path: Path) -> None:
    assert salvage_store(path, tmp_path / "saved.db").saved("entries") == 3
    assert everything(tmp_path / "saved.db") == everything(path)
    with closing(SqliteStore(tmp_path / "saved.db", space=SPACE, fields=("n",))) as saved:
        assert saved.filling() == SpaceMigration(NEXT, 1, {"": 1})
        saved.upsert([Entry("d", [1, 1], "tulk")])
        assert saved.verify() == []


@pytest.mark.parametrize(
    "statement",
    first_fast(
        [
            "UPDATE store_facts SET value = 'no json' WHERE name = 'fields'",
            "DELETE FROM store_facts WHERE name = 'analyser'",
            "UPDATE namespaces SET name = CAST(x'ff' AS TEXT) WHERE name = 'other'",
            "DELETE FROM components",
            "UPDATE components SET name = 'what damage left'",
        ]
    ),
)
def test_a_damaged_file_beyond_opening_is_salvaged_and_left_unchanged(
    statement: str, path: Path, tmp_path: Path
) -> None:
    change(path, statement)
    before = path.read_bytes()
    with pytest.raises(DamageError), closing(SqliteStore(path)) as store:
        store.namespaces()
    assert salvage_store(path, tmp_path / "saved.db").saved("entries") == 3
    assert path.read_bytes() == before
    assert sorted(entry.text for held in everything(tmp_path / "saved.db").values() for entry in held) == [
        "quil",
        "vexa",
        "zorb",
    ]


def test_salvage_drops_a_changed_row_and_makes_an_entry_with_a_lost_vector_pending(path: Path, tmp_path: Path) -> None:
    change(
        path,
        "UPDATE entries SET text = 'other words' WHERE id = 'a'",
        "DELETE FROM vectors WHERE key = (SELECT key FROM entries WHERE id = 'b')",
    )
    with closing(SqliteStore(path)) as store:
        for id in "ab":
            with pytest.raises(DamageError, match=id):
                store.get([id])
    assert salvage_store(path, tmp_path / "saved.db").saved("entries") == 2
    with closing(SqliteStore(tmp_path / "saved.db")) as saved:
        assert saved.verify() == []
        assert [entry.id for entry in saved.scan(embedded=False)] == ["b"]
        assert saved.put_vectors({"b": [0, 1]}) == 1
        assert saved.verify() == []


def test_salvaged_entries_of_a_namespace_without_a_name_get_a_new_namespace_name(path: Path, tmp_path: Path) -> None:
    change(path, "DELETE FROM namespaces WHERE name = 'other'")
    with pytest.raises(DamageError, match="namespaces"):
        SqliteStore(path)
    report = salvage_store(path, tmp_path / "saved.db")
    assert report.saved("entries") == 3
    found = everything(tmp_path / "saved.db")
    assert [entry.id for entry in found["its name was lost (2)"]] == ["c"]
    assert "namespaces" in [part.table for part in report.tables if "'its name was lost (2)'" in str(part)]
    assert not report.whole


def test_the_only_namespace_without_a_name_is_assumed_to_be_the_missing_default(path: Path, tmp_path: Path) -> None:
    before = everything(path)
    change(path, "DELETE FROM namespaces WHERE name = ''")
    report = salvage_store(path, tmp_path / "saved.db")
    assert everything(tmp_path / "saved.db") == before
    assert [str(part) for part in report.tables if "assumed to be that of the default namespace" in str(part)]
    change(path, "DELETE FROM namespaces")
    salvage_store(path, tmp_path / "both.db")
    assert set(everything(tmp_path / "both.db")) == {"its name was lost (1)", "its name was lost (2)"}


def test_salvage_of_an_unusable_source_or_target_is_refused_and_leaves_no_file(path: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("a shopping list\n" * 99)
    with pytest.raises(DamageError, match="not a database"):
        salvage_store(tmp_path / "text", tmp_path / "saved.db")
    with pytest.raises(NotAStore):
        salvage_store(tmp_path / "missing", tmp_path / "saved.db")
    with pytest.raises(ArgumentError, match="target"):
        salvage_store(path, path)
    change(path, "INSERT INTO components VALUES ('history', 1)")
    with pytest.raises(UnsupportedError, match="history"):
        salvage_store(path, tmp_path / "saved.db")
    assert not (tmp_path / "saved.db").exists()


def test_searching_a_damaged_namespace_raises_damage_error_every_time(path: Path) -> None:
    change(path, "UPDATE namespaces SET tally = tally + 1")
    with closing(SqliteStore(path)) as store:
        for _ in range(2):
            with pytest.raises(DamageError):
                store.search([1, 0])
            with pytest.raises(DamageError):
                store.search_text("zorb")


def test_a_file_without_its_namespaces_raises_damage_error_on_opening(path: Path) -> None:
    change(path, "DELETE FROM namespaces")
    with pytest.raises(DamageError):
        open_store(f"sqlite:///{path}")


def test_salvage_saves_both_of_two_rows_with_the_same_damaged_key(path: Path, tmp_path: Path) -> None:
    connection = apsw.Connection(str(path))
    ((page,),) = connection.execute("SELECT pageno FROM dbstat WHERE name = 'entries'").fetchall()
    connection.close()
    content = bytearray(path.read_bytes())
    start = (page - 1) * 4096
    first, second = (start + int.from_bytes(content[start + 8 + 2 * i : start + 10 + 2 * i]) for i in range(2))
    assert (content[first + 1], content[second + 1]) == (1, 2), "these are not the keys of two small cells"
    content[first + 1] = 2
    path.write_bytes(content)
    assert salvage_store(path, tmp_path / "saved.db").saved("entries") == 3
    with closing(SqliteStore(tmp_path / "saved.db")) as saved:
        assert saved.verify() == []
        assert {entry.id: entry.vector is not None for entry in saved.scan()} == {"a": False, "b": True}
