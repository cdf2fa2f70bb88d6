"""Analysis of a text: what kind of utterance it is, whether what it tells holds, and of whom and what it tells.

One ``AnalyzedText`` a text, a pure function of it. What an utterance *is* tell the heads over letters
(``memory.analysis.heads``), who is in it rules (``memory.analysis.people``). A text is cut into sentences, and has the
kind of that with most content, so that a greeting or a question beside a statement never hides it. What is not surely
a question, a command or small talk counts as a statement: to lose one costs more than to keep small talk.

    >>> analyze_text("Thanks! The interview went well.").utterance.kind
    <UtteranceKind.STATEMENT: 'statement'>
    >>> analyze_text("How far is it to Faro?").utterance.kind
    <UtteranceKind.QUESTION: 'question'>
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from tellback.memory.analysis.heads import Head, has_digit, head, letter_groups
from tellback.memory.analysis.people import Relation, find_people
from tellback.memory.models import Memory, Utterance, UtteranceKind
from tellback.memory.results import ProfileTopic

Shares: TypeAlias = Mapping[str, Mapping[str, float]]
"""Probability of each class of each head, by the head's name."""
_MAX_CHARACTERS: Final = 1_000
_MAX_SENTENCES: Final = 40
"""Sentences of which the kind is told: a longer text is a document or a paste, and states something."""
_SENTENCE_END: Final = re.compile(r"(?<=[.!?\u2026\n])[\"')\u201d\u2019]*\s+|(?<=[\u3002\uff01\uff1f\n])")
_NO_SENTENCE_END: Final = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Frau|Herr|Sr|Sra|St|no|Nr|z\.B|bzw|e\.g)|(?:^|\s)\d{1,2})\.[\"')]*$"
)
_CLAUSE: Final = re.compile(r"[.;!,\u3002]\s*|\s(?:and|but|und|aber|y|pero|et|mais)\s")
_MAX_CLAUSES: Final = 4
"""Clauses of which a topic is told: a longer text tells a story, and of many clauses some look like an attribute."""
_ASKS: Final = re.compile("[?\uff1f\u061f\u2047\u037e\u5417\u5462](?=[\\s\"'\u201d\u2019\u00bb)\\]]|$)|\u00bf")
"""Question marks: Latin, full width, Arabic, doubled, Greek, Spanish; and the last words of Chinese questions."""
SILENT: Final = 0.98
"""Probability from which a sentence states nothing: of the notes of hands that tell something, .005 are above it, where
word lists lost .008."""
SILENT_IF_SHORT: Final = 0.94
"""The same for a sentence of at most ``_SHORT`` words, without a number."""
_SHORT: Final = 4
ASKS: Final = 0.8
"""Probability from which a text without a question mark rather asks than states."""
STATES: Final = 0.5
"""Share of the questions like it that state something, from which a question with its mark does."""
PAST: Final = 0.8
"""Probability from which a statement is of the past."""
NOT_HOLDING: Final = 0.5
"""Probability from which it is a plan, supposed or not meant."""
CHANGES: Final = 0.65
"""Probability from which it tells of a change."""
TOLD: Final = 0.5
"""Probability from which it has a topic."""
_BY_CONTENT: Final = (
    UtteranceKind.STATEMENT,
    UtteranceKind.STATING_QUESTION,
    UtteranceKind.STATING_COMMAND,
    UtteranceKind.QUESTION,
    UtteranceKind.COMMAND,
    UtteranceKind.SMALL_TALK,
)
SILENT_KINDS: Final = _BY_CONTENT[3:]
_ASKING: Final = (UtteranceKind.QUESTION, UtteranceKind.STATING_QUESTION, UtteranceKind.COMMAND)
_REASONS: Final[Mapping[UtteranceKind, str]] = MappingProxyType(
    {
        UtteranceKind.STATEMENT: "",
        UtteranceKind.STATING_QUESTION: "a question that states something",
        UtteranceKind.STATING_COMMAND: "a command that states something",
        UtteranceKind.QUESTION: "a question that states nothing",
        UtteranceKind.COMMAND: "a command that states nothing",
        UtteranceKind.SMALL_TALK: "words of courtesy alone",
    }
)


class Trait(IntFlag):
    """Traits of a text, as the index stores them."""

    PAST = 1
    PLAN = 2
    SUPPOSED = 4
    UNREAL = 8
    """A joke, or somebody else's words."""
    CHANGE = 16
    """Tells that something is otherwise than before."""
    SELF = 32
    """Has a word of the first person, but for "my" before a kin word."""
    ABOUT_SELF = 64
    """Its subject is the speaker; so is that of a statement without a subject ("Sold the bike")."""
    ABOUT_PERSON = 128
    """Its subject is the first of its people."""
    NAME = 256
    HOME = 512
    WORK = 1024
    SEVERAL = 2048
    """Of a topic of which a person has several at a time: tastes, things, habits."""
    RELATES = 4096
    """Says who is whose relative; its line may say so, too."""


NOT_FACTUAL: Final = Trait.PAST | Trait.PLAN | Trait.SUPPOSED | Trait.UNREAL
"""Modalities in which a statement does not say how things are."""
ATTRIBUTES: Final = Trait.NAME | Trait.HOME | Trait.WORK
_SEVERAL: Final = (ProfileTopic.PREFERENCES, ProfileTopic.POSSESSIONS, ProfileTopic.ROUTINES)
_NO_TRAITS: Final = Trait(0)
_MODALITIES: Final = {"past": Trait.PAST, "plan": Trait.PLAN, "supposed": Trait.SUPPOSED, "unreal": Trait.UNREAL}


@dataclass(frozen=True, slots=True)
class AnalyzedText:
    """The kind of *utterance*, the *traits* of a text, and its *people* and *relations* as ``People`` has them.

    *topics* are what the clauses of a statement tell of a person. *asks*: a sentence asks, or
    tells to do something, rather than that it states something.
    """

    utterance: Utterance
    asks: bool = False
    traits: Trait = _NO_TRAITS
    people: tuple[str, ...] = ()
    relations: tuple[Relation, ...] = ()
    topics: tuple[ProfileTopic, ...] = ()

    @property
    def subject(self) -> str | None:
        """Its person, "" for the speaker, None for a thing or nobody."""
        if self.traits & Trait.ABOUT_PERSON:
            return self.people[0]
        return "" if self.traits & Trait.ABOUT_SELF else None

    @property
    def is_factual(self) -> bool:
        """True unless it is of the past, a plan, supposed or not meant."""
        return not self.traits & NOT_FACTUAL


_known: dict[str, AnalyzedText] = {}
_MOST_KNOWN: Final = 1 << 12
_BATCH: Final = 64
"""Texts whose groups of letters are counted together: some seven megabytes at a time."""


def analyze_text(text: str) -> AnalyzedText:
    """Return the analysis of *text*; of a long one, people and traits are those of its beginning."""
    return analyze_texts([text])[0]


def analyze_texts(texts: Sequence[str]) -> list[AnalyzedText]:
    """Return the analysis of each of *texts*; many at once take a third of the time of one by one."""
    known = {text: analysis for text in texts if (analysis := _known.get(text)) is not None}
    missing = [text for text in dict.fromkeys(texts) if text not in known]
    for start in range(0, len(missing), _BATCH):
        batch = missing[start : start + _BATCH]
        cut = [_Cut.of(text) for text in batch]
        parts = list(dict.fromkeys(chain.from_iterable((own.beginning, *own.sentences, *own.clauses) for own in cut)))
        shares = dict(zip(parts, _shares(parts), strict=True))
        known |= {text: _analysis(text, own, shares) for text, own in zip(batch, cut, strict=True)}
    if len(_known) > _MOST_KNOWN:
        _known.clear()
    _known.update(known)
    return [known[text] for text in texts]


@dataclass(frozen=True, slots=True)
class _Cut:
    """The parts of a text whose shares tell what it is: *sentences* tell its kind, *clauses* its topics."""

    beginning: str
    sentences: Sequence[str]
    clauses: Sequence[str]
    is_long: bool

    @classmethod
    def of(cls, text: str) -> _Cut:
        beginning, sentences = text[:_MAX_CHARACTERS], split_sentences(text)
        clauses = [clause for clause in _CLAUSE.split(beginning) if len(clause.split()) > 1]
        is_long = len(sentences) > _MAX_SENTENCES
        topical = () if len(clauses) > _MAX_CLAUSES else clauses if len(clauses) > 1 else (beginning,)
        return cls(beginning, () if is_long else sentences, topical, is_long)


def _analysis(text: str, cut: _Cut, by_part: Mapping[str, Shares]) -> AnalyzedText:
    """Return the analysis of *text* with the shares of each of its parts."""
    shares, people = by_part[cut.beginning], find_people(cut.beginning)
    traits = Trait(0)
    modality = max(shares["modality"], key=shares["modality"].__getitem__)
    if modality in _MODALITIES and shares["modality"][modality] >= (PAST if modality == "past" else NOT_HOLDING):
        traits |= _MODALITIES[modality]
    if 1 - shares["change"]["same"] >= CHANGES and not traits & NOT_FACTUAL:
        traits |= Trait.CHANGE
    if people.speaks_of_self:
        traits |= Trait.SELF
    if people.subject:
        traits |= Trait.ABOUT_PERSON
    elif people.subject == "":
        traits |= Trait.ABOUT_SELF
    if people.relations:
        traits |= Trait.RELATES
    utterance = Utterance(UtteranceKind.STATEMENT) if cut.is_long else _utterance(cut.sentences, by_part)
    asks = _ASKS.search(text) is not None or sum(shares["kind"][kind] for kind in _ASKING) >= ASKS
    topics = () if traits & NOT_FACTUAL or asks else _topics([by_part[clause]["topic"] for clause in cut.clauses])
    for topic in topics:
        traits |= Trait[topic.name] if topic.is_attribute else Trait.SEVERAL if topic in _SEVERAL else Trait(0)
    return AnalyzedText(utterance, asks, traits, people.names, people.relations, topics)


def _topics(clauses: Sequence[Mapping[str, float]]) -> tuple[ProfileTopic, ...]:
    """Return the topics of *clauses* by the shares of each."""
    names = {max(shares, key=shares.__getitem__) for shares in clauses if _is_told(shares)}
    return tuple(topic for topic in ProfileTopic if topic in names)


def _is_told(shares: Mapping[str, float]) -> bool:
    return max(shares.values()) >= TOLD


def is_judged(kind: object, role: object) -> bool:
    """Return whether the kind of a memory of this *kind* and *role* is told: a person's turn, no note on purpose."""
    return kind == "turn" and role not in ("assistant", "tool")


def with_utterance(memory: Memory) -> Memory:
    """Return *memory* with the kind of its utterance, where that is told and nobody else did."""
    if memory.utterance is not None or not is_judged(memory.kind, memory.role):
        return memory
    utterance = analyze_text(memory.text).utterance
    return replace(memory, utterance=utterance.kind, utterance_reason=utterance.reason)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of *text*, whose ends are not those of a title, an abbreviation or an ordinal number."""
    sentences: list[str] = []
    for part in _SENTENCE_END.split(text):
        if sentences and _NO_SENTENCE_END.search(sentences[-1]):
            sentences[-1] += f" {part}"
        elif part.strip():
            sentences.append(part.strip())
    return sentences


def _utterance(sentences: Sequence[str], by_part: Mapping[str, Shares]) -> Utterance:
    kinds = {_sentence_kind(sentence, by_part[sentence]["kind"]) for sentence in sentences} or {
        UtteranceKind.SMALL_TALK
    }
    kind = next(kind for kind in _BY_CONTENT if kind in kinds)
    return Utterance(kind, _REASONS[kind])


def _sentence_kind(sentence: str, shares: Mapping[str, float]) -> UtteranceKind:
    asks = _ASKS.search(sentence) is not None
    if not any(map(str.isalnum, sentence)):
        return UtteranceKind.QUESTION if asks else UtteranceKind.SMALL_TALK
    if asks:
        states, only_asks = shares[UtteranceKind.STATING_QUESTION], shares[UtteranceKind.QUESTION]
        is_told = states >= STATES * (states + only_asks)
        return UtteranceKind.STATING_QUESTION if is_told else UtteranceKind.QUESTION
    is_short = len(sentence.split()) <= _SHORT and not has_digit(sentence)
    is_silent = sum(shares[kind] for kind in SILENT_KINDS) >= (SILENT_IF_SHORT if is_short else SILENT)
    kinds = SILENT_KINDS if is_silent else _BY_CONTENT[:3]
    kind = max(kinds, key=shares.__getitem__)
    return kind if is_silent or shares[kind] >= STATES else UtteranceKind.STATEMENT


def _shares(texts: Sequence[str]) -> list[Shares]:
    """Return for each of *texts* the probability of each class of each head over letters, by the head's name."""
    joined = _joined()
    logits = np.array([joined.weights @ groups for groups in letter_groups(texts)]) + joined.bias
    shares: list[dict[str, dict[str, float]]] = [{} for _ in texts]
    start = 0
    for name in _HEADS:
        classes = head(f"{name} by letters").classes
        own = logits[:, start : start + len(classes)]
        powers = np.exp(own - own.max(axis=1, keepdims=True))
        for of_text, values in zip(shares, (powers / powers.sum(axis=1, keepdims=True)).tolist(), strict=True):
            of_text[name] = dict(zip(classes, values, strict=True))
        start += len(classes)
    return list(shares)


_HEADS: Final = ("kind", "topic", "modality", "change")


@cache
def _joined() -> Head:
    """Return the heads of a text as one, so that they cost one product."""
    heads = [head(f"{name} by letters") for name in _HEADS]
    classes = tuple(one for each in heads for one in each.classes)
    return Head(
        classes, np.concatenate([each.weights for each in heads]), np.concatenate([each.bias for each in heads])
    )
