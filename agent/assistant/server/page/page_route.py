"""Route of the page: a form must bear its token, and an error is told as a page, or as a note beside what was asked."""

from __future__ import annotations

import hmac
import logging
import math
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import Depends, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from tellback.agent.assistant.server import problems
from tellback.agent.assistant.server.accounts import Account, NotPermitted, memory_of_caller
from tellback.agent.assistant.server.page.browser_sessions import BrowserSession, BrowserSessions
from tellback.agent.assistant.server.page.rendering import PLACE, is_partial, place_query, render
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.memory.internals import redact_secrets

_log = logging.getLogger(__name__)
_SAFE: Final = ("GET", "HEAD")


async def opened_place(
    request: Request, place: Annotated[str | None, Query(alias=PLACE, max_length=512)] = None
) -> OpenedMemory:
    """Return the user's own memory, or what of another namespace is shared with them; to read, or to change it by a
    form."""
    return await _open(request, place, writes=request.method not in _SAFE)


async def read_place(
    request: Request, place: Annotated[str | None, Query(alias=PLACE, max_length=512)] = None
) -> OpenedMemory:
    """Return the memory as ``opened_place`` does, for a form that changes nothing."""
    return await _open(request, place, writes=False)


async def _open(request: Request, place: str | None, *, writes: bool) -> OpenedMemory:
    opened = await memory_of_caller(request, place, writes=writes)
    request.state.opened = opened
    return opened


async def own_memory(opened: Annotated[OpenedMemory, Depends(opened_place)]) -> OpenedMemory:
    """Return the user's own memory: conversations are not shared."""
    if not opened.own:
        raise NotPermitted("conversations are not shared")
    return opened


async def check_owner(request: Request) -> None:
    """Refuse an account that is no owner's."""
    caller: Account = request.state.caller
    caller.check_owner()


Opened = Annotated[OpenedMemory, Depends(opened_place)]
Readable = Annotated[OpenedMemory, Depends(read_place)]
Own = Annotated[OpenedMemory, Depends(own_memory)]


async def check_form_token(request: Request) -> None:
    """Refuse a form of another page: one without the token of this browser's session."""
    if request.method in _SAFE:
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
                _check_rate(request)
                return await handle(request)
            except Exception as error:
                return error_page(request, error)

        return handler


def _check_rate(request: Request) -> None:
    """Refuse a request of an account that sends more of them in a minute than it may."""
    caller: Account | None = getattr(request.state, "caller", None)
    sessions: BrowserSessions = request.app.state.browser_sessions
    if caller is not None and (seconds := sessions.limit.wait(f"caller {caller.name}", caller.requests_per_minute)):
        wait = math.ceil(seconds)
        raise HTTPException(429, f"Too many requests: try again in {wait} seconds.", {"retry-after": str(wait)})


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
    if isinstance(error, HTTPException):
        answer.headers.update(error.headers or {})
    if is_partial(request):
        answer.headers["hx-retarget"], answer.headers["hx-reswap"] = "#notice", "innerHTML"
    return answer


def go_to(opened: OpenedMemory, path: str, **query: str | None) -> RedirectResponse:
    """Return the answer that sends the browser to *path* of this page, in the place *opened*, after a form was sent."""
    words = urlencode({name: value for name, value in query.items() if value} | place_query(opened))
    return RedirectResponse(f"{path}?{words}" if words else path, 303)
