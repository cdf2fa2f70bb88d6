"""Memory writer: items of callers, one at a time or in batches, through the write pipeline.

One at a time or in batches, the result is the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from memory.errors import ArgumentError
from memory.models import Memory
from memory.results import Report
from memory.tables.idempotency_keys import IdempotencyKeys
from memory.write.draft import Draft
from memory.write.in_flight import WritesInFlight
from memory.write.pipeline import WritePipeline
from memory.write.provenance import referenced_ids

WRITE_BATCH: Final = 256


@dataclass(frozen=True, slots=True)
class MemoryWriter:
    """Writes new memories; *in_flight* learns of every write, so that closing waits for it."""

    pipeline: WritePipeline
    keys: IdempotencyKeys
    in_flight: WritesInFlight

    async def remember(self, item: object, namespace: str) -> Report:
        """Keep one item; a key that names another text raises ``DuplicateKey``."""
        with self.in_flight.write():
            drafts = self.pipeline.validate({"item": item})
            (stored,) = await self._commit(await self._prepare(drafts, namespace), namespace)
        if stored.conflict is not None:
            raise stored.conflict
        return stored.report()

    async def remember_many(
        self, items: Iterable[str | Memory], namespace: str, on_progress: Callable[[int], None] | None
    ) -> list[Report]:
        """Keep *items* batch by batch, in bounded memory; a key that names another text is a report (rejected).

        Of a list, the next batch is checked and embedded while one is stored, unless what becomes of it depends on what
        is stored. Another iterable is not read ahead of what is written.
        """
        if isinstance(items, (str, bytes, Memory)) or not isinstance(items, Iterable):
            raise ArgumentError("items", items, "a list (or another iterable) of texts or memories is needed")
        reports: list[Report] = []

        def add_reports(drafts: Sequence[Draft]) -> None:
            reports.extend(draft.report() for draft in drafts)
            if on_progress is not None:
                on_progress(len(reports))

        reads_ahead = isinstance(items, Sequence) and not self.pipeline.rules.policies
        stream, count, background = iter(items), 0, _BackgroundCommit(add_reports)
        try:
            while batch := list(islice(stream, WRITE_BATCH)):
                start, count = count, count + len(batch)
                with ExitStack() as writing:
                    writing.enter_context(self.in_flight.write())
                    drafts = self.pipeline.validate({f"items[{start + i}]": item for i, item in enumerate(batch)})
                    if any(referenced_ids(draft.memory) for draft in drafts):
                        await background.finish()
                    drafts = await self._prepare(drafts, namespace)
                    await background.finish()
                    background.start(self._commit(drafts, namespace), writing.pop_all())
                if not reads_ahead:
                    await background.finish()
            await background.finish()
        except Exception:  # of what comes after it: what is being stored is stored all the same
            await background.finish()
            raise
        finally:
            background.abandon()
        return reports

    async def _prepare(self, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        """Authorize, judge and embed *drafts*; nothing is written yet."""
        pipeline, lookup = self.pipeline, self.pipeline.lookup(namespace)
        if lookup is not None or await self._are_linked(drafts, namespace):
            decided = await pipeline.decide_in_order(drafts, namespace, lookup)
        else:
            decided = await pipeline.run_policies(await pipeline.authorize(drafts, namespace), namespace)
        if any(draft.named or draft.memory.key is not None for draft in decided):
            # what is known already is not embedded again; commit looks once more, inside its transaction
            decided = await asyncio.to_thread(pipeline.settle_known, decided, namespace)
        return await pipeline.embed(decided, lookup)

    async def _commit(self, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        return await asyncio.to_thread(self.pipeline.commit, drafts, namespace)

    async def _are_linked(self, drafts: Sequence[Draft], namespace: str) -> bool:
        """Whether one of *drafts* was made from, or supersedes, another of them."""
        referenced = {id for draft in drafts for id in referenced_ids(draft.memory)}
        if not referenced:
            return False
        named = {draft.memory.id for draft in drafts if draft.named}
        keys = [draft.memory.key for draft in drafts if draft.memory.key is not None]
        if keys:  # which ids they have is looked up
            named |= await asyncio.to_thread(lambda: {self.keys.id_of_key(namespace, key) for key in keys})
        return not referenced.isdisjoint(named)


class _BackgroundCommit:
    """The commit of one batch while the next one is prepared; *on_stored* gets its drafts."""

    def __init__(self, on_stored: Callable[[Sequence[Draft]], None]) -> None:
        self._on_stored = on_stored
        self._task: asyncio.Task[list[Draft]] | None = None

    def start(self, commit: Coroutine[Any, Any, list[Draft]], writing: ExitStack) -> None:
        """Begin *commit*; *writing* is closed at its end."""
        self._task = asyncio.create_task(commit)
        self._task.add_done_callback(lambda _: writing.close())

    async def finish(self) -> None:
        """Wait for the end of the commit, if any is running, and hand its drafts on."""
        task, self._task = self._task, None
        if task is not None:
            self._on_stored(await task)

    def abandon(self) -> None:
        """Wait no more; what its thread has begun goes on."""
        if self._task is not None:
            self._task.cancel()
