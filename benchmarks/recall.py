"""How much of the evidence is found: LoCoMo, SQuAD and Cranfield through the public face of ``memory``.

Quality, not speed: each question is one ``recall`` of a memory that was filled by ``remember_many`` or ``ingest``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from benchmarks.datasets import Conversation, Library, Question, cranfield, locomo, squad
from benchmarks.forms import follow_ups, named_alone, told_to_an_assistant
from benchmarks.metrics import Answer, all_at, mrr, ndcg_at, recall_at
from benchmarks.updates import updates
from memory import Chunk, KnowledgeBase, LocalEmbedder, LocalWordVectors, LongTermMemory, Memory, RecallSettings
from vectorstore import open_store

ADVERSARIAL = "adversarial"
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_DEPTH = 50


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run was made with."""

    sets: tuple[str, ...] = ("locomo", "squad", "cranfield", "updates")
    vectors: bool = True
    store: str = "sqlite"
    limit: int | None = None
    recall: RecallSettings | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report: what was measured, on how many questions, and its figures by name."""

    name: str
    questions: int
    figures: dict[str, float]


def run(folder: Path, settings: Settings, say: Callable[[str], None]) -> list[Row]:
    """Measure the data sets of *settings* found in *folder*."""
    rows: list[Row] = []
    with asyncio.Runner() as runner:
        if "locomo" in settings.sets:
            rows += runner.run(_locomo(locomo(folder), settings, say))
        if "squad" in settings.sets:
            rows += runner.run(_library("SQuAD, own paragraphs", squad(folder), settings, say))
        if "cranfield" in settings.sets:
            rows += runner.run(_library("Cranfield", cranfield(folder), settings, say))
        if "updates" in settings.sets:
            rows += runner.run(_updates(settings, say))
    return rows


async def _updates(settings: Settings, say: Callable[[str], None]) -> list[Row]:
    """Ask each generated case for what is so now, and for what was so before it changed."""
    say("statements that change, generated")
    now: list[Answer] = []
    then: list[Answer] = []
    for case in updates():
        with opened(settings) as memory:
            await memory.remember_many(case.turns)
            for answers, wanted, moment in ((now, case.newer, None), (then, case.older, case.then)):
                found = await memory.recall(case.question, k=_DEPTH, as_of=moment)
                ranked = tuple(hit.memory.key or "" for hit in found)
                answers.append(Answer("changed", ranked, {wanted: 1}))
    return [_row("Changed statements, asked for now", now), _row("- asked for as it was then", then)]


async def _locomo(conversations: Sequence[Conversation], settings: Settings, say: Callable[[str], None]) -> list[Row]:
    alone: list[Answer] = []
    by_session: list[Answer] = []
    times: list[float] = []
    for conversation in conversations:
        say(f"LoCoMo {conversation.name}: {len(conversation.turns)} turns")
        with opened(settings) as memory:
            found = await asked_of(memory, conversation.turns, conversation.questions, settings, times)
        alone += found
        by_session += [_sessions(answer, conversation.turns) for answer in found]
    say(f"LoCoMo pooled: {sum(len(one.turns) for one in conversations)} turns")
    with opened(settings) as memory:
        turns = [turn for one in conversations for turn in one.turns]
        pooled = await asked_of(memory, turns, [q for one in conversations for q in one.questions], settings, [])
    groups = dict.fromkeys(answer.group for answer in alone)
    answerable = [answer for answer in alone if answer.group != ADVERSARIAL]
    return [
        _row("LoCoMo turns, categories 1-4", answerable, ms=_median(times)),
        *(_row(f"- {group}", [answer for answer in alone if answer.group == group]) for group in groups),
        _row("LoCoMo turns, all questions", alone),
        _row("LoCoMo sessions, categories 1-4", [answer for answer in by_session if answer.group != ADVERSARIAL]),
        _row("LoCoMo sessions, all questions", by_session),
        _row("LoCoMo pooled, categories 1-4", [answer for answer in pooled if answer.group != ADVERSARIAL]),
        _row("LoCoMo pooled, all questions", pooled),
        *await _other_forms(conversations, settings, say),
    ]


async def _other_forms(
    conversations: Sequence[Conversation], settings: Settings, say: Callable[[str], None]
) -> list[Row]:
    """Return rows of the assistant form and of follow-ups, each below the same questions as they were."""
    say("LoCoMo in other forms: an assistant's user, follow-ups")
    as_they_were: list[Answer] = []
    in_form: list[Answer] = []
    whole: list[Answer] = []
    alone: list[Answer] = []
    leaning: list[Answer] = []
    for conversation in conversations:
        with opened(settings) as memory:
            as_they_were += await asked_of(memory, conversation.turns, named_alone(conversation), settings, [])
            for one in follow_ups(conversation)[: settings.limit]:
                for answers, question, context in (
                    (whole, one.whole, ()),
                    (alone, one.leaning, ()),
                    (leaning, one.leaning, (one.before,)),
                ):
                    found = await memory.recall(question.text, k=_DEPTH, context=context, lanes=("conversation",))
                    ranked = tuple(hit.memory.key or "" for hit in found)
                    answers.append(Answer(question.group, ranked, question.evidence))
        for form in told_to_an_assistant(conversation):
            with opened(settings) as memory:
                in_form += await asked_of(memory, form.turns, form.questions, settings, [])
    return [
        _row("Questions that name one person, 1-4", [one for one in as_they_were if one.group != ADVERSARIAL]),
        _row("- asked of an assistant by them", [one for one in in_form if one.group != ADVERSARIAL]),
        _row("Second questions, as they were", whole),
        _row("- leaning, asked alone", alone),
        _row("- leaning, with the turn before", leaning),
    ]


async def asked_of(
    memory: LongTermMemory,
    turns: Sequence[Memory],
    questions: Sequence[Question],
    settings: Settings,
    times: list[float],
) -> list[Answer]:
    """Remember *turns* and ask *questions*; *times* gets the seconds of each."""
    await memory.remember_many(turns)
    answers = []
    await memory.recall("warm")
    for question in questions[: settings.limit]:
        start = perf_counter()
        found = await memory.recall(question.text, k=_DEPTH, lanes=("conversation",))
        times.append(perf_counter() - start)
        ranked = tuple(hit.memory.key or "" for hit in found)
        answers.append(Answer(question.group, ranked, question.evidence))
    return answers


def _sessions(answer: Answer, turns: Sequence[Memory]) -> Answer:
    """Return the same answer by session: a session stands where its best turn does."""
    session_of = {turn.key: turn.session or "" for turn in turns}
    ranked = tuple(dict.fromkeys(session_of[id] for id in answer.ranked))
    return replace(answer, ranked=ranked, evidence={session_of[id]: 1 for id in answer.evidence})


async def _library(name: str, library: Library, settings: Settings, say: Callable[[str], None]) -> list[Row]:
    say(f"{name}: {len(library.documents)} documents")
    times: list[float] = []
    answers = await answers_of_library(library, settings, times)
    return [_row(name, answers, ms=_median(times), ndcg=True)]


async def answers_of_library(library: Library, settings: Settings, times: list[float]) -> list[Answer]:
    """Ingest the documents of *library* whole and ask its questions; *times* gets the seconds of each."""
    answers: list[Answer] = []
    with opened(settings) as memory, TemporaryDirectory() as folder:
        for id, text in library.documents.items():
            (Path(folder) / f"{id}.txt").write_text(text, "utf-8")
        await KnowledgeBase(memory, chunker=WholeText()).ingest([folder])
        for question in library.questions[: settings.limit]:
            start = perf_counter()
            found = await memory.recall(question.text, k=_DEPTH, lanes=("documents",))
            times.append(perf_counter() - start)
            sources = (hit.memory.source for hit in found)
            ranked = tuple(Path(one.document or "").stem for one in sources if one is not None)
            answers.append(Answer(question.group, ranked, question.evidence))
    return answers


class WholeText:
    """Keeps each document whole, so that what is ranked is what the data set judges."""

    fingerprint = "whole"

    def chunk(self, text: str) -> list[Chunk]:
        """Return the text as its one chunk."""
        return [Chunk(text, 0, len(text))]


@contextmanager
def opened(settings: Settings) -> Iterator[LongTermMemory]:
    """Give an empty memory; a file of its own for the SQLite store."""
    with TemporaryDirectory() as folder:
        store = open_store("numpy:" if settings.store == "numpy" else f"sqlite:///{folder}/memory.db")
        embedder = LocalEmbedder() if settings.vectors else None
        words = LocalWordVectors() if settings.vectors else None
        names = (
            count()
        )  # ties are broken by id: with random ones, a run would differ from the next by a question or two
        memory = LongTermMemory(
            store,
            embedder=embedder,
            word_vectors=words,
            clock=lambda: _NOW,
            ids=lambda: f"m{next(names):07}",
            recall_settings=settings.recall,
        )
        try:
            yield memory
        finally:
            store.close()


def _row(name: str, answers: Sequence[Answer], *, ms: float | None = None, ndcg: bool = False) -> Row:
    figures = {f"R@{k}": recall_at(answers, k) for k in (1, 5, 10)}
    figures |= {"all@10": all_at(answers, 10), "MRR": mrr(answers)}
    if ndcg:
        figures["nDCG@10"] = ndcg_at(answers, 10)
    if ms is not None:
        figures["ms"] = ms
    return Row(name, len(answers), figures)


def _median(times: Sequence[float]) -> float:
    return sorted(times)[len(times) // 2] * 1000 if times else 0.0
