"""The rows of a damaged table that can still be read, for a component's ``salvage``. What to trust is its business."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import apsw

_LEAST, _MOST = -(2**63), 2**63 - 1
_DOUBLINGS: Final = 63
_LAST: Final = 64
"""Jumps in the keys before damage that are looked at again."""
_POINTS: Final = 4096
"""Places at which a stretch that cannot be read from either end is looked into."""
_TRIES: Final = 100_000
"""Reads that may fail in one table before what is left of its damaged part is given up."""
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.IOError, UnicodeDecodeError)


def readable_rows(
    connection: apsw.Connection, table: str, columns: str, *, key: str = "rowid"
) -> Iterator[apsw.SQLiteValues]:
    """Yield *columns* of every row of *table* that can be read, each once, in no order.

    Damage costs only the rows on the damaged pages: a stretch of keys is read from both ends until it fails, then
    places inside are looked for from which it can be read again. Keys below the first row and above the last belong to
    the first and last page: where these are damaged, such a stretch is nearly endless, so places near what was read
    come first. Names are SQL of ours, never a user's.
    """
    reader = _Table(connection, table, columns, key)
    stretches = [(_LEAST, _MOST)]
    while stretches and reader.tries > 0:
        low, high = stretches.pop()
        upwards = yield from reader.read(low, high)
        if upwards.whole:
            continue
        downwards = yield from reader.read(low, high, down=True)
        if downwards.whole:
            continue
        stretches += [*upwards.jumps, *downwards.jumps]
        if upwards.reached < downwards.reached:
            stretches += reader.split(upwards.reached, downwards.reached)


@dataclass(frozen=True, slots=True)
class _Read:
    """How a reading ended: at the end of all, or short of the key *reached*.

    *jumps* are stretches that were passed over just before: a page of noise can hold a key far ahead.
    """

    whole: bool
    reached: int
    jumps: tuple[tuple[int, int], ...] = ()


class _Table:
    """One table as it is read; *tries* are left until it is given up."""

    def __init__(self, connection: apsw.Connection, table: str, columns: str, key: str) -> None:
        self.tries = _TRIES
        self._seen: set[int] = set()
        self._connection = connection
        select = f"SELECT {key}, {columns} FROM {table} WHERE {key} BETWEEN ? AND ? ORDER BY {key}"
        self._up, self._down, self._one = select, f"{select} DESC", f"{select} LIMIT 1"

    def read(self, low: int, high: int, *, down: bool = False) -> Generator[apsw.SQLiteValues, None, _Read]:
        """Yield rows from *low* on, or from *high* down, that were not yielded before."""
        place, step = (high, -1) if down else (low, 1)
        jumps = deque[tuple[int, int]](maxlen=_LAST)
        try:
            for row in self._connection.execute(self._down if down else self._up, (low, high)):
                number = int(str(row[0]))
                if (number - place) * step > 0:
                    jumps.append((number + 1, place) if down else (place, number - 1))
                place, known = number + step, hash((str(number), row))
                if known not in self._seen:
                    self._seen.add(known)
                    yield row[1:]
        except _DAMAGE:
            self.tries -= 1
            return _Read(False, min(max(place, low), high), tuple(jumps))
        return _Read(True, place)

    def split(self, low: int, high: int) -> list[tuple[int, int]]:
        """Return the stretches beside the first place found inside from which rows can be read; none if there is none.

        *low* and *high* themselves are known to fail.
        """
        for place in _places(low, high):
            if self.tries <= 0:
                break
            try:
                found = self._connection.execute(self._one, (place, high)).fetchall()
            except _DAMAGE:
                self.tries -= 1
                continue
            return [(low, place - 1), (place, high)] if found else [(low, place - 1)]
        return []


def _places(low: int, high: int) -> Iterable[int]:
    """Yield places between *low* and *high*: ever farther from both ends and from 0, then all over."""
    if low < 0 < high:
        yield from (place for power in range(_DOUBLINGS) for place in (1 << power, -1 << power) if low < place < high)
    step = 1
    while low + step <= high - step:
        yield low + step
        yield high - step
        step = max(step + 1, step * 9 // 8)
    inside = high - low - 1
    if inside > 0:
        yield from range(low + 1, high, max(inside // _POINTS, 1))
