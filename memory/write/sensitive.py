"""What was marked sensitive stays on this machine: whether an embedder or a model is somewhere else.

An embedder or a provider says so by an attribute ``remote``. One that says nothing is taken to be remote.
"""

from __future__ import annotations

from typing import Final

from memory.records import Memory
from vectorstore import Entry

NOT_SENT: Final = "sensitive: not sent to a remote embedder"


def is_remote(endpoint: object) -> bool:
    """Whether what is given to *endpoint* (an embedder, a provider, None) leaves this machine, as far as it says."""
    return endpoint is not None and bool(getattr(endpoint, "remote", True))


def may_embed(memory: Memory, embedder: object) -> bool:
    """Whether the words of *memory* may be given to *embedder*."""
    return not (memory.sensitive and is_remote(embedder))


def may_embed_entry(entry: Entry, embedder: object) -> bool:
    """As ``may_embed``, for a memory as it is stored."""
    return not (entry.metadata.get("sensitive") is True and is_remote(embedder))
