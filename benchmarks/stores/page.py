"""The page ``docs/appendix/benchmarks.md``: ``page.md`` with the tables of a results file, never edited by hand."""

from __future__ import annotations

from pathlib import Path
from string import Template

from benchmarks.figure import short
from benchmarks.stores import measures as m
from benchmarks.stores.contenders import BY_KEY, CONTENDERS, PEERS
from benchmarks.stores.goals import outcomes
from benchmarks.stores.measurement import Measurement, Results, ratio

_TEMPLATE = Path(__file__).with_name("page.md")
_READING = (m.SEARCH, *m.FILTERS, m.MANY, m.TEXT)
_ALL_PEERS = (*PEERS, "sqlite-vec-fts5")
_SHOWN = (m.SEARCH, m.FILTER_FEW, m.TEXT, m.BULK_TEXT, m.ADD, m.COLD, m.FILE, m.MEMORY)
"""Measures of the tables; the winners have a line for each of the others, too."""
_SMALLEST, _LARGE = 1_000, 100_000
_LONG_TAIL = 2.0
"""A 95th percentile is printed where it is more than so many times the median."""


def page(results: Results) -> str:
    """Return the whole page."""
    return Template(_TEMPLATE.read_text("utf-8")).substitute(
        winners=winners_text(results),
        failures=failures_text(results),
        meanings="\n".join(f"- *{name}*, {m.unit_of(name)}: {m.MEANING[name]}" for name in _SHOWN),
        tables="\n\n".join(_table(results, n) for n in _counts(results) if n != _SMALLEST),
        tally=_tally(results),
        guards=guards_text(results),
        setting=_setting(results),
    )


def winners_text(results: Results) -> str:
    """Return the comparison of Tellback in a file with the best persistent peer, a line for each measure."""
    counts = _counts(results)
    lines = [_head(["measure", *(f"{n:,} rows" for n in counts)])]
    for measure in m.MEANING:
        cells = [_comparison(results, measure, _rows_of(measure), n) for n in counts]
        if any(cell != "–" for cell in cells):
            lines.append(f"| {measure} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def goals_text(results: Results) -> str:
    """Return the table of the goals of the sizes that were raced, missed ones in bold."""
    raced = results.sizes()
    rows: dict[tuple[str, int, str], dict[str, str]] = {}
    for outcome in outcomes(results):
        if (outcome.data, outcome.n) in raced:
            what, _, peer = outcome.what.partition(" (")
            reached = outcome.reached.removesuffix(", recall 1.000") + (f"; {peer.rstrip(')')}" if peer else "")
            reached = f"**{reached}**" if outcome.met is False else reached
            rows.setdefault((what, outcome.n, outcome.goal), {})[outcome.data] = reached
    lines = [_head(["what", "rows", "goal", "reached, clustered", "reached, real"])]
    for (what, n, goal), reached_on in rows.items():
        lines.append(
            f"| {what} | {n:,} | {goal} | {reached_on.get('clustered', '–')} | {reached_on.get('real', '–')} |"
        )
    return "\n".join(lines)


def failures_text(results: Results) -> str:
    """Return a list of the measures asked for and not measured; empty where all were."""
    reasons: dict[str, list[str]] = {}
    for failure in results.failures:
        title = BY_KEY[failure.store].title
        where = f"{failure.data} {failure.n:,}" if failure.n else "any rows"
        reasons.setdefault(f"{title}: {failure.what}: {failure.why}", []).append(where)
    return "\n".join(f"- {why} ({', '.join(dict.fromkeys(where))})." for why, where in reasons.items())


def guards_text(results: Results) -> str:
    """Return the figures that must not grow, or only in proportion."""
    lines = [_head(["what", "figure", "expected"])]
    for what, measure, low, expected in (
        ("exact search, in a file", m.SEARCH, 10_000, "about 10 ×, more where the cache ends"),
        ("one durable upsert", m.ADD, _SMALLEST, "about 1 ×"),
        ("noticing that nothing was written (search of one row beside n)", m.TINY, _SMALLEST, "about 1 ×"),
    ):
        small, large = (results.get("tellback-sqlite", measure, "clustered", n) for n in (low, _LARGE))
        if small is not None and large is not None:
            text = f"{short(small.p50)} ms at {low:,}, {short(large.p50)} ms at {_LARGE:,}: {ratio(large, small)}"
            lines.append(f"| {what} | {text} | {expected} |")
    for measure in (m.SEARCH, m.TEXT, m.ADD, "count"):
        alone, among = (results.get(store, measure, "clustered", _SMALLEST) for store in (m.BESIDE_NONE, m.BESIDE_MANY))
        if alone is not None and among is not None:
            text = f"{short(alone.p50)} ms alone, {short(among.p50)} ms beside {among.note}: {ratio(among, alone)}"
            lines.append(f"| a namespace of 1,000: {measure} | {text} | about 1 × |")
    return "\n".join(lines) if len(lines) > 1 else "Not measured in this run."


def _counts(results: Results) -> list[int]:
    return sorted({n for _, n in results.sizes()})


def _head(heads: list[str]) -> str:
    return f"| {' | '.join(heads)} |\n" + "|---" * len(heads) + "|"


def _comparison(results: Results, measure: str, data: str, n: int) -> str:
    """Return how many times better Tellback in a file is than the best peer; in bold where it is not."""
    ours, best = results.get("tellback-sqlite", measure, data, n), results.best_peer(measure, data, n, _ALL_PEERS)
    if ours is None or best is None:
        return "–"
    factor = ours.p50 / best.p50 if m.is_rate(measure) else best.p50 / ours.p50
    text = f"{short(factor)} × {BY_KEY[best.store].title}{_recall(best)}"
    return text if factor >= 1 else f"**{text}**"


def _rows_of(measure: str) -> str:
    return "real" if measure in _READING else "clustered"


def _table(results: Results, n: int) -> str:
    lines = [f"### {n:,} rows\n", _head(["store", *_SHOWN])]
    for contender in CONTENDERS:
        cells = [results.get(contender.key, measure, _rows_of(measure), n) for measure in _SHOWN]
        if any(cells):
            marks = ("" if contender.durable else " ᵐ") + ("" if contender.rows else " ⁱ")
            lines.append(f"| {contender.title}{marks} | {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def _cell(measurement: Measurement | None) -> str:
    if measurement is None:
        return "–"
    has_tail = m.unit_of(measurement.measure) == "ms" and measurement.p95 > _LONG_TAIL * measurement.p50
    spread = f" ({short(measurement.p95)})" if measurement.count > 1 and has_tail else ""
    return short(measurement.p50) + spread + _recall(measurement)


def _recall(measurement: Measurement) -> str:
    recall = measurement.recall
    return f", r {recall:.3f}" if recall is not None and round(recall, 3) < 1 else ""


def _tally(results: Results) -> str:
    judged = [outcome.met for outcome in outcomes(results) if outcome.met is not None]
    printed = "`python -m benchmarks stores` prints each with its ratio of medians"
    return f"{sum(judged)} of {len(judged)} goals are reached; {printed}."


def _setting(results: Results) -> str:
    about = results.about
    versions = "; ".join(f"{name} {version}" for name, version in about["versions"].items())
    lines = [
        f"- Machine: {about['machine']}",
        f"- Date: {about['at']}",
        f"- Seed: {about['seed']}",
        f"- Versions: {versions}",
    ]
    lines += [f"- Rows: {made}" for made in about["rows"]]
    return "\n".join(lines) + f"\n\n```text\npip install '.[local,bench]'\n{about['command']}\n```"
