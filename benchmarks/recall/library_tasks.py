"""SQuAD and Cranfield as tasks, documents kept whole; and SQuAD with half of its articles not there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from benchmarks.datasets import Library, cranfield, squad
from benchmarks.recall.task import Asked, Corpus, Task
from tellback.memory import Memory

ABSENT = "article absent"
_SAMPLE = 400


def squad_tasks(folder: Path) -> list[Task]:
    """Return the paragraph of each question among all paragraphs, and questions whose article is not there."""
    return [
        Task(
            "squad", "SQuAD, own paragraphs", "tuned on", "paragraph",
            lambda: [corpus_of("squad", squad(folder))], data="squad",
        ),
        Task(
            "squad-halves", "SQuAD, half of the articles", "tuned on", "paragraph", lambda: _halves(folder),
            headline=("answerable",), data="squad",
            note=f"{_SAMPLE} questions of each half asked of both halves, by a seed",
        ),
    ]  # fmt: skip


def cranfield_tasks(folder: Path) -> list[Task]:
    """Return the judged abstracts of each query."""
    return [
        Task(
            "cranfield", "Cranfield", "seen", "abstract",
            lambda: [corpus_of("cranfield", cranfield(folder))], data="cranfield",
            note="judgements are grades: 1, the best, counts 4",
        )
    ]  # fmt: skip


def corpus_of(name: str, library: Library) -> Corpus:
    """Return a library as a corpus."""
    asked = tuple(
        Asked(f"{name}/q{position}", question.text, question.group, dict(question.evidence))
        for position, question in enumerate(library.questions)
    )
    return Corpus(name, _items(library), asked, documents=True)


def _items(library: Library) -> tuple[Memory, ...]:
    return tuple(Memory(text, id=id, kind="document") for id, text in library.documents.items())


def _halves(folder: Path) -> Iterator[Corpus]:
    whole = corpus_of("squad", squad(folder))
    articles = sorted({_article(item.id) for item in whole.items})
    halves = [frozenset(articles[::2]), frozenset(articles[1::2])]
    rng = random.Random(1)
    drawn = []
    for half in halves:
        its = [asked for asked in whole.questions if _article(next(iter(asked.evidence))) in half]
        drawn.append(rng.sample(its, min(_SAMPLE, len(its))))
    for position, half in enumerate(halves):
        absent = (Asked(f"{each.id}-absent", each.text, ABSENT, {}) for each in drawn[1 - position])
        items = tuple(item for item in whole.items if _article(item.id) in half)
        yield Corpus(f"half {position + 1}", items, (*drawn[position], *absent), documents=True)


def _article(id: str) -> str:
    return id.rpartition("-")[0]
