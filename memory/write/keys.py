"""Under which ids the keys of callers are found: those of memories that came from another file keep theirs.

A key usually names an id by itself (``keyed_id``), under the secret of the file. What is kept here is only where the
memory of a key has another id, and of the key only the id that it would have: it says nothing elsewhere.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Protocol

from memory.forgotten.erasers import Gone
from memory.lanes import CONVERSATION, lane_of


class Keys(Protocol):
    """By namespace and the id that a key would have (*name*): the id that it has. Each call is one transaction."""

    def get(self, namespace: str, name: str) -> str | None:
        """Return the id of what *name* stands for; None where it stands for itself."""
        ...

    def put(self, namespace: str, name: str, id: str) -> None:
        """Let *name* stand for *id*."""
        ...

    def of(self, namespace: str, ids: Sequence[str]) -> list[tuple[str, str]]:
        """Return (name, id) of those of *ids* that a name stands for, in order."""
        ...

    def remove(self, namespace: str, ids: Sequence[str] | None) -> int:
        """Let no name stand for any of *ids*, None: for anything; return how many did."""
        ...


class InMemoryKeys:
    """``Keys`` for a store without a file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: dict[tuple[str, str], str] = {}

    def get(self, namespace: str, name: str) -> str | None:
        """As ``Keys.get``."""
        with self._lock:
            return self._ids.get((namespace, name))

    def put(self, namespace: str, name: str, id: str) -> None:
        """As ``Keys.put``."""
        with self._lock:
            self._ids[namespace, name] = id

    def of(self, namespace: str, ids: Sequence[str]) -> list[tuple[str, str]]:
        """As ``Keys.of``."""
        wanted = set(ids)
        with self._lock:
            return sorted((name, id) for (at, name), id in self._ids.items() if at == namespace and id in wanted)

    def remove(self, namespace: str, ids: Sequence[str] | None) -> int:
        """As ``Keys.remove``."""
        wanted = None if ids is None else set(ids)
        with self._lock:
            gone = [key for key, id in self._ids.items() if key[0] == namespace and (wanted is None or id in wanted)]
            for one in gone:
                del self._ids[one]
        return len(gone)


class KeptKeys:
    """An ``Eraser`` that is ``Returning``: the names of memories that are forgotten go with them."""

    name = "keys"

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def erase(self, gone: Gone) -> int:
        """As ``Eraser.erase``."""
        return self._keys.remove(gone.namespace, None if gone.everything else _ids(gone))

    def put_away(self, gone: Gone) -> str | None:
        """As ``Returning.put_away``."""
        kept = self._keys.of(gone.namespace, _ids(gone))
        return json.dumps(kept) if kept else None

    def put_back(self, namespace: str, kept: str) -> None:
        """As ``Returning.put_back``."""
        for name, id in json.loads(kept):
            self._keys.put(namespace, name, id)


def _ids(gone: Gone) -> list[str]:
    return [id for lane, ids in gone.entries.items() if lane_of(lane)[1] == CONVERSATION for id in ids]
