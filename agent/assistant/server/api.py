"""HTTP API (`/api/v1`): routes over the desk of a memory, thin; what they answer is what ``--json`` prints."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import AliasPath, BaseModel, ConfigDict, Field, FiniteFloat

from tellback.agent.assistant.server.accounts import NotPermitted, memory_of_caller, shared_memories
from tellback.agent.assistant.server.chat_stream import chat_stream, server_event
from tellback.agent.assistant.server.jobs import JobItem
from tellback.agent.assistant.server.open_memory import ServedMemory
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.agent.desk.consent import Person
from tellback.agent.desk.desk import MARK_VALUES, Change, ListOrder, Mark, MemoryDesk
from tellback.agent.desk.results import (
    ConflictItem,
    DocumentItem,
    FoundMemories,
    GivenItem,
    MemoryItem,
    OperationItem,
    PersonItem,
    ProfileItem,
    ReportItem,
    Result,
    SessionItem,
    WhyNotItem,
    receipt_object,
)
from tellback.agent.json_values import parsed_object
from tellback.memory import ArgumentError, Memory, Message
from tellback.memory.internals import IngestAction

router = APIRouter()
_MOST = 1_000


Namespace = Annotated[str | None, Query(max_length=512, description="A namespace that is shared with you.")]


async def _readable(request: Request, namespace: Namespace = None) -> OpenedMemory:
    return await memory_of_caller(request, namespace, writes=False)


async def _writable(request: Request, namespace: Namespace = None) -> OpenedMemory:
    return await memory_of_caller(request, namespace, writes=True)


async def _reading_desk(opened: Annotated[OpenedMemory, Depends(_readable)]) -> MemoryDesk:
    return opened.desk


async def _writing_desk(opened: Annotated[OpenedMemory, Depends(_writable)]) -> MemoryDesk:
    return opened.desk


async def _own_conversations(opened: Annotated[OpenedMemory, Depends(_readable)]) -> OpenedMemory:
    if not opened.own:
        raise NotPermitted("conversations are not shared")
    return opened


async def _written_conversations(opened: Annotated[OpenedMemory, Depends(_writable)]) -> OpenedMemory:
    return await _own_conversations(opened)


OwnConversations = Annotated[OpenedMemory, Depends(_own_conversations)]
WrittenConversations = Annotated[OpenedMemory, Depends(_written_conversations)]
ReadOnly = Annotated[OpenedMemory, Depends(_readable)]
OpenedParameter = Annotated[OpenedMemory, Depends(_writable)]
ReadingDesk = Annotated[MemoryDesk, Depends(_reading_desk)]
DeskParameter = Annotated[MemoryDesk, Depends(_writing_desk)]
Limit = Annotated[int, Query(ge=1, le=_MOST)]
JsonText = Annotated[str | None, Query(max_length=8_000, description="A JSON object.")]
Text = Annotated[str, Field(min_length=1, max_length=100_000)]
Words = Annotated[str, Field(min_length=1, max_length=8_000)]
Names = Annotated[tuple[str, ...], Field(max_length=100)]
Ids = Annotated[list[str], Field(min_length=1, max_length=_MOST)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class NewMemory(_Body):
    """Memory to store. With *key*, a name of your own, storing it again changes nothing."""

    text: Text
    about: str = ""
    kind: str = "fact"
    tags: Names = ()
    scopes: Mapping[str, str] = {}
    speaker: str | None = None
    occurred_at: datetime | None = None
    expires_at: datetime | None = None
    importance: Annotated[float | None, Field(ge=0, le=1)] = None
    pinned: bool = False
    sensitive: bool = False
    key: str | None = None
    replaces: Names = ()


class PersonRole(_Body):
    """The *name* of a relative and their *role* ("my wife")."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    role: Annotated[str, Field(min_length=1, max_length=200)]


class NewPerson(PersonRole):
    """The same, said anew; *instead_of* is a name that is wrong for the role."""

    instead_of: Annotated[str, Field(max_length=200)] = ""


class NewMemories(_Body):
    """Memories to store, each on its own."""

    memories: Annotated[list[NewMemory], Field(min_length=1, max_length=_MOST)]


class MemoryPageItem(BaseModel):
    """Page of memories; *next* is the cursor of the next one, None after the last."""

    memories: list[MemoryItem]
    total: int
    next: str | None


class RecallBody(_Body):
    """Question, and what bounds its answers; see the page about recall."""

    question: Words
    k: Annotated[int, Field(ge=1, le=100)] = 10
    context: Names = ()
    tags: Names = ()
    scopes: Mapping[str, str | list[str]] | None = None
    where: Mapping[str, Any] | None = None
    as_of: datetime | None = None
    known_at: datetime | None = None
    token_budget: Annotated[int | None, Field(ge=1)] = None
    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.0
    partitions: Names | None = None
    collections: Names | None = None
    all_utterances: bool = False
    neighbours: Annotated[int, Field(ge=0, le=20)] | Literal["exchange"] = 0
    explain: bool = False

    def options(self) -> dict[str, Any]:
        """Return the options of a recall that were given."""
        return {name: getattr(self, name) for name in self.model_fields_set - {"question", "k"}}


class WhyNotBody(RecallBody):
    """Question that does not find the memory *id*."""

    id: str


class CorrectionBody(_Body):
    """New text of a memory; *about* is its line, None leaves it."""

    text: Text
    about: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    sensitive: bool = False


class EndBody(_Body):
    """Time until which a memory holds; None: without end."""

    at: datetime | None


class MergeBody(_Body):
    """Memories of which the first says *text* from now on; the others go to the archive."""

    ids: Ids
    text: Text
    sensitive: bool = False


class MarkBody(_Body):
    """Mark of memories; *tags*, *importance* and *at* belong to the marks that need them."""

    mark: Mark
    ids: Ids
    tags: Names | None = None
    importance: Annotated[float | None, Field(ge=0, le=1)] = None
    at: datetime | None = None

    def values(self) -> tuple[object, ...]:
        """Return the values that the mark takes."""
        return (getattr(self, MARK_VALUES[self.mark]),) if self.mark in MARK_VALUES else ()


class ForgetBody(_Body):
    """Choice of what is to be forgotten: all that is given must hold, or *everything* of the namespace.

    The first call does nothing and answers with what would go, and a token; the second, with that token as *confirm*,
    forgets exactly that.
    """

    ids: Ids | None = None
    session: str | None = None
    document: str | None = None
    tags: Names = ()
    scopes: Mapping[str, str] | None = None
    where: Mapping[str, Any] | None = None
    older_than: datetime | None = None
    everything: bool = False
    remove_backups: bool = False
    grace_days: Annotated[float | None, Field(gt=0, le=365)] = None
    confirm: Annotated[str | None, Field(max_length=100)] = None


class Forgetting(BaseModel):
    """Outcome of a forgetting: *done* with its receipt, or what would go and the token that confirms it."""

    done: bool
    confirm: str | None = None
    concerned: list[MemoryItem] = []
    receipt: dict[str, Any]


class SettleBody(_Body):
    """Memories of which one holds: "newest", "most trusted", or an id."""

    ids: Ids
    keep: str = "newest"


class ProfileAnswer(Result):
    """The user at a glance: each memory once."""

    pinned: list[MemoryItem]
    known: list[ProfileItem]
    recent: list[MemoryItem]


class ProfileBody(_Body):
    """Part of the profile: *limit* entries of each topic; *attributes*: name, home and work of the user."""

    limit: Annotated[int, Field(ge=1, le=10_000)] = 5
    attributes: bool = False
    where: Mapping[str, Any] | None = None


class ProfileByTopic(BaseModel):
    """Entries by topic; *omitted* counts what is beyond the limit of each topic."""

    known: list[ProfileItem]
    omitted: int


class HistoryAnswer(Result):
    """Versions of a memory, the newest first, and what was done to it."""

    versions: list[MemoryItem]
    operations: list[OperationItem]


class UrlBody(_Body):
    """Address of a web page."""

    url: Annotated[str, Field(max_length=4_000)]
    collection: str = "default"


class IngestAnswer(BaseModel):
    """Outcome of each document."""

    documents: list[dict[str, Any]]


class TurnItem(Result):
    """Message of a conversation, kept *at* a time; *memory* is the id under which it is found."""

    sequence: int
    at: datetime
    said_at: Annotated[datetime | None, Field(validation_alias=AliasPath("message", "at"))]
    role: Annotated[str, Field(validation_alias=AliasPath("message", "role"))]
    name: Annotated[str | None, Field(validation_alias=AliasPath("message", "name"))] = None
    text: Annotated[str, Field(validation_alias=AliasPath("message", "text"))]
    metadata: Annotated[Mapping[str, Any], Field(validation_alias=AliasPath("message", "metadata"))]
    memory: str | None


class TurnPage(BaseModel):
    """Page of messages; *next* is the cursor (``after``) of the next one, None after the last."""

    turns: list[TurnItem]
    next: int | None


class NewTurns(_Body):
    """Messages of a conversation, oldest first, and the ids of memories with which an answer was made."""

    messages: Annotated[list[Message], Field(min_length=1, max_length=100)]
    used: Names = ()


class TurnReports(BaseModel):
    """Outcome of each message."""

    reports: list[ReportItem]


class RemovedDocument(BaseModel):
    """Document that was erased, with the number of its passages."""

    source: str
    chunks: int


class DocumentQuestion(_Body):
    """Question to the documents of one *collection*, or of all."""

    question: Words
    k: Annotated[int, Field(ge=1, le=50)] = 5
    collection: str | None = None


class CitationItem(Result):
    """Quote that answers, character for character, and where it stands."""

    number: int
    id: str
    document: str
    title: str
    page: int | None
    heading: tuple[str, ...]
    start: int
    end: int
    quote: str


class DocumentAnswer(BaseModel):
    """Quotes that answer a question, best first, and how far to trust them."""

    citations: list[CitationItem]
    confidence: float
    abstain: str | None


class LineBody(_Body):
    """Line that says what a memory is about; "" says that there is nothing to say."""

    about: Annotated[str, Field(max_length=1_000)]


class NewGiven(_Body):
    """Memories, by id with the scores for which they were chosen, that a prompt of a client was given."""

    scores: Annotated[Mapping[str, FiniteFloat], Field(min_length=1, max_length=100)]
    client: Annotated[str, Field(max_length=200)]
    session: Annotated[str, Field(max_length=1_024)] = ""
    prompt: Words


class GivenMark(_Body):
    """Mark of *memory* as *useful*, or not, to the prompt of the id *giving*; without one to the last that got it."""

    giving: Annotated[str | None, Field(max_length=200)] = None
    memory: Annotated[str, Field(max_length=512)]
    useful: bool


class GivenQuestion(_Body):
    """Prompt, and the ids of memories that it may be given."""

    prompt: Words
    memories: Ids


class ForgottenWords(_Body):
    """Words of a message, bounded as a body is."""

    text: Annotated[str, Field(min_length=1)]


class Prompt(_Body):
    """Words of the user in *session*; "" begins one."""

    text: Words
    session: Annotated[str, Field(max_length=200)] = ""


@router.post("/memories")
async def remember(desk: DeskParameter, body: NewMemory) -> ReportItem:
    """Store a memory."""
    memory = Memory(**body.model_dump(exclude={"replaces"}))
    return ReportItem.of(await desk.remember(Person(), memory, replaces=body.replaces))


@router.post("/memories/batch")
async def remember_many(desk: DeskParameter, body: NewMemories) -> list[ReportItem]:
    """Store many memories; the outcome of each, in order."""
    return [await remember(desk, new) for new in body.memories]


@router.get("/memories")
async def list_memories(
    desk: ReadingDesk,
    order: ListOrder = "newest",
    after: str | None = None,
    limit: Limit = 50,
    contains: str | None = None,
    tag: Annotated[list[str] | None, Query()] = None,
    kind: Annotated[list[str] | None, Query()] = None,
    trust: Annotated[list[str] | None, Query()] = None,
    session: str | None = None,
    pinned: bool | None = None,
    disabled: bool | None = None,
    expired: bool | None = None,
    since: datetime | None = None,
    before: datetime | None = None,
    as_of: datetime | None = None,
    known_at: datetime | None = None,
    scopes: JsonText = None,
    where: JsonText = None,
) -> MemoryPageItem:
    """List memories, page by page."""
    given: dict[str, Any] = {
        "contains": contains,
        "tags": tag,
        "kinds": kind,
        "trust": trust,
        "session": session,
        "pinned": pinned,
        "disabled": disabled,
        "expired": expired,
        "between": (since, before) if since or before else None,
        "as_of": as_of,
        "known_at": known_at,
        "scopes": _object("scopes", scopes),
        "where": _object("where", where),
    }
    filters = {name: value for name, value in given.items() if value is not None}
    page = await desk.page(order=order, after=after, limit=limit, **filters)
    total = await desk.count(**filters)
    return MemoryPageItem(memories=[MemoryItem.of(memory) for memory in page], total=total, next=page.next)


@router.get("/memories/{id}")
async def get_memory(desk: ReadingDesk, id: str, response: Response) -> MemoryItem:
    """Read a memory, a version of it (ID@REVISION), or a passage; the end of a single id stands for it."""
    memory = await _one(desk, id)
    response.headers["etag"] = f'"{memory.id}@{memory.revision}"'
    return MemoryItem.of(memory)


@router.put("/memories/{id}")
async def correct(
    desk: DeskParameter, id: str, body: CorrectionBody, if_match: Annotated[str | None, Header()] = None
) -> ReportItem:
    """Put a memory right; the old version stays. With ``If-Match``, only the version that was read: else 412."""
    memory = await _one(desk, id)
    expect = None
    if if_match is not None and if_match != "*":
        of, _, revision = if_match.strip('"').rpartition("@")
        if of != memory.id or not (revision.isascii() and revision.isdigit()):
            raise HTTPException(412, "the memory is another one, or the header is no ETag of it")
        expect = int(revision)
    fields = body.model_dump(exclude={"text"})
    fields["sensitive"] = body.sensitive or memory.sensitive
    change = await desk.correct(Person(), memory.id, body.text, expect=expect, **fields)
    return ReportItem.of(change.report)


@router.get("/memories/{id}/history")
async def history(desk: ReadingDesk, id: str) -> HistoryAnswer:
    """Read all versions of a memory, and what was done to it."""
    return HistoryAnswer.of(await desk.history(id))


@router.put("/memories/{id}/about")
async def describe(desk: DeskParameter, id: str, body: LineBody) -> ReportItem:
    """Set the line that says what a memory is about."""
    memory = await _one(desk, id)
    (report,) = await desk.memory.describe({memory.id: body.about}, namespace=desk.namespace)
    return ReportItem.of(report)


@router.post("/memories/{id}/end")
async def end(desk: DeskParameter, id: str, body: EndBody) -> ReportItem:
    """Set the time until which a memory holds."""
    memory = await _one(desk, id)
    return ReportItem.of(await desk.memory.end(memory.id, body.at, namespace=desk.namespace))


@router.post("/merge")
async def merge(desk: DeskParameter, body: MergeBody) -> ReportItem:
    """Make one memory of several."""
    merged = await desk.memory.merge(body.ids, body.text, sensitive=body.sensitive, namespace=desk.namespace)
    return ReportItem.of(merged)


@router.post("/marks")
async def mark(desk: DeskParameter, body: MarkBody) -> OperationItem | None:
    """Pin, disable, tag, weigh, expire, promote or demote memories; null: there was nothing to change."""
    operation = await desk.mark(body.mark, body.ids, *body.values())
    return None if operation is None else OperationItem.of(operation)


@router.post("/recall")
async def recall(request: Request, body: RecallBody, namespace: Namespace = None) -> FoundMemories:
    """Find what is known about a question, best first: in your own namespace and what is shared with you, or in one."""
    own = await memory_of_caller(request, namespace, writes=False)
    places = [own, *(await shared_memories(request) if namespace is None else ())]
    found = {place.namespace: await place.desk.recall(body.question, body.k, **body.options()) for place in places}
    return FoundMemories.merged(found, body.k)


@router.post("/why-not")
async def why_not(desk: ReadingDesk, body: WhyNotBody) -> WhyNotItem:
    """Say why a question does not find a memory."""
    options = {name: value for name, value in body.options().items() if name != "id"}
    return WhyNotItem.of(await desk.why_not(body.question, body.id, body.k, **options))


@router.post("/forget")
async def forget(desk: DeskParameter, body: ForgetBody) -> Forgetting:
    """Forget memories and all that repeats them, in two calls: what would go, then with the token that came with it."""
    selectors = body.model_dump(exclude={"grace_days", "confirm"})
    grace = None if body.grace_days is None else timedelta(days=body.grace_days)
    change: Change = await desk.forget(Person(), **selectors, confirm=body.confirm, grace=grace)
    return Forgetting(
        done=change.done,
        confirm=change.token,
        concerned=[MemoryItem.of(memory) for memory in change.concerned],
        receipt=receipt_object(change.receipt) if change.receipt is not None else {},
    )


@router.get("/operations")
async def operations(
    desk: ReadingDesk, memory: str | None = None, before: str | None = None, limit: Limit = 50
) -> list[OperationItem]:
    """List what was done, the newest first."""
    return [OperationItem.of(done) for done in await desk.operations(memory=memory, before=before, limit=limit)]


@router.post("/operations/{id}/undo")
async def undo(desk: DeskParameter, id: str) -> OperationItem:
    """Take back an operation, also a forgetting in its time of grace."""
    return OperationItem.of(await desk.undo(id))


@router.post("/forgotten")
async def forgotten(opened: OwnConversations, body: ForgottenWords) -> datetime | None:
    """Tell when these very words were last forgotten, so that they are not kept again; null: never."""
    return await asyncio.to_thread(opened.memory.tombstones.words_at, opened.namespace, body.text)


@router.get("/given")
async def given(opened: OwnConversations, before: str | None = None, limit: Limit = 20) -> list[GivenItem]:
    """List what prompts of your clients were given, the newest first; *before* is the id of the last of a page."""
    recent = partial(opened.memory.given.recent, opened.namespace, limit, before=before)
    return [GivenItem.of(prompt) for prompt in await asyncio.to_thread(recent)]


@router.post("/given")
async def log_given(opened: WrittenConversations, body: NewGiven) -> None:
    """Log which memories a prompt of a client was given, without the secrets in it."""
    await opened.desk.log_given(body.prompt, body.scores, client=body.client, session=body.session)


@router.post("/given/not-useful")
async def not_useful(opened: OwnConversations, body: GivenQuestion) -> frozenset[str]:
    """Tell which memories were marked as not useful to prompts like this one."""
    return await opened.desk.not_useful(body.prompt, body.memories)


@router.post("/given/marks")
async def mark_given(opened: WrittenConversations, body: GivenMark) -> GivenItem:
    """Mark that a memory was useful to a prompt, or not: then it is not given any more to prompts like that."""
    mark = partial(opened.memory.given.mark, opened.namespace, body.memory, useful=body.useful, giving=body.giving)
    return GivenItem.of(await asyncio.to_thread(mark))


@router.get("/profile")
async def profile(desk: ReadingDesk) -> ProfileAnswer:
    """Read what is known about the user."""
    return ProfileAnswer.of(await desk.overview())


@router.post("/profile")
async def profile_by_topic(desk: ReadingDesk, body: ProfileBody) -> ProfileByTopic:
    """Read what is known about the user and their relatives by topic; a memory can stand under several."""
    known = await desk.profile(**dict(body))
    return ProfileByTopic(known=[ProfileItem.of(entry) for entry in known], omitted=known.omitted)


@router.get("/conflicts")
async def conflicts(desk: ReadingDesk, limit: Limit = 100) -> list[ConflictItem]:
    """List memories that contradict each other."""
    return [ConflictItem.of(conflict) for conflict in await desk.conflicts(limit)]


@router.post("/conflicts/settle")
async def settle(desk: DeskParameter, body: SettleBody) -> OperationItem:
    """Let one of several contradicting memories hold."""
    return OperationItem.of(await desk.settle(body.ids, body.keep))


@router.get("/people")
async def people(desk: ReadingDesk) -> list[PersonItem]:
    """List the user's relatives, as memories say."""
    return [PersonItem.of(person) for person in await desk.people()]


@router.post("/people")
async def add_person(desk: DeskParameter, body: NewPerson) -> ReportItem:
    """Say who a relative is, also in the place of a wrong name, or with a further role."""
    return ReportItem.of(await desk.add_person(Person(), body.name, body.role, instead_of=body.instead_of))


@router.post("/people/split")
async def split_person(desk: DeskParameter, body: PersonRole) -> OperationItem:
    """Take back that a person has a role; the memory that said so stays, with a tag."""
    return OperationItem.of(await desk.split_person(Person(), body.name, body.role))


@router.get("/stats")
async def stats(desk: ReadingDesk) -> dict[str, Any]:
    """Count what is remembered."""
    return asdict(await desk.memory.stats(namespace=desk.namespace))


@router.get("/sessions")
async def sessions(
    opened: OwnConversations, about: Annotated[str, Query(max_length=8_000)] = "", limit: Limit = 100
) -> list[SessionItem]:
    """List the conversations, the newest first; or those of this name, and then those *about* it."""
    return [SessionItem.of(info) for info in await opened.desk.sessions(about, limit)]


@router.get("/sessions/{session}/turns")
async def turns(
    opened: OwnConversations, session: str, after: Annotated[int, Query(ge=0)] = 0, limit: Limit = 100
) -> TurnPage:
    """Read what was said in a conversation, oldest first, page by page."""
    said = await opened.desk.turns(session, after=after, limit=limit)
    items = [TurnItem.of(turn) for turn in said]
    return TurnPage(turns=items, next=items[-1].sequence if len(items) == limit else None)


@router.post("/sessions/{session}/turns")
async def add_turns(opened: WrittenConversations, session: str, body: NewTurns) -> TurnReports:
    """Append messages to a conversation and remember what was said, in one step; *used* are ids of an answer."""
    size = sum(len(message.text.encode(errors="replace")) for message in body.messages)
    async with opened.desk.taking(memories=len(body.messages), bytes=size):
        reports = await opened.memory.remember_turn(session, body.messages, namespace=opened.namespace, used=body.used)
    return TurnReports(reports=[ReportItem.of(report) for report in reports])


@router.get("/documents")
async def documents(desk: ReadingDesk, matching: str = "", collection: str | None = None) -> list[DocumentItem]:
    """List the documents that can be searched."""
    return [DocumentItem.of(info) for info in await desk.documents(matching, collection=collection)]


@router.post("/documents")
async def upload(
    opened: OpenedParameter,
    files: list[UploadFile],
    collection: str = "default",
    accept: Annotated[str, Header()] = "",
    prefer: Annotated[str, Header()] = "",
    *,
    request: Request,
) -> IngestAnswer:
    """Read uploaded files into the memory; a file of the same name takes the place of the former.

    Asked for ``text/event-stream``, it tells of each document as soon as it is read ("document"), and at last of all.
    With ``Prefer: respond-async`` (RFC 7240) it answers 202 with a job for each file, to be looked up under ``/jobs``.
    """
    given = [(file.filename or "upload", await file.read()) for file in files[:_MOST]]
    if "respond-async" in prefer:
        kept = await request.app.state.jobs.submit(opened, given, collection)
        return JSONResponse([JobItem.of(job).model_dump() for job in kept], 202)  # type: ignore[return-value]
    if "text/event-stream" in accept:
        return StreamingResponse(_upload_events(opened, given, collection), media_type="text/event-stream")  # type: ignore[return-value]
    lines = [line for name, data in given for line in await _read_file(opened, name, data, collection)]
    return IngestAnswer(documents=lines)


async def _read_file(opened: OpenedMemory, name: str, data: bytes, collection: str) -> list[dict[str, Any]]:
    async with opened.desk.taking(documents=1, bytes=len(data)):
        report = await opened.knowledge(collection).ingest_text(data, source=name)
    return [_line(line) for line in report.lines]


async def _upload_events(
    opened: OpenedMemory, files: Sequence[tuple[str, bytes]], collection: str
) -> AsyncIterator[str]:
    lines: list[dict[str, Any]] = []
    for place, (name, data) in enumerate(files, start=1):
        try:
            read = await _read_file(opened, name, data, collection)
        except Exception as error:  # the status is sent: the stream has to say it
            yield server_event("failed", {"source": name, "error": type(error).__name__})
            return
        lines += read
        for line in read:
            yield server_event("document", {**line, "done": place, "of": len(files)})
    yield server_event("ended", {"documents": lines})


@router.delete("/documents")
async def remove_document(opened: OpenedParameter, source: str, collection: str = "default") -> RemovedDocument:
    """Erase a document, by its source; reading its folder again does not bring it back."""
    return RemovedDocument(source=source, chunks=await opened.knowledge(collection).remove(source))


@router.post("/documents/ask")
async def ask_documents(opened: ReadOnly, body: DocumentQuestion) -> DocumentAnswer:
    """Answer a question by quotes from the documents, each with the place that it is from, best first."""
    bases = await opened.knowledge_bases(body.collection)
    found = [await base.retrieve(body.question, body.k) for base in bases]
    best = sorted((passage for passages in found for passage in passages), key=lambda passage: -passage.score)[: body.k]
    citations = await opened.knowledge().cite(body.question, best) if best else []
    confidence = max((passages.confidence for passages in found), default=0.0)
    doubts = [passages.abstain for passages in found]
    return DocumentAnswer(
        citations=[CitationItem.of(citation) for citation in citations],
        confidence=confidence,
        abstain=doubts[0] if doubts and None not in doubts else None,
    )


@router.post("/documents/url")
async def read_page(opened: OpenedParameter, body: UrlBody) -> IngestAnswer:
    """Read a public web page into the memory."""
    if opened.settings.offline:
        raise HTTPException(409, "no web page is read while offline is set")
    hosts = [host.strip() for host in opened.settings.web_hosts.split(",") if host.strip()]
    async with opened.desk.taking(documents=1):
        report = await opened.knowledge(body.collection).ingest_url(body.url, allowed_hosts=hosts)
    if failed := [line.reason for line in report.lines if line.action == IngestAction.FAILED]:
        raise HTTPException(422, "; ".join(failed))
    return IngestAnswer(documents=[_line(line) for line in report.lines])


@router.post("/chat")
async def chat(request: Request, opened: OpenedParameter, body: Prompt) -> StreamingResponse:
    """Answer a prompt as server-sent events; the turn is kept, and the last event says what of it.

    A request in plain words ("forget that …") is only proposed: the one event then is "plain_request".
    """
    served: ServedMemory = request.app.state.served
    async with opened.desk.taking(memories=1, bytes=len(body.text.encode())):
        pass  # the turn is stored within the stream, which has no status any more
    await served.assistant(opened)  # what cannot be opened is a problem, and no broken stream
    return StreamingResponse(chat_stream(served, opened, body.session, body.text), media_type="text/event-stream")


def _line(line: Any) -> dict[str, Any]:
    return {name: getattr(line, name) for name in ("source", "action", "reason", "chunks", "pending", "notes")}


def _object(name: str, text: str | None) -> dict[str, Any] | None:
    """Return the JSON object that the parameter *name* has as its *text*."""
    value = None if text is None else parsed_object(text)
    if value is None and text is not None:
        raise ArgumentError(name, text, "a JSON object is needed")
    return value


async def _one(desk: MemoryDesk, id: str) -> Memory:
    (memory,) = await desk.get([id])
    if memory is None:
        raise HTTPException(404, "no memory has this id")
    return memory
