"""Tools of the memory server: search and fetch, remember, recall, list, correct, forget, documents, profile.

They answer in text, as a client's model reads it: clients show a model either the text or the structured content of a
result, and the rules for memories as data stand in the text. Structured content is for programs: ids and tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field

from tellback.agent.context.rendering import DATA_NOTE, render_items
from tellback.agent.context_items import ContextItem, item_from_hit, with_standing
from tellback.agent.desk.consent import ClientProgram, Question
from tellback.agent.desk.desk import Change, MemoryDesk, Room
from tellback.agent.errors import ToolFailed, shorten
from tellback.agent.mcp.results import (
    ChangeResult,
    DocumentLine,
    DocumentList,
    FetchedDocument,
    SearchHit,
    SearchResults,
    ShownMemory,
    StoredMemory,
    Topic,
)
from tellback.agent.short_ids import short_id
from tellback.agent.topics import AboutLine, topics_note
from tellback.memory import Hit, LongTermMemory, Memory
from tellback.memory.internals import ORIGIN, Outcome, ProfileEntry
from tellback.vectorstore import Filter

MEMORY_ADDRESS = "tellback://memories/"
"""Beginning of the address of a memory, which is a resource of the server."""
_RESULT_CHARACTERS = 24_000
"""Characters of all texts of one result: about 6,000 tokens, below what clients warn about (10,000)."""
_ITEM_CHARACTERS = 4_000
_FETCH_CHARACTERS = 40_000
_TITLE_CHARACTERS = 100
_SHOWN_CONCERNED = 10
_QUESTION_CHARACTERS = 300
_UNNAMED = "mcp"
"""Client in the log of what was given, where it does not say its name."""

ListOrder: TypeAlias = Literal["newest", "oldest"]
MemoryIds: TypeAlias = Annotated[list[str], Field(min_length=1, max_length=50, description="Ids of memories.")]
FactText: TypeAlias = Annotated[
    str,
    Field(min_length=1, max_length=8_000, description="One fact in a sentence that is understood by itself."),
]
SearchText: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=4_000, description="What to look for, in plain words.")
]
PersonName: TypeAlias = Annotated[str, Field(min_length=1, max_length=200, description="The person's name.")]
PageCursor: TypeAlias = Annotated[
    str | None, Field(max_length=500, description="next_cursor of the page before; none for the first page.")
]
ConfirmToken: TypeAlias = Annotated[
    str | None,
    Field(max_length=100, description="Token of the first call, only after the user agreed to what it showed."),
]


@dataclass(frozen=True, slots=True)
class ToolReply:
    """Reply of a tool: its *text* for a model, and structured *output* for a program (None: the text says all).

    Without text, it is the output as JSON.
    """

    text: str | None = None
    output: BaseModel | None = None


@dataclass(frozen=True, slots=True)
class MemoryServerTools:
    """Functions of the tools over one *namespace* of *memory*, its documents among it.

    Memories marked sensitive are shown only with *sensitive*. *within* selects the memories of the project in which the
    server runs, and those without a project; the others are found only by a recall with ``everywhere``. Nothing is
    changed without *writes*; what is stored takes *room*.
    """

    memory: LongTermMemory
    namespace: str = ""
    sensitive: bool = False
    within: Filter | None = None
    writes: bool = True
    room: Room | None = None
    desk: MemoryDesk = field(init=False)

    def __post_init__(self) -> None:
        desk = MemoryDesk(
            memory=self.memory,
            namespace=self.namespace,
            sensitive=self.sensitive,
            within=self.within,
            room=self.room,
            ids_from="recall, search and list_memories show ids",
        )
        object.__setattr__(self, "desk", desk)

    async def search(
        self, query: Annotated[str, Field(min_length=1, max_length=4_000, description="What to look for.")]
    ) -> ToolReply:
        """Search the user's memories and documents; returns ids with titles. Read one whole with fetch."""
        result = await self.desk.recall(query, 10)
        hits = [
            SearchHit(id=item.id, title=_title(item), url=MEMORY_ADDRESS + item.id)
            for item in (item_from_hit(hit, 0) for hit in result)
        ]
        return ToolReply(output=SearchResults(results=hits))

    async def fetch(
        self, id: Annotated[str, Field(min_length=1, max_length=500, description="Id of a result of search.")]
    ) -> ToolReply:
        """Read a memory, or a passage of a document, whole. A long one comes in parts: metadata.next names the next."""
        (memory,), start = await self.desk.get([id]), 0
        name, _, offset = id.rpartition("#")
        if memory is None and name and offset.isascii() and offset.isdigit():
            (memory,), start = await self.desk.get([name]), int(offset[:9])
        if memory is None:
            raise self.desk.unknown(id)
        item = item_from_hit(Hit(memory, 0.0), 0)
        text = memory.text[start : start + _FETCH_CHARACTERS]
        fields = {
            "source": item.source,
            "said_by": item.speaker or item.role,
            "date": item.date.isoformat(timespec="minutes") if item.date else "",
            "trust": item.trust,
            "client": str(memory.metadata.get(ORIGIN, "")),
            "about": memory.about,
            "tags": ", ".join(memory.tags),
            "next": f"{memory.id}#{start + len(text)}" if start + len(text) < len(memory.text) else "",
            "note": DATA_NOTE,
        }
        metadata = {name: value for name, value in fields.items() if value}
        address = MEMORY_ADDRESS + memory.id
        document = FetchedDocument(id=memory.id, title=_title(item), text=text, url=address, metadata=metadata)
        return ToolReply(output=document)

    async def recall(
        self,
        query: SearchText,
        by: ClientProgram,
        limit: Annotated[int, Field(ge=1, le=30, description="How many memories at most.")] = 8,
        tags: Annotated[list[str] | None, Field(max_length=20, description="Only memories with one of these.")] = None,
        as_of: Annotated[datetime | None, Field(description="What held at this time, instead of now.")] = None,
        everywhere: Annotated[
            bool, Field(description="Also what was told in other projects; only if the user asks for it.")
        ] = False,
    ) -> ToolReply:
        """Recall what is known about something: what the user said, decided, likes, and their documents.

        Call it before answering about the user, their people, projects, plans or earlier conversations.
        """
        result = await self.desk.recall(query, limit, everywhere=everywhere, tags=tags or (), as_of=as_of)
        unwanted = await self.desk.not_useful(query, [hit.memory.id for hit in result])
        hits = [hit for hit in result if hit.memory.id not in unwanted]
        doubt = "; none of these may be about it" if result.abstain is not None and result else ""
        problem = "; a part of the search failed, so there may be more" if result.degraded else ""
        if not hits:
            return ToolReply(f"Nothing is remembered about this{problem}.")
        items, note = _items(hits)
        if self.writes:
            scores = {hit.memory.id: hit.score for hit in hits[: len(items)]}
            await self.desk.log_given(query, scores, client=by.origin or _UNNAMED)
        return ToolReply(_rendered(items, f"Memories found: {len(items)}{note}{doubt}{problem}"))

    async def remember(
        self,
        text: FactText,
        by: ClientProgram,
        about: AboutLine = None,
        replaces: Annotated[
            list[str] | None, Field(max_length=10, description="Ids of memories that hold no longer since this one.")
        ] = None,
        tags: Annotated[list[str] | None, Field(max_length=16, description="Words to find it by.")] = None,
        said_at: Annotated[
            datetime | None, Field(description="When it was said or happened, if that was not just now.")
        ] = None,
    ) -> ToolReply:
        """Keep a lasting fact, preference, decision or plan of the user for all later conversations.

        One fact a call, with names instead of pronouns and dates instead of "today". The same text twice is kept once.
        Give each a line about its topic, without the answer: it is found by it in other words. Two memories with the
        same line are of the same thing, and the newer one leads; the reply shows the nearest topics that are there.
        """
        note = Memory(text, tags=tuple(tags or ()), occurred_at=said_at, about=about or "")
        report = await self.desk.remember(by, note, replaces=replaces or ())
        if report.outcome == Outcome.REJECTED:
            raise ToolFailed(f"Not stored: {report.reason}.")
        headline = replace(report, replaced=(), may_replace=None, of=report.of and short_id(report.of))
        message = f"{headline}: {short_id(report.id)}."
        if report.replaced:
            message += f" Since then {', '.join(map(short_id, report.replaced))} holds no longer."
        if report.may_replace is not None:
            other = short_id(report.may_replace)
            message += f" {other} says otherwise; if it holds no longer, call correct with that id."
        message = f"{message} {topics_note((), described=bool(about))}".rstrip()
        nearest = await self.desk.topics(text, about or "", own=report.id)
        output = StoredMemory(
            id=report.id,
            outcome=report.outcome.value,
            may_replace=report.may_replace,
            topics=[Topic(id=memory.id, about=memory.about) for memory in nearest],
            message=message,
        )
        topics = topics_note(((short_id(topic.id), topic.about) for topic in output.topics), described=True)
        return ToolReply(f"{message} {topics}".rstrip(), output)

    async def list_memories(
        self,
        limit: Annotated[int, Field(ge=1, le=100, description="How many on this page.")] = 20,
        cursor: PageCursor = None,
        order: Annotated[ListOrder, Field(description="By when it was said.")] = "newest",
        contains: Annotated[str | None, Field(max_length=200, description="Only texts with these letters.")] = None,
        tags: Annotated[list[str] | None, Field(max_length=20, description="Only memories with one of these.")] = None,
    ) -> ToolReply:
        """List memories by time, page by page. To find something, recall is better."""
        chosen = {"contains": contains or None, "tags": tags or ()}
        page = await self.desk.page(order=order, after=cursor, limit=limit, **chosen)
        items, _ = _items([Hit(memory, 0.0) for memory in page])
        if len(items) < len(page):  # the cursor is that behind the last one shown
            page = await self.desk.page(order=order, after=cursor, limit=len(items), **chosen)
        more = f". The next page has the cursor {page.next}" if page.next else ""
        return ToolReply(_rendered(items, f"Memories{more}") or "No memory is here.")

    async def profile(self) -> ToolReply:
        """Read who the user is: what is pinned, known by topic, and said last. Good at the start of a conversation."""
        known = await self.desk.overview()
        every = [*known.pinned, *(entry.memory for entry in known.known), *known.recent]
        items, _ = _items([Hit(memory, 0.0) for memory in every])
        pinned_end, known_end = len(known.pinned), len(known.pinned) + len(known.known)
        by_topic = [
            replace(item, standing=_profile_standing(entry))
            for item, entry in zip(items[pinned_end:known_end], known.known, strict=False)
        ]
        parts = [
            _rendered(items[:pinned_end], "Pinned memories"),
            _rendered(by_topic, "Known about the user, by topic"),
            _rendered(items[known_end:], "Newest memories"),
        ]
        return ToolReply("\n\n".join(filter(None, parts)) or "Nothing is remembered yet.")

    async def people(self) -> ToolReply:
        """List the user's relatives: their names, what the user calls them, and which memory says so."""
        lines = [f"{one.name}: {one.role} ({short_id(one.memory.id)})" for one in await self.desk.people()]
        listed = "\n".join(lines)
        return ToolReply(f"{DATA_NOTE}\n{listed}" if lines else "No memory says who is whose relative.")

    async def name_person(
        self,
        name: PersonName,
        role: Annotated[str, Field(min_length=1, max_length=200, description='What the user calls them: "my wife".')],
        by: ClientProgram,
        instead_of: Annotated[
            str | None, Field(max_length=200, description="A name that is wrong for that role, as people has it.")
        ] = None,
    ) -> ToolReply:
        """Keep the name of a relative of the user, or put a wrong one right. One name with two roles is one person."""
        report = await self.desk.add_person(by, name, role, instead_of=instead_of or "")
        if report.outcome == Outcome.REJECTED:
            raise ToolFailed(f"Not stored: {report.reason}.")
        return _done(f"{name} is {role}.", [report.id], None)

    async def split_person(
        self,
        name: PersonName,
        role: Annotated[str, Field(min_length=1, max_length=200, description="The role as people has it.")],
        by: ClientProgram,
    ) -> ToolReply:
        """Take back that a person is the user's relative of that role; the memory that said so stays."""
        operation = await self.desk.split_person(by, name, role)
        return _done(f"{name} is no longer {role}.", [], operation.id)

    async def search_documents(
        self,
        query: SearchText,
        limit: Annotated[int, Field(ge=1, le=20, description="How many passages at most.")] = 5,
    ) -> ToolReply:
        """Search the user's documents alone; returns passages with document, page and section."""
        items, note = _items(await self.desk.recall(query, limit, partitions=("documents",)))
        return ToolReply(
            _rendered(items, f"Passages found: {len(items)}{note}") or "No document has anything about this."
        )

    async def list_documents(
        self,
        limit: Annotated[int, Field(ge=1, le=200, description="How many on this page.")] = 50,
        cursor: PageCursor = None,
    ) -> ToolReply:
        """List the documents that can be searched."""
        placed = {f"{found.collection}/{found.source}": found for found in await self.desk.documents()}
        behind = [place for place in sorted(placed) if cursor is None or place > cursor]
        lines = [
            DocumentLine(
                source=document.source,
                title=document.title,
                passages=document.chunks,
                ingested=document.ingested,
                collection=document.collection,
            )
            for document in map(placed.__getitem__, behind[:limit])
        ]
        next_cursor = behind[limit - 1] if len(behind) > limit else None
        return ToolReply(output=DocumentList(documents=lines, next_cursor=next_cursor))

    async def correct(
        self,
        id: Annotated[str, Field(min_length=1, max_length=500, description="Id of the memory.")],
        text: Annotated[str, Field(min_length=1, max_length=8_000, description="What holds instead, whole.")],
        by: ClientProgram,
        about: AboutLine = None,
        confirm: ConfirmToken = None,
    ) -> ToolReply:
        """Put right what a memory says, or what has changed since. The old version stays in its history.

        What the user said needs the user's agreement: asked by the client, or by a second call with the token.
        """
        change = await self.desk.correct(by, id, text, about=about, confirm=confirm)
        if change.report is None:
            return self._not_done("correct", change, "Nothing was changed. This is the user's own word")
        report = change.report
        if report.outcome == Outcome.REJECTED:
            raise ToolFailed(f"Not stored: {report.reason}.")
        message = f"Corrected {short_id(report.id)}."
        if change.ended is not None:
            message = (
                f"Stored as {short_id(report.id)}; {short_id(change.ended)} holds no longer, and stays in the history."
            )
        return _done(message, [report.id], report.operation)

    async def forget(self, ids: MemoryIds, by: ClientProgram, confirm: ConfirmToken = None) -> ToolReply:
        """Forget memories, and what repeats them. The user must agree to what goes: the client asks them, or a second
        call brings the token of the first."""
        change = await self.desk.forget(by, ids, confirm=confirm)
        receipt = change.receipt
        if receipt is None or not receipt.ids:
            raise ToolFailed("Nothing of this is there any more.")
        if not change.done:
            plan = f"Nothing was forgotten. What would go: {len(receipt.ids)} in all"
            return self._not_done("forget", change, plan)
        message = f"Forgotten: {', '.join(map(short_id, receipt.ids))}."
        if receipt.due is not None:
            message += (
                f" No answer shows them; the bytes go on {receipt.due:%d %B %Y}. Until then the user can take it back:"
                f" tellback undo {receipt.operation}"
            )
        return _done(message, list(receipt.ids), receipt.operation)

    def question(self, question: Question) -> str:
        """Return *question* as the person at the client reads it."""
        if question.change == "correct":
            (shown,) = self._shown(question.memories)
            return f"Replace what is remembered?\n\nNow: {shown.text}\n\nThen: {question.text}"
        lines = [f"- {shorten(item.text, _QUESTION_CHARACTERS)}" for item in self._shown(question.memories)]
        more = len(question.memories) - len(lines)
        return "\n".join(["Forget this for good?\n", *lines, *([f"- and {more} more"] if more > 0 else [])])

    def _not_done(self, action: str, change: Change, begin: str) -> ToolReply:
        """Return the reply to a change that the user did not agree to, or has to agree to first."""
        if change.declined:
            message = "The user did not agree; nothing was done. Do not try it again unless they ask for it."
            return ToolReply(message, ChangeResult(done=False, message=message))
        message = (
            f"{begin}. Show the user what it concerns and ask; only if they agree, call {action} again with the same "
            f"arguments and confirm={change.token}"
        )
        items = self._shown(change.concerned)
        lines = "\n".join(f"- {short_id(item.id)}: {shorten(item.text, _QUESTION_CHARACTERS)}" for item in items)
        output = ChangeResult(done=False, message=message, confirm=change.token, concerned=items)
        return ToolReply(f"{message}\n\n{lines}", output)

    def _shown(self, memories: Sequence[Memory]) -> list[ShownMemory]:
        """Return the first of *memories* as they are shown before a change."""
        return [
            ShownMemory(
                id=memory.id,
                text=_cut(memory.text) if self.desk.may_show(memory) else "(marked as sensitive)",
            )
            for memory in memories[:_SHOWN_CONCERNED]
        ]


def _done(message: str, ids: list[str], operation: str | None) -> ToolReply:
    return ToolReply(message, ChangeResult(done=True, message=message, ids=ids, operation=operation))


def _profile_standing(entry: ProfileEntry) -> str:
    until = "" if entry.until is None else f", until {entry.until.day} {entry.until:%b %Y}"
    return f"{entry.subject}{' ' if entry.subject else ''}{entry.topic.value}{until}"


def _cut(text: str) -> str:
    return text if len(text) <= _ITEM_CHARACTERS else text[:_ITEM_CHARACTERS] + "… (cut; fetch gives it whole)"


def _items(hits: Sequence[Hit]) -> tuple[list[ContextItem], str]:
    """Return as many *hits* as one result holds, with long texts cut, and a note on those left out."""
    items: list[ContextItem] = []
    room = _RESULT_CHARACTERS
    for hit in hits:
        text = _cut(hit.memory.text) if not hit.passage else f"{hit.passage} … (a passage; fetch gives the whole)"
        if items and len(text) > room:
            break
        room -= len(text)
        items.append(replace(item_from_hit(hit, 0), text=text, page_breaks=(), score=0.0))
    left = len(hits) - len(items)
    note = f", {left} more left out because the result is long; ask for fewer" if left else ""
    return [replace(item, id=short_id(item.id)) for item in with_standing(items)], note


def _rendered(items: Sequence[ContextItem], heading: str) -> str:
    return render_items(items, f"{heading}. {DATA_NOTE}", by_id=True)


def _title(item: ContextItem) -> str:
    words = shorten(" ".join(item.text.split()), _TITLE_CHARACTERS)
    outdated = "(outdated) " if item.outdated_by else ""
    return f"{outdated}{words} — {item.where}"
