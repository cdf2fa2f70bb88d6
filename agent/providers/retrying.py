"""Retrying provider: any provider, asked again after a transient failure, with exponential backoff.

A request is repeated only until its reply has begun: no text is streamed twice.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tellback.agent.errors import ArgumentError, ProviderError
from tellback.agent.providers.accumulator import open_stream
from tellback.agent.providers.base import (
    Capabilities,
    Delta,
    ModelPiece,
    Provider,
    Request,
    UsagePiece,
    WaitPiece,
    capabilities_of,
)
from tellback.agent.results import Usage
from tellback.memory.internals import is_remote


@dataclass(frozen=True, slots=True)
class Backoff:
    """*attempts* in all, waits of *first* seconds doubling to *longest*; *rng* gives numbers in [0, 1)."""

    attempts: int
    first: float
    longest: float
    rng: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise ArgumentError("attempts", self.attempts, "at least 1 is needed")
        for name in ("first", "longest"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ArgumentError(name, value, "a number of seconds of at least 0 is needed")

    def wait(self, attempt: int) -> float:
        """Return the seconds to wait after *attempt*, from 1."""
        return min(self.first * 2.0 ** min(attempt - 1, 30), self.longest) * (1 - self.rng() / 4)


class RetryingProvider:
    """Asks *provider* up to *attempts* times in all, while its failures are transient (``ProviderError.transient``) and
    the reply has not begun; *passes* decides instead where it is given.

    The wait is what the server asked for, if not above *longest_named* seconds (then the error is raised), or else
    *first* seconds doubling to *longest*, less up to a quarter at random. The last real error is raised; cancelled
    while waiting, it is the cancellation's context. Tokens of attempts that failed are counted with the reply's.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        attempts: int = 3,
        first: float = 0.5,
        longest: float = 8.0,
        longest_named: float = 120.0,
        passes: Callable[[Exception], bool] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        if not isinstance(provider, Provider):
            raise ArgumentError("provider", provider, "a provider is needed")
        if not (math.isfinite(longest_named) and longest_named >= 0):
            raise ArgumentError("longest_named", longest_named, "a number of seconds of at least 0 is needed")
        self._provider, self._longest_named = provider, longest_named
        self._backoff = Backoff(attempts, first, longest, rng)
        self._passes, self._sleep = passes or _is_transient_failure, sleep

    @property
    def remote(self) -> bool:
        """Return whether the provider inside is on another machine."""
        return is_remote(self._provider)

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of the provider inside; everything where it states none."""
        return capabilities_of(self._provider) or Capabilities()

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Answer *request*, asking again while nothing of the reply has come."""
        spent = Usage()
        attempt = 1
        while True:
            latest = Usage()
            begun = False
            try:
                async with open_stream(self._provider, request) as deltas:
                    async for delta in deltas:
                        if isinstance(delta, UsagePiece):
                            latest = delta.usage
                            if not begun:
                                continue  # counts do not begin a reply; they are sent with the next delta
                            delta = UsagePiece(spent + latest)
                        elif not begun and not isinstance(delta, (ModelPiece, WaitPiece)):
                            begun = True
                            if spent + latest != Usage():
                                yield UsagePiece(spent + latest)
                        yield delta
                return
            except Exception as error:  # a stranger's provider may raise anything; *passes* decides
                if begun or attempt >= self._backoff.attempts or not self._passes(error):
                    raise
                retry_after = getattr(error, "retry_after", None)
                if retry_after is not None and retry_after > self._longest_named:
                    raise
                spent += latest
                wait = float(retry_after) if retry_after else self._backoff.wait(attempt)
                yield WaitPiece(wait, str(error), named=bool(retry_after))
                await self._sleep(wait)
                attempt += 1

    async def aclose(self) -> None:
        """Close the provider inside."""
        close: Callable[[], Awaitable[Any]] | None = getattr(self._provider, "aclose", None)
        if close is not None:
            await close()

    def __getattr__(self, name: str) -> Any:
        """Forward attributes beside the protocol, such as ``model`` and ``models``, to the provider inside."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._provider, name)

    def __repr__(self) -> str:
        return f"RetryingProvider({self._provider!r}, attempts={self._backoff.attempts})"


def _is_transient_failure(error: Exception) -> bool:
    return isinstance(error, ProviderError) and error.transient
