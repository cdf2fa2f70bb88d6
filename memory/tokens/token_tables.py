"""Token tables of tiktoken's encodings: found on this machine and checked against the hash that tiktoken expects.

tiktoken keeps its tables in a cache folder and downloads what is missing. Here nothing is downloaded: a table is taken
from a cache, or from the compiled library of semantic-text-splitter, which is built with the same tables. Each source
is trusted for the hash of its bytes alone.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import platformdirs

from tellback.memory.errors import TokenizerUnavailable

CACHE_VARIABLES: Final = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
"""Variables in which tiktoken looks for the user's cache folder, in this order; an empty one forbids a cache."""

TABLE_HASHES: Final = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "r50k_base": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
}
"""SHA-256 of each table, as tiktoken expects it."""

_TABLE_OF_ENCODING = {"o200k_harmony": "o200k_base", "p50k_edit": "p50k_base"}
_LIBRARY = "semantic_text_splitter"
_FIRST_LINE = b"IQ== 0\n"  # of every table: the token "!" has rank 0
_LINES = re.compile(rb"(?:[A-Za-z0-9+/]+=* \d+\n)+")


def table_of(encoding: str) -> str | None:
    """Return the name of the table that *encoding* reads, None for an encoding that is not known here."""
    table = _TABLE_OF_ENCODING.get(encoding, encoding)
    return table if table in TABLE_HASHES else None


def table_url(table: str) -> str:
    """Return the address from which tiktoken downloads *table*."""
    return f"https://openaipublic.blob.core.windows.net/encodings/{table}.tiktoken"


def default_cache() -> Path:
    """Return the folder that keeps tables: the user's for tiktoken, where one is set, else ours."""
    return _users_cache() or platformdirs.user_cache_path("tellback") / "tiktoken"


@contextmanager
def folder_with_table(table: str, cache: Path | None = None) -> Iterator[Path]:
    """Yield a folder with the whole *table* under tiktoken's name for it; without one, ``TokenizerUnavailable``.

    A table that is found in no cache is kept in *cache* (None: ``default_cache``), or where that cannot be written or
    the user forbids a cache, in a temporary folder for the time of the context.
    """
    chosen = default_cache() if cache is None else cache
    for folder in (chosen, Path(tempfile.gettempdir()) / "data-gym-cache"):
        if _is_whole(folder / _file_name(table), table):
            yield folder
            return
    data = _compiled_table(table)
    if data is None:
        raise TokenizerUnavailable(f"no token table {table} on this machine")
    kept = None
    if cache is not None or not _forbids_cache():
        with suppress(OSError):  # a full disk, a home that cannot be written
            kept = keep_table(table, data, chosen)
    if kept is not None:
        yield kept.parent
        return
    with tempfile.TemporaryDirectory(prefix="tellback-") as temporary:
        yield keep_table(table, data, Path(temporary)).parent


def keep_table(table: str, data: bytes, cache: Path | None = None) -> Path:
    """Write the bytes of *table* into *cache* (None: ``default_cache``), whole or not at all, and return its file.

    Bytes of another hash raise ``TokenizerUnavailable``.
    """
    if hashlib.sha256(data).hexdigest() != TABLE_HASHES[table]:
        raise TokenizerUnavailable(f"what came as token table {table} is not it: {len(data)} bytes of another hash")
    folder = default_cache() if cache is None else cache
    from tellback.vectorstore.sqlite import atomic_write

    with atomic_write(folder / _file_name(table), token=os.urandom, replace=True) as part:
        part.write_bytes(data)
    return folder / _file_name(table)


def _users_cache() -> Path | None:
    folder = next((os.environ[name] for name in CACHE_VARIABLES if name in os.environ), "")
    return Path(folder) if folder else None


def _forbids_cache() -> bool:
    return next((not os.environ[name] for name in CACHE_VARIABLES if name in os.environ), False)


def _file_name(table: str) -> str:
    return hashlib.sha1(table_url(table).encode(), usedforsecurity=False).hexdigest()


def _is_whole(path: Path, table: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == TABLE_HASHES[table]
    except OSError:
        return False


def _compiled_table(table: str) -> bytes | None:
    """Return the bytes of *table* in the compiled library; None where no part of it has their hash."""
    spec = find_spec(_LIBRARY)
    folder = None if spec is None or spec.origin is None else Path(spec.origin).parent
    for path in () if folder is None else (*folder.glob("*.so"), *folder.glob("*.pyd")):
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as compiled:
                for data in _tables_in(compiled):
                    if hashlib.sha256(data).hexdigest() == TABLE_HASHES[table]:
                        return data
        except (OSError, ValueError):  # unreadable, or empty, which cannot be mapped
            continue
    return None


def _tables_in(compiled: mmap.mmap) -> Iterator[bytes]:
    """Yield what looks like a table in *compiled*: lines of a token in base64 and its rank, from rank 0."""
    start = compiled.find(_FIRST_LINE)
    while start >= 0:
        following = compiled.find(_FIRST_LINE, start + 1)
        found = _LINES.match(compiled, start, following if following >= 0 else len(compiled))
        if found is not None:
            yield found[0]
        start = following
