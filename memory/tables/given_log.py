"""Log of what was given: which memories were added to which prompt of which client, when, and what was not useful.

A mark *not useful* holds for prompts of that kind, in this memory alone: the memory is then not given to a prompt that
shares at least half of its content words with the one that was marked.

given   one row for each memory that a prompt was given, with its score; the rows of one prompt share a giving
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any, Final

from tellback.memory.errors import ArgumentError
from tellback.memory.tables.erasers import ErasedItems
from tellback.memory.tables.idempotency_keys import TimeOrderedIds
from tellback.memory.timestamps import Clock, system_clock, timestamp_from_text, timestamp_to_text
from tellback.memory.validation import checked_int, checked_labels
from tellback.vectorstore import Analyzer, Connection, Database, TableComponent

_KEPT: Final = 5_000
"""Rows of a namespace that are kept, the newest; those that are marked stay."""
_SAME_KIND: Final = 0.5
"""Share of the content words of two prompts that both have, from which they are of one kind: half, as the docs say."""
_PROMPT_CHARACTERS: Final = 500
_COLUMNS: Final = "giving, at, client, session, prompt, memory, score, is_useful"


@dataclass(frozen=True, slots=True)
class GivenMemory:
    """Memory that a prompt was given, with the *score* for which it was chosen; *is_useful* unless it was marked."""

    id: str
    score: float
    is_useful: bool = True


@dataclass(frozen=True, slots=True)
class Given:
    """Memories, best first, that the *prompt* of a *client* was given *at* a time in *session*."""

    id: str
    at: datetime
    client: str
    session: str
    prompt: str
    memories: tuple[GivenMemory, ...]


class GivenLog:
    """Log of what was given, in a table of *database*; an ``Eraser``. Each call is one transaction.

    *analyzer* makes the words of prompts comparable.
    """

    name = "given"

    def __init__(self, database: Database, *, analyzer: Analyzer, clock: Clock = system_clock) -> None:
        self._database, self._analyzer, self._clock = database, analyzer, clock
        self._ids = TimeOrderedIds(clock=clock)
        database.attach(GIVEN_TABLES)

    def record(self, namespace: str, scores: Mapping[str, float], *, client: str, session: str, prompt: str) -> None:
        """Record that a *prompt* was given the memories with *scores*; its first 500 characters are kept."""
        checked_labels(list(scores), "scores")
        giving, at = self._ids(), timestamp_to_text(self._clock())
        row = (namespace, giving, at, client, session, prompt[:_PROMPT_CHARACTERS])
        with self._database.write(lock=namespace) as connection:
            connection.executemany(
                f"INSERT INTO given (namespace, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)",
                [(*row, id, score) for id, score in scores.items()],
            )
            connection.execute(
                "DELETE FROM given WHERE namespace = ? AND is_useful = 1 AND key <="
                f" (SELECT key FROM given WHERE namespace = ? ORDER BY key DESC LIMIT 1 OFFSET {_KEPT})",
                (namespace, namespace),
            )

    def recent(self, namespace: str, limit: int = 20, *, before: str | None = None) -> Sequence[Given]:
        """Return what was given last, or *before* the giving of that id: the newest prompt first, *limit* at most."""
        checked_int(limit, "limit", 1)
        older, values = ("", ()) if before is None else (" AND giving < ?", (before,))
        sql = (
            f"SELECT {_COLUMNS} FROM given WHERE namespace = ? AND giving IN (SELECT giving FROM given"
            f" WHERE namespace = ?{older} GROUP BY giving ORDER BY giving DESC LIMIT ?) ORDER BY giving DESC, key"
        )
        with self._database.read() as connection:
            rows = connection.execute(sql, (namespace, namespace, *values, limit)).fetchall()
        return [_given(list(group)) for _, group in groupby(rows, key=lambda row: row[0])]

    def mark(self, namespace: str, memory: str, *, useful: bool, giving: str | None = None) -> Given:
        """Mark that *memory* was useful to a prompt or not, and return what that prompt was given.

        Without *giving* it is the newest prompt that was given the memory; with *useful* the newest that is marked.
        """
        asked, values = "", [namespace, memory]
        if giving is not None:
            asked, values = " AND giving = ?", [*values, giving]
        elif useful:
            asked = " AND is_useful = 0"
        sql = f"SELECT giving FROM given WHERE namespace = ? AND memory = ?{asked} ORDER BY key DESC LIMIT 1"
        with self._database.write(lock=namespace) as connection:
            found = connection.execute(sql, values).fetchone()
            if found is None:
                raise ArgumentError("memory", memory, "a memory that a prompt was given is needed")
            connection.execute(
                "UPDATE given SET is_useful = ? WHERE namespace = ? AND memory = ? AND giving = ?",
                (int(useful), namespace, memory, found[0]),
            )
            sql = f"SELECT {_COLUMNS} FROM given WHERE namespace = ? AND giving = ? ORDER BY key"
            return _given(connection.execute(sql, (namespace, found[0])).fetchall())

    def not_useful(self, namespace: str, prompt: str, memories: Sequence[str]) -> frozenset[str]:
        """Return those of *memories* that were marked as not useful to prompts of the kind of *prompt*."""
        sql = "SELECT memory, prompt FROM given WHERE namespace = ? AND is_useful = 0"
        with self._database.read() as connection:
            marked = [(str(id), str(text)) for id, text in connection.execute(sql, (namespace,)) if id in memories]
        words = frozenset(self._analyzer.terms(prompt)) if marked else frozenset()
        return frozenset(id for id, text in marked if _is_same_kind(words, frozenset(self._analyzer.terms(text))))

    def erase(self, gone: ErasedItems) -> int:
        """Remove the rows of erased memories, and of prompts whose words are erased; return how many rows went."""
        with self._database.write(lock=gone.namespace) as connection:
            if gone.everything:
                keys = connection.execute("SELECT key FROM given WHERE namespace = ?", (gone.namespace,)).fetchall()
            else:
                ids = {id.partition("@")[0] for entries in gone.entries.values() for id in entries}
                texts = [text for text in gone.texts if text.strip()]
                texts += [text for row in gone.messages if (text := row.message.text).strip()]
                sql = "SELECT key, memory, prompt FROM given WHERE namespace = ?"
                rows = connection.execute(sql, (gone.namespace,)).fetchall()
                keys = [(key,) for key, memory, prompt in rows if memory in ids or _repeats(str(prompt), texts)]
            connection.executemany("DELETE FROM given WHERE key = ?", keys)
            if keys:
                self._database.mark_erasure(connection)
        return len(keys)


def _is_same_kind(words: frozenset[str], others: frozenset[str]) -> bool:
    return bool(words & others) and len(words & others) >= _SAME_KIND * len(words | others)


def _repeats(prompt: str, texts: Sequence[str]) -> bool:
    return any(text in prompt or (prompt and prompt in text) for text in texts)


def _given(rows: Sequence[Sequence[Any]]) -> Given:
    giving, at, client, session, prompt = rows[0][:5]
    memories = (GivenMemory(id, score, bool(useful)) for *_, id, score, useful in rows)
    return Given(giving, timestamp_from_text(at), client, session, prompt, tuple(memories))


def m001_given(connection: Connection) -> None:
    """Create the table."""
    connection.execute(
        "CREATE TABLE given (key INTEGER PRIMARY KEY, namespace TEXT NOT NULL, giving TEXT NOT NULL, at TEXT NOT NULL,"
        " client TEXT NOT NULL, session TEXT NOT NULL, prompt TEXT NOT NULL, memory TEXT NOT NULL,"
        " score REAL NOT NULL, is_useful INTEGER NOT NULL) STRICT"
    )
    connection.execute("CREATE INDEX given_of ON given (namespace, giving)")


GIVEN_TABLES: Final = TableComponent("given", (m001_given,), ("given",))
