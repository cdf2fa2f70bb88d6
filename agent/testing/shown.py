"""What a model was shown of memory: a request parsed back into its items, message by message.

shown = shown_items(provider.requests[0])
assert [item.header["id"] for item in shown] == [report.id]
"""

from __future__ import annotations

import re

from agent.providers.protocol import Request
from agent.rendering import ShownItem, read_back

_MARK = re.compile("Text between a line «begin ([0-9a-f]{16}) item N")


def mark_in(request: Request) -> str:
    """Return the mark that the system prompt of *request* names; empty where it names none."""
    found = _MARK.findall(request.system)
    return str(found[-1]) if found else ""


def shown_items(request: Request) -> list[ShownItem]:
    """Return the memories and passages that *request* shows as such, in their order.

    Items anywhere but in the words of the user's role would be a fault: they raise ``AssertionError``.
    """
    mark = mark_in(request)
    if not mark:
        return []
    shown: list[ShownItem] = []
    for message in request.messages:
        texts = [message.text, *(result.text for result in message.tool_results)]
        if message.role == "user":
            shown += read_back(texts[0], mark)
        elif any(mark in text for text in texts):
            raise AssertionError(f"the mark of recalled items stands in a message of the role {message.role}")
    return shown
