"""Versions by number: a revision means something in its own file alone, so an export counts a memory's versions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory.lanes import ARCHIVE, store_namespace
from memory.records import Change
from memory.write.context import WriteContext


@dataclass(frozen=True, slots=True)
class Numbers:
    """The archived revisions of each memory that has some, in order; the first is version 1."""

    revisions: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, context: WriteContext, namespace: str) -> Numbers:
        """Return those of a namespace."""
        found: dict[str, list[int]] = {}
        for entry in context.store.scan(namespace=store_namespace(namespace, ARCHIVE)):
            owner, _, revision = entry.id.rpartition("@")
            found.setdefault(owner, []).append(int(revision))
        return cls({owner: sorted(revisions) for owner, revisions in found.items()})

    def owners(self) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield each memory with its archived revisions, in order."""
        for owner in sorted(self.revisions):
            yield owner, self.revisions[owner]

    def portable(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return a memory's fields with versions by number where they name one."""
        if "supersedes" in fields:
            fields["supersedes"] = self._named(fields["supersedes"])
        if "derived_from" in fields:
            fields["derived_from"] = [self._named(one) for one in fields["derived_from"]]
        return fields

    def changes(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Return *changes* with the number of the version that each found."""
        return tuple(
            one if one.before is None else replace(one, before=self._number(one.id, one.before)) for one in changes
        )

    def _named(self, reference: str) -> str:
        owner, at, revision = reference.rpartition("@")
        if not at or not revision.isdecimal() or int(revision) not in self.revisions.get(owner, ()):
            return reference
        return f"{owner}@{self._number(owner, int(revision))}"

    def _number(self, owner: str, revision: int) -> int:
        return bisect_left(self.revisions.get(owner, ()), revision) + 1
