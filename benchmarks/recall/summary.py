"""The figures of a results file, small enough to be kept: what tables, goals and pictures are made from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.metrics import MEASURES, mean
from benchmarks.recall.results import AnswerRow, Fill, Results, read_results
from tellback.memory.internals import bootstrap

WITH_INTERVALS = ("R@1", "R@10", "MRR", "nDCG@10")
REFUSED = ("adversarial",)
"""Groups whose evidence is a statement of another person: it should be found, and the question refused."""
FORMAT, VERSION = "tellback-recall-summary", 1
_KEPT = 0.95
"""The share of answerable questions that a threshold of the confidence keeps, for the last column of refusals."""


@dataclass(frozen=True, slots=True)
class Line:
    """Figures of one system on the questions of one task, or of one *group* of them (empty: the headline).

    Each figure is a mean over *questions*, of which *errors* count as not found; *intervals* are 95 per cent. *p50* and
    *p95* are milliseconds of one recall. *against* holds Tellback's figure less this system's with its interval.
    """

    system: str
    task: str
    group: str
    questions: int
    errors: int
    figures: Mapping[str, float]
    intervals: Mapping[str, Sequence[float]]
    p50: float
    p95: float
    against: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Share of questions that *system* says nothing fits: "nothing" here about it, or said by an "other" person.

    *answerable* questions should not be refused, the others should. *by_confidence* is the share that would be refused
    if the confidence alone decided and one answerable question in twenty were refused.
    """

    system: str
    task: str
    group: str
    answerable: bool
    questions: int
    nothing: float
    other: float
    by_confidence: float | None = None

    @property
    def refused(self) -> float:
        """The share that was refused for either reason."""
        return self.nothing + self.other


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that is printed of a run; *fills* are items a second and *memory* MB by system and task."""

    about: Mapping[str, Any]
    lines: tuple[Line, ...]
    refusals: tuple[Refusal, ...]
    fills: Mapping[str, Mapping[str, float]]

    def line(self, system: str, task: str, group: str = "") -> Line | None:
        """Return the line, None where it was not measured."""
        found = (item for item in self.lines if (item.system, item.task, item.group) == (system, task, group))
        return next(found, None)

    def figure(self, system: str, task: str, name: str, group: str = "") -> float | None:
        """Return one figure, None where it was not measured."""
        line = self.line(system, task, group)
        return None if line is None else line.figures[name]

    def refusal(self, system: str, task: str, group: str) -> Refusal | None:
        """Return how often a group was refused, None where that was not measured."""
        found = (item for item in self.refusals if (item.system, item.task, item.group) == (system, task, group))
        return next(found, None)


def summarised(results: Results) -> Summary:
    """Return the figures of *results*."""
    seed = results.header.seed
    by_task: dict[tuple[str, str], list[AnswerRow]] = {}
    for row in results.answers:
        by_task.setdefault((row.system, row.task), []).append(row)
    lines: list[Line] = []
    refusals: list[Refusal] = []
    for (system, task), rows in by_task.items():
        headline = results.header.tasks[task]["headline"]
        found = [row for row in rows if row.evidence]
        own = [row for row in found if not headline or row.group in headline]
        ours = [row for row in by_task.get(("tellback", task), []) if row.evidence]
        groups = [group for group in dict.fromkeys(row.group for row in found) if [group] != headline]
        kinds = groups if system == "tellback" and (len(groups) > 1 or headline) else []
        for group in ["", *kinds]:
            chosen = own if not group else [row for row in found if row.group == group]
            lines.append(_line(system, task, group, chosen, ours, seed))
        if any(row.confidence is not None for row in rows):
            refusals += _refusals(system, task, [row for row in own if row.group not in REFUSED], rows)
    return Summary(asdict(results.header), tuple(lines), tuple(refusals), _rates(results.fills))


def read_summary(path: Path) -> Summary:
    """Read the figures that ``write_summary`` wrote, or make them from a results file; raise ``ValueError``."""
    if path.suffix != ".json":
        return summarised(read_results(path))
    given = json.loads(path.read_text("utf-8"))
    if not isinstance(given, dict) or (given.pop("format", None), given.pop("version", None)) != (FORMAT, VERSION):
        raise ValueError(f"{path}: its format is not {FORMAT!r}, version {VERSION}")
    try:
        return Summary(
            given["about"],
            tuple(Line(**item) for item in given["lines"]),
            tuple(Refusal(**item) for item in given["refusals"]),
            given["fills"],
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a summary: {error}") from error


def write_summary(path: Path, summary: Summary) -> None:
    """Write the figures as JSON, a line each."""
    rounded = _rounded(asdict(summary))
    parts = [f' "format": "{FORMAT}"', f' "version": {VERSION}', f' "about": {_json(rounded["about"])}']
    for name in ("lines", "refusals"):
        parts.append(f' "{name}": [\n' + ",\n".join("  " + _json(item) for item in rounded[name]) + "\n ]")
    parts.append(f' "fills": {_json(rounded["fills"])}')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", "utf-8")


def differences(ours: Iterable[AnswerRow], theirs: Iterable[AnswerRow], name: str) -> list[tuple[str, float]]:
    """Return (corpus, our figure less theirs) of each question that both were asked."""
    measure = MEASURES[name]
    other = {row.question: measure(row.answer()) for row in theirs}
    return [(row.corpus, measure(row.answer()) - other[row.question]) for row in ours if row.question in other]


def _line(system: str, task: str, group: str, rows: Sequence[AnswerRow], ours: Sequence[AnswerRow], seed: int) -> Line:
    answers = [row.answer() for row in rows]
    values = {name: [measure(answer) for answer in answers] for name, measure in MEASURES.items()}
    times = [row.ms for row in rows if not row.error] or [0.0]
    against = {}
    if system != "tellback" and ours and not group:
        paired = {name: [answer for _, answer in differences(ours, rows, name)] for name in WITH_INTERVALS}
        against = {name: tuple(bootstrap(each, seed=seed)) for name, each in paired.items()}
    return Line(
        system,
        task,
        group,
        len(rows),
        sum(1 for row in rows if row.error),
        {name: mean(each) for name, each in values.items()},
        {name: tuple(bootstrap(values[name], seed=seed)[1:]) for name in WITH_INTERVALS},
        float(np.percentile(times, 50)),
        float(np.percentile(times, 95)),
        against,
    )


def _refusals(system: str, task: str, answerable: Sequence[AnswerRow], rows: Sequence[AnswerRow]) -> list[Refusal]:
    """Return a line for the answerable questions, and one for each group that should be refused."""
    sure = [row.confidence for row in answerable if row.confidence is not None]
    floor = float(np.quantile(sure, 1 - _KEPT)) if sure else 0.0
    groups: dict[tuple[str, bool], list[AnswerRow]] = {("answerable", True): list(answerable)}
    for row in rows:
        if not row.evidence or row.group in REFUSED:
            groups.setdefault((row.group, False), []).append(row)
    return [
        Refusal(
            system,
            task,
            group,
            right,
            len(chosen),
            mean([float(row.abstain == "nothing") for row in chosen]),
            mean([float(row.abstain == "other") for row in chosen]),
            mean([float((row.confidence or 0.0) < floor) for row in chosen]),
        )
        for (group, right), chosen in groups.items()
        if chosen
    ]


def _rates(fills: Sequence[Fill]) -> dict[str, dict[str, float]]:
    """Return items a second by system and task, of what was filled without an error."""
    sums: dict[str, dict[str, tuple[int, float]]] = {}
    for fill in fills:
        if not fill.error and fill.items:
            items, seconds = sums.setdefault(fill.system, {}).get(fill.task, (0, 0.0))
            sums[fill.system][fill.task] = (items + fill.items, seconds + fill.seconds)
    return {
        system: {task: items / max(seconds, 1e-9) for task, (items, seconds) in by_task.items()}
        for system, by_task in sums.items()
    }


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, (list, tuple)) else value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
