"""Values of the vector store: frozen, compared by content, safe to share between threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vector: TypeAlias = NDArray[np.float32]
VectorLike: TypeAlias = NDArray[Any] | Sequence[float]
Metadata: TypeAlias = Mapping[str, Any]
Filter: TypeAlias = Mapping[str, Any]
ProgressCallback: TypeAlias = Callable[[int], None]

_EMPTY_METADATA: Metadata = MappingProxyType({})


class Metric(StrEnum):
    """Measure of nearness. Higher is nearer for all three."""

    COSINE = "cosine"
    """Cosine of the angle, in [-1, 1]."""
    DOT = "dot"
    """Inner product, unbounded."""
    L2 = "l2"
    """Minus the Euclidean distance, in (-inf, 0]."""


class SearchMode(StrEnum):
    """Way in which ``search`` and a view's ``nearest`` find what is nearest; of the opened object, not of the file."""

    EXACT = "exact"
    """Every row is compared: the answer is the true one."""
    FAST = "fast"
    """Rows are first compared by one bit for each of many directions; those that share most are scored exactly.

    What holds: every score is the exact one; namespace, filter and threshold come before top-k, k is filled, ties go
    by id; rows that are equally near by their bits are in or out together. What is approximate: a row among the true
    k may be missing, and then the next best is in its place. How often is measured (``python -m benchmarks
    fast-search``), not promised, and may differ between two objects on one file.

    It is exact wherever the bits save nothing: under dot and L2 (bits know no lengths), for fewer than 10,000 rows
    that pass the filter, for a *k* above an eightieth of them, for vectors beyond the matrix limit, and in
    ``search_many``, which compares many questions at once.
    """


@dataclass(frozen=True, slots=True)
class Space:
    """Space of vectors: the model that made them, their dimension and their metric.

    *fingerprint* names the model and settings that made them; vectors of two fingerprints are never compared.
    *metric* may be given as its text ("dot"); an unknown one is refused by the store.
    """

    fingerprint: str
    dimension: int
    metric: Metric = Metric.COSINE

    if TYPE_CHECKING:

        def __init__(self, fingerprint: str, dimension: int, metric: Metric | str = ...) -> None: ...

    def __post_init__(self) -> None:
        if isinstance(self.metric, str) and self.metric in tuple(Metric):
            object.__setattr__(self, "metric", Metric(self.metric))

    def __str__(self) -> str:
        return f"{self.fingerprint} ({self.dimension} dimensions, {self.metric})"


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """Entry of a store: a text with its vector and metadata.

    *text* is what is returned; *context* (a date, a speaker, a title) is indexed with it and is not part of it.
    *vector* is given as any sequence or array of numbers and kept as float32. It may be missing: with a reason in
    *no_vector* it stays so, without one it is pending. What is no vector is kept as it is, for the store to refuse.
    *revision* is given by the store and ignored on writing; 0 means never stored.
    """

    id: str
    vector: Vector | None = None
    text: str = ""
    context: str = ""
    metadata: Metadata = field(default_factory=lambda: _EMPTY_METADATA)
    revision: int = 0
    no_vector: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            vector: VectorLike | None = None,
            text: str = "",
            context: str = "",
            metadata: Metadata = ...,
            revision: int = 0,
            no_vector: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.vector is not None and getattr(self.vector, "dtype", None) != np.float32:
            object.__setattr__(self, "vector", _as_float32(self.vector))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        if (self.vector is None) != (other.vector is None):
            return False
        same_vector = self.vector is None or np.array_equal(self.vector, np.asarray(other.vector))
        return same_vector and self._plain() == other._plain()

    def __hash__(self) -> int:
        return hash((self.id, self.revision, self.text))

    def _plain(self) -> tuple[object, ...]:
        return (self.id, self.text, self.context, dict(self.metadata), self.revision, self.no_vector)


def _as_float32(value: Any) -> Any:
    """Return a list or array of numbers that are finite in float32 as a float32 array, anything else as it is."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return value
    try:
        numbers = np.asarray(value)
    except ValueError:  # lists of several lengths
        return value
    if numbers.ndim != 1 or numbers.dtype.kind not in "fiu":
        return value
    with np.errstate(over="ignore"):
        vector = numbers.astype(np.float32)
    return vector if np.isfinite(vector).all() else value


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that was found, with its score; higher is nearer."""

    entry: Entry
    score: float


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a namespace's change log."""

    namespace: str
    position: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a namespace since a cursor.

    *written* and *removed* are ids, each named once, in its last state. *complete* is False when the log no
    longer reaches back that far (or no cursor was given): then scan, and go on from *cursor*.
    """

    written: tuple[str, ...]
    removed: tuple[str, ...]
    cursor: Cursor
    complete: bool


@dataclass(frozen=True, slots=True)
class Erasure:
    """Result of ``erase``: *removed* entries, and whether old bytes still wait for a reader to leave (*pending*)."""

    removed: int
    pending: bool


@dataclass(frozen=True, slots=True)
class Compaction:
    """Result of ``compact``: the bytes of the store's files *before* and *after*, both 0 where it has no file.

    *pending*: a reader keeps the file from shrinking; it will at a later commit, opening or closing.
    """

    before: int
    after: int
    pending: bool

    @property
    def freed(self) -> int:
        """The bytes given back."""
        return self.before - self.after


@dataclass(frozen=True, slots=True)
class SpaceMigration:
    """Progress of a second *space*: *filled* entries have a vector in it, *pending* ones, by namespace, block it."""

    space: Space
    filled: int
    pending: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """Fault that ``verify`` found: which *part*, *what*, and whose (*subject*: a table, an id)."""

    part: str
    what: str
    subject: str = ""

    def __str__(self) -> str:
        return f"{self.part}: {self.what}" + (f" ({self.subject})" if self.subject else "")


@dataclass(frozen=True, slots=True)
class SalvagedTable:
    """Rows of a damaged *table* that were *saved* and *lost*, and the *reasons* of the loss.

    *lost* is None where rows are missing and nothing tells how many.
    """

    table: str
    saved: int
    lost: int | None
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.lost == 0:
            return f"{self.table}: {self.saved} saved"
        lost = "an unknown number" if self.lost is None else self.lost
        return f"{self.table}: {self.saved} saved, {lost} lost ({'; '.join(self.reasons)})"


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """Result of a salvage: the new file (*path*), its *tables*, and what ``verify`` says of it (*findings*).

    Derived tables are made again in the new file and not counted.
    """

    path: str
    tables: tuple[SalvagedTable, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def whole(self) -> bool:
        """Return whether nothing is known to be lost."""
        return not self.findings and all(table.lost == 0 for table in self.tables)

    def saved(self, table: str) -> int:
        """Return how many rows of *table* were saved."""
        return sum(part.saved for part in self.tables if part.table == table)
