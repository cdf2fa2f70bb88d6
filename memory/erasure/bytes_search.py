"""Search of files' bytes for texts, as a child process: JSON in and out. A script of its own.

A process of its own, since to open and close a database's file beside SQLite would drop the locks that another
connection of the same process holds on it. Standard library alone; it changes nothing. The texts come by stdin, so
that no list of processes shows them; the answer names places, never words.

It also looks through the free pages of an SQLite file: with secure deletion on, each is nothing but zeros, and those
that list others nothing but numbers of pages.
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


def byte_forms(text: str) -> set[bytes]:
    """Return the bytes by which *text* may stand in a file: as it is, in JSON, in JSON within JSON, in UTF-16.

    And in base64, as attached files stand in messages: it begins at one of three places, and what is beside it is left.
    """
    found = {text}
    for ascii_only in (False, True):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        found |= {once, json.dumps(once, ensure_ascii=ascii_only)[1:-1]}
    plain = {text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be")}
    return {one.encode() for one in found} | plain | {form for one in plain for form in _base64_forms(one)}


def _base64_forms(data: bytes) -> set[bytes]:
    if len(data) < MIN_BASE64_BYTES:
        return set()
    found = set()
    for before, start in enumerate((0, 2, 3)):
        whole = (before + len(data)) * 8 // 6
        found |= {encode(bytes(before) + data)[start:whole] for encode in (b64encode, urlsafe_b64encode)}
    return found


def search_file(path: str, needles: list[tuple[int, bytes]]) -> list[int]:
    """Return the numbers of those of *needles* that the file holds."""
    longest = max((len(needle) for _, needle in needles), default=0)
    found: set[int] = set()
    kept = b""
    with Path(path).open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            window = kept + block
            found |= {number for number, needle in needles if number not in found and needle in window}
            kept = window[-longest:] if longest else b""
    return sorted(found)


def count_dirty_free_pages(path: str) -> int:
    """Return how many free pages of an SQLite file are not empty."""
    with Path(path).open("rb") as file:
        header = file.read(100)
        if not header.startswith(SQLITE_MAGIC):
            return 0
        size = int.from_bytes(header[16:18], "big")
        size = 65536 if size == 1 else size
        pages = Path(path).stat().st_size // size
        trunk, dirty, seen = int.from_bytes(header[32:36], "big"), 0, set()
        while trunk and trunk not in seen:
            seen.add(trunk)
            file.seek((trunk - 1) * size)
            page = file.read(size)
            count = min(int.from_bytes(page[4:8], "big"), size // 4 - 2)
            dirty += any(word > pages for word in unpack(f">{size // 4 - 2}I", page[8 : size // 4 * 4]))
            for place in range(count):
                leaf = int.from_bytes(page[8 + 4 * place : 12 + 4 * place], "big")
                file.seek((leaf - 1) * size)
                dirty += any(file.read(size))
            trunk = int.from_bytes(page[:4], "big")
    return dirty


def main() -> None:
    """Answer one question and leave."""
    asked = json.load(sys.stdin)
    needles = [(number, form) for number, text in enumerate(asked["texts"]) for form in byte_forms(text)]
    answer: dict[str, object] = {"found": {}, "free": {}, "unread": {}}
    for path in asked["files"]:
        try:
            answer["found"][path] = search_file(path, needles) if needles else []  # type: ignore[index]  # plain JSON
            answer["free"][path] = count_dirty_free_pages(path)  # type: ignore[index]
        except OSError as error:
            answer["unread"][path] = error.strerror or "cannot be read"  # type: ignore[index]
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
