"""Application of the server: a plain factory, so that a page or a test takes it as it is.

Who may call is checked before it, by a ``RequestGuard``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tellback.agent.assistant.server import care, jobs, problems
from tellback.agent.assistant.server.accounts import Accounts, memory_of_caller
from tellback.agent.assistant.server.api import router
from tellback.agent.assistant.server.api_reference import HEADERS, STYLE, reference_page
from tellback.agent.assistant.server.jobs import BackgroundJobs
from tellback.agent.assistant.server.open_memory import ServedMemory
from tellback.agent.assistant.server.proxy.endpoints import ModelEndpoints

if TYPE_CHECKING:
    from tellback.agent.assistant.server.restarts import Restarts
    from tellback.agent.assistant.wiring import OpenedMemory

API: Final = "/api/v1"
REFERENCE: Final = "/api/docs"
OPEN_PATHS: Final = ("/healthz", "/readyz", REFERENCE, f"{REFERENCE}.css")
"""Paths that need no token: they tell nothing of what is remembered."""


def create_app(
    served: ServedMemory,
    accounts: Accounts,
    *,
    version: str = "0",
    workers: int = 1,
    restarts: Restarts | None = None,
) -> FastAPI:
    """Return the application over the memory that is *served*: the API under ``/api/v1``, the configured model with
    this memory under ``/v1``, and MCP under ``/mcp``.

    It closes the memory when it ends. Where there are several *workers*, none keeps sessions of MCP for itself.
    ``app.state.served`` has the conversations, and ``app.state.accounts`` what each caller (``request.state.caller``)
    may see. Where the server can be started anew, *restarts* does it, for a backup to be put back.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            async with _mcp(app, accounts, stateless=workers > 1), app.state.jobs.working():
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
    app.state.served, app.state.accounts, app.state.restarts = served, accounts, restarts
    app.state.jobs = BackgroundJobs(served)
    problems.install(app)
    app.include_router(router, prefix=API)
    app.include_router(jobs.router, prefix=API)
    app.include_router(ModelEndpoints(memory_of_caller).router)
    app.include_router(care.router, prefix=API)
    app.state.metrics = care.Metrics()
    app.add_api_route("/healthz", _healthz, include_in_schema=False)
    app.add_api_route("/readyz", care.ready, include_in_schema=False)
    app.add_api_route("/metrics", care.metrics, include_in_schema=False)
    app.add_api_route(REFERENCE, _reference, include_in_schema=False)
    app.add_api_route(f"{REFERENCE}.css", _style, include_in_schema=False)
    return app


async def _reference(request: Request) -> HTMLResponse:
    return HTMLResponse(reference_page(request.app.openapi()), headers=HEADERS)


async def _style() -> Response:
    return Response(STYLE, media_type="text/css")


async def _healthz() -> dict[str, str]:
    return {"status": "ok"}


@asynccontextmanager
async def _mcp(app: FastAPI, accounts: Accounts, *, stateless: bool) -> AsyncIterator[None]:
    """Have *app* answer MCP clients, where the extra is installed."""
    if find_spec("mcp") is None:
        yield
        return
    from tellback.agent.assistant.wiring import make_memory_server_of
    from tellback.agent.mcp.transports import MCP_PATH, mcp_application

    async def opened(context: Any) -> OpenedMemory:
        return await accounts.memory_of(context.request.state.caller, writes=False)

    application = mcp_application(make_memory_server_of(opened), stateless=stateless)
    app.router.routes.append(Route(MCP_PATH, _SessionOwner(application), include_in_schema=False))
    async with application.router.lifespan_context(application):
        yield


class _SessionOwner:
    """Application that binds the sessions of *application* to the caller who began them, as the SDK knows callers."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
        from mcp.server.auth.provider import AccessToken

        name = scope["state"]["caller"].name
        user = AuthenticatedUser(AccessToken(token="", client_id=f"account {name}", scopes=[]))
        await self._application({**scope, "user": user}, receive, send)
