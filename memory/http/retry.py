"""Retries of failed HTTP exchanges: when, and after how long, as the official model clients do it.

Retried are a missing connection, silence, and the statuses 408, 409, 429 and 5xx; the server's ``x-should-retry``
decides first. The delay is what the server asks for, if at most two minutes, or .5 s doubling to 8 s with jitter.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from memory.errors import ArgumentError, HttpConnectError, HttpStatusError, HttpTimeout

T = TypeVar("T")

FIRST_DELAY = 0.5
MAX_DELAY = 8.0
MAX_RETRY_AFTER = 120.0
"""A server that asks for a longer wait is reported, not waited for."""
JITTER = 0.25

_RETRIABLE_STATUSES = frozenset({408, 409, 429})


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Error status as an attempt's outcome, and whether another attempt may fare better."""

    error: HttpStatusError
    retriable: bool


class HttpRetrier:
    """Runs an exchange until it succeeds, fails for good, or *retries* further attempts are used up."""

    def __init__(self, retries: int, *, sleep: Callable[[float], Awaitable[object]], rng: Callable[[], float]) -> None:
        if type(retries) is not int or retries < 0:
            raise ArgumentError("retries", retries, "a whole number of at least 0 is needed")
        self._retries = retries
        self._sleep = sleep
        self._rng = rng

    async def run(self, once: Callable[[], Awaitable[T | ErrorResponse]]) -> T:
        """Return what *once* gives; raise its last error."""
        attempt = 0
        while True:
            named: float | None = None
            try:
                outcome = await once()
            except (HttpConnectError, HttpTimeout):
                if attempt >= self._retries:
                    raise
            else:
                if not isinstance(outcome, ErrorResponse):
                    return outcome
                if attempt >= self._retries or not outcome.retriable:
                    raise outcome.error
                named = outcome.error.retry_after
            await self._sleep(backoff_delay(attempt, named, self._rng))
            attempt += 1


def is_retriable(status: int, headers: Mapping[str, str]) -> bool:
    """Whether an answer with *status* may be different next time; the server's own word goes first."""
    word = headers.get("x-should-retry", "").strip().lower()
    if word in ("true", "false"):
        return word == "true"
    return status in _RETRIABLE_STATUSES or status >= 500


def retry_after_delay(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds the server asks to wait, however many; None if none can be understood."""
    milliseconds = _parse_seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _parse_seconds(text)
    if seconds is not None or text is None:
        return seconds
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
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


def _parse_seconds(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
