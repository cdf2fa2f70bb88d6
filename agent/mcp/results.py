"""Structured output of the tools of the memory server. Values only."""

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


class ShownMemory(BaseModel):
    """Memory as a person is shown it before a change."""

    id: str
    text: ShownText


class DocumentLine(BaseModel):
    """Document that can be searched."""

    source: ShownText
    title: ShownText = ""
    passages: int = 0
    ingested: datetime | None = None
    collection: ShownText = ""


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
    concerned: Annotated[list[ShownMemory], Field(description="Memories that it concerns.")] = []
