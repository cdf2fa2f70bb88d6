"""Memory tools: a model searches, reads, notes, corrects and forgets in the memory of one user.

The words that a model writes are trusted as the least trusted words that its run has read, and never as the user's.
A model changes or removes nothing that the user said, unless that is allowed; and after reading a document or a tool's
result it changes and removes nothing without approval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from agent.context.memory_reader import NOT_SENSITIVE_FILTER
from agent.context.rendering import render_items
from agent.context_items import item_from_hit
from agent.errors import ArgumentError, ToolFailed
from agent.tools.base import ToolContext
from agent.tools.function import FunctionTool
from memory import Hit, LongTermMemory, Memory, MemoryLayerError, Trust
from memory.internals import Actor, Outcome

DEFAULT_MEMORY_TOOLS = ("search_memory", "get_memory", "remember")
READING_MEMORY_TOOLS = ("search_memory", "get_memory")
ALL_MEMORY_TOOLS = (*DEFAULT_MEMORY_TOOLS, "correct_memory", "forget_memory")
ModelActor: TypeAlias = Literal["assistant", "tool", "document"]
_ACTORS_BY_TRUST: dict[Trust, ModelActor] = {Trust.TOOL: "tool", Trust.DOCUMENT: "document"}
_MODEL_ACTORS = frozenset({"assistant", *_ACTORS_BY_TRUST.values()})
_CHANGING_TOOLS = frozenset({"correct_memory", "forget_memory"})

MemoryIds = Annotated[list[str], Field(min_length=1, max_length=50, description="Ids of memories.")]


def memory_tools(
    memory: LongTermMemory,
    *,
    namespace: str = "",
    include: Iterable[str] = DEFAULT_MEMORY_TOOLS,
    users_words: bool = False,
    ask: bool = False,
    sensitive: bool = False,
) -> tuple[FunctionTool, ...]:
    """Return tools over *memory*, those named in *include*; correcting and forgetting only where they are named.

    What the user said (or a document) is corrected or forgotten by a model only with *users_words*. Correcting and
    forgetting need approval where the run has read a document or a tool's result, and with *ask* always. What was
    marked sensitive is shown only with *sensitive*: to a model on this machine, or by the user's own setting.
    """
    tools = _MemoryTools(memory, namespace, users_words, sensitive)
    functions: dict[str, Callable[..., Any]] = {
        "search_memory": tools.search_memory,
        "get_memory": tools.get_memory,
        "remember": tools.remember,
        "correct_memory": tools.correct_memory,
        "forget_memory": tools.forget_memory,
    }
    wanted = list(include)
    for name in wanted:
        if name not in functions:
            raise ArgumentError("include", name, f"names among {', '.join(ALL_MEMORY_TOOLS)} are needed")
    below = Trust.USER if ask else Trust.ASSISTANT  # a model's word is never the user's, so it always asks
    # What they show is told to be read item by item, so their results have no trust of their own.
    return tuple(
        FunctionTool(
            functions[name],
            trust=Trust.USER,
            recalls=True,
            approval_below=below if name in _CHANGING_TOOLS else None,
        )
        for name in wanted
    )


class _MemoryTools:
    def __init__(self, memory: LongTermMemory, namespace: str, users_words: bool, sensitive: bool) -> None:
        self._memory = memory
        self._namespace = namespace
        self._users_words = users_words
        self._sensitive = sensitive

    async def search_memory(
        self,
        question: Annotated[str, Field(min_length=1, description="What to look for, in plain words.")],
        context: ToolContext,
        limit: Annotated[int, Field(ge=1, le=30, description="How many memories at most.")] = 8,
    ) -> str:
        """Search the long-term memory: what was said, noted or read before. Returns data with sources and ids."""
        where = None if self._sensitive else NOT_SENSITIVE_FILTER
        found = await self._memory.recall(question, limit, namespace=self._namespace, where=where)
        if not found:
            return "Nothing is remembered about this."
        note = "none of these may be about it" if found.abstain is not None else f"{len(found)} found"
        return _render_hits(list(found), f"Memories ({note})", context)

    async def get_memory(self, ids: MemoryIds, context: ToolContext) -> str:
        """Read memories whole, by their ids."""
        found = [one for one in await self._memory.get(ids, namespace=self._namespace) if one is not None]
        memories = [one for one in found if self._sensitive or not one.sensitive]
        gone = [id for id in ids if id not in {one.id for one in memories}]
        text = _render_hits([Hit(one, 0.0) for one in memories], "Memories", context)
        missing = f"No memory has the id {', '.join(gone)}." if gone else ""
        return "\n".join(part for part in (text, missing) if part)

    async def remember(
        self,
        text: Annotated[str, Field(min_length=1, description="One fact, understandable by itself.")],
        context: ToolContext,
        tags: Annotated[list[str] | None, Field(description="Words to find it by.")] = None,
    ) -> str:
        """Note something in the long-term memory that will matter in later conversations."""
        note = Memory(
            text=text,
            kind="note",
            tags=tuple(tags or ()),
            session=context.session or None,
            trust=Trust(_actor_of_call(context)),
            actor=_actor_of_call(context),
        )
        try:
            report = await self._memory.remember(note, namespace=self._namespace)
        except MemoryLayerError as error:
            raise ToolFailed(str(error)) from error
        if report.outcome is Outcome.REJECTED:
            raise ToolFailed(f"not stored: {report.reason}")
        return f"Stored as {report.id}."

    async def correct_memory(
        self,
        id: Annotated[str, Field(min_length=1, description="Id of the memory.")],
        text: Annotated[str, Field(min_length=1, description="What it should say, whole.")],
        context: ToolContext,
    ) -> str:
        """Put right what a memory says; the old version stays in its history."""
        approved_by = await self._allowed([id], context)
        try:
            report = await self._memory.correct(
                id, text, namespace=self._namespace, actor=_actor_of_call(context), approved_by=approved_by
            )
        except MemoryLayerError as error:
            raise ToolFailed(str(error)) from error
        return f"Corrected {report.id}."

    async def forget_memory(self, ids: MemoryIds, context: ToolContext) -> str:
        """Remove memories for good. This cannot be undone."""
        approved_by = await self._allowed(ids, context)
        forget = partial(
            self._memory.forget, ids, namespace=self._namespace, actor=_actor_of_call(context), approved_by=approved_by
        )
        try:
            listed = await forget(dry_run=True)
            # What says the same goes with it: a note that repeats the user's words must not be a way to erase them.
            await self._found([*listed.derived, *listed.also], of="what would go with it")
            receipt = await forget()
        except MemoryLayerError as error:
            raise ToolFailed(str(error)) from error
        return f"Forgotten: {', '.join(receipt.memories) or 'none'}."

    async def _allowed(self, ids: Sequence[str], context: ToolContext) -> Actor | None:
        """Refuse to touch what is not there, what is not the model's own, and anything for a document unasked; return
        who answers for it beside the one that writes.

        The user's words may be changed by a setting of the user's, or by the user's yes to this very call; a yes to a
        change of a model's note makes it no word of the user's.
        """
        if context.trust.rank > Trust.ASSISTANT.rank and not context.approved:
            raise ToolFailed(f"after reading the words of a {context.trust.value}, this needs the user's approval")
        if not all(map(_is_written_by_model, await self._found(ids))):
            return "user"
        return "assistant" if context.approved else None

    async def _found(self, ids: Sequence[str], *, of: str = "") -> list[Memory]:
        """Return the memories, if all are there and may be touched."""
        found: list[Memory] = []
        for id, one in zip(ids, await self._memory.get(ids, namespace=self._namespace), strict=True):
            if one is None:
                raise ToolFailed(f"no memory has the id {id}; search_memory shows ids")
            if not (_is_written_by_model(one) or self._users_words):
                which = f"{id}, {of}," if of else id
                raise ToolFailed(f"{which} is not a note of yours; only the user can change or remove it")
            found.append(one)
        return found


def _actor_of_call(context: ToolContext) -> ModelActor:
    """Return who writes: the least trusted that the run has read, the model itself at most."""
    return _ACTORS_BY_TRUST.get(context.trust, "assistant")


def _is_written_by_model(memory: Memory) -> bool:
    """Whether a model wrote it; passages of documents are nobody's to change here."""
    is_passage = memory.source is not None and memory.source.document is not None
    return memory.actor in _MODEL_ACTORS and memory.trust is not Trust.USER and not is_passage


def _render_hits(hits: Sequence[Hit], heading: str, context: ToolContext) -> str:
    context.scope.reading.read(*(hit.memory.trust for hit in hits))
    items = [item_from_hit(hit, place) for place, hit in enumerate(hits, start=1)]
    return render_items([replace(item, score=0.0) for item in items], heading)
