"""Calls of a tool of the memory server: the client that calls, the person to ask, and confirmations in two steps."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Self

from tellback.agent.errors import ToolFailed

_CONFIRMATION_SECONDS = 600
"""Lifetime of a confirmation: long enough for a person to read the question."""


async def _nobody(question: str) -> bool | None:
    return None


@dataclass(frozen=True, slots=True)
class McpCall:
    """Context of one call: *client* names the program that calls, with its version.

    *ask* puts a question to the user of the client: True is a yes, False a no, None means that the client cannot ask.
    """

    client: str = ""
    ask: Callable[[str], Awaitable[bool | None]] = _nobody


@dataclass(frozen=True, slots=True)
class ConfirmationTokens:
    """Tokens that bind a confirmation to exactly the items shown, for ten minutes, in all processes with their *key*.

    A subject names revisions, so a token is used once: what it confirms changes them.
    """

    key: bytes = field(repr=False)
    clock: Callable[[], float] = time.time

    def issue(self, action: str, subject: Iterable[str]) -> str:
        """Return a token for *action* on *subject*."""
        return self._token(int(self.clock()) + _CONFIRMATION_SECONDS, action, subject)

    def is_valid(self, token: str, action: str, subject: Iterable[str]) -> bool:
        """Return whether *token* was issued for *action* on exactly this *subject*, and has not expired."""
        end, _, _ = token.partition("-")
        if not end.isascii() or not end.isdigit() or len(end) > 12 or int(end) < self.clock():
            return False
        return hmac.compare_digest(token.encode(), self._token(int(end), action, subject).encode())

    @classmethod
    def of(cls, key: bytes) -> Self:
        """Return the tokens of the memory with the secret *key*, from which theirs is derived."""
        return cls(hmac.new(key, b"confirmation", hashlib.sha256).digest())

    def _token(self, end: int, action: str, subject: Iterable[str]) -> str:
        words = "\0".join((str(end), action, *subject)).encode()
        return f"{end}-{hmac.new(self.key, words, hashlib.sha256).hexdigest()[:24]}"


class FailureLimit:
    """Limit of failing calls: after *most* of them within *seconds*, further calls are refused for a while."""

    def __init__(self, most: int = 30, seconds: float = 60.0, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._times: deque[float] = deque()

    def check(self) -> None:
        """Raise ``ToolFailed`` where too many recent calls failed."""
        now = self._clock()
        while self._times and self._times[0] <= now - self._seconds:
            self._times.popleft()
        if len(self._times) >= self._most:
            wait = max(1, round(self._times[0] + self._seconds - now))
            raise ToolFailed(f"{self._most} calls failed within {self._seconds:.0f} seconds; wait {wait} s, then go on")

    def record(self) -> None:
        """Record that a call failed."""
        self._times.append(self._clock())
