r"""A header and named arrays as bytes, every one of which is checked: the outer form of a snapshot.

    16 bytes   \x89Mneme numpy\r\n\x1a\n
     4 bytes   version of the format, little-endian
     4 bytes   length of the header, little-endian
    header     JSON; under "arrays" the [name, dtype, shape] of each array in order
    arrays     as ``numpy.frombuffer`` reads them, little-endian, C order, each at a multiple of 64 bytes
    32 bytes   BLAKE2b of everything before

First bytes, version and the checksum at the end stay where they are in every version. No pickle: reading runs no
code. No I/O here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vectorstore.errors import DamageError, NewerFile, NotAStore

MAGIC: Final = b"\x89Mneme numpy\r\n\x1a\n"
VERSION: Final = 1
FRONT: Final = len(MAGIC) + 8
"""Bytes before the header; enough to tell whose a file is."""
_DIGEST: Final = 32
_ALIGNED: Final = 64
_DTYPES: Final = ("<f4", "<i4", "<i8", "|u1", "|b1")

Arrays = dict[str, NDArray[Any]]


class UnfitError(ValueError):
    """What was read has the right checksum and makes no sense."""


def packed(header: Mapping[str, object], arrays: Arrays) -> Iterator[bytes]:
    """Yield the bytes of a header and arrays, part by part."""
    listed = {name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    described = [[name, array.dtype.str, list(array.shape)] for name, array in listed.items()]
    text = json.dumps({**header, "arrays": described}, ensure_ascii=False).encode()
    front = MAGIC + VERSION.to_bytes(4, "little") + len(text).to_bytes(4, "little")
    digest = blake2b(digest_size=_DIGEST)
    for part in chain([front + text], (array.tobytes() for array in listed.values())):
        padded = part + bytes(-len(part) % _ALIGNED)
        digest.update(padded)
        yield padded
    yield digest.digest()


def check_front(front: bytes, source: str) -> None:
    """Refuse what does not begin as a snapshot of a version that is known; *source* names it."""
    if front[: len(MAGIC)] != MAGIC:
        raise NotAStore(source, "it is not a snapshot of a numpy store; choose another path")
    version = int.from_bytes(front[len(MAGIC) : len(MAGIC) + 4], "little")
    if version > VERSION:
        raise NewerFile(source, "snapshot format", version, VERSION)


def unpacked(data: bytes, source: str) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays, read-only, in *data*; *source* names it in errors."""
    check_front(data[: len(MAGIC)], source)
    body = memoryview(data)[:-_DIGEST]
    if blake2b(body, digest_size=_DIGEST).digest() != data[-_DIGEST:]:
        raise DamageError(f"{source}: its bytes are not those that were written; restore a copy")
    check_front(data[:FRONT], source)  # a version is believed only where the checksum is right
    end = FRONT + int.from_bytes(data[FRONT - 4 : FRONT], "little")
    header = json.loads(data[FRONT:end])
    arrays: Arrays = {}
    for name, dtype, shape in header["arrays"]:
        end += -end % _ALIGNED
        arrays[name] = _array(body, end, dtype, shape)
        end += arrays[name].nbytes
    return header, arrays


def _array(body: memoryview, start: int, dtype: str, shape: list[int]) -> NDArray[Any]:
    if dtype not in _DTYPES or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise UnfitError(f"an array of {dtype!r} and {shape}")
    flat = np.frombuffer(body[start : start + int(np.dtype(dtype).itemsize * np.prod(shape, dtype=object))], dtype)
    return flat.astype(flat.dtype.newbyteorder("="), copy=False).reshape(shape)
