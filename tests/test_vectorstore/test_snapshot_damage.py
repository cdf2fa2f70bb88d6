"""A snapshot is checked when it is read: damage, foreign and newer files are told apart, and left as they are.

Inner parts, on no face: ``vectorstore.index.snapshot``.
"""

import json
import os
import random
import socket
from collections.abc import Callable
from contextlib import chdir
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from vectorstore import (
    ArgumentError,
    DamageError,
    Entry,
    NewerFile,
    NotAStore,
    NumpyStore,
    Space,
    StorageUnwritable,
    VectorStoreError,
    open_store,
)
from vectorstore.index.snapshot import PREAMBLE_SIZE, SNAPSHOT_MAGIC, decode_snapshot, pack_arrays, unpack_arrays

Change: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], None]

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
    assert decode_snapshot(data, "pets").space == TOY, seed


def test_opening_a_damaged_snapshot_names_the_file_and_leaves_it_unchanged(tmp_path: Path) -> None:
    path = saved(tmp_path / "pets")
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(DamageError, match="pets"):
        NumpyStore.open(path)
    assert path.read_bytes() == bytes(data)


def test_a_newer_snapshot_raises_newer_file_and_is_left_unchanged(tmp_path: Path) -> None:
    path = saved(tmp_path / "pets")
    header, arrays = unpack_arrays(path.read_bytes(), "pets")
    newer = b"".join(_as_version(2, b"".join(pack_arrays(header, arrays))))
    path.write_bytes(newer)
    store = filled()
    for call in (lambda: NumpyStore.open(path), lambda: store.save(path)):
        with pytest.raises(NewerFile) as caught:
            call()
        assert (caught.value.found, caught.value.known) == (2, 1)
    assert path.read_bytes() == newer


def _as_version(version: int, data: bytes) -> tuple[bytes, bytes]:
    body = data[: len(SNAPSHOT_MAGIC)] + version.to_bytes(4, "little") + data[len(SNAPSHOT_MAGIC) + 4 : -32]
    return body, blake2b(body, digest_size=32).digest()


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


def crafted(data: bytes, change: Change) -> bytes:
    """Return the snapshot *data* changed, with the checksum that belongs to it then."""
    header, arrays = unpack_arrays(data, "pets")
    changed = {name: array.copy() for name, array in arrays.items()}
    change(header, changed)
    del header["arrays"]
    return b"".join(pack_arrays(header, changed))


def put(name: str, place: Any, value: Any) -> Change:
    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name][place] = value

    return change


def swapped(name: str, value: Any) -> Change:
    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = value(arrays[name])

    return change


def told(name: str, value: Any) -> Change:
    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        header[name] = value

    return change


CRAFTED: dict[str, Change] = {
    "an end before its start": put("entries.text.ends", 2, 0),
    "an end beyond": put("entries.id.ends", -1, 10**9),
    "an end below zero": put("entries.id.ends", 0, -5),
    "text that is no UTF-8": put("entries.text.bytes", 0, 255),
    "metadata that are no JSON": put("entries.metadata.bytes", 0, ord("x")),
    "an id twice": put("entries.id.bytes", slice(0, 4), list(b"e0e0")),
    "a count too high": put("namespaces.counts", (0, 0), 10**6),
    "a count below zero": put("namespaces.counts", (1, 2), -1),
    "vectors too few": swapped("entries.vectors", lambda rows: rows[1:]),
    "vectors too many": put("entries.has_vector", slice(None), False),
    "vectors of another dimension": swapped("entries.vectors", lambda rows: np.ones((len(rows), 5), np.float32)),
    "vectors of another type": swapped("entries.vectors", lambda rows: rows.astype(np.int32)),
    "second vectors too few": swapped("second.vectors", lambda rows: rows[1:]),
    "terms that nobody knows": put("terms.numbers", 0, 10**6),
    "terms below zero": put("terms.numbers", 0, -1),
    "terms too few": swapped("terms.numbers", lambda numbers: numbers[1:]),
    "a context too long": put("terms.contexts", 0, 10**6),
    "no arrays of changes": swapped("changes.revision", lambda revisions: revisions[:0]),
    "a space that is none": told("space", {"fingerprint": "toy"}),
    "a metric that is none": told("space", {"fingerprint": "toy", "dimension": 2, "metric": "nearness"}),
    "another dimension": told("space", {"fingerprint": "toy", "dimension": 7, "metric": "dot"}),
    "no analyzer": told("analyser", None),
}


@pytest.mark.parametrize("case", sorted(CRAFTED))
def test_inconsistent_contents_of_a_snapshot_raise_damage_error(tmp_path: Path, case: str) -> None:
    path = saved(tmp_path / "pets")
    data = path.read_bytes()
    assert crafted(data, lambda header, arrays: None) == data
    path.write_bytes(crafted(data, CRAFTED[case]))
    with pytest.raises(DamageError, match="do not fit"):
        NumpyStore.open(path)


def test_a_snapshot_array_with_a_huge_declared_size_is_refused(tmp_path: Path) -> None:
    header, _ = unpack_arrays(saved(tmp_path / "pets").read_bytes(), "pets")
    listed = [[name, dtype, [10**15] if name == "terms.numbers" else shape] for name, dtype, shape in header["arrays"]]
    text = json.dumps({**header, "arrays": listed}).encode()
    body = SNAPSHOT_MAGIC + (1).to_bytes(4, "little") + len(text).to_bytes(4, "little") + text + bytes(10_000)
    (tmp_path / "pets").write_bytes(body + blake2b(body, digest_size=32).digest())
    with pytest.raises(VectorStoreError):
        NumpyStore.open(tmp_path / "pets")


def test_a_snapshot_with_an_unknown_analyzer_language_is_refused_by_name(tmp_path: Path) -> None:
    path = saved(tmp_path / "pets")
    path.write_bytes(
        crafted(path.read_bytes(), told("analyser", {"language": "klingon", "fingerprint": "tellback-9/klingon"}))
    )
    with pytest.raises(ArgumentError, match="klingon"):
        NumpyStore.open(path)
