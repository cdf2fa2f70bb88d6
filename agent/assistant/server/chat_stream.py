"""Turn of a chat as server-sent events: the events of the run in their JSON form, then what the turn kept.

A tool call that needs a person's approval is refused: nobody is asked over this stream.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from tellback.agent.assistant.conversation.conversation import TurnEnded
from tellback.agent.assistant.conversation.secret_mask import SecretMask
from tellback.agent.desk.results import MemoryItem
from tellback.agent.events import ApprovalRequested, RunEnded

if TYPE_CHECKING:
    from tellback.agent.assistant.conversation.conversation import Conversation
    from tellback.agent.assistant.server.open_memory import ServedMemory
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory import Memory

_log = logging.getLogger(__name__)
_REFUSED: Final = "nobody can be asked here"


async def chat_stream(served: ServedMemory, opened: OpenedMemory, session: str, text: str) -> AsyncIterator[str]:
    """Yield the events of the turn that *text* begins; a request in plain words is the one event, and is not done.

    Where the reader goes away, the turn is broken off, and nothing of it is kept; so it is where the server ends, with
    a last event that says so.
    """
    async with served.turn(opened, session) as talk, aclosing(_turn_events(talk, text)) as events:
        ending = asyncio.ensure_future(served.ending.wait())
        try:
            while True:
                coming = asyncio.ensure_future(anext(events, None))
                await asyncio.wait({coming, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                    with suppress(asyncio.CancelledError):
                        await coming
                    yield server_event("failed", {"error": "ServerEnds"})
                    return
                if (event := coming.result()) is None:
                    return
                yield event
        finally:
            ending.cancel()


async def _turn_events(talk: Conversation, text: str) -> AsyncGenerator[str, None]:
    yield server_event("session", {"session": talk.session})
    try:
        if (request := await talk.understand(text)) is not None:
            memories = [_memory(memory) for memory in request.memories]
            shown = {"kind": request.kind, "what": request.what, "text": request.text, "memories": memories}
            yield server_event("plain_request", shown)
            return
        mask = SecretMask(text)
        async with aclosing(talk.answer(text)) as events:
            async for event in events:
                if isinstance(event, TurnEnded):
                    yield server_event("turn_ended", _turn(event))
                    return
                if isinstance(event, ApprovalRequested):
                    event.request.reject(_REFUSED)
                if not isinstance(event, RunEnded):  # its result is told by the turn
                    yield f"event: {event.type}\ndata: {mask.apply(event.to_json())}\n\n"
    except Exception as error:  # the status is sent: the stream has to say it
        _log.error("a turn failed (%s)", type(error).__name__)
        yield server_event("failed", {"error": type(error).__name__})


def _turn(turn: TurnEnded) -> dict[str, Any]:
    result, mask = turn.result, SecretMask(turn.prompt)
    citations = [
        {"number": cited.number, "id": cited.id, "quote": cited.quote, "where": cited.where}
        for cited in result.citations
    ]
    return {
        "text": mask.apply(result.text),
        "ending": result.ending,
        "citations": citations,
        "used": [item.id for item in result.memories],
        "kept": asdict(turn.kept),
        "warnings": list(turn.warnings),
        "error": None if turn.error is None else type(turn.error).__name__,
    }


def _memory(memory: Memory) -> dict[str, Any]:
    return MemoryItem.of(memory).model_dump(mode="json")


def server_event(name: str, value: Mapping[str, Any]) -> str:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(value)}\n\n"
