"""LoCoMo as tasks: each conversation alone, all in one memory, told to an assistant, in follow-ups, unanswerable."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

from benchmarks.datasets import Conversation, Question, locomo, squad
from benchmarks.forms import FollowUp, follow_ups, named_alone, told_to_an_assistant
from benchmarks.recall.task import Asked, Corpus, Task
from tellback.memory import Memory

ADVERSARIAL = "adversarial"
ANSWERABLE = ("single-hop", "temporal", "multi-hop", "open-domain")
ELSEWHERE, RENAMED, OFF_TOPIC = "another conversation", "another conversation, names replaced", "something else"
NAMED = "naming one person"
WHOLE, ALONE, BEHIND = "second, as it was", "second, leaning, alone", "second, leaning, with the turn before"
_STRANGE = 40
"""Questions about something else altogether that each conversation is asked."""


def locomo_tasks(folder: Path) -> list[Task]:
    """Return the tasks; their conversations are read on use."""
    data = "locomo"

    def task(key: str, title: str, corpora: object, **more: object) -> Task:
        return Task(key, title, "tuned on", "turn", corpora, data=data, **more)  # type: ignore[arg-type]

    return [
        task(
            "locomo-turns", "LoCoMo turns, categories 1-4", lambda: _alone(folder),
            headline=ANSWERABLE, sessions="LoCoMo sessions, categories 1-4",
            note="each conversation its own memory",
        ),
        task(
            "locomo-pooled", "LoCoMo pooled, all questions", lambda: _pooled(folder),
            note="all conversations in one memory, adversarial questions with them",
        ),
        task(
            "locomo-forms", "LoCoMo, questions that name one person, 1-4", lambda: _forms(folder), headline=(NAMED,),
            note="and second questions that lean on a first one, each conversation its own memory",
        ),
        task(
            "locomo-assistant", "LoCoMo asked of an assistant, 1-4", lambda: _assistant(folder), headline=ANSWERABLE,
            note="the same questions, in the first person; one speaker is the user, the other the assistant",
        ),
    ]  # fmt: skip


def item_of(turn: Memory) -> Memory:
    """Return a turn under the id that evidence names, so that chance names decide no tie."""
    return replace(turn, id=turn.key or "", key=None)


def _corpus(conversation: Conversation, questions: Sequence[Question], more: Sequence[Asked] = ()) -> Corpus:
    return Corpus(
        conversation.name,
        tuple(item_of(turn) for turn in conversation.turns),
        (*_asked(conversation.name, questions), *more),
    )


def _asked(name: str, questions: Sequence[Question]) -> tuple[Asked, ...]:
    return tuple(
        Asked(f"{name}/q{position}", element.text, element.group, dict(element.evidence))
        for position, element in enumerate(questions)
    )


def _alone(folder: Path) -> Iterator[Corpus]:
    conversations = locomo(folder)
    strange = _strange_questions(folder, _STRANGE * len(conversations))
    for position, element in enumerate(conversations):
        absent = [
            Asked(f"{element.name}/x{number}", text, OFF_TOPIC, {})
            for number, text in enumerate(strange[position * _STRANGE : (position + 1) * _STRANGE])
        ]
        if len(conversations) > 1:
            absent += _of_another(element, conversations[(position + 1) % len(conversations)])
        yield _corpus(element, element.questions, absent)


def _of_another(one: Conversation, other: Conversation) -> list[Asked]:
    """Return the answerable questions of *other*, as they are and with its names replaced by those of *one*."""
    ours, theirs = _people(one), _people(other)
    pairs = list(zip(theirs, islice(cycle(ours), len(theirs)), strict=True))
    texts = [question.text for question in other.questions if question.group in ANSWERABLE]
    renamed = [_renamed(text, pairs) for text in texts]
    return [
        *(Asked(f"{one.name}/e{position}", text, ELSEWHERE, {}) for position, text in enumerate(texts)),
        *(Asked(f"{one.name}/r{position}", text, RENAMED, {}) for position, text in enumerate(renamed)),
    ]


def _people(conversation: Conversation) -> list[str]:
    return sorted({turn.speaker for turn in conversation.turns if turn.speaker})


def _renamed(text: str, pairs: Sequence[tuple[str, str]]) -> str:
    for old, new in pairs:
        text = re.sub(rf"\b{re.escape(old)}\b", new, text)
    return text


def _strange_questions(folder: Path, count: int) -> list[str]:
    """Return *count* questions about encyclopedia articles, none where that data is missing; always the same ones."""
    if not (folder / "squad").is_dir():
        return []
    texts = [question.text for question in squad(folder).questions]
    return random.Random(1).sample(texts, min(count, len(texts)))


def _pooled(folder: Path) -> Iterator[Corpus]:
    conversations = [_corpus(element, element.questions) for element in locomo(folder)]
    yield Corpus(
        "all",
        tuple(item for element in conversations for item in element.items),
        tuple(asked for element in conversations for asked in element.questions),
    )


def _forms(folder: Path) -> Iterator[Corpus]:
    for element in locomo(folder):
        named = _asked(
            element.name, [replace(each, group=NAMED) for each in named_alone(element) if each.group in ANSWERABLE]
        )
        pairs = [_second(element.name, position, pair) for position, pair in enumerate(follow_ups(element))]
        yield _corpus(element, (), [*named, *(asked for each in zip(*pairs, strict=True) for asked in each)])


def _assistant(folder: Path) -> Iterator[Corpus]:
    for element in locomo(folder):
        for form in told_to_an_assistant(element):
            yield _corpus(form, form.questions)


def _second(name: str, position: int, pair: FollowUp) -> tuple[Asked, Asked, Asked]:
    """Return a second question as it was, leaning and alone, leaning behind the first."""
    id, whole, leaning = f"{name}/f{position}", pair.whole.text, pair.leaning.text
    evidence = dict(pair.whole.evidence)
    return (
        Asked(f"{id}-whole", whole, WHOLE, evidence),
        Asked(f"{id}-alone", leaning, ALONE, evidence),
        Asked(f"{id}-context", leaning, BEHIND, evidence, (pair.before,)),
    )
