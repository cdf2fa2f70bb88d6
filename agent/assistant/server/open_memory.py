"""Memory that a server has open: opened at the first request, with the conversations that are held over it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeAlias

from tellback.agent.assistant.server.turns import held_turn

if TYPE_CHECKING:
    from tellback.agent.assistant.conversation.conversation import Conversation
    from tellback.agent.assistant.wiring import Assistant, OpenedMemory

_CONVERSATIONS: Final = 100
"""Conversations whose state is kept; an older one goes on from its history alone."""
_Place: TypeAlias = tuple[int, str]
"""Memory as one account signs it, which lives as long as the server, and namespace."""


class ServedMemory:
    """Memory that *open_memory* opens once, and the assistants around it; any task of one event loop may call.

    What an account may see of it is ``Accounts.memory_of``. *ending* is set when the server is to end: what streams
    says so to its reader.
    """

    def __init__(self, open_memory: Callable[[], Awaitable[OpenedMemory]]) -> None:
        self.ending = asyncio.Event()
        self._open = open_memory
        self._opening: asyncio.Future[OpenedMemory] | None = None
        self._opened = asyncio.Event()
        self._assistants: dict[_Place, asyncio.Future[Assistant]] = {}
        self._talks: OrderedDict[tuple[_Place, str], tuple[Conversation, asyncio.Lock]] = OrderedDict()

    async def opened(self) -> OpenedMemory:
        """Return the open memory, as its owner sees it; where opening failed, the next call tries again."""
        if self._opening is None or _failed(self._opening):
            self._opening = asyncio.ensure_future(self._open())
        opened = await asyncio.shield(self._opening)
        self._opened.set()
        return opened

    async def present(self) -> OpenedMemory:
        """Return the open memory once somebody has opened it."""
        await self._opened.wait()
        return await self.opened()

    async def assistant(self, opened: OpenedMemory) -> Assistant:
        """Return the assistant around *opened*; where it could not be made, the next call tries again."""
        place = _place(opened)
        known = self._assistants.get(place)
        if known is None or _failed(known):
            known = self._assistants[place] = asyncio.ensure_future(_make_assistant(opened))
        return await asyncio.shield(known)

    @asynccontextmanager
    async def turn(self, opened: OpenedMemory, session: str) -> AsyncIterator[Conversation]:
        """Yield the conversation of *session* for one turn, after those that were asked for before; "" begins one."""
        from tellback.agent.assistant.conversation.conversation import Conversation
        from tellback.agent.configuration import new_session_id

        assistant, session = await self.assistant(opened), session or new_session_id()
        name = _place(opened), session
        if (known := self._talks.pop(name, None)) is None:
            known = Conversation(assistant, session, lambda announcement: None), asyncio.Lock()
        self._talks[name] = talk, lock = known
        while len(self._talks) > _CONVERSATIONS:
            await _end(self._talks.popitem(last=False)[1][0])
        async with lock, held_turn(assistant.opened, session):
            yield talk

    async def close(self) -> None:
        """End what works beside conversations, and release the model and the memory."""
        for talk, _ in self._talks.values():
            await _end(talk)
        for assistant in self._assistants.values():
            await asyncio.wait({assistant})
            if not _failed(assistant):
                await assistant.result().agent.aclose()
        if self._opening is not None:
            await asyncio.wait({self._opening})
            if not _failed(self._opening):
                await self._opening.result().close()


def _place(opened: OpenedMemory) -> _Place:
    return id(opened.memory), opened.namespace


async def _make_assistant(opened: OpenedMemory) -> Assistant:
    from tellback.agent.assistant.wiring import assistant_around

    assistant = assistant_around(opened)
    await assistant.start()
    return assistant


def _failed(work: asyncio.Future[Assistant] | asyncio.Future[OpenedMemory]) -> bool:
    return work.done() and (work.cancelled() or work.exception() is not None)


async def _end(talk: Conversation) -> None:
    if talk.worker is not None:
        await asyncio.to_thread(talk.worker.close, patience=0)
