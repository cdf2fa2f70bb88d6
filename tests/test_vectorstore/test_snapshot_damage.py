"""A snapshot is checked when it is read: damage, foreign and newer files are told apart, and left as they are.

Inner parts, on no face: ``tellback.vectorstore.engines.snapshot``.
"""

import os
import random
import socket
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest

from tellback.vectorstore import (
    DamageError,
    Entry,
    NewerFile,
    NotAStore,
    NumpyStore,
    Space,
    StorageUnwritable,
    TableComponent,
    VectorStoreError,
    open_store,
)
from tellback.vectorstore.engines.snapshot import PREAMBLE_SIZE, SNAPSHOT_MAGIC, decode_snapshot
from tests.support.snapshots import craft, seal

TOY = Space("toy", 2)
WIDE = Space("wide", 3)


def filled() -> NumpyStore:
    """Return a store with something in every part of it."""
    store = NumpyStore(space=TOY, fields=("x",))
    store.upsert(
        Entry(f"e{i}", [i, 1] if i % 3 else None, f"zorb {'quil ' * i}. vexa", "morp", {"x": i})  # type: ignore[arg-type]
        for i in range(9)
    )
    store.upsert([Entry("reasoned", text="zorb", no_vector="too long")], namespace="other")
    store.delete(["e5", "e6"])
    store.begin_space(WIDE)
    store.fill_space(WIDE, {"e1": [1, 2, 3]}, no_vector={"e2": "too short"})
    return store


def saved(path: Path) -> Path:
    filled().save(path)
    return path


def test_every_changed_or_missing_byte_is_damage_or_not_a_snapshot(tmp_path: Path) -> None:
    data = saved(tmp_path / "pets").read_bytes()
    seed = 3
    rng = random.Random(seed)
    places = {*range(PREAMBLE_SIZE + 4), *rng.sample(range(len(data)), 400), len(data) - 1}
    for place in sorted(places):
        changed = bytearray(data)
        changed[place] ^= 1 << rng.randrange(8)
        with pytest.raises(NotAStore if place < len(SNAPSHOT_MAGIC) else DamageError):
            decode_snapshot(bytes(changed), "pets")
    for length in {
        0,
        1,
        len(SNAPSHOT_MAGIC),
        PREAMBLE_SIZE,
        PREAMBLE_SIZE + 40,
        *rng.sample(range(len(data)), 100),
        len(data) - 1,
    }:
        with pytest.raises(NotAStore if length < len(SNAPSHOT_MAGIC) else DamageError):
            decode_snapshot(data[:length], "pets")
    with pytest.raises(DamageError):
        decode_snapshot(data + b"\0", "pets")
    decode_snapshot(data, "pets").close()


def test_opening_a_damaged_snapshot_names_the_file_and_leaves_it_unchanged(tmp_path: Path) -> None:
    path = saved(tmp_path / "pets")
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamageError, match="pets"):
        NumpyStore.open(path)
    assert path.read_bytes() == bytes(data)


@pytest.mark.parametrize(("version", "error"), [(4, NewerFile), (2, NotAStore), (1, NotAStore)])
def test_a_snapshot_of_another_format_is_refused_by_name_and_left_unchanged(
    tmp_path: Path, version: int, error: type[Exception]
) -> None:
    path = saved(tmp_path / "pets")
    data = path.read_bytes()
    seal(path, data[: len(SNAPSHOT_MAGIC)] + version.to_bytes(4, "little") + data[PREAMBLE_SIZE:-32])
    written, store = path.read_bytes(), filled()
    for call in (lambda: NumpyStore.open(path), lambda: store.save(path)):
        with pytest.raises(error, match=f"format.* {version}"):
            call()
    assert path.read_bytes() == written


def make_folder(path: Path) -> None:
    path.mkdir()


def make_npz(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, a=np.ones(3))


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening, chdir(path.parent):  # a whole path may be too long for it
        listening.bind(path.name)


def make_link(path: Path) -> None:
    path.with_name("elsewhere").write_bytes(b"")
    path.symlink_to(path.with_name("elsewhere"))


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a text": lambda path: path.write_text("pets\n" * 9),
    "nothing": lambda path: path.write_bytes(b""),
    "an npz": make_npz,
    "a memory file": lambda path: open_store(f"sqlite:///{path}").close(),
    "a folder": make_folder,
    "a socket": make_socket,
    "a named pipe": lambda path: os.mkfifo(path),
    "a link": make_link,
}


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_a_foreign_file_is_refused_as_a_snapshot_and_left_unchanged(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("pets")
    FOREIGN[kind](path)
    before = (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
    store = filled()
    for call in (lambda: NumpyStore.open(path), lambda: store.save(path)):
        with pytest.raises(NotAStore, match="pets"):
            call()
    assert (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"") == before


def test_a_path_below_a_regular_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for call in (
        lambda: NumpyStore.open(tmp_path / "file" / "pets"),
        lambda: filled().save(tmp_path / "file" / "pets"),
    ):
        with pytest.raises(StorageUnwritable):
            call()


# Bytes that nobody damaged and that make no sense: a checksum is not a signature.


_KEPT = "CREATE TABLE kept (text TEXT NOT NULL) STRICT"
SETTINGS = "UPDATE store_facts SET value = json_set(value, '$.{}', {}) WHERE name = 'space'"
CRAFTED: dict[str, str] = {
    "text that is no UTF-8": "UPDATE entries SET text = CAST(x'ff' AS TEXT)",
    "metadata that are no JSON": "UPDATE entries SET metadata = 'x'",
    "metadata that are no object": "UPDATE entries SET metadata = '[1]'",
    "vectors of another dimension": "UPDATE vectors SET vector = zeroblob(12)",
    "vectors of no whole number": "UPDATE vectors SET vector = x'00'",
    "a vector that is missing": "DELETE FROM vectors WHERE key = (SELECT min(key) FROM vectors)",
    "next vectors of another dimension": "UPDATE next_vectors SET checksum = 7",
    "an entry that is missing": "DELETE FROM entries WHERE id = 'e1'",
    "terms that nobody knows": "DELETE FROM terms",
    "terms below zero": "UPDATE forward SET sequence = x'ffffffff', context_length = 0",
    "a context too long": "UPDATE forward SET context_length = 1000000",
    "a context below zero": "UPDATE forward SET context_length = -1",
    "a space that is none": "UPDATE store_facts SET value = '{}' WHERE name = 'space'",
    "a metric that is none": SETTINGS.format("metric", "'nearness'"),
    "another dimension": SETTINGS.format("dimension", 7),
    "no analyzer": "DELETE FROM store_facts WHERE name = 'analyser'",
    "no namespaces": "DELETE FROM namespaces",
    "no table of entries": "DROP TABLE entries",
}


@pytest.mark.parametrize("case", sorted(CRAFTED))
def test_inconsistent_contents_of_a_snapshot_are_damage_when_opened_read_or_verified(tmp_path: Path, case: str) -> None:
    path = saved(tmp_path / "pets")
    craft(path, CRAFTED[case])
    with pytest.raises(DamageError):  # noqa: PT012 - whoever notices first
        store = NumpyStore.open(path)
        store.filling()
        store.search([1] * 7 if case == "another dimension" else [1, 0], 99)
        store.search_text("zorb", 99)
        list(store.scan())
        if findings := store.verify():
            raise DamageError(findings)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON kept BEGIN DELETE FROM kept; END",
        "CREATE VIEW v AS SELECT * FROM components",
    ],
)
def test_a_trigger_or_view_in_a_snapshot_is_refused_by_name(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "pets"
    store = filled()
    store.database.attach(TableComponent("kept", (lambda connection: connection.execute(_KEPT),), ("kept",)))
    store.save(path)
    assert NumpyStore.open(path).count() == 7
    craft(path, statement)
    with pytest.raises(DamageError, match="was not made by Tellback"):
        NumpyStore.open(path)


def test_a_snapshot_that_holds_no_database_is_damage(tmp_path: Path) -> None:
    path = saved(tmp_path / "pets")
    data = path.read_bytes()
    for image in (b"", bytes(4096), data[PREAMBLE_SIZE:-4128]):
        seal(path, data[:PREAMBLE_SIZE] + image)
        with pytest.raises(VectorStoreError, match="pets"):
            NumpyStore.open(path)


def test_a_snapshot_with_an_unknown_analyzer_language_is_refused_by_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "pets")
    craft(path, """UPDATE store_facts SET value = '{"language": "klingon"}' WHERE name = 'analyser'""")
    with pytest.raises(DamageError, match="klingon"):
        NumpyStore.open(path)
