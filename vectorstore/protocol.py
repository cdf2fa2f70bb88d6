"""Contracts of a vector store: two synchronous, batch-first protocols and their exact meaning.

``VectorStore`` is the data; every backend has all of it. ``LifecycleStore`` adds what a memory that lasts needs. Upper
layers use nothing of a store that is not declared here; a wrapper forwards all of it.
The suites in ``tellback.vectorstore.testing`` prove each sentence below on any implementation. It is one file, longer
than others, so that a contract is read in one place.

Rules that hold for every method:

- *Names.* An id or a namespace is any text of at most 1,024 characters without NUL and without lone surrogates;
  an id is not empty. Both are compared exactly, never folded. Metadata is a JSON object of finite numbers, at most
  100 levels deep.
- *Namespaces.* An unknown one is empty. No call, count or statistic sees two.
- *Errors.* A bad argument raises ``ArgumentError`` before anything of its batch is written.
- *Values.* Nothing that goes in or comes out shares memory with the store.
- *State.* One call sees one state. Any thread may call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.database import Database
from tellback.vectorstore.types import (
    Changes,
    Compaction,
    Cursor,
    Entry,
    Erasure,
    Filter,
    Finding,
    Match,
    Metadata,
    ProgressCallback,
    Space,
    SpaceMigration,
    VectorLike,
)


@runtime_checkable
class VectorStore(Protocol):
    """Ids, vectors, text and metadata in; the nearest out."""

    @property
    def space(self) -> Space | None:
        """The space of its vectors; None while it has none yet (entries are then text only)."""

    def upsert(
        self,
        entries: Iterable[Entry],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> int:
        """Write *entries*, replacing those whose id exists; return how many distinct writes were made.

        A batch of up to 1,000 entries is one transaction; a longer iterable commits every 1,000 in bounded
        memory and calls ``on_progress(total so far)`` after each. An id repeated in a batch: the last wins.
        Vectors are converted to float32 (from lists, float64, integers); NaN, infinity (also after conversion),
        a wrong dimension, or a vector without length under cosine raises. *expect* maps ids to the revision they
        must have (0: must not exist), else ``RevisionConflict``. An entry without a vector, written over one
        that has, loses it. Where the store was switched to another space by somebody else, vectors are refused
        (``SpaceChanged``, here and in every call that takes one: see ``LifecycleStore.commit_space``).
        """

    def patch(
        self, metadata: Mapping[str, Metadata], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """Replace the whole metadata of the entries named; text, context, vector and terms stay.

        A missing id is not an error and not counted (named in *expect* with a revision, it conflicts).
        """

    def put_vectors(
        self, vectors: Mapping[str, VectorLike], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """Give entries their vector; the revision stays. A missing id is not counted; *no_vector* is cleared."""

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """Return the entries in the order of *ids*, None where there is none; vectors float32 as given."""

    def search(
        self,
        vector: VectorLike,
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[Match]:
        """Return the *k* nearest entries that have a vector: best score first, ties by id.

        Namespace, then filter, then *min_score* (an equal score stays), then top-k: a selective filter still
        fills k. Exact, unless the store was opened to search otherwise (``SearchMode``), or an approximate index was
        built for the namespace. *k* of 0 gives nothing,
        beyond the count gives all; negative or bool raises. Without a space nothing can be nearest: a query
        vector then raises ``ArgumentError``.
        """

    def search_many(
        self,
        vectors: Sequence[VectorLike] | NDArray[np.float32],
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[list[Match]]:
        """``search`` for each of *vectors* (shape (n, dimension)), with the same answers, in bulk; always exact."""

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        """Return the *k* best by BM25 over text and context, statistics of this namespace alone.

        Only entries that share a term with *query* are found; ties by id. Any string is a safe question.
        Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009, with the idf
        ln(1 + (N - df + .5) / (df + .5)).
        """

    def delete(self, ids: Iterable[str] = (), *, where: Filter | None = None, namespace: str = "") -> int:
        """Remove entries; return how many were there.

        Ids and a filter together mean those ids that also match. Neither ids nor a non-empty filter raises
        (no ids given at all, or an empty iterable without a filter).
        """

    def count(self, *, where: Filter | None = None, namespace: str = "") -> int:
        """Return how many entries there are (that match)."""

    def scan(
        self,
        *,
        where: Filter | None = None,
        namespace: str = "",
        after: str | None = None,
        embedded: bool | None = None,
    ) -> Iterator[Entry]:
        """Yield entries in order of id, those after the id *after*; pages in short transactions, no snapshot.

        *embedded*: True only those with a vector, False only the pending (no vector and no reason for none).
        """

    def namespaces(self, *, prefix: str = "") -> list[str]:
        """Return the namespaces that have entries and begin with *prefix*, sorted."""

    def close(self) -> None:
        """Release everything; closing twice is harmless, any other call afterwards raises ``StoreClosed``."""


class View(Protocol):
    """State of several namespaces at one moment, read as often as wanted until the ``with`` block ends.

    It belongs to the thread that opened it, and that thread writes nothing while it is open.
    """

    def search(
        self, vector: VectorLike, k: int = 10, *, where: Filter | None = None, namespace: str = ""
    ) -> list[Match]:
        """As ``VectorStore.search``."""

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        """As ``VectorStore.search_text``."""

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``VectorStore.get``."""

    def nearest(
        self, vector: VectorLike, n: int, *, where: Filter | None = None, namespace: str = ""
    ) -> list[tuple[str, float]]:
        """Ids and scores of the *n* nearest, best first: ``search`` without fetching rows."""

    def matching(
        self, query: str, n: int, *, where: Filter | None = None, namespace: str = ""
    ) -> list[tuple[str, float]]:
        """Ids and BM25 scores of the *n* best: ``search_text`` without fetching rows."""

    def similarity(self, vector: VectorLike, ids: Sequence[str], *, namespace: str = "") -> NDArray[np.float64]:
        """Scores of *ids* against *vector*, shape (len(ids),); NaN where an entry is missing or has no vector."""

    def score_text(self, query: str, ids: Sequence[str], *, namespace: str = "") -> NDArray[np.float64]:
        """BM25 of *ids* for *query*, shape (len(ids),); 0 where nothing matches or the entry is missing."""

    def passing(self, ids: Sequence[str], *, where: Filter | None = None, namespace: str = "") -> NDArray[np.bool_]:
        """Return which of *ids* exist and match *where*, shape (len(ids),)."""

    def terms(self, ids: Sequence[str], *, namespace: str = "") -> list[tuple[tuple[str, ...], ...]]:
        """The terms of each entry in order with repeats: first its context, then each sentence of its text."""

    def df(self, terms: Sequence[str], *, namespace: str = "") -> list[int]:
        """Return in how many entries of the namespace each term occurs."""

    def vocabulary(self, *, namespace: str = "") -> Mapping[str, int]:
        """Every term of the namespace with its document frequency."""

    def count(self, *, namespace: str = "") -> int:
        """Return how many entries the namespace has."""

    def in_memory(self, *, namespace: str = "") -> bool:
        """Return whether the namespace is searched in the memory of the process.

        Where it is not, since it is too large for that, to walk all of its entries is not cheap.
        """

    def cursor(self, *, namespace: str = "") -> Cursor:
        """Return where the namespace's change log ends in this state."""


@runtime_checkable
class LifecycleStore(VectorStore, Protocol):
    """A store that a memory can live in for years. What a data-only store lacks is refused by name.

    ``lifecycle_of(store)`` answers whether a store is one; of a wrapper, whether the store inside is.
    """

    @property
    def database(self) -> Database | None:
        """The database beside the entries, for components that keep tables in it; None where there is none.

        What is written to it inside ``transaction()`` commits with the entries or not at all, and so do entries that
        are written inside its ``write()``.
        """

    @property
    def analyzer(self) -> Analyzer:
        """Analyzer that makes terms of texts and questions; it is recorded with the entries."""

    def recorded_space(self) -> Space | None:
        """Return the space of the vectors now, whichever object switched it (``commit_space``); None without one.

        It differs from ``space`` after another object has switched the store: vectors are then refused here until
        ``set_space`` is called with it. Inside a transaction it is the space as the transaction sees it.
        """

    def changes(self, since: Cursor | None = None, *, namespace: str = "") -> Changes:
        """Return what was written or removed since *since*; ``complete=False`` when the log does not reach back."""

    def view(self, namespaces: Sequence[str]) -> AbstractContextManager[View]:
        """Open one state of *namespaces*; asking it for another namespace raises ``ArgumentError``."""

    def transaction(self, *, lock: str | None = None) -> AbstractContextManager[None]:
        """Calls inside, by this thread and in any namespace, commit together at its end or not at all.

        Reads inside see its own writes. Transactions nest: the outermost commits. *lock* as of ``Database.write``.
        """

    def set_space(self, space: Space) -> None:
        """Record the space of a store that has none yet; the same again is harmless, another raises."""

    def begin_space(self, space: Space) -> None:
        """Begin to fill a second space beside the one in use, to be switched to by ``commit_space``.

        Until then everything goes on in the space in use: the vectors that other calls take, find and return
        are of that one. What was filled lasts as entries do, across restarts too. The same space again is
        harmless: that is how filling is resumed. Another one while a space is being filled raises
        ``SpaceNotReady``; the space in use, or a store that has no space yet (``set_space``), raises
        ``ArgumentError``.

        In the second space an entry has a vector, a reason for none, or neither. An entry with neither is
        *pending*, unless it has a reason in *no_vector*: that holds for the second space too. ``upsert`` makes an
        entry of it that has neither, whatever it had there, since its text may be another; ``patch`` and
        ``put_vectors`` leave what it has there; ``delete`` and ``erase`` remove it from both spaces.
        """

    def filling(self) -> SpaceMigration | None:
        """The second space with how many entries have a vector in it and how many are pending, by namespace.

        None where no space is being filled. It counts over the whole store.
        """

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """Yield the entries that are pending in the second space, as ``scan`` does: by id, in pages.

        Their vectors are those of the space in use. Raises ``SpaceNotReady`` where no space is being filled.
        """

    def fill_space(
        self,
        space: Space,
        vectors: Mapping[str, VectorLike],
        *,
        no_vector: Mapping[str, str] | None = None,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
    ) -> int:
        """Give entries their vector in the second space, or in *no_vector* the reason for none; return how many.

        *space* must be the one that is being filled, else ``SpaceNotReady``: another process may have ended it,
        or begun another. A later vector or reason replaces an earlier one; an id in both raises; a missing id is
        not counted. The revision stays and ``changes`` does not name it. Vectors are checked as in ``upsert``.
        *expect* as in ``put_vectors``: with it, a vector made from a text that was corrected meanwhile is refused.
        """

    def commit_space(self, space: Space) -> None:
        """Switch to the second space, in one step; the vectors of the space in use until now are removed.

        *space* must be the one that is being filled, and nothing may be pending in it (a reason for none is not
        pending), else ``SpaceNotReady`` with what is pending. Each entry then has the vector, or the reason in
        *no_vector*, that it was given there; a reason from before remains where nothing was given. Revisions
        stay; since every vector is another, ``changes`` after an earlier cursor is incomplete in each namespace.

        *space* of this object is then the new one. Another object, here or in another process, that has the
        store open keeps the *space* it knew: a call that gives it a vector (to write or to search for) raises
        ``SpaceChanged``, before anything is written, since nothing says of which space that vector is; all
        other calls go on, and what they return has vectors of the new space. To go on there, open the store
        again; ``set_space`` with the new space does the same.
        """

    def abort_space(self) -> None:
        """Drop the second space with all that was filled, in one step; harmless where none is being filled."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The metadata fields that are declared: kept as columns, so that filters on them are fast."""

    def declare_fields(self, fields: Sequence[str]) -> None:
        """Declare *fields* instead of those declared so far; what a filter answers is the same either way.

        It is recorded as if the store had been made with them. Another object that has the store open uses them
        when it is opened again. Names that are no text, or given twice, raise ``ArgumentError``.
        """

    def erase(self, ids: Iterable[str], *, namespace: str = "") -> Erasure:
        """``delete`` that also sees to the bytes: terms that nothing uses any more go, freed pages are zeroed,
        the write-ahead log is truncated, or marked pending and tried again at each commit, idle, open and close."""

    def pending_erasure(self) -> bool:
        """Return whether erased bytes may still be in a file of the store."""

    def verify(self) -> list[Finding]:
        """Compare rows, checksums, tallies and derived data; an empty list means all is well."""

    def compact(self) -> Compaction:
        """Give unused room back: free pages of the file, terms that no entry has, the longer part of the change log.

        Nothing that can be asked for is changed by it, but that ``changes`` may no longer reach back to an old
        cursor, and says so. A crash leaves the store as it was. It takes as long as writing everything anew, and as
        much memory and free disk as what is left. Inside a transaction it raises ``UnsupportedError``; while
        somebody reads for longer than a moment, or writes, ``BusyError``, and nothing was done.
        """

    def backup(self, path: str) -> None:
        """Write a complete copy to *path*, which must not exist, while others go on reading and writing."""
