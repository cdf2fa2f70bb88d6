"""Whether an embedder sends its texts to another machine: what is sensitive is not given to such a one unasked."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from memory.embedders.protocol import Embedder


@runtime_checkable
class PlacedEmbedder(Protocol):
    """An embedder that knows where its texts go."""

    @property
    def remote(self) -> bool:
        """Whether they leave this machine."""
        ...


def is_remote(embedder: Embedder | None) -> bool:
    """Whether *embedder* says that its texts leave this machine; one that says nothing is taken to keep them here."""
    return isinstance(embedder, PlacedEmbedder) and embedder.remote
