"""History of a program's own: the methods of ``HistoryStorage`` over lists, as a stranger would write them.

Inner parts, on no face: ``tellback.memory.history.codec``, ``tellback.memory.history.protocol``,
``tellback.memory.messages``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from tellback.memory import ArgumentError, Message
from tellback.memory.history.codec import (
    check_paging,
    checked_namespace,
    checked_roles,
    checked_sequences,
    checked_session,
    message_from_json,
    messages_to_json,
)
from tellback.memory.history.protocol import SessionInfo, StoredMessage
from tellback.memory.messages import message_excerpt


class ListHistory:
    """Messages as JSON in lists, by namespace and session."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], dict[int, tuple[str, datetime]]] = {}
        self.next: dict[tuple[str, str], int] = {}

    def _add(self, owner: tuple[str, str], items: Iterable[tuple[str, datetime]]) -> list[int]:
        start, rows = self.next.get(owner, 1), list(items)
        numbers = list(range(start, start + len(rows)))
        if rows:
            self.texts.setdefault(owner, {}).update(zip(numbers, rows, strict=True))
            self.next[owner] = start + len(rows)
        return numbers

    async def append(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        owner, texts = (checked_namespace(namespace), checked_session(session)), messages_to_json(messages)
        return self._add(owner, [(text, datetime.now(UTC)) for text in texts])

    async def load(
        self, session: str, *, namespace: str = "", limit: int | None = None, offset: int = 0, roles: Any = None,
        after: int = 0,
    ) -> list[StoredMessage]:  # fmt: skip
        check_paging(limit, offset, after)
        chosen, rows = (
            checked_roles(roles),
            self.texts.get((checked_namespace(namespace), checked_session(session)), {}),
        )
        loaded = [StoredMessage(number, message_from_json(text), at) for number, (text, at) in rows.items()]
        found = [row for row in loaded if row.sequence > after and row.message.role in chosen]
        found = found[: max(len(found) - offset, 0)]
        return found if limit is None else found[max(len(found) - limit, 0) :]

    async def replace(self, session: str, messages: Sequence[Message], *, namespace: str = "") -> list[int]:
        texts = messages_to_json(messages)
        await self.clear(session, namespace=namespace)
        return self._add((namespace, session), [(text, datetime.now(UTC)) for text in texts])

    async def copy(self, session: str, new: str, *, namespace: str = "") -> list[int]:
        if self.texts.get((namespace, checked_session(new, "new"))):
            raise ArgumentError("new", new, "a session without messages is needed")
        return self._add((namespace, new), self.texts.get((namespace, session), {}).values())

    async def clear(self, session: str, *, namespace: str = "") -> int:
        return len(self.texts.pop((namespace, session), {}))

    async def delete(self, session: str, sequences: Iterable[int], *, namespace: str = "") -> int:
        rows = self.texts.get((namespace, session), {})
        return sum(rows.pop(number, None) is not None for number in checked_sequences(sequences))

    async def sessions(self, *, namespace: str = "", limit: int | None = None) -> list[SessionInfo]:
        check_paging(limit)
        infos = []
        for (owner, session), rows in self.texts.items():
            if owner == namespace and rows:
                said = await self.load(session, namespace=namespace)
                first = next((row for row in said if row.message.role == "user"), said[0])
                begins = message_excerpt(first.message)
                infos.append(SessionInfo(session, len(said), said[0].at, said[-1].at, begins))
        return sorted(infos, key=lambda info: info.last_at, reverse=True)[:limit]

    async def namespaces(self) -> list[str]:
        return sorted({owner for (owner, _), rows in self.texts.items() if rows})
