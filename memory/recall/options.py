"""The keywords of a recall, as a type: what ``recall`` and ``why_not`` both take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypedDict

from memory.recall.hooks import RecallHooks
from memory.recall.query import Around
from memory.scopes import Scopes
from vectorstore import Filter


class RecallOptions(TypedDict, total=False):
    """The keywords of ``LongTermMemory.recall`` that bound its answer."""

    context: Sequence[str]
    namespace: str | Sequence[str]
    where: Filter | None
    tags: Sequence[str]
    scopes: Scopes | None
    as_of: datetime | None
    known_at: datetime | None
    token_budget: int | None
    counter: Callable[[str], int] | None
    lanes: Sequence[str]
    collections: Sequence[str] | None
    around: Around
    hooks: RecallHooks | None
