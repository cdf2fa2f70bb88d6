"""Checksums of stored rows: eight bytes of BLAKE2b, so that a changed byte is named and never returned as truth.

SQLite's own checks see damaged pages, not a changed byte inside a row.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from vectorstore.errors import DamageError

_SIGN: Final = 1 << 63
_WRAP: Final = 1 << 64
_NO_TEXT: Final = b"\xff"
"""What no text encodes to: damage can put a value of another type where one belongs."""


def entry_checksum(
    id: str, revision: int, text: str, context: str, metadata: str, no_vector: str | None, *, has_vector: bool
) -> int:
    """Return the checksum of an entry row, as a signed 64-bit integer; a vector row that vanishes is noticed by it."""
    number, reason = str(revision), ("v" if has_vector else "") + ("-" if no_vector is None else f"+{no_vector}")
    joined = f"{id}{number}{text}{context}{metadata}{reason}"
    try:
        if joined.isascii():  # a character is a byte
            sizes = f"{len(id)},{len(number)},{len(text)},{len(context)},{len(metadata)},{len(reason)}"
        else:
            sizes = ",".join(str(len(part.encode())) for part in (id, number, text, context, metadata, reason))
    except (TypeError, AttributeError):
        return _digest(_NO_TEXT)
    return _digest((sizes + joined).encode())


def vector_checksum(id: str, vector: bytes) -> int:
    """Return the checksum of a vector row, as a signed 64-bit integer."""
    return _digest(id.encode() + b"\0" + (vector if isinstance(vector, bytes) else _NO_TEXT))


def reason_checksum(id: str, reason: str) -> int:
    """Return the checksum of a reason for having no vector in the space that is being filled."""
    return _digest(id.encode() + b"\0" + (reason.encode() if isinstance(reason, str) else _NO_TEXT))


def added(tally: int, *checksums: int) -> int:
    """Return the sum of checksums as SQLite keeps it: signed, modulo 2**64; its order does not matter."""
    try:
        return (tally + sum(checksums) + _SIGN) % _WRAP - _SIGN
    except TypeError as error:
        raise DamageError("a checksum is no number") from error


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little", signed=True)
