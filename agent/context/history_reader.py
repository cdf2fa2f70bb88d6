"""Reader of a session's history as a model is shown it: quotes with their present text, within a window.

An answer that consists of quotes is stored as references; here it gets its text. A conversation policy, which keeps
something of its own such as a summary, reads the session itself; a read policy is applied later, within the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agent.context.summarizer import Summarizer
from agent.errors import ArgumentError
from agent.turn_store import quoted_message
from agent.usage import UsageLedger
from memory import FullWindow, Message, TokenCounter, TokenWindow, WindowPolicy
from memory.internals import Conversation, ConversationWindowPolicy, StoredMessage

if TYPE_CHECKING:
    from memory import HistoryStorage, LongTermMemory

NO_SEQUENCE = -1
"""The place of a message that nobody said."""


@dataclass(frozen=True, slots=True)
class SessionHistory:
    """*messages* with their *sequences* in the session (``NO_SEQUENCE``: a policy's own), how many messages were left
    out before them (*dropped*), and *notes* on what the policy did differently than asked."""

    messages: tuple[Message, ...] = ()
    sequences: tuple[int, ...] = ()
    dropped: int = 0
    notes: tuple[str, ...] = ()

    def last_of_the_user(self, count: int) -> list[str]:
        """Return the last *count* texts that the user said."""
        placed = zip(self.messages, self.sequences, strict=True)
        return [one.text for one, place in placed if one.role == "user" and place != NO_SEQUENCE][-count:]


def history_bound(window: WindowPolicy | None, budget: int | None, counter: TokenCounter) -> WindowPolicy:
    """Return what says how much of a conversation can be shown at most: *window*, else a *budget* of tokens."""
    if window is None:
        return FullWindow() if budget is None else TokenWindow(budget, counter)
    if isinstance(window, type) or not isinstance(window, WindowPolicy):
        raise ArgumentError("window", window, "a read policy is needed, such as FixedWindow(turns=20), or None")
    return window


@dataclass(frozen=True, slots=True)
class HistoryReader:
    """Reads sessions of *memory*, or of a *history* alone: what *policy* reads, or else the newest messages.

    These are *limit* of them, and more for as long as *bound* (None: no more), which chooses from them later, would
    leave none of them out. System messages are always read.
    """

    memory: LongTermMemory | None
    history: HistoryStorage | None
    policy: WindowPolicy | None
    namespace: str = ""
    limit: int = 200
    bound: WindowPolicy | None = None

    async def read(self, session: str, ledger: UsageLedger | None = None) -> SessionHistory:
        """Return what was said in *session*; what a model is asked for it is counted in *ledger*."""
        storage = self.history if self.memory is None else self.memory.conversations
        if storage is None:
            return SessionHistory()
        if isinstance(self.policy, ConversationWindowPolicy):
            return await self._through(self.policy, storage, session, ledger or UsageLedger())
        newest, notes = await self._newest(storage, session)
        stored = await self._worded(newest)
        return SessionHistory(tuple(one.message for one in stored), tuple(one.sequence for one in stored), notes=notes)

    async def _newest(self, storage: HistoryStorage, session: str) -> tuple[list[StoredMessage], tuple[str, ...]]:
        """Return the newest messages that may be shown, and a note where there are older ones."""
        limit = self.limit
        while True:
            stored = await storage.load(session, limit=limit + 1, namespace=self.namespace)
            if len(stored) <= limit:
                return stored, ()
            stored = stored[1:]
            # What only points to its words is shorter here than it will be: rather too many are read than too few.
            if self.bound is None or self.bound.apply([one.message for one in stored]).dropped:
                break
            limit *= 4
        first = stored[0].sequence
        system = await storage.load(session, roles=["system"], namespace=self.namespace)
        before = [one for one in system if one.sequence < first]
        return [*before, *stored], (f"of this conversation, nothing before its message {first} was looked at",)

    async def _through(
        self, policy: ConversationWindowPolicy, storage: HistoryStorage, session: str, ledger: UsageLedger
    ) -> SessionHistory:
        places: dict[int, StoredMessage] = {}  # kept while they are compared by identity

        async def worded(stored: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
            shown = await self._worded(stored)
            places.update((id(one.message), one) for one in shown)
            return shown

        def calling(function: Callable[..., Any]) -> Callable[..., Any]:
            return function.counted(ledger) if isinstance(function, Summarizer) else function

        window = await policy.window(Conversation(storage, session, self.namespace, worded, calling))
        at = [places[id(one)].sequence if id(one) in places else NO_SEQUENCE for one in window.messages]
        return SessionHistory(window.messages, tuple(at), window.dropped, window.notes)

    async def _worded(self, stored: Sequence[StoredMessage]) -> list[StoredMessage]:
        """Return *stored*; those that were kept as pointers to what they quoted, with the words of today."""
        ids = list(dict.fromkeys(id for one in stored for id in quoted_message(one.message).ids))
        found = await self.memory.get(ids, namespace=self.namespace) if ids and self.memory is not None else []
        texts = {one.id: one.text for one in found if one is not None}
        return [replace(one, message=quoted_message(one.message).worded(texts)) for one in stored]
