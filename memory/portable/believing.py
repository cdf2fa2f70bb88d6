"""How far a file is believed: as far as the caller says, or as the memory knows it for its own."""

from __future__ import annotations

from memory.codec import from_entry
from memory.erasure.unreached import exports
from memory.errors import ArgumentError, NotTrusted
from memory.lanes import prefix_of
from memory.portable.reading import Checked
from memory.records import Actor, Trust
from memory.write.context import WriteContext
from memory.write.trust import check_may_change


def ceiling_of(context: WriteContext, checked: Checked, namespace: str, trust: Trust | None) -> Trust | None:
    """Return the most trust that anything in the file may have: what the caller says, else its own word if the
    memory itself recorded that it wrote this very file, else that of a document."""
    if trust is not None:
        return trust
    own = {change.new.get("hash") for one in exports(context, namespace) for change in one.changes}
    return None if checked.manifest.hash in own else Trust.DOCUMENT


def check_mode(mode: object, checked: Checked) -> None:
    """Refuse to replace everything by a part."""
    if mode == "replace" and checked.manifest.selection is not None:
        raise ArgumentError(
            "mode", mode, "merge or upsert: the file holds a selection, and would replace all that is here"
        )


def check_may_replace(context: WriteContext, namespace: str, actor: Actor) -> None:
    """Raise ``NotTrusted`` where a namespace holds what is trusted more than *actor*, who would replace all of it."""
    for lane in context.store.namespaces():
        if lane.startswith(prefix_of(namespace)):
            check_may_change(actor, map(from_entry, context.store.scan(namespace=lane)), "replace")
    for session in context.rows.sessions(namespace=namespace, limit=1):
        raise NotTrusted(session.session, "replace", actor, Trust.USER, "session")
