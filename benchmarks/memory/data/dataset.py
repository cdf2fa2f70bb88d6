"""Data sets as the bench sees them: corpora of items, and questions with what should be found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from benchmarks.memory.protocol import Item, Question


class DataError(ValueError):
    """A file of a data set is not of the shape that its readers expect; the message names the place."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its labels: *gold* ids with grades, *stale* ids that held before, the *answer* as text.

    Without gold it should be refused, if *answerable* is False, or is judged by its answer alone. *official*: the
    data set's own figure counts it.
    """

    question: Question
    kind: str
    gold: Mapping[str, int] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()
    answer: str = ""
    answerable: bool = True
    official: bool = True
    groups: tuple[str, ...] = ()
    """Further kinds that it counts among."""
    sessions: frozenset[str] = frozenset()
    """Sessions that hold the answer, by the data set's own labels."""


@dataclass(frozen=True)
class Corpus:
    """Contents of one memory and the questions about it."""

    name: str
    items: Sequence[Item]
    questions: Sequence[Asked]

    @cached_property
    def by_id(self) -> Mapping[str, Item]:
        """The items by their ids."""
        return {item.id: item for item in self.items}


@dataclass(frozen=True)
class DataSet:
    """A data set: its *corpora*, the *hash* of its files, and what it cannot measure (*limits*)."""

    name: str
    title: str
    corpora: Sequence[Corpus]
    hash: str
    limits: str
    f1: str = "plain"
    """Rule of the answers' F1: ``locomo`` for the official one of that data set."""
    drops: frozenset[str] = frozenset()
    """Kinds of questions that stand apart from the headline."""

    @cached_property
    def questions(self) -> Mapping[str, Asked]:
        """All questions by their ids."""
        return {asked.question.id: asked for corpus in self.corpora for asked in corpus.questions}

    @cached_property
    def corpus_of(self) -> Mapping[str, Corpus]:
        """The corpus of each question, by its id."""
        return {asked.question.id: corpus for corpus in self.corpora for asked in corpus.questions}


def hash_of(files: Sequence[Path]) -> str:
    """Return the SHA-256 of the bytes of *files* in their order."""
    digest = sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def moment_of(text: str, title: str, *forms: str) -> str:
    """Return the time *text* in ISO 8601, UTC; raise ``DataError`` where it has none of the *forms* of *title*."""
    for form in forms:
        try:
            return datetime.strptime(text.strip(), form).replace(tzinfo=UTC).isoformat()
        except ValueError:
            continue
    raise DataError(f"{text!r} is no date of {title}")


def files_of(path: Path, pattern: str) -> list[Path]:
    """Return *path* itself, or the files of the folder that match *pattern*; raise ``DataError`` for none."""
    files = [path] if path.is_file() else sorted(path.glob(pattern))
    if not files:
        raise DataError(f"{path}: there is no {pattern} in it")
    return files
