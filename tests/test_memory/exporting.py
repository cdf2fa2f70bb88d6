"""Helpers of the tests of exports: a memory with something of everything in it, its lines, and lines made to fit.

Inner parts, on no face: ``tellback.memory.export_import.codec``.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta, timezone
from enum import EnumType
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from tellback.memory import (
    DocumentBlock,
    ImageBlock,
    KnowledgeBase,
    Memory,
    Message,
    Source,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Trust,
)
from tellback.memory.export_import.codec import lines_hasher


class Ticking:
    """Clock that advances one second at each call."""

    def __init__(self):
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        self.now += timedelta(seconds=1)
        return self.now


class Toy:
    """An embedder whose vectors differ from text to text."""

    dimension = 8

    def __init__(self, fingerprint="toy/1"):
        self.fingerprint = fingerprint

    async def embed(self, texts, kind="document"):
        rows = [np.random.default_rng(list(text.encode())).normal(size=8) for text in texts]
        return np.array(rows, dtype=np.float32).reshape(len(texts), 8)


RUNNER = asyncio.Runner()
"""One event loop for all calls: a new one for each call would start its threads anew."""


def run(awaitable):
    return RUNNER.run(awaitable)


def filled(memory, tmp_path):
    """Fill a memory with every kind of item that it can hold."""
    east = timezone(timedelta(hours=5, minutes=30))
    first = run(memory.remember(Memory("I live in Lisbon.", kind="fact", tags=("home", "town"), importance=0.5)))
    run(memory.correct(first.id, "I live in Porto.", valid_from=datetime(2025, 3, 1, tzinfo=east)))
    run(memory.correct(first.id, "I live in Coimbra."))
    run(memory.pin(first.id))
    full = Memory(
        'quotes " and \\ and \u2028 and é 記憶',
        kind="event",
        speaker="Ann",
        role="user",
        source=Source(session="s", sequence=1, title="T", heading=("a", "b")),
        scopes={"project": "x"},
        key="my key",
        occurred_at=datetime(1, 1, 1, tzinfo=UTC),
        expires_at=datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        metadata={"n": 1, "f": 1.0, "deep": {"list": [True, None, {"x": "y"}]}},
        caption="a picture",
        derived_from=(first.id,),
    )
    run(memory.remember(full))
    when = datetime(2020, 5, 1, tzinfo=east)
    seen = Memory(
        "The gate was open.", trust=Trust.TOOL, sensitive=True, valid_from=when, valid_to=when, expires_at=when
    )
    run(memory.disable([run(memory.remember(seen)).id]))
    a, b = (run(memory.remember(text)).id for text in ("one of two", "two of two"))
    run(memory.merge([a, b], "both in one"))
    undone = run(memory.remember("said by mistake"))
    run(memory.undo(undone.operation))
    gone = run(memory.remember("to be forgotten: 44173921-zebra")).id
    run(memory.forget([gone]))
    call = ToolCallBlock(id="1", name="save", arguments={"x": [1]})
    result = ToolResultBlock(call_id="1", content=(TextBlock(text="saved"),))
    file = DocumentBlock(media_type="application/pdf", data=bytes(range(256)))
    image = ImageBlock(media_type="image/png", data=b"\x89PNG", name="gate.png", caption="the gate")
    run(
        memory.remember_turn(
            "session",
            [
                Message.user("What is up?"),
                Message.assistant([call]),
                Message.tool([result]),
                Message.user([file, image]),
            ],
        )
    )
    run(memory.conversations.append("another", [Message.system("be kind"), Message.user("never mind")]))
    run(memory.conversations.delete("another", [2]))
    (tmp_path / "notes").mkdir(exist_ok=True)
    (tmp_path / "notes" / "tower.md").write_text("# The tower\n\nIt has 291 steps.\n\n# The bridge\n\nIt is long.\n")
    run(KnowledgeBase(memory, collection="guide").ingest(tmp_path / "notes"))
    return first.id


def sample(kind):
    """Return a value of the type *kind*: dataclasses with all their fields, whatever these are, none at its default."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{field.name: sample(hints[field.name]) for field in fields(kind)})
    if origin is Literal:
        return inner[-1]
    if origin in (UnionType, Union):
        return sample(next(each for each in inner if each is not NoneType))
    if origin is tuple:
        return (sample(inner[0]),)
    if origin is Mapping:
        return {"name": sample(inner[1])}
    if isinstance(kind, EnumType):
        return list(kind)[-1]
    time = datetime(2027, 5, 1, 12, 30, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    return {str: "sample", int: 3, float: 0.75, bool: True, datetime: time, Any: {"deep": [1, None, "x"]}}[kind]


def exported(memory, path, **options):
    run(memory.export(path, **options))
    return path.read_bytes()


def items(data):
    return [json.loads(line) for line in data.splitlines()]


def sealed(lines):
    """Return the lines with a matching header line, as after a careful edit of the file."""
    digest = lines_hasher()
    for line in lines[1:]:
        digest.update(line)
    header = json.loads(lines[0])
    header["hash"] = digest.hexdigest()
    header["counts"] = {
        kind: sum(json.loads(line).get("type") == kind for line in lines[1:]) for kind in header["counts"]
    }
    return [json.dumps(header).encode() + b"\n", *lines[1:]]
