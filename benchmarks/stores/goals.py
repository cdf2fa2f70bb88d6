"""The goals of the store as lines: the two figures compared, their ratio, and whether the goal is met."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.stores import measures as m
from benchmarks.stores.measurement import Results, ratio

_BOTH = ("clustered", "real")
_FILE, _MEMORY, _BY_HAND = "tellback-sqlite", "tellback-numpy", "sqlite-vec"
_ABOVE_VECTORS = 120.0
"""Megabytes that a store may take beside its vectors, of 100,000 rows."""


class Goal(NamedTuple):
    """*what* is to be reached: *store* at least *least* times as fast as another, or at most *most* times as slow.

    The other is *than*, by the same measure unless *by* names one, or the best peer where it is empty.
    """

    what: str
    measure: str
    data: str
    n: int
    least: float = 0.0
    most: float = 0.0
    store: str = _FILE
    than: str = ""
    by: str = ""
    recall: float | None = None


class Outcome(NamedTuple):
    """One goal at one size: *reached* in words, *met* None where something was not measured."""

    what: str
    data: str
    n: int
    goal: str
    reached: str
    met: bool | None


def goals() -> Iterator[Goal]:
    """Yield every goal that is a ratio."""
    for data in _BOTH:
        for store, name in ((_FILE, "in a file"), (_MEMORY, "in memory")):
            for n, most in ((1_000, 2.5), (10_000, 1.5), (100_000, 1.15)):
                what = f"exact search {name}, slower than bare numpy"
                yield Goal(what, m.SEARCH, data, n, most=most, store=store, than="bare")
        for n, least in ((1_000, 2.5), (10_000, 5.0)):
            yield Goal("exact search, faster", m.SEARCH, data, n, least)
        for n, limits in ((10_000, (8.0, 8.0, 5.0)), (100_000, (15.0, 6.0, 2.5))):
            for measure, least in zip(m.FILTERS, limits, strict=True):
                yield Goal(f"{measure}, faster", measure, data, n, least, recall=1.0)
        for n, least in ((10_000, 2.0), (100_000, 0.9)):
            yield Goal(f"{m.MANY}, faster", m.MANY, data, n, least, recall=1.0)
        for n, least in ((10_000, 3.0), (100_000, 10.0)):
            yield Goal("text search, faster than FTS5", m.TEXT, data, n, least, than="sqlite-vec-fts5")
        tenth = {"measure": m.SEARCH, "data": data, "n": 100_000, "store": "tellback-tenth", "recall": 1.0}
        yield Goal("a tenth in memory, slower than vec0 by hand", most=2.0, than=_BY_HAND, **tenth)  # type: ignore[arg-type]
        over_rows = "a tenth in memory, slower than vec_distance_cosine over rows"
        yield Goal(over_rows, most=1.15, than="sqlite-rows", **tenth)  # type: ignore[arg-type]
    yield Goal("faster mode, faster", m.SEARCH, "real", 100_000, 2.0, store="tellback-sqlite-faster", recall=0.99)
    for measure, least in ((m.BULK, 1.0), (m.BULK_TEXT, 0.3)):
        what = f"{measure}, rate beside sqlite-vec by hand"
        yield Goal(what, measure, "clustered", 100_000, least, than=_BY_HAND)
    for n in (10_000, 100_000):
        one = "one durable upsert, slower than a bare SQLite row"
        yield Goal(one, m.ADD, "clustered", n, most=2.0, than="sqlite-rows")
        for measure in (m.SEEN, m.SEEN_ELSEWHERE):
            yield Goal(f"{measure}, faster", measure, "clustered", n, 4.0)
    for measure in (m.COLD, m.COLD_TEXT):
        for n, most in ((10_000, 1.7), (100_000, 6.0)):
            what = f"{measure}, slower than the imports alone"
            yield Goal(what, measure, "clustered", n, most=most, than=m.IMPORTS, by=m.COLD)
    what = "file, larger than that of sqlite-vec by hand"
    yield Goal(what, m.FILE, "clustered", 100_000, most=1.5, than=_BY_HAND)


def outcomes(results: Results) -> list[Outcome]:
    """Return every line of the goals, in their order."""
    return [*(_outcome(results, goal) for goal in goals()), _above_vectors(results)]


def _outcome(results: Results, goal: Goal) -> Outcome:
    ours = results.get(goal.store, goal.measure, goal.data, goal.n)
    where = (goal.by or goal.measure, goal.data, goal.n)
    theirs = results.get(goal.than, *where) if goal.than else results.best_peer(*where)
    what = goal.what + ("" if goal.than else " than the best peer" + (f" ({theirs.store})" if theirs else ""))
    wanted = f"≥ {goal.least:g} ×" if goal.least else f"≤ {goal.most:g} ×"
    if ours is None or theirs is None:
        return Outcome(what, goal.data, goal.n, wanted, "not measured", None)
    pair = (theirs, ours) if goal.least and not m.is_rate(goal.measure) else (ours, theirs)
    reached = ratio(*pair)
    met = reached.value >= goal.least if goal.least else reached.value <= goal.most
    said = str(reached)
    if goal.recall is not None:
        wanted += f", recall {goal.recall:.2f}"
        said += ", recall not taken" if ours.recall is None else f", recall {ours.recall:.3f}"
        met = met and ours.recall is not None and ours.recall >= goal.recall
    return Outcome(what, goal.data, goal.n, wanted, said, met)


def _above_vectors(results: Results) -> Outcome:
    what, wanted = "memory above the vectors", f"≤ {_ABOVE_VECTORS:.0f} MB"
    memory = results.get(_FILE, m.MEMORY, "clustered", 100_000)
    if memory is None:
        return Outcome(what, "clustered", 100_000, wanted, "not measured", None)
    above = memory.p50 - memory.n * memory.d * 4 / 1e6
    return Outcome(what, "clustered", memory.n, wanted, f"{above:.0f} MB", above <= _ABOVE_VECTORS)
