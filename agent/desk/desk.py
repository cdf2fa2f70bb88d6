"""Desk of one namespace of a memory: what may be seen there, and what is done to it after whose consent.

The agent's tools, the MCP server, the command line and HTTP are its callers. They differ in who asks (``consent``) and
in how they show what comes back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, Unpack

from tellback.agent.desk.consent import ClientProgram, ConfirmationTokens, Person, Question, Requester, document_of
from tellback.agent.errors import ToolFailed, shorten
from tellback.memory import ArgumentError, Memory, NoSuchMemory, Receipt, Trust
from tellback.memory.internals import ORIGIN, analyze_text, run_in_thread

if TYPE_CHECKING:
    from tellback.memory import LongTermMemory, RecallOptions, RecallResult, Report
    from tellback.memory.internals import (
        Actor,
        Conflict,
        DocumentInfo,
        KnownPerson,
        MemoryHistory,
        MemoryPage,
        Operation,
        Profile,
        ProfileEntry,
        SessionInfo,
        StoredMessage,
        WhyNot,
    )
    from tellback.vectorstore import Filter

_LEAST_ID_CHARACTERS = 4
_RECENT = 10
_CALLED = {("mein", "unser"): "hei\u00dft", ("mi ", "nuestr"): "se llama", ("mon ", "ma "): "s'appelle"}
"""Verb of a name, by the beginnings of what stands before the kin word."""
_PER_TOPIC = 5
_SEARCHED_HITS = 50
_LEAST_SHARE = 0.5
"""Share of the best score that a memory has of which a conversation is found."""
ListOrder: TypeAlias = Literal["newest", "oldest", "id"]
DocumentOrder: TypeAlias = Literal["newest", "modified", "name", "chunks"]
Mark: TypeAlias = Literal[
    "pin", "unpin", "disable", "enable", "promote", "demote", "tag", "untag", "set_importance", "expire"
]
MARK_VALUES: Final = {"tag": "tags", "untag": "tags", "set_importance": "importance", "expire": "at"}
"""Names of the values that marks take."""


@dataclass(frozen=True, slots=True)
class Change:
    """Outcome of a correction or a forgetting: *done*, or not.

    - *concerned* are the memories it is about; *declined*: a person said no; *token*: the second call needs it, once a
      person agreed to what was shown.
    - Of a correction there is a *report*; *ended* is the memory that holds no longer, where a new one took its place.
    - Of a forgetting there is a *receipt*: as long as it is not done, that of what would go.
    """

    done: bool = False
    concerned: Sequence[Memory] = ()
    declined: bool = False
    token: str | None = None
    report: Report | None = None
    ended: str | None = None
    receipt: Receipt | None = None


@dataclass(frozen=True, slots=True)
class ProfileOverview:
    """The user at a glance: *pinned* memories, the *known* by topic, and the *recent*; each memory once."""

    pinned: Sequence[Memory]
    known: Sequence[ProfileEntry]
    recent: Sequence[Memory]


class Room(Protocol):
    """Room that a quota leaves in a namespace."""

    def taking(self, **more: int) -> AbstractAsyncContextManager[None]:
        """Open a block in which *more* "memories", "documents" or "bytes" are stored; raises where no room is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDesk:
    """Desk of *namespace* of *memory*.

    Memories marked sensitive are seen only with *sensitive*. *within* selects the memories of the project of a caller;
    the others are seen only *everywhere*. *ids_from* tells in an error where ids are shown. What is stored takes
    *room*.
    """

    memory: LongTermMemory
    namespace: str = ""
    sensitive: bool = False
    within: Filter | None = None
    ids_from: str = ""
    room: Room | None = None

    def taking(self, **more: int) -> AbstractAsyncContextManager[None]:
        """As ``Room.taking``; without a quota there is room for everything."""
        return nullcontext() if self.room is None else self.room.taking(**more)

    def visible(self, *more: Filter | None, everywhere: bool = False) -> Filter | None:
        """Return the filter of what is seen here, and passes *more*; *everywhere*: also of other projects."""
        filters = [chosen for chosen in (None if everywhere else self.within, *more) if chosen is not None]
        if not self.sensitive:
            from tellback.agent.agent_memory import NOT_SENSITIVE_FILTER

            filters.append(NOT_SENSITIVE_FILTER)
        return {"$and": filters} if len(filters) > 1 else next(iter(filters), None)

    def may_show(self, memory: Memory) -> bool:
        """Return whether the words of *memory* may be shown."""
        return self.sensitive or not memory.sensitive

    async def recall(
        self, question: str, k: int = 10, *, everywhere: bool = False, **options: Unpack[RecallOptions]
    ) -> RecallResult:
        """Return what is known about *question*; *options* are those of ``LongTermMemory.recall``."""
        options["where"] = self.visible(options.get("where"), everywhere=everywhere)
        options["namespace"] = self.namespace
        return await self.memory.recall(question, k, **options)

    async def why_not(self, question: str, id: str, k: int = 10, **options: Unpack[RecallOptions]) -> WhyNot:
        """Say why *question* does not find the memory *id*, which must be one that may be shown."""
        (memory,) = await self.get([id])
        if memory is None:
            raise NoSuchMemory(id)
        options["namespace"] = self.namespace
        return await self.memory.why_not(question, memory.id, k, **options)

    async def history(self, id: str) -> MemoryHistory:
        """Return the versions of a memory that may be shown, the newest first, and what was done to it."""
        found = await self.memory.history(id, namespace=self.namespace)
        shown = [version for version in found if self.may_show(version)]
        if not shown:
            raise NoSuchMemory(id)
        return replace(found, versions=tuple(shown))

    async def not_useful(self, prompt: str, ids: Sequence[str]) -> frozenset[str]:
        """Return those of *ids* that were marked as not useful to prompts of the kind of *prompt*."""
        marked: frozenset[str] = await run_in_thread(partial(self.memory.given.not_useful, self.namespace, prompt, ids))
        return marked

    async def log_given(self, prompt: str, scores: Mapping[str, float], *, client: str, session: str = "") -> None:
        """Log that *prompt*, without its secrets, was given the memories with *scores*; nothing is logged of none."""
        if scores:
            words = self.memory.redacted(prompt)
            record = partial(self.memory.given.record, client=client, session=session, prompt=words)
            await run_in_thread(partial(record, self.namespace, scores))

    async def get(self, ids: Sequence[str]) -> list[Memory | None]:
        """Return memories that may be shown, None for the others; the end or beginning of a single id stands for it."""
        found = await self._find(ids)
        return [memory if memory is not None and self.may_show(memory) else None for memory in found]

    async def _find(self, ids: Sequence[str]) -> Sequence[Memory | None]:
        whole = []
        for id, memory in zip(ids, await self.memory.get(ids, namespace=self.namespace), strict=True):
            part, at, revision = id.partition("@")
            is_part = memory is None and len(part) >= _LEAST_ID_CHARACTERS
            found = await self.memory.find_ids(part, namespace=self.namespace, limit=2) if is_part else []
            whole.append(found[0] + at + revision if len(found) == 1 else id)
        return await self.memory.get(whole, namespace=self.namespace)

    async def page(
        self, *, order: ListOrder = "newest", after: str | None = None, limit: int = 20, **filters: Any
    ) -> MemoryPage:
        """Return a page of memories; *filters* are those of ``LongTermMemory.list``."""
        return await self.memory.list(order=order, after=after, limit=limit, **self._narrowed(filters))

    async def count(self, **filters: Any) -> int:
        """Count the memories that *filters* select."""
        return await self.memory.count(**self._narrowed(filters))

    def _narrowed(self, filters: dict[str, Any]) -> dict[str, Any]:
        return {**filters, "where": self.visible(filters.get("where")), "namespace": self.namespace}

    async def profile(
        self, limit: int = _PER_TOPIC, *, attributes: bool = False, where: Filter | None = None
    ) -> Profile:
        """Return what is known about the user by topic, as ``LongTermMemory.profile``."""
        visible = self.visible(where)
        return await self.memory.profile(namespace=self.namespace, limit=limit, attributes=attributes, where=visible)

    async def overview(self) -> ProfileOverview:
        """Return the user at a glance."""
        pinned = [memory for memory in await self.memory.pinned(namespace=self.namespace) if self.may_show(memory)]
        known: dict[str, ProfileEntry] = {}  # each memory once, under its first topic
        for entry in await self.profile():
            known.setdefault(entry.memory.id, entry)
        for memory in pinned:
            known.pop(memory.id, None)
        taken = {*known, *(memory.id for memory in pinned)}
        page = await self.page(limit=_RECENT)
        recent = [memory for memory in page if memory.id not in taken and memory.is_evidence]
        return ProfileOverview(pinned, [*known.values()], recent)

    async def conflicts(self, limit: int = 100) -> Sequence[Conflict]:
        """Return statements that contradict one another."""
        found = await self.memory.conflicts(namespace=self.namespace, limit=limit)
        return [conflict for conflict in found if all(map(self.may_show, conflict.memories))]

    async def settle(self, ids: Sequence[str], keep: str) -> Operation:
        """Let one of contradicting memories hold."""
        return await self.memory.settle(ids, keep=keep, namespace=self.namespace)

    async def people(self) -> list[KnownPerson]:
        """Return who is whose relative, the newest first, as memories say that may be shown."""
        return list(await self.memory.people(namespace=self.namespace, where=self.visible()))

    async def add_person(self, by: Requester, name: str, role: str, *, instead_of: str = "") -> Report:
        """Remember that the user's relative whom they call *role* ("my wife") has this *name*.

        Said of one person with another role, it makes them one person with both; *instead_of* is a name that is wrong.
        """
        if instead_of:
            await self.split_person(by, instead_of, role)
        return await self.remember(by, Memory(_relation_sentence(name, role)))

    async def split_person(self, by: Requester, name: str, role: str) -> Operation:
        """Take back that the person *name* is the user's *role*, by a tag of each memory that says so."""
        wanted = role.casefold().removeprefix("my ")
        people = [
            one
            for one in await self.people()
            if one.name.casefold() == name.casefold() and wanted in (one.kin, one.role.casefold().removeprefix("my "))
        ]
        if not people:
            known = "; ".join(f"{one.name}, {one.role}" for one in await self.people()) or "nobody"
            raise ArgumentError("name", f"{name}, {role}", f"one of the people is needed: {known}")
        memories = [one.memory for one in people]
        if by.permission("correct", memories) is None:
            question = Question("correct", memories[:1], f"{people[0].name} is not {people[0].role}.")
            if not await by.ask(question):
                raise ToolFailed("Nothing was changed: it is the user's own word, and they did not agree.")
        operation = await self.mark("tag", [memory.id for memory in memories], [people[0].split_tag])
        assert operation is not None, "a relation that is listed has no tag"
        return operation

    async def documents(
        self, matching: str = "", *, order: DocumentOrder = "newest", collection: str | None = None
    ) -> list[DocumentInfo]:
        """Return the documents with *matching* in name or title, of one *collection* or of all."""
        from tellback.memory import KnowledgeBase

        bases = [KnowledgeBase(self.memory, namespace=self.namespace, collection=collection or "default")]
        if collection is None:
            names = await bases[0].collections()
            bases = [KnowledgeBase(self.memory, namespace=self.namespace, collection=name) for name in names]
        every = [info for base in bases for info in await base.documents()]
        wanted = matching.casefold()
        chosen = [info for info in every if wanted in info.source.casefold() or wanted in info.title.casefold()]
        chosen.sort(key=lambda info: info.source)
        if order == "chunks":
            chosen.sort(key=lambda info: -info.chunks)
        elif order != "name":
            field = "ingested" if order == "newest" else order
            chosen.sort(key=lambda info: _seconds(getattr(info, field)), reverse=True)
        return chosen

    async def sessions(self, about: str = "", limit: int | None = None) -> Sequence[SessionInfo]:
        """Return conversations, the newest first; or those called so, and then those with memories *about* it."""
        if not about:
            return await self.memory.conversations.sessions(namespace=self.namespace, limit=limit)
        sessions = await self.memory.conversations.sessions(namespace=self.namespace)
        by_id, wanted = {info.session: info for info in sessions}, about.casefold()
        named = [one.session for one in sessions if wanted in f"{one.session}\n{one.title}\n{one.begins}".casefold()]
        recalled = await self.recall(about, _SEARCHED_HITS, all_utterances=True)
        least = recalled.hits[0].score * _LEAST_SHARE if recalled.hits and recalled.abstain is None else inf
        found = [hit.memory.session for hit in recalled if hit.memory.session is not None and hit.score >= least]
        return [by_id[id] for id in dict.fromkeys((*named, *found)) if id in by_id][:limit]

    async def turns(self, session: str, *, after: int = 0, limit: int = 100) -> Sequence[StoredMessage]:
        """Return the messages of a conversation, oldest first, those numbered above *after*, *limit* at most."""
        messages = await self.memory.conversations.load(session, namespace=self.namespace, after=after)
        return messages[:limit]

    async def remember(self, by: Requester, memory: Memory, *, replaces: Sequence[str] = ()) -> Report:
        """Store *memory*, and end those that it *replaces*; what a model stores has the trust of its words."""
        older = await self.changeable(by, replaces)
        permission = by.permission("replace", older) if older else None
        return await self._store(by, memory, older, None if permission is None else permission.approved_by)

    async def _store(self, by: Requester, memory: Memory, older: Sequence[Memory], approved_by: Actor | None) -> Report:
        note = replace(memory, replaces=tuple(found.id for found in older))
        if not isinstance(by, Person):
            told_by = {ORIGIN: by.origin} if by.origin else {}
            note = replace(note, kind="note", actor=by.actor, trust=Trust(by.actor), metadata=told_by)
        async with self.taking(memories=1, bytes=len(note.text.encode())):
            return await self.memory.remember(note, namespace=self.namespace, approved_by=approved_by)

    async def topics(self, text: str, about: str, *, own: str) -> Sequence[Memory]:
        """Return the memories with a line that are nearest to the memory *own* of *text* and its line *about*."""
        from tellback.agent.topics import nearest_topics

        return await nearest_topics(self.memory, text, about, own=own, namespace=self.namespace, where=self.visible())

    async def correct(
        self, by: Requester, id: str, text: str, *, about: str | None = None, confirm: str | None = None, **fields: Any
    ) -> Change:
        """Put *text* in the place of the memory *id*; *fields* are further ones of ``LongTermMemory.correct``.

        What needs a person's consent is asked, or confirmed by the token of an earlier call: *confirm*. A token shows
        nobody's agreement, so the text is then a new memory of the requester's trust, which ends the old one.
        """
        (memory,) = await self.changeable(by, [id])
        permission = by.permission("correct", [memory])
        if permission is None:
            agreed = await by.ask(Question("correct", [memory], text))
            permission = by.agreed
            subject = (self.namespace, f"{memory.id}@{memory.revision}", text)
            if agreed is None and not self._is_confirmed(confirm, "correct", subject):
                return Change(concerned=[memory], token=self.tokens.issue("correct", subject))
            if agreed is None:
                new = Memory(text, tags=memory.tags, about=memory.about if about is None else about)
                report = await self._store(by, new, [memory], "user")
                return Change(done=bool(report.replaced), concerned=[memory], report=report, ended=memory.id)
            if not agreed:
                return Change(concerned=[memory], declined=True)
        fields |= {"about": about, "origin": by.origin, "namespace": self.namespace}
        fields |= {"actor": permission.actor, "approved_by": permission.approved_by}
        async with self.taking(bytes=len(text.encode())):  # the old version stays
            report = await self.memory.correct(memory.id, text, **fields)
        return Change(done=True, concerned=[memory], report=report)

    async def forget(
        self,
        by: Requester,
        ids: Sequence[str] | None = None,
        *,
        everything: bool = False,
        dry_run: bool = False,
        confirm: str | None = None,
        grace: timedelta | None = None,
        remove_backups: bool = False,
        **selectors: Any,
    ) -> Change:
        """Forget memories with all that repeats them, after a person agreed to what goes; *confirm* as in ``correct``.

        Without *ids*, *selectors* of ``LongTermMemory.forget`` choose, or *everything* of the namespace goes. With
        *dry_run*, or where nothing would go, nothing is done.
        """
        named = [] if isinstance(by, Person) else await self.changeable(by, ids or ())
        permission = by.permission("forget", named)
        allowed = permission or by.agreed
        chosen = [memory.id for memory in named] or ids  # a person's are passed on: one may be forgotten already

        def call(**how: Any) -> Awaitable[Receipt]:
            how |= {"actor": allowed.actor, "approved_by": allowed.approved_by}
            if everything:
                return self.memory.forget_namespace(self.namespace, **how)
            return self.memory.forget(chosen, namespace=self.namespace, **selectors, **how)

        plan = await call(dry_run=True)
        if permission is not None:
            # What says the same goes with it: a note that repeats the user's words must not be a way to erase them.
            by.permission("forget", await self._known([*plan.derived, *plan.also]), of="what would go with it")
        if dry_run or not (plan.ids or plan.messages or plan.versions):
            return Change(receipt=plan)
        if permission is None:
            concerned = await self._known(sorted(plan.ids))
            agreed = await by.ask(Question("forget", concerned, plan=plan))
            counts = f"{plan.messages} {plan.versions} {everything}"
            revisions = (f"{memory.id}@{memory.revision}" for memory in concerned)
            subject = [self.namespace, counts, *revisions, *sorted(plan.ids)]
            if agreed is False:
                return Change(concerned=concerned, declined=True, receipt=plan)
            if agreed is None and not self._is_confirmed(confirm, "forget", subject):
                return Change(concerned=concerned, token=self.tokens.issue("forget", subject), receipt=plan)
            grace = by.unseen_grace if agreed is None and grace is None else grace
        lasting: dict[str, Any] = {"remove_backups": remove_backups} if remove_backups else {}
        if grace is not None:
            lasting["grace"] = grace
        return Change(done=True, receipt=await call(**lasting))

    async def undo(self, operation: str) -> Operation:
        """Take back an operation, also a forgetting in its time of grace."""
        return await self.memory.undo(operation, namespace=self.namespace)

    async def operations(
        self, *, memory: str | None = None, before: str | None = None, limit: int = 100
    ) -> Sequence[Operation]:
        """Return what was done, the newest first."""
        return await self.memory.operations(memory=memory, before=before, limit=limit, namespace=self.namespace)

    async def mark(self, mark: Mark, ids: Sequence[str], *values: object) -> Operation | None:
        """Set a mark, tags, the weight or the end of memories, with *values*; None: there was nothing to change."""
        change: Awaitable[Operation | None] = getattr(self.memory, mark)(ids, *values, namespace=self.namespace)
        return await change

    @property
    def tokens(self) -> ConfirmationTokens:
        """Tokens of this memory, the same in all processes."""
        return ConfirmationTokens.of(self.memory.tombstones.key)

    def _is_confirmed(self, token: str | None, action: str, subject: Sequence[str]) -> bool:
        return token is not None and self.tokens.is_valid(token, action, subject)

    def unknown(self, id: str) -> ToolFailed:
        """Return the error of an *id* that names nothing here."""
        return ToolFailed(f"No memory has the id {shorten(id, 80)!r}; {self.ids_from}.")

    async def changeable(self, by: Requester, ids: Sequence[str]) -> list[Memory]:
        """Return the memories *ids*, which *by* wants changed; a client's model names those alone that it is shown."""
        memories: list[Memory] = []
        for id, memory in zip(ids, await self._find(ids) if ids else (), strict=True):
            if memory is None or not (memory.id.startswith(id) or memory.id.endswith(id)):
                raise NoSuchMemory(id) if isinstance(by, Person) else self.unknown(id)
            if isinstance(by, ClientProgram):
                if not self.may_show(memory):
                    raise self.unknown(id)
                if (document := document_of(memory)) is not None:
                    change = "change the file, and `tellback ingest` it again"
                    raise ToolFailed(f"{id} is a passage of {document}; {change}.")
            memories.append(memory)
        return memories

    async def _known(self, ids: Sequence[str]) -> list[Memory]:
        return [memory for memory in await self.memory.get(ids, namespace=self.namespace) if memory is not None]


def _relation_sentence(name: str, role: str) -> str:
    """Return the sentence by which the user's *role* has this *name*: "My wife is called Lena."."""
    name, role = " ".join(name.split()), " ".join(role.split())
    verb = next((verb for owners, verb in _CALLED.items() if role.lower().startswith(owners)), "is called")
    sentence = f"{role[:1].upper()}{role[1:]} {verb} {name}."
    if [relation.name.lower() for relation in analyze_text(sentence).relations] != [name.lower()]:
        expected = 'a word for a relative and a name are needed, such as "my wife" and "Lena"'
        raise ArgumentError("role", f"{role}, {name}", expected)
    return sentence


def _seconds(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()
