"""Adapter of a store in the race: rows in, rows out, through one small protocol.

Imported by processes whose start is measured: nothing heavy stands here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Row(NamedTuple):
    """One row as it is written: a unit vector, a text, and metadata with the field ``kind`` that is filtered on."""

    id: str
    vector: NDArray[np.float32]
    text: str
    metadata: dict[str, Any]


class Found(NamedTuple):
    """One row of an answer; *text* and *metadata* are None where the store returns ids alone."""

    id: str
    score: float
    text: str | None = None
    metadata: dict[str, Any] | None = None


class Adapter:
    """A store on the folder that its constructor is given; opening a folder again finds what was closed there.

    What a call returns is the store's own answer, with text and metadata in it; ``plain`` turns it, unmeasured, into
    rows that can be compared. Scores are higher for what is nearer. What a store cannot do raises.
    """

    batch: ClassVar[int]
    """Rows of one ``add`` in bulk; each call is durable by itself, where the store can."""
    imports: ClassVar[tuple[str, ...]]
    """Modules whose own memory is not counted as the store's."""

    def __init__(self, folder: Path, dimension: int, rows: int) -> None:
        """Open or make the store for about *rows* rows."""
        raise NotImplementedError

    def add(self, rows: Sequence[Row]) -> None:
        """Write rows whose ids are new."""
        raise NotImplementedError

    def finish(self) -> None:
        """Build the indexes that are built after a bulk."""

    def search(self, vector: NDArray[np.float32], k: int, kind: str | None = None) -> Any:
        """Return the k nearest, of one kind if it is given."""
        raise NotImplementedError

    def search_many(self, vectors: NDArray[np.float32], k: int) -> Sequence[Any]:
        """Return the answer for each of *vectors*, by the store's own bulk call."""
        raise NotImplementedError

    def search_text(self, words: str, k: int) -> Any:
        """Return the k best rows that have any of *words*."""
        raise NotImplementedError

    def delete(self, ids: Sequence[str]) -> None:
        """Remove rows."""
        raise NotImplementedError

    def plain(self, answer: Any) -> list[Found]:
        """Return the answer as rows."""
        raise NotImplementedError

    def close(self) -> None:
        """Release the store; one in memory writes its file now."""
