"""Stages three and four: a reader answers over what was found, and a judge says whether the answer is right.

The harness gives every system's reader equal k and equal tokens of context. Without a model the reader quotes the
sentence that has most of the question's words, weighed by their rarity in the context, and the judge looks whether it
is from the evidence, or holds the answer; unanswerable questions are right if they were refused.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

from Stemmer import Stemmer

from benchmarks.memory.data.dataset import Asked, DataSet
from benchmarks.memory.models import CallFailed, ModelCall, RecordedModel
from benchmarks.memory.prompts import JUDGE_VERSION, READER_VERSION, judge_prompt, reader_prompt
from benchmarks.memory.registry import Entry
from benchmarks.memory.stage_files import Row, StageFile, digest, read_stage
from tellback.memory.evaluation.metrics import contains_answer, list_f1, token_f1
from tellback.vectorstore import Analyzer

READERLESS = "none"
"""Name of the reader, and of the judge, that is no model."""
REPEATS = 3
"""Verdicts of a judge on one answer; the majority counts, and how often they agree is said."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_REFUSAL = re.compile(
    r"no information|not mentioned|\b(?:do(?:es)? not|don['’]t|cannot|can['’]t) (?:know|say|tell|answer)",
    re.IGNORECASE,
)
_OFFICIAL_REFUSALS = ("no information available", "not mentioned")
_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Reading:
    """Equal terms for all systems: the first *k* hits within *tokens*, read by *reader*, judged by *judge*."""

    k: int = 10
    tokens: int = 1_000
    reader: RecordedModel | None = None
    judge: RecordedModel | None = None
    limit: int | None = None


def answer_path(folder: Path, reader: str) -> Path:
    """Return the file of the answers of *reader*."""
    return folder / ("answer.jsonl" if reader == READERLESS else f"answer-{_slug(reader)}.jsonl")


def judge_path(folder: Path, reader: str, judge: str) -> Path:
    """Return the file of the verdicts of *judge* on the answers of *reader*."""
    names = [_slug(name) for name in (reader, judge) if name != READERLESS]
    return folder / ("-".join(["judge", *names]) + ".jsonl")


def answer(data: DataSet, entry: Entry, folder: Path, reading: Reading, *, again: bool = False) -> None:
    """Let the reader answer every question of *folder*'s retrieval that has no answer yet."""
    header, found = read_stage(folder / "retrieve.jsonl")
    name = reading.reader.name if reading.reader else READERLESS
    stage = StageFile(
        answer_path(folder, name),
        {
            "stage": "answer", "system": header["system"], "data": header["data"], "reader": name,
            "prompt": READER_VERSION if reading.reader else "", "k": reading.k, "tokens": reading.tokens,
            "input": digest(found),
        },
        ["question"],
        again=again,
    )  # fmt: skip
    analyzer = Analyzer()
    for row in found:
        id = str(row["question"])
        if (id,) in stage.rows or row.get("error"):
            continue
        asked, context = data.questions[id], context_of(data, row, entry, reading)
        stage.add(
            {"question": id, "context": [id for id, _ in context], **_answered(asked, row, context, analyzer, reading)}
        )
    stage.close()


def context_of(data: DataSet, row: Row, entry: Entry, reading: Reading) -> list[tuple[str, str]]:
    """Return ids and lines of the first hits within k and tokens, or of all for a system that gives everything."""
    items, facts = data.corpus_of[row["question"]].by_id, row.get("facts", {})
    context, used = [], 0
    for place, (id, size) in enumerate(zip(row["hits"], row["sizes"], strict=True)):
        used += size
        if not entry.whole and (place >= reading.k or used > reading.tokens):
            break
        context.append((id, facts[str(place)] if str(place) in facts else items[id].line))
    return context


def _answered(asked: Asked, row: Row, context: Sequence[tuple[str, str]], analyzer: Analyzer, reading: Reading) -> Row:
    if reading.reader is not None:
        prompt = reader_prompt(asked, [line for _, line in context])
        try:
            reply = reading.reader.ask(ModelCall(prompt))
        except CallFailed as error:
            return {"error": str(error)}
        return {
            "answer": reply.text, "quoted": "", "refused": bool(_REFUSAL.search(reply.text)),
            "input": reply.input, "output": reply.output, "error": "",
        }  # fmt: skip
    id, sentence = ("", "") if row.get("abstains") or not context else extract(asked.question.text, context, analyzer)
    return {"answer": sentence, "quoted": id, "refused": not sentence, "error": ""}


def extract(question: str, context: Sequence[tuple[str, str]], analyzer: Analyzer) -> tuple[str, str]:
    """Return the sentence of *context* that answers *question* best, with the id of its item; ties to the earlier."""
    sentences = [(id, part.strip()) for id, line in context for part in _SENTENCE.split(line) if part.strip()]
    terms = [frozenset(analyzer.terms(part)) for _, part in sentences]
    frequency = Counter(term for one in terms for term in one)
    asked = frozenset(analyzer.terms(question))
    scores = [sum(log(1 + len(terms) / frequency[term]) for term in one & asked) for one in terms]
    return sentences[max(range(len(scores)), key=lambda place: (scores[place], -place))] if scores else ("", "")


def judge(data: DataSet, folder: Path, reading: Reading, *, again: bool = False) -> None:
    """Judge every answer of the reader that has no verdict yet."""
    reader = reading.reader.name if reading.reader else READERLESS
    name = reading.judge.name if reading.judge else READERLESS
    header, answers = read_stage(answer_path(folder, reader))
    stage = StageFile(
        judge_path(folder, reader, name),
        {
            "stage": "judge", "system": header["system"], "data": header["data"], "reader": reader, "judge": name,
            "prompt": JUDGE_VERSION if reading.judge else "", "repeats": REPEATS if reading.judge else 1,
            "f1": data.f1, "input": digest(answers),
        },
        ["question"],
        again=again,
    )  # fmt: skip
    stemmer = Stemmer("porter")
    for row in answers:
        id = str(row["question"])
        if (id,) not in stage.rows and not row.get("error"):
            stage.add({"question": id, **_judged(data, data.questions[id], row, reading, stemmer.stemWord)})
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
            reply = reading.judge.ask(ModelCall(judge_prompt(asked, row["answer"]), repeat))
        except CallFailed as error:
            return {"error": str(error)}
        verdicts.append("yes" in reply.text.lower())
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
