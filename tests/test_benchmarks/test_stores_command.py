"""``python -m benchmarks stores`` whole, on few rows and the stores that need no extra; and its guards."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.stores import clustered, contenders, guards
from benchmarks.stores import measures as m
from benchmarks.stores.contenders import BY_KEY, missing
from benchmarks.stores.measurement import Results, read_results


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Results:
    out = tmp_path_factory.mktemp("results") / "stores.json"
    stores = "bare,sqlite-vec-fts5,tellback-numpy,tellback-sqlite"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("TELLBACK_BENCH_DATA", raising=False)
        assert main(["stores", "--quick", "--sizes", "1000", "--stores", stores, "--json", str(out)]) == 0
    return read_results(out)


@pytest.mark.slow
def test_the_stores_benchmark_has_every_figure_each_store_supports(found: Results) -> None:
    assert found.failures == []
    names = {
        "search": {m.SEARCH},
        "filter": set(m.FILTERS),
        "many": {m.MANY},
        "text": {m.TEXT},
        "add": {m.ADD},
        "delete": {m.DELETE},
        "file": {m.FILE},
        "cold": {m.COLD},
        "memory": {m.MEMORY},
    }
    for key in dict.fromkeys(hit.store for hit in found.measurements if hit.store in BY_KEY):
        got = {hit.measure for hit in found.measurements if hit.store == key}
        wanted = set().union(*(names[hit] for hit in BY_KEY[key].measures if hit in names))
        assert wanted <= got, key
    assert {m.SEEN, m.SEEN_ELSEWHERE, m.TINY} <= {
        hit.measure for hit in found.measurements if hit.store == "tellback-sqlite"
    }


@pytest.mark.slow
def test_exact_stores_have_whole_recall(found: Results) -> None:
    taken = [measurement for measurement in found.measurements if measurement.recall is not None]
    assert len(taken) > 10
    assert {measurement.recall for measurement in taken} == {1.0}


@pytest.mark.slow
def test_a_run_says_how_it_was_made(found: Results) -> None:
    assert found.about["machine"]
    assert found.about["at"]
    assert found.about["rows"][0].startswith("1,000 clustered: mixture")
    assert found.about["command"].startswith("python -m benchmarks stores --quick")
    assert "/" not in found.about["command"]  # no folder of this machine


@pytest.mark.slow
def test_a_peer_that_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(contenders, "version_of", lambda package: "-" if package == "lancedb" else "1")
    assert "lancedb is not installed" in str(missing(BY_KEY["lancedb"]))
    out = tmp_path / "stores.json"
    assert main(["stores", "--quick", "--sizes", "1000", "--stores", "lancedb", "--json", str(out)]) == 0
    assert "LanceDB flat: not measured: lancedb is not installed" in " ".join(capsys.readouterr().out.split())
    assert [(failure.store, failure.what) for failure in read_results(out).failures] == [("lancedb", "everything")]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--sizes", "10"], "1000 rows or more"),
        (["--stores", "bare,typo"], "no store typo"),
        (["--json", "nowhere/at/all.json"], "there is no folder"),
    ],
)
def test_a_bad_argument_is_refused_before_anything_runs(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["stores", *arguments])
    assert complaint in capsys.readouterr().err


@pytest.fixture
def few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let made-up rows have few different words: making them takes the time."""
    monkeypatch.setattr(clustered, "_WORDS", 4_000)


@pytest.mark.slow
@pytest.mark.usefixtures("few_words")
def test_the_guard_of_namespaces_measures_one_alone_and_among_others(tmp_path: Path) -> None:
    times = guards.namespaces(tmp_path, 30, seed=2)
    assert set(times) == {m.SEARCH, m.TEXT, m.ADD, "count"}
    assert all(len(blocks[place]) == 5 for blocks in times.values() for place in ("alone", "among"))


@pytest.mark.usefixtures("few_words")
def test_the_guard_of_freshness_refuses_a_file_of_other_rows(tmp_path: Path) -> None:
    clustered.make(tmp_path / "data", n=4, d=8, seed=1, queries=2)
    from benchmarks.stores.adapters.tellback import TellbackSqlite
    from benchmarks.stores.data import Data

    data = Data(tmp_path / "data")
    store = TellbackSqlite(tmp_path, 8, 4)
    store.add([data.row(number) for number in range(4)])
    store.close()
    assert len(guards.tiny(tmp_path, 4, seed=1)) == 5
    with pytest.raises(ValueError, match="does not hold 9 rows"):
        guards.tiny(tmp_path, 9, seed=1)
