"""Transcripts of Cursor's agent, which the maker does not document; chats of the editor are in ``cursor_database``.

Source: getagentseal/codeburn ``docs/providers`` at ed8fa3a.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Final

from tellback.agent.assistant.clients.transcript import Transcript, TranscriptEntry
from tellback.agent.assistant.clients.transcript_lines import JsonLines, block_texts, with_last_answers
from tellback.agent.assistant.clients.typed_text import starts_with_tag, typed_text
from tellback.agent.json_values import object_field

_USER_QUERY: Final = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)


def read_transcript(path: Path, start: int = 0) -> Transcript | None:
    """Return the conversation of the file *path*; only the text in ``<user_query>`` was typed."""
    folder = path.parent
    session = folder.name if folder.parent.name == "agent-transcripts" else path.stem
    project = f"cursor:{folder.parent.parent.name}"
    entries: list[TranscriptEntry] = []
    skipped: Counter[str] = Counter()
    lines = JsonLines(path, start)
    for line in lines:
        text = "\n".join(block_texts(object_field(line, "message").get("content")))
        if line.get("role") == "assistant" and text.strip():
            entries.append(TranscriptEntry("assistant", text, session))
        elif line.get("role") == "user":
            queries = [query for query in _USER_QUERY.findall(text) if not starts_with_tag(query)]
            words = typed_text("\n".join(queries)) if len(queries) == 1 else ""
            if words:
                entries.append(TranscriptEntry("user", words, session))
            else:
                skipped["client's own words"] += 1
    return Transcript("", with_last_answers(entries), skipped, project, lines.end)
