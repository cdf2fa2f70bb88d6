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
_MIN_CALLS = 3
_MIN_SHARE = 0.6


class Participants:
    """Participants by number (0 is nobody), the sessions they take part in, and words by which they are addressed."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": NOBODY}
        self._names: list[str] = [""]
        self._turns: Counter[int] = Counter()
        self._sessions_of: dict[int, Counter[int]] = {}
        self._speakers_of: dict[int, Counter[int]] = {}
        self._calls_in: dict[int, Counter[tuple[str, int]]] = {}
        self._addressed: dict[str, Counter[int]] = {}
        self._aliases: dict[str, tuple[int, int]] | None = {}

    def number(self, name: str) -> int:
        """Return the number of a participant; a new name gets the next one."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        return number

    def add(self, speaker: int, session: int, turns: int, calls: Mapping[str, int] = _NO_CALLS) -> None:
        """Add *turns* of *speaker* in *session* (below 0: in none), and the words of address in them with their counts.

        Negative counts subtract.
        """
        if speaker == NOBODY:
            return
        was_present = speaker in self._turns
        _add_count(self._turns, speaker, turns)
        if was_present != (speaker in self._turns):
            self._aliases = None
        if session < 0:
            return
        speakers = self._speakers_of.setdefault(session, Counter())
        joins_or_leaves = (speakers[speaker] == 0) != (speakers[speaker] + turns == 0)
        if joins_or_leaves:
            self._count_session_calls(session, -1)
        _add_count(speakers, speaker, turns)
        _add_count(self._sessions_of.setdefault(speaker, Counter()), session, turns)
        session_calls = self._calls_in.setdefault(session, Counter()) if calls else Counter()
        for word, count in calls.items():
            _add_count(session_calls, (word, speaker), count)
            if not joins_or_leaves:
                self._count_call(session, word, speaker, count)
        if joins_or_leaves:
            self._count_session_calls(session, 1)
        if calls or joins_or_leaves:
            self._aliases = None

    def present(self) -> list[tuple[int, str]]:
        """Return number and name of the participants that have turns, by name."""
        return sorted(((number, self._names[number]) for number in self._turns), key=lambda pair: pair[1])

    def sessions(self, participant: int, count: int) -> NDArray[np.bool_]:
        """Return whether *participant* takes part in each of *count* sessions."""
        takes_part = np.zeros(count, dtype=np.bool_)
        takes_part[list(self._sessions_of.get(participant, ()))] = True
        return takes_part

    def aliases(self, lower_case_count: Callable[[str], int]) -> Mapping[str, int]:
        """Return other names of participants; *lower_case_count* counts a word's uses with a small initial letter."""
        if self._aliases is None:
            self._aliases = self._frequent_calls()
        return {word: number for word, (number, total) in self._aliases.items() if lower_case_count(word) <= total}

    def _frequent_calls(self) -> dict[str, tuple[int, int]]:
        """Return for each word that mostly addresses one participant their number, and how often it addresses any."""
        known = {part.lower() for number in self._turns for part in self._names[number].split()}
        frequent: dict[str, tuple[int, int]] = {}
        for word, counts in self._addressed.items():
            if not counts or word.lower() in known:
                continue
            total = counts.total()
            number, count = min(counts.items(), key=lambda pair: (-pair[1], self._names[pair[0]]))
            if count >= _MIN_CALLS and count >= _MIN_SHARE * total:
                frequent[word] = (number, total)
        return frequent

    def _count_session_calls(self, session: int, sign: int) -> None:
        """Add all calls of *session* to the counts of those addressed, or subtract them with *sign* -1."""
        for (word, caller), count in self._calls_in.get(session, {}).items():
            self._count_call(session, word, caller, sign * count)

    def _count_call(self, session: int, word: str, caller: int, count: int) -> None:
        speakers = self._speakers_of[session]
        if len(speakers) == 2 and caller in speakers:
            other = next(speaker for speaker in speakers if speaker != caller)
            _add_count(self._addressed.setdefault(word, Counter()), other, count)


def _add_count(counter: Counter[_Key], key: _Key, change: int) -> None:
    counter[key] += change
    if counter[key] <= 0:
        del counter[key]
