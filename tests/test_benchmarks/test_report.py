"""The page and the picture are rendered from measurements alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.stores import measures as m
from benchmarks.stores.contenders import CONTENDERS
from benchmarks.stores.figures import Figures, ratio
from benchmarks.stores.goals import outcomes
from benchmarks.stores.page import page
from benchmarks.stores.report import goals_text, guards_text, missing_text
from benchmarks.stores.results import Measurement, read_results, write_results

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def measured(store: str, measure: str, *values: float, n: int = 10_000, data: str = "clustered", **more) -> Measurement:
    ordered = sorted(values)
    kept = {"recall": None, "note": ""} | more
    return Measurement(
        store=store,
        version="1",
        data=data,
        n=n,
        d=384,
        measure=measure,
        unit=m.unit_of(measure),
        p50=ordered[len(ordered) // 2],
        p95=ordered[-1],
        min=ordered[0],
        max=ordered[-1],
        count=len(values),
        rounds=values,
        seed=7,
        machine="a machine",
        command="python -m benchmarks stores",
        date="today",
        **kept,
    )


def whole() -> list[Measurement]:
    """A results file in which every store has every figure, larger by its place and by the number of rows."""
    reading = [m.SEARCH, *m.FILTERS, m.MANY, m.TEXT]
    found = [measured(m.IMPORTS, m.COLD, 90.0, n=n) for n in (1_000, 10_000, 100_000)]
    for n in (1_000, 10_000, 100_000):
        for place, one in enumerate(CONTENDERS, 1):
            for measure in [one for one in m.MEANING if one not in reading]:
                found.append(measured(one.key, measure, place * n / 1e4, place * n / 9e3, n=n))
            for measure in reading:
                for data in ("clustered", "real"):
                    value = place * n / 1e4
                    found.append(measured(one.key, measure, value, value * 1.1, n=n, data=data, recall=0.995))
    return found


def goal(found: list[Measurement], what: str, n: int, data: str = "clustered"):
    (one,) = [one for one in outcomes(Figures(found)) if one.what.startswith(what) and (one.n, one.data) == (n, data)]
    return one


def test_a_ratio_pairs_the_rounds() -> None:
    upper, lower = measured("a", m.SEARCH, 2.0, 6.0, 9.0), measured("b", m.SEARCH, 1.0, 2.0, 3.0)
    told = ratio(upper, lower)
    assert (told.value, told.low, told.high) == (3.0, 2.0, 3.0)
    assert str(told) == "3 × (2 to 3)"


def test_a_ratio_of_unlike_rounds_has_the_spread_of_extremes() -> None:
    told = ratio(measured("a", m.SEARCH, 2.0, 6.0, 9.0), measured("b", m.SEARCH, 1.0, 2.0))
    assert (told.low, told.high) == (1.0, 9.0)


def test_the_best_peer_is_the_quickest_persistent_one() -> None:
    found = [
        measured("hnswlib", m.SEARCH, 0.1),
        measured("chroma", m.SEARCH, 5.0),
        measured("lancedb-indexed", m.SEARCH, 4.0),
        measured("tellback-sqlite", m.SEARCH, 1.0),
    ]
    told = goal(found, "exact search, faster", 10_000)
    assert "lancedb-indexed" in told.what
    assert told.reached.startswith("4 ×")
    assert told.met is False  # five times is the goal


def test_a_speed_goal_of_a_filtered_search_also_needs_full_recall() -> None:
    slow = measured("chroma", "filter 10 %", 9.0, recall=1.0)
    for recall, met in ((1.0, True), (0.99, False), (None, False)):
        ours = measured("tellback-sqlite", "filter 10 %", 1.0, recall=recall)
        told = goal([slow, ours], "filter 10 %", 10_000)
        assert told.met is met
        assert ("not taken" in told.reached) == (recall is None)


def test_the_memory_goal_counts_megabytes_above_the_vectors() -> None:
    vectors = 100_000 * 384 * 4 / 1e6
    for above, met in ((119.0, True), (121.0, False)):
        told = goal([measured("tellback-sqlite", m.MEMORY, vectors + above, n=100_000)], "memory", 100_000)
        assert told.met is met
        assert told.reached == f"{above:.0f} MB"


def test_a_goal_without_measurement_has_a_line_saying_not_measured() -> None:
    told = outcomes(Figures([]))
    assert len(told) > 40
    assert {one.met for one in told} == {None}
    assert {one.reached for one in told} == {"not measured"}
    assert goals_text([], raced_only=True).count("\n") == 2


def test_missing_peers_and_failures_are_named_with_the_reason() -> None:
    found = [
        measured("faiss", m.NOT_MEASURED, 0.0, n=0, note="everything: faiss-cpu is not installed"),
        measured("chroma", m.NOT_MEASURED, 0.0, n=1_000, note="delete 1: it refused"),
        measured("chroma", m.NOT_MEASURED, 0.0, n=10_000, note="delete 1: it refused"),
    ]
    told = missing_text(found)
    assert "- FAISS flat: everything: faiss-cpu is not installed (any rows)." in told
    assert "- Chroma: delete 1: it refused (clustered 1,000, clustered 10,000)." in told
    assert told in page(found)


def test_the_benchmark_page_begins_with_missing_measurements_and_shows_all_others() -> None:
    found = [*whole(), measured("-", m.VERSIONS, 0.0, n=0, note="numpy 2")]
    told = page(found)
    heads = [line for line in told.splitlines() if line.startswith("## ")]
    assert heads[0] == "## What is not measured"
    for one in CONTENDERS:
        assert f"| {one.title}" in told
    for text in ("a machine", "python -m benchmarks stores", "numpy 2", "benchmarks.svg", "### 100,000 rows, real"):
        assert text in told
    assert "not measured |" not in goals_text(found)


def test_growth_is_told_from_the_measured_sizes() -> None:
    told = guards_text(
        [measured("tellback-sqlite", m.ADD, 2.0, n=1_000), measured("tellback-sqlite", m.ADD, 2.2, n=100_000)]
    )
    assert "2 ms at 1,000, 2.2 ms at 100,000: 1.1 ×" in told
    assert guards_text([]) == "Not measured in this run.\n"


def test_the_command_renders_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_results(tmp_path, whole())
    assert main(["stores-report", str(tmp_path), "--docs", str(tmp_path / "docs"), "--no-plot"]) == 0
    assert (tmp_path / "docs" / "benchmarks.md").read_text("utf-8") == page(read_results(tmp_path))
    assert not (tmp_path / "docs" / "benchmarks.svg").exists()


def test_the_picture_is_small_and_has_colours_for_light_and_dark(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed (extra `bench`)")
    from benchmarks.stores.plot import draw

    draw(whole(), tmp_path / "a.svg")
    svg = (tmp_path / "a.svg").read_text("utf-8")
    assert len(svg) < 200_000
    assert "prefers-color-scheme:dark" in svg
    for text in ("Tellback in a file", "LanceDB indexed", "100,000 rows", "text search, six words"):
        assert text in svg


def test_the_committed_benchmark_page_equals_the_page_of_the_committed_results() -> None:
    assert (ROOT / "docs" / "appendix" / "benchmarks.md").read_text("utf-8") == page(read_results(RESULTS))
