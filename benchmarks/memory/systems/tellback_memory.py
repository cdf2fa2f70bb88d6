"""Tellback through its public face: ``remember_many``, then ``recall``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question, Settings
from benchmarks.memory.systems.dense import embedder_of
from tellback.memory import Embedder, LongTermMemory, Memory, open_memory, run_sync

_NOW = datetime(2020, 1, 1, tzinfo=UTC)
"""Time before that of any item; the clock is that of what was told and asked last."""
_NAMESPACE = "bench"


class Tellback(Adapter):
    """The product as it is installed, in a file of its own."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._now, self._names, self._places = _NOW, count(), count()
        self._memory = self._opened()

    def embedder(self) -> Embedder | None:
        return embedder_of(self.settings)

    def reset(self) -> None:
        run_sync(self._memory.close())
        for file in self.settings.folder.glob("memory.db*"):
            file.unlink()
        self._memory = self._opened()

    def ingest(self, items: Sequence[Item]) -> None:
        self._now = max([self._now, *(datetime.fromisoformat(item.at) for item in items if item.at)])
        lines = bool(self.settings.options.get("lines"))
        memories = [memory_of(item, next(self._places), lines=lines) for item in items]
        run_sync(self._memory.remember_many(memories, namespace=_NAMESPACE))

    def ready(self) -> None:
        run_sync(self._memory.flush())

    def search(self, question: Question, k: int, tokens: int) -> Found:
        if question.at:
            self._now = max(self._now, datetime.fromisoformat(question.at))
        found = run_sync(self._memory.recall(question.text, k, namespace=_NAMESPACE))
        hits = [Hit(hit.memory.id, hit.score) for hit in found]
        return Found(hits, found.confidence, found.abstain is not None)

    def close(self) -> None:
        run_sync(self._memory.close())

    def _opened(self) -> LongTermMemory:
        return open_memory(
            self.settings.folder / "memory.db",
            embedder=self.embedder(),
            choose_local=False,
            clock=lambda: self._now,
            ids=lambda: f"b{next(self._names):07}",
        )


class TellbackWords(Tellback):
    """Tellback without an embedder: words alone."""

    def embedder(self) -> None:
        return None


def memory_of(item: Item, place: int, *, lines: bool = False) -> Memory:
    """Return *item* as a memory, the one at *place* of all; with *lines*, with its recorded line."""
    about = item.about if lines else ""
    is_turn = item.role != "document"
    return Memory(
        item.text,
        id=item.id,
        kind="turn" if is_turn else "document",
        role=item.role if is_turn else None,
        speaker=item.speaker or None,
        session=item.session or None,
        sequence=place if item.session else None,
        occurred_at=datetime.fromisoformat(item.at) if item.at else None,
        caption=item.caption,
        about=about,
        about_by="model" if about else "",
    )
