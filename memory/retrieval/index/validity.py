"""Validity of memories at a moment: enabled, not expired, valid then, known then; as row mask and as store filter.

For now, the live partitions hold what is known, and only valid time is checked. For another valid time (*as_of*), a
version is valid from its own *valid_from*, or, if it superseded an earlier version and has none, from its recorded
time; and until its own *valid_to*, or until the version that superseded it begins. A version that was undone is never
valid. Recall takes a statement that tells of a change from when it was said. For another recorded time (*known_at*), a
version is known while it was the current one, whatever happened later.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellback.memory.analysis.texts import Trait
from tellback.memory.retrieval.index.record import FOREVER, NEVER, to_microseconds
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.timestamps import timestamp_to_text
from tellback.vectorstore import Filter


@dataclass(frozen=True, slots=True)
class ValidityFilter:
    """The times of a query: expiry is checked at *now*, validity at *as_of*, knowledge at *known_at* (None: now)."""

    now: datetime
    as_of: datetime | None = None
    known_at: datetime | None = None

    @property
    def past(self) -> bool:
        """True if the query is about another time than now, so that superseded versions may answer."""
        return self.as_of is not None or self.known_at is not None

    def hidden(self, index: RetrievalIndex, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether each of *rows* is disabled, expired, not valid or not known."""
        if not self.past and not index.bounded:
            return np.zeros(len(rows), dtype=np.bool_)
        moment = to_microseconds(self.as_of or self.now)
        columns = index.columns
        if self.past and self.known_at is None:
            start, end = np.maximum(columns["counts_from"][rows], _told_change(index, rows)), columns["counts_to"][rows]
        else:
            start, end = columns["valid_from"][rows], _open_ended(columns["valid_to"][rows])
        expired = _open_ended(columns["expires_at"][rows]) <= to_microseconds(self.now)
        hidden = columns["disabled"][rows] | expired | (start > moment) | (end <= moment)
        if self.known_at is not None:
            recorded, retired = columns["recorded_at"][rows], _open_ended(columns["retired_at"][rows])
            known = to_microseconds(self.known_at)
            hidden = hidden | (recorded > known) | (retired <= known)
        return np.asarray(hidden)

    def conditions(self, index: RetrievalIndex) -> list[Filter]:
        """Return the same as store filters; none where nothing in *index* can be hidden."""
        return self.all_conditions() if self.past or index.bounded else []

    def all_conditions(self) -> list[Filter]:
        """Return the same as store filters, for a store of any contents."""
        return [
            {"disabled": {"$ne": True}},
            _negated("expires_at", "$lte", timestamp_to_text(self.now)),
            *self.time_conditions(),
        ]

    def time_conditions(self) -> list[Filter]:
        """Return store filters for validity and knowledge alone, without those for disabled and expired memories."""
        moment = timestamp_to_text(self.as_of or self.now)
        conditions = [_negated("valid_from", "$gt", moment), _negated("valid_to", "$lte", moment)]
        if self.known_at is not None:
            known = timestamp_to_text(self.known_at)
            return [*conditions, _negated("recorded_at", "$gt", known), _negated("retired_at", "$lte", known)]
        if not self.past:
            return conditions
        undated: Filter = {"valid_from": {"$exists": False}}
        superseding: Filter = {**undated, "counts_from": {"$exists": False}, "supersedes": {"$exists": True}}
        return [
            *conditions,
            {"withdrawn": {"$ne": True}},
            {"$not": {**undated, "counts_from": {"$gt": moment}}},
            {"$not": {**superseding, "recorded_at": {"$gt": moment}}},
            _negated("counts_to", "$lte", moment),
            {"$not": {"counts_to": {"$exists": False}, "retired_at": {"$lte": moment}}},
        ]


def _told_change(index: RetrievalIndex, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return when each of *rows* that tells of a change without saying since when was said; ``NEVER`` for the others.

    "No coffee any more" holds from when it was said, where "I drink tea" may have held long before.
    """
    features, occurred_at, recorded_at, counts_from = (
        index.columns[name][rows] for name in ("statement_features", "occurred_at", "recorded_at", "counts_from")
    )
    said = np.where(occurred_at != NEVER, occurred_at, recorded_at)
    return np.where(((features & int(Trait.CHANGE)) != 0) & (counts_from == NEVER), said, NEVER)


def combine_filters(conditions: list[Filter]) -> Filter | None:
    """Return one filter that demands all of *conditions*, None for none."""
    return {"$and": conditions} if conditions else None


def _negated(field: str, operator: str, value: Any) -> Filter:
    return {"$not": {field: {operator: value}}}


def _open_ended(times: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(times == NEVER, FOREVER, times)
