"""Errors of the HTTP API: problem details (RFC 9457) with the library's own names and texts."""

from __future__ import annotations

import logging
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tellback.agent.assistant.server.accounts import NoSuchNamespace, NotPermitted, QuotaExceeded
from tellback.agent.errors import AgentError, ToolFailed
from tellback.memory import (
    ArgumentError,
    CannotUndo,
    DuplicateKey,
    EmbedderError,
    LoadError,
    MemoryLayerError,
    NoSuchMemory,
    NotTrusted,
    RejectedText,
    UnreadableExport,
)
from tellback.memory.internals import redact_secrets
from tellback.vectorstore import BusyError, MissingExtra, RevisionConflict, StorageFull, VectorStoreError

_log = logging.getLogger(__name__)
_STATUSES: Final[tuple[tuple[type[Exception], int], ...]] = (
    (NoSuchMemory, 404),
    (NoSuchNamespace, 404),
    (NotPermitted, 403),
    (QuotaExceeded, 507),
    (NotTrusted, 403),
    (RevisionConflict, 412),
    (CannotUndo, 409),
    (DuplicateKey, 409),
    (RejectedText, 422),
    (ArgumentError, 422),
    (LoadError, 422),
    (UnreadableExport, 422),
    (ToolFailed, 422),
    (MissingExtra, 501),
    (BusyError, 503),
    (StorageFull, 507),
    (EmbedderError, 502),
    (MemoryLayerError, 500),
    (VectorStoreError, 500),
    (AgentError, 502),
)
"""Status of the first class in this list that an error is of."""


def problem(status: int, code: str, detail: str) -> JSONResponse:
    """Return the answer about a problem: *code* is the name of the error, *detail* its text without secrets."""
    words, _ = redact_secrets(detail)
    body = {"type": "about:blank", "title": code, "status": status, "detail": words}
    return JSONResponse(body, status, media_type="application/problem+json")


def status_of(error: Exception) -> int | None:
    """Return the status that names *error*; None for one that is none of the library's."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), None)


def install(app: FastAPI) -> None:
    """Have *app* answer errors as problems; an unforeseen one is logged, and named by its class alone."""

    async def known(request: Request, error: Exception) -> JSONResponse:
        status = status_of(error)
        assert status is not None  # the handler is that of the three families
        return problem(status, type(error).__name__, str(error))

    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)  # Starlette's, of which FastAPI's is one
        return problem(error.status_code, "HTTPError", str(error.detail))

    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)
        # The place and the reason alone: what was sent may be a secret.
        reasons = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        return problem(422, "ArgumentError", "; ".join(reasons[:10]))

    async def unforeseen(request: Request, error: Exception) -> JSONResponse:
        _log.error("a request failed (%s)", type(error).__name__)
        return problem(500, type(error).__name__, "the server failed at this; its log says more")

    for kind in (MemoryLayerError, VectorStoreError, AgentError):
        app.add_exception_handler(kind, known)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(Exception, unforeseen)
