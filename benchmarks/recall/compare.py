"""Two runs beside each other, question by question, with intervals of the differences."""

from __future__ import annotations

from benchmarks.recall.report import table
from benchmarks.recall.results import AnswerRow, Results
from benchmarks.recall.summary import WITH_INTERVALS, differences
from tellback.memory.internals import ConfidenceInterval, bootstrap


def compared(
    before: Results, after: Results, systems: tuple[str, str], *, by_corpus: bool = False, seed: int = 0
) -> str:
    """Return a Markdown table of *after* less *before*, a line a task and group; *systems* names one of each run.

    Raises ``ValueError`` where they share no question, or where a question has other evidence in one than in the other.
    """
    left, right = _by_task(before, systems[0]), _by_task(after, systems[1])
    rows = []
    for task in left:
        if task not in right:
            continue
        _same_evidence(task, left[task], right[task])
        headline = after.header.tasks[task]["headline"]
        groups = dict.fromkeys(row.group for row in left[task])
        title = after.header.tasks[task]["title"]
        for group in ["", *(groups if len(groups) > 1 else [])]:
            wanted = {group} if group else set(headline) or set(groups)
            ours = [row for row in right[task] if row.group in wanted]
            theirs = [row for row in left[task] if row.group in wanted]
            if ours and theirs:
                cells = _cells(ours, theirs, by_corpus=by_corpus, seed=seed)
                rows.append((f"- {group}" if group else title, *cells))
    if not rows:
        raise ValueError(f"the runs share no question: {systems[0]} in the first, {systems[1]} in the second")
    drawn = "whole corpora" if by_corpus else "questions"
    note = f"\nSecond less first; 95 per cent intervals, {drawn} drawn anew, seed {seed}; * excludes 0.\n"
    changed = [
        f"- {name}: {before.header.data.get(name)} and {after.header.data[name]}\n"
        for name in after.header.data
        if before.header.data.get(name) != after.header.data[name]
    ]
    warning = "\nThe data differ:\n" + "".join(changed) if changed else ""
    return table(("task", "n", *WITH_INTERVALS, "better", "worse"), rows) + note + warning


def _by_task(results: Results, system: str) -> dict[str, list[AnswerRow]]:
    found: dict[str, list[AnswerRow]] = {}
    for row in results.answers:
        if row.system == system and row.evidence:
            found.setdefault(row.task, []).append(row)
    return found


def _same_evidence(task: str, left: list[AnswerRow], right: list[AnswerRow]) -> None:
    values = {row.question: row.evidence for row in left}
    for row in right:
        if row.question in values and dict(values[row.question]) != dict(row.evidence):
            raise ValueError(f"{task}, question {row.question}: its evidence is not the same in both runs")


def _cells(ours: list[AnswerRow], theirs: list[AnswerRow], *, by_corpus: bool, seed: int) -> list[str]:
    cells: list[str] = []
    better = worse = count = 0
    for name in WITH_INTERVALS:
        pairs = differences(ours, theirs, name)
        corpora = [corpus for corpus, _ in pairs] if by_corpus else None
        cells.append(_marked(bootstrap([value for _, value in pairs], seed=seed, groups=corpora)))
        if name == "R@10":
            count = len(pairs)
            better = sum(value > 0 for _, value in pairs)
            worse = sum(value < 0 for _, value in pairs)
    return [str(count), *cells, str(better), str(worse)]


def _marked(interval: ConfidenceInterval) -> str:
    return f"{interval}{' *' if interval.excludes_zero else ''}"
