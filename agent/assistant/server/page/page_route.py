"""Route of the page: a form must bear its token, and an error is told as a page, or as a note beside what was asked."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Coroutine
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import Depends, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from tellback.agent.assistant.server import problems
from tellback.agent.assistant.server.api import opened_memory
from tellback.agent.assistant.server.page.browser_sessions import BrowserSession
from tellback.agent.assistant.server.page.rendering import is_partial, render
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.agent.desk.desk import MemoryDesk
from tellback.memory.internals import redact_secrets

_log = logging.getLogger(__name__)


async def desk(request: Request) -> MemoryDesk:
    """Return the desk of the memory."""
    return (await opened_memory(request)).desk


Opened = Annotated[OpenedMemory, Depends(opened_memory)]
Desk = Annotated[MemoryDesk, Depends(desk)]


async def check_form_token(request: Request) -> None:
    """Refuse a form of another page: one without the token of this browser's session."""
    if request.method in ("GET", "HEAD"):
        return
    session: BrowserSession | None = getattr(request.state, "browser_session", None)
    given = request.headers.get("x-csrf-token") or (await request.form()).get("csrf")
    wanted = "" if session is None else session.form_token
    if not wanted or not isinstance(given, str) or not hmac.compare_digest(given.encode(), wanted.encode()):
        raise HTTPException(403, "This form is of another session: load the page again, then send it once more.")


class PageRoute(APIRoute):
    """Route whose errors are shown to a person."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler with its errors rendered."""
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                return await handle(request)
            except Exception as error:
                return error_page(request, error)

        return handler


def error_page(request: Request, error: Exception) -> Response:
    """Return what is shown for *error*: its own sentence where it has one for people."""
    if isinstance(error, HTTPException):
        status, sentence = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        fields = {str(problem["loc"][-1]): problem["msg"] for problem in error.errors()}
        status, sentence = 422, "; ".join(f"{name}: {reason}" for name, reason in [*fields.items()][:5])
    elif (known := problems.status_of(error)) is not None:
        status, sentence = known, str(error)
    else:
        _log.error("a page failed (%s)", type(error).__name__)
        status, sentence = 500, "The server failed at this; its log says more."
    words, _ = redact_secrets(sentence)
    template = "notice_error.html" if is_partial(request) else "error.html"
    answer = render(request, template, status, sentence=words[:1_000], status_code=status)
    if is_partial(request):
        answer.headers["hx-retarget"], answer.headers["hx-reswap"] = "#notice", "innerHTML"
    return answer


def go_to(path: str, **query: str | None) -> RedirectResponse:
    """Return the answer that sends the browser to *path* of this page after a form was sent."""
    words = urlencode({name: value for name, value in query.items() if value})
    return RedirectResponse(f"{path}?{words}" if words else path, 303)
