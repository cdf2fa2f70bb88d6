"""Memory that a server has open: opened at the first request, with the conversations that are held over it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from tellback.agent.assistant.server.turns import held_turn

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
        self._talks: OrderedDict[str, tuple[Conversation, asyncio.Lock]] = OrderedDict()

    async def opened(self) -> OpenedMemory:
        """Return the open memory; where opening failed, the next call tries again."""
        if self._opening is None or _failed(self._opening):
            self._opening = asyncio.ensure_future(self._open())
        return await asyncio.shield(self._opening)

    async def assistant(self) -> Assistant:
        """Return the assistant around the memory; where it could not be made, the next call tries again."""
        if self._assistant is None or _failed(self._assistant):
            self._assistant = asyncio.ensure_future(self._make_assistant())
        return await asyncio.shield(self._assistant)

    @asynccontextmanager
    async def turn(self, session: str) -> AsyncIterator[Conversation]:
        """Yield the conversation of *session* for one turn, after those that were asked for before; "" begins one."""
        from tellback.agent.assistant.conversation.conversation import Conversation
        from tellback.agent.configuration import new_session_id

        assistant, session = await self.assistant(), session or new_session_id()
        if (known := self._talks.pop(session, None)) is None:
            known = Conversation(assistant, session, lambda announcement: None), asyncio.Lock()
        self._talks[session] = talk, lock = known
        while len(self._talks) > _CONVERSATIONS:
            await _end(self._talks.popitem(last=False)[1][0])
        async with lock, held_turn(assistant.opened, session):
            yield talk

    async def _make_assistant(self) -> Assistant:
        from tellback.agent.assistant.wiring import assistant_around

        assistant = assistant_around(await self.opened())
        await assistant.start()
        return assistant

    async def close(self) -> None:
        """End what works beside conversations, and release the model and the memory."""
        for talk, _ in self._talks.values():
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
