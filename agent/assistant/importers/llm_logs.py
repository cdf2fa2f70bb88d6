"""Logs of the command ``llm``: the database ``logs.db``, which is opened for reading alone.

Sources: simonw/llm 0.32 ``docs/logging.md``; a database that llm 0.36 wrote was read. It may hold two generations: a
row of ``responses`` for each prompt and its answer, and since then threads of messages, which may share their
beginning. Words from a pipe stand with the typed ones there; fragments, system prompts and tools are left out.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Final, Literal

from tellback.agent.assistant.clients.config_files import application_folder
from tellback.agent.assistant.clients.transcript import Transcript, TranscriptEntry
from tellback.agent.assistant.clients.transcript_lines import parsed_time
from tellback.agent.assistant.importers.conversation_tree import branch_to, clean_text, clean_title
from tellback.agent.json_values import object_list, parsed_object
from tellback.memory import LoadError

_ROLES: Final[dict[str, Literal["user", "assistant"]]] = {"user": "user", "assistant": "assistant"}


class LlmLogs:
    """Database of llm; ``LLM_USER_PATH`` moves its folder."""

    name = "llm"
    title = "llm"
    documented = "logs.db of llm 0.32 to 0.36"

    @property
    def database(self) -> Path:
        """Database of this user."""
        named = os.environ.get("LLM_USER_PATH")
        return (Path(named).expanduser() if named else application_folder("io.datasette.llm")) / "logs.db"

    def recognises(self, path: Path) -> bool:
        """Return whether *path* is such a database."""
        if not path.is_file():
            return False
        try:
            with closing(_opened(path)) as database:  # no database is an error of SQLite's
                return bool(_tables(database) & {"responses", "turns"})
        except sqlite3.Error:
            return False

    def conversations(self, path: Path) -> Iterator[Transcript]:
        """Yield the conversations of the database *path*, oldest first, then its threads."""
        try:
            with closing(_opened(path)) as database:
                tables = _tables(database)
                if not tables & {"responses", "turns"}:
                    raise LoadError(str(path), "not a database of llm: it has neither responses nor turns")
                if {"responses", "conversations"} <= tables:
                    yield from _logged_conversations(database)
                if {"threads", "turns", "messages", "parts"} <= tables:
                    yield from _threads(database)
        except sqlite3.Error as error:
            raise LoadError(str(path), f"not a readable database of llm ({error})") from error


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _tables(database: sqlite3.Connection) -> set[str]:
    return {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _logged_conversations(database: sqlite3.Connection) -> Iterator[Transcript]:
    names = "SELECT id, name FROM conversations WHERE id IN (SELECT conversation_id FROM responses) ORDER BY id"
    for session, title in database.execute(names).fetchall():
        entries: list[TranscriptEntry] = []
        rows = "SELECT prompt, response, datetime_utc FROM responses WHERE conversation_id = ? ORDER BY id"
        for prompt, answer, written in database.execute(rows, (session,)):
            time = parsed_time(written)
            entries += _entry("user", prompt, session, time) + _entry("assistant", answer, session, time)
        yield Transcript("", tuple(entries), title=clean_title(title))


def _threads(database: sqlite3.Connection) -> Iterator[Transcript]:
    for session, title, tip in database.execute(
        "SELECT id, name, tip_message_hash FROM threads ORDER BY id"
    ).fetchall():
        parents = _ancestors(database, str(tip or ""))
        turns = "SELECT tip_message_hash, datetime_utc FROM turns WHERE thread_id = ? ORDER BY id"
        times = {last: parsed_time(written) for last, written in database.execute(turns, (session,))}
        skipped: Counter[str] = Counter()
        entries: list[TranscriptEntry] = []
        time = None
        for message in reversed(branch_to(str(tip or ""), parents)):  # a turn's last message comes first, with its time
            time = times.get(message) or time
            role, text, left_out = _message(database, message)
            skipped.update(left_out)
            if role is not None:
                entries += _entry(role, text, session, time, message)
        yield Transcript("", tuple(reversed(entries)), skipped, title=clean_title(title))


def _ancestors(database: sqlite3.Connection, tip: str) -> dict[str, str]:
    sql = (
        "WITH RECURSIVE above(hash, parent) AS (SELECT hash, parent_hash FROM messages WHERE hash = ? UNION "
        "SELECT m.hash, m.parent_hash FROM messages AS m JOIN above ON m.hash = above.parent) "
        "SELECT hash, parent FROM above"
    )
    return {message: str(parent or "") for message, parent in database.execute(sql, (tip,))}


def _message(
    database: sqlite3.Connection, message: str
) -> tuple[Literal["user", "assistant"] | None, str, dict[str, int]]:
    """Return role and text of a message, and the counts of its skipped parts; no role for other kinds of messages."""
    row = database.execute("SELECT role FROM messages WHERE hash = ?", (message,)).fetchone()
    role = _ROLES.get(str(row[0])) if row else None
    texts: list[str] = []
    fragments = 0
    parts = "SELECT text, payload FROM parts WHERE message_hash = ? AND type = 'text' ORDER BY position"
    for text, payload in database.execute(parts, (message,)) if role is not None else ():
        if text:
            texts.append(str(text))
            continue
        references = object_list(parsed_object(payload) or {}, "text_ref")  # fragments and typed words
        texts += [str(reference["literal"]) for reference in references if "literal" in reference]
        fragments += sum("fragment" in reference for reference in references)
    left_out = {"fragment": fragments} if fragments and role == "user" else {}
    return role, "\n".join(texts), left_out


def _entry(
    role: Literal["user", "assistant"], text: object, session: str, time: datetime | None, id: str = ""
) -> list[TranscriptEntry]:
    words = clean_text(text) if isinstance(text, str) else ""
    return [TranscriptEntry(role, words, session, time, id)] if words else []
