"""What a loader is. Finding files, their names and their safe reading are not its concern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a loader made of a file's bytes; the fields mean what they mean in ``Document``. No title: ""."""

    text: str
    title: str = ""
    body: int = 0
    pages: tuple[tuple[int, int], ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Loader(Protocol):
    """Reads one format. *name* carries a version, raised when equal bytes come to give another text."""

    @property
    def name(self) -> str:
        """Name and version, for the content hash."""
        ...

    @property
    def media_type(self) -> str:
        """The format."""
        ...

    def load(self, data: bytes, source: str) -> Loaded:
        """Return the text of *data*; what cannot be read raises ``LoadError`` naming *source*.

        Deterministic, thread safe, without side effects; line ends come back as single newlines.
        """
        ...
