"""Selectors: the keywords that choose memories in ``list``, ``count`` and ``forget``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, TypedDict

from tellback.memory.models import Source, Trust
from tellback.memory.scopes import Scopes
from tellback.vectorstore import Filter

TimeRange: TypeAlias = tuple[datetime | None, datetime | None]


class ListFilters(TypedDict, total=False):
    """Filters of ``list`` and ``count``; what is not given bounds nothing.

    *kinds*, *tags*, *trust*: any of them. *scopes* as in ``recall``. *pinned*, *disabled*, *expired*: only those that
    are, or only those that are not. *between*: when it was said, or else written, from the first time until before
    the second. *contains*: a piece of its text, capital or not. *as_of* and *known_at* as in ``recall``: earlier
    versions are then listed too, under their own ids.
    """

    kinds: Sequence[str]
    tags: Sequence[str]
    scopes: Scopes | None
    session: str | None
    trust: Sequence[Trust | str]
    pinned: bool | None
    disabled: bool | None
    expired: bool | None
    between: TimeRange | None
    contains: str | None
    where: Filter | None
    as_of: datetime | None
    known_at: datetime | None


class ForgetSelectors(TypedDict, total=False):
    """Selectors of ``forget``, beside the ids; None and empty select nothing by themselves.

    *source*: a session, a document, or a ``Source`` of which every given field must hold. *tags*: any of them;
    *scopes*: all of them. *older_than*: a time, or a length of time before now.

    Pinned memories are spared, and counted in the receipt, unless ids or keys name them or *where* asks for ``pinned``.
    """

    source: str | Source | None
    session: str | None
    document: str | None
    where: Filter | None
    scopes: Scopes | None
    tags: Sequence[str]
    older_than: datetime | timedelta | None
