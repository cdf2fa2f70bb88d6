"""Tools of the memory server: search and fetch, remember, recall, list, correct, forget, documents, profile.

A model's report of what the user said has a tool's trust. The user's words are changed or removed only after the user
agreed: asked by the client, or, where it cannot ask, by a second call with a token. With a token nobody has seen the
user agree; so a correction is then a new statement with a tool's trust that ends the old one, and forgotten memories
can be restored for a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, Field

from tellback.agent.context.memory_reader import NOT_SENSITIVE_FILTER
from tellback.agent.context.rendering import DATA_NOTE, render_items
from tellback.agent.context_items import ContextItem, item_from_hit, with_standing
from tellback.agent.errors import ToolFailed, shorten
from tellback.agent.mcp.call import ConfirmationTokens, McpCall
from tellback.agent.mcp.results import (
    ChangeResult,
    DocumentLine,
    DocumentList,
    FetchedDocument,
    MemoryItem,
    MemoryList,
    ProfileItem,
    RecalledMemories,
    SearchHit,
    SearchResults,
    StoredMemory,
    Topic,
    UserProfile,
)
from tellback.agent.short_ids import short_id
from tellback.agent.topics import AboutLine, nearest_topics, topics_note
from tellback.memory import Hit, KnowledgeBase, LongTermMemory, Memory, Trust
from tellback.memory.internals import ORIGIN, MemoryPage, Outcome, ProfileEntry, may_change
from tellback.vectorstore import Filter

MEMORY_ADDRESS = "tellback://memories/"
"""Beginning of the address of a memory, which is a resource of the server."""
_RESULT_CHARACTERS = 24_000
"""Characters of all texts of one result: about 6,000 tokens, below what clients warn about (10,000)."""
_ITEM_CHARACTERS = 4_000
_FETCH_CHARACTERS = 40_000
_TITLE_CHARACTERS = 100
_SHOWN_CONCERNED = 10
_RECENT = 10
_PER_TOPIC = 5
_GRACE = timedelta(days=7)
_LEAST_ID_CHARACTERS = 4

ListOrder: TypeAlias = Literal["newest", "oldest"]
MemoryIds: TypeAlias = Annotated[list[str], Field(min_length=1, max_length=50, description="Ids of memories.")]
FactText: TypeAlias = Annotated[
    str,
    Field(min_length=1, max_length=8_000, description="One fact in a sentence that is understood by itself."),
]
SearchText: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=4_000, description="What to look for, in plain words.")
]
PageCursor: TypeAlias = Annotated[
    str | None, Field(max_length=500, description="next_cursor of the page before; none for the first page.")
]
ConfirmToken: TypeAlias = Annotated[
    str | None,
    Field(max_length=100, description="Token of the first call, only after the user agreed to what it showed."),
]


@dataclass(frozen=True, slots=True)
class ToolReply:
    """Reply of a tool: its structured *output*, and its *text* for a model (None: the output as JSON)."""

    output: BaseModel
    text: str | None = None


@dataclass(frozen=True, slots=True)
class MemoryServerTools:
    """Functions of the tools over one *namespace* of *memory* with the documents of *knowledge*.

    Memories marked sensitive are shown only with *sensitive*. *within* selects the memories of the project in which the
    server runs, and those without a project; the others are found only by a recall with ``everywhere``.
    """

    memory: LongTermMemory
    knowledge: KnowledgeBase
    namespace: str = ""
    sensitive: bool = False
    within: Filter | None = None
    tokens: ConfirmationTokens = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", ConfirmationTokens.of(self.memory.tombstones.key))

    async def search(
        self, query: Annotated[str, Field(min_length=1, max_length=4_000, description="What to look for.")]
    ) -> ToolReply:
        """Search the user's memories and documents; returns ids with titles. Read one whole with fetch."""
        result = await self.memory.recall(query, 10, namespace=self.namespace, where=self._visible)
        hits = [
            SearchHit(id=item.id, title=_title(item), url=MEMORY_ADDRESS + item.id)
            for item in (item_from_hit(hit, 0) for hit in result)
        ]
        return ToolReply(SearchResults(results=hits))

    async def fetch(
        self, id: Annotated[str, Field(min_length=1, max_length=500, description="Id of a result of search.")]
    ) -> ToolReply:
        """Read a memory, or a passage of a document, whole. A long one comes in parts: metadata.next names the next."""
        (memory,), start = await self._shown([id]), 0
        name, _, offset = id.rpartition("#")
        if memory is None and name and offset.isascii() and offset.isdigit():
            (memory,), start = await self._shown([name]), int(offset[:9])
        if memory is None:
            raise ToolFailed(_unknown(id))
        item = item_from_hit(Hit(memory, 0.0), 0)
        text = memory.text[start : start + _FETCH_CHARACTERS]
        fields = {
            "source": item.source,
            "said_by": item.speaker or item.role,
            "date": item.date.isoformat(timespec="minutes") if item.date else "",
            "trust": item.trust,
            "client": _client_of(memory),
            "tags": ", ".join(memory.tags),
            "next": f"{memory.id}#{start + len(text)}" if start + len(text) < len(memory.text) else "",
            "note": DATA_NOTE,
        }
        metadata = {name: value for name, value in fields.items() if value}
        address = MEMORY_ADDRESS + memory.id
        return ToolReply(FetchedDocument(id=memory.id, title=_title(item), text=text, url=address, metadata=metadata))

    async def recall(
        self,
        query: SearchText,
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
        where = self._shared if everywhere else self._visible
        result = await self.memory.recall(
            query, limit, namespace=self.namespace, where=where, tags=tags or (), as_of=as_of
        )
        doubt = "; none of these may be about it" if result.abstain is not None and result else ""
        problem = "; a part of the search failed, so there may be more" if result.degraded else ""
        if not result:
            text = f"Nothing is remembered about this{problem}."
            return ToolReply(RecalledMemories(memories=[], note=text), text)
        items, note = self._items(list(result))
        text = render_items(
            _context_items(result, items),
            f"Memories found: {len(items)}{note}{doubt}{problem}. {DATA_NOTE}",
            by_id=True,
        )
        return ToolReply(RecalledMemories(memories=items, note=f"{DATA_NOTE}{note}{doubt}{problem}"), text)

    async def remember(
        self,
        text: FactText,
        call: McpCall,
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
        older = await self._changeable(replaces or ())
        if users := [memory.id for memory in older if not may_change("tool", memory)]:
            raise ToolFailed(
                f"Not stored: {users[0]} is the user's own word. Call correct with that id, which asks them."
            )
        note = self._note(
            text,
            call,
            tags=tuple(tags or ()),
            occurred_at=said_at,
            replaces=tuple(memory.id for memory in older),
            about=about or "",
        )
        report = await self.memory.remember(note, namespace=self.namespace)
        if report.outcome == Outcome.REJECTED:
            raise ToolFailed(f"Not stored: {report.reason}.")
        message = f"{report}: {report.id}."
        if report.replaced:
            message += f" Since then {', '.join(report.replaced)} holds no longer."
        if report.may_replace is not None:
            message += f" {report.may_replace} says otherwise; if it holds no longer, call correct with that id."
        nearest = await nearest_topics(
            self.memory, text, about or "", own=report.id, namespace=self.namespace, where=self._visible
        )
        topics = [Topic(id=memory.id, about=memory.about) for memory in nearest]
        note_on_topics = topics_note(((topic.id, topic.about) for topic in topics), described=bool(about))
        message = f"{message} {note_on_topics}".rstrip()
        output = StoredMemory(
            id=report.id,
            outcome=report.outcome.value,
            may_replace=report.may_replace,
            topics=topics,
            message=message,
        )
        return ToolReply(output, message)

    async def list_memories(
        self,
        limit: Annotated[int, Field(ge=1, le=100, description="How many on this page.")] = 20,
        cursor: PageCursor = None,
        order: Annotated[ListOrder, Field(description="By when it was said.")] = "newest",
        contains: Annotated[str | None, Field(max_length=200, description="Only texts with these letters.")] = None,
        tags: Annotated[list[str] | None, Field(max_length=20, description="Only memories with one of these.")] = None,
    ) -> ToolReply:
        """List memories by time, page by page. To find something, recall is better."""
        page = await self._page(limit, cursor, order, contains, tags)
        hits = [Hit(memory, 0.0) for memory in page]
        items, _ = self._items(hits)
        if len(items) < len(hits):  # the cursor is that behind the last one shown
            page = await self._page(len(items), cursor, order, contains, tags)
        more = f" The next page has the cursor {page.next}" if page.next else ""
        shown = render_items(_context_items(hits, items), f"Memories. {DATA_NOTE}{more}", by_id=True)
        text = shown or "No memory is here."
        return ToolReply(MemoryList(memories=items, next_cursor=page.next, note=DATA_NOTE), text)

    async def profile(self) -> ToolReply:
        """Read who the user is: what is pinned, known by topic, and said last. Good at the start of a conversation."""
        pinned = [memory for memory in await self.memory.pinned(namespace=self.namespace) if self._may_show(memory)]
        taken = {memory.id for memory in pinned}
        entries = await self.memory.profile(namespace=self.namespace, limit=_PER_TOPIC, where=self._visible)
        first: dict[str, ProfileEntry] = {}  # each memory once, under its first topic
        for entry in entries:
            if entry.memory.id not in taken:
                first.setdefault(entry.memory.id, entry)
        known = [*first.values()]
        taken |= first.keys()
        page = await self.memory.list(order="newest", limit=_RECENT, namespace=self.namespace, where=self._visible)
        recent = [memory for memory in page if memory.id not in taken and memory.is_evidence]
        hits = [Hit(memory, 0.0) for memory in (*pinned, *(entry.memory for entry in known), *recent)]
        items, _ = self._items(hits)
        shown, pinned_end, known_end = _context_items(hits, items), len(pinned), len(pinned) + len(known)
        parts = [
            render_items(shown[:pinned_end], f"Pinned memories. {DATA_NOTE}", by_id=True),
            render_items(
                [
                    replace(item, standing=_profile_standing(entry))
                    for item, entry in zip(shown[pinned_end:known_end], known, strict=False)
                ],
                f"Known about the user, by topic. {DATA_NOTE}",
                by_id=True,
            ),
            render_items(shown[known_end:], f"Newest memories. {DATA_NOTE}", by_id=True),
        ]
        text = "\n\n".join(part for part in parts if part) or "Nothing is remembered yet."
        lines = [
            ProfileItem(memory=item, subject=entry.subject, topic=entry.topic.value, until=entry.until)
            for item, entry in zip(items[pinned_end:known_end], known, strict=False)
        ]
        output = UserProfile(pinned=items[:pinned_end], known=lines, recent=items[known_end:], note=DATA_NOTE)
        return ToolReply(output, text)

    async def search_documents(
        self,
        query: SearchText,
        limit: Annotated[int, Field(ge=1, le=20, description="How many passages at most.")] = 5,
    ) -> ToolReply:
        """Search the user's documents alone; returns passages with document, page and section."""
        result = await self.memory.recall(
            query, limit, namespace=self.namespace, where=self._visible, partitions=("documents",)
        )
        items, note = self._items(list(result))
        shown = _context_items(result, items)
        text = render_items(shown, f"Passages found: {len(items)}{note}. {DATA_NOTE}", by_id=True)
        return ToolReply(
            RecalledMemories(memories=items, note=DATA_NOTE), text or "No document has anything about this."
        )

    async def list_documents(
        self,
        limit: Annotated[int, Field(ge=1, le=200, description="How many on this page.")] = 50,
        cursor: PageCursor = None,
    ) -> ToolReply:
        """List the documents that can be searched."""
        documents = sorted(await self.knowledge.documents(), key=lambda document: document.source)
        behind = [document for document in documents if cursor is None or document.source > cursor]
        lines = [
            DocumentLine(
                source=document.source,
                title=document.title,
                passages=document.chunks,
                ingested=document.ingested,
            )
            for document in behind[:limit]
        ]
        next_cursor = behind[limit - 1].source if len(behind) > limit else None
        return ToolReply(DocumentList(documents=lines, next_cursor=next_cursor))

    async def correct(
        self,
        id: Annotated[str, Field(min_length=1, max_length=500, description="Id of the memory.")],
        text: Annotated[str, Field(min_length=1, max_length=8_000, description="What holds instead, whole.")],
        call: McpCall,
        about: AboutLine = None,
        confirm: ConfirmToken = None,
    ) -> ToolReply:
        """Put right what a memory says, or what has changed since. The old version stays in its history.

        What the user said needs the user's agreement: asked by the client, or by a second call with the token.
        """
        (memory,) = await self._changeable([id])
        id = memory.id
        if may_change("tool", memory):
            report = await self.memory.correct(
                id, text, about=about, namespace=self.namespace, actor="tool", origin=call.client
            )
            return _done(f"Corrected {report.id}.", [report.id], report.operation)
        (item,), _ = self._items([Hit(memory, 0.0)])
        agreed = await call.ask(f"Replace what is remembered?\n\nNow: {item.text}\n\nThen: {text}")
        if agreed is False:
            return _declined()
        if agreed:
            report = await self.memory.correct(
                id, text, about=about, namespace=self.namespace, actor="tool", approved_by="user", origin=call.client
            )
            return _done(f"Corrected {report.id}; the user agreed.", [report.id], report.operation)
        subject = (self.namespace, f"{id}@{memory.revision}", text)
        if confirm is None or not self.tokens.is_valid(confirm, "correct", subject):
            return self._unconfirmed("correct", subject, [item], "Nothing was changed. This is the user's own word")
        note = self._note(text, call, tags=memory.tags, replaces=(id,), about=memory.about if about is None else about)
        report = await self.memory.remember(note, namespace=self.namespace, approved_by="user")
        if report.outcome == Outcome.REJECTED:
            raise ToolFailed(f"Not stored: {report.reason}.")
        return _done(
            f"Stored as {report.id}; {id} holds no longer, and stays in the history.", [report.id], report.operation
        )

    async def forget(self, ids: MemoryIds, call: McpCall, confirm: ConfirmToken = None) -> ToolReply:
        """Forget memories, and what repeats them. The user must agree to what goes: the client asks them, or a second
        call brings the token of the first."""
        ids = [memory.id for memory in await self._changeable(ids)]
        preview = await self.memory.forget(
            ids, namespace=self.namespace, dry_run=True, actor="tool", approved_by="user"
        )
        affected = sorted(preview.ids)
        if not affected:
            raise ToolFailed("Nothing of this is there any more.")
        concerned = [
            memory for memory in await self.memory.get(affected, namespace=self.namespace) if memory is not None
        ]
        items, _ = self._items([Hit(memory, 0.0) for memory in concerned[:_SHOWN_CONCERNED]])
        more = len(affected) - len(items)
        lines = [f"- {shorten(item.text, 300)}" for item in items] + ([f"- and {more} more"] if more > 0 else [])
        agreed = await call.ask("Forget this for good?\n\n" + "\n".join(lines))
        if agreed is False:
            return _declined()
        subject = [self.namespace, *(f"{memory.id}@{memory.revision}" for memory in concerned), *affected]
        if agreed is None and (confirm is None or not self.tokens.is_valid(confirm, "forget", subject)):
            return self._unconfirmed(
                "forget", subject, items, f"Nothing was forgotten. What would go: {len(affected)} in all"
            )
        receipt = await self.memory.forget(
            ids,
            namespace=self.namespace,
            grace=None if agreed else _GRACE,
            actor="tool",
            approved_by="user",
        )
        message = f"Forgotten: {', '.join(receipt.ids)}."
        if receipt.due is not None:
            message += (
                f" No answer shows them; the bytes go on {receipt.due:%d %B %Y}. Until then the user can take it back:"
                f" tellback undo {receipt.operation}"
            )
        return _done(message, list(receipt.ids), receipt.operation)

    def _note(
        self,
        text: str,
        call: McpCall,
        *,
        tags: tuple[str, ...] = (),
        occurred_at: datetime | None = None,
        replaces: tuple[str, ...] = (),
        about: str = "",
    ) -> Memory:
        return Memory(
            text,
            kind="note",
            tags=tags,
            trust=Trust.TOOL,
            actor="tool",
            occurred_at=occurred_at,
            replaces=replaces,
            about=about,
            metadata={ORIGIN: call.client} if call.client else {},
        )

    async def _page(
        self, limit: int, cursor: str | None, order: ListOrder, contains: str | None, tags: Sequence[str] | None
    ) -> MemoryPage:
        return await self.memory.list(
            order=order,
            after=cursor,
            limit=limit,
            namespace=self.namespace,
            where=self._visible,
            contains=contains or None,
            tags=tags or (),
        )

    @property
    def _shared(self) -> Filter | None:
        """Filter of the memories that a client may be shown."""
        return None if self.sensitive else NOT_SENSITIVE_FILTER

    @property
    def _visible(self) -> Filter | None:
        """Filter of the memories that are shown unless a recall asks for ``everywhere``."""
        filters = [chosen for chosen in (self._shared, self.within) if chosen is not None]
        return {"$and": filters} if len(filters) > 1 else next(iter(filters), None)

    def _may_show(self, memory: Memory) -> bool:
        return self.sensitive or not memory.sensitive

    async def _shown(self, ids: Sequence[str]) -> list[Memory | None]:
        """Return the memories that may be shown, None in the place of the others; see ``_whole_ids``."""
        memories = await self.memory.get(await self._whole_ids(ids), namespace=self.namespace)
        return [memory if memory is not None and self._may_show(memory) else None for memory in memories]

    async def _whole_ids(self, ids: Sequence[str]) -> list[str]:
        """Return *ids*, where one is but the end or beginning of a single id, as lists show people, with the whole."""
        whole = []
        for id, memory in zip(ids, await self.memory.get(ids, namespace=self.namespace), strict=True):
            part, at, revision = id.partition("@")
            is_part = memory is None and len(part) >= _LEAST_ID_CHARACTERS
            found = await self.memory.find_ids(part, namespace=self.namespace, limit=2) if is_part else []
            whole.append(found[0] + at + revision if len(found) == 1 else id)
        return whole

    async def _changeable(self, ids: Sequence[str]) -> list[Memory]:
        memories: list[Memory] = []
        for id, memory in zip(ids, await self._shown(ids), strict=True):
            if memory is None or not (memory.id.startswith(id) or memory.id.endswith(id)):
                raise ToolFailed(_unknown(id))
            if memory.source is not None and memory.source.document is not None:
                raise ToolFailed(
                    f"{id} is a passage of {memory.source.document}; change the file, and `tellback ingest` it again."
                )
            memories.append(memory)
        return memories

    def _items(self, hits: Sequence[Hit]) -> tuple[list[MemoryItem], str]:
        """Return as many *hits* as one result holds, as items with long texts cut, and a note on those left out."""
        items: list[MemoryItem] = []
        room = _RESULT_CHARACTERS
        for hit in hits:
            item, memory = item_from_hit(hit, 0), hit.memory
            text = memory.text if self._may_show(memory) else "(marked as sensitive)"
            shown = text if len(text) <= _ITEM_CHARACTERS else text[:_ITEM_CHARACTERS] + "…"
            if items and len(shown) > room:
                break
            room -= len(shown)
            items.append(
                MemoryItem(
                    id=memory.id,
                    text=shown,
                    source=item.where if item.source else "",
                    said_by=item.speaker or item.role,
                    date=item.date,
                    trust=item.trust,
                    client=_client_of(memory),
                    about=memory.about if self._may_show(memory) else "",
                    tags=list(memory.tags),
                    pinned=memory.pinned,
                    outdated_by=hit.outdated_by,
                    may_change=hit.later_than,
                    cut=shown != text,
                )
            )
        left = len(hits) - len(items)
        return items, f", {left} more left out because the result is long; ask for fewer" if left else ""

    def _unconfirmed(self, action: str, subject: Sequence[str], items: list[MemoryItem], begin: str) -> ToolReply:
        token = self.tokens.issue(action, subject)
        message = (
            f"{begin}. Show the user what it concerns and ask; only if they agree, call {action} again with the same "
            f"arguments and confirm={token}"
        )
        lines = "\n".join(f"- {short_id(item.id)}: {shorten(item.text, 300)}" for item in items)
        output = ChangeResult(done=False, message=message, confirm=token, concerned=items)
        return ToolReply(output, f"{message}\n\n{lines}")


def _profile_standing(entry: ProfileEntry) -> str:
    until = "" if entry.until is None else f", until {entry.until.day} {entry.until:%b %Y}"
    return f"{entry.subject}{' ' if entry.subject else ''}{entry.topic.value}{until}"


def _done(message: str, ids: list[str], operation: str | None) -> ToolReply:
    return ToolReply(ChangeResult(done=True, message=message, ids=ids, operation=operation), message)


def _declined() -> ToolReply:
    message = "The user did not agree; nothing was done. Do not try it again unless they ask for it."
    return ToolReply(ChangeResult(done=False, message=message), message)


def _unknown(id: str) -> str:
    return f"No memory has the id {shorten(id, 80)!r}; recall, search and list_memories show ids."


def _context_items(hits: Sequence[Hit], items: Sequence[MemoryItem]) -> list[ContextItem]:
    """Return the *hits* of *items* with the texts and short ids as they are shown, for a block of text."""
    shown = zip(hits, items, strict=False)
    whole = with_standing(
        [replace(item_from_hit(hit, 0), text=item.text, page_breaks=(), score=0.0) for hit, item in shown]
    )
    return [replace(item, id=short_id(item.id)) for item in whole]


def _title(item: ContextItem) -> str:
    words = shorten(" ".join(item.text.split()), _TITLE_CHARACTERS)
    outdated = "(outdated) " if item.outdated_by else ""
    return f"{outdated}{words} — {item.where}"


def _client_of(memory: Memory) -> str:
    return str(memory.metadata.get(ORIGIN, ""))
