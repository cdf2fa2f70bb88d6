"""Entries in the order of a metadata field instead of their ids, from a store with an index for it or any other.

>>> store = open_store("numpy:")
>>> store.upsert([Entry("a", metadata={"at": "2026"}), Entry("b", metadata={"at": "1999"}), Entry("c")])
3
>>> [entry.id for entry in scan_by(store, ["at"])]
['c', 'b', 'a']
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, Protocol, TypeAlias, runtime_checkable

from tellback.vectorstore.errors import ArgumentError
from tellback.vectorstore.json_values import check_text
from tellback.vectorstore.protocol import VectorStore
from tellback.vectorstore.types import Entry, Filter
from tellback.vectorstore.validation import check_fields, check_name

ScanPosition: TypeAlias = tuple[str, str]
"""Position of an entry in an order: the value that orders it, and its id."""

_FIELD_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PAGE_SIZE: Final = 256


@runtime_checkable
class OrderedStore(Protocol):
    """A store that need not look at all its entries for that."""

    def scan_by(
        self,
        fields: Sequence[str],
        *,
        reverse: bool = False,
        where: Filter | None = None,
        namespace: str = "",
        after: ScanPosition | None = None,
    ) -> Iterator[Entry]:
        """As the function ``scan_by``."""


def scan_by(
    store: VectorStore,
    fields: Sequence[str],
    *,
    reverse: bool = False,
    where: Filter | None = None,
    namespace: str = "",
    after: ScanPosition | None = None,
) -> Iterator[Entry]:
    """Yield entries in order of the first of *fields* that holds a text ("" where none does), equal ones by id.

    *reverse* turns all of it round. Those behind the place *after* only. Texts are compared by code point. Pages in
    short transactions, no snapshot: what is written meanwhile is seen if its place is still to come. A field is named
    by letters, digits and ``_``. A store that is no ``OrderedStore`` is asked for every entry that passes, once.
    """
    if isinstance(store, OrderedStore):
        return store.scan_by(fields, reverse=reverse, where=where, namespace=namespace, after=after)
    order, start = check_order_fields(fields), check_scan_position(after)
    passing = (scan_position(entry, order) for entry in store.scan(where=where, namespace=namespace))
    if start is not None:
        passing = (position for position in passing if (position < start if reverse else position > start))
    return _fetch_entries(store, sorted(passing, reverse=reverse), namespace)


def scan_position(entry: Entry, fields: Sequence[str]) -> ScanPosition:
    """Return the position of *entry* in the order of *fields*."""
    texts = (value for field in fields if isinstance(value := entry.metadata.get(field), str))
    return next(texts, ""), entry.id


def check_order_fields(fields: Sequence[str]) -> tuple[str, ...]:
    """Return *fields* if entries can be ordered by them."""
    names = check_fields(fields)
    if not names:
        raise ArgumentError("fields", fields, "at least one field is needed")
    for name in names:
        if not _FIELD_NAME.fullmatch(name):
            raise ArgumentError("fields", name, "a field of letters, digits and _ is needed to order by")
    return names


def check_scan_position(after: object) -> ScanPosition | None:
    """Return *after* if it is a place, or none."""
    if after is None:
        return None
    if not isinstance(after, tuple) or len(after) != 2:
        raise ArgumentError("after", after, "a place is needed: the value that orders an entry, and its id")
    return check_text(after[0], "after[0]"), check_name(after[1], "after[1]", empty=True)


def _fetch_entries(store: VectorStore, places: Sequence[ScanPosition], namespace: str) -> Iterator[Entry]:
    for first in range(0, len(places), _PAGE_SIZE):
        ids = [id for _, id in places[first : first + _PAGE_SIZE]]
        yield from (entry for entry in store.get(ids, namespace=namespace) if entry is not None)
