"""Health of a memory, for the owner of the server: findings, clients, users, and backups, which are put back here."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, BackgroundTasks, Depends, Form, HTTPException, Request, Response

from tellback.agent.assistant.clients.registry import CLIENTS, HOOK_CLIENTS
from tellback.agent.assistant.config import ENVIRONMENT_VARIABLES, AssistantSettings
from tellback.agent.assistant.hooks.health import hook_health
from tellback.agent.assistant.hooks.run_log import read_runs
from tellback.agent.assistant.own_process import COMMAND_LINE, own_command, own_environment
from tellback.agent.assistant.server.accounts import Accounts, check_server_token
from tellback.agent.assistant.server.care import backup_file, begin_restore, known_backups, plan_restore
from tellback.agent.assistant.server.page.browser_sessions import SIGN_IN, BrowserSessions
from tellback.agent.assistant.server.page.page_route import Own, PageRoute, check_owner, go_to
from tellback.agent.assistant.server.page.rendering import render
from tellback.agent.assistant.synced_folder import SYNCED_REMEDY, synced_warning
from tellback.agent.assistant.wiring import OpenedMemory

if TYPE_CHECKING:
    from tellback.agent.assistant.server.restarts import Restarts

router = APIRouter(route_class=PageRoute, dependencies=[Depends(check_owner)])
_LEAST_FREE_BYTES: Final = 100_000_000
_CHECKED_SETTINGS: Final = ("namespace", "embedder", "offline")
_SECONDS_TO_CHECK: Final = 240
Word = Annotated[str, Form(max_length=200)]


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding on the health of the memory: *fine*, or not, and then the *remedy*."""

    name: str
    seen: str
    fine: bool = True
    remedy: str = ""


@router.get("/health")
async def health(request: Request, opened: Own) -> Response:
    """Show how the memory is."""
    return await _show(request, opened)


@router.get("/health/state")
async def state(request: Request, opened: Own) -> Response:
    """Show what is counted and found: every entry is looked at for it, so it comes after the page."""
    stats = await opened.memory.stats(namespace=opened.namespace)
    return render(request, "health_state.html", stats=stats, findings=await _findings(opened))


@router.post("/health/check")
async def check(request: Request, opened: Own) -> Response:
    """Check everything, as ``tellback doctor`` does, in a process of its own: it reads every row."""
    return await _show(request, opened, checks=await _doctor(opened.settings))


async def _doctor(settings: AssistantSettings) -> list[Finding]:
    place = settings.memory if settings.file is None else settings.file.absolute()
    given = {ENVIRONMENT_VARIABLES[name]: str(getattr(settings, name)) for name in _CHECKED_SETTINGS}
    process = await asyncio.create_subprocess_exec(
        *own_command(COMMAND_LINE, "doctor", "--json"),
        env=own_environment(**given, **{ENVIRONMENT_VARIABLES["memory"]: str(place)}),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_SECONDS_TO_CHECK):
            told, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    try:
        checks = json.loads(told)["checks"]
    except (ValueError, KeyError):
        raise HTTPException(500, "The check failed; tellback doctor on the machine of the server says more.") from None
    return [Finding(one["name"], one["seen"], one["fine"], one["remedy"]) for one in checks]


@router.post("/health/backup")
async def backup(opened: Own) -> Response:
    """Make a backup beside the memory."""
    copy = await opened.memory.backup()
    return go_to(opened, "/health", made=copy.path.name)


_Server = Depends(check_server_token)
"""Backups hold the memories of everybody."""


@router.get("/health/backups/{name}", dependencies=[_Server])
async def download(opened: Own, name: str) -> Response:
    """Send a backup."""
    return await backup_file(opened, name)


@router.get("/health/restore", dependencies=[_Server])
async def restore_plan(request: Request, opened: Own, name: str) -> Response:
    """Show what a backup is, and what would be undone, before it is put back."""
    return render(request, "restore.html", plan=await plan_restore(opened, name), changed=False)


@router.post("/health/restore", dependencies=[_Server])
async def restore(request: Request, opened: Own, name: Word, confirm: Word, tasks: BackgroundTasks) -> Response:
    """Put a backup in the place of the memory: the server ends, does it, and serves again."""
    plan = await plan_restore(opened, name, confirm)
    if not plan.is_confirmed:
        return render(request, "restore.html", plan=plan, changed=True)
    begin_restore(request, plan, tasks)
    return restarting(request, "/health", tasks)


def restarting(request: Request, path: str, tasks: BackgroundTasks) -> Response:
    """Return the page that is shown while the server ends and serves again, and leads to *path* then."""
    answer = render(request, "restarting.html", path=f"{path}?again=1")
    answer.headers["refresh"] = f"1; url={path}?again=1"
    answer.background = tasks
    return answer


@router.post("/health/link", dependencies=[_Server])
async def link(request: Request, opened: Own, user: Annotated[str, Form(max_length=100)] = "") -> Response:
    """Make a link that signs another browser in once: the owner's, or that of a *user*."""
    accounts: Accounts = request.app.state.accounts
    sessions: BrowserSessions = request.app.state.browser_sessions
    known = await accounts.account_of(user)
    if known is None:
        raise HTTPException(404, "There is no such user.")
    address = f"{request.base_url}{SIGN_IN[1:]}?{urlencode({'word': sessions.link_word(user, known[1])})}"
    return render(request, "link.html", address=address, user=user)


async def _show(request: Request, opened: OpenedMemory, checks: list[Finding] | None = None) -> Response:
    restarts: Restarts | None = request.app.state.restarts
    return render(
        request,
        "health.html",
        backups=sorted(await known_backups(opened), key=lambda backup: backup.at, reverse=True),
        checks=checks,
        clients=await asyncio.to_thread(_clients),
        users=await request.app.state.accounts.list(),
        has_token=not request.state.caller.name,
        can_restore=restarts is not None,
        restarts=restarts if "again" in request.query_params else None,
        made=request.query_params.get("made", ""),
    )


def _clients() -> list[dict[str, Any]]:
    """Return the clients that are on this machine, those that are connected first."""
    hooks = {client.name: client for client in HOOK_CLIENTS}
    rows = []
    for client in CLIENTS:
        connected, runs = bool(client.server_file.registered()), read_runs(client.name)
        if not (connected or runs or client.folder.exists()):
            continue
        health = hook_health(hooks[client.name]) if client.name in hooks else None
        seen = max((datetime.fromisoformat(run.at) for run in runs), default=None)
        is_connected = connected or health is not None
        rows.append({"title": client.title, "connected": is_connected, "hooks": health, "seen": seen})
    return sorted(rows, key=lambda row: not row["connected"])


async def _findings(opened: OpenedMemory) -> list[Finding]:
    memory, path = opened.memory, opened.settings.memory
    waiting = await memory.pending()
    embedder = memory.embedder
    seen = "yes" if embedder is not None else "no: words alone are searched"
    findings = [
        Finding("Search by meaning", seen, embedder is not None, "install the extra “local”"),
        Finding("Waiting for a vector", str(waiting), not waiting, "the next write with a working embedder fills them"),
    ]
    if (progress := await memory.reembedding()) is not None:
        findings.append(Finding("Embedding anew", f"{progress.done:,} of {progress.total:,}"))
    if isinstance(path, Path) and path.is_file():
        findings += await asyncio.to_thread(_file_findings, path)
    return findings


def _file_findings(path: Path) -> list[Finding]:
    size, free = path.stat().st_size, shutil.disk_usage(path.parent).free
    findings = [
        Finding("File", f"{path}, {size / 1e6:.1f} MB"),
        Finding("Room on the disk", f"{free / 1e9:.1f} GB", free >= _LEAST_FREE_BYTES, "writing may fail soon"),
    ]
    if os.name == "posix":
        private = not path.stat().st_mode & 0o077
        seen = "yes" if private else "others may read it"
        findings.append(Finding("Private", seen, private, "" if private else f"chmod 600 {path}"))
    if (warning := synced_warning(path)) is not None:
        findings.append(Finding("Synced folder", warning, False, SYNCED_REMEDY))
    return findings
