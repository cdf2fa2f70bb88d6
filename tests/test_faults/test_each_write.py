"""Every way of writing, stopped at each of its writes: whole or not there, nothing half-written, and made again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from unittest import mock

import pytest

from memory.recall import following
from tests.test_faults.conftest import Campaign
from tests.test_faults.each_write import Bench, wrong_when_ended, wrong_when_refused
from tests.test_faults.write_paths import APART, PATHS, WritePath

_MEMORY = Path("/dev/shm")
each_path = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)


@pytest.fixture(scope="module", params=[False], ids=["one file"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    # In memory where that can be: what is flushed to a disk and when is tried by the tests of power and disks.
    folder = tmp_path_factory.mktemp("bench") if not os.access(_MEMORY, os.W_OK) else Path(mkdtemp(dir=_MEMORY))
    with mock.patch.object(following, "_WORTH_KEEPING", 1):  # so that a small memory has what recall derives, too
        yield Bench(folder, apart=request.param)
    shutil.rmtree(folder)


@each_path
def test_a_process_that_ends_after_any_commit_leaves_all_or_nothing(bench: Bench, path: WritePath) -> None:
    commits, wrong = wrong_when_ended(bench, path)
    assert wrong == []
    assert commits > 0


@each_path
def test_a_write_that_fails_leaves_nothing_and_can_be_made_again(
    bench: Bench, path: WritePath, campaign: Campaign
) -> None:
    failures, wrong = wrong_when_refused(bench, path, most=None if campaign.full else 10 if path.steps else 30)
    assert wrong == []
    assert failures > 0


@pytest.mark.parametrize("bench", [True], ids=["history apart"], indirect=True)
@pytest.mark.parametrize("path", APART, ids=lambda path: path.name)
def test_where_history_is_a_file_of_its_own_opening_completes_what_was_said_and_the_same_call_ends_the_rest(
    bench: Bench, path: WritePath
) -> None:
    commits, wrong = wrong_when_ended(bench, path)
    assert wrong == []
    assert commits > 1
