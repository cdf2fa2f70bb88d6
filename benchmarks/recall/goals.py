"""The goals of recall on the development data, with the figures that a run reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.recall.change_tasks import THEN
from benchmarks.recall.library_tasks import ABSENT
from benchmarks.recall.locomo_tasks import ADVERSARIAL, ALONE, BEHIND, ELSEWHERE, OFF_TOPIC
from benchmarks.recall.summary import Summary


@dataclass(frozen=True, slots=True)
class Goal:
    """One line: what is measured, the *floor* below which something is broken (None: none), and the *goal*.

    *least*: more is better; else less is.
    """

    what: str
    floor: float | None
    goal: float
    reached: Callable[[Summary], float | None]
    least: bool = True


@dataclass(frozen=True, slots=True)
class Outcome:
    """A goal and what was reached; None where the run did not measure it."""

    goal: Goal
    reached: float | None

    @property
    def met(self) -> bool | None:
        """True if the goal is reached."""
        return self._holds(self.goal.goal)

    @property
    def above_floor(self) -> bool | None:
        """True if the floor holds; None where there is none, or nothing was measured."""
        return None if self.goal.floor is None else self._holds(self.goal.floor)

    def _holds(self, bound: float) -> bool | None:
        if self.reached is None:
            return None
        value = round(self.reached, 3)
        return value >= bound if self.goal.least else value <= bound


def outcomes(summary: Summary) -> list[Outcome]:
    """Return every goal that *summary* measured, in the order of ``GOALS``."""
    measured = (Outcome(goal, goal.reached(summary)) for goal in GOALS)
    return [outcome for outcome in measured if outcome.reached is not None]


def _of(task: str, name: str, group: str = "", system: str = "tellback") -> Callable[[Summary], float | None]:
    return lambda summary: summary.figure(system, task, name, group)


def _less(
    minuend: Callable[[Summary], float | None], subtrahend: Callable[[Summary], float | None]
) -> Callable[[Summary], float | None]:
    def difference(summary: Summary) -> float | None:
        upper, lower = minuend(summary), subtrahend(summary)
        return None if upper is None or lower is None else upper - lower

    return difference


def _refused(task: str, group: str) -> Callable[[Summary], float | None]:
    def share(summary: Summary) -> float | None:
        found = summary.refusal("tellback", task, group)
        return None if found is None else found.refused

    return share


def _wrongly(task: str, reason: str) -> Callable[[Summary], float | None]:
    def share(summary: Summary) -> float | None:
        found = summary.refusal("tellback", task, "answerable")
        return None if found is None else float(getattr(found, reason))

    return share


GOALS: tuple[Goal, ...] = (
    Goal("LoCoMo turns, categories 1-4, R@10", 0.828, 0.85, _of("locomo-turns", "R@10")),
    Goal("LoCoMo turns, categories 1-4, R@1", 0.486, 0.52, _of("locomo-turns", "R@1")),
    Goal("LoCoMo turns, categories 1-4, MRR", 0.669, 0.70, _of("locomo-turns", "MRR")),
    Goal("- of these multi-hop, R@10", 0.549, 0.62, _of("locomo-turns", "R@10", "multi-hop")),
    Goal("- of these multi-hop, all@10", 0.282, 0.35, _of("locomo-turns", "all@10", "multi-hop")),
    Goal("LoCoMo sessions, R@1", 0.70, 0.74, _of("locomo-turns-sessions", "R@1")),
    Goal("LoCoMo sessions, R@5", 0.90, 0.92, _of("locomo-turns-sessions", "R@5")),
    Goal("LoCoMo pooled, all questions, R@10", 0.841, 0.86, _of("locomo-pooled", "R@10")),
    Goal("no vectors, categories 1-4, R@10", 0.802, 0.81, _of("locomo-turns", "R@10", system="tellback-words")),
    Goal(
        "asked of an assistant: loss of R@10 against the original questions", None, 0.03,
        _less(_of("locomo-forms", "R@10"), _of("locomo-assistant", "R@10")), least=False,
    ),
    Goal(
        "follow-ups: gain in R@10 by the turn before", None, 0.15,
        _less(_of("locomo-forms", "R@10", BEHIND), _of("locomo-forms", "R@10", ALONE)),
    ),
    Goal("SQuAD, own paragraphs, R@1", 0.849, 0.88, _of("squad", "R@1")),
    Goal("SQuAD, own paragraphs, R@10", 0.981, 0.985, _of("squad", "R@10")),
    Goal("Cranfield, nDCG@10", 0.516, 0.53, _of("cranfield", "nDCG@10")),
    Goal("changed statements, the newer first", None, 0.95, _of("changed", "R@1")),
    Goal("changed statements, the older first for its own time", None, 0.95, _of("changed", "R@1", THEN)),
    Goal("refused: the topic is absent (SQuAD, article not there)", None, 0.97, _refused("squad-halves", ABSENT)),
    Goal("refused: something else altogether (LoCoMo)", None, 0.97, _refused("locomo-turns", OFF_TOPIC)),
    Goal("refused: a question about another conversation", None, 0.70, _refused("locomo-turns", ELSEWHERE)),
    Goal("refused: said about the other person", None, 0.55, _refused("locomo-turns", ADVERSARIAL)),
    *(
        Goal(f'answerable, refused as "{reason}", {name}', None, 0.05, _wrongly(task, reason), least=False)
        for task, name in (("locomo-turns", "LoCoMo"), ("squad-halves", "SQuAD"))
        for reason in ("nothing", "other")
    ),
    Goal(
        "loss of R@10 by candidates against scoring everything (LoCoMo pooled)", 0.002, 0.0,
        _less(_of("locomo-pooled", "R@10", system="tellback-all"), _of("locomo-pooled", "R@10")), least=False,
    ),
)  # fmt: skip
