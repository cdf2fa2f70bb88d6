"""Search of files' bytes for texts: a script that runs as a child process, JSON in and JSON out.

A process of its own is needed because closing a database's file beside SQLite would drop the locks that another
connection of the same process holds on it. The script uses the standard library alone and changes nothing. The texts
come by stdin, so that no list of processes shows them; the answer has numbers of texts, never words.

The free pages of an SQLite file are checked too: with secure deletion on, a leaf holds zeros alone, and a trunk page
numbers of pages alone. So are the gaps of its b-tree pages, between the rows, but for page 1, which holds the schema.
"""

from __future__ import annotations

import json
import sys
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from struct import unpack

BLOCK_BYTES = 1 << 22
MIN_BASE64_BYTES = 8
SQLITE_MAGIC = b"SQLite format 3\x00"
B_TREE_HEADERS = {2: 12, 5: 12, 10: 8, 13: 8}
"""Length of a page's header by its kind, the first byte; in other pages that byte is 0 (of files under 128 GiB)."""


def byte_forms(text: str) -> set[bytes]:
    """Return the byte strings that *text* may be in a file: plain, in JSON, in JSON within JSON, in UTF-16, in base64.

    Attached files are base64 in messages: a text within begins at one of three offsets, whose shared letters are left
    out.
    """
    escaped = {text}
    for ascii_only in (False, True):
        inner = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        escaped |= {inner, json.dumps(inner, ensure_ascii=ascii_only)[1:-1]}
    plain = {text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be")}
    return {form.encode() for form in escaped} | plain | {form for data in plain for form in _base64_forms(data)}


def _base64_forms(data: bytes) -> set[bytes]:
    if len(data) < MIN_BASE64_BYTES:
        return set()
    forms = set()
    for offset, start in enumerate((0, 2, 3)):
        end = (offset + len(data)) * 8 // 6
        forms |= {encode(bytes(offset) + data)[start:end] for encode in (b64encode, urlsafe_b64encode)}
    return forms


def search_file(path: str, needles: list[tuple[int, bytes]]) -> list[int]:
    """Return the numbers of the *needles* (number, bytes) that the file holds."""
    longest = max((len(needle) for _, needle in needles), default=0)
    numbers: set[int] = set()
    overlap = b""
    with Path(path).open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            window = overlap + block
            numbers |= {number for number, needle in needles if number not in numbers and needle in window}
            overlap = window[-longest:] if longest else b""
    return sorted(numbers)


def page_size(header: bytes) -> int:
    """Return the bytes of a page by the *header* of an SQLite file; 0 for any other file."""
    if not header.startswith(SQLITE_MAGIC):
        return 0
    size = int.from_bytes(header[16:18], "big")
    return 65536 if size == 1 else size


def count_dirty_free_pages(path: str) -> int:
    """Return how many free pages of an SQLite file hold anything; 0 for any other file."""
    with Path(path).open("rb") as file:
        header = file.read(100)
        if not (size := page_size(header)):
            return 0
        pages = Path(path).stat().st_size // size
        trunk, dirty, seen = int.from_bytes(header[32:36], "big"), 0, set()
        while trunk and trunk not in seen:
            seen.add(trunk)
            file.seek((trunk - 1) * size)
            page = file.read(size)
            count = min(int.from_bytes(page[4:8], "big"), size // 4 - 2)
            dirty += any(word > pages for word in unpack(f">{size // 4 - 2}I", page[8 : size // 4 * 4]))
            for index in range(count):
                leaf = int.from_bytes(page[8 + 4 * index : 12 + 4 * index], "big")
                file.seek((leaf - 1) * size)
                dirty += any(file.read(size))
            trunk = int.from_bytes(page[:4], "big")
    return dirty


def count_dirty_gaps(path: str) -> int:
    """Return how many b-tree pages of an SQLite file hold bytes that belong to no row; 0 for any other file."""
    with Path(path).open("rb") as file:
        header = file.read(100)
        if not (size := page_size(header)):
            return 0
        file.seek(size)
        return sum(_has_dirty_gap(page, size - header[20]) for page in iter(lambda: file.read(size), b""))


def _has_dirty_gap(page: bytes, usable: int) -> bool:
    if page[0] not in B_TREE_HEADERS:
        return False
    kind, freeblock, cells, content = unpack(">BHHH", page[:7])
    spans = [(B_TREE_HEADERS[kind] + 2 * cells, content or 65536)]
    while freeblock and spans[-1][0] < freeblock < usable - 4:
        following, length = unpack(">HH", page[freeblock : freeblock + 4])
        spans.append((freeblock + 4, freeblock + length))
        freeblock = following
    return any(page[start:end].strip(b"\0") for start, end in spans)


def main() -> None:
    """Search the files of one request from stdin and write the answer to stdout."""
    request = json.load(sys.stdin)
    needles = [(number, form) for number, text in enumerate(request["texts"]) for form in byte_forms(text)]
    answer: dict[str, dict[str, object]] = {"found": {}, "free": {}, "gaps": {}, "unread": {}}
    for path in request["files"]:
        try:
            answer["found"][path] = search_file(path, needles) if needles else []
            answer["free"][path] = count_dirty_free_pages(path)
            answer["gaps"][path] = count_dirty_gaps(path)
        except OSError as error:
            answer["unread"][path] = error.strerror or "cannot be read"
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
