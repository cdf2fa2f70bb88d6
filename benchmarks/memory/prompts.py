"""Prompts of the reader and the judge, with their versions: ours, or those of a file that the user has.

A change of a word of ours is a new version; that of a file is its hash. LongMemEval's official judge is asked by the
function of its own ``evaluate_qa.py``, other prompts are templates in JSON (``docs/how-to/bench.md``).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.memory.data.dataset import Asked, DataError

_EXTRA = {
    "temporal-reasoning": "A number of days, weeks or months that is off by one is correct, too.",
    "knowledge-update": "It may name what held before, if what holds now is given as the answer.",
    "single-session-preference": "The expected answer is a rubric; using rightly what the user likes is enough.",
}
_OFFICIAL = "get_anscheck_prompt"
"""Function of LongMemEval's ``evaluate_qa.py`` that returns the prompt of its judge."""
_UNANSWERABLE = "unanswerable"
_PLACE = re.compile(r"\{(context|question|at|answer|response)\}")


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of one *version*; a judge's reply that has a match of *right* says that the answer is right."""

    version: str
    reader: Callable[[Asked, Sequence[str]], str]
    judge: Callable[[Asked, str], str]
    right: re.Pattern[str] = re.compile("yes", re.IGNORECASE)


def reader_prompt(asked: Asked, context: Sequence[str]) -> str:
    """Return our prompt of the reader over the lines of *context*."""
    when = f"It is {asked.question.at}.\n" if asked.question.at else ""
    return (
        "Answer the question from these remembered lines alone, in as few words as possible. "
        "If they do not hold the answer, say: no information available.\n\n"
        f"{_numbered(context)}\n\n{when}Question: {asked.question.text}\nAnswer:"
    )


def judge_prompt(asked: Asked, answer: str) -> str:
    """Return our prompt of the judge on *answer*; it asks what LongMemEval's does, kind by kind."""
    if not asked.answerable:
        return (
            "Nothing that was told answers this question. Does the response say so, rather than answer it? "
            f"Reply yes or no.\n\nQuestion: {asked.question.text}\nResponse: {answer}"
        )
    return (
        "Does the response give the expected answer, in whatever words? A part of it alone is not enough. "
        f"{_EXTRA.get(asked.kind, '')} Reply yes or no.\n\n"
        f"Question: {asked.question.text}\nExpected: {asked.answer}\nResponse: {answer}"
    )


def pair_prompt(asked: Asked, first: str, second: str) -> str:
    """Return the prompt that asks which of two answers is better."""
    expected = asked.answer if asked.answerable else "nothing that was told answers it, which a response should say"
    return (
        "Two responses to one question. Which gives the expected answer better? Reply with 1, 2, or 0 if neither is "
        f"better.\n\nQuestion: {asked.question.text}\nExpected: {expected}\nResponse 1: {first}\nResponse 2: {second}"
    )


OURS = Prompts("tellback-1", reader_prompt, judge_prompt)


def read_prompts(path: Path) -> Prompts:
    """Return the prompts of *path*: LongMemEval's ``evaluate_qa.py``, or templates in JSON; raise ``DataError``."""
    text = path.read_text("utf-8")
    version = f"{path.name} {sha256(text.encode()).hexdigest()[:12]}"
    if path.suffix == ".py":
        return Prompts(version, reader_prompt, _official_judge(path, text))
    given: dict[str, Any] = json.loads(text)
    if unknown := given.keys() - {"reader", "judge", "right"}:
        raise DataError(f"{path}: {min(unknown)} is none of reader, judge, right")
    reader, judges = given.get("reader"), given.get("judge", {})
    if not isinstance(judges, dict) or (judges and not judges.keys() >= {"", _UNANSWERABLE}):
        raise DataError(f'{path}: judge is a template for "", for "{_UNANSWERABLE}", and for kinds of questions')

    def read(asked: Asked, context: Sequence[str]) -> str:
        return _filled(reader, asked, context=_numbered(context)) if reader else reader_prompt(asked, context)

    def judge(asked: Asked, answer: str) -> str:
        if not judges:
            return judge_prompt(asked, answer)
        kind = asked.kind if asked.answerable else _UNANSWERABLE
        return _filled(judges.get(kind, judges[""]), asked, response=answer)

    return Prompts(version, read, judge, re.compile(given.get("right", "yes"), re.IGNORECASE))


def _official_judge(path: Path, text: str) -> Callable[[Asked, str], str]:
    """Return the judge's prompt by the one function of the official script; nothing else of it is run."""
    found = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == _OFFICIAL]
    if not found:
        raise DataError(f"{path}: there is no function {_OFFICIAL} in it, as LongMemEval's evaluate_qa.py has")
    names: dict[str, Any] = {}
    exec(compile(ast.Module([found[0]], []), str(path), "exec"), names)

    def judge(asked: Asked, answer: str) -> str:
        given = (asked.kind, asked.question.text, asked.answer, answer)
        return str(names[_OFFICIAL](*given, abstention=not asked.answerable))

    return judge


def _filled(template: str, asked: Asked, **more: str) -> str:
    values: Mapping[str, str] = {
        "question": asked.question.text, "at": asked.question.at, "answer": asked.answer, **more
    }  # fmt: skip
    return _PLACE.sub(lambda place: values.get(place[1], ""), template)


def _numbered(context: Sequence[str]) -> str:
    return "\n".join(f"[{number}] {line}" for number, line in enumerate(context, 1)) or "(nothing was found)"
