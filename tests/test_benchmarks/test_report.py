"""The page is rendered from measurements alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.stores import measures as m
from benchmarks.stores.contenders import CONTENDERS
from benchmarks.stores.goals import outcomes
from benchmarks.stores.measurement import Failure, Measurement, Results, ratio, read_results
from benchmarks.stores.page import failures_text, goals_text, guards_text, page

ROOT = Path(__file__).resolve().parents[2]
ABOUT = {
    "machine": "a machine",
    "at": "today",
    "seed": 7,
    "versions": {"numpy": "2"},
    "rows": ["10 clustered: drawn"],
    "command": "python -m benchmarks stores",
}


def measured(store: str, measure: str, *values: float, n: int = 10_000, data: str = "clustered", **more) -> Measurement:
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    return Measurement(store, measure, middle, ordered[-1], len(values), values, data, n, 384, **more)


def of(*found: Measurement) -> Results:
    return Results(ABOUT, list(found))


def whole() -> Results:
    """A results file in which every store has every figure, larger by its place and by the number of rows."""
    reading = [m.SEARCH, *m.FILTERS, m.MANY, m.TEXT]
    found = [measured(m.IMPORTS, m.COLD, 90.0, n=n) for n in (1_000, 10_000, 100_000)]
    for n in (1_000, 10_000, 100_000):
        for place, item in enumerate(CONTENDERS, 1):
            for measure in [item for item in m.MEANING if item not in reading]:
                found.append(measured(item.key, measure, place * n / 1e4, place * n / 9e3, n=n))
            for measure in reading:
                for data in ("clustered", "real"):
                    value = place * n / 1e4
                    found.append(measured(item.key, measure, value, value * 1.1, n=n, data=data, recall=0.995))
    return of(*found)


def goal(found: Results, what: str, n: int, data: str = "clustered"):
    (outcome,) = [
        outcome
        for outcome in outcomes(found)
        if outcome.what.startswith(what) and (outcome.n, outcome.data) == (n, data)
    ]
    return outcome


def test_a_ratio_pairs_the_rounds() -> None:
    upper, lower = measured("a", m.SEARCH, 2.0, 6.0, 9.0), measured("b", m.SEARCH, 1.0, 2.0, 3.0)
    given = ratio(upper, lower)
    assert (given.value, given.low, given.high) == (3.0, 2.0, 3.0)
    assert str(given) == "3 × (2 to 3)"


def test_a_ratio_of_unlike_rounds_has_the_spread_of_extremes() -> None:
    given = ratio(measured("a", m.SEARCH, 2.0, 6.0, 9.0), measured("b", m.SEARCH, 1.0, 2.0))
    assert (given.low, given.high) == (1.0, 9.0)


def test_the_best_peer_is_the_quickest_persistent_one() -> None:
    found = of(
        measured("tellback-numpy", m.SEARCH, 0.1),
        measured("chroma", m.SEARCH, 5.0),
        measured("lancedb-indexed", m.SEARCH, 4.0),
        measured("tellback-sqlite", m.SEARCH, 1.0),
    )
    given = goal(found, "exact search, faster", 10_000)
    assert "lancedb-indexed" in given.what
    assert given.reached.startswith("4 ×")
    assert given.met is False  # five times is the goal


def test_a_speed_goal_of_a_filtered_search_also_needs_full_recall() -> None:
    slow = measured("chroma", "filter 10 %", 9.0, recall=1.0)
    for recall, met in ((1.0, True), (0.99, False), (None, False)):
        ours = measured("tellback-sqlite", "filter 10 %", 1.0, recall=recall)
        given = goal(of(slow, ours), "filter 10 %", 10_000)
        assert given.met is met
        assert ("not taken" in given.reached) == (recall is None)


def test_the_memory_goal_counts_megabytes_above_the_vectors() -> None:
    vectors = 100_000 * 384 * 4 / 1e6
    for above, met in ((119.0, True), (121.0, False)):
        given = goal(of(measured("tellback-sqlite", m.MEMORY, vectors + above, n=100_000)), "memory", 100_000)
        assert given.met is met
        assert given.reached == f"{above:.0f} MB"


def test_a_goal_without_measurement_has_a_line_saying_not_measured() -> None:
    given = outcomes(Results())
    assert len(given) > 40
    assert {item.met for item in given} == {None}
    assert {item.reached for item in given} == {"not measured"}
    assert goals_text(Results()).count("\n") == 1


def test_missing_peers_and_failures_are_named_with_the_reason() -> None:
    failures = [
        Failure("lancedb", "everything", "lancedb is not installed"),
        Failure("chroma", "delete 1", "it refused", "clustered", 1_000),
        Failure("chroma", "delete 1", "it refused", "clustered", 10_000),
    ]
    found = Results(ABOUT, failures=failures)
    given = failures_text(found)
    assert "- LanceDB flat: everything: lancedb is not installed (any rows)." in given
    assert "- Chroma: delete 1: it refused (clustered 1,000, clustered 10,000)." in given
    assert given in page(found)


def test_the_benchmark_page_begins_with_the_winners_and_shows_every_store() -> None:
    given = page(whole())
    heads = [line for line in given.splitlines() if line.startswith("## ")]
    assert heads[:2] == ["## Who wins where", "## Not measured"]
    for item in CONTENDERS:
        assert f"| {item.title}" in given
    for text in ("a machine", "python -m benchmarks stores", "numpy 2", "### 100,000 rows", "10 clustered: drawn"):
        assert text in given
    assert "not measured |" not in goals_text(whole())


def test_growth_is_computed_from_the_measured_sizes() -> None:
    given = guards_text(
        of(measured("tellback-sqlite", m.ADD, 2.0, n=1_000), measured("tellback-sqlite", m.ADD, 2.2, n=100_000))
    )
    assert "2 ms at 1,000, 2.2 ms at 100,000: 1.1 ×" in given
    assert guards_text(Results()) == "Not measured in this run."


def test_a_run_survives_its_file_and_what_is_none_is_named(tmp_path: Path) -> None:
    path, found = tmp_path / "stores.json", whole()
    found.failures.append(Failure("chroma", "delete 1", "it refused", "real", 10))
    found.measurements.append(measured("é", m.SEARCH, 1.0, recall=0.5, note="more"))
    found.write(path)
    assert read_results(path) == found
    for text in ("not json", "[]", '{"about": {}, "measurements": [{"store": "x"}], "failures": []}'):
        path.write_text(text, "utf-8")
        with pytest.raises(ValueError, match=r"stores\.json: not the results of `stores`"):
            read_results(path)


def test_the_command_renders_a_page(tmp_path: Path) -> None:
    whole().write(tmp_path / "stores.json")
    assert main(["stores-report", str(tmp_path / "stores.json"), "--docs", str(tmp_path / "docs")]) == 0
    assert (tmp_path / "docs" / "benchmarks.md").read_text("utf-8") == page(whole())


def test_the_committed_benchmark_page_equals_the_page_of_the_committed_results() -> None:
    results = read_results(ROOT / "benchmarks" / "results" / "stores.json")
    assert (ROOT / "docs" / "appendix" / "benchmarks.md").read_text("utf-8") == page(results)
