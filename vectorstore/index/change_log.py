"""Change log of one namespace in memory: the entry that changed at each write number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

KEPT_CHANGES: Final = 1000


class ChangeLog:
    """Ids by write number; *pruned* is the number up to which they are no longer known."""

    def __init__(self, log: Iterable[tuple[int, str]] = (), *, pruned: int = 0, revision: int = 0) -> None:
        self.log = list(log)
        self.pruned = pruned
        self.revision = revision

    def add(self, id: str) -> None:
        """Count a write of an entry."""
        self.revision += 1
        self.log.append((self.revision, id))

    def take_back(self) -> None:
        """Undo the newest write."""
        self.revision -= 1
        self.log.pop()

    def begun_anew(self) -> ChangeLog:
        """Return a log that knows nothing of before, one number further; what was never written stays as it is."""
        number = self.revision + 1 if self.revision else 0
        return ChangeLog(pruned=number, revision=number)

    def settle(self, entries: int) -> None:
        """Shorten the log of so many entries; never inside a transaction."""
        keep = max(KEPT_CHANGES, entries // 2)
        if len(self.log) > 2 * keep:
            self.pruned = self.log[-keep - 1][0]
            del self.log[:-keep]

    def since(self, number: int | None) -> list[str] | None:
        """Return the ids written after *number*, each once; None where the log does not reach back."""
        if number is None or not self.pruned <= number <= self.revision:
            return None
        return list(dict.fromkeys(id for revision, id in self.log if revision > number))
