"""Synchronous history: rows of messages within one thread, and the async face over them.

The rows carry what the public protocol does not show: which memory keeps a message searchable, and whether that is
settled. A row that is not settled is an intent: the message is safe in history, its memory is still to be written.

Over 500 lines: a whole history in the process stands beside the protocol.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol, TypeAlias

from memory.history.codec import (
    check_paging,
    checked_namespace,
    checked_roles,
    checked_sequences,
    checked_session,
    checked_summary_name,
    json_fragment,
    message_from_json,
    messages_to_json,
)
from memory.history.protocol import SessionInfo, StoredMessage, Summary, checked_summary, is_same_summary
from memory.history.retention import Retention, checked_retention, first_retained, idle_cutoff
from memory.message_text import message_excerpt
from memory.messages import Message, Role
from memory.timestamps import Clock, system_clock


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """A message in its place. *memory* is the id reserved for it, empty when nothing is to be kept of it."""

    namespace: str
    session: str
    sequence: int
    message: Message
    at: datetime
    memory: str | None = None


class HistoryRows(Protocol):
    """The synchronous side of a history. A call is one transaction, or part of the one its thread is in."""

    def append(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        namespace: str = "",
        memories: Sequence[str | None] | None = None,
    ) -> list[int]:
        """As ``HistoryStorage.append``; *memories* are ids reserved for them (empty: nothing to keep)."""
        ...

    def load(
        self,
        session: str,
        *,
        namespace: str = "",
        limit: int | None = None,
        offset: int = 0,
        roles: Iterable[Role] | None = None,
        after: int = 0,
    ) -> list[StoredMessage]:
        """As ``HistoryStorage.load``."""
        ...

    def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryStorage.replace``; a message that was there before keeps its memory."""
        ...

    def delete(self, session: str, sequences: Iterable[int] | None, *, namespace: str = "") -> int:
        """As ``HistoryStorage.delete``; None means all."""
        ...

    def erase(self, rows: Sequence[HistoryRow]) -> None:
        """Remove rows and see to their bytes: at the end of the transaction, or marked as pending."""
        ...

    def erase_namespace(self, namespace: str) -> int:
        """Remove all messages of a namespace, and the names of its sessions, as ``erase``; return how many."""
        ...

    def place(self, rows: Sequence[HistoryRow]) -> int:
        """Put rows at their own session and sequence, with their own time; return how many.

        A place that is taken is left as it is. Numbers that are given later are above those placed.
        """
        ...

    def sessions(self, *, namespace: str = "", limit: int | None = None) -> list[SessionInfo]:
        """As ``HistoryStorage.sessions``."""
        ...

    def namespaces(self) -> list[str]:
        """As ``HistoryStorage.namespaces``."""
        ...

    def unsettled(self, limit: int) -> list[HistoryRow]:
        """Return rows whose memory is still to be decided or written, oldest first."""
        ...

    def reserve(self, rows: Sequence[HistoryRow]) -> None:
        """Note the id of each row's memory, which is still to be written."""
        ...

    def settle(self, rows: Sequence[HistoryRow]) -> None:
        """Note each row's memory as written; an empty id says that nothing is to be kept of it."""
        ...

    def of_memories(self, ids: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """Return the rows that these memories keep."""
        ...

    def at(self, places: Sequence[tuple[str, int]], *, namespace: str = "") -> list[HistoryRow]:
        """Return the rows at (session, sequence), those that are there."""
        ...

    def holding(self, texts: Sequence[str], *, namespace: str = "") -> list[HistoryRow]:
        """Return rows that may hold one of *texts* in any of their parts, or over several; the caller looks closely."""
        ...

    def kept(self, session: str | None = None, *, namespace: str = "") -> Iterator[HistoryRow]:
        """Yield every row of a session (None: of all) by session and number, those too that a retention has hidden."""
        ...

    def next_numbers(self, session: str | None = None, *, namespace: str = "") -> list[tuple[str, int]]:
        """Return sessions (None: all), in order, with the number that the next message gets; empty ones are among them,
        since numbers are never given twice."""
        ...

    def count_from(self, session: str, number: int, *, namespace: str = "") -> None:
        """Let the next message of *session* get *number*, or a later one where that is due."""
        ...

    def summary(self, session: str, name: str, *, namespace: str = "") -> Summary | None:
        """As ``SummaryStorage.summary``."""
        ...

    def keep_summary(
        self, session: str, summary: Summary, *, before: Summary | None, made_of: Sequence[int], namespace: str = ""
    ) -> bool:
        """As ``SummaryStorage.keep_summary``."""
        ...

    def erase_summaries(
        self, memories: Sequence[str], holds: Callable[[str], bool] | None = None, *, namespace: str = ""
    ) -> int:
        """Erase summaries made of a message that was one of *memories*, and left by a retention since, and those whose
        text *holds* what is forgotten; return how many. (``erase`` sees to those of messages that are there.)"""
        ...


class ThreadedHistory:
    """``HistoryStorage`` and ``SummaryStorage`` over rows: each call is one hop to a worker thread."""

    def __init__(self, rows: HistoryRows) -> None:
        self.rows = rows

    async def append(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryStorage.append``."""
        return await asyncio.to_thread(self.rows.append, session, messages, namespace=namespace)

    async def load(
        self,
        session: str,
        *,
        namespace: str = "",
        limit: int | None = None,
        offset: int = 0,
        roles: Iterable[Role] | None = None,
        after: int = 0,
    ) -> list[StoredMessage]:
        """As ``HistoryStorage.load``."""
        return await asyncio.to_thread(
            self.rows.load, session, namespace=namespace, limit=limit, offset=offset, roles=roles, after=after
        )

    async def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryStorage.replace``."""
        return await asyncio.to_thread(self.rows.replace, session, messages, namespace=namespace)

    async def clear(self, session: str, *, namespace: str = "") -> int:
        """As ``HistoryStorage.clear``."""
        return await asyncio.to_thread(self.rows.delete, session, None, namespace=namespace)

    async def delete(self, session: str, sequences: Iterable[int], *, namespace: str = "") -> int:
        """As ``HistoryStorage.delete``."""
        chosen = checked_sequences(sequences)  # to the rows None means all of them, which only ``clear`` may mean
        return await asyncio.to_thread(self.rows.delete, session, chosen, namespace=namespace)

    async def sessions(self, *, namespace: str = "", limit: int | None = None) -> list[SessionInfo]:
        """As ``HistoryStorage.sessions``."""
        return await asyncio.to_thread(self.rows.sessions, namespace=namespace, limit=limit)

    async def namespaces(self) -> list[str]:
        """As ``HistoryStorage.namespaces``."""
        return await asyncio.to_thread(self.rows.namespaces)

    async def summary(self, session: str, name: str, *, namespace: str = "") -> Summary | None:
        """As ``SummaryStorage.summary``."""
        return await asyncio.to_thread(self.rows.summary, session, name, namespace=namespace)

    async def keep_summary(
        self, session: str, summary: Summary, *, before: Summary | None, made_of: Sequence[int], namespace: str = ""
    ) -> bool:
        """As ``SummaryStorage.keep_summary``."""
        return await asyncio.to_thread(
            self.rows.keep_summary, session, summary, before=before, made_of=made_of, namespace=namespace
        )


class InMemoryHistory(ThreadedHistory):
    """``HistoryStorage`` without a file."""

    def __init__(self, *, clock: Clock = system_clock, retention: Retention | None = None) -> None:
        super().__init__(InMemoryHistoryRows(clock=clock, retention=retention))


@dataclass(slots=True)
class _KeptMessage:
    text: str
    role: str
    at: datetime
    memory: str | None
    settled: bool


@dataclass(slots=True)
class _SessionState:
    rows: dict[int, _KeptMessage] = field(default_factory=dict)
    next: int = 1
    first: int = 1
    """Below it no message is shown, those of the system apart: a retention hides them."""
    used_at: datetime | None = None
    """When something was added last."""
    over: bool = False
    summaries: dict[str, Summary] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    """By memory, the numbers of messages that a retention took and a summary still tells of."""

    def take_hidden(self, *, drop: bool = False) -> None:
        """Delete what is hidden and settled; with *drop* what is not settled too."""
        for sequence, row in list(self.rows.items()):
            if sequence < self.first and row.role != "system" and (drop or row.settled):
                del self.rows[sequence]
                if row.memory and any(sequence <= one.through for one in self.summaries.values()):
                    self.left[row.memory] = min(sequence, self.left.get(row.memory, sequence))

    def forget_summaries(self, sequence: int) -> int:
        """Delete the summaries that reach to *sequence*; return how many."""
        before = len(self.summaries)
        self.summaries = {name: one for name, one in self.summaries.items() if one.through < sequence}
        if not self.summaries:
            self.left.clear()
        return before - len(self.summaries)


_RowCondition: TypeAlias = Callable[[tuple[str, str], int, _KeptMessage], bool]


class InMemoryHistoryRows:
    """``HistoryRows`` in dictionaries; messages are kept as JSON, so nothing is shared with the caller."""

    def __init__(self, *, clock: Clock = system_clock, retention: Retention | None = None) -> None:
        self._clock = clock
        self._retention = checked_retention(retention)
        self._lock = threading.RLock()
        self._sessions: dict[tuple[str, str], _SessionState] = {}

    def append(
        self,
        session: str,
        messages: Sequence[Message],
        *,
        namespace: str = "",
        memories: Sequence[str | None] | None = None,
    ) -> list[int]:
        """As ``HistoryRows.append``."""
        place = (checked_namespace(namespace), checked_session(session))
        texts = messages_to_json(messages)
        with self._lock:
            kept = [(memory, memory == "") for memory in memories or [None] * len(texts)]
            return self._add(place, messages, texts, kept)

    def load(
        self,
        session: str,
        *,
        namespace: str = "",
        limit: int | None = None,
        offset: int = 0,
        roles: Iterable[Role] | None = None,
        after: int = 0,
    ) -> list[StoredMessage]:
        """As ``HistoryStorage.load``."""
        place = (checked_namespace(namespace), checked_session(session))
        check_paging(limit, offset, after)
        wanted = checked_roles(roles)
        with self._lock:
            shown = self._shown(self._sessions.get(place, _SessionState()))
            chosen = [item for item in shown if item[0] > after and item[1].role in wanted]
        end = max(len(chosen) - offset, 0)
        start = 0 if limit is None else max(end - limit, 0)
        return [
            StoredMessage(sequence, message_from_json(row.text), row.at, row.memory or None)
            for sequence, row in chosen[start:end]
        ]

    def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        """As ``HistoryRows.replace``."""
        place = (checked_namespace(namespace), checked_session(session))
        texts = messages_to_json(messages)
        with self._lock:
            before: dict[str, list[_KeptMessage]] = {}
            held = self._sessions.get(place, _SessionState())
            for _, row in sorted(held.rows.items()):
                before.setdefault(row.text, []).append(row)
            held.rows.clear()
            held.forget_summaries(0)
            again = [before[text].pop(0) if before.get(text) else None for text in texts]
            kept = [(one.memory, one.settled) if one is not None else (None, False) for one in again]
            return self._add(place, messages, texts, kept)

    def delete(self, session: str, sequences: Iterable[int] | None, *, namespace: str = "") -> int:
        """As ``HistoryRows.delete``."""
        place = (checked_namespace(namespace), checked_session(session))
        chosen = None if sequences is None else set(checked_sequences(sequences))
        with self._lock:
            held = self._sessions.get(place, _SessionState())
            shown = {sequence for sequence, _ in self._shown(held)}
            gone = [sequence for sequence in held.rows if chosen is None or sequence in chosen]
            for sequence in gone:
                del held.rows[sequence]
            if gone:
                held.forget_summaries(min(gone))
            if chosen is None:
                held.forget_summaries(0)
            return len(shown.intersection(gone))

    def erase(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.erase``."""
        for row in rows:
            self.delete(row.session, [row.sequence], namespace=row.namespace)

    def erase_namespace(self, namespace: str) -> int:
        """As ``HistoryRows.erase_namespace``."""
        name = checked_namespace(namespace)
        with self._lock:
            gone = [place for place in self._sessions if place[0] == name]
            return sum(len(self._sessions.pop(place).rows) for place in gone)

    def place(self, rows: Sequence[HistoryRow]) -> int:
        """As ``HistoryRows.place``."""
        texts = messages_to_json([row.message for row in rows])
        placed = 0
        with self._lock:
            for row, text in zip(rows, texts, strict=True):
                held = self._sessions.setdefault((row.namespace, row.session), _SessionState())
                if row.sequence not in held.rows:
                    settled = row.memory is not None
                    held.rows[row.sequence] = _KeptMessage(text, row.message.role, row.at, row.memory, settled)
                    placed += 1
                held.next = max(held.next, row.sequence + 1)
                held.used_at = max(held.used_at or row.at, row.at)
                held.rows = dict(sorted(held.rows.items()))
        return placed

    def sessions(self, *, namespace: str = "", limit: int | None = None) -> list[SessionInfo]:
        """As ``HistoryStorage.sessions``."""
        name = checked_namespace(namespace)
        check_paging(limit)
        with self._lock:
            shown = {session: self._shown(held) for (owner, session), held in self._sessions.items() if owner == name}
        infos = [
            SessionInfo(
                session,
                len(rows),
                min(row.at for _, row in rows),
                max(row.at for _, row in rows),
                message_excerpt(
                    message_from_json(next((row for _, row in rows if row.role == "user"), rows[0][1]).text)
                ),
            )
            for session, rows in shown.items()
            if rows
        ]
        infos.sort(key=lambda info: info.session)
        return sorted(infos, key=lambda info: info.last_at, reverse=True)[:limit]

    def namespaces(self) -> list[str]:
        """As ``HistoryStorage.namespaces``."""
        with self._lock:
            return sorted({namespace for (namespace, _), held in self._sessions.items() if self._shown(held)})

    def unsettled(self, limit: int) -> list[HistoryRow]:
        """As ``HistoryRows.unsettled``."""
        return self._rows(lambda _place, _sequence, row: not row.settled)[:limit]

    def reserve(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.reserve``."""
        self._note(rows, settled=False)

    def settle(self, rows: Sequence[HistoryRow]) -> None:
        """As ``HistoryRows.settle``."""
        self._note(rows, settled=True)
        with self._lock:
            for place in {(row.namespace, row.session) for row in rows}:
                self._sessions.get(place, _SessionState()).take_hidden()

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
        needles = [json_fragment(text) for text in texts]
        # in base64; in several blocks; told together with what a tool was asked
        needles += ['"media_type":"text/plain"', '},{"type":', '"type":"tool_result"']
        return self._rows(
            lambda place, _sequence, row: place[0] == namespace and any(part in row.text for part in needles)
        )

    def kept(self, session: str | None = None, *, namespace: str = "") -> Iterator[HistoryRow]:
        """As ``HistoryRows.kept``."""
        found = self._rows(lambda place, _sequence, _row: place[0] == namespace and session in (None, place[1]))
        yield from sorted(found, key=lambda row: (row.session, row.sequence))

    def next_numbers(self, session: str | None = None, *, namespace: str = "") -> list[tuple[str, int]]:
        """As ``HistoryRows.next_numbers``."""
        with self._lock:
            return sorted(
                (one, held.next)
                for (owner, one), held in self._sessions.items()
                if owner == namespace and session in (None, one)
            )

    def count_from(self, session: str, number: int, *, namespace: str = "") -> None:
        """As ``HistoryRows.count_from``."""
        place = (checked_namespace(namespace), checked_session(session))
        with self._lock:
            held = self._sessions.setdefault(place, _SessionState())
            held.next = max(held.next, number)

    def summary(self, session: str, name: str, *, namespace: str = "") -> Summary | None:
        """As ``SummaryStorage.summary``; a session that is over has none."""
        place = (checked_namespace(namespace), checked_session(session))
        with self._lock:
            return self._summary(place, checked_summary_name(name, "name"))

    def keep_summary(
        self, session: str, summary: Summary, *, before: Summary | None, made_of: Sequence[int], namespace: str = ""
    ) -> bool:
        """As ``SummaryStorage.keep_summary``."""
        place = (checked_namespace(namespace), checked_session(session))
        summary, numbers = checked_summary(summary, before, made_of)
        with self._lock:
            held = self._sessions.get(place, _SessionState())
            if not is_same_summary(self._summary(place, summary.name), before) or not set(numbers) <= held.rows.keys():
                return False
            held.summaries[summary.name] = replace(summary, at=self._clock())
            return True

    def erase_summaries(
        self, memories: Sequence[str], holds: Callable[[str], bool] | None = None, *, namespace: str = ""
    ) -> int:
        """As ``HistoryRows.erase_summaries``."""
        with self._lock:
            erased = 0
            for held in [held for (owner, _), held in self._sessions.items() if owner == namespace]:
                reached = [held.left[one] for one in memories if one in held.left]
                reached += [one.through for one in held.summaries.values() if holds is not None and holds(one.text)]
                erased += held.forget_summaries(min(reached)) if reached else 0
            return erased

    def _summary(self, place: tuple[str, str], name: str) -> Summary | None:
        held = self._sessions.get(place)
        return None if held is None or self._is_over(held) else held.summaries.get(name)

    def _is_over(self, held: _SessionState) -> bool:
        since = idle_cutoff(self._retention, self._clock()) if self._retention is not None else None
        return held.over or (since is not None and held.used_at is not None and held.used_at <= since)

    def _shown(self, held: _SessionState) -> list[tuple[int, _KeptMessage]]:
        """Return what readings see of a session, in order."""
        if self._is_over(held):
            return []
        return [item for item in sorted(held.rows.items()) if item[0] >= held.first or item[1].role == "system"]

    def _add(
        self,
        place: tuple[str, str],
        messages: Sequence[Message],
        texts: Sequence[str],
        kept: Sequence[tuple[str | None, bool]],
    ) -> list[int]:
        """Add messages, each with its memory and whether that is settled; then what has to go for them goes."""
        if not texts:
            return []
        self._end_idle()
        held = self._sessions.setdefault(place, _SessionState())
        now = held.used_at = self._clock()
        held.over = False
        sequences = list(range(held.next, held.next + len(texts)))
        for sequence, message, text, (memory, settled) in zip(sequences, messages, texts, kept, strict=True):
            held.rows[sequence] = _KeptMessage(text, message.role, now, memory, settled=settled)
        held.next += len(texts)
        self._trim(held)
        return sequences

    def _end_idle(self) -> None:
        if self._retention is None:
            return
        for held in self._sessions.values():
            if not held.over and self._is_over(held):
                held.first, held.over = held.next, True
                held.rows = {sequence: row for sequence, row in held.rows.items() if row.role != "system"}
                held.forget_summaries(0)
                held.take_hidden(drop=self._retention.unremembered == "drop")

    def _trim(self, held: _SessionState) -> None:
        if self._retention is None or self._retention.messages is None:
            return
        shown = [(sequence, row) for sequence, row in self._shown(held) if row.role != "system"]
        excess = len(shown) - self._retention.messages
        if excess > 0:
            first = first_retained(
                [(sequence, message_from_json(row.text)) for sequence, row in shown], excess, whole=True
            )
            held.first = first if first is not None else held.first
            held.take_hidden(drop=self._retention.unremembered == "drop")

    def _note(self, rows: Sequence[HistoryRow], *, settled: bool) -> None:
        with self._lock:
            for row in rows:
                held = self._sessions.get((row.namespace, row.session), _SessionState()).rows.get(row.sequence)
                if held is not None:
                    held.memory, held.settled = row.memory, settled

    def _rows(self, chosen: _RowCondition) -> list[HistoryRow]:
        with self._lock:
            found = [
                HistoryRow(place[0], place[1], sequence, message_from_json(row.text), row.at, row.memory)
                for place, held in sorted(self._sessions.items(), key=lambda item: item[0])
                for sequence, row in sorted(held.rows.items())
                if chosen(place, sequence, row)
            ]
        return sorted(found, key=lambda row: row.at)
