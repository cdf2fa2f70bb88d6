"""Storage of turns: what is kept of a run's messages, and writing it to memory or to a history alone.

Thinking is not kept, quotes are kept as references, and a turn is written whole or not at all. A turn whose writing
fails is held and written with the next one. Reading is ``context.history_reader``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from agent.context_items import AnswerCitation
from agent.providers.base import StoredReply
from agent.trust import with_trust
from memory import ArgumentError, Message, Report, TextBlock, ToolCallBlock, Trust
from memory.internals import QUOTES, RECALLED

if TYPE_CHECKING:
    from memory import HistoryStorage, LongTermMemory

REPLY_KEY = "reply"
_REPLY_PLACEHOLDERS = {"acknowledged": "(noted)", "nothing found": "(nothing was found)"}
_MISSING_QUOTE = "(the quoted memory is no longer there)"


@dataclass(frozen=True, slots=True)
class PendingTurn:
    """What is to be kept: *messages* of a *session*, the last one an answer made with the memories *used*."""

    session: str
    messages: tuple[Message, ...]
    used: tuple[str, ...] = ()


class TurnStore:
    """Writes turns to memory, or to a history alone; each whole or not at all.

    ``unsaved`` are turns that could not be written yet: they are tried again before the next one, in their order.
    """

    def __init__(self, memory: LongTermMemory | None, history: HistoryStorage | None, *, namespace: str = "") -> None:
        self._memory = memory
        self._history = history
        self._namespace = namespace
        self.unsaved: list[PendingTurn] = []

    @property
    def keeps(self) -> bool:
        """Whether anything is kept at all."""
        return self._memory is not None or self._history is not None

    async def store(self, turn: PendingTurn) -> tuple[Report, ...]:
        """Write what waits and then *turn*; what cannot be written for now waits, and the error is raised."""
        return await self._write_all(turn)

    async def flush(self) -> None:
        """Write what waits."""
        await self._write_all()

    async def _write_all(self, *last: PendingTurn) -> tuple[Report, ...]:
        waiting, self.unsaved = [*self.unsaved, *last], []
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
                self.unsaved = [*(turn for turn in waiting if turn not in last), *self.unsaved]
                raise
            del waiting[0]
        return reports

    async def _write(self, turn: PendingTurn) -> tuple[Report, ...]:
        if self._memory is not None:
            reports = await self._memory.remember_turn(
                turn.session, turn.messages, namespace=self._namespace, used=turn.used
            )
            return tuple(reports)
        if self._history is not None:
            await self._history.append(turn.session, turn.messages, namespace=self._namespace)
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
    """Return what is kept of a turn's *messages* (the prompt first): all, or without *trace* prompt and answer.

    Thinking goes. An answer that says itself what to keep (*kept*) is kept as that, with pointers to what it quotes.
    What the model said is marked as trusted no more than *trust*, the least of what it had read; results of tools that
    show what is remembered (*recalling*, by name) are marked as that.
    """
    prompt, *answered = (message.without_thinking() for message in messages)
    said = [prompt, *(_with_recalled_calls(with_trust(message, trust), recalling) for message in answered)]
    if kept is not None and said[-1].role == "assistant":
        said[-1] = _as_references(said[-1], kept, citations)
    if not trace:
        answers = [_without_tool_calls(one) for one in said[1:] if one.role == "assistant"]
        said = [said[0], *answers[-1:]]
    dated = (one if one.at is not None else one.model_copy(update={"at": at}) for one in said)
    return tuple(one for one in dated if one.blocks or one.metadata)


def _with_recalled_calls(message: Message, recalling: Collection[str]) -> Message:
    again = [result.call_id for result in message.tool_results if result.name in recalling]
    return message.model_copy(update={"metadata": {**message.metadata, RECALLED: again}}) if again else message


def _without_tool_calls(message: Message) -> Message:
    blocks = tuple(block for block in message.blocks if not isinstance(block, ToolCallBlock))
    return message.model_copy(update={"blocks": blocks})


def _as_references(message: Message, kept: StoredReply, citations: Sequence[AnswerCitation]) -> Message:
    blocks = (TextBlock(text=kept.text),) if kept.text else ()
    notes: dict[str, Any] = {**message.metadata, REPLY_KEY: kept.note}
    if citations:
        spans = [{"id": one.id, "start": one.span[0], "end": one.span[1]} for one in citations]
        notes[QUOTES] = spans
    return message.model_copy(update={"blocks": blocks, "metadata": notes})


@dataclass(frozen=True, slots=True)
class QuotedMessage:
    """A stored message, and the ids that it needs to be shown."""

    message: Message
    spans: tuple[tuple[str, int, int], ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """The memories whose words it quotes."""
        return tuple(id for id, _, _ in self.spans)

    def worded(self, texts: Mapping[str, str]) -> Message:
        """Return the message with the words that *texts* have for what it points to."""
        if self.message.blocks or self.message.role != "assistant":
            return self.message
        words = [f"“{texts[id][start:end]}”" if id in texts else _MISSING_QUOTE for id, start, end in self.spans]
        text = "\n".join(words) or _REPLY_PLACEHOLDERS.get(str(self.message.metadata.get(REPLY_KEY)), "(no words)")
        return self.message.model_copy(update={"blocks": (TextBlock(text=text),)})


def quoted_message(message: Message) -> QuotedMessage:
    """Return *message* as it can be shown to a model again."""
    given = message.metadata.get(QUOTES)
    if message.blocks or not isinstance(given, list):
        return QuotedMessage(message)
    spans = [
        (one["id"], one["start"], one["end"])
        for one in given
        if isinstance(one, dict)
        and isinstance(one.get("id"), str)
        and type(one.get("start")) is int
        and type(one.get("end")) is int
    ]
    return QuotedMessage(message, tuple(spans))
