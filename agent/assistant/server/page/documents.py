"""Views of documents: what was read and what was not, a question to a collection, and a passage where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, File, Form, HTTPException, Request, Response, UploadFile

from tellback.agent.assistant.server.accounts import shared_memories
from tellback.agent.assistant.server.page.page_route import Opened, PageRoute, go_to
from tellback.agent.assistant.server.page.rendering import is_partial, marked, place_query, render
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.memory import Passage
from tellback.memory.internals import IngestLine

router = APIRouter(route_class=PageRoute)
_SHOWN: Final = 200
_MOST_FILES: Final = 1_000
_ANSWERS: Final = 8
_PASSAGES: Final = 20
_DEFAULT: Final = "default"
Name = Annotated[str, Form(max_length=200)]


@dataclass(frozen=True, slots=True)
class Found:
    """*Passage* in the place *opened* that answers a question, with what is quoted of it marked in its *text*."""

    passage: Passage
    text: Any
    opened: OpenedMemory

    @property
    def place(self) -> str | None:
        """Shared namespace that it is in; None for the user's own."""
        return None if self.opened.own else self.opened.namespace

    @property
    def address(self) -> str:
        """Return the address of its page."""
        return f"/documents/passage?{urlencode({'id': self.passage.id} | place_query(self.opened))}"


@router.get("/documents")
async def documents(
    request: Request, opened: Opened, collection: str = "", matching: str = "", question: str = ""
) -> Response:
    """Show the documents, or what a *question* finds in them."""
    collections = await opened.knowledge().collections()
    if collection and collection not in collections:
        collection = ""
    shared = await shared_memories(request)
    places = [opened, *shared] if opened.own and not collection else [opened]
    found, doubt = await _asked(places, question, collection) if question.strip() else ([], None)
    values: dict[str, Any] = {"question": question, "found": found, "doubt": doubt}
    if is_partial(request):
        return render(request, "document_answers.html", **values)
    infos = await opened.desk.documents(matching, collection=collection or None)
    return render(
        request, "documents.html", infos=infos[:_SHOWN], total=len(infos), collections=collections,
        collection=collection, matching=matching, shared=[one.namespace for one in shared], **values,
    )  # fmt: skip


async def _asked(places: Sequence[OpenedMemory], question: str, collection: str) -> tuple[list[Found], str | None]:
    found: list[Found] = []
    doubts: list[str | None] = []
    for opened in places:
        for base in await opened.knowledge_bases(collection or None):
            passages = await base.retrieve(question, _ANSWERS)
            quotes = {citation.id: citation for citation in reversed(await base.cite(question, passages))}
            for passage in passages:
                cited = quotes.get(passage.id)
                spans = [] if cited is None else [(cited.start - passage.start, cited.end - passage.start)]
                found.append(Found(passage, marked(passage.text, spans, "mark"), opened))
            doubts += [passages.abstain] if len(passages) else []
    doubt = doubts[0] if doubts and None not in doubts else None
    return sorted(found, key=lambda one: -one.passage.score)[:_ANSWERS], doubt


@router.post("/documents")
async def upload(
    request: Request,
    opened: Opened,
    files: Annotated[list[UploadFile], File()],
    collection: Name = _DEFAULT,
    paths: Annotated[list[str] | None, Form()] = None,
) -> Response:
    """Read files into the memory; a file of the same name takes the place of the former."""
    lines = await ingest_files(opened, files, collection=collection.strip() or _DEFAULT, paths=paths or ())
    return render(request, "ingest_lines.html" if is_partial(request) else "ingested.html", lines=lines)


async def ingest_files(
    opened: OpenedMemory, files: list[UploadFile], *, collection: str = _DEFAULT, paths: Any = ()
) -> list[IngestLine]:
    """Read *files* into *collection*; *paths* are their places in a folder that was dropped. The outcome of each."""
    lines: list[IngestLine] = []
    base = opened.knowledge(collection)
    for number, file in enumerate(files[:_MOST_FILES]):
        named = paths[number] if number < len(paths) else file.filename or "upload"
        parts = [part for part in PurePosixPath(named.replace("\\", "/")).parts if part not in ("/", "..", ".")]
        if any(part.startswith(".") for part in parts):
            continue  # a hidden file of a folder, such as those of version control
        data = await file.read()
        async with opened.desk.taking(documents=1, bytes=len(data)):
            report = await base.ingest_text(data, source="/".join(parts)[-500:] or "upload")
        lines += report.lines
    return lines


@router.post("/documents/remove")
async def remove(opened: Opened, source: Annotated[str, Form()], collection: Name = _DEFAULT) -> Response:
    """Erase a document."""
    count = await opened.knowledge(collection).remove(source)
    return go_to(opened, "/documents", collection=collection if collection != _DEFAULT else None, removed=str(count))


@router.get("/documents/passage")
async def passage(request: Request, opened: Opened, id: str, start: int = 0, end: int = 0) -> Response:
    """Show a passage with what stands around it; what is cited of it is marked."""
    for base in await opened.knowledge_bases():
        shown = await base.passage(id, neighbours=1)
        if shown is not None:
            spans = [(start, end)] if 0 <= start < end <= len(shown.text) else []
            values: dict[str, Any] = {
                "passage": shown,
                "text": marked(shown.text, spans, "mark"),
                "collection": base.collection,
                "page_number": shown.page_at(start),
            }
            return render(request, "passage_part.html" if is_partial(request) else "passage.html", **values)
    raise HTTPException(404, "There is no such passage any more: the document has changed, or was forgotten.")


@router.get("/documents/read")
async def read(request: Request, opened: Opened, source: str, collection: str = _DEFAULT, at: int = 0) -> Response:
    """Show what was read of a document."""
    passages = await opened.knowledge(collection).passages(source)
    if not passages:
        raise HTTPException(404, "There is no such document, or it was forgotten.")
    at = min(max(at, 0), len(passages) - 1)
    shown = passages[at : at + _PASSAGES]
    following = at + _PASSAGES if at + _PASSAGES < len(passages) else None
    return render(
        request,
        "document.html",
        source=source,
        collection=collection,
        passages=shown,
        total=len(passages),
        next=following,
    )
