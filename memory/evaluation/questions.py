"""Evaluation questions made from memories by rule, each answered by one memory. No model; equal seeds give equal ones.

Known items are asked for by their own words, so they flatter a search by words. Two kinds do not: a sentence that was
taken out of its memory (the inverse cloze task, Lee et al. 2019), and a question of one person that another answered.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal, get_args

from tellback.memory.models import Memory

QuestionKind = Literal["words", "speaker", "date", "sentence", "answer"]
QUESTION_KINDS: tuple[QuestionKind, ...] = get_args(QuestionKind)
WRITTEN: Final = "written"
"""Kind of a question that somebody wrote."""
_WORD = re.compile(r"\w+")
_SENTENCE_ENDS = ".!?\u3002\uff01\uff1f"
"""Marks that end a sentence, Chinese ones too."""
_SENTENCE = re.compile(rf"(?<=[{_SENTENCE_ENDS}])\s*")
_QUESTION_MARKS = ("?", "\uff1f")
_QUESTION_WORDS = 3
_MIN_SENTENCE_WORDS = 4
"""Words of a sentence that becomes a question."""
_COMMON_SHARE, _COMMON_COUNT = 0.1, 5
"""A word in more than this share of the memories, and in more than this many, does not distinguish any."""


@dataclass(frozen=True, slots=True)
class EvaluationQuestion:
    """A question and the id of the memory that answers it (*wanted*).

    *left* is the rest of that memory's text where the question was taken out of it; *aside* the id of the memory that
    is the question itself, which is left out of the search.
    """

    kind: QuestionKind | Literal["written"]
    question: str
    wanted: str
    left: str | None = None
    aside: str | None = None


def make_questions(
    memories: Sequence[Memory], terms: Callable[[str], Sequence[str]], *, count: int, seed: int
) -> list[EvaluationQuestion]:
    """Return up to *count* questions, as evenly of each kind as possible; no memory is wanted twice.

    *terms* is the analyzer's split of a text into terms. A text that several memories have is never wanted.
    """
    text_counts = Counter(memory.text for memory in memories)
    usable = [
        memory for memory in memories if text_counts[memory.text] == 1 and not (memory.disabled or memory.retired_at)
    ]
    rng = random.Random(seed)  # noqa: S311 (a sample, not a secret)
    maker = _QuestionMaker(memories, terms, rng)
    kind_counts: Counter[QuestionKind] = Counter()
    questions: list[EvaluationQuestion] = []
    for memory in rng.sample(usable, len(usable)):
        if len(questions) >= count:
            break
        for kind in sorted(QUESTION_KINDS, key=lambda kind: (kind_counts[kind], QUESTION_KINDS.index(kind))):
            question = maker.question(kind, memory)
            if question is not None:
                kind_counts[kind] += 1
                questions.append(question)
                break
    return questions


class _QuestionMaker:
    """Makes one question at a time; a memory that a question used is not used again."""

    def __init__(self, memories: Sequence[Memory], terms: Callable[[str], Sequence[str]], rng: random.Random) -> None:
        self._df = Counter(term for memory in memories for term in set(terms(memory.text)))
        self._max_df = max(_COMMON_COUNT, int(_COMMON_SHARE * len(memories)))
        self._terms = terms
        self._has_several_speakers = len({memory.speaker for memory in memories if memory.speaker}) > 1
        self._answered = _answered_questions(memories)
        self._used: set[str] = set()
        self._rng = rng
        self._makers: dict[QuestionKind, Callable[[Memory], EvaluationQuestion | None]] = {
            "words": self._by_words,
            "speaker": self._by_speaker,
            "date": self._by_date,
            "sentence": self._by_sentence,
            "answer": self._by_answer,
        }

    def question(self, kind: QuestionKind, memory: Memory) -> EvaluationQuestion | None:
        """Return a question of *kind* that *memory* answers, None where there is none."""
        question = None if memory.id in self._used else self._makers[kind](memory)
        if question is not None:
            self._used |= {question.wanted, question.aside or question.wanted}
        return question

    def _distinctive_words(self, text: str, count: int) -> list[str]:
        """Return up to *count* words of *text* that few memories have, in order; unique ones for want of others."""
        df_of: dict[str, int] = {}
        for word in _WORD.findall(text):
            word_terms = self._terms(word)
            if len(word_terms) == 1 and not word.isdigit() and self._df[word_terms[0]] <= self._max_df:
                df_of.setdefault(word, self._df[word_terms[0]])
        best = sorted(df_of, key=lambda word: (df_of[word] < 2, df_of[word], word))[:count]
        return [word for word in df_of if word in best]

    def _by_words(self, memory: Memory) -> EvaluationQuestion | None:
        words = self._distinctive_words(memory.text, _QUESTION_WORDS)
        return EvaluationQuestion("words", " ".join(words), memory.id) if len(words) == _QUESTION_WORDS else None

    def _by_speaker(self, memory: Memory) -> EvaluationQuestion | None:
        words = self._distinctive_words(memory.text, 2)
        if not self._has_several_speakers or not memory.speaker or len(words) < 2:
            return None
        text = f"What did {memory.speaker} say about {words[0]} and {words[1]}?"
        return EvaluationQuestion("speaker", text, memory.id)

    def _by_date(self, memory: Memory) -> EvaluationQuestion | None:
        words = self._distinctive_words(memory.text, 1)
        if memory.occurred_at is None or not words:
            return None
        day = f"{memory.occurred_at.day} {memory.occurred_at:%B %Y}"
        return EvaluationQuestion("date", f"What was said about {words[0]} on {day}?", memory.id)

    def _by_sentence(self, memory: Memory) -> EvaluationQuestion | None:
        sentences = [sentence.strip() for sentence in _SENTENCE.split(memory.text) if sentence.strip()]
        long = [sentence for sentence in sentences if len(_WORD.findall(sentence)) >= _MIN_SENTENCE_WORDS]
        if len(long) < 2:
            return None
        question = self._rng.choice(long)
        remainder = " ".join(sentence for sentence in sentences if sentence != question)
        return EvaluationQuestion("sentence", question, memory.id, left=remainder) if remainder else None

    def _by_answer(self, memory: Memory) -> EvaluationQuestion | None:
        before = self._answered.get(memory.id)
        if before is None or before.id in self._used:
            return None
        return EvaluationQuestion("answer", before.text, memory.id, aside=before.id)


def _answered_questions(memories: Iterable[Memory]) -> dict[str, Memory]:
    """Return by the id of each answer the turn before it, of another speaker, that ends with a question mark."""
    sessions: dict[str, list[Memory]] = {}
    for memory in memories:
        if memory.session is not None and memory.sequence is not None:
            sessions.setdefault(memory.session, []).append(memory)
    answered: dict[str, Memory] = {}
    for turns in sessions.values():
        turns.sort(key=lambda turn: (turn.sequence or 0, turn.id))
        for before, after in pairwise(turns):
            changes_speaker = (before.speaker, before.role) != (after.speaker, after.role)
            if changes_speaker and before.text.rstrip().endswith(_QUESTION_MARKS):
                answered[after.id] = before
    return answered
