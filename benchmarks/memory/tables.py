"""Tables of results as rows of text: the terminal prints them, the page shows them, Markdown keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.memory.figures import (
    ANYWAY,
    BUDGETS,
    DECLINED,
    HELD,
    LET_THROUGH,
    MAIN,
    WRONGLY,
    Result,
    difference,
    mean_of,
)
from tellback.memory.evaluation.metrics import agreement

_LOWER = ". Lower is better for " + ", ".join((HELD, WRONGLY, LET_THROUGH, DECLINED, ANYWAY)) + "."
_READERLESS = "From as many hits as the tokens hold; by the reader and the judge of this table."
_MEANINGLESS = frozenset({"first", "among 3", "among 10", "R@10", "MRR", HELD})
"""Measures of order, of a system that gives everything."""
_FEW = 40
"""Questions below which a kind is reported, and decides nothing."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a *title*, its *heads* and *rows*; *note* stands below it."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


def tables_of(
    results: Sequence[Result], against: str, *, by_corpus: bool = False, price: tuple[float, float] | None = None
) -> list[Table]:
    """Return all tables of one data set; differences are to the system *against*, money is by *price*."""
    reference = next((result for result in results if result.key == against), results[0])
    return [
        main_table(results),
        difference_table(results, reference, by_corpus=by_corpus),
        kind_table(results),
        *session_table(results),
        budget_table(results),
        *right_table(results),
        *judge_table(results),
        cost_table(results, price),
        *error_table(results),
    ]


def main_table(results: Sequence[Result]) -> Table:
    """Return the shares of each system, best MRR first."""
    measures = [name for name in MAIN if any(result.values.get(name) for result in results)]
    ordered = sorted(results, key=lambda result: 1 if result.whole else -mean_of(result.values["MRR"]).mean)
    rows = []
    for result in ordered:
        shares = (
            "–"
            if result.whole and name in _MEANINGLESS
            else share(mean_of(result.values[name]).mean)
            if result.values.get(name)
            else ""
            for name in measures
        )
        rows.append((label(result), str(len(result.found)), *shares))
    counts = {name: max(len(result.values.get(name, ())) for result in results) for name in measures}
    by_count = {count: [name for name in counts if counts[name] == count] for count in counts.values()}
    note = "; ".join(f"{', '.join(names)}: {count} questions" for count, names in by_count.items()) + _LOWER
    return Table("What is found", ("system", "questions", *measures), tuple(rows), note)


def difference_table(results: Sequence[Result], reference: Result, *, by_corpus: bool = False) -> Table:
    """Return paired differences to *reference* with 95 per cent intervals; a star marks those that exclude 0."""
    rows = []
    for result in results:
        if result is reference or result.whole:
            continue
        cells = []
        for measure in ("first", "among 10", "MRR"):
            interval = difference(result, reference, measure, by_corpus=by_corpus)
            cells.append(f"{interval}{' *' if interval.excludes_zero else ''}")
        rows.append((label(result), *cells))
    drawn = "whole corpora" if by_corpus else "questions"
    note = f"Paired by question; 2,000 draws of {drawn}; * excludes 0."
    return Table(f"Against {label(reference)}", ("system", "first", "among 10", "MRR"), tuple(rows), note)


def kind_table(results: Sequence[Result]) -> Table:
    """Return the share of questions of each kind with evidence among three, with its interval."""
    kinds = list(dict.fromkeys(kind for result in results for kind in result.kinds()))
    counts = {kind: max(len(result.of_kind("among 3", kind)) for result in results) for kind in kinds}
    rows = []
    for result in results:
        intervals = [mean_of(result.of_kind("among 3", kind)) for kind in kinds]
        cells = (f"{share(one.mean)} [{share(one.low)}, {share(one.high)}]" for one in intervals)
        if not result.whole:
            rows.append((label(result), *cells))
    heads = (f"{kind} ({counts[kind]})" for kind in kinds)
    note = f"Any of the evidence among three; 95 per cent intervals. Under {_FEW} questions nothing is decided."
    return Table("By kind of question", ("system", *heads), tuple(rows), note)


def session_table(results: Sequence[Result]) -> list[Table]:
    """Return the shares over sessions, where the data set labels them."""
    names = [name for name in results[0].values if name.startswith("session ")]
    if not names:
        return []
    rows = tuple((label(result), *(share(mean_of(result.values[name]).mean) for name in names)) for result in results)
    note = (
        "“all” is the official figure of LongMemEval; it drops what nothing answers and what only the assistant said; "
        "“any” is what many print."
    )
    return [Table("Sessions", ("system", *names), rows, note)]


def budget_table(results: Sequence[Result]) -> Table:
    """Return the share of questions with any evidence within so many tokens of context."""
    heads = ("system", *(f"{budget:,}" for budget in BUDGETS))
    rows = tuple((label(result), *map(share, result.curve())) for result in results)
    return Table("Evidence within a context of so many tokens", heads, rows)


def right_table(results: Sequence[Result]) -> list[Table]:
    """Return the share of right answers of a reader with so many tokens of context; none without such answers."""
    curves = [(label(result), result.right_curve()) for result in results]
    budgets = sorted({budget for _, curve in curves for budget in curve})
    rows = tuple((name, *(share(curve[one]) for one in budgets)) for name, curve in curves if curve)
    heads = ("system", *(f"{budget:,}" for budget in budgets))
    return [Table("Answers right with a context of so many tokens", heads, rows, _READERLESS)] if rows else []


def judge_table(results: Sequence[Result]) -> list[Table]:
    """Return how far the judges of the same answers agree, each pair over all systems; none with a judge alone."""
    names = sorted({name for result in results for name in result.judges})
    rows = []
    for place, one in enumerate(names):
        verdicts = [row for result in results for row in result.judges.get(one, {}).values() if "agree" in row]
        if verdicts:
            same = sum(row["agree"] == 1 for row in verdicts) / len(verdicts)
            rows.append((f"{one}, with itself in its repeats", str(len(verdicts)), share(same), ""))
        for other in names[place + 1 :]:
            pairs = [
                (mine[id]["right"], theirs[id]["right"])
                for mine, theirs in ((result.judges.get(one, {}), result.judges.get(other, {})) for result in results)
                for id in mine
                if "right" in mine[id] and "right" in theirs.get(id, ())
            ]
            if pairs:
                alike, kappa = agreement(*zip(*pairs, strict=True))
                rows.append((f"{one}, {other}", str(len(pairs)), share(alike), share(kappa)))
    note = "Kappa is the agreement beyond chance (Cohen 1960): 0 is none, 1 is all. “none” compares evidence and words."
    return [Table("Agreement of judges", ("judges", "verdicts", "alike", "kappa"), tuple(rows), note)] if rows else []


def cost_table(results: Sequence[Result], price: tuple[float, float] | None = None) -> Table:
    """Return time, memory, disk, tokens, and money by *price*."""
    rows: list[tuple[str, ...]] = []
    heads: tuple[str, ...] = ()
    for result in results:
        costs = result.costs(price)
        heads = tuple(costs)
        rows.append((label(result), *(f"{cost:,.0f}" if cost >= 100 else f"{cost:.3g}" for cost in costs.values())))
    note = (
        "Ingest and disk are those of 1,000 items, model tokens those of a million ingested tokens, reader tokens "
        "those of a question; questions come one at a time. Systems that share the embedder find texts embedded: "
        "their times are without it. Memory is the most that the process held, imports included; what a baseline "
        "keeps in memory takes no disk."
    )
    return Table("What it costs", ("system", *heads), tuple(rows), note)


def error_table(results: Sequence[Result]) -> list[Table]:
    """Return what systems raised; none where nothing did."""
    rows = tuple((label(result), error, str(count)) for result in results for error, count in result.errors.items())
    return [Table("Errors", ("system", "error", "times"), rows, "What failed counts as not found.")] if rows else []


def label(result: Result) -> str:
    """Return the name of a system, with what tells its settings apart."""
    shared = " (shared)" if result.header.get("embedder") else ""
    return f"{result.header['title']}{shared}"


def share(value: float) -> str:
    """Return a share with three digits and no leading zero."""
    return f"{value:.3f}".removeprefix("0") if 0 <= value < 1 else f"{value:.3f}"


def markdown(table: Table) -> str:
    """Return *table* in Markdown, under its title."""
    lines = [table.heads, ["---"] * len(table.heads), *table.rows]
    body = "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
    return f"### {table.title}\n\n{body}" + (f"\n{table.note}\n" if table.note else "")
