"""``python -m benchmarks stores`` whole, on few rows and the stores that need no extra; and its guards."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.stores import clustered, contenders, guards
from benchmarks.stores import measures as m
from benchmarks.stores.contenders import BY_KEY, missing
from benchmarks.stores.results import Measurement, read_results


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Measurement]:
    out = tmp_path_factory.mktemp("results")
    stores = "bare,sqlite-vec-fts5,tellback-numpy,tellback-sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TELLBACK_BENCH_DATA", raising=False)
        assert main(["stores", "--quick", "--sizes", "1000", "--stores", stores, "--out", str(out)]) == 0
    return read_results(out)


@pytest.mark.slow
def test_the_stores_benchmark_has_every_figure_each_store_supports(found: list[Measurement]) -> None:
    assert [hit.note for hit in found if hit.measure == m.NOT_MEASURED] == []
    names = {
        "search": {m.SEARCH},
        "filter": set(m.FILTERS),
        "many": {m.MANY},
        "text": {m.TEXT},
        "add": {m.ADD},
        "delete": {m.DELETE, m.DELETE_MANY},
        "file": {m.FILE},
        "cold": {m.COLD},
        "memory": {m.MEMORY},
    }
    for key in dict.fromkeys(hit.store for hit in found if hit.store in BY_KEY):
        got = {hit.measure for hit in found if hit.store == key}
        wanted = set().union(*(names[hit] for hit in BY_KEY[key].measures if hit in names))
        assert wanted <= got, key
    assert {m.SEEN, m.SEEN_ELSEWHERE, m.TINY} <= {hit.measure for hit in found if hit.store == "tellback-sqlite"}


@pytest.mark.slow
def test_exact_stores_have_whole_recall(found: list[Measurement]) -> None:
    taken = [measurement for measurement in found if measurement.recall is not None]
    assert len(taken) > 10
    assert {measurement.recall for measurement in taken} == {1.0}


@pytest.mark.slow
def test_each_measurement_says_how_it_was_made(found: list[Measurement]) -> None:
    for measurement in found:
        assert measurement.machine
        assert measurement.date
        assert measurement.command.startswith("python -m benchmarks stores --quick")
        assert "/" not in measurement.command  # no folder of this machine
        assert measurement.min <= measurement.p50 <= measurement.max


@pytest.mark.slow
def test_a_peer_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find_spec = contenders.find_spec
    monkeypatch.setattr(contenders, "find_spec", lambda name: None if name == "lancedb" else find_spec(name))
    assert "lancedb is not installed" in str(missing(BY_KEY["lancedb"]))
    out = tmp_path
    assert main(["stores", "--quick", "--sizes", "1000", "--stores", "lancedb", "--out", str(out)]) == 0
    assert "LanceDB flat: not measured: lancedb is not installed" in " ".join(capsys.readouterr().out.split())
    named = [measurement for measurement in read_results(out) if measurement.measure == m.NOT_MEASURED]
    assert [(measurement.store, measurement.note.partition(":")[0]) for measurement in named] == [
        ("lancedb", "everything")
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--sizes", "10"], "1000 rows or more"),
        (["--stores", "bare,typo"], "no store typo"),
        (["--out", "nowhere/at/all"], "there is no folder"),
    ],
)
def test_a_bad_argument_is_refused_before_anything_runs(arguments: list[str], complaint: str) -> None:
    with pytest.raises(SystemExit, match=complaint):
        main(["stores", *arguments])


def test_the_guard_of_namespaces_measures_one_alone_and_among_others(tmp_path: Path) -> None:
    times = guards.namespaces(tmp_path, 30, seed=2)["times"]
    assert set(times) == {m.SEARCH, m.TEXT, m.ADD, "count"}
    assert all(len(blocks[place]) == 5 for blocks in times.values() for place in ("alone", "among"))


def test_the_guard_of_freshness_refuses_a_file_of_other_rows(tmp_path: Path) -> None:
    clustered.make(tmp_path / "data", n=4, d=8, seed=1, queries=2)
    from benchmarks.stores.adapters.tellback import TellbackSqlite
    from benchmarks.stores.data import Data

    data = Data(tmp_path / "data")
    store = TellbackSqlite(tmp_path, 8, 4)
    store.add([data.row(number) for number in range(4)])
    store.close()
    assert len(guards.tiny(tmp_path, 4, seed=1)["times"]) == 5
    with pytest.raises(ValueError, match="does not hold 9 rows"):
        guards.tiny(tmp_path, 9, seed=1)


def test_the_guard_of_many_rows_searches_them_in_memory_and_in_sql(tmp_path: Path) -> None:
    million = guards.million(tmp_path, 2_000, seed=3)
    assert million["loaded"] > 0
    assert million["size"] > 2_000 * 256 * 4 / 1e6
    assert len(million["memory"]["times"]) == len(million["sql"]["times"]) == 7
