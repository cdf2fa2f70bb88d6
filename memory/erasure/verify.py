"""Verification of a forgetting: tables, free pages, the write-ahead log, and the raw bytes of the files.

The tables are read by the file's own schema, not by the parts that keep them, so that a part which left something
behind is found, too.
"""

from __future__ import annotations

import json
import os
import subprocess  # only our own script is run, by absolute path
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from memory.erasure.bytes_search import byte_forms
from memory.erasure.forget import receipt_hashes
from memory.erasure.grace_period import owning_memory, soft_deletes_of
from memory.errors import ArgumentError
from memory.messages import QUOTES, USED
from memory.partitions import prefix_of
from memory.results import ErasureVerification, Receipt, Remnant
from memory.validation import checked_text
from memory.write.context import WriteContext
from vectorstore import Database, VectorStoreError

_SEARCH_SCRIPT: Final = Path(__file__).with_name("bytes_search.py")
_FILE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")
_MIN_TEXT_LENGTH: Final = 4
_MAX_WHOLE_LENGTH, _PIECE_LENGTH, _MAX_PIECES = 200, 48, 100
"""A long text stands in several pages: it is looked for in pieces, since a page's border may fall into any of them."""

_EXEMPT_TABLES: Final = ("tombstones", "operation_changes", "documents")
"""Tables that name ids for a reason: tombstones, what happened, the keyed names of a document's passages."""
_CONTENT_COLUMNS: Final = ("text", "context", "term")
_REMOVED_COLUMN: Final = "removed"
"""The column in which recall notes what is no more, as the list of changes does."""
_REFERENCE_FIELDS: Final = ("derived_from", f"meta.{USED}", QUOTES, "supersedes")
_OWNER_QUERIES: Final = {
    "entries": "SELECT n.name, t.* FROM entries AS t JOIN namespaces AS n ON n.key = t.namespace",
    "history_messages": "SELECT s.namespace, t.* FROM history_messages AS t"
    " JOIN history_sessions AS s ON s.key = t.session",
}


def verify_erasure(context: WriteContext, receipt: Receipt, texts: Sequence[str]) -> ErasureVerification:
    """Return what of *receipt* is still there; *texts* are the words themselves, to be searched for in the bytes."""
    if receipt.dry_run:
        raise ArgumentError("receipt", "of a dry run", "the receipt of something that was forgotten is needed")
    words = [checked_text(text, f"texts[{at}]").strip() for at, text in enumerate(texts)]
    left: list[Remnant] = []
    notes: list[str] = []
    known = set(receipt.hashes)
    for at, text in enumerate(words):
        if known and not known.issuperset(receipt_hashes(context, receipt.salt, [text])):
            notes.append(f"text {at} is none of those that the receipt is of; it was searched for all the same")
    left += _find_in_soft_deletes(context, receipt)
    database = context.database
    if database is None or database.path is None:
        rows, found = _find_in_store(context, receipt)
        return ErasureVerification((*left, *found), rows, notes=(*notes, "the memory is in no file"))
    if database.read_only or not database.empty_log():
        left.append(
            Remnant("log", "deleted bytes may be in it: somebody reads, or writes; try again when they are done")
        )
    rows, found = _find_in_tables(database, receipt)
    left += found
    return _search_bytes(context, database, receipt, words, left, rows, notes)


def _find_in_soft_deletes(context: WriteContext, receipt: Receipt) -> list[Remnant]:
    """Find what of it waits in a time of grace: its own, or that of another forgetting."""
    ids = set(receipt.ids)
    return [
        Remnant("held", f"its time of grace is not over; its bytes go at {one.due.isoformat()}")
        for one in soft_deletes_of(context, receipt.namespace)
        if one.operation == receipt.operation
        or not ids.isdisjoint(owning_memory(lane, entry) for lane, entry in one.entries)
        or not ids.isdisjoint(row.memory for row in one.messages)
    ]


def _find_in_store(context: WriteContext, receipt: Receipt) -> tuple[int, list[Remnant]]:
    """Go through every entry and message of the namespace, where there are no tables."""
    ids, rows, left = frozenset(receipt.ids), 0, []
    lanes = [lane for lane in context.store.namespaces() if _is_in_namespace(lane, receipt.namespace)]
    entries = ((lane, one.id, one.metadata) for lane in lanes for one in context.store.scan(namespace=lane))
    said = context.rows.kept(namespace=receipt.namespace)
    for where, id, fields in chain(entries, (("history", row.memory or "", row.message.metadata) for row in said)):
        rows += 1
        named = {*_id_and_owner(id), *_referred_ids(fields)} & ids
        left += [Remnant(where, f"memory {one} is mentioned") for one in sorted(named)]
    return rows, left


def _find_in_tables(database: Database, receipt: Receipt) -> tuple[int, list[Remnant]]:
    """Go through every row of every table and column, but those that name ids by purpose."""
    ids, rows, left = frozenset(receipt.ids), 0, []
    with database.read() as connection:
        for table, columns in _table_columns(connection).items():
            if table in _EXEMPT_TABLES or table.startswith("held"):
                continue
            for owner, values in _table_rows(connection, table, columns):
                if owner is not None and not _is_in_namespace(owner, receipt.namespace):
                    continue
                rows += owner is not None
                named = {id for column, value in values.items() for id in _mentioned_ids(column, value)} & ids
                left += [Remnant(table, f"memory {one} is mentioned") for one in sorted(named)]
    return rows, left


def _table_columns(connection: Any) -> dict[str, list[str]]:
    names = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    tables = [str(name) for (name,) in names]
    return {table: [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')] for table in tables}


def _table_rows(connection: Any, table: str, columns: Sequence[str]) -> Iterator[tuple[str | None, dict[str, Any]]]:
    if sql := _OWNER_QUERIES.get(table):
        for owner, *values in connection.execute(sql):
            yield owner, dict(zip(columns, values, strict=True))
        return
    for values in connection.execute(f'SELECT * FROM "{table}"'):
        row = dict(zip(columns, values, strict=True))
        owner = row.get("namespace")
        yield owner if isinstance(owner, str) else None, row


def _is_in_namespace(owner: str, namespace: str) -> bool:
    return owner == namespace or owner.startswith(prefix_of(namespace))


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
            yield from _ids_in(parsed)  # ids that a part keeps as a list
    elif column not in _CONTENT_COLUMNS:
        yield from _id_and_owner(value)


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


def _id_and_owner(value: str) -> Iterator[str]:
    """Yield an id, and of what it is a version."""
    yield value
    owner, _, revision = value.rpartition("@")
    if revision.isdigit():
        yield owner


def _ids_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from _id_and_owner(value)
    elif isinstance(value, Mapping):
        yield from _ids_in(value.get("id"))
    elif isinstance(value, list):
        for inner in value:
            yield from _ids_in(inner)


def _search_bytes(
    context: WriteContext,
    database: Database,
    receipt: Receipt,
    words: Sequence[str],
    left: list[Remnant],
    rows: int,
    notes: list[str],
) -> ErasureVerification:
    own = [path for end in _FILE_SUFFIXES if os.path.lexists(path := f"{database.path}{end}")]
    copies = [path for path in _copy_paths(database, receipt) if Path(path).is_file() and path not in own]
    for at, text in enumerate(words):
        if len(text) < _MIN_TEXT_LENGTH:
            notes.append(f"text {at} is too short to be told from chance; its bytes were not searched for")
    needles = [
        (at, piece) for at, text in enumerate(words) if len(text) >= _MIN_TEXT_LENGTH for piece in _text_pieces(text)
    ]
    answer = _run_search([*own, *copies], [piece for _, piece in needles])
    for path, why in answer["unread"].items():
        left.append(Remnant(path, f"not searched: {why}"))
    for path in own:
        if dirty := answer["free"].get(path):
            left.append(Remnant(path, f"{dirty} free pages are not empty"))
    said = _visible_texts(database, [needles[at][1] for at in _found_numbers(answer, own)])
    for path in (*own, *copies):
        hits = sorted(
            {needles[at][0] for at in answer["found"].get(path, ()) if path in copies or not said[needles[at][1]]}
        )
        left += [Remnant(path, f"text {at} is in its bytes") for at in hits]
    kept = sorted({needles[at][0] for at in _found_numbers(answer, own) if said[needles[at][1]]})
    notes += [f"text {at}, or a part of it, is still said elsewhere in the memory; no more can be told" for at in kept]
    return ErasureVerification(tuple(left), rows, (*own, *copies), len(words), tuple(notes))


def _copy_paths(database: Database, receipt: Receipt) -> list[str]:
    """Return where copies were made: those that the receipt names, and backups while it waited in its time of grace."""
    named = [one.path for one in receipt.unreached]
    if receipt.at is not None and receipt.due is not None:
        made = {path: datetime.fromisoformat(at) for path, at in database.backups().items()}
        named += [path for path, at in made.items() if receipt.at <= at <= receipt.due]
    return list(dict.fromkeys(named))


def _found_numbers(answer: Mapping[str, Any], paths: Sequence[str]) -> list[int]:
    return sorted({at for path in paths for at in answer["found"].get(path, ())})


def _text_pieces(text: str) -> list[str]:
    if len(text) <= _MAX_WHOLE_LENGTH:
        return [text]
    starts = range(0, len(text) - _PIECE_LENGTH, max(_PIECE_LENGTH, (len(text) - _PIECE_LENGTH) // _MAX_PIECES))
    return [text[start : start + _PIECE_LENGTH] for start in starts]


def _visible_texts(database: Database, needles: Sequence[str]) -> dict[str, bool]:
    """Return for each needle whether a row that is there for all to see holds it: then it was not forgotten here."""
    said = dict.fromkeys(needles, False)
    if not needles:
        return said
    written = {one: byte_forms(one) for one in needles}
    with database.read() as connection:
        for table, columns in _table_columns(connection).items():
            if table in _EXEMPT_TABLES or table.startswith("held"):
                continue
            for _, row in _table_rows(connection, table, columns):
                for value in row.values():
                    if isinstance(value, str):
                        content = value.encode()
                        for one in needles:
                            said[one] = said[one] or any(form in content for form in written[one])
    return said


def _run_search(files: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    """Let a process of its own read the files."""
    done = subprocess.run(  # noqa: S603 - our own interpreter and script, no shell
        [sys.executable, "-I", str(_SEARCH_SCRIPT)],
        input=json.dumps({"files": list(files), "texts": list(texts)}).encode(),
        capture_output=True,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise VectorStoreError("the search of the files' bytes did not answer; try again") from error
    return answer
