"""Care of a memory by HTTP: export and import of a namespace as streams; of the owner, backups, users and metrics."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, BackgroundTasks, Depends, HTTPException, Request, Response, UploadFile
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel, Field

from tellback.agent.assistant.server.accounts import OWNER, Account, Accounts, NoSuchNamespace, check_server_token
from tellback.agent.assistant.server.api import OpenedParameter, ReadOnly
from tellback.agent.assistant.server.open_memory import ServedMemory
from tellback.agent.assistant.server.resident import resident_bytes
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.memory import read_receipt
from tellback.memory.internals import BackupFile
from tellback.vectorstore import UnsupportedError
from tellback.vectorstore.sqlite import backup_damage

if TYPE_CHECKING:
    from tellback.agent.assistant.server.restarts import Restarts

router = APIRouter()
_CHUNK = 65_536
_MOST_CHANGES: Final = 1_000
"""Changes since a backup that are counted."""


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


class RestoreBody(BaseModel):
    """Confirmation of a restore, by the token that the first call has answered."""

    confirm: Annotated[str | None, Field(max_length=100)] = None


class Restoring(BackupItem):
    """Restore of a backup: begun (*done*), or what it is and the token that confirms it.

    *damage* is what is wrong with the file. *changes* were made since in the owner's namespace, *forgettings* of which
    would be undone.
    """

    done: bool
    confirm: str | None = None
    damage: str
    changes: int
    forgettings: int


class VerifyBody(BaseModel):
    """Receipt of a forgetting, and the words that were forgotten."""

    receipt: dict[str, Any]
    texts: Annotated[list[Annotated[str, Field(max_length=100_000)]], Field(max_length=100)] = []


class Verification(BaseModel):
    """Verification of a forgetting: *gone*, or what is *left*, and how many *rows* and *files* were looked through."""

    gone: bool
    left: list[dict[str, str]]
    rows: int
    files: int
    notes: list[str]


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Plan to put *backup* back: what is wrong with it (*damage*), and how many *changes* were made since in the
    owner's namespace, *forgettings* among them. The token *confirm* stands for it as it is, and *is_confirmed* if one
    was given.
    """

    backup: BackupFile
    damage: str
    changes: int
    forgettings: int
    confirm: str
    is_confirmed: bool

    def shown(self) -> dict[str, Any]:
        """Return what is told of it."""
        counts = {"damage": self.damage, "changes": self.changes, "forgettings": self.forgettings}
        at = self.backup.at.isoformat()
        return {"name": self.backup.path.name, "at": at, "bytes": self.backup.bytes, **counts}


async def plan_restore(opened: OpenedMemory, name: str, token: str = "") -> RestorePlan:
    """Return the plan to put the backup *name* back, which a *token* may confirm; the backup is read whole."""
    backup = await known_backup(opened, name)
    damage = await asyncio.to_thread(backup_damage, backup.path)
    newer = [one for one in await opened.desk.operations(limit=_MOST_CHANGES) if one.at > backup.at]
    forgettings = sum(one.kind == "forget" for one in newer)
    subject = (str(backup.path), str(backup.bytes), backup.at.isoformat(), *(one.id for one in newer[:1]))
    tokens = opened.desk.tokens
    is_confirmed = tokens.is_valid(token, "restore", subject)
    return RestorePlan(backup, damage, len(newer), forgettings, tokens.issue("restore", subject), is_confirmed)


async def known_backup(opened: OpenedMemory, name: str) -> BackupFile:
    """Return the backup of that file name, those beside the memory first; any other name is refused."""
    for backup in await known_backups(opened):
        if backup.path.name == name and backup.bytes:
            return backup
    raise HTTPException(404, "there is no such backup")


async def known_backups(opened: OpenedMemory) -> Sequence[BackupFile]:
    """Return the backups that the memory knows of."""
    try:
        return await opened.memory.backups()
    except UnsupportedError:  # a memory in no file has none of its own
        return ()


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


@router.get("/backups/{name}", response_class=FileResponse)
async def download(request: Request, opened: Owner, name: str) -> FileResponse:
    """Send a backup as it is, with the memories of everybody in it: it needs the token of the server."""
    check_server_token(request)
    return await backup_file(opened, name)


async def backup_file(opened: OpenedMemory, name: str) -> FileResponse:
    """Return the backup *name* as an answer."""
    backup = await known_backup(opened, name)
    headers = {"cache-control": "no-store"}
    return FileResponse(backup.path, filename=backup.path.name, media_type="application/octet-stream", headers=headers)


@router.post("/backups/{name}/restore", status_code=202)
async def restore(request: Request, opened: Owner, name: str, body: RestoreBody, tasks: BackgroundTasks) -> Restoring:
    """Put a backup in the place of the memory, in two calls: what it is, then with the token that came with it.

    It needs the token of the server, which ends, does it, and serves again; `/health` of the page says how it went.
    """
    check_server_token(request)
    plan = await plan_restore(opened, name, body.confirm or "")
    if not plan.is_confirmed:
        return Restoring(done=False, confirm=plan.confirm, **plan.shown())
    begin_restore(request, plan, tasks)
    return Restoring(done=True, **plan.shown())


def begin_restore(request: Request, plan: RestorePlan, tasks: BackgroundTasks) -> None:
    """Have the server put back the backup of *plan* once its answer is sent; ``HTTPException`` where it cannot."""
    restarts: Restarts | None = request.app.state.restarts
    if restarts is None:
        raise HTTPException(409, "this server cannot put it back; `tellback restore` does, when it has ended")
    if plan.damage:
        raise HTTPException(409, f"the backup is damaged: {plan.damage}")
    tasks.add_task(restarts.restore, plan.backup.path)


@router.post("/forget/verify")
async def verify(request: Request, opened: OpenedParameter, body: VerifyBody) -> Verification:
    """Verify that what a receipt of a forgetting names is gone: from each table, free pages and the log.

    Its words (*texts*) are searched for in the bytes of the files where the token of the server is given. The copies
    elsewhere that the receipt names are those alone that are known here.
    """
    receipt = read_receipt(json.dumps(body.receipt))
    if receipt.namespace != opened.namespace:
        raise NoSuchNamespace
    account: Account = request.state.caller
    if body.texts:
        account.check_server_token()
    known = set() if account.name != OWNER else {str(one.path) for one in await known_backups(opened)}
    receipt = replace(receipt, unreached=tuple(copy for copy in receipt.unreached if copy.path in known))
    found = await opened.memory.verify_forgotten(receipt, body.texts)
    # Files are those of everybody: a user is told how many of them say what.
    left = [{"where": one.where if account.name == OWNER or "/" not in one.where else "a file", "what": one.what}
            for one in found.left]  # fmt: skip
    return Verification(gone=found.gone, left=left, rows=found.rows, files=len(found.files), notes=list(found.notes))


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
