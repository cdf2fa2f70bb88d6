"""Marks: pinned, disabled, tags, importance, expiry. Changed in place, without a version; the log keeps both values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from memory.codec import from_entry
from memory.lanes import ARCHIVE, CONVERSATION, store_namespace
from memory.records import Actor, Change, Operation
from memory.times import aware
from memory.write.checking import actor_named, names
from memory.write.context import WriteContext
from memory.write.trust import check_may_change
from memory.write.versions import live
from vectorstore import Entry, Metadata

Fields: TypeAlias = Mapping[str, Any]
MARKS: Final = ("pin", "unpin", "disable", "enable", "tag", "untag", "importance", "expire")
"""The kinds of operations that change fields in place."""
_OF_ALL_VERSIONS: Final = ("disabled", "expires_at", "expires_at_offset")
"""What hides a memory hides its earlier versions too."""


def mark(
    context: WriteContext,
    kind: str,
    ids: Sequence[str] | str,
    namespace: str,
    new: Callable[[Metadata], Fields],
    *,
    actor: Actor,
    approved_by: Actor | None = None,
) -> Operation | None:
    """Give memories the fields that *new* returns for theirs (None: no value), all or none; None if nothing differs."""
    wanted = dict.fromkeys(names([ids] if isinstance(ids, str) else ids, "ids"))
    actor_named(actor, "actor")
    with context.transaction():
        changes = []
        entries = [live(context, one, namespace) for one in wanted]
        check_may_change(actor, [from_entry(one) for one in entries], kind, approved_by=approved_by)
        for entry in entries:
            changes += given(context, entry, new(entry.metadata), namespace)
        if not changes:
            return None
        operation = Operation(
            context.operation_ids(), kind, actor, aware(context.clock(), context.zone), tuple(changes)
        )
        context.operations.add(namespace, operation)
    return operation


def given(context: WriteContext, entry: Entry, fields: Fields, namespace: str) -> list[Change]:
    """Patch *entry* so that it has *fields*; return what changed, nothing if it had them."""
    fields = {name: value for name, value in fields.items() if entry.metadata.get(name) != value}
    if not fields:
        return []
    lane = store_namespace(namespace, CONVERSATION)
    context.store.patch({entry.id: patched(entry.metadata, fields)}, namespace=lane, expect={entry.id: entry.revision})
    hide(context, entry.id, fields, namespace)
    before = {name: entry.metadata.get(name) for name in fields}
    return [Change(entry.id, entry.revision, old=before, new=fields)]


def hide(context: WriteContext, id: str, new: Fields, namespace: str) -> None:
    """Let what hides a memory, or does no more, hold for its earlier versions too."""
    hiding = {name: new[name] for name in _OF_ALL_VERSIONS if name in new}
    if not hiding:
        return
    changed = {}
    for version in context.versions([id], namespace):
        fields = {name: value for name, value in hiding.items() if version.metadata.get(name) != value}
        if fields:
            changed[version.id] = patched(version.metadata, fields)
    if changed:
        context.store.patch(changed, namespace=store_namespace(namespace, ARCHIVE))


def patched(metadata: Metadata, fields: Fields) -> dict[str, Any]:
    """Return *metadata* with *fields*; None takes a field away."""
    return {name: value for name, value in {**metadata, **fields}.items() if name not in fields or value is not None}
