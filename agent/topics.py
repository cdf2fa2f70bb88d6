"""Topics: what memories are about, by the line that each has, as a model is shown them when it stores another one.

Whoever stores a memory about the same thing is to use the same words for it: then newer and older are told apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import Field

if TYPE_CHECKING:
    from tellback.memory import LongTermMemory, Memory
    from tellback.vectorstore import Filter

_SHOWN: Final = 5
_CANDIDATES: Final = 15
"""Memories among which different lines are looked for: several often have the same."""
AboutLine: TypeAlias = Annotated[
    str | None,
    Field(
        description="What it is about, in 3 to 10 words: the attribute, and the person or thing by name, without the "
        'value and without "now" or "new" ("spare house key: who keeps it"). '
        "Of what was told before, take the very words of its line.",
    ),
]


async def nearest_topics(
    memory: LongTermMemory, text: str, about: str, *, own: str, namespace: str, where: Filter | None
) -> Sequence[Memory]:
    """Return the memories with a line that are nearest to the line *about* and *text*, best first; *own* is none.

    They pass *where*, and have each another line.
    """
    has_line: Filter = {"about": {"$exists": True}}
    chosen: Filter = has_line if where is None else {"$and": [has_line, where]}
    hits = await memory.recall(f"{about} {text}".strip(), _CANDIDATES, namespace=namespace, where=chosen)
    by_line: dict[str, Memory] = {}
    for hit in hits:
        if hit.memory.id != own:
            by_line.setdefault(hit.memory.about, hit.memory)
    return [*by_line.values()][:_SHOWN]


def topics_note(topics: Iterable[tuple[str, str]], *, described: bool) -> str:
    """Return the nearest *topics*, pairs of an id and a line, as a model is shown them after what it stored.

    Where that was not *described* itself, the note asks for its line.
    """
    shown = "; ".join(f"{id} ({about})" for id, about in topics)
    parts = [f"Nearest topics: {shown}."] if shown else []
    if not described:
        parts.append("It has no line yet: the same text again, with about, gives it one.")
    return " ".join(parts)
