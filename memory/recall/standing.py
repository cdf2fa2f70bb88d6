"""Which memories stand at a moment: enabled, not expired, valid then, known then. As columns and as a store
filter.

Asked for now, the live lanes hold what is known, and only validity is looked at. Asked for another time, a
version counts from its own *valid_from*, or, where it replaced an earlier version and says nothing, from
when it was written; and until its own *valid_to*, or until it was itself replaced.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.recall.index import Index
from memory.recall.rows import NEVER, micros
from memory.times import to_text
from vectorstore import Filter

_FOREVER = 2**62


@dataclass(frozen=True, slots=True)
class Standing:
    """Expiry is judged at *now*, validity at *as_of* (None: now), knowledge at *known_at* (None: now)."""

    now: datetime
    as_of: datetime | None = None
    known_at: datetime | None = None

    @property
    def past(self) -> bool:
        """Whether another time than now is asked for, so that old versions may answer."""
        return self.as_of is not None or self.known_at is not None

    def hidden(self, index: Index, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of *rows* do not stand."""
        if not self.past and not index.bounded:
            return np.zeros(len(rows), dtype=np.bool_)
        moment = micros(self.as_of or self.now)
        start = index.valid_from.values[rows]
        end = _until(index.valid_to.values[rows])
        recorded, retired = index.recorded_at.values[rows], _until(index.retired_at.values[rows])
        if self.known_at is not None:
            known = micros(self.known_at)
            unknown = (recorded > known) | (retired <= known)
        else:
            start = np.where(self.past & (start == NEVER) & index.replaces.values[rows], recorded, start)
            end = np.where(end == _FOREVER, retired, end) if self.past else end
            unknown = np.zeros(len(rows), dtype=np.bool_)
        expired = _until(index.expires_at.values[rows]) <= micros(self.now)
        return np.asarray(index.disabled.values[rows] | unknown | expired | (start > moment) | (end <= moment))

    def conditions(self, index: Index) -> list[Filter]:
        """Return the same as store filters; none where everything in *index* stands."""
        return self.every_condition() if self.past or index.bounded else []

    def every_condition(self) -> list[Filter]:
        """Return the same as store filters, whatever the store holds."""
        moment = to_text(self.as_of or self.now)
        conditions: list[Filter] = [
            {"disabled": {"$ne": True}},
            _not("expires_at", "$lte", to_text(self.now)),
        ]
        if self.known_at is not None:
            known = to_text(self.known_at)
            conditions += [_not("recorded_at", "$gt", known), _not("retired_at", "$lte", known)]
        starts: Filter = _not("valid_from", "$gt", moment)
        ends: Filter = _not("valid_to", "$lte", moment)
        if self.past and self.known_at is None:
            by_writing = {"valid_from": {"$exists": False}, "supersedes": {"$exists": True}}
            starts = {"$and": [starts, {"$not": {**by_writing, "recorded_at": {"$gt": moment}}}]}
            replaced = {"valid_to": {"$exists": False}, "retired_at": {"$lte": moment}}
            ends = {"$and": [ends, {"$not": replaced}]}
        return [*conditions, starts, ends]


def all_of(conditions: list[Filter]) -> Filter | None:
    """Return one filter for several, None for none."""
    return {"$and": conditions} if conditions else None


def _not(field: str, operator: str, value: Any) -> Filter:
    return {"$not": {field: {operator: value}}}


def _until(times: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(times == NEVER, _FOREVER, times)
