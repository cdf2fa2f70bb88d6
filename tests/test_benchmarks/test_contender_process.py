"""The parent asks in turns; a store that fails is named and left out, and never ends the run."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from benchmarks.stores import clustered
from benchmarks.stores.asking import Asked, StoreFailed, in_turns
from benchmarks.stores.contenders import BY_KEY, Contender


class FakeStore:
    """A fake worker: it has a contender, and the test decides its answers."""

    def __init__(self, key: str) -> None:
        self.contender = BY_KEY[key]


def turns(call, keys=("bare", "tellback-numpy"), rounds=4, **more):
    complaints: list[tuple[str, str]] = []
    counted = in_turns(
        [FakeStore(key) for key in keys],
        rounds,
        call,
        random.Random(1),
        failed=lambda contender, why: complaints.append((contender.key, why)),
        **more,
    )
    return counted, complaints


def test_each_store_is_asked_once_a_round_and_the_first_two_calls_are_not_counted() -> None:
    asked = []

    def call(store, position):
        asked.append((position, store.contender.key))
        return [9.0, 9.0, 1.0, 2.0]

    counted, complaints = turns(call)
    assert counted == {"bare": [[1.0, 2.0]] * 4, "tellback-numpy": [[1.0, 2.0]] * 4}
    assert complaints == []
    assert [position for position, _ in asked] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (
        len({tuple(key for position, key in asked if position == number) for number in range(4)}) == 2
    )  # the order changes


def test_a_short_block_of_samples_loses_at_most_half() -> None:
    assert turns(lambda store, at: [5.0, 1.0], rounds=1)[0]["bare"] == [[1.0]]
    assert turns(lambda store, at: [5.0], rounds=1)[0]["bare"] == [[5.0]]


def test_a_store_that_fails_is_named_and_asked_no_more() -> None:
    calls = []

    def call(store, at):
        calls.append(store.contender.key)
        if store.contender.key == "tellback-numpy":
            raise StoreFailed("it is tired")
        return [1.0]

    counted, complaints = turns(call)
    assert complaints == [("tellback-numpy", "it is tired")]
    assert "tellback-numpy" not in counted
    assert calls.count("tellback-numpy") == 1
    assert calls.count("bare") == 4


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(clustered, "_WORDS", 4_000)  # making words takes the time
    clustered.make(tmp_path / "data", n=50, d=8, seed=3, queries=4)
    return tmp_path / "data"


@pytest.mark.slow
def test_an_adapter_that_cannot_start_says_why(tmp_path: Path, data: Path) -> None:
    broken = Contender("x", "x", "nothing:Here", "numpy", "numpy", frozenset({"search"}))
    with pytest.raises(StoreFailed, match=r"No module named 'benchmarks\.stores\.adapters\.nothing'"):
        Asked(broken, tmp_path / "store", data)


@pytest.mark.slow
def test_a_call_that_fails_leaves_the_worker_able_to_go_on(tmp_path: Path, data: Path) -> None:
    store = Asked(BY_KEY["bare"], tmp_path / "store", data)
    try:
        store.ask("fill", text=True)
        with pytest.raises(StoreFailed, match="NotImplementedError"):
            store.ask("timed", what="text", start=0, calls=1, seconds=1, k=10)
        assert len(store.ask("answers", count=2, k=3)["ids"]) == 2
    finally:
        store.close()


@pytest.mark.skipif(os.name != "posix", reason="a script stands where Python does")
def test_a_store_that_does_not_answer_is_given_up(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = tmp_path / "silent"
    silent.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    silent.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(silent))
    with pytest.raises(StoreFailed, match="its process ended"):
        Asked(BY_KEY["bare"], tmp_path / "store", data, patience=0.01)
