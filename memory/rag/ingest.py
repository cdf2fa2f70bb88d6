"""Ingest: files and folders in, a collection that holds their present state out.

Idempotent: what has not changed is not read further than its bytes, and only chunks whose words are new are
embedded. Each document is replaced whole or not at all. What was interrupted is done by doing it again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from memory.chunking.protocol import Chunker
from memory.rag.apply import Work, plan_for, retire, write
from memory.rag.collection import Collection
from memory.rag.discover import Found, Skipped, check_paths, discover
from memory.rag.loaders.reading import SIZE_LIMIT
from memory.rag.loaders.registry import Loaders
from memory.rag.naming import vanished
from memory.rag.plan import Draft
from memory.rag.preparing import Preparer
from memory.rag.report import IngestAction, IngestLine, IngestProgress, IngestReport, OnProgress

_WAVE_FILES = 64
_WAVE_CHUNKS = 512
_ATTEMPTS = 3


class Ingester:
    """Ingests files into one collection. One object may be used by many tasks; documents never mix."""

    def __init__(
        self,
        collection: Collection,
        *,
        chunker_for: Callable[[str], Chunker],
        loaders: Loaders,
        size_limit: int = SIZE_LIMIT,
    ) -> None:
        self._collection = collection
        self._chunker_for = chunker_for
        self._loaders = loaders
        self._size_limit = size_limit

    async def ingest(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        again: bool,
        on_progress: OnProgress | None,
    ) -> IngestReport:
        """As ``KnowledgeBase.ingest``."""
        self._collection.lifecycle("ingest")
        roots = await asyncio.to_thread(check_paths, paths)
        items = await asyncio.to_thread(lambda: list(discover(roots, self._loaders)))
        preparer = Preparer(self._collection, self._chunker_for, again=again, size_limit=self._size_limit)
        run = _Run(len(items), on_progress)
        wave: list[tuple[Found, Draft] | IngestLine] = []
        chunks = 0
        for item in items:
            if isinstance(item, Skipped):
                made: Draft | IngestLine = IngestLine(item.name, IngestAction.SKIPPED, item.reason)
            else:
                made = await asyncio.to_thread(preparer.prepare, item)
            if isinstance(made, Draft) and isinstance(item, Found):
                wave.append((item, made))
                chunks += len(made.memories)
            elif isinstance(made, IngestLine):
                wave.append(made)
            if chunks >= _WAVE_CHUNKS or len(wave) >= _WAVE_FILES:
                run.add(await self._settle(preparer, wave))
                wave, chunks = [], 0
        run.add(await self._settle(preparer, wave))
        run.add(await asyncio.to_thread(self._retire, roots), counted=False)
        return IngestReport(tuple(run.lines))

    async def _settle(self, preparer: Preparer, wave: Sequence[tuple[Found, Draft] | IngestLine]) -> list[IngestLine]:
        """Embed and write the drafts of *wave* together; return a line for each of its items, in order."""
        lines: list[IngestLine | None] = [item if isinstance(item, IngestLine) else None for item in wave]
        todo = {place: item for place, item in enumerate(wave) if not isinstance(item, IngestLine)}
        for _ in range(_ATTEMPTS):
            if not todo:
                break
            written = await self._write([draft for _, draft in todo.values()], again=preparer.again)
            for (place, (found, _)), line in zip(list(todo.items()), written, strict=True):
                if line is not None:
                    lines[place] = line
                    del todo[place]
                    continue
                made = await asyncio.to_thread(preparer.prepare, found)  # written by somebody else: look again
                if isinstance(made, IngestLine):
                    lines[place] = made
                    del todo[place]
                else:
                    todo[place] = (found, made)
        for place, (_, draft) in todo.items():
            reason = "another process keeps writing it; ingest it again"
            lines[place] = IngestLine(draft.record.source, IngestAction.FAILED, reason)
        return [line for line in lines if line is not None]

    async def _write(self, drafts: Sequence[Draft], *, again: bool) -> list[IngestLine | None]:
        plans = await asyncio.to_thread(lambda: [plan_for(self._collection, draft, again=again) for draft in drafts])
        texts = list(dict.fromkeys(text for plan in plans for text in plan.texts))
        embedded = await self._collection.memory.embedding.vectors(texts)
        places = {text: place for place, text in enumerate(texts)}
        works = [Work(plan, embedded.part([places[text] for text in plan.texts])) for plan in plans]
        return await asyncio.to_thread(write, self._collection, works)

    def _retire(self, roots: Sequence[Path]) -> list[IngestLine]:
        """Erase the documents whose files are gone from the folders among *roots*."""
        folders = [real for real in (root.resolve() for root in roots) if real.is_dir()]
        lines = []
        for record in self._collection.manifest.all():
            if not record.location or not any(Path(record.location).is_relative_to(folder) for folder in folders):
                continue
            if vanished(record.location):
                erased = retire(self._collection, record, ban=False)
                if erased is not None:
                    reason = "its file is gone"
                    lines.append(IngestLine(record.source, IngestAction.REMOVED, reason, erased=erased))
        return lines


class _Run:
    """The lines so far, told to the caller as they come."""

    def __init__(self, total: int, on_progress: OnProgress | None) -> None:
        self.lines: list[IngestLine] = []
        self._total = total
        self._done = 0
        self._on_progress = on_progress

    def add(self, lines: Sequence[IngestLine], *, counted: bool = True) -> None:
        for line in lines:
            self.lines.append(line)
            self._done += counted
            if self._on_progress is not None:
                self._on_progress(IngestProgress(self._done, self._total, line))
