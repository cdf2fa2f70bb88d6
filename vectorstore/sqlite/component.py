"""A component: one part's tables in the shared file, with its own migrations. It opens no connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import apsw

from vectorstore.types import Finding

Migration: TypeAlias = Callable[[apsw.Connection], None]
"""One step of a schema, named ``m001_…``; it runs inside a write transaction; never edited once released."""


class Component(Protocol):
    """What a database needs to know of a part that keeps tables in it.

    Its tables are its own; no other component reads or writes them. The connections handed in are inside a
    transaction of the database's: a component neither commits nor rolls back.
    """

    @property
    def name(self) -> str:
        """How the file names this part; never changed."""
        ...

    @property
    def migrations(self) -> Sequence[Migration]:
        """Every step from nothing to the present schema; the version of the part is how many ran."""
        ...

    def verify(self, connection: apsw.Connection) -> list[Finding]:
        """Compare the part's own tables with themselves; an empty list means all is well."""
        ...

    def rebuild(self, connection: apsw.Connection) -> None:
        """Make the derived tables again from the rows."""
        ...

    def salvage(self, source: apsw.Connection, target: apsw.Connection) -> int:
        """Copy every readable row of *source* into *target*, whose tables are new; return how many."""
        ...
