"""What waits in a time of grace and goes with a later forgetting for good: what is named, or says the same."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from memory.erasure.copies import Words
from memory.forgotten.held import Package
from memory.lanes import ARCHIVE, lane_of
from memory.storage.rows import HistoryRow
from memory.write.context import WriteContext
from vectorstore import Entry


@dataclass(frozen=True, slots=True)
class Aside:
    """What goes of one *package*: entries by lane, and messages."""

    package: Package
    entries: tuple[tuple[str, Entry], ...]
    messages: tuple[HistoryRow, ...]

    def __len__(self) -> int:
        return len(self.entries) + len(self.messages)


def packages(context: WriteContext, namespace: str) -> Iterator[Package]:
    """Yield what is put aside of a user's *namespace*, the first due first."""
    for operation in context.held.of(namespace):
        if (package := context.held.get(namespace, operation)) is not None:
            yield package


def named_aside(context: WriteContext, ids: Collection[str], namespace: str) -> dict[str, list[Entry]]:
    """Return by id those of the memories *ids* that are put aside, with their versions."""
    found: dict[str, list[Entry]] = {}
    for package in packages(context, namespace) if ids else ():
        for lane, entry in package.entries:
            if (owner := owner_of(lane, entry)) in ids:
                found.setdefault(owner, []).append(entry)
    return found


def aside(context: WriteContext, ids: Collection[str], words: Words, namespace: str) -> list[Aside]:
    """Return what is put aside of the memories *ids*, and what holds *words*."""
    found = []
    for package in packages(context, namespace):
        entries = [one for one in package.entries if owner_of(*one) in ids or words.in_entry(one[1])]
        whole = {*ids, *(entry.id for lane, entry in entries if lane_of(lane)[1] != ARCHIVE)}
        messages = [row for row in package.messages if row.memory in whole or words.in_message(row.message)]
        if entries or messages:
            found.append(Aside(package, tuple(entries), tuple(messages)))
    return found


def let_go(context: WriteContext, gone: Collection[Aside], words: Words) -> int:
    """Erase what is *gone*; what else was put aside with it can still be taken back. Return how many things went."""
    for one in gone:
        package, entries = one.package, {(lane, entry.id) for lane, entry in one.entries}
        context.held.erase(package.namespace, package.operation)
        left = replace(
            package,
            entries=tuple(at for at in package.entries if (at[0], at[1].id) not in entries),
            messages=tuple(row for row in package.messages if row not in one.messages),
            words=tuple(text for text in package.words if not words.held_by(text)),
        )
        if left.entries or left.messages:
            context.held.put(left)
    return sum(len(one) for one in gone)


def owner_of(lane: str, entry: Entry) -> str:
    """Return the memory that *entry* is, or was a version of."""
    return entry.id.rpartition("@")[0] if lane_of(lane)[1] == ARCHIVE else entry.id
