"""The part of long-term memory's face that changes what is kept: correct, mark, end, merge, undo, and what was done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from memory.erasure.grace import restore_forgotten
from memory.errors import ArgumentError, translating
from memory.listed import History
from memory.records import Actor, Operation, Report
from memory.times import aware, offset_of, to_text
from memory.write import correcting, ending, marking, merging, undoing
from memory.write.checking import importance_given, name, names, whole
from memory.write.context import WriteContext
from memory.write.versions import all_versions
from vectorstore import Metadata


@translating
class Revising:
    """What ``LongTermMemory`` does to memories that are there. Every call is an operation in the log.

    Marks (pin, disable, tag, importance, expiry) are changed in place: text, vector and validity stay, there is no
    new version, and all of *ids* are changed or none. They return None where nothing differed and nothing was done.
    An unknown id raises ``NoSuchMemory``; an *actor* that is trusted less than a memory, unless one who is trusted
    enough *approved* it, ``NotTrusted``.
    """

    _context: WriteContext

    async def correct(
        self,
        id: str,
        text: str,
        *,
        namespace: str = "",
        valid_from: datetime | None = None,
        valid_to: datetime | None = None,
        expect: int | None = None,
        sensitive: bool = False,
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Report:
        """Put *text* in the place of a memory's; the old version goes to the archive, the id stays.

        *sensitive* marks it, as ``Memory.sensitive`` does what is remembered; what was marked stays so.
        An unknown id raises ``NoSuchMemory``, a policy that says no ``RejectedText``. *expect*: the
        revision that is to be corrected; another one raises ``RevisionConflict``. An *actor* who is trusted less
        than the memory raises ``NotTrusted``, unless it is *approved_by* one who is trusted enough.
        """
        return await correcting.correct(
            self._context,
            id,
            text,
            namespace,
            valid_from=valid_from,
            valid_to=valid_to,
            expect=expect,
            sensitive=sensitive,
            actor=actor,
            approved_by=approved_by,
        )

    async def merge(
        self,
        ids: Sequence[str],
        text: str,
        *,
        namespace: str = "",
        sensitive: bool = False,
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Report:
        """Make one memory of several: the first gets *text*, the others go to the archive and are found no more.

        It names them in ``derived_from``, and each keeps its source in the archive. The first keeps its id, place,
        speaker and time; tags are those of all, trust the least, expiry the earliest. It is marked as sensitive if one
        of them is, or if *sensitive* says so.
        """
        return await merging.merge(
            self._context, ids, text, namespace, sensitive=sensitive, actor=actor, approved_by=approved_by
        )

    async def end(
        self,
        id: str,
        valid_to: datetime | None,
        *,
        namespace: str = "",
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Report:
        """Let a memory hold until *valid_to* only; None: without an end again. Text and vector stay."""
        return await asyncio.to_thread(
            ending.end, self._context, id, valid_to, namespace, actor=actor, approved_by=approved_by
        )

    async def pin(
        self, ids: Sequence[str] | str, *, namespace: str = "", actor: Actor = "user", approved_by: Actor | None = None
    ) -> Operation | None:
        """Pin memories: an assistant is shown them always."""
        return await self._mark("pin", ids, lambda _: {"pinned": True}, namespace, actor, approved_by)

    async def unpin(
        self, ids: Sequence[str] | str, *, namespace: str = "", actor: Actor = "user", approved_by: Actor | None = None
    ) -> Operation | None:
        """Unpin memories."""
        return await self._mark("unpin", ids, lambda _: {"pinned": None}, namespace, actor, approved_by)

    async def disable(
        self, ids: Sequence[str] | str, *, namespace: str = "", actor: Actor = "user", approved_by: Actor | None = None
    ) -> Operation | None:
        """Keep memories, with all their versions, out of every answer; listing still shows them."""
        return await self._mark("disable", ids, lambda _: {"disabled": True}, namespace, actor, approved_by)

    async def enable(
        self, ids: Sequence[str] | str, *, namespace: str = "", actor: Actor = "user", approved_by: Actor | None = None
    ) -> Operation | None:
        """Let disabled memories be found again."""
        return await self._mark("enable", ids, lambda _: {"disabled": None}, namespace, actor, approved_by)

    async def tag(
        self,
        ids: Sequence[str] | str,
        tags: Sequence[str],
        *,
        namespace: str = "",
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Operation | None:
        """Add *tags* to those that memories have."""
        more = _some(tags)

        def new(old: Metadata) -> Metadata:
            return {"tags": list(dict.fromkeys((*old.get("tags", ()), *more)))}

        return await self._mark("tag", ids, new, namespace, actor, approved_by)

    async def untag(
        self,
        ids: Sequence[str] | str,
        tags: Sequence[str],
        *,
        namespace: str = "",
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Operation | None:
        """Take *tags* off memories; a tag that one does not have is no error."""
        off = set(_some(tags))

        def new(old: Metadata) -> Metadata:
            return {"tags": [one for one in old.get("tags", ()) if one not in off] or None}

        return await self._mark("untag", ids, new, namespace, actor, approved_by)

    async def set_importance(
        self,
        ids: Sequence[str] | str,
        importance: float | None,
        *,
        namespace: str = "",
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Operation | None:
        """Say how much memories matter, from 0 to 1; None: nothing is said."""
        weight = importance_given(importance, "importance")
        return await self._mark("importance", ids, lambda _: {"importance": weight}, namespace, actor, approved_by)

    async def expire(
        self,
        ids: Sequence[str] | str,
        at: datetime | None,
        *,
        namespace: str = "",
        actor: Actor = "user",
        approved_by: Actor | None = None,
    ) -> Operation | None:
        """Let memories, with all their versions, be in no answer from *at* on; None lifts that.

        They are kept and listed; ``forget`` removes. A naive time is taken in the configured zone.
        """
        moment = None if at is None else aware(at, self._context.zone, argument="at")
        fields = {
            "expires_at": None if moment is None else to_text(moment),
            "expires_at_offset": None if moment is None else offset_of(moment) or None,
        }
        return await self._mark("expire", ids, lambda _: fields, namespace, actor, approved_by)

    async def undo(
        self, operation: str, *, namespace: str = "", actor: Actor = "user", approved_by: Actor | None = None
    ) -> Operation:
        """Take *operation* back, all of it, and return the operation that did; undoing that one does it again.

        What was remembered goes to the archive, what was corrected, ended or merged is as before, a mark has its old
        value. Raises ``CannotUndo``, and changes nothing, where a later operation changed the same memory (of marks:
        the same one), or where what is needed was forgotten. A forgetting with a time of grace is taken back while
        that lasts, as ``restore_forgotten`` does; any other is final. So is an import in the place of all that was
        here; of another one the memories go, and documents, messages and log stay. What somebody decided who is
        trusted more than *actor* raises ``NotTrusted``.
        """
        id = name(operation, "operation")
        return await asyncio.to_thread(self._undo, id, namespace, actor=actor, approved_by=approved_by)

    async def history(self, id: str, *, namespace: str = "") -> History:
        """Return all versions of a memory, newest first, and what was done to it; an unknown id raises
        ``NoSuchMemory``.
        """
        return await asyncio.to_thread(self._history, name(id, "id"), namespace)

    async def operations(
        self, *, memory: str | None = None, before: str | None = None, limit: int = 100, namespace: str = ""
    ) -> Sequence[Operation]:
        """Return what was done, the newest first: of one *memory*, or from before the operation *before*."""
        if memory is not None:
            name(memory, "memory")
        whole(limit, "limit", 1)
        log = self._context.operations
        return await asyncio.to_thread(log.list, namespace, memory=memory, before=before, limit=limit)

    def _history(self, id: str, namespace: str) -> History:
        versions = all_versions(self._context, id, namespace)
        operations = self._context.operations.list(namespace, memory=id, limit=_ALL)
        return History(tuple(versions), tuple(operations))

    def _undo(self, id: str, namespace: str, *, actor: Actor, approved_by: Actor | None) -> Operation:
        if id in self._context.held.of(namespace):  # forgotten, and its time of grace is not over
            return restore_forgotten(self._context, id, namespace, actor=actor, approved_by=approved_by)
        return undoing.undo(self._context, id, namespace, actor=actor, approved_by=approved_by)

    async def _mark(
        self,
        kind: str,
        ids: Sequence[str] | str,
        new: Callable[[Metadata], Metadata],
        namespace: str,
        actor: Actor,
        approved_by: Actor | None,
    ) -> Operation | None:
        return await asyncio.to_thread(
            marking.mark, self._context, kind, ids, namespace, new, actor=actor, approved_by=approved_by
        )


_ALL = 2**31


def _some(tags: Sequence[str]) -> tuple[str, ...]:
    given = names(tags, "tags")
    if not given:
        raise ArgumentError("tags", tags, "at least one tag is needed")
    return given
