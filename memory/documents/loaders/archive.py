"""Guards for compressed files: a bounded gunzip, and ZIP archives whose members are read one by one up to a limit."""

from __future__ import annotations

import zlib

from memory.documents.loaders.base import LoadLimits
from memory.errors import LoadError


def gunzip(data: bytes, source: str, limits: LoadLimits) -> bytes:
    """Return the bytes that are packed in *data*; more than ``limits.unpacked`` of them raise ``LoadError``."""
    unpacked = bytearray()
    rest = data
    while rest:
        stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            unpacked += stream.decompress(rest, limits.unpacked - len(unpacked) + 1)
        except zlib.error as error:
            raise LoadError(source, "damaged: not the gzip file that it begins as") from error
        if len(unpacked) > limits.unpacked:
            raise LoadError(source, f"unpacks to more than {limits.unpacked / 1e6:.0f} MB")
        if not stream.eof:
            raise LoadError(source, "ends in the middle of the gzip file")
        rest = stream.unused_data.lstrip(b"\0")
    return bytes(unpacked)
