"""Metadata keys of messages and memories that the packages agree on. They stand in files and are never changed."""

from __future__ import annotations

from typing import Final

QUOTES: Final = "quotes"
"""Of an answer: the ids of the memories whose words it repeats. It is no memory of its own, so that what was corrected
does not live on in it, and it is forgotten with them."""

TRUST: Final = "trust"
"""Of a message: the least trusted word that was read when it was made, where that is less than its role's own."""

RECALLED: Final = "recalled"
"""Of a tool message: the ids of calls whose results show what is remembered already, such as a search of the memory.
They are not remembered again."""

USED: Final = "used"
"""Of a memory: ids of memories that the answer was made with; named when one is forgotten."""
