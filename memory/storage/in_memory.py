"""Conversation history in the process; gone when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from memory.messages import Message, Role
from memory.storage.protocol import SessionInfo, StoredMessage
from memory.storage.rows import HistoryRow, ThreadedHistory
from memory.storage.serialise import (
    all_to_json,
    check_namespace,
    check_page,
    check_roles,
    check_sequences,
    check_session,
    from_json,
    needle,
)
from memory.times import Clock, system_clock


class InMemoryHistory(ThreadedHistory):
    """``HistoryStorage`` without a file."""

    def __init__(self, *, clock: Clock = system_clock) -> None:
        super().__init__(InMemoryRows(clock=clock))


@dataclass(slots=True)
class _Row:
    text: str
    role: str
    at: datetime
    memory: str | None
    settled: bool


@dataclass(slots=True)
class _Session:
    rows: dict[int, _Row] = field(default_factory=dict)
    next: int = 1


_Test: TypeAlias = Callable[[tuple[str, str], int, _Row], bool]


class InMemoryRows:
    """``HistoryRows`` in dictionaries; messages are kept as JSON, so nothing is shared with the caller."""

    def __init__(self, *, clock: Clock = system_clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._sessions: dict[tuple[str, str], _Session] = {}

    def append(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        namespace: str = "",
        memories: Sequence[str | None] | None = None,
    ) -> list[int]:
        """As ``HistoryRows.append``."""
        place = (check_namespace(namespace), check_session(session))
        texts = all_to_json(messages)
        with self._lock:
            return self._add(place, messages, texts, memories or [None] * len(texts))

    def load(
        self,
        session: str,
        *,
        namespace: str = "",
        limit: int | None = None,
        offset: int = 0,
        roles: Iterable[Role] | None = None,
    ) -> list[StoredMessage]:
        """As ``HistoryStorage.load``."""
        place = (check_namespace(namespace), check_session(session))
        check_page(limit, offset)
        wanted = check_roles(roles)
        with self._lock:
            held = self._sessions.get(place, _Session())
            chosen = [item for item in sorted(held.rows.items()) if item[1].role in wanted]
        end = max(len(chosen) - offset, 0)
        start = 0 if limit is None else max(end - limit, 0)
        return [
            StoredMessage(sequence, from_json(row.text), row.at, row.memory or None)
            for sequence, row in chosen[start:end]
        ]

    def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryRows.replace``."""
        place = (check_namespace(namespace), check_session(session))
        texts = all_to_json(messages)
        with self._lock:
            before: dict[str, list[_Row]] = {}
            held = self._sessions.get(place)
            for row in held.rows.values() if held is not None else ():
                before.setdefault(row.text, []).append(row)
            if held is not None:
                held.rows.clear()
            sequences = self._add(place, messages, texts, [None] * len(texts))
            for sequence, text in zip(sequences, texts, strict=True):
                if before.get(text):
                    old, new = before[text].pop(0), self._sessions[place].rows[sequence]
                    new.memory, new.settled = old.memory, old.settled
            return sequences

    def delete(self, session: str, sequences: Iterable[int] | None, *, namespace: str = "") -> int:
        """As ``HistoryRows.delete``."""
        place = (check_namespace(namespace), check_session(session))
        chosen = None if sequences is None else set(check_sequences(sequences))
        with self._lock:
            held = self._sessions.get(place, _Session())
            gone = [sequence for sequence in held.rows if chosen is None or sequence in chosen]
            for sequence in gone:
                del held.rows[sequence]
            return len(gone)

    def erase(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.erase``."""
        for row in rows:
            self.delete(row.session, [row.sequence], namespace=row.namespace)

    def erase_namespace(self, namespace: str) -> int:
        """As ``HistoryRows.erase_namespace``."""
        name = check_namespace(namespace)
        with self._lock:
            gone = [place for place in self._sessions if place[0] == name]
            return sum(len(self._sessions.pop(place).rows) for place in gone)

    def place(self, rows: Sequence[HistoryRow]) -> int:
        """As ``HistoryRows.place``."""
        texts = all_to_json([row.message for row in rows])
        placed = 0
        with self._lock:
            for row, text in zip(rows, texts, strict=True):
                held = self._sessions.setdefault((row.namespace, row.session), _Session())
                if row.sequence not in held.rows:
                    settled = row.memory is not None
                    held.rows[row.sequence] = _Row(text, row.message.role, row.at, row.memory, settled)
                    placed += 1
                held.next = max(held.next, row.sequence + 1)
                held.rows = dict(sorted(held.rows.items()))
        return placed

    def sessions(self, *, namespace: str = "") -> list[SessionInfo]:
        """As ``HistoryStorage.sessions``."""
        name = check_namespace(namespace)
        with self._lock:
            infos = [
                SessionInfo(
                    session,
                    len(held.rows),
                    min(row.at for row in held.rows.values()),
                    max(row.at for row in held.rows.values()),
                )
                for (owner, session), held in self._sessions.items()
                if owner == name and held.rows
            ]
        infos.sort(key=lambda info: info.session)
        return sorted(infos, key=lambda info: info.last_at, reverse=True)

    def namespaces(self) -> list[str]:
        """As ``HistoryStorage.namespaces``."""
        with self._lock:
            return sorted({namespace for (namespace, _), held in self._sessions.items() if held.rows})

    def unsettled(self, limit: int) -> list[HistoryRow]:
        """As ``HistoryRows.unsettled``."""
        return self._rows(lambda _place, _sequence, row: not row.settled)[:limit]

    def reserve(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.reserve``."""
        self._note(rows, settled=False)

    def settle(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.settle``."""
        self._note(rows, settled=True)

    def of_memories(self, ids: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """As ``HistoryRows.of_memories``."""
        wanted = {one for one in ids if one}
        return self._rows(lambda place, _sequence, row: place[0] == namespace and row.memory in wanted)

    def at(self, places: Sequence[tuple[str, int]], *, namespace: str = "") -> list[HistoryRow]:
        """As ``HistoryRows.at``."""
        wanted = set(places)
        return self._rows(lambda place, sequence, _row: place[0] == namespace and (place[1], sequence) in wanted)

    def holding(self, texts: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """As ``HistoryRows.holding``."""
        needles = [needle(text) for text in texts]
        needles.append('"media_type":"text/plain"')
        return self._rows(
            lambda place, _sequence, row: place[0] == namespace and any(part in row.text for part in needles)
        )

    def _add(
        self,
        place: tuple[str, str],
        messages: Sequence[Message],
        texts: Sequence[str],
        memories: Sequence[str | None],
    ) -> list[int]:
        if not texts:
            return []
        held = self._sessions.setdefault(place, _Session())
        now = self._clock()
        sequences = list(range(held.next, held.next + len(texts)))
        for sequence, message, text, memory in zip(sequences, messages, texts, memories, strict=True):
            held.rows[sequence] = _Row(text, message.role, now, memory, settled=memory == "")
        held.next += len(texts)
        return sequences

    def _note(self, rows: Sequence[HistoryRow], *, settled: bool) -> None:
        with self._lock:
            for row in rows:
                held = self._sessions.get((row.namespace, row.session), _Session()).rows.get(row.sequence)
                if held is not None:
                    held.memory, held.settled = row.memory, settled

    def _rows(self, chosen: _Test) -> list[HistoryRow]:
        with self._lock:
            found = [
                HistoryRow(place[0], place[1], sequence, from_json(row.text), row.at, row.memory)
                for place, held in sorted(self._sessions.items(), key=lambda item: item[0])
                for sequence, row in sorted(held.rows.items())
                if chosen(place, sequence, row)
            ]
        return sorted(found, key=lambda row: row.at)
