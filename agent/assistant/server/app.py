"""Application of the server: a plain factory, so that a page or a test takes it as it is.

Who may call is checked before it, by a ``RequestGuard``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import Final

from fastapi import FastAPI

from tellback.agent.assistant.server import problems
from tellback.agent.assistant.server.api import opened_memory, router
from tellback.agent.assistant.server.open_memory import ServedMemory
from tellback.agent.assistant.server.proxy.endpoints import ModelEndpoints

API: Final = "/api/v1"


def create_app(served: ServedMemory, *, host: str = "127.0.0.1", version: str = "0", workers: int = 1) -> FastAPI:
    """Return the application over the memory that is *served*: the API under ``/api/v1``, the configured model with
    this memory under ``/v1``, and MCP under ``/mcp``.

    It closes the memory when it ends. Where there are several *workers*, none keeps sessions of MCP for itself.
    ``app.state.served`` has the desk, the documents and the conversations.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            async with _mcp(app, served, host, stateless=workers > 1):
                yield
        finally:
            await served.close()

    app = FastAPI(
        title="Tellback",
        version=version,
        summary="The memory of one user: kept, found again with its source, corrected and forgotten.",
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{API}/openapi.json",
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.served = served
    problems.install(app)
    app.include_router(router, prefix=API)
    app.include_router(ModelEndpoints(opened_memory).router)
    app.add_api_route("/healthz", _healthz, include_in_schema=False)
    return app


async def _healthz() -> dict[str, str]:
    return {"status": "ok"}


@asynccontextmanager
async def _mcp(app: FastAPI, served: ServedMemory, host: str, *, stateless: bool) -> AsyncIterator[None]:
    """Have *app* answer MCP clients, where the extra is installed."""
    if find_spec("mcp") is None:
        yield
        return
    from tellback.agent.assistant.wiring import make_memory_server_of
    from tellback.agent.mcp.transports import mcp_application

    application = mcp_application(make_memory_server_of(served.opened), host=host, stateless=stateless)
    app.router.routes.extend(application.routes)
    async with application.router.lifespan_context(application):
        yield
