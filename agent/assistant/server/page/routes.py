"""Routes of the page, all of them, and what an application needs to have it."""

from __future__ import annotations

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from starlette.exceptions import HTTPException

from tellback.agent.assistant.server.page import (
    chat,
    conversations,
    documents,
    given,
    health,
    login,
    memories,
    profile,
    settings,
)
from tellback.agent.assistant.server.page.browser_sessions import STATIC, BrowserSessions, SignedInBrowsers
from tellback.agent.assistant.server.page.page_route import PageRoute, check_form_token
from tellback.agent.assistant.server.page.rendering import HEADERS, STATIC_FOLDER

router = APIRouter(include_in_schema=False, route_class=PageRoute)
_STATIC_TYPES = {"page.css": "text/css", "page.js": "text/javascript", "htmx.min.js": "text/javascript",
                 "icon.svg": "image/svg+xml"}  # fmt: skip


def install(app: FastAPI, sessions: BrowserSessions) -> None:
    """Have *app* show the page to the browsers of *sessions*."""
    app.state.browser_sessions = sessions
    app.include_router(router)
    app.include_router(login.router, include_in_schema=False)
    checked = [Depends(check_form_token)]
    for part in (chat, memories, documents, profile, conversations, given, health, settings):
        app.include_router(part.router, include_in_schema=False, dependencies=checked)
    app.add_middleware(SignedInBrowsers, sessions=sessions)


@router.get("/")
async def home(request: Request) -> Response:
    """Lead to the first page."""
    return RedirectResponse("/chat", 303, headers=HEADERS)


@router.get(STATIC + "/{name}")
async def static(name: str) -> Response:
    """Return a file of the page's own; its address changes with its content."""
    if name not in _STATIC_TYPES:
        raise HTTPException(404, "There is no such page.")
    headers = {"cache-control": "public, max-age=31536000, immutable"}
    return FileResponse(STATIC_FOLDER / name, media_type=_STATIC_TYPES[name], headers=headers)
