"""Opening a memory: a file on disk, with everything that belongs in it. Plain and synchronous; no network.

memory = open_memory("m.db")
run_sync(memory.remember("I moved to Lisbon in May."))
"""

from __future__ import annotations

import os
from typing import Unpack

from memory.codec import DECLARED_FIELDS
from memory.documents.manifest import attach_documents
from memory.embedders.local import LocalEmbedder, LocalWordVectors, local_available
from memory.embedders.protocol import checked_embedder, is_space_of
from memory.entry_store import database_for
from memory.errors import store_errors
from memory.history.retention import Retention, checked_retention
from memory.history.sqlite import SqliteHistory
from memory.long_term import LongTermMemory, MemoryParts, check_parts
from memory.retrieval.languages.lexicon import analyzer_language
from memory.timestamps import aware_clock, system_clock
from memory.write.embedding_service import checked_embedding_settings
from vectorstore import Analyzer, open_store


@store_errors()
def open_memory(
    path: str | os.PathLike[str],
    *,
    choose_local: bool = True,
    language: str | None = None,
    retention: Retention | None = None,
    **parts: Unpack[MemoryParts],
) -> LongTermMemory:
    """Open the memory in the file *path*; make it where there is none.

    *parts*: see ``MemoryParts``. The embedder given is used; one whose vectors are not those of the file raises
    ``EmbedderMismatch``. Without one, the local embedder is used if it is installed and the file's vectors are its own
    or none (*choose_local* off: it is not); else the memory is searched by words alone, says so, and what is new waits
    for its vector. Word vectors are the local ones, where they are installed. What history holds and memory lacks is
    remembered. *retention* bounds what history keeps of each session; None keeps all. Memories are not bounded by it.

    *language* is that of stems, stop words and cues: "de", "es", "zh" or a Snowball name; a new file keeps it (None:
    English), and another one for the same file raises ``SettingMismatch``.
    """
    check_parts(parts)
    settings = checked_embedding_settings(parts.get("embedding_settings"))
    checked_retention(retention)
    if (embedder := parts.get("embedder")) is not None:
        checked_embedder(embedder)
    store = open_store(
        "sqlite:///" + os.fsdecode(path).replace("%", "%25"),
        analyzer=None if language is None else Analyzer(analyzer_language(language)),
        fields=DECLARED_FIELDS,
    )
    try:
        if local_available():
            parts["word_vectors"] = parts.get("word_vectors") or LocalWordVectors()
            if embedder is None and choose_local:
                local = LocalEmbedder()
                if settings.mismatch == "words" or store.space is None or is_space_of(store.space, local):
                    parts["embedder"] = local
        history = None
        if retention is not None:
            clock = aware_clock(parts.get("clock", system_clock), parts.get("zone"))
            history = SqliteHistory(database_for(store), clock=clock, retention=retention)
        memory = LongTermMemory(store, history=history, **parts)
        attach_documents(memory)
        memory.complete_now()
    except BaseException:
        store.close()
        raise
    return memory
