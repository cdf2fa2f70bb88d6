"""Protocols of the memory and the documents that an agent reads and writes. No implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from memory import Memory, Message, RecallResult, Report
from memory.internals import Passages

if TYPE_CHECKING:
    from memory import HistoryStorage
    from vectorstore import Filter, VectorStore


class AgentMemory(Protocol):
    """A memory that an agent can be grounded on, such as ``memory.LongTermMemory``, whose docstrings hold here."""

    @property
    def conversations(self) -> HistoryStorage:
        """History of the conversations."""
        ...

    @property
    def store(self) -> VectorStore:
        """Vector store of the memories; its analyzer makes words comparable."""
        ...

    async def recall(
        self,
        question: str,
        k: int = 10,
        *,
        context: Sequence[str] = (),
        namespace: str = "",
        where: Filter | None = None,
    ) -> RecallResult:
        """Return the *k* memories and passages that bear most on *question*, best first.

        *context* are the user's texts before it, oldest first; *where* filters by metadata.
        """
        ...

    def redacted(self, text: str) -> str:
        """Return *text* as it would be kept, without what the write policies take out."""
        ...

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float] | None:
        """Return the cosine of each of *texts* with *question*; None where nothing on this machine can tell."""
        ...

    async def pinned(self, *, namespace: str = "") -> Sequence[Memory]:
        """Return the pinned memories, the most important first, then the newest."""
        ...

    async def get(self, ids: Sequence[str], *, namespace: str = "") -> Sequence[Memory | None]:
        """Return memories in the order of *ids*; None for an unknown id."""
        ...

    async def remember_turn(
        self, session: str, messages: Sequence[Message], *, namespace: str = "", used: Sequence[str] = ()
    ) -> Sequence[Report]:
        """Append *messages* to the history of *session* and remember them, whole or not at all."""
        ...


class PassageRetriever(Protocol):
    """Documents that passages can be retrieved from, such as ``memory.KnowledgeBase``."""

    async def retrieve(self, question: str, k: int = 5) -> Passages:
        """Return the passages that are most about *question*, best first."""
        ...
