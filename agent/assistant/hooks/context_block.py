"""Block of memories that a hook adds to a prompt: delimited, dated, newest first, one line a memory. Pure.

A memory's own line breaks are folded, tags of clients in it are defused, and the closing line carries a mark that no
text inside contains, so that no memory can end the block or imitate another one. The tag is taken out again when a
transcript is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from tellback.agent.context.control_markup import BLOCK_TAG, defuse
from tellback.agent.context.rendering import DATA_RULES, ITEM_FORM, render_item, unused_mark
from tellback.agent.context_items import ContextItem, with_standing
from tellback.agent.short_ids import short_id

_EARLIEST = datetime.min.replace(tzinfo=UTC)
PROMPT_HEADING = f"What the user's own long-term memory holds on this, newest first: {ITEM_FORM}. {DATA_RULES}"
BRIEFING_HEADING = (
    f"From the user's own long-term memory, newest first: {ITEM_FORM}. {DATA_RULES} More is added where a prompt bears "
    "on it."
)
_EXCERPT_CHARACTERS = 600


def context_block(
    items: Sequence[ContextItem], *, heading: str, tokens: int, count: Callable[[str], int]
) -> tuple[str, tuple[ContextItem, ...]]:
    """Return the block of *items*, best first, within *tokens* as *count* counts them, and the items in it.

    An item that does not fit is left out; a shorter one after it may still fit. Without any it is ("", ()).
    """
    mark = unused_mark([line for item in items for line in (item.id, item.text)], "\n".join(item.id for item in items))
    opening, closing = f'<{BLOCK_TAG} mark="{mark}">\n{heading}', f"</{BLOCK_TAG} {mark}>"
    room = tokens - count(f"{opening}\n{closing}\n")
    shown: list[tuple[ContextItem, str]] = []
    for item in with_standing(items):
        line = item_line(item)
        cost = count(line + "\n")
        if cost <= room:
            room -= cost
            shown.append((item, line))
    if not shown:
        return "", ()
    shown.sort(key=lambda pair: pair[0].date or _EARLIEST, reverse=True)
    return "\n".join([opening, *(line for _, line in shown), closing]), tuple(item for item, _ in shown)


def item_line(item: ContextItem) -> str:
    """Return *item* on one line; a long text is cut after 600 characters."""
    text = " ".join(defuse(item.text).split())  # before its lines are joined: role markers begin a line
    if len(text) > _EXCERPT_CHARACTERS:
        text = text[:_EXCERPT_CHARACTERS].rstrip() + " …"
    return render_item(replace(item, id=short_id(item.id), text=text), by_id=True)
