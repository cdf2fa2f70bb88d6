"""Page gaps: the bytes of b-tree pages that belong to no row, found and overwritten with zeros.

Secure deletion clears the row that is deleted, not the copies that SQLite leaves in a page's unallocated space when
it moves rows to a neighbour. SQLite has no statement for that space, so it is overwritten in the file itself, through
SQLite's own handle of it: another one would drop SQLite's locks when it is closed. Format of pages:
https://www.sqlite.org/fileformat2.html#b_tree_pages

Page 1 holds the schema and no rows; it is left as it is. Overflow pages and free pages need nothing: secure deletion
clears a page when it is freed, and a new one is zeros.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import apsw
import numpy as np
from numpy.typing import NDArray

_BLOCK_PAGES: Final = 256
_HEADER_BYTES: Final = {2: 12, 5: 12, 10: 8, 13: 8}
"""Length of a b-tree page's header by its first byte. In other pages this byte is 0: they begin with a page
number, which is below ``_MAX_PAGES``."""
_MAX_PAGES: Final = 0x02000000
_MAX_TRANSFER: Final = 1 << 16
"""Bytes of one call: SQLite itself never asks for more than a page, and its handles take less than 128 KiB."""
_SYNC_FULL: Final = 3
_ZEROS: Final = bytes(65536)

Gap: TypeAlias = tuple[int, int]
"""Start and end of a gap in its page."""


def clear_page_gaps(connection: apsw.Connection) -> int:
    """Overwrite every gap that is not zeros, make that durable, and return the number of pages changed.

    The file must not change meanwhile: *connection* holds the write lock, and the write-ahead log is empty. Bytes of
    rows are not touched, so readers and a power cut in the midst see a valid page. Pages that connections
    hold in memory are not changed: this one must release its own, and others do with the next commit that they see.
    """
    file = _DatabaseFile(connection)
    changed = 0
    for offset, block in file.blocks():
        for number, gaps in _gaps_of(block, file.page_size, file.usable):
            if offset or number:
                for start, end in gaps:
                    file.write(_ZEROS[: end - start], offset + number * file.page_size + start)
                changed += 1
    if changed:
        file.sync()
    return changed


def _gaps_of(block: bytes, page_size: int, usable: int) -> Iterator[tuple[int, list[Gap]]]:
    """Yield the index of each page of *block* whose gaps are not zeros, with those gaps."""
    pages = np.frombuffer(block, np.uint8).reshape(-1, page_size)
    headers = pages[:, :8].astype(np.int64)
    starts = _header_lengths()[headers[:, 0]] + 2 * _number(headers, 3)
    ends = _number(headers, 5)
    ends[ends == 0] = 65536
    sound = (headers[:, 0] > 0) & (_header_lengths()[headers[:, 0]] > 0) & (starts <= ends) & (ends <= usable)
    freeblocks = _number(headers, 1)
    wanted = np.flatnonzero(sound)
    rows = zip(*(column[wanted].tolist() for column in (np.arange(len(pages)), starts, ends, freeblocks)), strict=True)
    for number, start, end, freeblock in rows:
        page = number * page_size
        if not freeblock and block[page + start : page + end] == _ZEROS[: end - start]:
            continue  # nearly every page
        gaps = [(start, end)]
        while freeblock:
            following = int.from_bytes(block[page + freeblock : page + freeblock + 2], "big")
            size = int.from_bytes(block[page + freeblock + 2 : page + freeblock + 4], "big")
            if freeblock < end or freeblock + size > usable or 0 < following <= freeblock:
                break  # a damaged chain is left as it is
            gaps.append((freeblock + 4, freeblock + size))
            freeblock = following
        dirty = [(gap, to) for gap, to in gaps if gap < to and block[page + gap : page + to] != _ZEROS[: to - gap]]
        if dirty:
            yield number, dirty


def _number(headers: NDArray[np.int64], column: int) -> NDArray[np.int64]:
    return headers[:, column] << 8 | headers[:, column + 1]


def _header_lengths() -> NDArray[np.int64]:
    lengths = np.zeros(256, np.int64)
    lengths[list(_HEADER_BYTES)] = list(_HEADER_BYTES.values())
    return lengths


_READ_OR_WRITE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64)


class _Methods(ctypes.Structure):
    """First members of ``sqlite3_io_methods``."""

    _fields_ = (
        ("version", ctypes.c_int),
        ("close", ctypes.c_void_p),
        ("read", _READ_OR_WRITE),
        ("write", _READ_OR_WRITE),
        ("truncate", ctypes.c_void_p),
        ("sync", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)),
    )


class _DatabaseFile:
    """SQLite's own handle (``sqlite3_file``) of the database that *connection* has open."""

    def __init__(self, connection: apsw.Connection) -> None:
        handle = ctypes.c_void_p()
        connection.file_control("main", apsw.SQLITE_FCNTL_FILE_POINTER, ctypes.addressof(handle))
        self._handle = handle
        # the handle begins with the pointer to its methods
        self._methods = ctypes.cast(handle, ctypes.POINTER(ctypes.POINTER(_Methods))).contents.contents
        header = self._read(0, 100)
        size = int.from_bytes(header[16:18], "big")
        self.page_size = 65536 if size == 1 else size
        self.usable = self.page_size - header[20]
        self._pages = int.from_bytes(header[28:32], "big")

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield the pages in blocks, each with its offset in bytes."""
        if self._pages >= _MAX_PAGES:
            raise apsw.TooBigError("a file of 128 GiB or more")
        for first in range(0, self._pages, _BLOCK_PAGES):
            count = min(_BLOCK_PAGES, self._pages - first)
            yield first * self.page_size, self._read(first * self.page_size, count * self.page_size)

    def write(self, data: bytes, offset: int) -> None:
        """Write *data*, less than a page, at *offset*."""
        _call(self._methods.write, self._handle, data, len(data), offset)

    def sync(self) -> None:
        """Make what was written durable."""
        _call(self._methods.sync, self._handle, _SYNC_FULL)

    def _read(self, offset: int, size: int) -> bytes:
        buffer = ctypes.create_string_buffer(size)
        for start in range(0, size, _MAX_TRANSFER):
            length = min(_MAX_TRANSFER, size - start)
            _call(self._methods.read, self._handle, ctypes.byref(buffer, start), length, offset + start)
        return buffer.raw


def _call(method: Callable[..., int], *arguments: object) -> None:
    try:
        code = method(*arguments)
    except SystemError as error:  # a file system written in Python leaves its own exception behind
        raise error.__cause__ or error from None
    if code:
        raise apsw.exception_for(code)
