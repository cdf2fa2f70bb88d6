"""Measurements as Markdown tables: the winners, the goals, the figures of every store, the guards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.stores import measures as m
from benchmarks.stores.contenders import BY_KEY, CONTENDERS, PEERS
from benchmarks.stores.figures import Figures, ratio, short
from benchmarks.stores.goals import outcomes
from benchmarks.stores.results import Measurement

_READING = (m.SEARCH, *m.FILTERS, m.MANY, m.TEXT)
_ALL_PEERS = (*PEERS, "sqlite-vec-fts5")
_SHOWN = (m.SEARCH, m.FILTER_FEW, m.TEXT, m.BULK_TEXT, m.ADD, m.COLD, m.FILE, m.MEMORY)
"""Measures of the tables; the winners have a line for each of the others, too."""
_SMALLEST, _SMALL, _LARGE = 1_000, 10_000, 100_000
_LONG_TAIL = 2.0
"""A 95th percentile is printed where it is more than so many times the median."""


def title_of(store: str) -> str:
    """Return the name of a store as people read it."""
    return BY_KEY[store].title if store in BY_KEY else store


def winners_text(measurements: Iterable[Measurement]) -> str:
    """Return the comparison of Tellback in a file with the best persistent peer, a line for each measure."""
    figures = Figures(measurements)
    counts = sorted({n for _, n in figures.sizes()})
    lines = ["| measure | " + " | ".join(f"{n:,} rows" for n in counts) + " |", "|---" * (len(counts) + 1) + "|"]
    for measure in m.MEANING:
        cells = [_comparison(figures, measure, _rows_of(measure), n) for n in counts]
        if any(cell != "–" for cell in cells):
            lines.append(f"| {measure} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def goals_text(measurements: Iterable[Measurement], *, raced_only: bool = False) -> str:
    """Return the table of goals, missed ones in bold; *raced_only* leaves out sizes that were not raced."""
    figures = Figures(measurements)
    raced = figures.sizes()
    rows: dict[tuple[str, int, str], dict[str, str]] = {}
    for outcome in outcomes(figures):
        if not raced_only or (outcome.data, outcome.n) in raced:
            what, _, peer = outcome.what.partition(" (")
            reached = outcome.reached.removesuffix(", recall 1.000") + (f"; {peer.rstrip(')')}" if peer else "")
            reached = f"**{reached}**" if outcome.met is False else reached
            rows.setdefault((what, outcome.n, outcome.goal), {})[outcome.data] = reached
    lines = ["| what | rows | goal | reached, clustered | reached, real |", "|---|---|---|---|---|"]
    for (what, n, goal), reached in rows.items():
        lines.append(f"| {what} | {n:,} | {goal} | {reached.get('clustered', '–')} | {reached.get('real', '–')} |")
    return "\n".join(lines) + "\n"


def missing_text(measurements: Iterable[Measurement]) -> str:
    """Return a list of the measures asked for and not measured; empty where all were."""
    reasons: dict[str, list[str]] = {}
    for measurement in measurements:
        if measurement.measure == m.NOT_MEASURED:
            where = f"{measurement.data} {measurement.n:,}" if measurement.n else "any rows"
            reasons.setdefault(f"{title_of(measurement.store)}: {measurement.note}", []).append(where)
    return "".join(f"- {why} ({', '.join(dict.fromkeys(where))}).\n" for why, where in reasons.items())


def tables_text(measurements: Sequence[Measurement]) -> str:
    """Return the figures of every store, a table for each number of rows, of real rows where those were read."""
    figures = Figures(measurements)
    counts = sorted({n for _, n in figures.sizes()} - {_SMALLEST})
    return "\n".join(_table(figures, n) for n in counts)


def meanings_text() -> str:
    """Return a list of the measures of the tables with their units."""
    return "".join(f"- *{measure}*, {m.unit_of(measure)}: {m.MEANING[measure]}\n" for measure in _SHOWN)


def guards_text(measurements: Sequence[Measurement]) -> str:
    """Return the figures that must not grow, or only in proportion."""
    figures = Figures(measurements)
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


def _comparison(figures: Figures, measure: str, data: str, n: int) -> str:
    """Return how many times better Tellback in a file is than the best peer; in bold where it is not."""
    ours, best = figures.get("tellback-sqlite", measure, data, n), figures.best_peer(measure, data, n, _ALL_PEERS)
    if ours is None or best is None:
        return "–"
    factor = ours.p50 / best.p50 if m.is_rate(measure) else best.p50 / ours.p50
    text = f"{short(factor)} × {title_of(best.store)}{_recall(best)}"
    return text if factor >= 1 else f"**{text}**"


def _rows_of(measure: str) -> str:
    return "real" if measure in _READING else "clustered"


def _table(figures: Figures, n: int) -> str:
    lines = [f"### {n:,} rows\n", f"| store | {' | '.join(_SHOWN)} |", "|---" * (len(_SHOWN) + 1) + "|"]
    for contender in CONTENDERS:
        cells = [figures.get(contender.key, measure, _rows_of(measure), n) for measure in _SHOWN]
        if any(cells):
            lines.append(f"| {contender.title}{marks_of(contender.key)} | {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def marks_of(key: str) -> str:
    """Return the marks of a store that keeps nothing by itself (ᵐ) or returns ids alone (ⁱ)."""
    item = BY_KEY[key]
    return ("" if item.durable else " ᵐ") + ("" if item.rows else " ⁱ")


def _cell(measurement: Measurement | None) -> str:
    if measurement is None:
        return "–"
    spread = (
        f" ({short(measurement.p95)})"
        if measurement.count > 1 and measurement.unit == "ms" and measurement.p95 > _LONG_TAIL * measurement.p50
        else ""
    )
    return short(measurement.p50) + spread + _recall(measurement)


def _recall(measurement: Measurement) -> str:
    return (
        f", r {measurement.recall:.3f}" if measurement.recall is not None and round(measurement.recall, 3) < 1 else ""
    )
