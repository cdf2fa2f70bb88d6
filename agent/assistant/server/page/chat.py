"""Views of a conversation: a turn streamed as it is answered, with its sources beside it and what it kept."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, cast
from urllib.parse import urlencode

from fastapi import APIRouter, File, Form, HTTPException, Request, Response, UploadFile
from fastapi.responses import StreamingResponse
from markupsafe import Markup

from tellback.agent.assistant.conversation.conversation import TurnEnded
from tellback.agent.assistant.conversation.secret_mask import SecretMask
from tellback.agent.assistant.server.chat_stream import server_event
from tellback.agent.assistant.server.open_memory import ServedMemory
from tellback.agent.assistant.server.page.documents import ingest_files
from tellback.agent.assistant.server.page.memories import Row, memory_address
from tellback.agent.assistant.server.page.page_route import Own, PageRoute, go_to
from tellback.agent.assistant.server.page.rendering import HEADERS, formatted, render, rendered
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.agent.events import ApprovalRequested, TextDelta, TextWithdrawn, ToolStarted, Waiting
from tellback.memory import ImageBlock
from tellback.memory.internals import Block

if TYPE_CHECKING:
    from tellback.agent.approval import ApprovalRequest
    from tellback.agent.assistant.conversation.conversation import Conversation
    from tellback.agent.context_items import AnswerCitation

router = APIRouter(route_class=PageRoute)
_log = logging.getLogger(__name__)
_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_SHOWN_MESSAGES: Final = 60
_NUMBER: Final = re.compile(r"\[(\d{1,4})\]")
_NAMES: Final = {"user": "You", "assistant": "Tellback"}
_REFUSED: Final = "the user did not agree"


@router.get("/chat")
async def chat(request: Request, opened: Own, session: str = "") -> Response:
    """Show a conversation, or the beginning of one."""
    if not opened.writes:
        return go_to(opened, "/memories")
    messages = await messages_of(opened, session, _SHOWN_MESSAGES) if session else []
    recent = await opened.memory.conversations.sessions(namespace=opened.namespace, limit=8)
    values: dict[str, Any] = {
        "session": session,
        "messages": messages,
        "recent": recent,
        "model": opened.settings.model,
    }
    return render(request, "chat.html", **values)


async def messages_of(opened: OpenedMemory, session: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the newest messages of *session* that say something, oldest first: role, name, time and text."""
    from tellback.agent.turn_store import with_quoted_words

    stored = await opened.memory.conversations.load(session, limit=limit, namespace=opened.namespace)
    return [
        {
            "sequence": kept.sequence,
            "role": kept.message.role,
            "name": kept.message.name or _NAMES[kept.message.role],
            "at": kept.message.at or kept.at,
            "text": kept.message.text,
        }
        for kept in await with_quoted_words(stored, opened.memory, opened.namespace)
        if kept.message.text.strip() and kept.message.role in _NAMES
    ]


@router.post("/chat")
async def answer(
    request: Request,
    opened: Own,
    text: Annotated[str, Form(max_length=100_000)] = "",
    session: Annotated[str, Form(max_length=200)] = "",
    files: Annotated[list[UploadFile] | None, File()] = None,
) -> Response:
    """Answer a prompt as server-sent events; files that came with it are read first."""
    if not text.strip() and not files:
        raise HTTPException(422, "There is nothing to answer.")
    served: ServedMemory = request.app.state.served
    size = len(text.encode()) + sum(file.size or 0 for file in files or ())
    async with opened.desk.taking(memories=1, bytes=size):
        pass  # the turn is stored within the stream, which has no status any more
    await served.assistant(opened)  # what cannot be opened is told as a page, and is no broken stream
    stream = _turn(request, served, opened, text.strip(), session, files or [])
    return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)


@router.post("/chat/approvals/{id}")
async def approve(request: Request, id: str, decision: Annotated[str, Form()]) -> Response:
    """Answer the question whether a tool may do what the model wants."""
    asked: ApprovalRequest | None = _approvals(request).pop(id, None)
    if asked is not None and decision == "yes":
        asked.approve()
    elif asked is not None:
        asked.reject(_REFUSED)
    said = "It was not asked any more." if asked is None else "You agreed." if decision == "yes" else "You declined."
    return render(request, "notice_plain.html", sentence=said)


def _approvals(request: Request) -> dict[str, ApprovalRequest]:
    waiting: dict[str, ApprovalRequest] = request.app.state._state.setdefault("approvals", {})
    return waiting


async def _turn(
    request: Request, served: ServedMemory, opened: OpenedMemory, text: str, session: str, files: list[UploadFile]
) -> AsyncIterator[str]:
    """Yield the events of a turn; where the reader goes away it is broken off, and nothing of it is kept."""
    try:
        blocks: list[Block] = []
        if files:
            yield _event("status", text="Reading …")
            images = [file for file in files if file.content_type in _IMAGES and opened.settings.model is not None]
            for image in images:
                kind = cast("Any", image.content_type)
                blocks.append(ImageBlock(media_type=kind, data=await image.read(), name=image.filename or "image"))
            lines = await ingest_files(opened, [file for file in files if file not in images])
            if lines:
                yield _event("files", html=rendered(request, "ingest_lines.html", lines=lines))
        if text or blocks:
            async with (
                served.turn(opened, session) as talk,
                aclosing(_turn_events(request, talk, text, blocks)) as events,
            ):
                async for event in events:
                    yield event
        yield _event("end")
    except Exception as error:  # the status is sent: the stream has to say it
        _log.error("a turn failed (%s)", type(error).__name__)
        yield _event("failed", text="The answer failed; nothing of this turn was kept. The server's log says more.")


async def _turn_events(
    request: Request, talk: Conversation, text: str, blocks: list[Block]
) -> AsyncGenerator[str, None]:
    yield _event("session", session=talk.session)
    if not blocks and (plain := await talk.understand(text)) is not None:
        rows = [Row(memory, talk.opened) for memory in plain.memories]
        last = await talk.opened.desk.operations(limit=1) if plain.kind == "undo" else ()
        yield _event("answer", html=rendered(request, "plain_request.html", plain=plain, rows=rows, last=last))
        return
    mask = SecretMask(text)
    async with aclosing(talk.answer(text, blocks)) as events:
        async for event in events:
            if isinstance(event, TextDelta):
                yield _event("delta", text=mask.apply(event.text))
            elif isinstance(event, TextWithdrawn):
                yield _event("withdrawn")
            elif isinstance(event, ToolStarted):
                yield _event("status", text=f"Using {event.call.name} …")
            elif isinstance(event, Waiting):
                yield _event("status", text=event.text)
            elif isinstance(event, ApprovalRequested):
                id = secrets.token_urlsafe(12)
                _approvals(request)[id] = event.request
                yield _event("question", html=rendered(request, "approval.html", id=id, asked=event.request))
            elif isinstance(event, TurnEnded):
                yield _event("answer", html=await _answer_html(request, talk, event, mask))


async def _answer_html(request: Request, talk: Conversation, turn: TurnEnded, mask: SecretMask) -> str:
    result, desk = turn.result, talk.opened.desk
    cited = {citation.number: citation for citation in reversed(result.citations) if citation.number}
    used = [memory for memory in await desk.get([item.id for item in result.memories if item.lane == "conversation"])
            if memory is not None] if result.memories else []  # fmt: skip
    kept = turn.kept
    ids = [id for id in (kept.id, kept.known, kept.near, kept.may_replace, *kept.replaced) if id]
    known = {memory.id: memory for memory in await desk.get(ids) if memory is not None} if ids else {}
    values: Mapping[str, Any] = {
        "answer": with_sources(formatted(mask.apply(result.text)), cited, talk.opened),
        "citations": sorted(cited.values(), key=lambda citation: citation.number),
        "address": partial(source_address, talk.opened),
        "used": [Row(memory, talk.opened) for memory in used],
        "kept": kept,
        "known": known,
        "turn": turn,
        "is_short": bool(result.abstain),
    }
    return rendered(request, "turn.html", **values)


def source_address(opened: OpenedMemory, citation: AnswerCitation) -> str:
    """Return the address of what *citation* cites."""
    if citation.source:
        start, end = citation.span
        return "/documents/passage?" + urlencode({"id": citation.id, "start": start, "end": end})
    return memory_address(opened, citation.id)


def with_sources(html: Markup, cited: Mapping[int, AnswerCitation], opened: OpenedMemory) -> Markup:
    """Return the answer *html*, in which each number in brackets leads to what it cites."""

    def link(match: re.Match[str]) -> str:
        citation = cited.get(int(match[1]))
        if citation is None:
            return match[0]
        address, words = source_address(opened, citation), citation.where
        template = Markup('<a class="cite" href="{}" data-source="{}" title="{}">{}</a>')
        return str(template.format(address, address, words, citation.number))

    return Markup(_NUMBER.sub(link, str(html)))  # noqa: S704 - links of our own in what was rendered


def _event(kind: str, **values: str) -> str:
    return server_event(kind, values)
