"""Opening a memory: a file on disk, with everything that belongs in it. Plain and synchronous; no network.

memory = open_memory("m.db")
run_sync(memory.remember("I moved to Lisbon in May."))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import tzinfo

from memory.codec import DECLARED_FIELDS
from memory.documents.manifest import attach_documents
from memory.embedders.local import LocalEmbedder, LocalWordVectors, local_available
from memory.embedders.protocol import Embedder, WordVectors, checked_embedder, is_space_of
from memory.entry_store import database_for
from memory.errors import store_errors
from memory.history.retention import Retention, checked_retention
from memory.history.sqlite import SqliteHistory
from memory.long_term import LongTermMemory
from memory.retrieval.hooks import RecallHooks
from memory.retrieval.languages.lexicon import analyzer_language
from memory.retrieval.scoring.settings import RecallSettings
from memory.timestamps import Clock, aware_clock, system_clock
from memory.write.embedding_service import EmbeddingSettings, checked_embedding_settings
from memory.write.policies import OnPolicyFailure, WritePolicy
from vectorstore import Analyzer, Space, open_store


@store_errors()
def open_memory(  # one keyword for each part that may be replaced: this is where a program chooses them
    path: str | os.PathLike[str],
    *,
    embedder: Embedder | None = None,
    choose_local: bool = True,
    word_vectors: WordVectors | None = None,
    policies: Sequence[WritePolicy] = (),
    on_policy_failure: OnPolicyFailure = "store",
    clock: Clock = system_clock,
    ids: Callable[[], str] | None = None,
    zone: tzinfo | None = None,
    language: str | None = None,
    recall_settings: RecallSettings | None = None,
    embedding_settings: EmbeddingSettings | None = None,
    hooks: RecallHooks | None = None,
    counter: Callable[[str], int] | None = None,
    retention: Retention | None = None,
    offline: bool = False,
) -> LongTermMemory:
    """Open the memory in the file *path*; make it where there is none.

    The embedder given is used; one whose vectors are not those of the file raises ``EmbedderMismatch``.
    Without one, the local embedder is used if it is installed and the file's vectors are its own or none
    (*choose_local* off: it is not);
    else the memory is searched by words alone, says so, and what is new waits for its vector. Word vectors
    are the local ones, where they are installed. What history holds and memory lacks is remembered.
    *retention* bounds what history keeps of each session; None keeps all. Memories are not bounded by it.

    *language* is that of stems, stop words and cues: "de", "es", "zh" or a Snowball name; a new file keeps it (None:
    English), and another one for the same file raises ``SettingMismatch``.
    """
    settings = checked_embedding_settings(embedding_settings)
    checked_retention(retention)
    if embedder is not None:
        checked_embedder(embedder)
    store = open_store(
        "sqlite:///" + os.fsdecode(path).replace("%", "%25"),
        analyzer=None if language is None else Analyzer(analyzer_language(language)),
        fields=DECLARED_FIELDS,
    )
    try:
        if local_available():
            word_vectors = word_vectors or LocalWordVectors()
            if embedder is None and choose_local:
                embedder = _local_embedder(store.space, settings)
        history = None
        if retention is not None:
            history = SqliteHistory(database_for(store), clock=aware_clock(clock, zone), retention=retention)
        memory = LongTermMemory(
            store,
            history=history,
            embedder=embedder,
            word_vectors=word_vectors,
            policies=policies,
            on_policy_failure=on_policy_failure,
            clock=clock,
            ids=ids,
            zone=zone,
            recall_settings=recall_settings,
            embedding_settings=settings,
            hooks=hooks,
            counter=counter,
            offline=offline,
        )
        attach_documents(memory)
        memory.complete_now()
    except BaseException:
        store.close()
        raise
    return memory


def _local_embedder(space: Space | None, settings: EmbeddingSettings) -> Embedder | None:
    local = LocalEmbedder()
    return local if settings.mismatch == "words" or space is None or is_space_of(space, local) else None
