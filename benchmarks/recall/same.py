"""Two runs that should be equal: the ranked ids of each question and the figures, times apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from benchmarks.recall.results import AnswerRow, Results
from benchmarks.recall.summary import Summary, summarised

_TIMES = ("p50", "p95")
_SHOWN = 10
_Key: TypeAlias = tuple[str, str, str]

CHECKED: Mapping[str, Callable[[AnswerRow], object]] = {
    "group and evidence": lambda row: (row.group, dict(row.evidence)),
    "ranked ids": lambda row: [id for id, _ in row.hits],
    "abstention": lambda row: row.abstain,
    "error": lambda row: row.error,
}
"""The parts of an answer that must be equal."""
NOTED: Mapping[str, Callable[[AnswerRow], object]] = {
    "scores": lambda row: [score for _, score in row.hits],
    "confidence": lambda row: row.confidence,
}
"""The parts that may differ in single answers: only figures made of them are compared."""


@dataclass(frozen=True, slots=True)
class Sameness:
    """Comparison of two runs of a system: common *questions*, the *differences*, and *notes* on what may differ."""

    questions: int
    differences: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        shown = self.differences[:_SHOWN]
        more = len(self.differences) - len(shown)
        lines = [*(f"- {line}" for line in shown), *([f"- and {more} more"] if more else [])]
        end = "equal" if not self.differences else "NOT equal"
        return "\n".join([f"{self.questions} questions, ranked ids and figures: {end}", *lines, *self.notes])


def sameness(before: Results, after: Results, systems: tuple[str, str]) -> Sameness:
    """Hold two runs beside each other; *systems* names one of each, compared question by question.

    A question that only one of them has, other data and other settings of the run are differences.
    """
    left, right = _by_question(before, systems[0]), _by_question(after, systems[1])
    pairs = ((before, left), (after, right))
    differences = [*_of_headers(before, after)]
    for key in dict.fromkeys((*left, *right)):
        if key not in left or key not in right:
            differences.append(f"{' / '.join(key)}: only in the {'second' if key in right else 'first'} run")
            continue
        differences += [
            f"{' / '.join(key)}: other {name}" for name, part in CHECKED.items() if part(left[key]) != part(right[key])
        ]
    differences += _of_figures(*(_summary(run, rows.values(), systems[1]) for run, rows in pairs))
    common = left.keys() & right.keys()
    if not common:
        differences.append(f"the runs share no question: {systems[0]} in the first, {systems[1]} in the second")
    counts = {name: sum(part(left[key]) != part(right[key]) for key in common) for name, part in NOTED.items()}
    notes = tuple(f"({name} differ in {count} questions)" for name, count in counts.items() if count)
    return Sameness(len(common), tuple(differences), notes)


def _by_question(run: Results, system: str) -> dict[_Key, AnswerRow]:
    answers: dict[_Key, AnswerRow] = {}
    for row in run.answers:
        if row.system == system:
            key = (row.task, row.corpus, row.question)
            if key in answers:
                raise ValueError(f"{' / '.join(key)}: two answers of {system}")
            answers[key] = row
    return answers


def _of_headers(before: Results, after: Results) -> Iterable[str]:
    if dict(before.header.data) != dict(after.header.data):
        yield "the data of the runs"
    for name in ("limit", "store", "vectors"):
        if before.header.settings.get(name) != after.header.settings.get(name):
            yield f"the setting {name!r} of the runs"


def _summary(run: Results, rows: Iterable[AnswerRow], system: str) -> Summary:
    """Return the figures of *rows*, all of them under the name *system*."""
    return summarised(replace(run, answers=tuple(replace(row, system=system) for row in rows), fills=()))


def _of_figures(before: Summary, after: Summary) -> Iterable[str]:
    for kind in ("lines", "refusals"):
        left, right = (_figures(getattr(summary, kind)) for summary in (before, after))
        for key in dict.fromkeys((*left, *right)):
            if left.get(key) != right.get(key):
                yield f"{' / '.join(part for part in key if part)}: other figures"


def _figures(rows: Iterable[Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the figures by task and group, without times and the system's name."""
    left_out = {*_TIMES, "system", "against"}
    return {
        (row.task, row.group): {name: value for name, value in asdict(row).items() if name not in left_out}
        for row in rows
    }
