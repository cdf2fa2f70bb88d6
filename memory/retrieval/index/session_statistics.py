"""Statistics of the sessions of one namespace: who takes part in them, and which terms occur in them.

A participant may be addressed by another name: a capitalised word of address ("hey X", "thanks X") is an alias of the
other participant if it occurs often enough in sessions of two, mostly towards the same person, and not more often as an
ordinary word in small letters.

BM25 of whole sessions is computed from integer counts of terms by session: a sorted base in arrays, and recent changes
beside it, large ones as arrays, small ones in a map, both merged into the base before they grow. So a write costs the
same at any size, and counts do not depend on the order of writes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.vocabulary import add_counts
from tellback.vectorstore.internals import BM25_B, BM25_K1, GrowableArray, distinct_counts, idf_array

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
        self._sessions_of: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._speakers_of: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self._calls_in: defaultdict[int, Counter[tuple[str, int]]] = defaultdict(Counter)
        self._addressed: defaultdict[str, Counter[int]] | None = None
        """Participants that each word addresses, with counts: made when first asked for, then kept up to date."""
        self._aliases: dict[str, tuple[int, int]] | None = {}
        self._present: tuple[tuple[int, str], ...] | None = None

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
            self._aliases = self._present = None
        if session < 0:
            return
        speakers = self._speakers_of[session]
        joins_or_leaves = (speakers[speaker] == 0) != (speakers[speaker] + turns == 0)
        if joins_or_leaves:
            self._count_session_calls(session, -1)
        _add_count(speakers, speaker, turns)
        _add_count(self._sessions_of[speaker], session, turns)
        for word, count in calls.items():
            _add_count(self._calls_in[session], (word, speaker), count)
            if not joins_or_leaves:
                self._count_call(session, word, speaker, count)
        if joins_or_leaves:
            self._count_session_calls(session, 1)
        if calls or joins_or_leaves:
            self._aliases = None

    def present(self) -> tuple[tuple[int, str], ...]:
        """Return number and name of the participants that have turns, by name."""
        if self._present is None:
            numbered = ((number, self._names[number]) for number in self._turns)
            self._present = tuple(sorted(numbered, key=lambda pair: pair[1]))
        return self._present

    def sessions(self, participant: int) -> list[int]:
        """Return the sessions that *participant* takes part in."""
        return list(self._sessions_of.get(participant, ()))

    def speakers(self, session: int) -> list[int]:
        """Return the participants of *session*."""
        return list(self._speakers_of.get(session, ()))

    def aliases(self, lower_case_count: Callable[[str], int]) -> Mapping[str, int]:
        """Return other names of participants; *lower_case_count* counts a word's uses with a small initial letter."""
        if self._aliases is None:
            self._aliases = self._frequent_calls()
        return {word: number for word, (number, total) in self._aliases.items() if lower_case_count(word) <= total}

    def _frequent_calls(self) -> dict[str, tuple[int, int]]:
        """Return for each word that mostly addresses one participant their number, and how often it addresses any."""
        name_parts = {part.lower() for number in self._turns for part in self._names[number].split()}
        frequent: dict[str, tuple[int, int]] = {}
        for word, counts in self._counted_calls().items():
            if not counts or word.lower() in name_parts:
                continue
            total = counts.total()
            number, count = min(counts.items(), key=lambda pair: (-pair[1], self._names[pair[0]]))
            if count >= _MIN_CALLS and count >= _MIN_SHARE * total:
                frequent[word] = (number, total)
        return frequent

    def _counted_calls(self) -> Mapping[str, Counter[int]]:
        if self._addressed is None:
            self._addressed = defaultdict(Counter)
            for session in self._calls_in:
                self._count_session_calls(session, 1)
        return self._addressed

    def _count_session_calls(self, session: int, sign: int) -> None:
        """Add all calls of *session* to the counts of those addressed, or subtract them with *sign* -1."""
        if self._addressed is None:
            return
        for (word, caller), count in self._calls_in.get(session, {}).items():
            self._count_call(session, word, caller, sign * count)

    def _count_call(self, session: int, word: str, caller: int, count: int) -> None:
        speakers = self._speakers_of[session]
        if self._addressed is not None and len(speakers) == 2 and caller in speakers:
            other = next(speaker for speaker in speakers if speaker != caller)
            _add_count(self._addressed[word], other, count)


def _add_count(counter: Counter[_Key], key: _Key, change: int) -> None:
    counter[key] += change
    if counter[key] <= 0:
        del counter[key]


_MIN_MERGE = 20_000
_BULK_SIZE = 2000
_MAX_PENDING_BULK = 1 << 18
_QUESTIONS_BEFORE_SORTING = 2
_SESSION_BITS = 32
_SESSION_MASK = (1 << _SESSION_BITS) - 1

Ints = NDArray[np.int64]


class SessionBm25:
    """Counts by (term, session), both small integers that the caller chooses.

    Many terms that are added at once, as when an index is filled, are sorted when several questions were asked. Before,
    each question looks through them: that takes a tenth of the time to sort them.
    """

    def __init__(self) -> None:
        self._keys: Ints = np.empty(0, dtype=np.int64)
        self._counts: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._unsorted: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        self._questions = 0
        self._bulk_changes: list[tuple[Ints, NDArray[np.int32]]] = []
        self._changes: dict[int, dict[int, int]] = {}
        self._change_count = 0
        self._lengths = GrowableArray(np.int64)

    def add(self, sessions: Ints, terms: Ints, sign: int = 1) -> None:
        """Add *terms*, each of the session at the same position, to the counts, or subtract them with *sign* -1."""
        if not len(terms):
            return
        lacking = int(sessions.max()) + 1 - len(self._lengths)
        if lacking > 0:
            self._lengths.extend(np.zeros(lacking, dtype=np.int64))
        add_counts(self._lengths.rows, sessions, sign)
        if len(terms) > _MAX_PENDING_BULK and sign > 0:
            self._unsorted.append((terms.astype(np.int32), sessions.astype(np.int32)))
            return
        keys, counts = distinct_counts((terms << _SESSION_BITS) | sessions)
        if len(keys) > _BULK_SIZE:
            self._bulk_changes.append((keys, (sign * counts).astype(np.int32)))
            if sum(len(keys) for keys, _ in self._bulk_changes) > max(_MAX_PENDING_BULK, len(self._keys) // 4):
                self._merge()  # merging needs four times the memory of the pending changes
            return
        for key, count in zip(keys.tolist(), (sign * counts).tolist(), strict=True):
            changes = self._changes.setdefault(key >> _SESSION_BITS, {})
            session = key & _SESSION_MASK
            self._change_count += session not in changes
            changes[session] = changes.get(session, 0) + count
        if self._change_count > max(_MIN_MERGE, len(self._keys) // 16):
            self._merge()

    def scores(self, terms: Sequence[int]) -> NDArray[np.float64]:
        """Return BM25 of every session for the distinct *terms* of a question, shape (sessions,)."""
        self._questions += 1
        if self._bulk_changes or (self._unsorted and self._questions > _QUESTIONS_BEFORE_SORTING):
            self._merge()
        lengths = self._lengths.rows
        scores = np.zeros(len(lengths))
        used = int(np.count_nonzero(lengths))
        if not used:
            return scores
        norm = BM25_K1 * (1 - BM25_B + BM25_B * lengths / (int(lengths.sum()) / used))
        unsorted = self._unsorted_counts(terms)
        for term in terms:
            counts = unsorted.get(term, np.zeros(len(lengths), dtype=np.int64))
            start, end = np.searchsorted(self._keys, (term << _SESSION_BITS, (term + 1) << _SESSION_BITS))
            counts[self._keys[start:end] & _SESSION_MASK] += self._counts[start:end]
            for session, change in self._changes.get(term, {}).items():
                counts[session] += change
            matching = np.flatnonzero(counts > 0)
            if len(matching):
                (weight,) = idf_array(used, np.array([len(matching)], dtype=np.float64))
                scores[matching] += weight * counts[matching] * (BM25_K1 + 1) / (counts[matching] + norm[matching])
        return scores

    def _unsorted_counts(self, terms: Sequence[int]) -> dict[int, Ints]:
        """Return the counts by session of those of *terms* that occur in what is not sorted yet."""
        size = len(self._lengths)
        counts: dict[int, Ints] = {}
        for added, sessions in self._unsorted:
            is_asked = np.zeros(max(int(added.max()), *terms, 0) + 1, dtype=np.bool_)
            is_asked[list(terms)] = True
            positions = np.flatnonzero(is_asked[added])
            for term in terms:
                added_counts = np.bincount(sessions[positions[added[positions] == term]], minlength=size)
                counts[term] = counts[term] + added_counts if term in counts else added_counts
        return counts

    def _merge(self) -> None:
        """Merge the pending changes into the base."""
        for terms, sessions in self._unsorted:
            pairs, occurrences = distinct_counts((terms.astype(np.int64) << _SESSION_BITS) | sessions)
            self._bulk_changes.append((pairs, occurrences.astype(np.int32)))
        self._unsorted = []
        if not len(self._keys) and len(self._bulk_changes) == 1 and not self._changes:
            (self._keys, self._counts), self._bulk_changes = self._bulk_changes[0], []
            return
        keys, counts = self._take_changes()
        positions = np.searchsorted(self._keys, keys)
        is_known = positions < len(self._keys)
        is_known[is_known] = self._keys[positions[is_known]] == keys[is_known]
        self._counts[positions[is_known]] += counts[is_known]
        self._keys = np.insert(self._keys, positions[~is_known], keys[~is_known])
        self._counts = np.insert(self._counts, positions[~is_known], counts[~is_known])
        if counts.min(initial=1) < 0:
            is_positive = self._counts > 0
            self._keys, self._counts = self._keys[is_positive], self._counts[is_positive]

    def _take_changes(self) -> tuple[Ints, NDArray[np.int32]]:
        """Return the pending changes, each key once and in ascending order, and clear them."""
        keys = [(term << _SESSION_BITS) | session for term, sessions in self._changes.items() for session in sessions]
        counts = [count for sessions in self._changes.values() for count in sessions.values()]
        parts = [(np.array(keys, dtype=np.int64), np.array(counts, dtype=np.int32)), *self._bulk_changes]
        self._bulk_changes, self._changes, self._change_count = [], {}, 0
        all_keys = np.concatenate([part_keys for part_keys, _ in parts])
        changes = np.concatenate([part_counts for _, part_counts in parts])
        order = np.argsort(all_keys, kind="stable")
        all_keys, changes = all_keys[order], changes[order]
        firsts = np.flatnonzero(np.append(True, all_keys[1:] != all_keys[:-1])[: len(all_keys)])
        sums = np.add.reduceat(changes, firsts, dtype=np.int32) if len(all_keys) else changes
        return all_keys[firsts], sums
