"""Users of a memory that a server has for several people: names and tokens, what is shared with them, and quotas.

A token is shown once and kept as its hash: it is drawn, so that a plain hash cannot be guessed back.

users              name, namespace, role, hash of the token, quotas, time of making
user_shares        namespace and user: "read", or "write" (which includes reading)
user_reservations  namespace and number: what is on its way into it, which counts, too; and until when at most
spent_words        hash of a word that signs in once, or of a session that was ended, and when it would have expired
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final, Literal, TypeAlias, get_args

from tellback.memory.errors import ArgumentError
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.timestamps import Clock, system_clock, timestamp_from_text, timestamp_to_text
from tellback.memory.validation import checked_int, checked_label
from tellback.vectorstore import Connection, Database, TableComponent

Role: TypeAlias = Literal["owner", "member", "reader"]
"""An owner sees users and health, too; a reader changes nothing."""
Access: TypeAlias = Literal["read", "write"]
_COLUMNS: Final = "name, namespace, role, memories, documents, bytes, requests, made_at"
_KEPT: Final = ("memories", "documents", "bytes")
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class Quota:
    """Most that a user may keep in their namespace, and most *requests* a minute; None is no limit."""

    memories: int | None = None
    documents: int | None = None
    bytes: int | None = None
    requests: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            if (value := getattr(self, field.name)) is not None:
                checked_int(value, field.name, 1)


@dataclass(frozen=True, slots=True)
class User:
    """User of a server, with a *namespace* of their own."""

    name: str
    namespace: str
    role: Role = "member"
    quota: Quota = Quota()
    made_at: datetime | None = None


class Users:
    """Users by name and token, in tables of *database*; *token* draws a new token. Each call is one transaction."""

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock = system_clock,
        token: Callable[[], str] = lambda: secrets.token_urlsafe(32),
    ) -> None:
        self._database, self._clock, self._token = database, clock, token
        database.attach(USER_TABLES)

    def add(self, user: User) -> str:
        """Add *user* and return their token, which is nowhere else; a name or a namespace in use raises."""
        name = _checked_name(user.name)
        store_namespace(checked_label(user.namespace, "namespace"), CONVERSATION)
        if user.role not in get_args(Role):
            raise ArgumentError("role", user.role, f"one of {', '.join(get_args(Role))} is needed")
        token, quota = self._token(), user.quota
        with self._database.write() as connection:
            taken = connection.execute("SELECT name, namespace FROM users").fetchall()
            if any(name == other for other, _ in taken):
                raise ArgumentError("name", name, "a name that no user has is needed")
            if any(user.namespace == other for _, other in taken):
                raise ArgumentError("namespace", user.namespace, "a namespace that is no user's own is needed")
            made_at = timestamp_to_text(user.made_at or self._clock())
            limits = (quota.memories, quota.documents, quota.bytes, quota.requests)
            connection.execute(
                f"INSERT INTO users ({_COLUMNS}, token) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (name, user.namespace, user.role, *limits, made_at, _hash(token)),
            )
        return token

    def renew_token(self, name: str) -> str:
        """Return a new token of a user; the former one is worth nothing from now on."""
        token = self._token()
        self._change(name, "token = ?", _hash(token))
        return token

    def set_quota(self, name: str, quota: Quota) -> None:
        """Set what a user may keep, and ask."""
        limits = (quota.memories, quota.documents, quota.bytes, quota.requests)
        self._change(name, "memories = ?, documents = ?, bytes = ?, requests = ?", *limits)

    def by_token(self, token: str) -> User | None:
        """Return the user with *token*."""
        return self._one("token = ?", _hash(token))

    def get(self, name: str) -> User:
        """Return a user; an unknown *name* raises ``ArgumentError``."""
        if (user := self._one("name = ?", name)) is None:
            raise ArgumentError("name", name, "the name of a user is needed")
        return user

    def with_mark(self, name: str) -> tuple[User, str] | None:
        """Return a user with a mark of their token, which changes with it and does not tell it; None for no user."""
        with self._database.read() as connection:
            row = connection.execute(f"SELECT {_COLUMNS}, token FROM users WHERE name = ?", (name,)).fetchone()
        return None if row is None else (_user(row[:-1]), hashlib.sha256(row[-1].encode()).hexdigest())

    def list(self) -> Sequence[User]:
        """Return all users by name."""
        with self._database.read() as connection:
            return [_user(row) for row in connection.execute(f"SELECT {_COLUMNS} FROM users ORDER BY name")]

    def share(self, namespace: str, name: str, access: Access | None) -> None:
        """Let a user read, or read and write, *namespace* beside their own; None takes it back."""
        if access is not None and access not in get_args(Access):
            raise ArgumentError("access", access, "read, write or None is needed")
        store_namespace(namespace, CONVERSATION)
        if self.get(name).namespace == namespace:
            raise ArgumentError("namespace", namespace, "another namespace than the user's own is needed")
        with self._database.write() as connection:
            connection.execute("DELETE FROM user_shares WHERE namespace = ? AND user_name = ?", (namespace, name))
            if access is not None:
                connection.execute("INSERT INTO user_shares VALUES (?, ?, ?)", (namespace, name, access))

    def shares(self, name: str) -> Mapping[str, Access]:
        """Return what is shared with a user: the access to each namespace, by its name."""
        sql = "SELECT namespace, access FROM user_shares WHERE user_name = ? ORDER BY namespace"
        with self._database.read() as connection:
            return dict(connection.execute(sql, (name,)))

    def revoke(self, name: str) -> None:
        """Make a user's token worth nothing, as the first step of removing them."""
        self._change(name, "token = ?", _hash(self._token()))

    def remove(self, name: str) -> None:
        """Remove a user, with what is shared with them, and the shares of their namespace; not what they have kept."""
        namespace = self.get(name).namespace
        with self._database.write() as connection:
            connection.execute("DELETE FROM users WHERE name = ?", (name,))
            connection.execute("DELETE FROM user_shares WHERE user_name = ? OR namespace = ?", (name, namespace))
            connection.execute("DELETE FROM user_reservations WHERE namespace = ?", (namespace,))
            self._database.mark_erasure(connection)

    def reserve(self, namespace: str, until: int, more: Mapping[str, int]) -> int:
        """Note that *more* is on its way into *namespace*, *until* that second at most; return its number, in order."""
        with self._database.write(lock=namespace) as connection:
            now = int(self._clock().timestamp())
            connection.execute("DELETE FROM user_reservations WHERE namespace = ? AND until < ?", (namespace, now))
            sql = "SELECT COALESCE(MAX(number), 0) + 1 FROM user_reservations WHERE namespace = ?"
            number = int(connection.execute(sql, (namespace,)).fetchone()[0])
            row = (namespace, number, *(more.get(what, 0) for what in _KEPT), until)
            connection.execute("INSERT INTO user_reservations VALUES (?, ?, ?, ?, ?, ?)", row)
        return number

    def reserved(self, namespace: str, number: int) -> Mapping[str, int]:
        """Return what is on its way into *namespace* by reservations before *number*; nothing where there are none."""
        sql = (
            "SELECT SUM(memories), SUM(documents), SUM(bytes) FROM user_reservations"
            " WHERE namespace = ? AND number < ? HAVING COUNT(*) > 0"
        )
        with self._database.read() as connection:
            sums = connection.execute(sql, (namespace, number)).fetchone()
        return {} if sums is None else dict(zip(_KEPT, map(int, sums), strict=True))

    def release(self, namespace: str, number: int) -> None:
        """Take back the reservation *number* of *namespace*: it is stored, or does not come."""
        with self._database.write(lock=namespace) as connection:
            sql = "DELETE FROM user_reservations WHERE namespace = ? AND number = ?"
            connection.execute(sql, (namespace, number))

    def spend(self, word: str, until: int, now: int) -> bool:
        """Make *word* worth nothing, and return whether it was worth something; at *until* it would have expired."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM spent_words WHERE until < ?", (now,))
            connection.execute("INSERT INTO spent_words VALUES (?, ?) ON CONFLICT DO NOTHING", (_hash(word), until))
            return bool(connection.changes())

    def is_spent(self, word: str) -> bool:
        """Return whether *word* is worth nothing any more."""
        with self._database.read() as connection:
            return connection.execute("SELECT 1 FROM spent_words WHERE hash = ?", (_hash(word),)).fetchone() is not None

    def _one(self, condition: str, value: str) -> User | None:
        with self._database.read() as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM users WHERE {condition}", (value,)).fetchone()
        return None if row is None else _user(row)

    def _change(self, name: str, change: str, *values: object) -> None:
        with self._database.write() as connection:
            connection.execute(f"UPDATE users SET {change} WHERE name = ?", (*values, name))
            if not connection.changes():
                raise ArgumentError("name", name, "the name of a user is needed")


def _checked_name(name: str) -> str:
    if not isinstance(name, str) or not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ArgumentError("name", name, f"a name of 1 to {_LONGEST_NAME} printable characters is needed")
    return name


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _user(row: Sequence[object]) -> User:
    name, namespace, role, memories, documents, size, requests, made_at = row
    quota = Quota(memories, documents, size, requests)  # type: ignore[arg-type]  # integers or NULL
    return User(str(name), str(namespace), role, quota, timestamp_from_text(str(made_at)))  # type: ignore[arg-type]


def m001_users(connection: Connection) -> None:
    """Create the tables."""
    connection.execute(
        "CREATE TABLE users (name TEXT PRIMARY KEY, namespace TEXT NOT NULL UNIQUE, role TEXT NOT NULL,"
        " token TEXT NOT NULL UNIQUE, memories INTEGER, documents INTEGER, bytes INTEGER, requests INTEGER,"
        " made_at TEXT NOT NULL) STRICT"
    )
    connection.execute(
        "CREATE TABLE user_shares (namespace TEXT NOT NULL, user_name TEXT NOT NULL, access TEXT NOT NULL,"
        " PRIMARY KEY (namespace, user_name)) STRICT, WITHOUT ROWID"
    )


def m002_reservations(connection: Connection) -> None:
    """Create the tables of what is on its way, and of words that are spent."""
    connection.execute(
        "CREATE TABLE user_reservations (namespace TEXT NOT NULL, number INTEGER NOT NULL, memories INTEGER NOT NULL,"
        " documents INTEGER NOT NULL, bytes INTEGER NOT NULL, until INTEGER NOT NULL,"
        " PRIMARY KEY (namespace, number)) STRICT, WITHOUT ROWID"
    )
    connection.execute(
        "CREATE TABLE spent_words (hash TEXT NOT NULL PRIMARY KEY, until INTEGER NOT NULL) STRICT, WITHOUT ROWID"
    )


_TABLES: Final = ("users", "user_shares", "user_reservations", "spent_words")
USER_TABLES: Final = TableComponent("users", (m001_users, m002_reservations), _TABLES)
"""Tables of users; a memory has them once it is asked for users."""
