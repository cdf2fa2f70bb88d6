"""Short-term memory: one session of conversation history, and the window policy that shows a model part of it.

    memory = ShortTermMemory(InMemoryHistory(), policy=FixedWindow(turns=10))
    await memory.append(Message.user("Hello"), Message.assistant("Good morning"))
    (await memory.window()).messages

The storage keeps everything and filters nothing; the policy filters and keeps nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

from tellback.memory.errors import translating
from tellback.memory.history.codec import checked_messages, checked_namespace, checked_session
from tellback.memory.history.protocol import Conversation, HistoryStorage, StoredMessage, checked_history
from tellback.memory.history.windows import FullWindow, Window, WindowPolicy, checked_window_policy, window_of
from tellback.memory.messages import Message, Role


@translating
class ShortTermMemory:
    """Session of *storage*, read through *policy* (None: everything).

    Without a *session* id a new one is made by *ids*.
    """

    def __init__(
        self,
        storage: HistoryStorage,
        *,
        policy: WindowPolicy | None = None,
        session: str | None = None,
        namespace: str = "",
        ids: Callable[[], uuid.UUID] = uuid.uuid4,
    ) -> None:
        self._storage = checked_history(storage, "storage")
        self._policy = FullWindow() if policy is None else checked_window_policy(policy, "policy")
        self._session = checked_session(str(ids()) if session is None else session)
        self._namespace = checked_namespace(namespace)

    @property
    def session(self) -> str:
        """The id of the session."""
        return self._session

    @property
    def namespace(self) -> str:
        """The namespace that the session lives in."""
        return self._namespace

    @property
    def policy(self) -> WindowPolicy:
        """The policy that chooses the window."""
        return self._policy

    async def append(self, *messages: Message) -> list[int]:
        """Keep *messages*, all or none; return their sequence numbers. No messages are no call."""
        if not checked_messages(messages):
            return []
        return await self._storage.append(self._session, messages, namespace=self._namespace)

    async def window(self) -> Window:
        """Return what a model should see now."""
        return await window_of(self._policy, Conversation(self._storage, self._session, self._namespace))

    async def load(
        self, *, limit: int | None = None, offset: int = 0, roles: Iterable[Role] | None = None, after: int = 0
    ) -> list[StoredMessage]:
        """Return what is kept, oldest first, past any policy; as ``HistoryStorage.load``."""
        return await self._storage.load(
            self._session, namespace=self._namespace, limit=limit, offset=offset, roles=roles, after=after
        )

    async def clear(self) -> int:
        """Remove all messages of the session; return how many there were. Their numbers are never reused."""
        return await self._storage.clear(self._session, namespace=self._namespace)

    def __repr__(self) -> str:
        return f"ShortTermMemory(session={self._session!r}, policy={self._policy!r})"
