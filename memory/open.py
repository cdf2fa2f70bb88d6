"""Opening a memory: a file on disk, with everything that belongs in it. Plain and synchronous; no network.

memory = open_memory("m.db")
run_sync(memory.remember("I moved to Lisbon in May."))
"""

from __future__ import annotations

import logging
import os
import re
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Unpack, cast

from tellback.memory.backups import RestoreReport, checked_entries
from tellback.memory.codec import DECLARED_FIELDS
from tellback.memory.documents.manifest import ManifestTables, attach_documents
from tellback.memory.embedders.cache import EmbeddingCacheTables
from tellback.memory.embedders.e5_encoder import E5Encoder
from tellback.memory.embedders.e5_files import e5_available
from tellback.memory.embedders.encoder_files import encoder_available
from tellback.memory.embedders.local import LocalEmbedder, LocalWordVectors, local_available
from tellback.memory.embedders.protocol import Embedder, checked_embedder, is_space_of
from tellback.memory.embedders.sentence_encoder import USE_MARK, SentenceEncoder
from tellback.memory.entry_store import database_for
from tellback.memory.errors import ArgumentError, EmbedderError, store_errors
from tellback.memory.history.database import DatabaseHistory
from tellback.memory.history.retention import Retention, checked_retention
from tellback.memory.history.schema import HistoryTables
from tellback.memory.jobs.queue import JOB_TABLES
from tellback.memory.long_term import LongTermMemory, MemoryParts
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.retrieval.index.index_cache import INDEX_CACHE_TABLES
from tellback.memory.retrieval.languages.lexicon import analyzer_language
from tellback.memory.tables.embedder_probes import EmbedderProbeTables
from tellback.memory.tables.given_log import GIVEN_TABLES
from tellback.memory.tables.idempotency_keys import IDEMPOTENCY_KEY_TABLES
from tellback.memory.tables.operation_log import OperationLogTables
from tellback.memory.tables.soft_deletes import SoftDeleteTables
from tellback.memory.tables.tombstones import TombstoneTables
from tellback.memory.tables.users import USER_TABLES
from tellback.memory.timestamps import Clock, aware_clock, system_clock, to_aware
from tellback.memory.write.embedding_service import checked_embedding_settings
from tellback.vectorstore import Analyzer, Space, TableComponent, copy_store, open_store, salvage_store

if TYPE_CHECKING:
    from tellback.vectorstore.postgres import PostgresDatabase
    from tellback.vectorstore.sqlite import CopyProgress, SalvageReport


_log = logging.getLogger(__name__)
_ADDRESS: Final = re.compile("[a-z][a-z0-9+.-]+://")


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

    *path* may be an address: ``sqlite:///relative.db``, ``sqlite:////absolute.db``, ``numpy:`` for a memory in this
    process alone, ``numpy:///file`` for one that is in the file when ``memory.store.save()`` is called, or
    ``postgresql://user@host/name?schema=tellback`` for one on a server that many processes use (extra ``postgres``).

    *parts*: see ``MemoryParts``. The embedder given is used; one whose vectors are not those of the file raises
    ``EmbedderMismatch``. Without one, ``local_embedder()`` is used if it is installed and the file's vectors are its
    own or none (*choose_local* off: it is not); a file with static vectors keeps them until ``reembed``; else the
    memory is searched by words alone, says so, and what is new waits for its vector. Word vectors are the local
    ones, where they are installed. What history holds and memory lacks is remembered. *retention* bounds what history
    keeps of each session; None keeps all. Memories are not bounded by it.

    *language* is that of stems, stop words and cues: "de", "es", "zh" or a Snowball name; a new file keeps it (None:
    English), and another one for the same file raises ``SettingMismatch``.
    """
    settings = checked_embedding_settings(parts.get("embedding_settings"))
    checked_retention(retention)
    if (embedder := parts.get("embedder")) is not None:
        checked_embedder(embedder)
    store = open_store(
        _store_url(path),
        analyzer=None if language is None else Analyzer(analyzer_language(language)),
        fields=DECLARED_FIELDS,
    )
    try:
        if local_available():
            parts["word_vectors"] = parts.get("word_vectors") or LocalWordVectors()
            if embedder is None and choose_local:
                local = _local_embedder(store.space)
                if settings.mismatch == "words" or store.space is None or is_space_of(store.space, local):
                    parts["embedder"] = local
        history = None
        if retention is not None:
            clock = aware_clock(parts.get("clock", system_clock), parts.get("zone"))
            history = DatabaseHistory(database_for(store), clock=clock, retention=retention)
        memory = LongTermMemory(store, history=history, **parts)
        attach_documents(memory)
        memory.open_copy = partial(open_memory, choose_local=False)  # a backup is searched by words alone
        memory.complete_now()
    except BaseException:
        store.close()
        raise
    return memory


def _store_url(path: str | os.PathLike[str]) -> str:
    """Return the address of the store at *path*, which may be one."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError("path", path, 'the path of a file is needed, or an address such as "sqlite:///memory.db"')
    name = os.fsdecode(path)
    if name == ":memory:":
        raise ArgumentError("path", name, 'a file is needed, or "numpy:" for a memory in this process alone')
    if name.startswith("qdrant:"):
        needed = "a file or postgresql:// is needed; LongTermMemory(open_store(…), database=…) lives on data alone"
        raise ArgumentError("path", name, needed)
    if isinstance(path, str) and (name.startswith(("numpy:", "sqlite:")) or _ADDRESS.match(name)):
        return name
    return "sqlite:///" + name.replace("%", "%25")


@store_errors()
def salvage_memory(path: str | os.PathLike[str], new: str | os.PathLike[str]) -> SalvageReport:
    """Copy what can still be read of the damaged memory file *path* into a new file *new*, where nothing may be yet.

    Each part (memories, vectors, conversations, the log, tombstones, soft deletes, keys, documents, kept vectors) is
    read for itself, row by row; the report says of each table how many rows were saved, how many lost, and why. A row
    that is not what was written is lost, never guessed; where the name of a namespace is lost, the report says where
    its memories are now; a memory whose vector is lost waits for a new one. The new file is a memory like any other.
    *path* is only read; it may be too damaged to be opened. Blocks.

    ``DamageError``: nothing can be read. ``NotAStore``: it is no memory. ``ArgumentError``: something is at *new*.
    """
    return salvage_store(
        path,
        new,
        components=_memory_components(),
        partial=True,
        lost_name=store_namespace("name-lost-KEY", CONVERSATION).replace("KEY", "{}"),
        default_name=store_namespace("", CONVERSATION),
    )


@store_errors()
def migrate_memory(path: str | os.PathLike[str], new: str | os.PathLike[str]) -> dict[str, int]:
    """Copy the whole memory at *path* to *new*, where none may be yet; either may be a file or an address of a server.

    Memories, documents, conversations, the log, tombstones and what waits to be forgotten are copied with their ids, so
    that receipts and operations stay good. The copy is one state of the memory: what is written to it meanwhile stays
    behind, so let nobody write. *path* is only read. Each row is compared with its checksum; returns the number of rows
    by table. Where it fails nothing is left at *new*. Blocks.
    """
    return copy_store(_store_url(path), _store_url(new), components=_memory_components())


@store_errors()
def grant_rights(address: str, role: str, *, tenants: bool = False) -> list[str]:
    """Let *role* work with the memory on a server at *address*, without the right to make or change tables.

    All parts of the memory are made first, so the role that asks has to own the tables. It is due again after an
    upgrade. With *tenants* the role sees the rows of one namespace alone, which its own address names
    (``?tenant=NAME``); returns the tables that are taken from it, since they do not tell whose a row is. Blocks.
    """
    if not isinstance(role, str) or not role:
        raise ArgumentError("role", role, "the name of a role of the server is needed")
    if not isinstance(address, str) or not address.startswith(("postgresql://", "postgres://")):
        raise ArgumentError("address", address, "postgresql://HOST/NAME is needed: a file has no roles")
    with closing(open_store(address, fields=DECLARED_FIELDS)) as store:
        for component in _memory_components():
            store.database.attach(component)
        return cast("PostgresDatabase", store.database).grant(role, tenants=tenants)


@store_errors()
def restore_memory(
    backup: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    clock: Clock = system_clock,
    on_progress: CopyProgress | None = None,
) -> RestoreReport:
    """Put a copy of the *backup* in the place of the memory file *path*, which may also be missing.

    The copy is checked first, page by page and row by row, and what is wrong with it raises: ``DamageError``,
    ``NotAStore`` (it is no memory), ``NewerFile``; then nothing was changed. The file that was there stays beside it,
    under a name that the report has, and is one of the backups that a later forgetting names. ``BusyError``: a process
    has the memory open. A crash leaves the old file or the new one, each whole. Blocks.
    """
    from tellback.vectorstore.sqlite import restore_file

    now = to_aware(clock(), None)
    source, target = Path(backup).expanduser().resolve(), Path(path).absolute()
    if not source.is_file():
        raise ArgumentError("backup", str(backup), "the path of a backup is needed; no file is there")
    if target.exists() and source.samefile(target):
        raise ArgumentError("backup", str(backup), "it is the memory itself, and no backup of it")
    stamp = f"{target.name}.before-restore-{now:%Y%m%d-%H%M%S}"
    numbers = ("", *(f"-{number}" for number in range(2, 100)))
    saved = next(place for end in numbers if not os.path.lexists(place := target.with_name(stamp + end)))
    counts: list[int] = []

    def check(copy: Path) -> None:
        counts.append(checked_entries(copy, _memory_components()))

    replaced = restore_file(
        source, target, kept=saved, time=now.isoformat(), check=check, token=os.urandom, on_progress=on_progress
    )
    return RestoreReport(target, source, counts[0], saved if replaced else None)


def _memory_components() -> list[TableComponent]:
    """Return the parts that a memory keeps beside its store; what recall derives is derived anew."""
    return [
        HistoryTables(),
        OperationLogTables(),
        TombstoneTables(),
        SoftDeleteTables(),
        IDEMPOTENCY_KEY_TABLES,
        EmbedderProbeTables(),
        ManifestTables(),
        EmbeddingCacheTables(),
        INDEX_CACHE_TABLES,
        USER_TABLES,
        JOB_TABLES,
        GIVEN_TABLES,
    ]


def local_embedder() -> Embedder:
    """Return the embedder of this machine: the best sentence encoder for notes and turns, static vectors for passages.

    Where an encoder is missing or damaged, the next one does, and a warning is logged. Raises ``MissingExtra`` when
    the extra ``local`` is not installed.
    """
    static = LocalEmbedder()
    for encoder, is_available in ((E5Encoder, e5_available), (SentenceEncoder, encoder_available)):
        if is_available():
            try:
                return encoder(passages=static)
            except EmbedderError as error:
                _log.warning("%s is left out: %s", encoder.__name__, error)
    return static


def _local_embedder(space: Space | None) -> Embedder:
    """Return the local embedder that *space* has vectors of; the best one where it has none of any."""
    if space is not None and is_space_of(space, static := LocalEmbedder()):
        return static
    if space is not None and space.fingerprint.startswith(USE_MARK) and encoder_available():
        return SentenceEncoder(passages=static)
    return local_embedder()
