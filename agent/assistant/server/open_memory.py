"""Memory that a server has open: opened at the first request, with the conversations that are held over it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tellback.agent.assistant.conversation.conversation import Conversation
    from tellback.agent.assistant.wiring import Assistant, OpenedMemory

_CONVERSATIONS: Final = 100
"""Conversations whose state is kept; an older one goes on from its history alone."""


class ServedMemory:
    """Memory that *open_memory* opens once, and the assistant around it; any task of one event loop may call."""

    def __init__(self, open_memory: Callable[[], Awaitable[OpenedMemory]]) -> None:
        self._open = open_memory
        self._opening: asyncio.Future[OpenedMemory] | None = None
        self._assistant: asyncio.Future[Assistant] | None = None
        self._talks: OrderedDict[str, Conversation] = OrderedDict()

    async def opened(self) -> OpenedMemory:
        """Return the open memory; where opening failed, the next call tries again."""
        if self._opening is None or _failed(self._opening):
            self._opening = asyncio.ensure_future(self._open())
        return await asyncio.shield(self._opening)

    async def talk(self, session: str) -> Conversation:
        """Return the conversation of *session*; "" begins one."""
        from tellback.agent.assistant.conversation.conversation import Conversation
        from tellback.agent.configuration import new_session_id

        if self._assistant is None or _failed(self._assistant):
            self._assistant = asyncio.ensure_future(self._make_assistant())
        assistant, session = await asyncio.shield(self._assistant), session or new_session_id()
        talk = self._talks.pop(session, None) or Conversation(assistant, session, lambda announcement: None)
        self._talks[session] = talk
        while len(self._talks) > _CONVERSATIONS:
            await _end(self._talks.popitem(last=False)[1])
        return talk

    async def _make_assistant(self) -> Assistant:
        from tellback.agent.assistant.wiring import assistant_around

        assistant = assistant_around(await self.opened())
        await assistant.start()
        return assistant

    async def close(self) -> None:
        """End what works beside conversations, and release the model and the memory."""
        for talk in self._talks.values():
            await _end(talk)
        if self._assistant is not None:
            await asyncio.wait({self._assistant})
            if not _failed(self._assistant):
                await self._assistant.result().agent.aclose()
        if self._opening is not None:
            await asyncio.wait({self._opening})
            if not _failed(self._opening):
                await self._opening.result().close()


def _failed(work: asyncio.Future[Assistant] | asyncio.Future[OpenedMemory]) -> bool:
    return work.done() and (work.cancelled() or work.exception() is not None)


async def _end(talk: Conversation) -> None:
    if talk.worker is not None:
        await asyncio.to_thread(talk.worker.close, patience=0)
