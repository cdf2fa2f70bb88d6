"""Health of a memory and its backups, for the owner of the server."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Depends, Request, Response

from tellback.agent.assistant.server.page.page_route import Opened, PageRoute, check_owner, go_to
from tellback.agent.assistant.server.page.rendering import render
from tellback.agent.assistant.synced_folder import SYNCED_REMEDY, synced_warning
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.vectorstore import UnsupportedError, lifecycle_of

router = APIRouter(route_class=PageRoute, dependencies=[Depends(check_owner)])
_LEAST_FREE_BYTES: Final = 100_000_000
_FINDINGS: Final = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding on the health of the memory: *fine*, or not, and then the *remedy*."""

    name: str
    seen: str
    fine: bool = True
    remedy: str = ""


@router.get("/health")
async def health(request: Request, opened: Opened) -> Response:
    """Show how the memory is."""
    return await _show(request, opened, await _findings(opened))


@router.post("/health/check")
async def check(request: Request, opened: Opened) -> Response:
    """Read every row of the memory, and say whether it is as it was written."""
    store = lifecycle_of(opened.memory.store)
    found = [] if store is None else await asyncio.to_thread(store.verify)
    rows = [Finding("Content", str(finding), False, "restore a backup, or save what is left: tellback doctor --salvage")
            for finding in found[:_FINDINGS]] or [Finding("Content", "Every row is as it was written.")]  # fmt: skip
    return await _show(request, opened, [*rows, *await _findings(opened)])


@router.post("/health/backup")
async def backup(opened: Opened) -> Response:
    """Make a backup beside the memory."""
    copy = await opened.memory.backup()
    return go_to(opened, "/health", made=copy.path.name)


async def _show(request: Request, opened: OpenedMemory, findings: list[Finding]) -> Response:
    memory = opened.memory
    stats = await memory.stats(namespace=opened.namespace)
    backups: list[Any] = []
    with suppress(UnsupportedError):  # a memory in no file has none of its own
        backups = sorted(await memory.backups(), key=lambda backup: backup.at, reverse=True)
    return render(
        request,
        "health.html",
        stats=stats,
        backups=backups,
        findings=findings,
        made=request.query_params.get("made", ""),
    )


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
        findings.append(
            Finding(
                "Private",
                "yes" if private else "others may read it",
                private,
                f"chmod 600 {path}" if not private else "",
            )
        )
    if (warning := synced_warning(path)) is not None:
        findings.append(Finding("Synced folder", warning, False, SYNCED_REMEDY))
    return findings
