"""Chats in the database of Cursor's editor, ``globalStorage/state.vscdb``, which is opened for reading alone.

The maker does not document it. Sources: getagentseal/codeburn ``docs/providers`` at ed8fa3a (places and keys),
michaeldhood/chatrxiv ``docs/cursor/storage-reference.md`` at d28513a (schema 10 of chats, 3 of bubbles). A chat is
``composerData:ID`` with the order of its bubbles; each is ``bubbleId:ID:BUBBLE``, of type 1 typed by the user, of type
2 an answer. Older chats, which are in the databases of single workspaces, are not read.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from tellback.agent.assistant.clients.config_files import application_folder
from tellback.agent.assistant.clients.transcript import Transcript, TranscriptEntry
from tellback.agent.assistant.clients.transcript_lines import parsed_time, with_last_answers
from tellback.agent.assistant.clients.typed_text import untagged_text
from tellback.agent.json_values import object_list, parsed_object

_USER: Final = 1
_ANSWER: Final = 2


def editor_database() -> Path:
    """Return the database of the editor on this platform."""
    return application_folder("Cursor") / "User" / "globalStorage" / "state.vscdb"


def composers(path: Path) -> Iterator[Transcript]:
    """Yield the chats in the database *path*, oldest first; those of sub-agents are left out.

    The project of a chat whose folder is not recorded is that chat alone. A file that is no such database raises
    ``OSError``.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            chats = sorted(
                _chats(database), key=lambda chat: (_milliseconds(chat.get("createdAt")), chat["composerId"])
            )
            inner = {id for chat in chats for id in chat["subComposerIds"] or ()}
            for chat in chats:
                if chat["composerId"] not in inner and not chat["isBestOfNSubcomposer"]:
                    yield _conversation(database, chat)
    except sqlite3.Error as error:
        raise OSError(0, f"is not a readable database of Cursor ({error})", str(path)) from error


def _chats(database: sqlite3.Connection) -> Iterator[dict[str, Any]]:
    """Yield the fields of each chat by which it is ordered and selected, with the ids of its bubbles."""
    query = "SELECT key, value FROM cursorDiskKV WHERE key >= 'composerData:' AND key < 'composerData;'"
    for key, value in database.execute(query):
        chat = parsed_object(value) or {}
        if headers := object_list(chat, "fullConversationHeadersOnly"):
            names = ("createdAt", "subComposerIds", "isBestOfNSubcomposer")
            bubbles = [header.get("bubbleId") for header in headers]
            yield {**{name: chat.get(name) for name in names}, "composerId": key.partition(":")[2], "bubbles": bubbles}


def _conversation(database: sqlite3.Connection, chat: Mapping[str, Any]) -> Transcript:
    session = chat["composerId"]
    began = datetime.fromtimestamp(_milliseconds(chat.get("createdAt")) / 1e3, UTC) if chat.get("createdAt") else None
    entries: list[TranscriptEntry] = []
    skipped = 0
    folder = ""
    for bubble in chat["bubbles"]:
        row = database.execute(
            "SELECT value FROM cursorDiskKV WHERE key = ?", (f"bubbleId:{session}:{bubble}",)
        ).fetchone()
        message = parsed_object(row and row[0]) or {}  # a header may name a bubble that is gone
        text, written = str(message.get("text") or ""), parsed_time(message.get("createdAt")) or began
        if message.get("type") == _USER:
            folder = folder or _folder(message.get("workspaceUris"))
            if words := untagged_text(text):
                entries.append(TranscriptEntry("user", words, session, written, str(bubble)))
            else:
                skipped += 1
        elif message.get("type") == _ANSWER and text.strip():
            entries.append(TranscriptEntry("assistant", text, session, written, str(bubble)))
    counts = {"command or wrapper": skipped} if skipped else {}
    return Transcript(folder, with_last_answers(entries), counts, f"cursor:{session}")


def _folder(addresses: object) -> str:
    """Return the folder that the first of the *addresses* of a workspace names; "" for none on this machine."""
    first = addresses[0] if isinstance(addresses, list) and addresses else None
    if not isinstance(first, str) or not first.startswith("file:///"):
        return ""
    path = unquote(urlsplit(first).path)
    return path.lstrip("/") if os.name == "nt" else path


def _milliseconds(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) and 0 < value < 1e14 else 0
