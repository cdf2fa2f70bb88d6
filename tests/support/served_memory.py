"""Server of a memory on a real port of this machine, in the loop of a test, with the token of its owner.

Inner parts, on no face: ``tellback.agent.http_listener``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.server.accounts import Accounts
from tellback.agent.assistant.server.app import OPEN_PATHS, create_app
from tellback.agent.assistant.server.open_memory import ServedMemory
from tellback.agent.assistant.wiring import open_configured_memory
from tellback.agent.http_listener import RequestGuard, address_of, host_names, listen, serve_application

TOKEN: Final = "a-token-of-the-test"
BEARER: Final = {"Authorization": f"Bearer {TOKEN}"}
API: Final = "/api/v1"
_LIMITS: Final = {f"{API}/documents": 100_000, f"{API}/import": 1_000_000, "/v1/": 1_000_000}


@asynccontextmanager
async def serving(settings: AssistantSettings) -> AsyncIterator[str]:
    """Yield the address of a server with the memory of *settings*, which asks for ``TOKEN``."""
    memory = ServedMemory(lambda: asyncio.to_thread(open_configured_memory, settings))
    accounts = Accounts(TOKEN, memory.opened, namespace=settings.namespace)
    with listen("127.0.0.1", 0) as listening:
        app = create_app(memory, accounts)
        guard = RequestGuard(
            application=app,
            on_end=app.state.metrics,
            callers=accounts,
            names=host_names("127.0.0.1"),
            body_limits=_LIMITS,
            open=OPEN_PATHS,
        )
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ended.add_done_callback(lambda _: memory.ending.set())
        task = asyncio.create_task(serve_application(guard, listening, ended))
        try:
            yield address_of(listening, "127.0.0.1")
        finally:
            ended.set_result(None)
            await task


@asynccontextmanager
async def served(path: Path | str, namespace: str = "", **more: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client, with the owner's token, of a server over the memory at *path*; *more* are settings."""
    settings = AssistantSettings(memory=path, embedder="none", namespace=namespace, **more)
    async with (  # without certificates, since reading them takes a client tens of milliseconds
        serving(settings) as address,
        httpx.AsyncClient(base_url=address, headers=BEARER, trust_env=False, verify=False, timeout=60) as client,
    ):
        assert (await client.get("/healthz")).status_code == 200
        yield client
