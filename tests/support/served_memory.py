"""Server of a memory on a real port of this machine, in the loop of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.server.app import create_app
from tellback.agent.assistant.server.open_memory import ServedMemory
from tellback.agent.assistant.wiring import open_configured_memory
from tellback.agent.http_listener import RequestGuard, address_of, listen, serve_application

TOKEN = "a-token-of-the-test"


@asynccontextmanager
async def serving(settings: AssistantSettings) -> AsyncIterator[str]:
    """Yield the address of a server with the memory of *settings*, which asks for ``TOKEN``."""
    memory = ServedMemory(lambda: asyncio.to_thread(open_configured_memory, settings))
    with listen("127.0.0.1", 0) as listening:
        guard = RequestGuard(create_app(memory), "127.0.0.1", TOKEN, {"/v1/": 1_000_000}, open=("/healthz",))
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(serve_application(guard, listening, ended))
        try:
            yield address_of(listening, "127.0.0.1")
        finally:
            ended.set_result(None)
            await task
