"""Figures of personal memory: each is the mean of what single questions have, so that two runs compare in pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from benchmarks.personal.cases import HALVES, LABELS, STATEMENTS, Case, Question
from benchmarks.recall.system import Answered
from tellback.memory.internals import classify_utterance

_UNANSWERED = {"far": "far questions caught", "near": "near questions caught"}
_OTHER = "another person's attribute given without a word"
_CHANGED = ("update", "past")
_NOWHERE = 1_000
"""Place of what was not found, however few hits there are."""


def outcomes(case: Case, question: Question, answered: Answered) -> Iterator[tuple[str, float]]:
    """Yield each figure that the answer counts for, with its value."""
    ranked = [id for id, _ in answered.hits]
    doubted = float(answered.abstain is not None)
    if not question.gold:
        yield from _unanswerable(question, doubted)
        return
    places = [ranked.index(id) for id in question.gold if id in ranked]
    best = min(places, default=_NOWHERE)
    if case.set == "stories":
        yield f"{question.kind}: first", float(best == 0)
        if question.kind == "now":
            yield "now: among two", float(best < 2)
            yield "now: stale first", float(bool(question.stale & set(ranked[:1])))
        elif question.kind == "unchanged, now":
            yield "unchanged, now: wrongly demoted", float(best > 0)
        return
    groups = (question.kind, "all") if case.set != "chat" else ("chat",)
    for group in groups:
        yield f"{group}: first", float(best == 0)
        yield f"{group}: any of three", float(best < 3)
        yield f"{group}: any of ten", float(best < 10)
    if question.kind == "multi":
        yield "multi: share at ten", sum(place < 10 for place in places) / len(question.gold)
    if question.kind in _CHANGED and question.stale:
        yield (
            f"{question.kind}: stale above current",
            float(any(id in question.stale for id in ranked[: min(best, 10)])),
        )
    yield "answerable doubted", doubted
    if case.labels and ranked[:10]:
        others = sum(case.labels[id] not in STATEMENTS for id in ranked[:10])
        yield "questions, commands and small talk among ten", others / len(ranked[:10])


def rules_by_label(cases: Iterable[Case]) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield, for each half and label of chat lines, how many the rules name so, how many are so, and how many both."""
    for half_number, half in enumerate(HALVES):
        named: Counter[str] = Counter()
        labelled: Counter[str] = Counter()
        both: Counter[str] = Counter()
        for case in cases:
            for item in case.items[half_number::2] if case.labels else ():
                label, rule = case.labels[item.id], LABELS[classify_utterance(item.text).kind]
                labelled[label] += 1
                named[rule] += 1
                both[label] += label == rule
        for label in labelled:
            yield half, label, named[label], labelled[label], both[label]


def _unanswerable(question: Question, doubted: float) -> Iterator[tuple[str, float]]:
    if question.kind in _UNANSWERED:
        yield _UNANSWERED[question.kind], doubted
    else:
        yield _OTHER, 1 - doubted
