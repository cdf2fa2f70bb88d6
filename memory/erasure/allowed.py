"""Who may forget what: memories and messages that are trusted more than who asks are left to others."""

from __future__ import annotations

from collections.abc import Iterable

from memory.codec import from_entry
from memory.message_metadata import TRUST
from memory.records import Actor, Memory, Trust
from memory.storage.rows import HistoryRow
from memory.write.trust import check_may_change, may_change
from vectorstore import Entry


def check_may_forget(
    actor: Actor, entries: Iterable[Entry], rows: Iterable[HistoryRow] = (), *, approved_by: Actor | None = None
) -> None:
    """Raise ``NotTrusted`` for the first of *entries* and messages (*rows*) that *actor* may not take away."""
    said = (Memory("", id=f"{row.sequence} of session {row.session}", trust=_trust_of(row)) for row in rows)
    check_may_change(actor, map(from_entry, entries), "forget", approved_by=approved_by)
    check_may_change(actor, said, "forget", approved_by=approved_by, what="message")


def is_owner(actor: Actor, approved_by: Actor | None) -> bool:
    """Whether *actor*, or who approved, may forget all that there is."""
    return may_change(actor, Memory("", trust=Trust.USER), approved_by=approved_by)


def _trust_of(row: HistoryRow) -> Trust:
    """Return how far a message is trusted: its role's word, or less where its metadata says so."""
    given = row.message.metadata.get(TRUST)
    return Trust.least([Trust.of(row.message.role), *(one for one in Trust if one == given)])
