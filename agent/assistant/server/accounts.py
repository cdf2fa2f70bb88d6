"""Accounts of a server: who calls, whose namespace they may use, and how much they may keep there.

The owner has the token of the server and the namespace of its settings. Users have a token and a namespace of their
own, in the memory's database, and what others share with them.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tellback.agent.errors import AgentError
from tellback.agent.http_listener import check_token
from tellback.memory.internals import Quota, User, Users

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.memory import LongTermMemory

OWNER: Final = ""
"""Name of the account with the token of the server."""
_REQUESTS_PER_MINUTE: Final = 6_000
_USERS_REQUESTS_PER_MINUTE: Final = 600
_SECONDS_OF_COUNT: Final = 10.0
"""Seconds after which what a user keeps is counted anew; meanwhile, what comes in is added."""


class NotPermitted(AgentError):
    """The account may not do this: its role is another one, or it may only read what is shared with it."""


class NoSuchNamespace(AgentError):
    """A namespace that is not the account's own, and not shared with it; whether there is one is not said."""

    def __init__(self) -> None:
        super().__init__("no namespace of this name is yours or shared with you")


class QuotaExceeded(AgentError):
    """The account keeps as much as its quota allows."""

    def __init__(self, what: str, most: int) -> None:
        self.what, self.most = what, most
        super().__init__(f"your quota is {most:,} {what}; forget some, or ask the owner of the server for more")


@dataclass(frozen=True, slots=True)
class Account:
    """Account that calls: the owner's, or that of a *user* of the memory."""

    user: User

    @property
    def name(self) -> str:
        """Name of the user; "" of the owner of the server."""
        return self.user.name

    @property
    def is_owner(self) -> bool:
        """Return whether users, health and the file as a whole are shown to it."""
        return self.user.role == "owner"

    @property
    def requests_per_minute(self) -> int:
        """Requests a minute that are answered."""
        usual = _REQUESTS_PER_MINUTE if self.name == OWNER else _USERS_REQUESTS_PER_MINUTE
        return self.user.quota.requests or usual

    def check_owner(self) -> None:
        """Raise ``NotPermitted`` for an account that is no owner's."""
        if not self.is_owner:
            raise NotPermitted("this is for the owner of the server")

    def check_server_token(self) -> None:
        """Raise ``NotPermitted`` for a user's account, whatever its role: this is about everybody's memories."""
        if self.name != OWNER:
            raise NotPermitted("this needs the token of the server")


class Accounts:
    """Accounts by token, and the memories that each may use.

    *token* and *namespace* are the owner's; *opened* opens the memory.
    """

    def __init__(self, token: str, opened: Callable[[], Awaitable[OpenedMemory]], *, namespace: str = "") -> None:
        check_token(token)
        self._token, self._opened = token, opened
        self.owner: Final = Account(User(OWNER, namespace, "owner"))
        self._users: Users | None = None
        self._signed: dict[str, LongTermMemory] = {}
        self._room: dict[str, Room] = {}

    async def caller(self, token: str) -> Account | None:
        """Return the account with *token*; None where it is nobody's, or no longer."""
        if hmac.compare_digest(token.encode("utf-8", "replace"), self._token.encode()):
            return self.owner
        user = await asyncio.to_thread((await self._known_users()).by_token, token)
        return None if user is None else Account(user)

    async def account_of(self, name: str) -> tuple[Account, str] | None:
        """Return the account of the user *name*, and a mark that is another one with each token of theirs."""
        if name == OWNER:
            return self.owner, ""
        known = await asyncio.to_thread((await self._known_users()).with_mark, name)
        return None if known is None else (Account(known[0]), known[1])

    async def list(self) -> Sequence[tuple[User, Mapping[str, str]]]:
        """Return all users, each with what is shared with them."""
        users = await self._known_users()
        return await asyncio.to_thread(lambda: [(user, users.shares(user.name)) for user in users.list()])

    async def shared_with(self, account: Account) -> dict[str, str]:
        """Return the access ("read" or "write") of *account* to the namespaces that are shared with it."""
        if account.name == OWNER:
            return {}
        return dict(await asyncio.to_thread((await self._known_users()).shares, account.name))

    async def memory_of(self, account: Account, namespace: str | None = None, *, writes: bool) -> OpenedMemory:
        """Return the memory of *account*, or what of *namespace* is shared with it.

        ``NotPermitted``: it *writes*, and may only read. ``NoSuchNamespace``: it is not shared with this account.
        """
        opened, user = await self._opened(), account.user
        if namespace is None or namespace == user.namespace:
            may_write, chosen = user.role != "reader", user.namespace
        else:
            shared = await self.shared_with(account)
            if namespace not in shared:
                raise NoSuchNamespace
            may_write, chosen = shared[namespace] == "write" and user.role != "reader", namespace
        if writes and not may_write:
            raise NotPermitted("you may read here, and change nothing")
        if account.name == OWNER:
            return opened
        signed = self._signed.get(account.name)
        if signed is None or signed.store is not opened.memory.store:
            signed = self._signed[account.name] = opened.memory.signed_by(account.name)
        room = self._room_of(account, signed) if chosen == user.namespace else None
        return opened.seen_by(signed, chosen, own=chosen == user.namespace, writes=may_write, room=room)

    def _room_of(self, account: Account, memory: LongTermMemory) -> Room | None:
        quota = account.user.quota
        if quota.memories is quota.documents is quota.bytes is None:
            return None
        room = self._room.get(account.name)
        if room is None or room.quota != quota:
            room = self._room[account.name] = Room(quota, memory, account.user.namespace)
        return room

    async def _known_users(self) -> Users:
        if self._users is None:
            self._users = await asyncio.to_thread(Users, (await self._opened()).memory.database)
        return self._users


@dataclass(slots=True)
class Room:
    """Room that is left in *namespace* of *memory* under *quota*; what is on its way counts, too.

    Known is what was there when it was counted, what was stored since that count began, and what is on its way: rather
    one memory twice than one too many.
    """

    quota: Quota
    memory: LongTermMemory
    namespace: str
    _kept: Counter[str] = field(default_factory=Counter)
    _stored: Counter[str] = field(default_factory=Counter)
    _before: Counter[str] = field(default_factory=Counter)
    _coming: Counter[str] = field(default_factory=Counter)
    _counted_at: float = float("-inf")
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def taking(self, **more: int) -> AsyncIterator[None]:
        """As ``desk.Room.taking``; it raises ``QuotaExceeded``."""
        async with self._lock:
            age = time.monotonic() - self._counted_at
            if age > _SECONDS_OF_COUNT or self._missing(more):  # something may have been forgotten meanwhile
                before, counted_at = self._stored.copy(), time.monotonic()
                self._kept, self._before, self._counted_at = await self._count(), before, counted_at
            if what := self._missing(more):
                raise QuotaExceeded(what, getattr(self.quota, what))
            self._coming.update(more)
        try:
            yield
            self._stored.update(more)
        finally:
            self._coming.subtract(more)

    def _missing(self, more: Mapping[str, int]) -> str:
        """Return of what there is no room for *more*; "" where there is."""
        for what, count in more.items():
            most: int | None = getattr(self.quota, what)
            known = self._kept[what] + self._stored[what] - self._before[what] + self._coming[what]
            if most is not None and count and known + count > most:
                return what
        return ""

    async def _count(self) -> Counter[str]:
        from tellback.agent.desk.desk import MemoryDesk

        stats = await self.memory.stats(namespace=self.namespace)
        documents = await MemoryDesk(memory=self.memory, namespace=self.namespace).documents()
        return Counter(memories=stats.memories, documents=len(documents), bytes=stats.text_bytes)
