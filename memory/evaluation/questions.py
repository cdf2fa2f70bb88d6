"""Evaluation questions made from memories by rule, each answered by one memory. No model; equal seeds give equal ones.

Known items are asked for by their own words, so they flatter a search by words. Two kinds do not: a sentence that was
taken out of its memory (the inverse cloze task, Lee et al. 2019), and a question of one person that another answered.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from memory.models import Memory

QuestionKind = Literal["words", "speaker", "date", "sentence", "answer"]
QUESTION_KINDS: tuple[QuestionKind, ...] = ("words", "speaker", "date", "sentence", "answer")
_WORD = re.compile(r"\w+")
_SENTENCE_ENDS = ".!?\u3002\uff01\uff1f"
"""Ends of sentences, the Chinese ones with them."""
_SENTENCE = re.compile(rf"(?<=[{_SENTENCE_ENDS}])\s*")
_QUESTION_MARKS = ("?", "\uff1f")
_QUESTION_WORDS = 3
_MIN_SENTENCE_WORDS = 4
"""Words of a sentence that is asked with, and of what stays of its memory."""
_COMMON_SHARE, _COMMON_COUNT = 0.1, 5
"""A word that stands in more than this share of the memories, and in more than this many, tells nothing."""


@dataclass(frozen=True, slots=True)
class EvaluationQuestion:
    """A question and the memory that should be found.

    *left* is the text that stays of that memory where the question was taken out of it; *aside* the memory that is the
    question itself, which must not be there when it is asked.
    """

    kind: QuestionKind
    question: str
    wanted: str
    left: str | None = None
    aside: str | None = None


def make_questions(
    memories: Sequence[Memory], terms: Callable[[str], Sequence[str]], *, count: int, seed: int
) -> list[EvaluationQuestion]:
    """Return up to *count* questions, as many of each kind as can be; no memory is asked for twice.

    *terms* turns a text into the terms by which it is searched. A text that several memories have is not asked for.
    """
    same = Counter(memory.text for memory in memories)
    usable = [memory for memory in memories if same[memory.text] == 1 and not (memory.disabled or memory.retired_at)]
    rng = random.Random(seed)  # noqa: S311 (a sample, not a secret)
    maker = _QuestionMaker(memories, terms, rng)
    made: Counter[QuestionKind] = Counter()
    found: list[EvaluationQuestion] = []
    for memory in rng.sample(usable, len(usable)):
        if len(found) >= count:
            break
        for kind in sorted(QUESTION_KINDS, key=lambda one: (made[one], QUESTION_KINDS.index(one))):
            probe = maker.probe(kind, memory)
            if probe is not None:
                made[kind] += 1
                found.append(probe)
                break
    return found


class _QuestionMaker:
    """Makes one question at a time; what one has taken, no other asks for."""

    def __init__(self, memories: Sequence[Memory], terms: Callable[[str], Sequence[str]], rng: random.Random) -> None:
        df = Counter(term for memory in memories for term in set(terms(memory.text)))
        self._telling = _TellingWords(df, terms, max(_COMMON_COUNT, int(_COMMON_SHARE * len(memories))))
        self._several = len({memory.speaker for memory in memories if memory.speaker}) > 1
        self._asking = _answered_questions(memories)
        self._taken: set[str] = set()
        self._rng = rng

    def probe(self, kind: QuestionKind, memory: Memory) -> EvaluationQuestion | None:
        """Return a question of *kind* that *memory* answers, None where there is none."""
        if memory.id in self._taken:
            return None
        probe = self._made(kind, memory)
        if probe is not None:
            self._taken |= {probe.wanted, probe.aside or probe.wanted}
        return probe

    def _made(self, kind: QuestionKind, memory: Memory) -> EvaluationQuestion | None:
        if kind == "words":
            return _by_words(memory, self._telling)
        if kind == "speaker":
            return _by_speaker(memory, self._telling) if self._several else None
        if kind == "date":
            return _by_date(memory, self._telling)
        if kind == "sentence":
            return _by_sentence(memory, self._rng)
        before = self._asking.get(memory.id)
        if before is None or before.id in self._taken:
            return None
        return EvaluationQuestion("answer", before.text, memory.id, aside=before.id)


@dataclass(frozen=True, slots=True)
class _TellingWords:
    """Which words of a text tell it from others."""

    df: Mapping[str, int]
    terms: Callable[[str], Sequence[str]]
    most: int

    def words(self, text: str, count: int) -> list[str]:
        """Return up to *count* words, in their order: rare ones that stand elsewhere too before any that does not."""
        by_word: dict[str, int] = {}
        for word in _WORD.findall(text):
            found = self.terms(word)
            if len(found) == 1 and not word.isdigit() and self.df[found[0]] <= self.most:
                by_word.setdefault(word, self.df[found[0]])
        best = sorted(by_word, key=lambda word: (by_word[word] < 2, by_word[word], word))[:count]
        return [word for word in by_word if word in best]


def _by_words(memory: Memory, telling: _TellingWords) -> EvaluationQuestion | None:
    words = telling.words(memory.text, _QUESTION_WORDS)
    return EvaluationQuestion("words", " ".join(words), memory.id) if len(words) == _QUESTION_WORDS else None


def _by_speaker(memory: Memory, telling: _TellingWords) -> EvaluationQuestion | None:
    words = telling.words(memory.text, 2)
    if not memory.speaker or len(words) < 2:
        return None
    return EvaluationQuestion("speaker", f"What did {memory.speaker} say about {words[0]} and {words[1]}?", memory.id)


def _by_date(memory: Memory, telling: _TellingWords) -> EvaluationQuestion | None:
    words = telling.words(memory.text, 1)
    if memory.occurred_at is None or not words:
        return None
    day = f"{memory.occurred_at.day} {memory.occurred_at:%B %Y}"
    return EvaluationQuestion("date", f"What was said about {words[0]} on {day}?", memory.id)


def _by_sentence(memory: Memory, rng: random.Random) -> EvaluationQuestion | None:
    sentences = [one.strip() for one in _SENTENCE.split(memory.text) if one.strip()]
    long = [one for one in sentences if len(_WORD.findall(one)) >= _MIN_SENTENCE_WORDS]
    if len(long) < 2:
        return None
    taken = rng.choice(long)
    left = " ".join(one for one in sentences if one != taken)
    return EvaluationQuestion("sentence", taken, memory.id, left=left) if left else None


def _answered_questions(memories: Iterable[Memory]) -> dict[str, Memory]:
    """Return, for the id of each turn that answers one of somebody else that ends in a question mark, that turn."""
    sessions: dict[str, list[Memory]] = {}
    for memory in memories:
        if memory.session is not None and memory.sequence is not None:
            sessions.setdefault(memory.session, []).append(memory)
    found: dict[str, Memory] = {}
    for turns in sessions.values():
        turns.sort(key=lambda turn: (turn.sequence or 0, turn.id))
        for before, after in pairwise(turns):
            other = (before.speaker, before.role) != (after.speaker, after.role)
            if other and before.text.rstrip().endswith(_QUESTION_MARKS):
                found[after.id] = before
    return found
