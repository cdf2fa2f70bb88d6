"""Hooks of a recall: query rewriting, query expansion, a hypothetical answer (HyDE) and a reranker. Values only.

Each is a callable, sync or async, bounded in time and in number of results. If one fails, the recall goes on without
it. ``hook_runner`` calls them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from tellback.memory.errors import ArgumentError
from tellback.memory.validation import checked_int

RewriteHook: TypeAlias = Callable[[str, Sequence[str]], str | Awaitable[str]]
ExpandHook: TypeAlias = Callable[[str], Sequence[str] | Awaitable[Sequence[str]]]
HydeHook: TypeAlias = Callable[[str], str | Awaitable[str]]
RerankHook: TypeAlias = Callable[[str, Sequence[str]], Sequence[float] | Awaitable[Sequence[float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallHooks:
    """Callables around a recall; each is optional.

    - *rewrite* (query rewriting) gets the question and the turns before it, and returns the question to search for
      instead.
    - *expand* (query expansion) gets the question and returns other questions to search for beside it; the first *most*
      are used.
    - *imagine* (HyDE) gets the question and returns a hypothetical answer; memories similar to it are found too.
    - *rerank* (a reranker) gets the question and the texts of the best *depth* memories, best first, and returns a
      score for each, higher is better. Its share of the final score is *share*; 1 leaves the order to it alone.

    A call may take *timeout* seconds. A sync callable runs in a thread of its own, which cannot be stopped: after that
    time its result is ignored.
    """

    rewrite: RewriteHook | None = None
    expand: ExpandHook | None = None
    imagine: HydeHook | None = None
    rerank: RerankHook | None = None
    timeout: float = 10.0
    most: int = 4
    depth: int = 50
    share: float = 0.5

    def __post_init__(self) -> None:
        for name in ("rewrite", "expand", "imagine", "rerank"):
            hook = getattr(self, name)
            if hook is not None and not callable(hook):
                raise ArgumentError(name, hook, "a callable is needed")
        for name in ("timeout", "share"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
                raise ArgumentError(name, value, "a number above 0 is needed")
        if self.share > 1:
            raise ArgumentError("share", self.share, "a number in (0, 1] is needed")
        checked_int(self.most, "most", 1)
        checked_int(self.depth, "depth", 1)
