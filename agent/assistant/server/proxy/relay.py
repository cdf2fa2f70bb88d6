"""Relay of an answer: passed on event by event as it comes, with the extension in its first and its last."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tellback.agent.assistant.server.proxy.wires import AnswerReader, Wire
from tellback.agent.context_items import ContextItem
from tellback.agent.json_values import parsed_object
from tellback.agent.short_ids import short_id

_EVENT_END: Final = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DATA: Final = re.compile(rb"^data:[ ]?(\{.*\})[ ]*\r?$", re.MULTILINE)


@dataclass(slots=True)
class Relay:
    """Relay of one answer on *wire* to a client whose prompt was given *items*; *session* names its conversation."""

    wire: Wire
    session: str
    items: Sequence[ContextItem]
    notes: Sequence[str] = ()
    reader: AnswerReader = field(init=False)
    _has_begun: bool = False

    def __post_init__(self) -> None:
        self.reader = self.wire.reader()

    def whole(self, body: bytes) -> bytes:
        """Return the *body* of an answer that is not streamed, with the extension."""
        try:
            text = body.decode()
        except ValueError:
            return body
        if (answer := parsed_object(text)) is None:
            return body
        self.reader.read_whole(answer)
        return self.wire.extended(text, {**self._given(), **self._cited()}).encode()

    async def events(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the events in *parts*, each when it is whole, and at the end what is left."""
        pending = b""
        async for part in parts:
            pending += part
            begin = 0
            for end in _EVENT_END.finditer(pending):
                yield self._event(pending[begin : end.end()])
                begin = end.end()
            pending = pending[begin:]
        if pending:
            yield pending

    def _event(self, raw: bytes) -> bytes:
        """Return the event *raw* with what belongs into it; it is read."""
        found = _DATA.search(raw)
        if found is None or (event := parsed_object(found[1].decode("utf-8", "replace"))) is None:
            return raw
        self.reader.read_event(event)
        value: dict[str, Any] = {}
        if is_first := not self._has_begun and self.wire.begins(event):
            self._has_begun = True
            value |= self._given()
        if self.wire.ends(event):
            value |= self._cited()
        if not value:
            return raw
        text = self.wire.extended(found[1].decode(), value, at_holder=is_first)
        return raw[: found.start(1)] + text.encode() + raw[found.end(1) :]

    def _given(self) -> dict[str, Any]:
        memories = [
            {
                "label": short_id(item.id),
                "id": item.id,
                "text": item.text,
                "where": item.where,
                "date": None if item.date is None else item.date.isoformat(),
                "standing": item.standing,
            }
            for item in self.items
        ]
        notes = {"notes": list(self.notes)} if self.notes else {}
        return {"session": self.session, "memories": memories, **notes}

    def _cited(self) -> dict[str, Any]:
        text = self.reader.text
        return {"cited": [item.id for item in self.items if f"[{short_id(item.id)}]" in text]}
