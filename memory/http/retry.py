"""Retries of failed HTTP exchanges: when, and after how long, as the official model clients do it.

Retried are a missing connection and the statuses 408, 409, 429 and 5xx; the server's ``x-should-retry`` decides first.
Silence is not: who waited to the limit once is told. The delay is what the server asks for, if at most two minutes, or
.5 s doubling to 8 s with jitter.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from tellback.memory.errors import HttpError

T = TypeVar("T")

FIRST_DELAY = 0.5
MAX_DELAY = 8.0
MAX_RETRY_AFTER = 120.0
"""A server that asks for a longer wait is reported, not waited for."""
JITTER = 0.25

_RETRIABLE_STATUSES = frozenset({408, 409, 429})


async def retry_exchange(
    exchange: Callable[[], Awaitable[T]],
    retries: int,
    *,
    sleep: Callable[[float], Awaitable[object]],
    rng: Callable[[], float],
) -> T:
    """Return what *exchange* gives after at most *retries* further attempts; raise its last error."""
    for attempt in range(retries):
        try:
            return await exchange()
        except HttpError as error:
            if not error.retriable:
                raise
            delay = backoff_delay(attempt, error.retry_after, rng)
        await sleep(delay)
    return await exchange()


def is_retriable(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether an answer with *status* may be different next time; the server's own word goes first."""
    word = headers.get("x-should-retry", "").strip().lower()
    if word in ("true", "false"):
        return word == "true"
    return status in _RETRIABLE_STATUSES or status >= 500


def retry_after_delay(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds the server asks to wait, however many; None if none can be understood."""
    for name, unit in (("retry-after-ms", 1000), ("retry-after", 1)):
        try:
            delay = float(headers[name]) / unit
        except (KeyError, ValueError):
            continue
        if math.isfinite(delay) and delay >= 0:
            return delay
    try:
        moment = parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)


def backoff_delay(attempt: int, named: float | None, rng: Callable[[], float]) -> float:
    """Return the seconds to wait after failure number *attempt* (from 0); *rng* gives numbers in [0, 1)."""
    if named is not None and 0 < named <= MAX_RETRY_AFTER:
        return named
    backoff: float = min(FIRST_DELAY * 2.0 ** min(attempt, 10), MAX_DELAY)
    return backoff * (1 - JITTER * rng())
