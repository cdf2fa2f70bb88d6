"""Names of memories: short enough to type, in order of time, unique across processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

from memory.times import Clock, system_clock

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: no letter that reads as another
_PAIRS: Final = [high + low for high in _ALPHABET for low in _ALPHABET]
_LENGTH: Final = 16
_RANDOM_BITS: Final = 35
_KEYED_LENGTH: Final = 20


class TimeOrderedIds:
    """Gives ids of 16 characters: 45 bits of milliseconds and 35 random ones, each above the last.

    >>> len(TimeOrderedIds()())
    16
    """

    def __init__(self, *, clock: Clock = system_clock, token: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock
        self._token = token
        self._lock = threading.Lock()
        self._last = 0

    def __call__(self) -> str:
        """Return the next id."""
        milliseconds = max(int(self._clock().timestamp() * 1000), 0)
        random = int.from_bytes(self._token(5), "big") >> (40 - _RANDOM_BITS)
        with self._lock:
            number = max(milliseconds << _RANDOM_BITS | random, self._last + 1)
            self._last = number
        return _digits(number, _LENGTH)


def keyed_id(secret: bytes, namespace: str, key: str) -> str:
    """Return the id of the memory that a caller's *key* names: the same in every process that has the file.

    A given key is then looked up by id, and two processes that use it at once meet at the same id.
    """
    digest = blake2b(digest_size=16, key=secret)
    for part in (namespace.encode(), key.encode()):
        digest.update(len(part).to_bytes(8, "little") + part)
    return "k" + _digits(int.from_bytes(digest.digest(), "big"), _KEYED_LENGTH)


def _digits(number: int, length: int) -> str:
    """Return *number* in *length* digits, an even count of them."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(5 * (length - 2), -1, -10)])
