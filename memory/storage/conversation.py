"""One session of a storage, as a policy that needs more than its messages reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from memory.errors import ArgumentError
from memory.storage.protocol import HistoryStorage, StoredMessage
from memory.storage.summaries import Summary, SummaryStorage

Worded: TypeAlias = Callable[[Sequence[StoredMessage]], Awaitable[Sequence[StoredMessage]]]
"""Gives stored messages the words in which they are shown, such as those that a quoting answer only points to."""

Calling: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Gives a policy's function as it is to be called in this reading, such as one that counts what its model costs."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of *session* in *storage*, and the summaries kept beside them."""

    storage: HistoryStorage
    session: str
    namespace: str = ""
    worded: Worded | None = None
    calling: Calling | None = None

    async def load(self, *, after: int = 0) -> list[StoredMessage]:
        """Return the messages numbered above *after*, oldest first, and of those before the system's."""
        later = await self.storage.load(self.session, namespace=self.namespace, after=after)
        if after:
            system = await self.storage.load(self.session, namespace=self.namespace, roles=["system"])
            later = [*(one for one in system if one.sequence <= after), *later]
        return later if self.worded is None else list(await self.worded(later))

    async def summary(self, name: str) -> Summary | None:
        """Return the summary of that name; a storage that keeps none raises ``ArgumentError``."""
        return await self._summaries().summary(self.session, name, namespace=self.namespace)

    async def keep_summary(self, summary: Summary, *, before: Summary | None, made_of: Sequence[int]) -> bool:
        """As ``SummaryStorage.keep_summary``."""
        return await self._summaries().keep_summary(
            self.session, summary, before=before, made_of=made_of, namespace=self.namespace
        )

    def _summaries(self) -> SummaryStorage:
        if not isinstance(self.storage, SummaryStorage):
            raise ArgumentError("storage", self.storage, "a history that keeps summaries is needed")
        return self.storage
