"""Memory tools: a model searches, reads, notes, corrects, replaces and forgets in the memory of one user.

The words that a model writes are trusted as the least trusted words that its run has read, and never as the user's.
A model changes or removes nothing that the user said, unless that is allowed; and after reading a document or a tool's
result it changes and removes nothing without approval.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

from pydantic import Field

from tellback.agent.context.control_markup import defuse
from tellback.agent.context.rendering import render_items
from tellback.agent.context_items import item_from_hit, with_standing
from tellback.agent.desk.consent import RunModel
from tellback.agent.desk.desk import MemoryDesk
from tellback.agent.errors import ArgumentError, ToolFailed
from tellback.agent.events import MemoryDegraded
from tellback.agent.results import MemoryAccess, MemoryPart
from tellback.agent.tools.base import ToolContext
from tellback.agent.tools.function import FunctionTool
from tellback.agent.topics import AboutLine, topics_note
from tellback.memory import Hit, LongTermMemory, Memory, MemoryLayerError, RecallResult, Trust
from tellback.memory.internals import Outcome, Passages, redact_secrets

DEFAULT_MEMORY_TOOLS = ("search_memory", "get_memory", "remember")
READING_MEMORY_TOOLS = ("search_memory", "get_memory")
_CHANGING_TOOLS = ("correct_memory", "replace_memory", "forget_memory")
ALL_MEMORY_TOOLS = (*DEFAULT_MEMORY_TOOLS, *_CHANGING_TOOLS)
FactText: TypeAlias = Annotated[str, Field(min_length=1, description="One fact, understandable by itself.")]
_PARTLY_SEARCHED = "a part of the search failed, so there may be more"


async def search_note(part: MemoryPart, result: RecallResult | Passages, elapsed: float, context: ToolContext) -> str:
    """Return a note for a model on the *result* of a search of *elapsed* seconds: the number of hits, or a doubt.

    A degraded search is named in the note, and with its reason in the stream, the hooks and the log.
    """
    note = "none of these may be about it" if result.abstain is not None else f"{len(result)} found"
    if not result.degraded:
        return note
    began = max(context.scope.timer() - elapsed, 0.0)
    problem, _ = redact_secrets("; ".join(result.degraded))
    access = MemoryAccess(part, began, elapsed, len(result), problem)
    event = MemoryDegraded(access, **context.stamp())
    context.scope.emit(event)
    await event.announce(context.scope.hooks)
    return f"{note}; {_PARTLY_SEARCHED}"


MemoryIds = Annotated[
    list[str], Field(min_length=1, max_length=50, description="Memories by the numbers they are shown with, or by id.")
]


def memory_tools(
    memory: LongTermMemory,
    *,
    namespace: str | None = None,
    include: Iterable[str] = DEFAULT_MEMORY_TOOLS,
    users_words: bool = False,
    ask: bool = False,
    sensitive: bool = False,
) -> tuple[FunctionTool, ...]:
    """Return tools over *memory*, those named in *include*; those that change memories only where they are named.

    They work in *namespace* (None: in that of the run that calls them). A model corrects, replaces or forgets the words
    of the user, or of a document, only with *users_words*. Such changes need approval where the run has read a document
    or a tool's result, and with *ask* always. Memories marked sensitive are shown only with *sensitive*: to a model on
    this machine, or by the user's own setting.
    """
    tools = _MemoryTools(memory, namespace, users_words, sensitive)
    names = list(include)
    for name in names:
        if name not in ALL_MEMORY_TOOLS:
            raise ArgumentError("include", name, f"names among {', '.join(ALL_MEMORY_TOOLS)} are needed")
    # A model's word is never the user's, so approval below it is always asked for. The trust of what the tools show is
    # recorded item by item, so their results have no trust of their own.
    below = dict.fromkeys(_CHANGING_TOOLS, Trust.USER if ask else Trust.ASSISTANT)
    return tuple(
        FunctionTool(getattr(tools, name), trust=Trust.USER, recalls=True, approval_below=below.get(name))
        for name in names
    )


@dataclass(frozen=True, slots=True)
class _MemoryTools:
    """Functions of the tools."""

    memory: LongTermMemory
    namespace: str | None
    users_words: bool
    sensitive: bool

    def _desk(self, context: ToolContext) -> MemoryDesk:
        namespace = context.namespace if self.namespace is None else self.namespace
        return MemoryDesk(
            memory=self.memory,
            namespace=namespace,
            sensitive=self.sensitive,
            ids_from="search_memory shows ids",
        )

    def _model(self, context: ToolContext) -> RunModel:
        return RunModel(trust=context.trust, approved=context.approved, users_words=self.users_words)

    async def search_memory(
        self,
        query: Annotated[str, Field(min_length=1, description="What to look for, in plain words.")],
        context: ToolContext,
        limit: Annotated[int, Field(ge=1, le=30, description="How many memories at most.")] = 8,
    ) -> str:
        """Search the long-term memory for more than is shown: what was said, noted or read before."""
        began = time.perf_counter()
        result = await self._desk(context).recall(query, limit)
        note = await search_note("recall", result, time.perf_counter() - began, context)
        if not result:
            return f"No memory was found ({note})." if result.degraded else "Nothing is remembered about this."
        return _render_hits(list(result), f"Memories ({note}):", context)

    async def get_memory(self, ids: MemoryIds, context: ToolContext) -> str:
        """Read memories whole."""
        memories = await self._desk(context).get(ids)
        missing = [id for id, memory in zip(ids, memories, strict=True) if memory is None]
        text = _render_hits([Hit(memory, 0.0) for memory in memories if memory is not None], "Memories:", context)
        note = f"No memory has the id {', '.join(missing)}." if missing else ""
        return "\n".join(part for part in (text, note) if part)

    async def remember(
        self,
        text: FactText,
        context: ToolContext,
        about: AboutLine = None,
        tags: Annotated[list[str] | None, Field(description="Words to find it by.")] = None,
    ) -> str:
        """Note something in the long-term memory that will matter in later conversations.

        Give it a line about its topic, without the answer: it is found by it in other words. Two memories with the
        same line are of the same thing, and the newer one leads; the reply shows the nearest topics that are there.
        """
        return await self._note(text, context, about, tags=tuple(tags or ()))

    async def replace_memory(
        self, ids: MemoryIds, text: FactText, context: ToolContext, about: AboutLine = None
    ) -> str:
        """Note what has changed: the memories *ids* held until now, and from now on this does. Nothing is erased."""
        return await self._note(text, context, about, replaces=ids)

    async def _note(
        self,
        text: str,
        context: ToolContext,
        about: str | None,
        *,
        tags: tuple[str, ...] = (),
        replaces: Sequence[str] = (),
    ) -> str:
        """Store a note of the model; return its id and the nearest topics, in words."""
        desk, note = self._desk(context), Memory(text, about=about or "", tags=tags, session=context.session or None)
        with _failing():
            report = await desk.remember(self._model(context), note, replaces=replaces)
            if report.outcome == Outcome.REJECTED:
                raise ToolFailed(f"not stored: {report.reason}")
            nearest = await desk.topics(text, about or "", own=report.id)
        context.scope.trust.record(*(topic.trust for topic in nearest))
        topics = ((topic.id, defuse(topic.about)) for topic in nearest)
        older = "" if report.may_replace is None else f" It may replace {report.may_replace}."
        return f"Stored as {report.id}.{older} {topics_note(topics, described=bool(about))}".rstrip()

    async def correct_memory(
        self,
        id: Annotated[str, Field(min_length=1, description="Memory, by its number or id.")],
        text: Annotated[str, Field(min_length=1, description="What it should say, whole.")],
        context: ToolContext,
    ) -> str:
        """Put right what a memory says; the old version stays in its history."""
        with _failing():
            change = await self._desk(context).correct(self._model(context), id, text)
        return f"Corrected {change.report.id if change.report else id}."

    async def forget_memory(self, ids: MemoryIds, context: ToolContext) -> str:
        """Remove memories for good. This cannot be undone."""
        with _failing():
            change = await self._desk(context).forget(self._model(context), ids)
        gone = change.receipt.memories if change.done and change.receipt is not None else ()
        return f"Forgotten: {', '.join(gone) or 'none'}."


@contextmanager
def _failing() -> Iterator[None]:
    """Raise an error of the memory as ``ToolFailed``."""
    try:
        yield
    except MemoryLayerError as error:
        raise ToolFailed(str(error)) from error


def _render_hits(hits: Sequence[Hit], heading: str, context: ToolContext) -> str:
    context.scope.trust.record(*(hit.memory.trust for hit in hits))
    items = with_standing([replace(item_from_hit(hit, 0), score=0.0) for hit in hits], context.scope.zone)
    return render_items(context.scope.number(items), heading)
