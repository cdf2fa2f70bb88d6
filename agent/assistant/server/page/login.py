"""Signing in: by a link that works once, by the server's token or a user's; and out."""

from __future__ import annotations

import math
from typing import Annotated

from fastapi import APIRouter, Depends, Form, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from tellback.agent.assistant.server.page.browser_sessions import (
    SESSION_SECONDS,
    SIGN_IN,
    BrowserSession,
    BrowserSessions,
    cookie_name,
)
from tellback.agent.assistant.server.page.page_route import PageRoute, check_form_token
from tellback.agent.assistant.server.page.rendering import HEADERS, render

router = APIRouter(route_class=PageRoute)


@router.get(SIGN_IN)
async def login(request: Request, word: str = "", expired: str = "") -> Response:
    """Sign the browser in by a link, or ask for a token."""
    if word:
        return await _signed_in(request, word)
    if getattr(request.state, "browser_session", None) is not None:
        return RedirectResponse("/", 303)
    return render(request, "login.html", failed=False, expired=bool(expired))


@router.post(SIGN_IN)
async def login_by_token(request: Request, token: Annotated[str, Form(max_length=2_000)]) -> Response:
    """Sign the browser in by the token of the server or of a user, or by a link that works once."""
    return await _signed_in(request, token)


async def _signed_in(request: Request, word: str) -> Response:
    sessions: BrowserSessions = request.app.state.browser_sessions
    client = "" if request.client is None else request.client.host
    if seconds := sessions.seconds_to_wait(client):
        wait = math.ceil(seconds)
        raise HTTPException(429, f"Too many attempts: try again in {wait} seconds.", {"retry-after": str(wait)})
    cookie = await sessions.sign_in(request.app.state.accounts, word)
    if cookie is None:
        return render(request, "login.html", 403, failed=True, expired=False)
    # A page that goes on by itself, and no redirect: from a link in another program, a browser does not send the
    # cookie, which is for this site alone, along with it.
    answer = render(request, "signed_in.html")
    answer.headers["refresh"] = "0; url=/"
    secure = request.url.scheme == "https"
    answer.set_cookie(
        cookie_name(request.scope), cookie, max_age=SESSION_SECONDS, httponly=True, samesite="strict", secure=secure
    )
    return answer


@router.post("/logout", dependencies=[Depends(check_form_token)])
async def logout(request: Request) -> Response:
    """Sign the browser out."""
    sessions: BrowserSessions = request.app.state.browser_sessions
    session: BrowserSession = request.state.browser_session
    await sessions.end(request.app.state.accounts, session)
    answer = RedirectResponse(SIGN_IN, 303, headers=HEADERS)
    answer.delete_cookie(cookie_name(request.scope), httponly=True, samesite="strict")
    return answer
