"""Questions over the documentation of four Debian packages, with the sentences that answer them.

A passage, or a quote, is right when it holds the words of one of these sentences: letters and digits in order, whatever
stands between them, so that HTML, PDF and text are judged alike.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Half = Literal["choose", "report"]
HALVES: tuple[Half, Half] = ("choose", "report")
FIGURES = ("sentence first", "sentence quoted", "passage first", "passage in three", "passage in ten")
FOLDERS = {
    "python": "usr/share/doc/python3.11/html",
    "debian": "usr/share/debian-reference",
    "git": "usr/share/doc/git-doc",
    "postgresql": "usr/share/doc/postgresql-doc-15/html",
}
"""Folder of each documentation below the root of the system, or below the folder where packages were unpacked."""
INCLUDED = ("*.html", "*.pdf", "*.md")
"""Files that are read: the packages hold the sources of the same pages beside them."""
PACKAGES = ("python3.11-doc", "debian-reference-en", "git-doc", "postgresql-doc-15")
_DATA = Path(__file__).with_name("data")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class TechnicalQuestion:
    """Question over one *documentation*; each of *answers* are words of a sentence that answers it."""

    documentation: str
    text: str
    answers: tuple[str, ...]
    half: Half

    def answered_by(self, text: str) -> bool:
        """Return whether *text* holds one of the sentences that answer the question."""
        words = f" {plain_words(text)} "
        return any(f" {answer} " in words for answer in self.answers)


def plain_words(text: str) -> str:
    """Return the words of *text* in small letters, with a space between them."""
    return " ".join(_WORD.findall(text.casefold()))


def technical_questions() -> list[TechnicalQuestion]:
    """Return the questions, in the order of the file; the halves alternate."""
    lines = (_DATA / "technical.txt").read_text("utf-8").splitlines()
    fields = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return [
        TechnicalQuestion(name, text, tuple(map(plain_words, answers.split(" || "))), HALVES[number % 2])
        for number, (name, text, answers) in enumerate(fields)
    ]


def judge(question: TechnicalQuestion, passages: Sequence[str], quotes: Sequence[str]) -> dict[str, bool]:
    """Return each of ``FIGURES`` for the *passages* found, best first, and the *quotes* of the answer."""
    rank = next((rank for rank, text in enumerate(passages) if question.answered_by(text)), len(passages) + 10)
    right = [question.answered_by(quote) for quote in quotes]
    return dict(zip(FIGURES, (any(right[:1]), any(right), rank < 1, rank < 3, rank < 10), strict=True))
