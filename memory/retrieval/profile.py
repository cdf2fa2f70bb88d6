"""Profile of the user of a namespace: what they said of themselves and of their relatives, by topic, newest first.

Without a model: the analysis of each statement tells whom it is about and its topics. An older statement counts until
a newer one that replaces it, as the judge of two statements says (``memory.currency``); of name, home and work a person
has one at a time, so that one which tells of a change ends the older ones. Plans whose end has passed, questions,
quotations and what a document says are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.analysis.people import is_kin
from tellback.memory.analysis.texts import ATTRIBUTES, AnalyzedText, Trait, analyze_text
from tellback.memory.currency import Claim, Statements, bounds, replaces, taken_back
from tellback.memory.models import Memory, Trust, statement_time
from tellback.memory.results import Profile, ProfileEntry, ProfileTopic
from tellback.memory.retrieval.index.record import TextFeature, to_microseconds
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex

MAX_STATEMENTS: Final = 4_000
"""Newest statements of persons that a profile is made of: reading and analyzing so many takes about half a second."""
_LATEST: Final = 20
"""Newest statements of each attribute that are read for it alone: some of them are plans, or of a time that is past."""
_COMPARED: Final = 20
"""Newest statements of a topic that may replace an older one."""
_SHARED: Final = 2
"""Words that two statements have in common at least, if one replaces the other and they have no line."""
_OF_PERSONS: Final = Trait.SELF | Trait.ABOUT_SELF | Trait.ABOUT_PERSON | ATTRIBUTES


def profile_ids(index: RetrievalIndex, *, attributes: bool = False) -> list[str]:
    """Return the ids of what the user stated of persons, newest first; only the latest of their own *attributes*."""
    rows: NDArray[np.int64] = np.flatnonzero(index.alive.rows).astype(np.int64)
    columns = index.columns
    features = columns["statement_features"][rows]
    asks = (columns["text_features"][rows] & int(TextFeature.ENDS_ASKING)) != 0
    kept = ~asks & ~columns["assistant"][rows] & index.spoken_alone(columns["speaker"][rows])
    kept &= (features & int(ATTRIBUTES if attributes else _OF_PERSONS)) != 0
    if attributes:
        kept &= (features & int(Trait.ABOUT_PERSON)) == 0
    rows, features = rows[kept], features[kept]
    visible = ~index.hidden_utterances(rows)
    rows, features = rows[visible], features[visible]
    newest = np.argsort(-index.statement_times(rows), kind="stable")
    if attributes:
        latest = [newest[(features[newest] & int(feature)) != 0][:_LATEST] for feature in ATTRIBUTES]
        newest = newest[np.isin(newest, np.concatenate(latest))]
    return [index.ids[row] for row in rows[newest[:MAX_STATEMENTS]].tolist()]


@dataclass(frozen=True, slots=True)
class _ProfileStatement:
    """Statement with its analysis, the words for whom it is about ("": the user), and what the judge sees of it."""

    memory: Memory
    analysis: AnalyzedText
    subject: str
    claim: Claim

    @property
    def since(self) -> datetime | None:
        return statement_time(self.memory)


def make_profile(
    memories: Sequence[Memory],
    now: datetime,
    *,
    limit: int,
    terms: Callable[[str], Sequence[str]],
    vectors: Sequence[NDArray[np.float32] | None] = (),
) -> Profile:
    """Return the profile that *memories*, newest first, make at *now*: of each subject and topic *limit* entries.

    *terms* splits a text into comparable words. *vectors* are those of the memories by the E5 encoder; with them, one
    that takes another back ("no, …") ends it, and is of its topic.
    """
    vector_of = dict(zip((memory.id for memory in memories), vectors, strict=False))
    usable = [memory for memory in memories if _is_usable(memory, now)]
    analyses = [analyze_text(memory.text) for memory in usable]
    ended: dict[str, datetime | None] = {}
    for older, newer in _taken_back(usable, [vector_of.get(memory.id) for memory in usable]).items():
        ended[usable[older].id] = statement_time(usable[newer])
        if not analyses[newer].topics:
            analyses[newer] = replace(analyses[newer], topics=analyses[older].topics)
    names = _names_of_kin(analyses)
    statements = [
        _ProfileStatement(memory, analysis, subject, _claim(memory, analysis, terms))
        for memory, analysis in zip(usable, analyses, strict=True)
        if (subject := _subject(analysis, names)) is not None
    ]
    groups: defaultdict[tuple[str, ProfileTopic], list[_ProfileStatement]] = defaultdict(list)
    for statement in statements:
        for topic in _topics(statement):
            groups[statement.subject, topic].append(statement)
    order = list(ProfileTopic)
    entries: list[ProfileEntry] = []
    omitted = 0
    for (subject, topic), group in sorted(groups.items(), key=lambda item: (item[0][0], order.index(item[0][1]))):
        of_topic = _entries(subject, topic, group, ended)
        entries += of_topic[:limit]
        omitted += len(of_topic[limit:])
    return Profile(tuple(entries), omitted, len(memories))


def _topics(statement: _ProfileStatement) -> tuple[ProfileTopic, ...]:
    """Return the topics of a statement; a plan is one whatever it is about, a past habit or a joke is of none."""
    analysis = statement.analysis
    if analysis.traits & Trait.PLAN:
        return (ProfileTopic.PLANS,)
    if not analysis.topics and statement.subject and analysis.is_factual and not analysis.asks:
        return (ProfileTopic.OTHER,)
    return analysis.topics


def _entries(
    subject: str, topic: ProfileTopic, statements: Iterable[_ProfileStatement], ended: Mapping[str, datetime | None]
) -> list[ProfileEntry]:
    """Return the entries of one topic, newest first, each wording once; what ended by itself only of attributes.

    *ended* has the day of what was taken back.
    """
    entries: list[ProfileEntry] = []
    wordings: set[str] = set()
    newer: list[_ProfileStatement] = []
    for statement in statements:
        memory = statement.memory
        words = " ".join(memory.text.casefold().split()).rstrip(".! ")
        replacing = (one.since for one in reversed(newer[:_COMPARED]) if _replaces(statement, one, topic))
        replaced = ended[memory.id] if memory.id in ended else next(replacing, None)
        until = memory.valid_to if memory.valid_to is not None else replaced
        if words in wordings or (memory.valid_to is not None and not topic.is_attribute):
            continue
        wordings.add(words)
        entries.append(ProfileEntry(subject, topic, memory, statement.since, until))
        if memory.valid_to is None:
            newer.append(statement)
    return sorted(entries, key=lambda entry: entry.until is not None)  # an ending is a new record of an old statement


def _taken_back(memories: Sequence[Memory], vectors: Sequence[NDArray[np.float32] | None]) -> dict[int, int]:
    times = [0 if (since := statement_time(memory)) is None else to_microseconds(since) for memory in memories]
    trust, count = np.array([memory.trust.rank for memory in memories], np.int64), len(memories)
    all_usable, no_topics = np.ones(count, np.bool_), [frozenset[str]()] * count
    return taken_back(Statements(np.ones(count), np.array(times, np.int64), all_usable, trust, no_topics, vectors))


def _claim(memory: Memory, analysis: AnalyzedText, terms: Callable[[str], Sequence[str]]) -> Claim:
    topics = frozenset(part for part in map(str.strip, memory.about.casefold().split(";")) if part)
    return Claim.of_traits(terms(memory.text), analysis.traits, analysis.subject, topics)


def _replaces(older: _ProfileStatement, newer: _ProfileStatement, topic: ProfileTopic) -> bool:
    if topic.is_attribute and newer.analysis.traits & Trait.CHANGE:
        return True
    old, new = older.claim, newer.claim
    is_alike = old.topics == new.topics if old.topics else len({*old.terms} & {*new.terms}) >= _SHARED
    return is_alike and replaces(old, new) >= bounds(by_meaning=False).marks


def _is_usable(memory: Memory, now: datetime) -> bool:
    begun = memory.valid_from is None or memory.valid_from <= now
    expired = memory.expires_at is not None and memory.expires_at <= now
    return begun and not expired and not memory.disabled and memory.is_evidence and memory.trust != Trust.DOCUMENT


def _names_of_kin(analyses: Iterable[AnalyzedText]) -> dict[str, str]:
    """Return the words for each relative by the name and, where only one is known, by the kin word: "sister Ana"."""
    words: dict[str, str] = {}
    of_kin: defaultdict[str, set[str]] = defaultdict(set)
    for relation in (relation for analysis in analyses for relation in analysis.relations):
        kin, name = relation.kin, relation.name.lower()
        words.setdefault(name, f"{kin} {name.title()}")
        of_kin[kin].add(name)
    return words | {kin: words[next(iter(names))] for kin, names in of_kin.items() if len(names) == 1}


def _subject(analysis: AnalyzedText, names: dict[str, str]) -> str | None:
    """Return the words for whom a statement is about, "" for the user; None for a thing or somebody unknown."""
    person = analysis.subject
    if analysis.traits & Trait.NAME and analysis.traits & Trait.SELF:
        return ""  # "Hi, I'm Clara" is about Clara, who speaks
    if person:
        return names.get(person, person if is_kin(person) else None)
    is_own = analysis.traits & (Trait.SELF | Trait.ABOUT_SELF)
    return "" if is_own else None
