"""Accounts of a server: who calls, whose namespace they may use, and how much they may keep there.

The owner has the token of the server and the namespace of its settings. Users have a token and a namespace of their
own, in the memory's database, and what others share with them.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

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
_SECONDS_TO_STORE: Final = 600.0
"""Seconds after which what a process has reserved and not stored does not count any more: it was killed."""
_LOOKS: Final = 20
_SECONDS_BETWEEN_LOOKS: Final = 0.1


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

    async def spend(self, word: str, until: int, now: int) -> bool:
        """As ``Users.spend``: for every process of the server, and for its next one."""
        return await asyncio.to_thread((await self._known_users()).spend, word, until, now)

    async def is_spent(self, word: str) -> bool:
        """As ``Users.is_spent``."""
        return await asyncio.to_thread((await self._known_users()).is_spent, word)

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
        room = await self._room_of(account, signed) if chosen == user.namespace else None
        return opened.seen_by(signed, chosen, own=chosen == user.namespace, writes=may_write, room=room)

    async def _room_of(self, account: Account, memory: LongTermMemory) -> QuotaRoom | None:
        quota = account.user.quota
        if quota.memories is quota.documents is quota.bytes is None:
            return None
        return QuotaRoom(quota, memory, account.user.namespace, await self._known_users())

    async def _known_users(self) -> Users:
        if self._users is None:
            self._users = await asyncio.to_thread(Users, (await self._opened()).memory.database)
        return self._users


async def memory_of_caller(request: Request, namespace: str | None = None, *, writes: bool) -> OpenedMemory:
    """Return the memory of whoever sends *request*, as ``Accounts.memory_of``."""
    accounts: Accounts = request.app.state.accounts
    return await accounts.memory_of(request.state.caller, namespace, writes=writes)


async def shared_memories(request: Request) -> list[OpenedMemory]:
    """Return what of other namespaces is shared with whoever sends *request*, to read."""
    accounts: Accounts = request.app.state.accounts
    shared = await accounts.shared_with(request.state.caller)
    return [await memory_of_caller(request, name, writes=False) for name in shared]


def check_server_token(request: Request) -> None:
    """Raise ``NotPermitted`` unless *request* was sent with the token of the server, or a session begun with it."""
    account: Account = request.state.caller
    account.check_server_token()


@dataclass(frozen=True, slots=True)
class QuotaRoom:
    """Room that *quota* leaves in *namespace* of *memory*, whichever process of the server stores there.

    What is on its way is reserved among the *users* until it is stored, and counts: rather one memory twice than one
    too many.
    """

    quota: Quota
    memory: LongTermMemory
    namespace: str
    users: Users

    @asynccontextmanager
    async def taking(self, **more: int) -> AsyncIterator[None]:
        """As ``desk.Room.taking``; it raises ``QuotaExceeded``."""
        limited = {what: count for what, count in more.items() if count and getattr(self.quota, what) is not None}
        if not limited:
            yield
            return
        until = int(time.time() + _SECONDS_TO_STORE)
        number = await asyncio.to_thread(self.users.reserve, self.namespace, until, limited)
        try:
            await self._check(limited, number)
            yield
        finally:
            await asyncio.shield(asyncio.to_thread(self.users.release, self.namespace, number))

    async def _check(self, more: Mapping[str, int], number: int) -> None:
        """Raise ``QuotaExceeded`` where *more* does not fit; where others are on their way, look again for a while."""
        for look in range(_LOOKS):
            coming = await asyncio.to_thread(self.users.reserved, self.namespace, number)  # before what it becomes
            kept = await self._kept("documents" in more)
            missing = [
                what
                for what, count in more.items()
                if kept[what] + coming.get(what, 0) + count > getattr(self.quota, what)
            ]
            if not missing:
                return
            if not coming or look == _LOOKS - 1:
                raise QuotaExceeded(missing[0], getattr(self.quota, missing[0]))
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)

    async def _kept(self, documents: bool) -> dict[str, int]:
        from tellback.agent.desk.desk import MemoryDesk

        stats = await self.memory.stats(namespace=self.namespace)
        kept = {"memories": stats.memories, "bytes": stats.text_bytes}
        if documents:
            kept["documents"] = len(await MemoryDesk(memory=self.memory, namespace=self.namespace).documents())
        return kept
