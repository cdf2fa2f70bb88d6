"""Stages three and four: a reader answers over what was found, and a judge says whether the answer is right.

The harness gives every system's reader equal k and equal tokens of context; further budgets of tokens make the curve of
right answers, a row each. Without a model the reader quotes the sentence that has most of the question's words, weighed
by their rarity in the context, and the judge looks whether it is from the evidence, or holds the answer; unanswerable
questions are right if they were refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log
from pathlib import Path

from Stemmer import Stemmer

from benchmarks.memory.data.dataset import Asked, DataSet
from benchmarks.memory.models import CallFailed, ModelCall, RecordedModel
from benchmarks.memory.prompts import OURS, Prompts
from benchmarks.memory.registry import Entry
from benchmarks.memory.stage_files import Row, StageFile, digest, read_stage
from tellback.memory.evaluation.metrics import contains_answer, list_f1, token_f1
from tellback.vectorstore import Analyzer

READERLESS = "none"
"""Name of the reader, and of the judge, that is no model."""
DEPTH = 50
"""Hits that are kept of each answer of a system; a budget of the curve is filled from all of them."""
CURVE = (100, 250, 500, 1_000, 2_000)
"""Budgets of tokens at which the reader without a model answers, too."""
KEY = ("question", "k", "tokens")
REPEATS = 3
"""Verdicts of a judge on one answer; the majority counts, and how often they agree is said."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_REFUSAL = re.compile(
    r"no information|not mentioned|\b(?:do(?:es)? not|don['’]t|cannot|can['’]t) (?:know|say|tell|answer)",
    re.IGNORECASE,
)
_OFFICIAL_REFUSALS = ("no information available", "not mentioned")
_ANALYZER = Analyzer()
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Reading:
    """Equal terms for all systems: the first *k* hits within *tokens*, read by *reader*, judged by *judge*."""

    k: int = 10
    tokens: int = 1_000
    reader: RecordedModel | None = None
    judge: RecordedModel | None = None
    curve: tuple[int, ...] = CURVE
    """Budgets of tokens at which the reader answers, too, from any number of hits."""
    prompts: Prompts = OURS

    def settings(self, entry: Entry) -> list[tuple[int, int]]:
        """Return k and tokens of each answer to one question; a system that gives everything has one answer."""
        return [(self.k, self.tokens), *(() if entry.whole else ((DEPTH, budget) for budget in self.curve))]


def answer_path(folder: Path, reader: str) -> Path:
    """Return the file of the answers of *reader*."""
    return folder / ("answer.jsonl" if reader == READERLESS else f"answer-{_slug(reader)}.jsonl")


def judge_path(folder: Path, reader: str, judge: str) -> Path:
    """Return the file of the verdicts of *judge* on the answers of *reader*."""
    names = [_slug(name) for name in (reader, judge) if name != READERLESS]
    return folder / ("-".join(["judge", *names]) + ".jsonl")


def judge_paths(folder: Path, reader: str) -> list[tuple[str, Path]]:
    """Return name and file of each judge that there is of the answers of *reader*."""
    headers = [(read_stage(path)[0], path) for path in sorted(folder.glob("judge*.jsonl"))]
    return [(str(header["judge"]), path) for header, path in headers if header["reader"] == reader]


def answer(data: DataSet, entry: Entry, folder: Path, reading: Reading, *, again: bool = False) -> None:
    """Let the reader answer every question of *folder*'s retrieval that has no answer yet."""
    header, found = read_stage(folder / "retrieve.jsonl")
    name = reading.reader.name if reading.reader else READERLESS
    stage = StageFile(
        answer_path(folder, name),
        {
            "stage": "answer", "system": header["system"], "data": header["data"], "reader": name,
            "prompt": reading.prompts.version if reading.reader else "", "k": reading.k, "tokens": reading.tokens,
            "curve": list(reading.curve), "input": digest(found),
        },
        KEY,
        again=again,
    )  # fmt: skip
    for row in found:
        id = str(row["question"])
        for k, tokens in [] if row.get("error") else reading.settings(entry):
            if (id, str(k), str(tokens)) not in stage.rows:
                context = context_of(data, row, entry, k, tokens)
                answered = _answered(data.questions[id], row, context, reading)
                stage.add({"question": id, "k": k, "tokens": tokens, "context": len(context), **answered})
    stage.close()


def context_of(data: DataSet, row: Row, entry: Entry, k: int, tokens: int) -> list[tuple[str, str]]:
    """Return ids and lines of the first hits within *k* and *tokens*, or of all for a system that gives everything."""
    items, facts = data.corpus_of[row["question"]].by_id, row.get("facts", {})
    context, used = [], 0
    for place, (id, size) in enumerate(zip(row["hits"], row["sizes"], strict=True)):
        used += size
        if not entry.whole and (place >= k or used > tokens):
            break
        context.append((id, facts[str(place)] if str(place) in facts else items[id].line))
    return context


def _answered(asked: Asked, row: Row, context: Sequence[tuple[str, str]], reading: Reading) -> Row:
    if reading.reader is not None:
        prompt = reading.prompts.reader(asked, [line for _, line in context])
        try:
            reply = reading.reader.ask(ModelCall(prompt))
        except CallFailed as error:
            return {"error": str(error)}
        return {
            "answer": reply.text, "quoted": "", "refused": bool(_REFUSAL.search(reply.text)),
            "input": reply.input, "output": reply.output, "error": "",
        }  # fmt: skip
    id, sentence = ("", "") if row.get("abstains") or not context else extract(asked.question.text, context)
    return {"answer": sentence, "quoted": id, "refused": not sentence, "error": ""}


def extract(question: str, context: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Return the id of the item and its sentence that answers *question* best; ties to the earlier."""
    found = [(id, sentence, terms) for id, line in context for sentence, terms in _sentences(line)]
    frequency = Counter(term for _, _, terms in found for term in terms)
    asked = frozenset(_ANALYZER.terms(question))
    scores = [sum(log(1 + len(found) / frequency[term]) for term in sorted(terms & asked)) for _, _, terms in found]
    best = max(range(len(scores)), key=lambda place: (scores[place], -place), default=None)
    return ("", "") if best is None else found[best][:2]


@lru_cache(maxsize=20_000)
def _sentences(line: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the sentences of *line* with their terms."""
    parts = (part.strip() for part in _SENTENCE.split(line))
    return tuple((part, frozenset(_ANALYZER.terms(part))) for part in parts if part)


def judge(data: DataSet, folder: Path, reading: Reading, *, again: bool = False) -> None:
    """Judge every answer of the reader that has no verdict yet."""
    reader = reading.reader.name if reading.reader else READERLESS
    name = reading.judge.name if reading.judge else READERLESS
    header, answers = read_stage(answer_path(folder, reader))
    stage = StageFile(
        judge_path(folder, reader, name),
        {
            "stage": "judge", "system": header["system"], "data": header["data"], "reader": reader, "judge": name,
            "prompt": reading.prompts.version if reading.judge else "", "repeats": REPEATS if reading.judge else 1,
            "f1": data.f1, "k": header["k"], "tokens": header["tokens"], "curve": header["curve"],
            "input": digest(answers),
        },
        KEY,
        again=again,
    )  # fmt: skip
    stemmer = Stemmer("porter")
    for row in answers:
        at = {name: row[name] for name in KEY}
        if tuple(map(str, at.values())) not in stage.rows and not row.get("error"):
            stage.add({**at, **_judged(data, data.questions[row["question"]], row, reading, stemmer.stemWord)})
    stage.close()


def _judged(data: DataSet, asked: Asked, row: Row, reading: Reading, stem: Callable[[str], str]) -> Row:
    f1 = {
        "f1": official_f1(asked, row["answer"], stem) if data.f1 == "locomo" else token_f1(row["answer"], asked.answer)
    }
    scored: Mapping[str, float] = f1 if asked.answer or not asked.answerable else {}
    if reading.judge is None:
        quoted = row["quoted"] in asked.gold or contains_answer(row["answer"], asked.answer)
        return {"right": float(quoted if asked.answerable else row["refused"]), **scored, "error": ""}
    verdicts = []
    for repeat in range(REPEATS):
        try:
            reply = reading.judge.ask(ModelCall(reading.prompts.judge(asked, row["answer"]), repeat))
        except CallFailed as error:
            return {"error": str(error)}
        verdicts.append(reading.prompts.right.search(reply.text) is not None)
    right = sum(verdicts) * 2 > REPEATS
    return {"right": float(right), "agree": verdicts.count(right) / REPEATS, **scored, "error": ""}


def official_f1(asked: Asked, given: str, stem: Callable[[str], str]) -> float:
    """Return LoCoMo's F1: its kinds are scored each by a rule of its own, and a refusal by its very words."""
    if not asked.answerable:
        return float(not given or any(words in given.lower() for words in _OFFICIAL_REFUSALS))
    if asked.kind == "multi-hop":
        return list_f1(given, asked.answer, stem=stem)
    wanted = asked.answer.split(";")[0].strip() if asked.kind == "open-domain" else asked.answer
    return token_f1(given, wanted, stem=stem)


def _slug(name: str) -> str:
    return _NAME.sub("-", name).strip("-").lower()
