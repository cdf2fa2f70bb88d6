"""The runner of recall hooks: calls are bounded in time, and a hook that fails is left out with a note."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import Any, TypeVar

from tellback.memory.results import Hit, RecallResult
from tellback.memory.retrieval.hooks import RecallHooks
from tellback.memory.retrieval.long_question import excerpt
from tellback.memory.retrieval.query import Query
from tellback.memory.retrieval.scoring.scores import QueryVariant
from tellback.memory.retrieval.token_budget import pack_hits
from tellback.memory.runtime import call_sync_or_async

T = TypeVar("T")
_MAX_CHARACTERS = 2000
"""Characters used of a question or an answer that a hook returns."""
_MAX_SHOWN_CHARACTERS = 8000
"""Characters of a question that a hook is given: about 2,000 tokens of a model."""
_EXPANSION_WEIGHT = 0.5
_HYDE_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class ExpandedQuestion:
    """The question to search for, its variants, *notes* on what the hooks did, and those on hooks that failed."""

    text: str
    variants: tuple[QueryVariant, ...] = ()
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


async def expand_question(question: str, context: Sequence[str], hooks: RecallHooks) -> ExpandedQuestion:
    """Rewrite and expand *question* with the hooks; *context* are the turns before it, oldest first."""
    excerpted = excerpt(question, _MAX_SHOWN_CHARACTERS)
    rewritten, failures = await _run_hook("rewrite", hooks, _checked_text, excerpted, tuple(context))
    text, notes = question, []
    if rewritten is not None:
        text, excerpted, notes = rewritten, rewritten, [f"asked as: {rewritten}"]
    (expansion, expand_failures), (answer, imagine_failures) = await asyncio.gather(
        _run_hook("expand", hooks, partial(_checked_questions, original=excerpted, limit=hooks.most), excerpted),
        _run_hook("imagine", hooks, _checked_text, excerpted),
    )
    if expansion:
        notes.append(f"asked too: {' / '.join(expansion)}")
    if answer is not None:
        notes.append("searched with an imagined answer too")
    variants = [QueryVariant(variant, _EXPANSION_WEIGHT) for variant in expansion or ()]
    if answer is not None:
        variants.append(QueryVariant(answer, _HYDE_WEIGHT, hypothetical=True))
    return ExpandedQuestion(text, tuple(variants), tuple(notes), (*failures, *expand_failures, *imagine_failures))


def query_for_reranking(query: Query, hooks: RecallHooks) -> Query:
    """Return the query whose hits are reranked: for as many hits as the reranker sees, without a token budget."""
    return replace(query, k=max(query.k, hooks.depth), token_budget=None)


async def rerank_hits(query: Query, found: RecallResult, hooks: RecallHooks) -> RecallResult:
    """Return *found*, the result of ``query_for_reranking``, in the reranker's order, packed as *query* asks.

    Equal scores keep their order. What the reranker adds to a score is its part "rerank".
    """
    hits = found.hits
    failures: tuple[str, ...] = ()
    if hooks.rerank is not None and len(hits) > 1:
        reranked = hits[: hooks.depth]
        texts = tuple(hit.memory.text for hit in reranked)
        scores, failures = await _run_hook(
            "rerank", hooks, partial(_checked_scores, count=len(texts)), query.text, texts
        )
        if scores is not None:
            hits = (*_blend_scores(reranked, scores, hooks.share), *_scale_rest(hits[hooks.depth :], hooks))
    packed, omitted = pack_hits(hits, k=query.k, token_budget=query.token_budget, counter=query.counter)
    ids = {hit.memory.id for hit in packed}
    folded = (omission for omission in found.left_out if omission.into in ids)
    notes, degraded = (*found.notes, *failures), (*found.degraded, *failures)
    return replace(found, hits=packed, left_out=(*folded, *omitted), notes=notes, degraded=degraded, beyond=0)


async def _run_hook(
    name: str, hooks: RecallHooks, check: Callable[[Any], T], *arguments: Any
) -> tuple[T | None, tuple[str, ...]]:
    """Return what the hook *name* gives, checked, and a note if it failed; None without a hook or after a failure.

    A call that takes longer than allowed fails.
    """
    hook = getattr(hooks, name)
    if hook is None:
        return None, ()
    try:
        async with asyncio.timeout(hooks.timeout):
            return check(await call_sync_or_async(hook, *arguments, name="tellback-recall-hook")), ()
    except TimeoutError:
        return None, (f"{name} left out: it took longer than {hooks.timeout:g} s",)
    except Exception as error:  # a stranger's code may raise anything; the recall goes on without it
        return None, (f"{name} left out: {type(error).__name__}: {error}",)


def _blend_scores(hits: Sequence[Hit], scores: Sequence[float], share: float) -> list[Hit]:
    """Return *hits* with *share* of each score taken from the reranker's *scores*, best first."""
    low, high = min(scores), max(scores)
    if high == low:
        return list(hits)
    top = hits[0].score
    blended = []
    for hit, score in zip(hits, scores, strict=True):
        added = share * top * (score - low) / (high - low)
        parts = {name: value * (1 - share) for name, value in hit.parts.items()}
        parts = {**parts, "rerank": added} if hit.parts else parts
        blended.append(replace(hit, score=hit.score * (1 - share) + added, parts=parts))
    return sorted(blended, key=lambda hit: -hit.score)


def _scale_rest(hits: Iterable[Hit], hooks: RecallHooks) -> list[Hit]:
    """Return hits that the reranker did not see on the scale of blended scores, with nothing added."""
    rest = 1 - hooks.share
    return [
        replace(hit, score=hit.score * rest, parts={name: value * rest for name, value in hit.parts.items()})
        for hit in hits
    ]


def _checked_scores(values: Any, count: int) -> list[float]:
    scores = [float(value) for value in values]
    if len(scores) != count or not all(isfinite(score) for score in scores):
        raise ValueError(f"{count} finite scores are needed, {len(scores)} values came")
    return scores


def _checked_text(text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"a text that is not empty is needed, {type(text).__name__} came")
    return text.strip()[:_MAX_CHARACTERS]


def _checked_questions(questions: Any, original: str, limit: int) -> tuple[str, ...]:
    if isinstance(questions, str):
        raise ValueError("several texts are needed, one came")
    distinct = dict.fromkeys(_checked_text(question) for question in list(questions)[:limit])
    return tuple(question for question in distinct if question != original)
