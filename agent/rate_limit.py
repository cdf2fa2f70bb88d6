"""Rate limit: how many requests of each caller a minute are answered."""

from __future__ import annotations

import mmap
import struct
import tempfile
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

_MOST_CALLERS: Final = 10_000
"""Callers whose requests are counted; the one that asked longest ago is forgotten, and begins anew."""

_BUCKET: Final = struct.Struct("<Qdd")
"""Bucket that processes share: the hash of the caller, what is left, and since when."""


class RequestLimit:
    """Token buckets by caller: a minute's requests may come at once, and then as many as *clock* gives room for."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str, per_minute: int) -> float:
        """Return 0, and count a request of *caller*; where it comes too soon, the seconds until one is allowed."""
        now, rate = self._clock(), per_minute / 60
        left, since = self._buckets.pop(caller, (float(per_minute), now))
        left = min(float(per_minute), left + (now - since) * rate)
        allowed = left >= 1
        self._buckets[caller] = (left - 1 if allowed else left, now)
        while len(self._buckets) > _MOST_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / rate


class SharedRequestLimit(RequestLimit):
    """Token buckets that processes share which are forked after it was made; *clock* is the machine's.

    Two callers may fall on one of the *places*: then the one that asks begins anew.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, places: int = _MOST_CALLERS) -> None:
        super().__init__(clock)
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        weakref.finalize(self, self._file.close)
        self._file.truncate(places * _BUCKET.size)
        self._places, self._memory = places, mmap.mmap(self._file.fileno(), places * _BUCKET.size)

    def wait(self, caller: str, per_minute: int) -> float:
        """As ``RequestLimit.wait``, for all processes together; the lock of one that is killed ends with it."""
        import fcntl

        number = int.from_bytes(blake2b(caller.encode(), digest_size=8).digest(), "little")
        place = number % self._places * _BUCKET.size
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            known, left, since = _BUCKET.unpack_from(self._memory, place)
            if known == number:
                self._buckets[caller] = left, since
            seconds = super().wait(caller, per_minute)
            _BUCKET.pack_into(self._memory, place, number, *self._buckets.pop(caller))
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
        return seconds
