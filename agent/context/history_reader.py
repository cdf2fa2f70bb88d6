"""Reader of a session's history as a model is shown it: quotes with their present text, within a window.

An answer that consists of quotes is stored as references; here it gets its text. A conversation policy, which keeps
something of its own such as a summary, reads the session itself; a read policy is applied later, within the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.agent_memory import AgentMemory
from agent.context.summarizer import Summarizer
from agent.errors import ArgumentError
from agent.turn_store import with_quoted_words
from agent.usage import UsageLedger
from memory import FullWindow, Message, TokenCounter, TokenWindow, WindowPolicy
from memory.internals import Conversation, ConversationWindowPolicy, StoredMessage

if TYPE_CHECKING:
    from memory import HistoryStorage

NO_SEQUENCE = -1
"""Sequence of a message that is a policy's own, such as a summary."""


@dataclass(frozen=True, slots=True)
class SessionHistory:
    """*messages* with their *sequences* in the session (``NO_SEQUENCE``: a policy's own), how many messages were left
    out before them (*dropped*), and *notes* on what the policy did differently than asked."""

    messages: tuple[Message, ...] = ()
    sequences: tuple[int, ...] = ()
    dropped: int = 0
    notes: tuple[str, ...] = ()

    def last_user_texts(self, count: int) -> list[str]:
        """Return the last *count* texts of the user, oldest first."""
        numbered = zip(self.messages, self.sequences, strict=True)
        return [message.text for message, number in numbered if message.role == "user" and number != NO_SEQUENCE][
            -count:
        ]


def history_bound(window: WindowPolicy | None, budget: int | None, counter: TokenCounter) -> WindowPolicy:
    """Return the policy that bounds how much of a conversation can be shown: *window*, else a *budget* of tokens."""
    if window is None:
        return FullWindow() if budget is None else TokenWindow(budget, counter)
    if isinstance(window, type) or not isinstance(window, WindowPolicy):
        raise ArgumentError("window", window, "a read policy is needed, such as FixedWindow(turns=20), or None")
    return window


@dataclass(frozen=True, slots=True)
class HistoryReader:
    """Reads sessions of *memory*, or of a *history* alone: the messages that *policy* reads, or else the newest ones.

    The newest *limit* messages are read, and more as long as *bound* (None: no more), which chooses from them later,
    would leave none of them out. System messages are always read.
    """

    memory: AgentMemory | None
    history: HistoryStorage | None
    policy: WindowPolicy | None
    namespace: str = ""
    limit: int = 200
    bound: WindowPolicy | None = None

    async def read(self, session: str, ledger: UsageLedger | None = None) -> SessionHistory:
        """Return the history of *session*; calls of a model for it are counted in *ledger*."""
        storage = self.history if self.memory is None else self.memory.conversations
        if storage is None:
            return SessionHistory()
        if isinstance(self.policy, ConversationWindowPolicy):
            return await self._read_with_policy(self.policy, storage, session, ledger or UsageLedger())
        newest, notes = await self._newest(storage, session)
        stored = await with_quoted_words(newest, self.memory, self.namespace)
        messages = tuple(item.message for item in stored)
        return SessionHistory(messages, tuple(item.sequence for item in stored), notes=notes)

    async def _newest(self, storage: HistoryStorage, session: str) -> tuple[list[StoredMessage], tuple[str, ...]]:
        """Return the newest messages that may be shown, and a note where there are older ones."""
        limit = self.limit
        while True:
            stored = await storage.load(session, limit=limit + 1, namespace=self.namespace)
            if len(stored) <= limit:
                return stored, ()
            stored = stored[1:]
            # References to quoted words are shorter here than the words: rather too many are read than too few.
            if self.bound is None or self.bound.apply([item.message for item in stored]).dropped:
                break
            limit *= 4
        first = stored[0].sequence
        system = await storage.load(session, roles=["system"], namespace=self.namespace)
        earlier = [message for message in system if message.sequence < first]
        return [*earlier, *stored], (f"of this conversation, nothing before its message {first} was looked at",)

    async def _read_with_policy(
        self, policy: ConversationWindowPolicy, storage: HistoryStorage, session: str, ledger: UsageLedger
    ) -> SessionHistory:
        by_identity: dict[int, StoredMessage] = {}  # holds the messages, so that no id is used again

        async def with_quotes(stored: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
            shown = await with_quoted_words(stored, self.memory, self.namespace)
            by_identity.update((id(item.message), item) for item in shown)
            return shown

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            return function.counted(ledger) if isinstance(function, Summarizer) else function

        window = await policy.window(Conversation(storage, session, self.namespace, with_quotes, counted))
        stored = [by_identity.get(id(message)) for message in window.messages]
        sequences = tuple(NO_SEQUENCE if item is None else item.sequence for item in stored)
        return SessionHistory(window.messages, sequences, window.dropped, window.notes)
