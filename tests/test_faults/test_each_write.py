"""Every way of writing, stopped at each of its writes: whole or not there, nothing half-written, and made again.

Inner parts, on no face: ``tellback.memory.entry_store``, ``tellback.memory.retrieval.index``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from tempfile import mkdtemp
from unittest import mock

import pytest

from tellback.memory import DatabaseHistory, LongTermMemory, run_sync
from tellback.memory.entry_store import EntryStore
from tellback.memory.retrieval.index import index_sync
from tellback.vectorstore import SqliteStore, open_store
from tellback.vectorstore.sqlite import SqliteDatabase
from tests.test_faults.conftest import Campaign
from tests.test_faults.each_write import Bench, killed_at_each_commit, wrong_when_ended, wrong_when_refused
from tests.test_faults.statements import Disk, Statements
from tests.test_faults.tried_on import HISTORY, turn
from tests.test_faults.write_paths import APART, PATHS, WritePath

_MEMORY = Path("/dev/shm")
FAST = ("remember a turn", "correct", "forget", "import what is other", "switch")
each_path = pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path.name in FAST else pytest.mark.slow) for path in PATHS],
    ids=lambda path: path.name,
)


@pytest.fixture(scope="module", params=[False], ids=["one file"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    # In memory where that can be: what is flushed to a disk and when is tried by the tests of power and disks.
    folder = tmp_path_factory.mktemp("bench") if not os.access(_MEMORY, os.W_OK) else Path(mkdtemp(dir=_MEMORY))
    with mock.patch.object(index_sync, "_MIN_SAVED_ROWS", 1):  # so that a small memory has what recall derives, too
        yield Bench(folder, apart=request.param)
    shutil.rmtree(folder)


@each_path
def test_a_process_ending_after_any_commit_leaves_each_write_whole_or_absent(bench: Bench, path: WritePath) -> None:
    commits, wrong = wrong_when_ended(bench, path)
    assert wrong == []
    assert commits > 0


@pytest.mark.slow
@each_path
def test_a_failing_write_leaves_nothing_and_can_be_repeated(bench: Bench, path: WritePath, campaign: Campaign) -> None:
    failures, wrong = wrong_when_refused(bench, path, most=None if campaign.full else 6 if path.steps else 16)
    assert wrong == []
    assert failures > 0


@pytest.mark.slow
@pytest.mark.parametrize("bench", [True], ids=["history apart"], indirect=True)
@pytest.mark.parametrize("path", APART, ids=lambda path: path.name)
def test_with_a_separate_history_file_an_interrupted_write_is_completed_by_opening_and_retry(
    bench: Bench, path: WritePath
) -> None:
    commits, wrong = wrong_when_ended(bench, path)
    assert wrong == []
    assert commits > 1


def test_opening_beside_an_in_memory_store_remembers_history_messages_not_yet_remembered(tmp_path: Path) -> None:
    file, states = tmp_path / HISTORY, []
    disk = Disk(file)

    def committed(name: str) -> None:
        if name:  # a file's; the database of the store in memory commits too
            states.append(tmp_path / str(len(states)))
            disk.keep(states[-1])

    def remembered(database: SqliteDatabase) -> list[str]:
        memory = LongTermMemory(open_store("numpy:"), history=DatabaseHistory(database))
        memory.complete_now()
        return sorted(item.text for item in run_sync(memory.list()))

    with Statements() as statements, SqliteDatabase(file) as database:
        memory = LongTermMemory(open_store("numpy:"), history=DatabaseHistory(database))
        statements.committed = committed
        run_sync(memory.remember_turn("talk", turn("My dog is called Okapi", "I see")))
    disk.close()
    with SqliteDatabase(states[0] / HISTORY) as left:
        assert remembered(left) == ["I see", "My dog is called Okapi"]
    with SqliteDatabase(states[-1] / HISTORY) as left:  # commits of the store in memory are among them
        assert remembered(left) == []  # it was remembered, by a store that is gone


@pytest.mark.slow
def test_a_process_killed_after_any_commit_leaves_each_write_whole_or_absent(
    campaign: Campaign, tmp_path: Path
) -> None:
    names = [path.name for path in PATHS] if campaign.full else list(FAST)
    report = campaign.run(killed_at_each_commit, folder=str(tmp_path), names=names)
    assert report["broken"] == []
    assert report["kills"] >= 2 * len(names)


@pytest.mark.slow
@pytest.mark.parametrize("found_by", [wrong_when_ended, wrong_when_refused], ids=["ended", "refused"])
@pytest.mark.parametrize(
    "path", [path for path in PATHS if path.name in ("correct", "forget", "pin")], ids=lambda path: path.name
)
def test_a_memory_without_transactions_is_caught(
    found_by: Callable[[Bench, WritePath], tuple[int, list[str]]], path: WritePath, bench: Bench
) -> None:
    with mock.patch.object(SqliteStore, "transaction", return_value=nullcontext()):
        assert found_by(bench, path)[1] != []


@pytest.mark.slow
@pytest.mark.parametrize("bench", [True], ids=["history apart"], indirect=True)
def test_a_planted_memory_settling_history_before_its_commit_is_caught(bench: Bench) -> None:
    with mock.patch.object(EntryStore, "history_apart", False):
        assert wrong_when_ended(bench, APART[0])[1] != []
