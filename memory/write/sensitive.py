"""What was marked sensitive stays on this machine: whether it may be given to an embedder."""

from __future__ import annotations

from typing import Final

from memory.embedders.remote import is_remote
from memory.records import Memory
from vectorstore import Entry

NOT_SENT: Final = "sensitive: not sent to a remote embedder"


def may_embed(memory: Memory, embedder: object) -> bool:
    """Whether the words of *memory* may be given to *embedder*."""
    return not (memory.sensitive and is_remote(embedder))


def may_embed_entry(entry: Entry, embedder: object) -> bool:
    """As ``may_embed``, for a memory as it is stored."""
    return not (entry.metadata.get("sensitive") is True and is_remote(embedder))
