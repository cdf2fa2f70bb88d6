"""The goals of the store as lines: the two figures compared, their ratio, and whether the goal is met."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.stores import measures as m
from benchmarks.stores.figures import Figures, Ratio, ratio
from benchmarks.stores.results import Measurement

_BOTH = ("clustered", "real")
_RECALL = 0.99
_ABOVE_VECTORS = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One goal at one size: *reached* in words, *met* None where something was not measured."""

    what: str
    data: str
    n: int
    goal: str
    reached: str
    met: bool | None


def outcomes(figures: Figures) -> list[Outcome]:
    """Return every line of the goals, in their order."""
    return [*_searching(figures), *_writing(figures), *_keeping(figures)]


def _searching(figures: Figures) -> Iterator[Outcome]:
    for store, name in (("tellback-sqlite", "in a file"), ("tellback-numpy", "in memory")):
        for n, limit in ((1_000, 2.5), (10_000, 1.5), (100_000, 1.15)):
            for data in _BOTH:
                ours, bare = figures.get(store, m.SEARCH, data, n), figures.get("bare", m.SEARCH, data, n)
                yield _at_most(f"exact search {name}, slower than bare numpy", data, n, ours, bare, limit)
    for n, limit in ((1_000, 2.5), (10_000, 5.0)):
        for data in _BOTH:
            yield _faster(figures, "exact search", "tellback-sqlite", m.SEARCH, data, n, limit)
    yield _faster(figures, "faster mode", "tellback-sqlite-faster", m.SEARCH, "real", 100_000, 2.0, recall=_RECALL)
    for n, limits in ((10_000, (8.0, 8.0, 5.0)), (100_000, (15.0, 6.0, 2.5))):
        for measure, limit in zip(m.FILTERS, limits, strict=True):
            for data in _BOTH:
                yield _faster(figures, measure, "tellback-sqlite", measure, data, n, limit, recall=1.0)
    for n, limit in ((10_000, 2.0), (100_000, 0.9)):
        for data in _BOTH:
            yield _faster(figures, m.MANY, "tellback-sqlite", m.MANY, data, n, limit, recall=1.0)
    for n, limit in ((10_000, 3.0), (100_000, 10.0)):
        for data in _BOTH:
            ours, fts5 = (figures.get(key, m.TEXT, data, n) for key in ("tellback-sqlite", "sqlite-vec-fts5"))
            yield _at_least("text search, faster than FTS5", data, n, fts5, ours, limit)


def _writing(figures: Figures) -> Iterator[Outcome]:
    n = 100_000
    for measure, limit in ((m.BULK, 1.0), (m.BULK_TEXT, 0.3)):
        ours, theirs = (figures.get(key, measure, "clustered", n) for key in ("tellback-sqlite", "sqlite-vec"))
        yield _at_least(f"{measure}, rate beside sqlite-vec by hand", "clustered", n, ours, theirs, limit)
    for n in (10_000, 100_000):
        ours, theirs = (figures.get(key, m.ADD, "clustered", n) for key in ("tellback-sqlite", "sqlite-rows"))
        yield _at_most("one durable upsert, slower than a bare SQLite row", "clustered", n, ours, theirs, 2.0)
    for measure in (m.SEEN, m.SEEN_ELSEWHERE):
        for n in (10_000, 100_000):
            yield _faster(figures, measure, "tellback-sqlite", measure, "clustered", n, 4.0)


def _keeping(figures: Figures) -> Iterator[Outcome]:
    for measure in (m.COLD, m.COLD_TEXT):
        for n, limit in ((10_000, 1.7), (100_000, 6.0)):
            ours, base = (
                figures.get("tellback-sqlite", measure, "clustered", n),
                figures.get(m.IMPORTS, m.COLD, "clustered", n),
            )
            yield _at_most(f"{measure}, slower than the imports alone", "clustered", n, ours, base, limit)
    n = 100_000
    for data in _BOTH:
        ours = figures.get("tellback-tenth", m.SEARCH, data, n)
        vec0, rows = (figures.get(key, m.SEARCH, data, n) for key in ("sqlite-vec", "sqlite-rows"))
        yield _at_most("a tenth in memory, slower than vec0 by hand", data, n, ours, vec0, 2.0, recall=1.0)
        yield _at_most(
            "a tenth in memory, slower than vec_distance_cosine over rows", data, n, ours, rows, 1.15, recall=1.0
        )
    ours, theirs = (figures.get(key, m.FILE, "clustered", n) for key in ("tellback-sqlite", "sqlite-vec"))
    yield _at_most("file, larger than that of sqlite-vec by hand", "clustered", n, ours, theirs, 1.5)
    memory = figures.get("tellback-sqlite", m.MEMORY, "clustered", n)
    goal = f"≤ {_ABOVE_VECTORS:.0f} MB"
    if memory is None:
        yield Outcome("memory above the vectors", "clustered", n, goal, "not measured", None)
    else:
        above = memory.p50 - memory.n * memory.d * 4 / 1e6
        yield Outcome("memory above the vectors", "clustered", n, goal, f"{above:.0f} MB", above <= _ABOVE_VECTORS)


def _faster(
    figures: Figures,
    what: str,
    store: str,
    measure: str,
    data: str,
    n: int,
    limit: float,
    *,
    recall: float | None = None,
) -> Outcome:
    ours, best = figures.get(store, measure, data, n), figures.best_peer(measure, data, n)
    named = "" if best is None else f" ({best.store})"
    return _at_least(f"{what}, faster than the best peer{named}", data, n, best, ours, limit, recall=recall, of=ours)


def _at_least(
    what: str,
    data: str,
    n: int,
    upper: Measurement | None,
    lower: Measurement | None,
    limit: float,
    *,
    recall: float | None = None,
    of: Measurement | None = None,
) -> Outcome:
    if upper is None or lower is None:
        return Outcome(what, data, n, f"≥ {limit:g} ×", "not measured", None)
    reached = ratio(upper, lower)
    return _judged(what, data, n, f"≥ {limit:g} ×", reached, reached.value >= limit, recall, of)


def _at_most(
    what: str,
    data: str,
    n: int,
    ours: Measurement | None,
    theirs: Measurement | None,
    limit: float,
    *,
    recall: float | None = None,
) -> Outcome:
    if ours is None or theirs is None:
        return Outcome(what, data, n, f"≤ {limit:g} ×", "not measured", None)
    reached = ratio(ours, theirs)
    return _judged(what, data, n, f"≤ {limit:g} ×", reached, reached.value <= limit, recall, ours)


def _judged(
    what: str,
    data: str,
    n: int,
    goal: str,
    reached: Ratio,
    enough: bool,
    recall: float | None,
    ours: Measurement | None,
) -> Outcome:
    if recall is None:
        return Outcome(what, data, n, goal, str(reached), enough)
    found = ours.recall if ours is not None else None
    stated = "recall not taken" if found is None else f"recall {found:.3f}"
    right = found is not None and found >= recall
    wanted = f"{goal}, recall {recall:.2f}"
    return Outcome(what, data, n, wanted, f"{reached}, {stated}", enough and right)
