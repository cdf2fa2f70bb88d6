"""Results of the tools of the memory server, as structured output. Values only."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, Field

from tellback.agent.context.control_markup import defuse

ShownText: TypeAlias = Annotated[str, AfterValidator(defuse)]
"""Stored words as a client's model may read them."""


class SearchHit(BaseModel):
    """Result of ``search``, in the shape that deep-research clients expect."""

    id: str
    title: ShownText
    url: str


class SearchResults(BaseModel):
    """Results of ``search``, best first."""

    results: list[SearchHit]


class FetchedDocument(BaseModel):
    """Memory or passage, whole, in the shape that deep-research clients expect."""

    id: str
    title: ShownText
    text: ShownText
    url: str
    metadata: dict[str, ShownText] = {}


class MemoryItem(BaseModel):
    """Memory or passage of a document, with its source."""

    id: str
    text: ShownText
    source: ShownText = ""
    said_by: ShownText = ""
    date: datetime | None = None
    trust: str = ""
    client: Annotated[ShownText, Field(description="Program through which it was stored, or last corrected.")] = ""
    about: Annotated[ShownText, Field(description="What it is about, as it was stored; no evidence.")] = ""
    tags: list[ShownText] = []
    pinned: bool = False
    outdated_by: Annotated[str | None, Field(description="Id of a newer statement about the same.")] = None
    may_change: Annotated[str | None, Field(description="Id of an older statement that this may have changed.")] = None
    cut: Annotated[bool, Field(description="The text is only the beginning; fetch gives the rest.")] = False


class RecalledMemories(BaseModel):
    """Memories about a question, best first."""

    memories: list[MemoryItem]
    note: str


class MemoryList(BaseModel):
    """Page of memories; *next_cursor* is that of the next page, None after the last."""

    memories: list[MemoryItem]
    next_cursor: str | None = None
    note: str


class ProfileItem(BaseModel):
    """Memory about the user, or about the relative *subject* ("": the user), under a *topic*."""

    memory: MemoryItem
    subject: str = ""
    topic: str = ""
    until: Annotated[datetime | None, Field(description="When it ended, or something newer took its place.")] = None


class UserProfile(BaseModel):
    """Profile of the user: pinned memories, what is known by topic, and the newest memories."""

    pinned: list[MemoryItem]
    known: list[ProfileItem]
    recent: list[MemoryItem]
    note: str


class DocumentLine(BaseModel):
    """Document that can be searched."""

    source: ShownText
    title: ShownText = ""
    passages: int = 0
    ingested: datetime | None = None


class DocumentList(BaseModel):
    """Page of documents; *next_cursor* is that of the next page, None after the last."""

    documents: list[DocumentLine]
    next_cursor: str | None = None


class Topic(BaseModel):
    """Topic of an earlier memory: its line, and the memory's id."""

    id: str
    about: ShownText


class StoredMemory(BaseModel):
    """Outcome of ``remember``."""

    id: str
    outcome: str
    may_replace: Annotated[str | None, Field(description="Older memory that this may replace; see correct.")] = None
    topics: Annotated[list[Topic], Field(description="What the nearest earlier memories are about.")] = []
    message: str = ""


class ChangeResult(BaseModel):
    """Outcome of ``correct`` or ``forget``: *done*, or what has to be confirmed first."""

    done: bool
    message: str
    ids: list[str] = []
    operation: Annotated[str | None, Field(description="Name of what was done, for `tellback undo`.")] = None
    confirm: Annotated[str | None, Field(description="Token for the second call, once the user agreed.")] = None
    concerned: Annotated[list[MemoryItem], Field(description="Memories that it concerns.")] = []
