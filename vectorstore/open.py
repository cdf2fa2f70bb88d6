"""Stores by their address (``open_store``), and a damaged store's readable rows in a new file (``salvage_store``).

An engine is imported only when it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, Unpack, cast, overload

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.errors import ArgumentError, DamageError, MissingExtra, short_repr
from tellback.vectorstore.types import Finding, SalvageReport, SearchMode, Space

if TYPE_CHECKING:
    from tellback.vectorstore.database import Component, Database
    from tellback.vectorstore.engines.numpy_store import NumpyStore
    from tellback.vectorstore.engines.postgres_store import PostgresStore
    from tellback.vectorstore.engines.sqlite_store import SqliteStore
    from tellback.vectorstore.engines.table_store import TableStore

    class _Options(TypedDict, total=False):
        space: Space | None
        analyzer: Analyzer | None
        fields: Sequence[str] | None
        search: SearchMode | str


_COMPARED_NAMESPACES: Final = 20
_COMPARED_ENTRIES: Final = 3
"""Of so many namespaces, so many entries each are searched for in a copy."""
_COMPARED_CHARACTERS: Final = 200


@overload
def open_store(url: Literal["numpy:"], **options: Unpack[_Options]) -> NumpyStore: ...


@overload
def open_store(url: str, *, matrix_limit: int, **options: Unpack[_Options]) -> SqliteStore | PostgresStore: ...


@overload
def open_store(
    url: str, *, matrix_limit: int | None = None, **options: Unpack[_Options]
) -> NumpyStore | SqliteStore | PostgresStore: ...


def open_store(
    url: str,
    *,
    space: Space | None = None,
    analyzer: Analyzer | None = None,
    fields: Sequence[str] | None = None,
    matrix_limit: int | None = None,
    search: SearchMode | str = SearchMode.EXACT,
) -> NumpyStore | SqliteStore | PostgresStore:
    """Open the store at *url*: ``numpy:`` in memory, ``sqlite:///relative.db`` or ``sqlite:////absolute.db``, or
    ``postgresql://user@host/name?schema=tellback`` on a server with pgvector (extra ``postgres``).

    ``numpy:///relative.snapshot`` is a store in memory that begins with what the snapshot there holds (with nothing
    where there is none) and is kept only when its ``save()`` is called.

    ``qdrant://host:6333/collection`` is a server of Qdrant, ``qdrant:///folder`` a folder of its client's local mode
    (extra ``qdrant``): a ``QdrantStore``, which holds data alone and takes neither *fields* nor *matrix_limit*. A type
    checker takes it for one of the others: annotate it as a ``VectorStore``.

    What is given is recorded on first use; None takes what the file has; a different one raises ``SpaceMismatch``
    or ``SettingMismatch``. *fields* are metadata fields kept as columns, for fast filters (``declare_fields`` changes
    them). *matrix_limit* is how many bytes of vectors may be kept in memory (0: none, all search goes through SQL).
    *search* is "exact" or "fast", for this object alone: see ``SearchMode``.
    """
    if not isinstance(url, str):
        raise ArgumentError("url", url, "a text like 'sqlite:///memory.db' or 'numpy:' is needed")
    from urllib.parse import unquote

    scheme, separator, rest = url.partition(":")
    if separator and scheme == "numpy" and (not rest or (rest.startswith("///") and len(rest) > 3)):
        from tellback.vectorstore.engines.numpy_store import NumpyStore

        if matrix_limit is not None:
            raise ArgumentError("matrix_limit", matrix_limit, "a numpy store keeps everything in memory; leave it out")
        if rest:
            path = Path(unquote(rest[3:]))
            return NumpyStore.open(path, space=space, analyzer=analyzer, fields=fields, search=search)
        return NumpyStore(space=space, analyzer=analyzer, fields=fields or (), search=search)
    if scheme == "sqlite" and rest.startswith("///") and len(rest) > 3:
        from tellback.vectorstore.engines.sqlite_store import SqliteStore

        path = Path(unquote(rest[3:]))
        return SqliteStore(
            path, space=space, analyzer=analyzer, fields=fields, matrix_limit=matrix_limit, search=search
        )
    if scheme == "qdrant":
        for name, value in (("fields", fields), ("matrix_limit", matrix_limit)):
            if value is not None:
                raise ArgumentError(name, value, "a store on Qdrant has none; leave it out")
        try:
            from tellback.vectorstore.engines.qdrant_store import QdrantStore
        except ImportError as error:
            raise MissingExtra("a store on Qdrant", "qdrant") from error
        return cast("SqliteStore", QdrantStore(url, space=space, analyzer=analyzer, search=search))
    if scheme in ("postgresql", "postgres") and rest.startswith("//"):
        try:
            from tellback.vectorstore.engines.postgres_store import PostgresStore
        except ImportError as error:
            raise MissingExtra("a store on PostgreSQL", "postgres") from error
        return PostgresStore(
            url, space=space, analyzer=analyzer, fields=fields, matrix_limit=matrix_limit, search=search
        )
    needed = (
        "'numpy:', 'numpy:///file', 'sqlite:///file.db', 'postgresql://host/name' or 'qdrant://host/name' is needed"
    )
    if scheme in ("numpy", "sqlite"):
        raise ArgumentError("url", url, f"{needed}: three slashes before the path, four before an absolute one")
    raise ArgumentError("url", url, f"{needed}; {short_repr(scheme)} is not a store this version has")


def salvage_store(
    path: str | os.PathLike[str],
    new_path: str | os.PathLike[str],
    *,
    components: Sequence[Component] = (),
    partial: bool = False,
    lost_name: str = "its name was lost ({})",
    default_name: str = "",
) -> SalvageReport:
    """Copy every entry that can be read, and is what was written, to *new_path*; return what was saved and lost.

    It works on a file that cannot be opened any more, and only reads it. A vector that is lost makes its entry
    pending; a namespace whose name is lost is called *lost_name*, with a number in its braces, or, where it is the only
    one and there is none of that name, *default_name*; the report says so. *components* are the
    other parts of the file. ``DamageError``: nothing can be read. ``UnsupportedError``: the file has a part that is
    not given, such as a memory's history (``tellback.memory.salvage_memory``); with *partial* it is left out, and
    named.
    """
    from tellback.vectorstore.sqlite.salvage import salvage_database
    from tellback.vectorstore.sqlite.schema import StoreTables

    parts = [StoreTables(Analyzer(), lost_name=lost_name, default_name=default_name), *components]
    return salvage_database(path, new_path, components=parts, partial=partial)


def copy_store(url: str, new_url: str, *, components: Sequence[Component] = ()) -> dict[str, int]:
    """Copy the store at *url*, with the other parts of its database, to *new_url*, where none may be yet.

    Either may be a file or on a server. The copy has the same ids, revisions, keys and identity; it is one state of the
    original, which is only read. Rows, hashes of all of them, their checksums and a sample of searches are compared.
    Returns the number of rows by table. *components* as of ``salvage_store``. Where it is broken off, the same call
    goes on; until it has ended, nobody else can open *new_url*.
    """
    from tellback.vectorstore.sqlite.schema import StoreTables
    from tellback.vectorstore.table_copy import copy_tables

    parts = [StoreTables(Analyzer()), *components]
    with closing(_open_database(url, create=False)) as source, closing(_open_database(new_url, create=True)) as target:
        counts = copy_tables(source, target, parts)
    with closing(open_store(url)) as old, closing(open_store(new_url)) as new:
        _compare_searches(old, new, approximate=_indexed_namespaces(old))
    return counts


def _indexed_namespaces(store: TableStore[Any]) -> set[str]:
    """Return the namespaces whose vectors a server searches by an index, which may miss some."""
    if store.database.dialect.name != "postgresql":
        return set()
    from tellback.vectorstore.postgres import PostgresDatabase, search_indexes

    return {index.namespace for index in search_indexes(cast("PostgresDatabase", store.database))}


def _compare_searches(old: TableStore[Any], new: TableStore[Any], *, approximate: Collection[str]) -> None:
    """Ask both the same, by words and vectors of some entries; another answer raises ``DamageError``."""
    for namespace in sorted(old.namespaces())[:_COMPARED_NAMESPACES]:
        for entry in islice(old.scan(namespace=namespace), _COMPARED_ENTRIES):
            text, vector = entry.text[:_COMPARED_CHARACTERS], entry.vector
            words = [store.search_text(text, 10, namespace=namespace) for store in (old, new)]
            vectors = (
                []
                if vector is None or namespace in approximate
                else [store.search(vector, 10, namespace=namespace) for store in (old, new)]
            )
            for answers in (words, vectors):
                shown = [[(match.entry.id, round(match.score, 5)) for match in answer] for answer in answers]
                if shown and shown[0] != shown[1]:
                    raise DamageError([Finding("search", f"{namespace}: {entry.id} is found otherwise in the copy")])


def _open_database(url: str, *, create: bool) -> Database:
    """Return the database of the file or the server at *url*, without its parts."""
    from urllib.parse import unquote

    if url.startswith("sqlite:///"):
        from tellback.vectorstore.sqlite.database import SqliteDatabase

        return SqliteDatabase(Path(unquote(url[10:])), create=create, read_only=not create)
    if url.startswith(("postgresql://", "postgres://")):
        from tellback.vectorstore.postgres import PostgresDatabase

        return PostgresDatabase(url)
    raise ArgumentError("url", url, "'sqlite:///file.db' or 'postgresql://host/name' is needed")
