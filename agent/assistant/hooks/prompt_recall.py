"""Recall for a prompt in another program: the memories that bear on it, for hooks and for the endpoints of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from tellback.agent.assistant.clients.typed_text import split_pasted
from tellback.agent.context.memory_reader import DEFAULT_RELEVANCE_FLOOR, above_floor
from tellback.agent.context_items import ContextItem, item_from_hit
from tellback.agent.desk.desk import MemoryDesk
from tellback.memory import LongTermMemory, Memory
from tellback.memory.internals import UtteranceKind, analyze_text
from tellback.vectorstore import Filter

_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_MOST_MEMORIES: Final = 8
_CONTEXT_TURNS: Final = 3
_QUESTION_CHARACTERS: Final = 2_000


@dataclass(frozen=True, slots=True)
class PromptMemories:
    """Memories that bear on a prompt: *items*, best first, and by id when each was *written* and its revision."""

    items: tuple[ContextItem, ...] = ()
    written: Mapping[str, datetime] = field(default_factory=dict)
    revisions: Mapping[str, int] = field(default_factory=dict)


async def recall_for_prompt(
    memory: LongTermMemory, prompt: str, *, earlier: Sequence[str], namespace: str, where: Filter | None
) -> PromptMemories:
    """Return the memories that bear on *prompt*, typed after the prompts *earlier*, among those that *where* selects.

    Small talk gets none, and none of it is among them, nor what was marked as not useful to prompts of this kind.
    Beside a statement that a newer one replaced is the newer one.
    """
    words = split_pasted(prompt)
    question = (words.own or words.pasted)[:_QUESTION_CHARACTERS]
    if not question or _is_small_talk(question):
        return PromptMemories()
    result = await memory.recall(
        question, _MOST_MEMORIES, context=earlier[-_CONTEXT_TURNS:], namespace=namespace, where=where
    )
    ids = [hit.memory.id for hit in result]
    unwanted = await MemoryDesk(memory=memory, namespace=namespace).not_useful(question, ids)
    hits = [hit for hit in result if hit.memory.id not in unwanted and not _is_of_small_talk(hit.memory)]
    items = [replace(item_from_hit(hit, 0), text=hit.passage or hit.memory.text) for hit in hits]
    kept, _ = above_floor(items, result, share=DEFAULT_RELEVANCE_FLOOR, searched=result.searched)
    found = {hit.memory.id: hit.memory for hit in result}
    return PromptMemories(
        tuple(with_newest(kept, items)),
        {id: memory.recorded_at or _EARLIEST for id, memory in found.items()},
        {id: memory.revision for id, memory in found.items()},
    )


def scores_of(items: Iterable[ContextItem]) -> dict[str, float]:
    """Return the scores of *items*, which a prompt was given, by id, best first."""
    return {item.id: item.score for item in sorted(items, key=lambda item: -item.score)}


def with_newest(kept: Sequence[ContextItem], found: Sequence[ContextItem]) -> list[ContextItem]:
    """Return the items *kept*, before each outdated one the newest one of its subject among all that were *found*.

    One whose newer one was not found, such as one that is not to be shown, is left out.
    """
    by_id = {item.id: item for item in found}
    given: dict[str, ContextItem] = {}
    for item in kept:
        newest: ContextItem | None = item
        passed: set[str] = set()
        while newest is not None and newest.outdated_by is not None and newest.id not in passed:
            passed.add(newest.id)
            newest = by_id.get(newest.outdated_by)
        if newest is not None:
            given.setdefault(newest.id, newest)
            given.setdefault(item.id, item)
    return list(given.values())


def _is_of_small_talk(memory: Memory) -> bool:
    """Return whether *memory* is small talk: as it was told when it was kept, since the analysis takes milliseconds."""
    return _is_small_talk(memory.text) if memory.utterance is None else memory.utterance is UtteranceKind.SMALL_TALK


def _is_small_talk(text: str) -> bool:
    return analyze_text(text).utterance.kind is UtteranceKind.SMALL_TALK
