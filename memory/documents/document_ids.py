"""Ids of chunks and marks of documents, as keyed hashes.

The key is the secret of the memory's file, so an id reveals nothing. A chunk is identified by its collection, document,
words and how often these occurred before, not by its position. So a chunk that moves keeps its id and its vector, and
one that was forgotten is recognised when its document is read again.
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
        digest = _keyed_hash(key, b"chunk", (collection, source, text, str(times[text])), _ID_BYTES)
        times[text] += 1
        ids.append("c" + base64.b32encode(digest).decode("ascii").lower())
    return ids


def document_mark(key: bytes, kind: str, *parts: str) -> str:
    """Return the mark of *parts* under the key: equal for equal parts of one kind, else it says nothing."""
    return _keyed_hash(key, kind.encode(), parts, _MARK_BYTES).hex()


def _keyed_hash(key: bytes, kind: bytes, parts: Iterable[str], size: int) -> bytes:
    digest = blake2b(key=key[:64], digest_size=size, person=kind[:16])
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()
