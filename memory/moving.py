"""The part of long-term memory's face that writes a namespace to a file, and takes such a file in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

from memory.errors import ArgumentError, translating
from memory.lanes import CONVERSATION, store_namespace
from memory.portable import importing, writing
from memory.portable.report import ExportReport, ImportReport, Mode
from memory.records import Actor, Trust
from memory.scopes import Scopes
from memory.write.checking import actor_named, trust_given
from memory.write.context import WriteContext
from vectorstore import Filter


@translating
class Moving:
    """What ``LongTermMemory`` writes out and takes in."""

    _context: WriteContext

    async def export(
        self,
        path: str | os.PathLike[str],
        *,
        namespace: str = "",
        vectors: bool = True,
        where: Filter | None = None,
        scopes: Scopes | None = None,
        tags: Sequence[str] = (),
        actor: Actor = "user",
        on_progress: Callable[[int], object] | None = None,
    ) -> ExportReport:
        """Write all of a namespace to *path* (JSON Lines, mode 0600), where nothing may be; whole or not at all.

        Memories, passages, earlier versions, conversation history, the log, documents and the ids of what was
        forgotten, of one state of the file. The same memory always gives the same bytes. *where*, *scopes* and *tags*
        limit it to some memories with what belongs to them. That it was made is recorded, and named by every later
        ``forget``. *on_progress* gets the number of items written so far.
        """
        store_namespace(namespace, CONVERSATION)
        return await asyncio.to_thread(
            writing.export,
            self._context,
            path,
            namespace,
            vectors=vectors,
            where=where,
            scopes=scopes,
            tags=tags,
            actor=actor,
            on_progress=on_progress,
        )

    async def import_(
        self,
        path: str | os.PathLike[str],
        *,
        mode: Mode = "merge",
        namespace: str = "",
        trust: Trust | str | None = None,
        dry_run: bool = False,
        actor: Actor = "user",
        on_progress: Callable[[int, int], object] | None = None,
    ) -> ImportReport:
        """Take the export at *path* in; return what became of every item.

        *mode*: "merge" adds what is not here, "upsert" also corrects what is here otherwise (the old version goes to
        the archive); both write in batches, and importing again takes the rest and nothing twice. "replace" puts the
        file in the place of all that is here, in one transaction. Policies decide as for ``remember``. What was
        forgotten here stays so. Vectors are taken where they are of this memory's space; the others are made later.

        *trust* is the most that anything in the file can have. Without it, a file that this memory recorded as its
        own export is believed; of any other, memories are trusted as a document, and history, log and tombstones are
        left out. Nothing in it is trusted more than *actor*, who may not "replace" what is (``NotTrusted``). A file
        that is broken, cut, edited or of a newer version raises ``UnreadableExport`` with its line.
        """
        store_namespace(namespace, CONVERSATION)
        actor_named(actor, "actor")
        if mode not in get_args(Mode):
            raise ArgumentError("mode", mode, f"one of {', '.join(get_args(Mode))} is needed")
        return await importing.import_file(
            self._context,
            Path(os.fsdecode(path)),
            namespace,
            mode=mode,
            trust=None if trust is None else trust_given(trust, "trust"),
            dry_run=dry_run,
            actor=actor,
            on_progress=on_progress,
        )
