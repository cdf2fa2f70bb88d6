"""Views of conversations of every client, and what is moved in and out: imports, exports."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

from fastapi import APIRouter, File, Form, HTTPException, Request, Response, UploadFile

from tellback.agent.assistant.hooks.transcript_import import import_transcripts
from tellback.agent.assistant.importers.export_files import export_files
from tellback.agent.assistant.importers.registry import (
    CHAT_EXPORTS,
    TELLBACK,
    conversation_source,
    is_imported,
    recognised_format,
)
from tellback.agent.assistant.server import care
from tellback.agent.assistant.server.page.chat import messages_of
from tellback.agent.assistant.server.page.page_route import Own, PageRoute, Readable
from tellback.agent.assistant.server.page.rendering import render
from tellback.agent.assistant.wiring import OpenedMemory

router = APIRouter(route_class=PageRoute)
_SHOWN: Final = 100


@router.get("/conversations")
async def conversations(request: Request, opened: Own, q: str = "") -> Response:
    """Show the conversations, those about *q* alone where it is given."""
    found = await opened.desk.sessions(q.strip(), _SHOWN + 1)
    clients = {info.session: info.session.partition(":")[0] for info in found if is_imported(info.session)}
    values: dict[str, Any] = {"infos": found[:_SHOWN], "more": len(found) > _SHOWN, "q": q, "clients": clients}
    return render(request, "conversations.html", **values)


@router.post("/conversations/import")
async def take_in(
    request: Request, opened: Own, file: Annotated[UploadFile, File()], mine: Annotated[bool, Form()] = False
) -> Response:
    """Take in an export of another assistant, or one of Tellback."""
    ending = Path(file.filename or "").suffix.lower()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, f"export{ending if ending in ('.zip', '.json', '.jsonl') else '.zip'}")
        with os.fdopen(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as target:
            while piece := await file.read(1 << 20):
                target.write(piece)
        lines, unreadable = await _import(opened, place, mine=mine)
    return render(request, "imported.html", lines=lines, unreadable=unreadable)


async def _import(opened: OpenedMemory, place: Path, *, mine: bool) -> tuple[list[str], list[str]]:
    """Import the file at *place*; return in words what was taken, and what could not be read."""
    try:
        kind = await asyncio.to_thread(recognised_format, place)
    except (OSError, ValueError):
        kind = None
    if kind == TELLBACK:
        report = await opened.memory.import_(place, namespace=opened.namespace, trust="user" if mine else None)
        counts = Counter(str(line.outcome) for line in report.lines)
        await opened.memory.flush(namespace=opened.namespace)
        return [f"{count} {outcome}" for outcome, count in counts.items()] or ["nothing"], []
    source = conversation_source(kind) if kind is not None else None
    if source not in CHAT_EXPORTS or source is None:
        raise HTTPException(422, "This is no export of ChatGPT, Claude or Tellback: drop the ZIP file as it came.")
    paths = await asyncio.to_thread(lambda: list(export_files(place)))
    taken = await import_transcripts(source, paths, memory=opened.memory, settings=opened.settings)
    lines = [f"{taken.conversations} conversations of {source.title}", f"{taken.kept} messages kept"]
    lines += [f"{taken.known} known already"] if taken.known else []
    lines += [f"{taken.forgotten} forgotten here before, and left out"] if taken.forgotten else []
    return lines, [f"{Path(path).name}: {reason}" for path, reason in taken.unreadable.items()]


@router.post("/conversations/export")
async def export(opened: Readable) -> Response:
    """Send all of the memory as one file."""
    answer = await care.export(opened)
    name = f"tellback-{datetime.now(UTC):%Y-%m-%d}.jsonl"
    answer.headers.update({"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"})
    return answer


@router.get("/conversations/{session}")
async def conversation(request: Request, opened: Own, session: str) -> Response:
    """Show what was said in a conversation."""
    messages = await messages_of(opened, session)
    if not messages:
        raise HTTPException(404, "There is no such conversation, or it was forgotten.")
    return render(request, "conversation.html", session=session, messages=messages, is_own=not is_imported(session))
