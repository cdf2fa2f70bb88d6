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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntFlag
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Final

import numpy as np

from tellback.memory.analysis.heads import Head, head, letter_groups
from tellback.memory.analysis.people import Relation, find_people
from tellback.memory.models import Memory, Utterance, UtteranceKind
from tellback.memory.results import ProfileTopic

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


@lru_cache(maxsize=1 << 12)
def analyze_text(text: str) -> AnalyzedText:
    """Return the analysis of *text*; of a long one, people and traits are those of its beginning."""
    beginning = text[:_MAX_CHARACTERS]
    shares, people = _shares(beginning), find_people(beginning)
    traits = Trait(0)
    modality = max(shares["modality"], key=shares["modality"].__getitem__)
    if modality in _MODALITIES and shares["modality"][modality] >= (PAST if modality == "past" else NOT_HOLDING):
        traits |= _MODALITIES[modality]
    if shares["change"]["change"] >= CHANGES and not traits & NOT_FACTUAL:
        traits |= Trait.CHANGE
    if people.speaks_of_self:
        traits |= Trait.SELF
    if people.subject:
        traits |= Trait.ABOUT_PERSON
    elif people.subject == "":
        traits |= Trait.ABOUT_SELF
    if people.relations:
        traits |= Trait.RELATES
    utterance = _utterance(text)
    asks = _ASKS.search(text) is not None or sum(shares["kind"][kind] for kind in _ASKING) >= ASKS
    topics = () if traits & NOT_FACTUAL or asks else _topics(beginning, shares["topic"])
    for topic in topics:
        traits |= Trait[topic.name] if topic.is_attribute else Trait.SEVERAL if topic in _SEVERAL else Trait(0)
    return AnalyzedText(utterance, asks, traits, people.names, people.relations, topics)


def _topics(text: str, whole: Mapping[str, float]) -> tuple[ProfileTopic, ...]:
    """Return the topics of the clauses of *text*, whose own shares are *whole*; its own where no clause has one."""
    clauses = [clause for clause in _CLAUSE.split(text) if len(clause.split()) > 1]
    if len(clauses) > _MAX_CLAUSES:
        return ()
    shares = [whole] if len(clauses) < 2 else [_shares(clause)["topic"] for clause in clauses]
    names = dict.fromkeys(max(of_clause, key=of_clause.__getitem__) for of_clause in shares if _is_told(of_clause))
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


def _utterance(text: str) -> Utterance:
    sentences = split_sentences(text)
    if len(sentences) > _MAX_SENTENCES:
        return Utterance(UtteranceKind.STATEMENT)
    kinds = set(map(_sentence_kind, sentences)) or {UtteranceKind.SMALL_TALK}
    kind = next(kind for kind in _BY_CONTENT if kind in kinds)
    return Utterance(kind, _REASONS[kind])


def _sentence_kind(sentence: str) -> UtteranceKind:
    asks = _ASKS.search(sentence) is not None
    if not any(map(str.isalnum, sentence)):
        return UtteranceKind.QUESTION if asks else UtteranceKind.SMALL_TALK
    shares = _shares(sentence)["kind"]
    if asks:
        states, only_asks = shares[UtteranceKind.STATING_QUESTION], shares[UtteranceKind.QUESTION]
        is_told = states >= STATES * (states + only_asks)
        return UtteranceKind.STATING_QUESTION if is_told else UtteranceKind.QUESTION
    is_short = len(sentence.split()) <= _SHORT and not any(map(str.isdigit, sentence))
    is_silent = sum(shares[kind] for kind in SILENT_KINDS) >= (SILENT_IF_SHORT if is_short else SILENT)
    kinds = SILENT_KINDS if is_silent else _BY_CONTENT[:3]
    kind = max(kinds, key=shares.__getitem__)
    return kind if is_silent or shares[kind] >= STATES else UtteranceKind.STATEMENT


@lru_cache(maxsize=1 << 12)
def _shares(text: str) -> Mapping[str, Mapping[str, float]]:
    """Return the probability of each class of each head over letters, by the head's name."""
    joined = _joined()
    logits = joined.weights @ letter_groups(text) + joined.bias
    shares: dict[str, dict[str, float]] = {}
    start = 0
    for name in _HEADS:
        classes = head(f"{name} by letters").classes
        powers = np.exp(logits[start : start + len(classes)] - logits[start : start + len(classes)].max())
        shares[name] = dict(zip(classes, (powers / powers.sum()).tolist(), strict=True))
        start += len(classes)
    return shares


_HEADS: Final = ("kind", "topic", "modality", "change")


@cache
def _joined() -> Head:
    """Return the heads of a text as one, so that they cost one product."""
    heads = [head(f"{name} by letters") for name in _HEADS]
    classes = tuple(one for each in heads for one in each.classes)
    return Head(
        classes, np.concatenate([each.weights for each in heads]), np.concatenate([each.bias for each in heads])
    )
