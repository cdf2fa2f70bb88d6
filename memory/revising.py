"""The part of long-term memory's face that changes what is kept: correct, and look at what was."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from memory.records import Actor, Memory, Operation, Report
from memory.write import correcting
from memory.write.checking import name, whole
from memory.write.context import WriteContext


class Revising:
    """What ``LongTermMemory`` does to memories that are there. Every call is an operation in the log."""

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
        actor: Actor = "user",
    ) -> Report:
        """Put *text* in the place of a memory's; the old version goes to the archive, the id stays.

        An unknown id raises ``NoSuchMemory``, a policy that says no ``RejectedText``. *expect*: the
        revision that is to be corrected; another one raises ``RevisionConflict``.
        """
        return await correcting.correct(
            self._context, id, text, namespace, valid_from=valid_from, valid_to=valid_to, expect=expect, actor=actor
        )

    async def history(self, id: str, *, namespace: str = "") -> list[Memory]:
        """Return all versions of a memory, newest first; an unknown id raises ``NoSuchMemory``."""
        return await asyncio.to_thread(correcting.history, self._context, id, namespace)

    async def operations(
        self, *, memory: str | None = None, before: str | None = None, limit: int = 100, namespace: str = ""
    ) -> Sequence[Operation]:
        """Return what was done, the newest first: of one *memory*, or from before the operation *before*."""
        if memory is not None:
            name(memory, "memory")
        whole(limit, "limit", 1)
        log = self._context.operations
        return await asyncio.to_thread(log.list, namespace, memory=memory, before=before, limit=limit)
