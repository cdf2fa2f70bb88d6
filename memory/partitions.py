"""Partitions: the separate store namespaces in which the memories of one namespace live.

Conversation (everything said or noted), documents (each collection its own) and the archive (superseded versions) are
kept apart, so that none moves the ranking statistics of another. This module is the one place that names them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from urllib.parse import quote, unquote

from tellback.memory.errors import ArgumentError

CONVERSATION = "conversation"
DOCUMENTS = "documents"
ARCHIVE = "archive"
MAX_STORE_NAMESPACE = 1024


def store_namespace(namespace: str, lane: str, collection: str | None = None) -> str:
    """Return the store namespace of a *lane* of the user's *namespace*."""
    if not isinstance(namespace, str):
        raise ArgumentError("namespace", namespace, "a text is needed")
    name = prefix_of(namespace) + lane
    if collection is not None:
        name += "/" + escape_namespace(collection)
    if len(name) > MAX_STORE_NAMESPACE:
        raise ArgumentError(
            "namespace", namespace, f"its quoted form may have at most {MAX_STORE_NAMESPACE} characters"
        )
    return name


def prefix_of(namespace: str) -> str:
    """Return what all store namespaces of the user's *namespace* begin with, and no other's."""
    return escape_namespace(namespace) + "/"


def parse_store_namespace(store_name: str) -> tuple[str, str, str | None]:
    """Return (namespace, lane, collection) of a store namespace."""
    parts = store_name.split("/")
    collection = unquote(parts[2]) if len(parts) > 2 else None
    return unquote(parts[0]), parts[1] if len(parts) > 1 else "", collection


def lane_counts(path: Path, *, namespace: str = "") -> dict[str, int]:
    """Return how many entries each lane of *namespace* has in the memory file at *path*, without opening the memory.

    A file that cannot be read so raises ``NotAStore``.
    """
    from tellback.vectorstore.internals import entry_counts

    counts: Counter[str] = Counter()
    for partition, count in entry_counts(path).items():
        owner, lane, _ = parse_store_namespace(partition)
        if owner == namespace:
            counts[lane] += count
    return dict(counts)


def archived_id(id: str, revision: int) -> str:
    """Return the archive's id of a version."""
    return f"{id}@{revision}"


def escape_namespace(text: str) -> str:
    """Return *text* without a character that lanes use; any text gives a distinct one."""
    if "\0" in text:
        raise ArgumentError("namespace", text, "NUL is not allowed")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise ArgumentError("namespace", text, "lone surrogates are not allowed") from error
