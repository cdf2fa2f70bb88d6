"""From the files of a run to figures: the values of each question by measure, curves over budgets, costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from statistics import fmean

import numpy as np

from benchmarks.memory.answer import DEPTH, READERLESS, answer_path, judge_path, judge_paths
from benchmarks.memory.data.dataset import Asked, DataSet
from benchmarks.memory.registry import BY_KEY
from benchmarks.memory.stage_files import Row, read_stage
from tellback.memory.evaluation.bootstrap import ConfidenceInterval, bootstrap, paired_difference
from tellback.memory.evaluation.metrics import (
    all_at,
    any_at,
    ndcg_at,
    place_of,
    recall_at,
    reciprocal_rank,
)

BUDGETS = (50, 100, 250, 500, 1_000, 2_000, 4_000)
"""Tokens of context at which the curve is taken."""
RANKED: Mapping[str, Callable[[Sequence[str], Mapping[str, int]], float]] = {
    "first": partial(any_at, k=1),
    "among 3": partial(any_at, k=3),
    "among 10": partial(any_at, k=10),
    "R@10": partial(recall_at, k=10),
    "all@10": partial(all_at, k=10),
    "MRR": lambda ranked, gold: reciprocal_rank(place_of(ranked, gold)),
    "nDCG@10": partial(ndcg_at, k=10),
}
SESSIONS: Mapping[str, Callable[[Sequence[str], Mapping[str, int]], float]] = {
    f"session {name}@{k}": partial(measure, k=k)
    for k in (5, 10)
    for name, measure in (("any", any_at), ("all", all_at))
}
"""The same over sessions, each at the place of its best turn; ``all`` is LongMemEval's official figure."""
_USED = ("input", "output")
HELD, WRONGLY, LET_THROUGH = "stale first", "refused wrongly", "let through"
RIGHT, DECLINED, ANYWAY, F1 = "answer right", "reader refused", "answered anyway", "F1"
MAIN = ("first", "among 3", "among 10", "R@10", "MRR", HELD, WRONGLY, LET_THROUGH, RIGHT, DECLINED, ANYWAY, F1)


@dataclass(frozen=True)
class Result:
    """All files of one system on one data set, joined with the labels of its questions."""

    data: DataSet
    header: Row
    ingested: Sequence[Row]
    found: Mapping[str, Row]
    answers: Mapping[str, Row]
    judged: Mapping[str, Row]
    left_out: frozenset[str] = frozenset()
    right_at: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """Verdicts by budget of tokens and question, for the curve of right answers."""
    judges: Mapping[str, Mapping[str, Row]] = field(default_factory=dict)
    """Verdicts of every judge on the same answers."""

    @property
    def key(self) -> str:
        return str(self.header["system"])

    @property
    def whole(self) -> bool:
        """True for a system that gives everything, whose order means nothing."""
        entry = BY_KEY.get(self.key)
        return entry is not None and entry.whole

    @cached_property
    def errors(self) -> Mapping[str, int]:
        """What the system raised, with how often."""
        counts: dict[str, int] = defaultdict(int)
        for row in (*self.ingested, *self.found.values(), *self.answers.values()):
            if row.get("error"):
                counts[str(row["error"])] += 1
        return counts

    @cached_property
    def values(self) -> Mapping[str, Mapping[str, float]]:
        """The value of each question that a measure counts, by measure and question."""
        values: dict[str, dict[str, float]] = defaultdict(dict)
        for id, row in self.found.items():
            if id not in self.left_out:
                for measure, value in self._of(self.data.questions[id], row):
                    values[measure][id] = value
        return values

    def kinds(self) -> Iterator[str]:
        """Yield the kinds of questions with an answer."""
        asked = [asked for id, asked in self.data.questions.items() if id in self.found and asked.gold]
        yield from dict.fromkeys(kind for one in asked for kind in (one.kind, *one.groups))

    def of_kind(self, measure: str, kind: str) -> Mapping[str, float]:
        """Return the values of *measure* for the questions of *kind*; of a kind that stands apart, too."""
        asked = {id: self.data.questions[id] for id in self.found if id not in self.left_out}
        return {
            id: RANKED[measure](self.found[id]["hits"], one.gold)
            for id, one in asked.items()
            if one.gold and kind in (one.kind, *one.groups)
        }

    def curve(self) -> list[float]:
        """Return the share of questions with any of their evidence within each of the budgets."""
        return [fmean(self._within(budget)) if self.values["first"] else 0.0 for budget in BUDGETS]

    def right_curve(self) -> Mapping[int, float]:
        """Return the share of answerable questions that the reader answers right, by its budget of tokens."""
        asked = self.data.questions
        return {
            budget: fmean(right[id] for id in right if asked[id].answerable and id not in self.left_out)
            for budget, right in sorted(self.right_at.items())
            if any(asked[id].answerable and id not in self.left_out for id in right)
        }

    def costs(self, price: tuple[float, float] | None = None) -> Mapping[str, float]:
        """Return milliseconds, memory, disk and tokens of the run; money by *price* of a million tokens in and out.

        A reader without a model is counted as one that reads the first ten and writes nothing.
        """
        asked = [row for row in self.found.values() if "ms" in row]
        done = [row for row in self.ingested if "seconds" in row]
        items, tokens = (sum(row[name] for row in done) or 1 for name in ("items", "tokens"))
        ms = [row["ms"] for row in asked] or [0.0]
        used = [row["usage"].get(name, 0) for row in done for name in _USED]
        read = [(row.get("input", 0), row.get("output", 0)) for row in self.answers.values()] or [(0, 0)]
        taken, given = (fmean(column) for column in zip(*read, strict=True))
        ten = fmean([sum(row["sizes"] if self.whole else row["sizes"][:10]) for row in asked] or [0])
        money = {}
        if price is not None:
            per_question = ((taken or ten) * price[0] + given * price[1]) / 1e6
            written = sum(
                one * row["usage"].get(name, 0) for row in done for one, name in zip(price, _USED, strict=True)
            )
            money = {"money a 1,000 questions": 1e3 * per_question, "money a million ingested": written / tokens}
        return {
            "ms p50": float(np.percentile(ms, 50)),
            "ms p95": float(np.percentile(ms, 95)),
            "CPU ms": fmean([row["cpu_ms"] for row in asked] or [0.0]),
            "tokens of ten": ten,
            "ingest s": 1_000 * sum(row["seconds"] for row in done) / items,
            "ingest CPU s": 1_000 * sum(row["cpu"] for row in done) / items,
            "disk MB": 1e-3 * sum(row["bytes"] for row in done) / items,
            "memory MB": max([row["rss"] for row in (*done, *asked)], default=0) / 1e6,
            "model tokens": 1e6 * sum(used) / tokens,
            "reader tokens": taken + given,
            **money,
        }  # fmt: skip

    def _within(self, budget: int) -> Iterator[float]:
        for id in self.values["first"]:
            row, gold = self.found[id], self.data.questions[id].gold
            sums = accumulate(row["sizes"])
            yield float(any(hit in gold and size <= budget for hit, size in zip(row["hits"], sums, strict=True)))

    def _of(self, asked: Asked, row: Row) -> Iterator[tuple[str, float]]:
        id, hits, refused = asked.question.id, row["hits"], bool(row.get("abstains"))
        if asked.kind not in self.data.drops and asked.gold:
            for name, measure in RANKED.items():
                yield name, measure(hits, asked.gold)
        if asked.official and asked.sessions:
            items = self.data.corpus_of[id].by_id
            sessions = list(dict.fromkeys(items[hit].session for hit in hits if hit in items))
            for name, measure in SESSIONS.items():
                yield name, measure(sessions, dict.fromkeys(asked.sessions, 1))
        if asked.stale:
            stale, gold = place_of(hits, asked.stale), place_of(hits, asked.gold)
            yield HELD, float(bool(stale) and (not gold or stale < gold))
        yield (WRONGLY, float(refused)) if asked.answerable else (LET_THROUGH, float(not refused))
        if asked.answerable and "refused" in self.answers.get(id, ()):
            yield DECLINED, float(self.answers[id]["refused"])
        if id in self.judged and not self.judged[id].get("error"):
            right = self.judged[id]["right"]
            yield (RIGHT, right) if asked.answerable else (ANYWAY, 1 - right)
            if asked.answerable and "f1" in self.judged[id]:
                yield F1, self.judged[id]["f1"]


def read_results(
    out: Path, data: DataSet, *, reader: str = READERLESS, judge: str = READERLESS, left_out: Iterable[str] = ()
) -> list[Result]:
    """Return the results of all systems on *data* below *out*; raise ``ValueError`` for files of other data."""
    found = []
    for path in sorted(out.joinpath(data.name).glob("*/retrieve.jsonl")):
        header, rows = read_stage(path)
        if header["data"]["sha256"] != data.hash:
            raise ValueError(f"{path}: made with other files of {data.title} than are here")
        ingested = read_stage(path.with_name("ingest.jsonl"))[1]
        answers, _ = _of_settings(answer_path(path.parent, reader))
        judged, right_at = _of_settings(judge_path(path.parent, reader, judge))
        judges = {name: _of_settings(place)[0] for name, place in judge_paths(path.parent, reader)}
        labels = (answers, judged, frozenset(left_out), right_at, judges)
        found.append(Result(data, header, ingested, _keyed(rows), *labels))
    order = {key: place for place, key in enumerate(BY_KEY)}
    return sorted(found, key=lambda result: (order.get(result.key, len(order)), result.key))


def mean_of(values: Mapping[str, float], *, seed: int = 0) -> ConfidenceInterval:
    """Return the mean of *values* with its interval."""
    return bootstrap(list(values.values()), seed=seed)


def difference(ours: Result, theirs: Result, measure: str, *, by_corpus: bool = False) -> ConfidenceInterval:
    """Return the paired difference of *measure*; whole corpora are drawn with *by_corpus*."""
    groups = {id: corpus.name for id, corpus in ours.data.corpus_of.items()} if by_corpus else None
    return paired_difference(ours.values[measure], theirs.values[measure], groups=groups)


def _of_settings(path: Path) -> tuple[Mapping[str, Row], Mapping[int, Mapping[str, float]]]:
    """Return the rows of the k and tokens that the header names, and the verdicts of the curve by budget."""
    if not path.exists():
        return {}, {}
    header, rows = read_stage(path)
    main = _keyed(row for row in rows if (row["k"], row["tokens"]) == (header["k"], header["tokens"]))
    right_at: dict[int, dict[str, float]] = defaultdict(dict)
    for row in rows:
        if row["k"] == DEPTH and row["tokens"] in header["curve"] and "right" in row:
            right_at[row["tokens"]][row["question"]] = row["right"]
    return main, right_at


def _keyed(rows: Iterable[Row]) -> Mapping[str, Row]:
    return {str(row["question"]): row for row in rows}
