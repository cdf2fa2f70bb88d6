"""Validity of memories at a moment: enabled, not expired, valid then, known then; as row mask and as store filter.

Asked for now, the live partitions hold what is known, and only valid time is checked. Asked for another valid time, a
version counts from its own *valid_from*, or, if it replaced an earlier version and has none, from its recorded time;
and until its own *valid_to*, or until the version that replaced it begins. A version that was undone never counts.
Asked for another recorded time, a version counts while it was the current one, whatever became of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.retrieval.index.record import FOREVER, NEVER, to_microseconds
from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.timestamps import timestamp_to_text
from vectorstore import Filter


@dataclass(frozen=True, slots=True)
class ValidityFilter:
    """Expiry is judged at *now*, validity at *as_of* (None: now), knowledge at *known_at* (None: now)."""

    now: datetime
    as_of: datetime | None = None
    known_at: datetime | None = None

    @property
    def past(self) -> bool:
        """Whether another time than now is asked for, so that old versions may answer."""
        return self.as_of is not None or self.known_at is not None

    def hidden(self, index: RetrievalIndex, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of *rows* do not stand."""
        if not self.past and not index.bounded:
            return np.zeros(len(rows), dtype=np.bool_)
        moment = to_microseconds(self.as_of or self.now)
        unknown = np.zeros(len(rows), dtype=np.bool_)
        if self.past and self.known_at is None:
            start, end = index.counts_from.rows[rows], index.counts_to.rows[rows]
        else:
            start, end = index.valid_from.rows[rows], _open_ended(index.valid_to.rows[rows])
        if self.known_at is not None:
            known = to_microseconds(self.known_at)
            recorded, retired = index.recorded_at.rows[rows], _open_ended(index.retired_at.rows[rows])
            unknown = (recorded > known) | (retired <= known)
        expired = _open_ended(index.expires_at.rows[rows]) <= to_microseconds(self.now)
        return np.asarray(index.disabled.rows[rows] | unknown | expired | (start > moment) | (end <= moment))

    def conditions(self, index: RetrievalIndex) -> list[Filter]:
        """Return the same as store filters; none where everything in *index* stands."""
        return self.every_condition() if self.past or index.bounded else []

    def every_condition(self) -> list[Filter]:
        """Return the same as store filters, whatever the store holds."""
        return [{"disabled": {"$ne": True}}, _negated("expires_at", "$lte", timestamp_to_text(self.now)), *self.held()]

    def held(self) -> list[Filter]:
        """Return store filters for what was valid and known then, disabled and expired or not."""
        moment = timestamp_to_text(self.as_of or self.now)
        conditions = [_negated("valid_from", "$gt", moment), _negated("valid_to", "$lte", moment)]
        if self.known_at is not None:
            known = timestamp_to_text(self.known_at)
            return [*conditions, _negated("recorded_at", "$gt", known), _negated("retired_at", "$lte", known)]
        if not self.past:
            return conditions
        silent: Filter = {"valid_from": {"$exists": False}}
        written: Filter = {**silent, "counts_from": {"$exists": False}, "supersedes": {"$exists": True}}
        return [
            *conditions,
            {"withdrawn": {"$ne": True}},
            {"$not": {**silent, "counts_from": {"$gt": moment}}},
            {"$not": {**written, "recorded_at": {"$gt": moment}}},
            _negated("counts_to", "$lte", moment),
            {"$not": {"counts_to": {"$exists": False}, "retired_at": {"$lte": moment}}},
        ]


def combine_filters(conditions: list[Filter]) -> Filter | None:
    """Return one filter for several, None for none."""
    return {"$and": conditions} if conditions else None


def _negated(field: str, operator: str, value: Any) -> Filter:
    return {"$not": {field: {operator: value}}}


def _open_ended(times: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(times == NEVER, FOREVER, times)
