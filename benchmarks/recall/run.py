"""A run: every system does every task that it can, and each answer is written as a row at once."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.recall.results import AnswerRow, Fill
from benchmarks.recall.system import Contender, NotAvailable, Options, System, opened
from benchmarks.recall.task import REFUSES, Asked, Corpus, Task, session_of

DEPTH = 50
"""Number of hits of each answer."""
SESSIONS = "-sessions"
"""Suffix of a task's key for the same answers by session, each ranked as its best item."""

Row = Fill | AnswerRow


def can_do(contender: Contender, task: Task) -> bool:
    """Return whether the system takes part in the task."""
    return not contender.only or task.key in contender.only or task.status == "yours"


def run_task(
    contender: Contender,
    task: Task,
    options: Options,
    *,
    limit: int | None = None,
    absent: bool = True,
    work: Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Iterator[Row]:
    """Yield the rows of one system on one task. What fails is a row with its error; the run goes on.

    *limit*: only so many questions of each group and corpus; *absent* off leaves out what nothing answers, as it is
    left out for a system that cannot refuse.
    """
    for corpus in task.corpora():
        can = contender.can if absent else contender.can - {REFUSES}
        asked = _limited([question for question in corpus.questions if question.needs <= can], limit)
        if not asked:
            continue
        say(f"{contender.title}: {task.title}, {corpus.name}: {len(corpus.items)} items, {len(asked)} questions")
        with TemporaryDirectory(dir=work) as folder:
            yield from _run_corpus(contender, task, corpus, asked, options, Path(folder))


def _run_corpus(
    contender: Contender, task: Task, corpus: Corpus, asked: Sequence[Asked], options: Options, folder: Path
) -> Iterator[Row]:
    system: System | None = None
    gc.collect()
    start = perf_counter()
    try:
        system = opened(contender, folder, options)
        start = perf_counter()
        system.fill(corpus)
        yield Fill(contender.key, task.key, corpus.name, len(corpus.items), perf_counter() - start)
        system.ask(asked[0], DEPTH)  # an unmeasured first question, at which indexes are built
    except NotAvailable:
        raise
    except Exception as error:  # a system that fails is a row of the report, it does not end the run
        yield Fill(contender.key, task.key, corpus.name, len(corpus.items), perf_counter() - start, _said(error))
        if system is not None:
            system.close()
        system = None
    sessions = session_of(corpus.items) if task.sessions else {}
    for item in asked:
        row = _ask(system, contender, task, corpus, item)
        yield row
        if task.sessions and item.evidence:
            yield _by_session(row, sessions)
    if system is not None:
        system.close()


def _ask(system: System | None, contender: Contender, task: Task, corpus: Corpus, asked: Asked) -> AnswerRow:
    about = (contender.key, task.key, corpus.name, asked.id, asked.group, asked.evidence)
    start = perf_counter()
    try:
        if system is None:
            raise RuntimeError("it could not be filled")
        found = system.ask(asked, DEPTH)
    except Exception as error:
        return AnswerRow(*about, (), (perf_counter() - start) * 1e3, error=_said(error))
    ms = (perf_counter() - start) * 1e3
    return AnswerRow(*about, found.hits, ms, found.confidence, found.abstain)


def _by_session(row: AnswerRow, session: dict[str, str]) -> AnswerRow:
    hits: dict[str, float] = {}
    for id, score in row.hits:
        hits.setdefault(session.get(id, id), score)
    evidence = {session.get(id, id): 1 for id in row.evidence}
    about = (row.system, row.task + SESSIONS, row.corpus, row.question, row.group)
    return AnswerRow(*about, evidence, tuple(hits.items()), row.ms, error=row.error)


def _limited(questions: Sequence[Asked], limit: int | None) -> list[Asked]:
    """Return the first *limit* questions of each group."""
    if limit is None:
        return list(questions)
    seen: Counter[str] = Counter()
    kept = []
    for question in questions:
        seen[question.group] += 1
        if seen[question.group] <= limit:
            kept.append(question)
    return kept


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]
