"""Care of a memory by HTTP: export and import of a namespace as streams; of the owner, backups, users and metrics."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import asdict
from pathlib import Path
from typing import IO, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request, Response, UploadFile
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from tellback.agent.assistant.server.accounts import Account, Accounts
from tellback.agent.assistant.server.api import OpenedParameter, ReadOnly
from tellback.agent.assistant.server.open_memory import ServedMemory
from tellback.agent.assistant.server.resident import resident_bytes
from tellback.agent.assistant.wiring import OpenedMemory

router = APIRouter()
_CHUNK = 65_536


class ImportAnswer(BaseModel):
    """Outcome of an import: what was *taken* and *left* by type, and of memories and passages how many ended how."""

    outcomes: dict[str, int]
    taken: dict[str, int]
    left: dict[str, int]
    trusted: bool
    operation: str | None
    notes: list[str]


class UserItem(BaseModel):
    """User of the server; no token."""

    name: str
    role: str
    namespace: str
    shares: dict[str, str]
    quota: dict[str, int | None]


class BackupItem(BaseModel):
    """Backup beside the memory, on the machine of the server."""

    name: str
    at: str
    bytes: int


async def _owner(request: Request) -> OpenedMemory:
    """Return the memory as its owner sees it; others are refused."""
    account: Account = request.state.caller
    account.check_owner()
    served: ServedMemory = request.app.state.served
    return await served.opened()


Owner = Annotated[OpenedMemory, Depends(_owner)]


@router.get("/export", response_class=StreamingResponse)
async def export(opened: ReadOnly, vectors: bool = True) -> StreamingResponse:
    """Export the namespace as JSON Lines: a stream of one state, with a line at its end that proves it whole."""
    file = await asyncio.to_thread(tempfile.TemporaryFile)
    try:
        where = opened.desk.visible()
        await opened.memory.export(file, namespace=opened.namespace, vectors=vectors, where=where)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return StreamingResponse(_chunks(file), media_type="application/jsonl")


async def _chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    with file:
        while chunk := await asyncio.to_thread(file.read, _CHUNK):
            yield chunk


@router.post("/import")
async def import_export(
    opened: OpenedParameter, file: UploadFile, mode: Literal["merge", "upsert"] = "merge", dry_run: bool = False
) -> ImportAnswer:
    """Import an export (multipart, field ``file``); again is harmless. What was forgotten here stays forgotten."""
    with tempfile.TemporaryDirectory() as folder:
        path, lines = Path(folder, "export.jsonl"), 0
        with path.open("wb") as copy:  # noqa: ASYNC230 - it is written in a thread
            while chunk := await file.read(_CHUNK):
                await asyncio.to_thread(copy.write, chunk)
                lines += chunk.count(b"\n")
        async with opened.desk.taking(memories=lines, bytes=file.size or 0):
            report = await opened.memory.import_(path, mode=mode, dry_run=dry_run, namespace=opened.namespace)
    return ImportAnswer(
        outcomes=Counter(str(line.outcome) for line in report.lines),
        taken=dict(report.taken),
        left=dict(report.left),
        trusted=report.trusted,
        operation=report.operation,
        notes=list(report.notes),
    )


@router.post("/backup")
async def backup(opened: Owner) -> BackupItem:
    """Make a backup of the whole file beside it, of the owner alone."""
    made = await opened.memory.backup()
    return BackupItem(name=made.path.name, at=made.at.isoformat(), bytes=made.bytes)


@router.get("/backups")
async def backups(opened: Owner) -> list[BackupItem]:
    """List the backups that are known."""
    known = await opened.memory.backups()
    return [BackupItem(name=one.path.name, at=one.at.isoformat(), bytes=one.bytes) for one in known]


@router.get("/users")
async def users(request: Request, opened: Owner) -> list[UserItem]:
    """List the users; `tellback config users` changes them."""
    accounts: Accounts = request.app.state.accounts
    return [
        UserItem(
            name=user.name, role=user.role, namespace=user.namespace, shares=dict(shares), quota=asdict(user.quota)
        )
        for user, shares in await accounts.list()
    ]


class Metrics:
    """Counters of the requests of a server, told by its guard, as Prometheus reads them."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: Counter[tuple[str, str]] = Counter()

    def __call__(self, scope: MutableMapping[str, Any], status: int, seconds: float) -> None:
        """Count a request that has ended."""
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in ("GET", "POST", "PUT", "DELETE", "HEAD") else "other"
        self._requests[route, method, status] += 1
        self._seconds[route, method] += seconds  # type: ignore[assignment]  # a counter of floats counts as well

    def text(self, **gauges: float) -> str:
        """Return all in the text format, with *gauges*."""
        lines = ["# TYPE tellback_requests_total counter"]
        for (route, method, status), count in sorted(self._requests.items()):
            lines.append(f'tellback_requests_total{{route="{route}",method="{method}",status="{status}"}} {count}')
        lines.append("# TYPE tellback_request_seconds_total counter")
        for (route, method), seconds in sorted(self._seconds.items()):
            lines.append(f'tellback_request_seconds_total{{route="{route}",method="{method}"}} {seconds:.6f}')
        for name, value in gauges.items():
            lines += [f"# TYPE tellback_{name} gauge", f"tellback_{name} {value}"]
        return "\n".join(lines) + "\n"


async def metrics(request: Request, opened: Owner) -> Response:
    """Tell what Prometheus asks for, of the owner alone: requests, and the memory as a whole."""
    counted: Metrics = request.app.state.metrics
    namespaces = await opened.memory.namespaces()
    text = counted.text(
        memories=sum(namespaces.values()),
        namespaces=len(namespaces),
        pending_vectors=await opened.memory.pending(),
        resident_bytes=resident_bytes(),
    )
    return Response(text, media_type="text/plain; version=0.0.4")


async def ready(request: Request) -> dict[str, str]:
    """Say that the memory is open and can be read; else the answer is a problem."""
    served: ServedMemory = request.app.state.served
    await (await served.opened()).memory.get(["0"])
    return {"status": "ready"}
