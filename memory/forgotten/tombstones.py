"""Tombstones: what was forgotten, by id and by a keyed hash of its words, never by the words.

They keep completion, ingest and import from bringing back what was forgotten. The key of the hash is a
secret of the file, so that the hashes of one file say nothing in another.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import datetime
from hashlib import blake2b
from typing import Protocol


class Tombstones(Protocol):
    """What was forgotten. Each call is one transaction, or part of the one its thread is in."""

    @property
    def key(self) -> bytes:
        """The secret of this file, 32 bytes: for hashes that must say nothing elsewhere."""
        ...

    def which(self, store_namespace: str, ids: Iterable[str]) -> set[str]:
        """Return those of *ids* that were forgotten in a lane (a namespace of the store)."""
        ...

    def words_at(self, namespace: str, text: str) -> datetime | None:
        """Return when these very words were last forgotten in a user's namespace; None if never."""
        ...

    def add(self, store_namespace: str, ids: Iterable[str], at: datetime) -> None:
        """Note ids of a lane as forgotten."""
        ...

    def add_words(self, namespace: str, texts: Iterable[str], at: datetime) -> None:
        """Note words as forgotten in a user's namespace."""
        ...

    def lift(self, store_namespace: str, ids: Iterable[str]) -> None:
        """Take ids back: their owner has said the thing afresh."""
        ...

    def lift_words(self, namespace: str, texts: Iterable[str]) -> None:
        """Take words back: what was forgotten with them is there again."""
        ...

    def ids(self, store_namespace: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, datetime]]:
        """Return ids forgotten in a lane with when, in order, those after the id *after*."""
        ...

    def lanes(self) -> list[str]:
        """Return the lanes in which something was forgotten, sorted."""
        ...


def words_hash(key: bytes, text: str) -> bytes:
    """Return the keyed hash of *text*, blanks at its ends not counted."""
    return blake2b(text.strip().encode(), digest_size=16, key=key).digest()


class InMemoryTombstones:
    """``Tombstones`` for a store without a file; there is no file to keep secret, so its key is nothing."""

    key = bytes(32)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[tuple[str, str], datetime] = {}
        self._words: dict[tuple[str, bytes], datetime] = {}

    def which(self, store_namespace: str, ids: Iterable[str]) -> set[str]:
        """As ``Tombstones.which``."""
        with self._lock:
            return {one for one in ids if (store_namespace, one) in self._ids}

    def words_at(self, namespace: str, text: str) -> datetime | None:
        """As ``Tombstones.words_at``."""
        with self._lock:
            return self._words.get((namespace, words_hash(self.key, text)))

    def add(self, store_namespace: str, ids: Iterable[str], at: datetime) -> None:
        """As ``Tombstones.add``."""
        with self._lock:
            self._ids.update({(store_namespace, one): at for one in ids})

    def add_words(self, namespace: str, texts: Iterable[str], at: datetime) -> None:
        """As ``Tombstones.add_words``."""
        with self._lock:
            self._words.update({(namespace, words_hash(self.key, text)): at for text in texts})

    def lift(self, store_namespace: str, ids: Iterable[str]) -> None:
        """As ``Tombstones.lift``."""
        with self._lock:
            for one in ids:
                self._ids.pop((store_namespace, one), None)

    def lift_words(self, namespace: str, texts: Iterable[str]) -> None:
        """As ``Tombstones.lift_words``."""
        with self._lock:
            for text in texts:
                self._words.pop((namespace, words_hash(self.key, text)), None)

    def ids(self, store_namespace: str, *, after: str = "", limit: int = 1000) -> list[tuple[str, datetime]]:
        """As ``Tombstones.ids``."""
        with self._lock:
            held = [(one, at) for (lane, one), at in self._ids.items() if lane == store_namespace and one > after]
        return sorted(held)[:limit]

    def lanes(self) -> list[str]:
        """As ``Tombstones.lanes``."""
        with self._lock:
            return sorted({lane for lane, _ in self._ids})
