"""Measurements as Markdown tables: the goals, the figures of every store, what must not grow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.stores import measures as m
from benchmarks.stores.contenders import BY_KEY, CONTENDERS
from benchmarks.stores.figures import Figures, ratio, short
from benchmarks.stores.goals import outcomes
from benchmarks.stores.results import Measurement

_READING = (m.SEARCH, *m.FILTERS, m.MANY, m.TEXT)
_WRITING = (m.BULK, m.BULK_TEXT, m.ADD, m.SEEN, m.SEEN_ELSEWHERE, m.DELETE, m.DELETE_MANY)
_KEEPING = (m.COLD, m.COLD_TEXT, m.FILE, m.MEMORY_VECTORS, m.MEMORY)
_SMALL, _LARGE = 10_000, 100_000


def title_of(store: str) -> str:
    """Return the name of a store as people read it."""
    return BY_KEY[store].title if store in BY_KEY else store


def goals_text(found: Iterable[Measurement], *, raced_only: bool = False) -> str:
    """Return the table of goals: reached, wanted, met or not; *raced_only* leaves out sizes that were not raced."""
    figures = Figures(found)
    raced = figures.sizes()
    lines = ["| what | rows | goal | reached | met |", "|---|---|---|---|---|"]
    for outcome in outcomes(figures):
        if raced_only and (outcome.data, outcome.n) not in raced:
            continue
        met = {True: "yes", False: "**no**", None: "–"}[outcome.met]
        lines.append(f"| {outcome.what} | {outcome.n:,} {outcome.data} | {outcome.goal} | {outcome.reached} | {met} |")
    return "\n".join(lines) + "\n"


def missing_text(found: Iterable[Measurement]) -> str:
    """Return what was asked for and not measured, as a list; empty where nothing is missing."""
    reasons: dict[str, list[str]] = {}
    for measurement in found:
        if measurement.measure == m.NOT_MEASURED:
            where = f"{measurement.data} {measurement.n:,}" if measurement.n else "any rows"
            reasons.setdefault(f"{title_of(measurement.store)}: {measurement.note}", []).append(where)
    return "".join(f"- {why} ({', '.join(dict.fromkeys(where))}).\n" for why, where in reasons.items())


def tables_text(found: Sequence[Measurement]) -> str:
    """Return the figures of every store, a section for each set of rows."""
    figures = Figures(found)
    parts = []
    for data, n in figures.sizes():
        some = next(item for item in figures.all if (item.data, item.n) == (data, n))
        parts.append(f"### {n:,} rows, {data}, {some.d} dimensions\n")
        for measures in (_READING, _WRITING, _KEEPING):
            if table := _table(figures, data, n, measures):
                parts.append(table)
    return "\n".join(parts)


def guards_text(found: Sequence[Measurement]) -> str:
    """Return what must not grow, or only in proportion."""
    figures = Figures(found)
    lines = ["| what | figure | expected |", "|---|---|---|"]

    def growth(what: str, store: str, measure: str, low: int, expected: str) -> None:
        small, large = (figures.get(store, measure, "clustered", n) for n in (low, _LARGE))
        if small is not None and large is not None:
            text = f"{short(small.p50)} ms at {low:,}, {short(large.p50)} ms at {_LARGE:,}: {ratio(large, small)}"
            lines.append(f"| {what} | {text} | {expected} |")

    growth("exact search, in a file", "tellback-sqlite", m.SEARCH, _SMALL, "about 10 ×, more where the cache ends")
    growth("one durable upsert", "tellback-sqlite", m.ADD, 1_000, "about 1 ×")
    growth(
        "noticing that nothing was written (search of one row beside n)", "tellback-sqlite", m.TINY, 1_000, "about 1 ×"
    )
    for measure in (m.SEARCH, m.TEXT, m.ADD, "count"):
        alone, among = (figures.get(store, measure, "clustered", 1_000) for store in (m.BESIDE_NONE, m.BESIDE_MANY))
        if alone is not None and among is not None:
            text = f"{short(alone.p50)} ms alone, {short(among.p50)} ms beside {among.note}: {ratio(among, alone)}"
            lines.append(f"| a namespace of 1,000: {measure} | {text} | about 1 × |")
    for measure in (m.MILLION_LOAD, m.MILLION_PEAK, m.MILLION_SEARCH, m.MILLION_SQL):
        for item in figures.all:
            if item.measure == measure:
                note = f" ({item.note})" if item.note else ""
                lines.append(f"| {measure.removeprefix('guard: ')} | {short(item.p50)} {item.unit}{note} | |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else "Not measured in this run.\n"


def _table(figures: Figures, data: str, n: int, measures: Sequence[str]) -> str:
    columns = [name for name in measures if any(figures.get(key, name, data, n) for key in BY_KEY)]
    rows = []
    for contender in CONTENDERS:
        cells = [figures.get(contender.key, name, data, n) for name in columns]
        if any(cells):
            rows.append(f"| {contender.title}{marks_of(contender.key)} | " + " | ".join(map(_cell, cells)) + " |")
    if not rows:
        return ""
    heads = " | ".join(f"{name}, {m.unit_of(name)}" for name in columns)
    base = figures.get(m.IMPORTS, m.COLD, data, n) if m.COLD in columns else None
    below = "" if base is None else f"\nStarting Python and importing numpy, apsw and pydantic: {_cell(base)} ms.\n"
    return f"| store | {heads} |\n" + "|---" * (len(columns) + 1) + "|\n" + "\n".join(rows) + "\n" + below


def marks_of(key: str) -> str:
    """Return the marks of a store that keeps nothing by itself (ᵐ) or returns ids alone (ⁱ)."""
    item = BY_KEY[key]
    return ("" if item.durable else " ᵐ") + ("" if item.rows else " ⁱ")


def _cell(one: Measurement | None) -> str:
    if one is None:
        return "–"
    spread = f" ({short(one.p95)})" if one.count > 1 and one.unit == "ms" else ""
    approximate = one.store in BY_KEY and BY_KEY[one.store].approximate
    recall = f", r {one.recall:.3f}" if one.recall is not None and (approximate or one.recall < 1) else ""
    return short(one.p50) + spread + recall
