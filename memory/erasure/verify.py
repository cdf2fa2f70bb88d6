"""Verification of a forgetting: tables, free pages, gaps of pages, the write-ahead log, and the files' raw bytes.

The tables are read by the file's own schema, not through the parts that own them, so that data which a part left
behind is found.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

from tellback.memory.backup_files import kept_backups
from tellback.memory.entry_store import EntryStore
from tellback.memory.erasure.bytes_search import byte_forms
from tellback.memory.erasure.cascade_plan import owner_of
from tellback.memory.erasure.file_search import MIN_TEXT_LENGTH, run_search, text_pieces
from tellback.memory.erasure.receipt import receipt_hashes
from tellback.memory.erasure.soft_deleter import SoftDeleter
from tellback.memory.errors import ArgumentError
from tellback.memory.messages import QUOTES, USED
from tellback.memory.partitions import prefix_of
from tellback.memory.results import ErasureVerification, Receipt, Remnant
from tellback.memory.validation import checked_text
from tellback.vectorstore import Database, FileDatabase
from tellback.vectorstore.sqlite import unfinished_files

_FILE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")
_EXEMPT_TABLES: Final = ("tombstones", "operation_changes", "documents")
"""Tables that name ids on purpose: tombstones, changes in the log, the keyed names of a document's passages."""
_CONTENT_COLUMNS: Final = ("text", "context", "term")
_REMOVED_COLUMN: Final = "removed"
"""The column in which the retrieval index notes ids that are gone, as the change log does."""
_REFERENCE_FIELDS: Final = ("derived_from", "replaces", f"meta.{USED}", QUOTES, "supersedes")
_OWNER_QUERIES: Final = {
    "entries": "SELECT n.name, t.* FROM entries AS t JOIN namespaces AS n ON n.key = t.namespace",
    "history_messages": "SELECT s.namespace, t.* FROM history_messages AS t"
    " JOIN history_sessions AS s ON s.key = t.session",
}

_Mentions: TypeAlias = tuple[str, bool, Iterable[str]]
"""The name of a table or partition, whether its row is one of the namespace, and the ids that the row mentions."""


def verify_erasure(
    receipt: Receipt, texts: Sequence[str], entries: EntryStore, soft_deleter: SoftDeleter, key: bytes
) -> ErasureVerification:
    """Return the remnants of *receipt*'s items; *texts* are the forgotten words, to be searched for in the bytes.

    Texts that the receipt is not of are searched for all the same, and noted. Nothing is changed but the write-ahead
    log, which is emptied, and gaps between the rows of pages, which later writes may have filled with copies of rows:
    they are looked at as they are, then cleared. *key* is the secret of the memory's file.
    """
    if receipt.dry_run:
        raise ArgumentError("receipt", "of a dry run", "the receipt of something that was forgotten is needed")
    texts = [checked_text(text, f"texts[{number}]").strip() for number, text in enumerate(texts)]
    forgotten = set(receipt.ids)
    notes = [
        f"text {number} is none of those that the receipt is of; it was searched for all the same"
        for number, text in enumerate(texts)
        if receipt.hashes and not {*receipt_hashes(key, receipt.salt, [text])}.issubset(receipt.hashes)
    ]
    remnants = [
        Remnant("held", f"its time of grace is not over; its bytes go at {package.due.isoformat()}")
        for package in soft_deleter.of(receipt.namespace)  # of this forgetting, or of another one
        if package.operation == receipt.operation
        or not forgotten.isdisjoint(owner_of(partition, entry) for partition, entry in package.entries)
        or not forgotten.isdisjoint(row.memory for row in package.messages)
    ]
    database = entries.database
    if database is not None and database.unreached:
        mentions = _mentions_in_tables(database, receipt.namespace)
        search = ErasureVerification(notes=(database.unreached,))
    elif not isinstance(database, FileDatabase):
        mentions = _mentions_in_store(entries, receipt.namespace)
        search = ErasureVerification(notes=(_unsearched_note(entries),))
    else:
        if database.read_only or not database.empty_log():
            detail = "deleted bytes may be in it: somebody reads, or writes; try again when they are done"
            remnants.append(Remnant("log", detail))
        mentions = _mentions_in_tables(database, receipt.namespace)
        search = _search_bytes(database, receipt, texts)
    rows = 0
    for where, is_own, ids in mentions:
        rows += is_own
        remnants += [Remnant(where, f"memory {id} is mentioned") for id in sorted(forgotten.intersection(ids))]
    return replace(search, left=(*remnants, *search.left), rows=rows, notes=(*notes, *search.notes))


def _unsearched_note(entries: EntryStore) -> str:
    """Return why no bytes were searched."""
    if entries.lifecycle_store is None:
        return f"{type(entries.store).__name__} has data alone: its entries were looked through, its bytes were not"
    return "the memory is in no file"


def _mentions_in_store(entries: EntryStore, namespace: str) -> Iterator[_Mentions]:
    """Yield the mentions in every entry and message of the namespace, where there are no tables."""
    for partition in entries.partitions(namespace):
        for entry in entries.store.scan(namespace=partition):
            yield partition, True, chain(_ids_in(entry.id), _referred_ids(entry.metadata))
    for row in entries.rows.kept(namespace=namespace):
        yield "history", True, chain(_ids_in(row.memory), _referred_ids(row.message.metadata))


def _mentions_in_tables(database: Database, namespace: str) -> Iterator[_Mentions]:
    """Yield the mentions in the rows of every table, those of other namespaces apart."""
    for table, owner, values in _searched_rows(database):
        if owner is None or owner == namespace or owner.startswith(prefix_of(namespace)):
            ids = chain.from_iterable(_mentioned_ids(column, value) for column, value in values.items())
            yield table, owner is not None, ids


def _searched_rows(database: Database) -> Iterator[tuple[str, str | None, dict[str, Any]]]:
    """Yield the rows that no forgotten id or text may be in: table, namespace (None without one), values by column."""
    with database.read() as connection:
        names = connection.execute(database.dialect.tables)
        tables = [str(name) for (name,) in names if name not in _EXEMPT_TABLES and not str(name).startswith("held")]
        for table in tables:
            columns = [str(name) for (name,) in connection.execute(database.dialect.columns, (table,))]
            owner_query = _OWNER_QUERIES.get(table)
            for values in connection.execute(owner_query or f'SELECT * FROM "{table}"'):
                row = dict(zip(columns, values[-len(columns) :], strict=True))
                owner = values[0] if owner_query else row.get("namespace")
                yield table, owner if isinstance(owner, str) else None, row


def _mentioned_ids(column: str, value: Any) -> Iterator[str]:
    """Yield the ids that a value of a row is, or refers to."""
    if not isinstance(value, str) or column == _REMOVED_COLUMN:
        return
    if value[:1] in ("{", "["):
        try:
            parsed = json.loads(value)
        except ValueError:
            return
        yield from _referred_ids(parsed)
        if isinstance(parsed, list) and column not in _CONTENT_COLUMNS:
            yield from _ids_in(parsed)
    elif column not in _CONTENT_COLUMNS:
        yield from _ids_in(value)


def _referred_ids(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if name in _REFERENCE_FIELDS:
                yield from _ids_in(inner)
            else:
                yield from _referred_ids(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _referred_ids(inner)


def _ids_in(value: Any) -> Iterator[str]:
    """Yield the id that *value* is, or those in a list or object; of an archived version, its memory's too."""
    if isinstance(value, str):
        yield value
        owner, _, revision = value.rpartition("@")
        if revision.isdigit():
            yield owner
    elif isinstance(value, Mapping):
        yield from _ids_in(value.get("id"))
    elif isinstance(value, list):
        for inner in value:
            yield from _ids_in(inner)


def _search_bytes(database: FileDatabase, receipt: Receipt, texts: Sequence[str]) -> ErasureVerification:
    """Search the files of the memory, and the copies that the receipt names, for *texts* and full free pages.

    A text that a visible row holds was not forgotten here: it is noted, and is no remnant in the memory's own files.
    """
    own_files = [path for suffix in _FILE_SUFFIXES if os.path.lexists(path := f"{database.path}{suffix}")]
    copy_paths = [copy.path for copy in receipt.unreached]
    copy_paths += map(str, unfinished_files(database.path.parent))
    copy_paths += map(str, kept_backups(database.path))
    if receipt.at is not None and receipt.due is not None:  # and the backups made within its grace period
        times = {path: datetime.fromisoformat(time) for path, time in database.backups().items()}
        copy_paths += [path for path, time in times.items() if receipt.at <= time <= receipt.due]
    copies = [path for path in dict.fromkeys(copy_paths) if Path(path).is_file() and path not in own_files]
    too_short = [number for number, text in enumerate(texts) if len(text) < MIN_TEXT_LENGTH]
    notes = [
        f"text {number} is too short to be told from chance; its bytes were not searched for" for number in too_short
    ]
    pieces = [
        (number, piece) for number, text in enumerate(texts) if number not in too_short for piece in text_pieces(text)
    ]
    answer = run_search([*own_files, *copies], [piece for _, piece in pieces])
    remnants = [Remnant(path, f"not searched: {why}") for path, why in answer["unread"].items()]
    for path in own_files:
        if dirty := answer["free"].get(path):
            remnants.append(Remnant(path, f"{dirty} free pages are not empty"))
    if answer["gaps"].get(str(database.path)) and (uncleared := _uncleared_gaps(database)):
        remnants.append(Remnant(str(database.path), f"{uncleared} pages hold remains of rows in their gaps"))
    found: dict[str, list[int]] = answer["found"]
    found_here = sorted({index for path in own_files for index in found.get(path, ())})
    visible = _visible_texts(database, [pieces[index][1] for index in found_here])
    for path in (*own_files, *copies):
        hits = {pieces[index][0] for index in found.get(path, ()) if path in copies or not visible[pieces[index][1]]}
        remnants += [Remnant(path, f"text {number} is in its bytes") for number in sorted(hits)]
    still_said = sorted({pieces[index][0] for index in found_here if visible[pieces[index][1]]})
    notes += [
        f"text {number}, or a part of it, is still said elsewhere in the memory; no more can be told"
        for number in still_said
    ]
    files = (*own_files, *copies)
    return ErasureVerification(left=tuple(remnants), files=files, texts=len(texts), notes=tuple(notes))


def _uncleared_gaps(database: FileDatabase) -> int:
    """Clear the gaps of pages; return how many still hold bytes, whose origin is unknown."""
    if not database.read_only:
        with database.write() as connection:
            database.mark_erasure(connection)
        database.finish_erasure()
    path = str(database.path)
    uncleared: int = run_search([path], [])["gaps"].get(path, 0)
    return uncleared


def _visible_texts(database: FileDatabase, texts: Sequence[str]) -> dict[str, bool]:
    """Return for each text whether a row of the searched tables holds it."""
    visible, forms = dict.fromkeys(texts, False), {text: byte_forms(text) for text in texts}
    for _, _, row in _searched_rows(database) if texts else ():
        for content in (value.encode() for value in row.values() if isinstance(value, str)):
            for text in texts:
                visible[text] = visible[text] or any(form in content for form in forms[text])
    return visible
