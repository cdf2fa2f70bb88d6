"""Results of the tools of the memory server, as structured output. Values only."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field


class SearchHit(BaseModel):
    """Result of ``search``, in the shape that deep-research clients expect."""

    id: str
    title: str
    url: str


class SearchResults(BaseModel):
    """Results of ``search``, best first."""

    results: list[SearchHit]


class FetchedDocument(BaseModel):
    """Memory or passage, whole, in the shape that deep-research clients expect."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, str] = {}


class MemoryItem(BaseModel):
    """Memory or passage of a document, with its source."""

    id: str
    text: str
    source: str = ""
    said_by: str = ""
    date: datetime | None = None
    trust: str = ""
    client: Annotated[str, Field(description="Program through which it was stored.")] = ""
    tags: list[str] = []
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


class ProfileItem(MemoryItem):
    """Memory about the user, or about the relative *subject* ("": the user), under a *topic*."""

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

    source: str
    title: str = ""
    passages: int = 0
    ingested: datetime | None = None


class DocumentList(BaseModel):
    """Page of documents; *next_cursor* is that of the next page, None after the last."""

    documents: list[DocumentLine]
    next_cursor: str | None = None


class StoredMemory(BaseModel):
    """Outcome of ``remember``."""

    id: str
    outcome: str
    may_replace: Annotated[str | None, Field(description="Older memory that this may replace; see correct.")] = None
    message: str = ""


class ChangeResult(BaseModel):
    """Outcome of ``correct`` or ``forget``: *done*, or what has to be confirmed first."""

    done: bool
    message: str
    ids: list[str] = []
    operation: Annotated[str | None, Field(description="Name of what was done, for `tellback undo`.")] = None
    confirm: Annotated[str | None, Field(description="Token for the second call, once the user agreed.")] = None
    concerned: Annotated[list[MemoryItem], Field(description="Memories that it concerns.")] = []
