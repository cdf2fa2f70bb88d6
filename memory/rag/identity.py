"""Names that tell nothing: ids of chunks and marks of documents, hashed with the secret of the memory's file.

A chunk is named by its collection, document, words and how often these came before; not by its place. So a
chunk that moves keeps its id and its vector, and one that was forgotten is known again when its document is
read anew.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable
from hashlib import blake2b

_ID_BYTES = 10
_MARK_BYTES = 20


def chunk_ids(key: bytes, collection: str, source: str, texts: Iterable[str]) -> list[str]:
    """Return an id for each of a document's chunks, in order; *collection* is its store namespace."""
    times: Counter[str] = Counter()
    ids = []
    for text in texts:
        digest = _hash(key, b"chunk", (collection, source, text, str(times[text])), _ID_BYTES)
        times[text] += 1
        ids.append("c" + base64.b32encode(digest).decode("ascii").lower())
    return ids


def mark(key: bytes, kind: str, *parts: str) -> str:
    """Return the mark of *parts* under the key: equal for equal parts of one kind, else it says nothing."""
    return _hash(key, kind.encode(), parts, _MARK_BYTES).hex()


def _hash(key: bytes, kind: bytes, parts: Iterable[str], size: int) -> bytes:
    digest = blake2b(key=key[:64], digest_size=size, person=kind[:16])
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()
