"""Participants of sessions and the other names by which they are addressed, derived from texts alone.

A capitalised word of address ("hey X", "thanks X") is an alias of the other participant if it occurs often enough in
sessions of two, mostly towards the same person, and not more often as an ordinary word in small letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

_Key = TypeVar("_Key", bound=Hashable)
NOBODY = 0
_NO_CALLS: Mapping[str, int] = MappingProxyType({})
_CALLS_NEEDED = 3
_SHARE_NEEDED = 0.6


class Participants:
    """Speakers by number (0 is nobody) and the sessions they take part in."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": NOBODY}
        self._names: list[str] = [""]
        self._turns: Counter[int] = Counter()
        self._sessions_of: dict[int, Counter[int]] = {}
        self._people_of: dict[int, Counter[int]] = {}
        self._calls_in: dict[int, Counter[tuple[str, int]]] = {}
        self._at_whom: dict[str, Counter[int]] = {}
        self._aliases: dict[str, tuple[int, int]] | None = {}

    def number(self, name: str) -> int:
        """Return the number of a speaker, giving one to a new name."""
        found = self._numbers.get(name)
        if found is None:
            found = self._numbers[name] = len(self._names)
            self._names.append(name)
        return found

    def add(self, speaker: int, session: int, turns: int, calls: Mapping[str, int] = _NO_CALLS) -> None:
        """Count *turns* of *speaker* in *session*, and how often each word was called out in them, in; negative counts
        out.
        """
        if speaker == NOBODY:
            return
        present = speaker in self._turns
        _add_count(self._turns, speaker, turns)
        if present != (speaker in self._turns):
            self._aliases = None
        if session < 0:
            return
        people = self._people_of.setdefault(session, Counter())
        comes_or_goes = (people[speaker] == 0) != (people[speaker] + turns == 0)
        if comes_or_goes:
            self._aim(session, -1)
        _add_count(people, speaker, turns)
        _add_count(self._sessions_of.setdefault(speaker, Counter()), session, turns)
        called = self._calls_in.setdefault(session, Counter()) if calls else Counter()
        for word, times in calls.items():
            _add_count(called, (word, speaker), times)
            if not comes_or_goes:
                self._aim_one(session, word, speaker, times)
        if comes_or_goes:
            self._aim(session, 1)
        if calls or comes_or_goes:
            self._aliases = None

    def present(self) -> list[tuple[int, str]]:
        """Return the speakers that have turns, by name."""
        return sorted(((at, self._names[at]) for at in self._turns), key=lambda pair: pair[1])

    def sessions(self, speaker: int, count: int) -> NDArray[np.bool_]:
        """Return which of *count* sessions *speaker* takes part in."""
        result = np.zeros(count, dtype=np.bool_)
        result[list(self._sessions_of.get(speaker, ()))] = True
        return result

    def aliases(self, small: Callable[[str], int]) -> Mapping[str, int]:
        """Return other names of speakers; *small* counts a word's uses with a small letter."""
        if self._aliases is None:
            self._aliases = self._called()
        return {word: who for word, (who, total) in self._aliases.items() if small(word) <= total}

    def _called(self) -> dict[str, tuple[int, int]]:
        known = {part.lower() for at in self._turns for part in self._names[at].split()}
        aliases: dict[str, tuple[int, int]] = {}
        for word, counts in self._at_whom.items():
            if not counts or word.lower() in known:
                continue
            total = counts.total()
            who, most = min(counts.items(), key=lambda pair: (-pair[1], self._names[pair[0]]))
            if most >= _CALLS_NEEDED and most >= _SHARE_NEEDED * total:
                aliases[word] = (who, total)
        return aliases

    def _aim(self, session: int, sign: int) -> None:
        """Count all calls of *session* in (or out) at those they were meant for."""
        for (word, caller), count in self._calls_in.get(session, {}).items():
            self._aim_one(session, word, caller, sign * count)

    def _aim_one(self, session: int, word: str, caller: int, count: int) -> None:
        people = self._people_of[session]
        if len(people) == 2 and caller in people:
            other = next(person for person in people if person != caller)
            _add_count(self._at_whom.setdefault(word, Counter()), other, count)


def _add_count(counter: Counter[_Key], key: _Key, change: int) -> None:
    counter[key] += change
    if counter[key] <= 0:
        del counter[key]
