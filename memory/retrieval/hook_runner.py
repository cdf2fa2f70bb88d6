"""The runner of recall hooks: calls are bounded in time, and a hook that fails is left out with a note."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from math import isfinite
from typing import Any

from memory.results import Hit, RecallResult
from memory.retrieval.hooks import RecallHooks
from memory.retrieval.query import Query, QueryVariant
from memory.retrieval.token_budget import pack_hits
from memory.runtime import run_in_thread

_MAX_CHARACTERS = 2000
"""Characters that are taken of a question or an answer which a hook gives."""
_EXPANSION_WEIGHT = 0.5
_HYDE_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class ExpandedQuestion:
    """The question to ask, other wordings beside it, and *notes* on what was done and what failed."""

    text: str
    wordings: tuple[QueryVariant, ...] = ()
    notes: tuple[str, ...] = ()


async def expand_question(question: str, context: Sequence[str], hooks: RecallHooks) -> ExpandedQuestion:
    """Ask the hooks for other words of *question*; *context* is what was said before, oldest first."""
    text, notes = question, []
    if hooks.rewrite is not None:
        try:
            text = _checked_text(
                await _call_within_timeout(hooks.rewrite, question, tuple(context), seconds=hooks.timeout)
            )
            notes.append(f"asked as: {text}")
        except Exception as error:  # a stranger's code may raise anything; the question itself is still there
            notes.append(_failure_note("rewrite", error, hooks))
    asked = text
    further, imagined = await asyncio.gather(
        _run_hook("expand", hooks.expand, lambda given: _checked_questions(given, asked, hooks.most), asked, hooks),
        _run_hook("imagine", hooks.imagine, lambda given: (_checked_text(given),), asked, hooks),
    )
    if further.given:
        notes.append(f"asked too: {' / '.join(further.given)}")
    if imagined.given:
        notes.append("searched with an imagined answer too")
    wordings = (
        *(QueryVariant(one, _EXPANSION_WEIGHT) for one in further.given),
        *(QueryVariant(one, _HYDE_WEIGHT, sure=False) for one in imagined.given),
    )
    return ExpandedQuestion(asked, wordings, (*notes, *further.problems, *imagined.problems))


def query_for_reranking(query: Query, hooks: RecallHooks | None) -> Query:
    """Return *query* as it is asked before a reranker chooses: for as many as it sees, without a budget."""
    if hooks is None or hooks.rerank is None or not query.k:
        return query
    return replace(query, k=max(query.k, hooks.depth), token_budget=None)


async def rerank_hits(query: Query, found: RecallResult, hooks: RecallHooks) -> RecallResult:
    """Return *found*, the answer to the deeper query, in the reranker's order, and packed as *query* says.

    Equal scores keep their order. What it adds is in the parts as "rerank".
    """
    hits, notes = found.hits, found.notes
    if hooks.rerank is not None and len(hits) > 1:
        seen = hits[: hooks.depth]
        try:
            given = await _call_within_timeout(
                hooks.rerank, query.text, tuple(hit.memory.text for hit in seen), seconds=hooks.timeout
            )
            hits = (
                *_blend_scores(seen, _checked_scores(given, len(seen)), hooks.share),
                *_scale_unseen(hits[hooks.depth :], hooks),
            )
        except Exception as error:  # as for the words: the ranking of recall stands
            notes = (*notes, _failure_note("rerank", error, hooks))
    kept, left_out = pack_hits(hits, k=query.k, token_budget=query.token_budget, counter=query.counter)
    ids = {hit.memory.id for hit in kept}
    folded = (one for one in found.left_out if one.into in ids)
    return replace(found, hits=kept, left_out=(*folded, *left_out), notes=notes)


@dataclass(frozen=True, slots=True)
class _HookResult:
    given: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


async def _run_hook(
    name: str,
    hook: Callable[[str], Any] | None,
    read: Callable[[Any], tuple[str, ...]],
    question: str,
    hooks: RecallHooks,
) -> _HookResult:
    if hook is None:
        return _HookResult()
    try:
        return _HookResult(read(await _call_within_timeout(hook, question, seconds=hooks.timeout)))
    except Exception as error:  # as above
        return _HookResult(problems=(_failure_note(name, error, hooks),))


async def _call_within_timeout(hook: Callable[..., Any], *given: Any, seconds: float) -> Any:
    """Return what *hook* gives for *given*, or raise after so many *seconds*."""
    async with asyncio.timeout(seconds):
        if iscoroutinefunction(hook):
            return await hook(*given)
        result = await run_in_thread(partial(hook, *given), name="tellback-recall-hook")
        return await result if isawaitable(result) else result


def _blend_scores(hits: Sequence[Hit], scores: Sequence[float], share: float) -> list[Hit]:
    low, high = min(scores), max(scores)
    if high == low:
        return list(hits)
    top = hits[0].score
    found = []
    for hit, score in zip(hits, scores, strict=True):
        added = share * top * (score - low) / (high - low)
        parts = {name: value * (1 - share) for name, value in hit.parts.items()}
        parts = {**parts, "rerank": added} if hit.parts else parts
        found.append(replace(hit, score=hit.score * (1 - share) + added, parts=parts))
    return sorted(found, key=lambda hit: -hit.score)


def _scale_unseen(hits: Iterable[Hit], hooks: RecallHooks) -> list[Hit]:
    """Return those that the reranker did not see on the same scale, without what it would have added."""
    rest = 1 - hooks.share
    return [
        replace(hit, score=hit.score * rest, parts={name: value * rest for name, value in hit.parts.items()})
        for hit in hits
    ]


def _checked_scores(given: Any, count: int) -> list[float]:
    scores = [float(one) for one in given]
    if len(scores) != count or not all(isfinite(one) for one in scores):
        raise ValueError(f"{count} finite scores are needed, {len(scores)} values came")
    return scores


def _checked_text(given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"a text that is not empty is needed, {type(given).__name__} came")
    return given.strip()[:_MAX_CHARACTERS]


def _checked_questions(given: Any, asked: str, most: int) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ValueError("several texts are needed, one came")
    return tuple(one for one in dict.fromkeys(_checked_text(one) for one in list(given)[:most]) if one != asked)


def _failure_note(name: str, error: Exception, hooks: RecallHooks) -> str:
    if isinstance(error, TimeoutError):
        return f"{name} left out: it took longer than {hooks.timeout:g} s"
    return f"{name} left out: {type(error).__name__}: {error}"
