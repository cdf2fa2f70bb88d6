"""Prompts of the reader and the judge: ours (``prompts.json``), or those of a file that the user has.

The version is the hash of the file. LongMemEval's official judge is asked by the function of its own
``evaluate_qa.py``, other prompts are templates in JSON (``docs/how-to/bench.md``).
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

_OURS = Path(__file__).with_name("prompts.json")
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
    right: re.Pattern[str]


def pair_prompt(asked: Asked, first: str, second: str) -> str:
    """Return the prompt that asks which of two answers is better."""
    expected = asked.answer if asked.answerable else "nothing that was told answers it, which a response should say"
    return (
        "Two responses to one question. Which gives the expected answer better? Reply with 1, 2, or 0 if neither is "
        f"better.\n\nQuestion: {asked.question.text}\nExpected: {expected}\nResponse 1: {first}\nResponse 2: {second}"
    )


def read_prompts(path: Path = _OURS) -> Prompts:
    """Return the prompts of *path*: LongMemEval's ``evaluate_qa.py``, or templates in JSON; raise ``DataError``.

    What a file of templates leaves out stays ours. A line of a template that names ``{at}`` is left out where the
    question has no time.
    """
    text, ours = path.read_text("utf-8"), json.loads(_OURS.read_text("utf-8"))
    version = f"{path.name} {sha256(text.encode()).hexdigest()[:12]}"
    given: dict[str, Any] = {} if path.suffix == ".py" else json.loads(text)
    if unknown := given.keys() - ours.keys():
        raise DataError(f"{path}: {min(unknown)} is none of {', '.join(ours)}")
    templates = {**ours, **given}
    judges = templates["judge"]
    if not isinstance(judges, dict) or not judges.keys() >= {"", _UNANSWERABLE}:
        raise DataError(f'{path}: judge is a template for "", for "{_UNANSWERABLE}", and for kinds of questions')

    def read(asked: Asked, context: Sequence[str]) -> str:
        numbered = "\n".join(f"[{number}] {line}" for number, line in enumerate(context, 1))
        return _filled(templates["reader"], asked, context=numbered or "(nothing was found)")

    def judge(asked: Asked, answer: str) -> str:
        kind = asked.kind if asked.answerable else _UNANSWERABLE
        return _filled(judges.get(kind, judges[""]), asked, response=answer)

    right = re.compile(templates["right"], re.IGNORECASE)
    return Prompts(version, read, _official_judge(path, text) if path.suffix == ".py" else judge, right)


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
    lines = [line for line in template.split("\n") if asked.question.at or "{at}" not in line]
    return _PLACE.sub(lambda place: values.get(place[1], ""), "\n".join(lines))


OURS = read_prompts()
