"""Topics: what memories are about, by the line that each has, as a model is shown them when it stores another one.

Whoever stores a memory about the same thing is to use the same words for it: then newer and older are told apart.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import Field

if TYPE_CHECKING:
    from tellback.memory import LongTermMemory, Memory
    from tellback.vectorstore import Filter

_SHOWN: Final = 5
_CANDIDATES: Final = 15
"""Memories among which different lines are looked for: several often have the same."""
_PAGE: Final = 500
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
    chosen = _both(has_line, where)
    hits = await memory.recall(f"{about} {text}".strip(), _CANDIDATES, namespace=namespace, where=chosen)
    by_line: dict[str, Memory] = {}
    for hit in hits:
        if hit.memory.id != own:
            by_line.setdefault(hit.memory.about, hit.memory)
    return [*by_line.values()][:_SHOWN]


async def memories_without_line(
    memory: LongTermMemory, order: Literal["newest", "oldest"], *, namespace: str, where: Filter | None = None
) -> AsyncIterator[list[Memory]]:
    """Yield pages of the memories of which nobody has said what they are about, by when they were said.

    They pass *where*. Those that are disabled or state nothing need no line.
    """
    chosen = _both({"about_by": {"$exists": False}}, where)
    after: str | None = None
    while True:
        page = await memory.list(
            order=order, after=after, limit=_PAGE, namespace=namespace, disabled=False, where=chosen
        )
        yield [found for found in page if found.is_evidence]
        if page.next is None:
            return
        after = page.next


def _both(condition: Filter, where: Filter | None) -> Filter:
    return condition if where is None else {"$and": [condition, where]}


def topics_note(topics: Iterable[tuple[str, str]], *, described: bool) -> str:
    """Return the nearest *topics*, pairs of an id and a line, as a model is shown them after what it stored.

    Where that was not *described* itself, the note asks for its line.
    """
    shown = "; ".join(f"{id} ({about})" for id, about in topics)
    parts = [f"Nearest topics: {shown}."] if shown else []
    if not described:
        parts.append("It has no line yet: the same text again, with about, gives it one.")
    return " ".join(parts)
