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
from functools import partial
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from tellback.agent.context.control_markup import defuse
from tellback.agent.context.memory_reader import NOT_SENSITIVE_FILTER
from tellback.agent.context.rendering import render_items
from tellback.agent.context_items import item_from_hit, with_standing
from tellback.agent.errors import ArgumentError, ToolFailed
from tellback.agent.events import MemoryDegraded
from tellback.agent.results import MemoryAccess, MemoryPart
from tellback.agent.tools.base import ToolContext
from tellback.agent.tools.function import FunctionTool
from tellback.agent.topics import AboutLine, nearest_topics, topics_note
from tellback.memory import Hit, LongTermMemory, Memory, MemoryLayerError, RecallResult, Trust
from tellback.memory.internals import Actor, Outcome, Passages, redact_secrets

DEFAULT_MEMORY_TOOLS = ("search_memory", "get_memory", "remember")
READING_MEMORY_TOOLS = ("search_memory", "get_memory")
_CHANGING_TOOLS = ("correct_memory", "replace_memory", "forget_memory")
ALL_MEMORY_TOOLS = (*DEFAULT_MEMORY_TOOLS, *_CHANGING_TOOLS)
ModelActor: TypeAlias = Literal["assistant", "tool", "document"]
_ACTORS_BY_TRUST: dict[Trust, ModelActor] = {Trust.TOOL: "tool", Trust.DOCUMENT: "document"}
_MODEL_ACTORS = frozenset({"assistant", *_ACTORS_BY_TRUST.values()})

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

    def _namespace(self, context: ToolContext) -> str:
        return context.namespace if self.namespace is None else self.namespace

    async def search_memory(
        self,
        query: Annotated[str, Field(min_length=1, description="What to look for, in plain words.")],
        context: ToolContext,
        limit: Annotated[int, Field(ge=1, le=30, description="How many memories at most.")] = 8,
    ) -> str:
        """Search the long-term memory for more than is shown: what was said, noted or read before."""
        where = None if self.sensitive else NOT_SENSITIVE_FILTER
        began = time.perf_counter()
        result = await self.memory.recall(query, limit, namespace=self._namespace(context), where=where)
        note = await search_note("recall", result, time.perf_counter() - began, context)
        if not result:
            return f"No memory was found ({note})." if result.degraded else "Nothing is remembered about this."
        return _render_hits(list(result), f"Memories ({note}):", context)

    async def get_memory(self, ids: MemoryIds, context: ToolContext) -> str:
        """Read memories whole."""
        known = [
            memory for memory in await self.memory.get(ids, namespace=self._namespace(context)) if memory is not None
        ]
        shown = {memory.id: memory for memory in known if self.sensitive or not memory.sensitive}
        missing = [id for id in ids if id not in shown]
        text = _render_hits([Hit(memory, 0.0) for memory in known if memory.id in shown], "Memories:", context)
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
        approved_by = await self._authorize(ids, context)
        return await self._note(text, context, about, replaces=tuple(ids), approved_by=approved_by)

    async def _note(
        self,
        text: str,
        context: ToolContext,
        about: str | None,
        *,
        tags: tuple[str, ...] = (),
        replaces: tuple[str, ...] = (),
        approved_by: Actor | None = None,
    ) -> str:
        """Store a note of the model; return its id and the nearest topics, in words."""
        actor, namespace = _actor_of_call(context), self._namespace(context)
        note = Memory(
            text,
            kind="note",
            about=about or "",
            tags=tags,
            session=context.session or None,
            trust=Trust(actor),
            actor=actor,
            replaces=replaces,
        )
        where = None if self.sensitive else NOT_SENSITIVE_FILTER
        with _failing():
            report = await self.memory.remember(note, namespace=namespace, approved_by=approved_by)
            if report.outcome == Outcome.REJECTED:
                raise ToolFailed(f"not stored: {report.reason}")
            nearest = await nearest_topics(
                self.memory, text, about or "", own=report.id, namespace=namespace, where=where
            )
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
        approved_by = await self._authorize([id], context)
        actor = _actor_of_change(context, approved_by)
        with _failing():
            report = await self.memory.correct(
                id, text, namespace=self._namespace(context), actor=actor, approved_by=approved_by
            )
        return f"Corrected {report.id}."

    async def forget_memory(self, ids: MemoryIds, context: ToolContext) -> str:
        """Remove memories for good. This cannot be undone."""
        approved_by = await self._authorize(ids, context)
        actor = _actor_of_change(context, approved_by)
        forget = partial(
            self.memory.forget, ids, namespace=self._namespace(context), actor=actor, approved_by=approved_by
        )
        with _failing():
            preview = await forget(dry_run=True)
            # What says the same goes with it: a note that repeats the user's words must not be a way to erase them.
            await self._changeable([*preview.derived, *preview.also], context, of="what would go with it")
            receipt = await forget()
        return f"Forgotten: {', '.join(receipt.memories) or 'none'}."

    async def _authorize(self, ids: Sequence[str], context: ToolContext) -> Actor | None:
        """Return the actor that approved the change, None for none; raise ``ToolFailed`` where it is not allowed.

        Refused are unknown memories, memories that no model wrote (unless ``users_words`` is set), and without approval
        every change after reading a tool's or a document's words. For a memory that a model wrote, the approval of this
        call counts as the assistant's: the note does not become the user's word.
        """
        if context.trust.rank > Trust.ASSISTANT.rank and not context.approved:
            raise ToolFailed(f"after reading the words of a {context.trust.value}, this needs the user's approval")
        if not all(map(_is_written_by_model, await self._changeable(ids, context))):
            return "user"
        return "assistant" if context.approved else None

    async def _changeable(self, ids: Sequence[str], context: ToolContext, *, of: str = "") -> list[Memory]:
        """Return the memories, if all are known and may be changed; *of* says in an error how they are concerned."""
        memories: list[Memory] = []
        for id, memory in zip(ids, await self.memory.get(ids, namespace=self._namespace(context)), strict=True):
            if memory is None:
                raise ToolFailed(f"no memory has the id {id}; search_memory shows ids")
            if not (_is_written_by_model(memory) or self.users_words):
                subject = f"{id}, {of}," if of else id
                raise ToolFailed(f"{subject} is not a note of yours; only the user can change or remove it")
            memories.append(memory)
        return memories


@contextmanager
def _failing() -> Iterator[None]:
    """Raise an error of the memory as ``ToolFailed``."""
    try:
        yield
    except MemoryLayerError as error:
        raise ToolFailed(str(error)) from error


def _actor_of_call(context: ToolContext) -> ModelActor:
    """Return the actor of a write: the least trusted that the run has read, the model itself at most."""
    return _ACTORS_BY_TRUST.get(context.trust, "assistant")


def _actor_of_change(context: ToolContext, approved_by: Actor | None) -> Actor:
    """Return the actor that answers for a change: the user, where the user has approved this very call."""
    return "user" if approved_by == "user" and context.approved else _actor_of_call(context)


def _is_written_by_model(memory: Memory) -> bool:
    """Return whether a model wrote *memory*; passages of documents cannot be changed here."""
    is_passage = memory.source is not None and memory.source.document is not None
    return memory.actor in _MODEL_ACTORS and memory.trust != Trust.USER and not is_passage


def _render_hits(hits: Sequence[Hit], heading: str, context: ToolContext) -> str:
    context.scope.trust.record(*(hit.memory.trust for hit in hits))
    items = with_standing([replace(item_from_hit(hit, 0), score=0.0) for hit in hits], context.scope.zone)
    return render_items(context.scope.number(items), heading)
