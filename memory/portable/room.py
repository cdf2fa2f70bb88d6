"""Room for an import: what it takes the place of goes, and what it writes is newer than all versions it brings."""

from __future__ import annotations

from itertools import islice
from typing import Final

from memory.erasure.unreached import exports
from memory.forgotten.erasers import Gone
from memory.lanes import CONVERSATION, prefix_of, store_namespace
from memory.times import aware
from memory.write.context import WriteContext
from vectorstore import Entry

_PAGE: Final = 256
_BATCH: Final = 1000


def make_room(context: WriteContext, namespace: str, *, dry_run: bool) -> int:
    """Remove all that a namespace holds; return how many entries. Inside the transaction of the import.

    What was forgotten, and which files are the owner's own, stays known.
    """
    store = context.lifecycle("import")
    lanes = [lane for lane in store.namespaces() if lane.startswith(prefix_of(namespace))]
    removed = sum(store.count(namespace=lane) for lane in lanes)
    if dry_run:
        return removed
    own, now = list(exports(context, namespace)), aware(context.clock(), context.zone)
    for lane in lanes:
        while page := list(islice(store.scan(namespace=lane), _PAGE)):
            ids = [entry.id for entry in page]
            _ask(context, Gone(namespace, now, {lane: ids}, frozenset(entry.text for entry in page)))
            store.erase(ids, namespace=lane)
    _ask(context, Gone(namespace, now, {}, frozenset(), everything=True))
    if not context.apart:  # else it comes after the commit, with what takes its place
        context.rows.erase_namespace(namespace)
    context.operations.clear(namespace)
    for one in reversed(own):
        context.operations.add(namespace, one)
    return removed


def raise_revisions(context: WriteContext, namespace: str, versions: int, token: str) -> None:
    """Lift the write number above *versions*: what is written then is newer than every version of that number."""
    store, lane = context.lifecycle("import"), store_namespace(namespace, CONVERSATION)
    for start in range(0, versions, _BATCH):
        ids = [f"import {token} {at}" for at in range(start, min(start + _BATCH, versions))]
        store.upsert((Entry(id) for id in ids), namespace=lane)
        store.erase(ids, namespace=lane)


def _ask(context: WriteContext, gone: Gone) -> None:
    for eraser in context.erasers:
        eraser.erase(gone)
