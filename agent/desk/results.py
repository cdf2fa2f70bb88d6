"""Results of the desk as JSON: what commands print with ``--json``, and what the HTTP API answers. Values only.

Vectors are never among them: they are as secret as the texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import AliasPath, BaseModel, ConfigDict, Field

from tellback.memory import Hit, RecallResult, Receipt


class Result(BaseModel):
    """Base of results: frozen, and made of a value of the library with the same attributes."""

    model_config = ConfigDict(frozen=True, from_attributes=True, validate_by_name=True, validate_by_alias=True)

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the result that shows *value*."""
        return cls.model_validate(value)


class RepetitionItem(Result):
    """Repetition of a memory: when, where and by whom it was said again."""

    at: datetime
    session: str | None
    actor: str


class MemoryItem(Result):
    """Memory or passage of a document, its source among its own fields."""

    id: str
    text: str
    caption: str
    kind: str
    role: str | None
    speaker: str | None
    session: str | None
    sequence: int | None
    tags: tuple[str, ...]
    scopes: Mapping[str, str]
    key: str | None
    importance: float | None
    pinned: bool
    disabled: bool
    sensitive: bool
    withdrawn: bool
    trust: str
    actor: str
    occurred_at: datetime | None
    recorded_at: datetime | None
    retired_at: datetime | None
    valid_from: datetime | None
    valid_to: datetime | None
    expires_at: datetime | None
    derived_from: tuple[str, ...]
    replaces: tuple[str, ...]
    supersedes: str | None
    operation: str | None
    about: str
    about_by: str
    utterance: str | None
    utterance_reason: str
    evidence: bool | None
    repeated: tuple[RepetitionItem, ...]
    source: Annotated[str | None, Field(validation_alias=AliasPath("source", "document"))] = None
    title: Annotated[str | None, Field(validation_alias=AliasPath("source", "title"))] = None
    page: Annotated[int | None, Field(validation_alias=AliasPath("source", "page"))] = None
    heading: Annotated[tuple[str, ...], Field(validation_alias=AliasPath("source", "heading"))] = ()
    start: Annotated[int | None, Field(validation_alias=AliasPath("source", "start"))] = None
    end: Annotated[int | None, Field(validation_alias=AliasPath("source", "end"))] = None
    metadata: Mapping[str, Any]
    revision: int


class NeighborItem(Result):
    """Turn or passage beside a hit."""

    id: str
    text: str
    kind: str
    speaker: str | None
    role: str | None


class TermItem(Result):
    """Word of a question, and the one by which a hit matched it."""

    word: str
    by: str
    similarity: float
    weight: float
    where: str


class HitItem(MemoryItem):
    """Memory that was found, with its score, and what it is made of where that was asked for."""

    namespace: str | None = None
    lane: str
    score: float
    outdated_by: str | None
    later_than: str | None
    likely_change: bool
    passage: str = ""
    parts: Mapping[str, float] = {}
    matched: tuple[TermItem, ...] = ()
    before: tuple[NeighborItem, ...] = ()
    after: tuple[NeighborItem, ...] = ()

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the item of a hit."""
        assert isinstance(value, Hit)
        own = {name: getattr(value, name) for name in cls.model_fields if hasattr(value, name)}
        return cls.model_validate({**dict(MemoryItem.of(value.memory)), **own, "lane": value.partition})


class FoundMemories(Result):
    """Hits for a question, best first, and how far to trust them."""

    hits: tuple[HitItem, ...]
    confidence: float
    abstain: str | None
    searched: int
    tokens_exact: bool | None
    notes: tuple[str, ...]
    beyond: int
    likely: bool

    @classmethod
    def of(cls, value: object) -> Self:
        """Return the result of a recall."""
        assert isinstance(value, RecallResult)
        own = {name: getattr(value, name) for name in cls.model_fields}
        return cls.model_validate({**own, "hits": [HitItem.of(hit) for hit in value.hits]})

    @classmethod
    def merged(cls, results: Mapping[str, RecallResult], k: int) -> Self:
        """Return the *k* best of *results* by namespace, which each hit names; of equal ones that of the first."""
        parts = {namespace: cls.of(result) for namespace, result in results.items()}
        hits = [hit.model_copy(update={"namespace": name}) for name, part in parts.items() for hit in part.hits]
        first, *others = parts.values()
        return first.model_copy(
            update={
                "hits": tuple(sorted(hits, key=lambda hit: -hit.score)[:k]),
                "confidence": max(part.confidence for part in parts.values()),
                "abstain": None if any(part.abstain is None for part in others) else first.abstain,
                "searched": sum(part.searched for part in parts.values()),
                "notes": tuple(dict.fromkeys(note for part in parts.values() for note in part.notes)),
                "beyond": sum(part.beyond for part in parts.values()) + max(len(hits) - k, 0),
                "likely": any(part.likely for part in parts.values()),
            }
        )


class ReportItem(Result):
    """Outcome of one memory that was to be stored or changed."""

    id: str
    outcome: str
    reason: str
    of_: Annotated[str | None, Field(alias="of")]
    spans: int
    kept: int | None
    total: int | None
    deferred: str | None
    operation: str | None
    made: tuple[ReportItem, ...]
    retired: tuple[str, ...]
    replaced: tuple[str, ...]
    may_replace: str | None


class MemoryChangeItem(Result):
    """Change that an operation made to one memory."""

    id: str
    before: int | None
    gone: bool
    old: Mapping[str, Any]
    new: Mapping[str, Any]


class OperationItem(Result):
    """Operation on memories, which can be undone."""

    id: str
    kind: str
    actor: str
    at: datetime
    undoes: str | None
    undone_by: str | None
    user: str
    changes: tuple[MemoryChangeItem, ...]


class ConflictItem(Result):
    """Memories that contradict one another, the newest first."""

    ids: tuple[str, ...]
    memories: tuple[MemoryItem, ...]


class PersonItem(Result):
    """Relative of the user: name, role, and the memory that says so."""

    name: str
    role: str
    kin: str
    memory: MemoryItem


class DocumentItem(Result):
    """Document that can be searched."""

    source: str
    title: str
    location: str
    chunks: int
    modified: datetime | None
    ingested: datetime | None
    collection: str


class SessionItem(Result):
    """Conversation that is kept."""

    session: str
    messages: int
    first_at: datetime
    last_at: datetime
    begins: str


class GivenMemoryItem(Result):
    """Memory that a prompt was given, the score for which it was chosen, and whether it was marked as not useful."""

    id: str
    score: float
    is_useful: bool


class GivenItem(Result):
    """Prompt of a client, and the memories that it was given, best first."""

    id: str
    at: datetime
    client: str
    session: str
    prompt: str
    memories: tuple[GivenMemoryItem, ...]


class WhyNotItem(Result):
    """Reason why a question does not find a memory, or its place among what is found."""

    id: str
    stage: str
    reason: str
    rank: int | None
    score: float | None
    needed: float | None
    parts: Mapping[str, float]
    by_words: int | None
    by_vector: int | None


class ProfileItem(Result):
    """Memory that tells something of the user, or of the relative *subject* (""; the user), under a *topic*."""

    subject: str
    topic: str
    memory: MemoryItem
    since: datetime | None
    until: datetime | None


def receipt_object(receipt: Receipt) -> Any:
    """Return a receipt of erasure: ids, counts and keyed hashes, never words; ``read_receipt`` accepts it."""
    from tellback.memory import receipt_text

    return json.loads(receipt_text(receipt))


RESULTS: Mapping[str, type[Result]] = {
    "Conflict": ConflictItem,
    "DocumentInfo": DocumentItem,
    "KnownPerson": PersonItem,
    "Memory": MemoryItem,
    "MemoryChange": MemoryChangeItem,
    "Operation": OperationItem,
    "Report": ReportItem,
    "SessionInfo": SessionItem,
    "WhyNot": WhyNotItem,
}
"""Results by the name of the class that they show."""
