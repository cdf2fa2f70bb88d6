"""A snapshot of a numpy store: everything is in it, and it is there whole or not at all.

Inner parts, on no face: ``tellback.vectorstore.engines``.
"""

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellback.vectorstore import (
    Analyzer,
    ArgumentError,
    Entry,
    NumpyStore,
    SettingMismatch,
    Space,
    SpaceMismatch,
    StorageFull,
    StoreClosed,
    UnsupportedError,
    VectorStore,
    open_store,
)
from tellback.vectorstore.engines import numpy_store
from tests.support.slow import first_fast
from tests.support.snapshots import craft
from tests.support.spaces_model import SpacesModel
from tests.support.store_parity import check_parity

TOY = Space("toy", 2)
WIDE = Space("wide", 3)


def entry(name: str, vector: Any = None, text: str = "", **metadata: Any) -> Entry:
    return Entry(name, vector, text, f"about {name}", metadata)


def filled() -> NumpyStore:
    """Return a store with something in every part of it."""
    store = NumpyStore(space=TOY, analyzer=Analyzer("german"), fields=("x", "deep.y"))
    store.upsert([entry(f"e{i}", [i, 1] if i % 3 else None, f"zorb {'quil ' * i}. vexa", x=i) for i in range(9)])
    store.upsert([Entry("reasoned", text="é \U0001f600 \0", no_vector="too long")], namespace="über")
    store.upsert([entry("a", [1, 0], big=2**70, list=[1, 1.0, True, None, {"k": "v"}])], namespace="über")
    store.put_vectors({"e4": [0.25, 0.5]})
    store.delete(["e5", "e6"])
    store.upsert([entry("gone")], namespace="emptied")
    store.delete(["gone"], namespace="emptied")
    store.begin_space(WIDE)
    store.fill_space(WIDE, {"e1": [1, 2, 3]}, no_vector={"e2": "too short"})
    return store


def everything(store: NumpyStore) -> dict[str, Any]:
    """Return every readable content of a store that ``filled`` made."""
    names = ["", "über", "emptied", "never"]
    asked: dict[str, Any] = {"names": store.namespaces(), "space": store.space, "fields": store.fields}
    asked |= {"filling": store.filling(), "analyzer": store.analyzer}
    with store.view(names) as view:
        for name in names:
            entries = list(store.scan(namespace=name))
            ids = [item.id for item in entries]
            asked[name] = (
                entries,
                [json.dumps(dict(item.metadata)) for item in entries],
                [item.id for item in store.unfilled(namespace=name)],
                store.changes(namespace=name),
                store.search([1, 0.3], 99, namespace=name),
                store.search_text("zorb quil vexa about é", 99, namespace=name),
                view.terms(ids, namespace=name),
                dict(view.vocabulary(namespace=name)),
            )
    return asked


def saved(path: Path) -> Path:
    filled().save(path)
    return path


# Everything is kept.


def test_a_store_opened_from_a_snapshot_equals_the_saved_store(tmp_path: Path) -> None:
    store = filled()
    store.save(tmp_path / "pets")
    again = NumpyStore.open(tmp_path / "pets")
    assert everything(again) == everything(store)
    assert again.verify() == []


def test_the_change_log_and_revisions_continue_after_opening_a_snapshot(tmp_path: Path) -> None:
    store = filled()
    cursor = store.changes().cursor
    store.upsert([entry("e1", text="morp"), entry("new")])
    store.delete(["e2"])
    store.save(tmp_path / "pets")
    again = NumpyStore.open(tmp_path / "pets")
    assert again.changes(cursor) == store.changes(cursor)
    assert sorted(again.changes(cursor).written) == ["e1", "new"]
    used = max(item.revision for item in store.scan())
    again.upsert([entry("newer")])
    (newer,) = again.get(["newer"])
    assert newer is not None
    assert newer.revision > used


def test_an_emptied_namespace_keeps_its_revision_number_in_a_snapshot(tmp_path: Path) -> None:
    again = NumpyStore.open(saved(tmp_path / "pets"))
    again.upsert([entry("back")], namespace="emptied")
    (back,) = again.get(["back"], namespace="emptied")
    assert back is not None
    assert back.revision == 3
    assert again.namespaces() == ["", "emptied", "über"]


def test_a_space_migration_continues_after_opening_a_snapshot(tmp_path: Path) -> None:
    again = NumpyStore.open(saved(tmp_path / "pets"))
    for name in ("", "über"):
        again.fill_space(WIDE, {item.id: [1, 1, 1] for item in again.unfilled(namespace=name)}, namespace=name)
    again.commit_space(WIDE)
    assert [match.entry.id for match in again.search([1, 2, 3], 1)] == ["e1"]
    (reasoned,) = again.get(["e2"])
    assert reasoned is not None
    assert (reasoned.vector, reasoned.no_vector) == (None, "too short")


@pytest.mark.parametrize("space", [None, TOY])
def test_an_empty_store_is_saved_too(tmp_path: Path, space: Space | None) -> None:
    NumpyStore(space=space).save(tmp_path / "pets")
    again = NumpyStore.open(tmp_path / "pets")
    assert (again.space, again.namespaces(), list(again.scan())) == (space, [], [])
    again.upsert([entry("a", text="zorb")])
    assert [match.entry.id for match in again.search_text("zorb")] == ["a"]


def test_a_snapshot_is_the_same_bytes_for_the_same_store(tmp_path: Path) -> None:
    store = filled()
    for name in ("one", "two"):
        store.save(tmp_path / name)
    NumpyStore.open(tmp_path / "one").save(tmp_path / "three")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == (tmp_path / "three").read_bytes()


@pytest.mark.parametrize("seed", first_fast([1, 2, 3]))
def test_a_store_reopened_from_snapshots_answers_like_an_unsaved_store(tmp_path: Path, seed: int) -> None:
    numbers = iter(range(10**6))

    def reopen(name: str, store: VectorStore) -> VectorStore:
        if name != "saved":
            return store
        assert isinstance(store, NumpyStore)
        path = tmp_path / f"{seed}-{next(numbers)}"
        store.save(path)
        return NumpyStore.open(path)

    def make() -> dict[str, VectorStore]:
        return {
            "kept": NumpyStore(space=TOY, fields=("b",)),
            "saved": NumpyStore(space=TOY, fields=("b",)),
            "model": SpacesModel(space=TOY, fields=("b",)),
        }

    check_parity(
        make, seed=seed, space=TOY, steps=300, tolerance={"model": 1e-6}, transactions=True, reopen=reopen,
        spaces=[WIDE],
    )  # fmt: skip


def test_terms_of_another_analyzer_in_a_snapshot_are_rebuilt_on_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled()
    monkeypatch.setattr(Analyzer, "fingerprint", property(lambda self: "an-older-one"))
    store.save(tmp_path / "pets")
    craft(tmp_path / "pets", "UPDATE terms SET term = 'w' || number")
    monkeypatch.undo()
    assert everything(NumpyStore.open(tmp_path / "pets")) == everything(store)


# Written whole or not at all.


def test_a_snapshot_is_accessible_to_the_owner_only_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "pets"
    filled().save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [item.name for item in path.parent.iterdir()] == ["pets"]


def test_saving_again_replaces_the_earlier_snapshot(tmp_path: Path) -> None:
    path = saved(tmp_path / "pets")
    path.chmod(0o644)
    store = NumpyStore.open(path)
    store.upsert([entry("later")])
    store.save()
    assert NumpyStore.open(path).get(["later"]) != [None]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("at", ["write", "fsync", "replace"])
def test_a_failing_save_leaves_the_earlier_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    path = saved(tmp_path / "pets")
    before = path.read_bytes()
    store = NumpyStore.open(path)
    store.upsert([entry("later")])

    def full(*arguments: object, **options: object) -> Any:
        raise OSError(errno.ENOSPC, "no space left")

    if at == "write":
        monkeypatch.setattr(numpy_store, "encode_snapshot", lambda image, fingerprint: (full() for _ in range(1)))
    else:
        monkeypatch.setattr(os, at, full)
    with pytest.raises(StorageFull):
        store.save()
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["pets"]
    store.save()
    assert NumpyStore.open(path).get(["later"]) != [None]


KILLED = """
import os, sys
from tellback.vectorstore.engines import numpy_store
from tellback.vectorstore.engines.numpy_store import NumpyStore

store = NumpyStore.open(sys.argv[1])
store.delete(["e1"])
whole = numpy_store.encode_snapshot

def dying(image, fingerprint):
    parts = list(whole(image, fingerprint))
    yield from parts[: len(parts) // 2]
    os._exit(9)

numpy_store.encode_snapshot = dying
store.save()
"""


def test_a_process_dying_during_a_save_leaves_the_earlier_snapshot(tmp_path: Path) -> None:
    path = saved(tmp_path / "pets")
    before = path.read_bytes()
    root = str(Path(__file__).resolve().parents[2])
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], env={"PYTHONPATH": root}, timeout=300, check=False)
    assert done.returncode == 9
    assert path.read_bytes() == before
    assert NumpyStore.open(path).get(["e1"]) != [None]


def test_a_snapshot_backup_replaces_no_existing_file(tmp_path: Path) -> None:
    path = saved(tmp_path / "pets")
    with pytest.raises(ArgumentError, match="path"):
        filled().backup(path)
    store = NumpyStore.open(path)
    store.backup(tmp_path / "copy")
    assert everything(NumpyStore.open(tmp_path / "copy")) == everything(store)


def test_saving_a_snapshot_inside_a_transaction_is_refused(tmp_path: Path) -> None:
    store = filled()
    for call in (store.save, store.backup):
        with store.transaction(), pytest.raises(UnsupportedError):
            call(tmp_path / "pets")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_store_is_not_saved(tmp_path: Path) -> None:
    store = filled()
    store.close()
    for call in (store.save, store.backup):
        with pytest.raises(StoreClosed):
            call(tmp_path / "pets")


def test_saving_a_snapshot_without_a_valid_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="path"):
        filled().save()
    bad: list[Any] = [7, "", "a\0b", ":memory:", b"pets"]
    for path in bad:
        with pytest.raises(ArgumentError):
            filled().save(path)


def test_a_deleted_entry_is_in_no_byte_of_the_next_snapshot(tmp_path: Path) -> None:
    store = NumpyStore(space=TOY)
    store.upsert(
        [entry("kept", [1, 0], "zorb"), Entry("a", [0.123, 0.456], "secretword", "contextword", {"k": "meta"})]
    )  # type: ignore[arg-type]
    store.search_text("secretword")
    for remove in (store.delete, store.erase):
        store.save(tmp_path / "pets")
        assert b"secretword" in (tmp_path / "pets").read_bytes()
        remove(["a"])
        store.save(tmp_path / "pets")
        left = (tmp_path / "pets").read_bytes()
        vector = np.array([0.123, 0.456], dtype=np.float32).tobytes()
        secrets = (b"secretword", b"contextword", b"meta\x22", vector)
        assert [secret for secret in secrets if secret in left] == []
        store.upsert([Entry("a", [0.123, 0.456], "secretword", "contextword", {"k": "meta"})])  # type: ignore[arg-type]


# By its address.


def test_a_store_opened_by_a_numpy_url_persists_when_saved(tmp_path: Path) -> None:
    url = f"numpy:///{tmp_path}/pets%20and%20more"
    store = open_store(url, space=TOY, fields=("x",))
    store.upsert([entry("a", [1, 0], x=1)])
    assert open_store(url).count() == 0
    assert isinstance(store, NumpyStore)
    store.save()
    again = open_store(url)
    assert (again.space, again.fields, again.count()) == (TOY, ("x",), 1)
    assert (tmp_path / "pets and more").is_file()


def test_a_numpy_url_with_three_slashes_is_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("numpy:///pets")
    assert isinstance(store, NumpyStore)
    store.save()
    assert (tmp_path / "pets").is_file()


@pytest.mark.parametrize("url", ["numpy:/", "numpy://", "numpy:///", "numpy:pets", "numpy://host/pets"])
def test_a_malformed_numpy_url_is_refused(url: str) -> None:
    with pytest.raises(ArgumentError, match="url"):
        open_store(url)


def test_opening_a_snapshot_with_a_setting_other_than_recorded_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "pets")
    NumpyStore.open(path, space=TOY, analyzer=Analyzer("german"), fields=("x", "deep.y"))
    with pytest.raises(SpaceMismatch):
        NumpyStore.open(path, space=WIDE)
    with pytest.raises(SettingMismatch, match="analyzer"):
        NumpyStore.open(path, analyzer=Analyzer("english"))
    with pytest.raises(SettingMismatch, match="fields"):
        NumpyStore.open(path, fields=("x",))
    with pytest.raises(ArgumentError, match="matrix_limit"):
        open_store(f"numpy:///{path}", matrix_limit=0)


def test_a_snapshot_without_a_space_takes_the_space_given_on_opening(tmp_path: Path) -> None:
    store = NumpyStore()
    store.upsert([entry("a", text="zorb")])
    store.save(tmp_path / "pets")
    again = NumpyStore.open(tmp_path / "pets", space=TOY)
    assert again.put_vectors({"a": [1, 0]}) == 1
    assert [match.entry.id for match in again.search([1, 0])] == ["a"]
