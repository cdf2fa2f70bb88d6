"""Storage of turns: the messages of a run that are kept, written to memory or to a history alone.

Thinking is not kept, quotes are kept as references, and a turn is written whole or not at all. A turn whose writing
fails is held and written with the next one. Reading is ``context.memory_reader``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tellback.agent.agent_memory import AgentMemory
from tellback.agent.context_items import AnswerCitation
from tellback.agent.providers.base import StoredReply
from tellback.agent.trust import with_trust
from tellback.memory import ArgumentError, Message, Report, TextBlock, ToolCallBlock, Trust
from tellback.memory.internals import MODEL, QUOTES, RECALLED, StoredMessage

if TYPE_CHECKING:
    from tellback.memory import HistoryStorage

REPLY_KEY = "reply"
CITED_KEY = "cited"
"""Key in an answer's metadata: ids of the items it cites, by the numbers in its text."""
_REPLY_PLACEHOLDERS = {
    "acknowledged": "(noted)",
    "nothing found": "(nothing was found)",
    "nothing to note": "(nothing to note)",
}
_MISSING_QUOTE = "(the quoted memory is no longer there)"


@dataclass(frozen=True, slots=True)
class PendingTurn:
    """Turn to be stored: *messages* of a *session* in *namespace*, the last one an answer made with memories *used*."""

    session: str
    messages: tuple[Message, ...]
    used: tuple[str, ...] = ()
    namespace: str = ""


@dataclass(slots=True, eq=False)
class TurnStore:
    """Writes turns to memory, or to a history alone; each whole or not at all.

    ``unsaved`` are turns that could not be written yet: they are tried again before the next one, in their order.
    """

    memory: AgentMemory | None
    history: HistoryStorage | None
    unsaved: list[PendingTurn] = field(default_factory=list)

    @property
    def keeps(self) -> bool:
        """Return whether turns are stored at all."""
        return self.memory is not None or self.history is not None

    async def store(self, *turns: PendingTurn) -> tuple[Report, ...]:
        """Write the unsaved turns and then *turns*; one that cannot be written waits, and its error is raised."""
        waiting, self.unsaved = [*self.unsaved, *turns], []
        reports: tuple[Report, ...] = ()
        while waiting:
            try:
                reports = await self._write(waiting[0])
            except ArgumentError:
                self.unsaved = [*waiting[1:], *self.unsaved]
                raise  # such a turn can never be written; waiting would hold up the others
            except Exception:  # a full disk, a busy file: the turns wait, and the caller is told
                self.unsaved = [*waiting, *self.unsaved]
                raise
            except asyncio.CancelledError:
                # The cancelled run's own turn does not wait: its user has left it. Others' turns go on waiting.
                self.unsaved = [*(turn for turn in waiting if turn not in turns), *self.unsaved]
                raise
            del waiting[0]
        return reports

    async def _write(self, turn: PendingTurn) -> tuple[Report, ...]:
        if self.memory is not None:
            remember = self.memory.remember_turn
            return tuple(await remember(turn.session, turn.messages, namespace=turn.namespace, used=turn.used))
        if self.history is not None:
            await self.history.append(turn.session, turn.messages, namespace=turn.namespace)
        return ()


def messages_to_store(
    messages: Sequence[Message],
    *,
    trace: bool,
    at: datetime,
    kept: StoredReply | None = None,
    citations: Sequence[AnswerCitation] = (),
    trust: Trust = Trust.USER,
    recalling: Collection[str] = (),
) -> tuple[Message, ...]:
    """Return the messages to store of a turn (*messages*, the prompt first): without *trace* only prompt and answer.

    Thinking is left out. An answer with a replacement (*kept*) is stored as the replacement, with references to the
    memories it quotes; any other keeps the numbers of its *citations*, which stay those of the same items for the whole
    session. The model's messages get at most *trust*, that of the least trusted words it had read; results of the tools
    named in *recalling* are marked as recalled memories. *at* is the time of messages without one.
    """
    prompt, *answered = (message.without_thinking() for message in messages)
    stored = [prompt, *(_with_recalled_calls(with_trust(message, trust), recalling) for message in answered)]
    if kept is not None and stored[-1].role == "assistant":
        stored[-1] = _as_references(stored[-1], kept, citations)
    elif stored[-1].role == "assistant":
        stored[-1] = _with_numbers(stored[-1], citations)
    if not trace:
        answers = [message for message in stored[1:] if message.role == "assistant"][-1:]
        stored = [stored[0], *map(without_tool_calls, answers)]
    dated = (message if message.at is not None else message.model_copy(update={"at": at}) for message in stored)
    return tuple(message for message in dated if message.blocks or message.metadata.keys() - {MODEL, CITED_KEY})


def _with_recalled_calls(message: Message, recalling: Collection[str]) -> Message:
    recalled = [result.call_id for result in message.tool_results if result.name in recalling]
    return message.model_copy(update={"metadata": {**message.metadata, RECALLED: recalled}}) if recalled else message


def without_tool_calls(message: Message) -> Message:
    """Return *message* without its tool calls."""
    blocks = tuple(block for block in message.blocks if not isinstance(block, ToolCallBlock))
    return message.model_copy(update={"blocks": blocks})


def _as_references(message: Message, kept: StoredReply, citations: Sequence[AnswerCitation]) -> Message:
    blocks = (TextBlock(text=kept.text),) if kept.text else ()
    metadata: dict[str, Any] = {**message.metadata, REPLY_KEY: kept.note}
    if citations:
        spans = [{"id": citation.id, "start": citation.span[0], "end": citation.span[1]} for citation in citations]
        metadata[QUOTES] = spans
    return message.model_copy(update={"blocks": blocks, "metadata": metadata})


def _with_numbers(message: Message, citations: Sequence[AnswerCitation]) -> Message:
    numbers = {str(citation.number): citation.id for citation in citations if citation.number}
    return message.model_copy(update={"metadata": {**message.metadata, CITED_KEY: numbers}}) if numbers else message


def cited_numbers(history: Sequence[Message]) -> dict[str, int]:
    """Return the numbers by which the answers in *history* cite memories and passages, by their ids."""
    numbers: dict[str, int] = {}
    for message in history:
        cited = message.metadata.get(CITED_KEY)
        for number, id in cited.items() if isinstance(cited, dict) else ():
            if isinstance(id, str) and number.isdecimal() and int(number) not in numbers.values():
                numbers.setdefault(id, int(number))
    return numbers


async def with_quoted_words(
    stored: Sequence[StoredMessage], memory: AgentMemory | None, namespace: str
) -> list[StoredMessage]:
    """Return *stored* with the present words of quoted memories in place of the references to them."""
    spans = [_quoted_spans(kept.message) for kept in stored]
    ids = list(dict.fromkeys(id for quoted in spans for id, _, _ in quoted))
    memories = await memory.get(ids, namespace=namespace) if ids and memory is not None else []
    texts = {memory.id: memory.text for memory in memories if memory is not None}
    return [
        replace(kept, message=_with_words(kept.message, quoted, texts))
        for kept, quoted in zip(stored, spans, strict=True)
    ]


def _quoted_spans(message: Message) -> list[tuple[str, int, int]]:
    """Return the spans of memories that a stored message quotes: their ids, starts and ends."""
    references = message.metadata.get(QUOTES)
    if message.blocks or not isinstance(references, list):
        return []
    return [
        (span["id"], span["start"], span["end"])
        for span in references
        if isinstance(span, dict)
        and isinstance(span.get("id"), str)
        and type(span.get("start")) is int
        and type(span.get("end")) is int
    ]


def _with_words(message: Message, spans: Sequence[tuple[str, int, int]], texts: Mapping[str, str]) -> Message:
    if message.blocks or message.role != "assistant":
        return message
    words = [f"“{texts[id][start:end]}”" if id in texts else _MISSING_QUOTE for id, start, end in spans]
    text = "\n".join(words) or _REPLY_PLACEHOLDERS.get(str(message.metadata.get(REPLY_KEY)), "(no words)")
    return message.model_copy(update={"blocks": (TextBlock(text=text),)})
