"""Hooks of a recall: query rewriting, query expansion, a hypothetical answer (HyDE) and a reranker. Values only.

Each is a callable, sync or async, bounded in time and in number of results. If one fails, the recall goes on without
it. ``hook_runner`` calls them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TypeAlias

from memory.errors import ArgumentError
from memory.retrieval.scoring.settings import check_whole_number

RewriteHook: TypeAlias = Callable[[str, Sequence[str]], str | Awaitable[str]]
ExpandHook: TypeAlias = Callable[[str], Sequence[str] | Awaitable[Sequence[str]]]
HydeHook: TypeAlias = Callable[[str], str | Awaitable[str]]
RerankHook: TypeAlias = Callable[[str, Sequence[str]], Sequence[float] | Awaitable[Sequence[float]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallHooks:
    """Callables around a recall; each may be left out.

    - *rewrite* gets the question and what was said before, and returns the question to ask instead.
    - *expand* gets the question and returns others to ask beside it; the first *most* are taken.
    - *imagine* gets the question and returns what an answer might be; what is like it is looked for too.
    - *rerank* gets the question and the texts of the best *depth* memories, best first, and returns a score for each,
      higher is better. Its share of the final score is *share*; 1 leaves the order to it alone.

    A call may take *timeout* seconds. A sync one runs in a thread of its own, which nothing can stop: after the time it
    is left to itself.
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
            given = getattr(self, name)
            if given is not None and not callable(given):
                raise ArgumentError(name, given, "a callable is needed")
        for name in ("timeout", "share"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value <= 0:
                raise ArgumentError(name, value, "a number above 0 is needed")
        if self.share > 1:
            raise ArgumentError("share", self.share, "a number in (0, 1] is needed")
        check_whole_number("most", self.most, 1)
        check_whole_number("depth", self.depth, 1)
