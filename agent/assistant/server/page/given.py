"""View of what was given: which memories which prompt of which client got, why, and which of them were not useful."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Form, Request, Response

from tellback.agent.assistant.server.page.memories import Row
from tellback.agent.assistant.server.page.page_route import Opened, PageRoute, go_to
from tellback.agent.assistant.server.page.rendering import is_partial, render
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.agent.desk.results import GivenItem
from tellback.vectorstore import Analyzer

router = APIRouter(route_class=PageRoute)
_PER_PAGE: Final = 20
_WORD: Final = re.compile(r"\w[\w'-]*")
_LONGEST: Final = 5_000
_SHOWN_WORDS: Final = 5
Id = Annotated[str, Form(max_length=200)]


@router.get("/given")
async def given(request: Request, opened: Opened, before: str | None = None) -> Response:
    """Show what prompts were given, the newest first."""
    log, namespace = opened.memory.given, opened.namespace
    found = await asyncio.to_thread(partial(log.recent, namespace, _PER_PAGE + 1, before=before))
    prompts = await _shown(opened, [GivenItem.of(prompt) for prompt in found[:_PER_PAGE]])
    following = found[_PER_PAGE - 1].id if len(found) > _PER_PAGE else None
    return render(request, "given.html", prompts=prompts, next=following)


@router.post("/given")
async def mark(
    request: Request, opened: Opened, giving: Id, memory: Id, useful: Annotated[bool, Form()] = False
) -> Response:
    """Mark that a memory was of no use to a prompt, or take that back."""
    log = opened.memory.given
    marked = await asyncio.to_thread(partial(log.mark, opened.namespace, memory, useful=useful, giving=giving))
    if is_partial(request):
        (prompt,) = await _shown(opened, [GivenItem.of(marked)])
        return render(request, "given_prompt.html", prompt=prompt)
    return go_to(opened, "/given")


async def _shown(opened: OpenedMemory, prompts: Sequence[GivenItem]) -> list[dict[str, Any]]:
    """Return *prompts* with the memories that they were given, each with its row, None where it is gone."""
    ids = list(dict.fromkeys(one.id for prompt in prompts for one in prompt.memories))
    rows = {memory.id: Row(memory, opened) for memory in await opened.desk.get(ids) if memory is not None}

    def memories_of(prompt: GivenItem) -> list[dict[str, Any]]:
        return [
            {**dict(one), "row": (row := rows.get(one.id)), "reason": _reason(opened, prompt.prompt, row)}
            for one in prompt.memories
        ]

    return [{"prompt": prompt, "given": memories_of(prompt)} for prompt in prompts]


def _reason(opened: OpenedMemory, prompt: str, row: Row | None) -> str:
    """Return in words why *prompt* was given a memory: the words that both say, or else what they mean."""
    if row is None:
        return ""
    said = shared_words(opened.analyzer, prompt, row.memory.text[:_LONGEST])
    words = ", ".join(f"“{word}”" for word in said[:_SHOWN_WORDS])
    return f"says {words}" if words else "means something close to it"


def shared_words(analyzer: Analyzer, prompt: str, text: str) -> list[str]:
    """Return the words of *prompt* that *text* has in some form, without stop words, each once."""
    terms = frozenset(analyzer.terms(text))
    words = dict.fromkeys(_WORD.findall(prompt))
    return [word for word in words if not terms.isdisjoint(analyzer.terms(word))]
