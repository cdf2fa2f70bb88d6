"""Objects of a JSON array, read one by one from a stream, however long it is. No more than one is in memory.

A small scanner finds where an object ends, by brackets and quotes; the standard library decodes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

LONGEST_OBJECT: Final = 64_000_000
"""Size of an object above which it is skipped; conversations of ten megabytes are known."""
_CHUNK: Final = 1 << 18
_STRUCTURE: Final = re.compile(rb'["{}\[\]]')
_STRING: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


@dataclass(slots=True)
class JsonObjects:
    """Objects of the array in *file*, in order; a sequence of objects without an array is read, too.

    Afterwards *damaged* and *too_long* count the skipped objects, and *is_whole* is False where the file ends in the
    middle.
    """

    file: IO[bytes]
    longest: int = LONGEST_OBJECT
    damaged: int = 0
    too_long: int = 0
    is_whole: bool = True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for data in self._spans():
            try:
                value = json.loads(data)
            except (ValueError, RecursionError):
                self.damaged += 1
                continue
            yield value

    def _spans(self) -> Iterator[bytes]:
        """Yield the bytes of each object."""
        pending = bytearray()  # from the beginning of the object, or from what is not scanned yet
        position = depth = 0  # depth counts brackets from the first brace on; 0 is between objects
        in_string = is_open = drops = False
        while chunk := self.file.read(_CHUNK):
            pending += chunk
            while True:
                if in_string:
                    position = self._string_end(pending, position)
                    if position == len(pending) or pending[position] != ord('"'):
                        break
                    in_string, position = False, position + 1
                match = _STRUCTURE.search(pending, position)
                position = len(pending) if match is None else match.end()
                if match is None:
                    break
                mark = match.group()
                if mark == b'"':
                    in_string = True
                elif depth == 0 and mark != b"{":
                    is_open = mark == b"[" or (is_open and mark != b"]")
                elif mark in b"{[":
                    if depth == 0:
                        del pending[: position - 1]
                        position = 1
                    depth += 1
                else:
                    depth -= 1
                    if depth == 0:
                        if not drops:
                            yield bytes(pending[:position])
                        del pending[:position]
                        position, drops = 0, False
            if depth and not drops and len(pending) > self.longest:
                self.too_long += 1
                drops = True
            if not depth or drops:
                del pending[:position]
                position = 0
        self.is_whole = not (depth or in_string or is_open)

    def _string_end(self, data: bytearray, start: int) -> int:
        """Return the end of the string that continues at *start*: its quote, a lone backslash, or the end of *data*."""
        match = _STRING.match(data, start)
        return match.end() if match is not None else start
