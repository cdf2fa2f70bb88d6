"""Snapshots of a numpy store that were changed, with the checksum that belongs to them then.

Inner parts, on no face: ``tellback.vectorstore.engines.snapshot``.
"""

from hashlib import blake2b
from pathlib import Path

import apsw

from tellback.vectorstore.engines.snapshot import PREAMBLE_SIZE


def craft(path: Path, *statements: str) -> None:
    """Run *statements* on the tables of the snapshot at *path*."""
    data = path.read_bytes()
    image = apsw.Connection(":memory:")
    image.deserialize("main", data[PREAMBLE_SIZE:-32])
    for statement in statements:
        image.execute(statement)
    seal(path, data[:PREAMBLE_SIZE] + image.serialize("main"))
    image.close()


def seal(path: Path, body: bytes) -> None:
    """Write *body* to *path*, with its checksum."""
    path.write_bytes(body + blake2b(body, digest_size=32).digest())
