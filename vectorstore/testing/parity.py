"""Parity: the same random operations on several stores side by side, and every answer compared.

``check_parity`` makes the stores anew, runs until two of them differ, then drops what the difference does not
need, and raises ``ParityError`` with the seed, both answers and the shortest run it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from vectorstore.errors import ArgumentError, VectorStoreError
from vectorstore.protocol import VectorStore
from vectorstore.testing.operations import IDS, NAMESPACES, Operation, Operations
from vectorstore.types import Entry, Filling, Match, Space, VectorLike

Stores = Mapping[str, VectorStore]


class ParityError(AssertionError):
    """Two stores gave different answers; *operations* is the shortest run that was found to show it."""

    def __init__(self, seed: int, operations: Sequence[Operation], what: str) -> None:
        self.seed = seed
        self.operations = tuple(operations)
        run = "\n".join(f"  {number}. {operation}" for number, operation in enumerate(operations, 1))
        super().__init__(f"seed {seed}: {what}\nafter these operations:\n{run}")


class Abandoned(Exception):
    """Ends a block that shall never have been."""


@runtime_checkable
class Transacting(Protocol):
    """A store with transactions."""

    def transaction(self) -> AbstractContextManager[None]:
        """As ``LifecycleStore.transaction``."""
        ...


@runtime_checkable
class Filled(Protocol):
    """A store that fills a second space beside the one in use."""

    def filling(self) -> Filling | None:
        """As ``LifecycleStore.filling``."""
        ...

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``."""
        ...

    def fill_space(self, space: Space, vectors: Mapping[str, VectorLike], *, namespace: str = "") -> int:
        """As ``LifecycleStore.fill_space``."""
        ...


@dataclass(frozen=True, slots=True)
class _Rules:
    tolerance: Mapping[str, float]
    reopen: Callable[[str, VectorStore], VectorStore] | None


def check_parity(
    make: Callable[[], Stores],
    *,
    seed: int,
    space: Space | None,
    steps: int = 200,
    tolerance: Mapping[str, float] | None = None,
    transactions: bool = False,
    spaces: Sequence[Space] = (),
    reopen: Callable[[str, VectorStore], VectorStore] | None = None,
    shrink: int = 60,
) -> None:
    """Raise ``ParityError`` if stores that *make* returns (new and empty at each call) answer differently.

    Each is compared with the first. Scores must be equal, or for a store named in *tolerance* that near to
    the first's, relative to their size; nearly equal ones may then stand in another order. *transactions*
    draws blocks that commit or fail; *spaces*, which have the dimension of *space*, are filled beside it and
    switched to; *reopen* closes and opens the named store. *shrink*: how often to run again to shorten.
    """
    operations = Operations(seed, space, spaces).draw(steps, transactions=transactions, reopening=reopen is not None)
    rules = _Rules(tolerance or {}, reopen)
    found = _first_difference(make, operations, rules)
    if found is None:
        return
    shortest, what = operations[: found[0] + 1], found[1]
    for size in (8, 4, 2, 1):
        for start in range(len(shortest) - 1 - size, -1, -size):
            if shrink <= 0:
                break
            shrink -= 1
            shorter = [*shortest[:start], *shortest[start + size :]]
            if (again := _first_difference(make, shorter, rules)) is not None:
                shortest, what = shorter[: again[0] + 1], again[1]
    raise ParityError(seed, shortest, what)


def _first_difference(
    make: Callable[[], Stores], operations: Sequence[Operation], rules: _Rules
) -> tuple[int, str] | None:
    stores = dict(make())
    try:
        for step, operation in enumerate(operations):
            if (what := _differing(stores, operation, rules)) is not None:
                return step, what
        return None
    finally:
        for store in stores.values():
            store.close()


def _differing(stores: dict[str, VectorStore], operation: Operation, rules: _Rules) -> str | None:
    if operation.method == "reopen":
        assert rules.reopen is not None
        for name, store in stores.items():
            stores[name] = rules.reopen(name, store)
        return _compared({name: _whole(store) for name, store in stores.items()}, operation, rules)
    return _compared({name: _answer(store, operation) for name, store in stores.items()}, operation, rules)


def _compared(answers: Mapping[str, Any], operation: Operation, rules: _Rules) -> str | None:
    (first, expected), *others = answers.items()
    for name, answer in others:
        if not _alike(expected, answer, rules.tolerance.get(name, 0.0)):
            return f"{operation.method}: {first} answered {expected!r}, {name} answered {answer!r}"
    return None


def _answer(store: VectorStore, operation: Operation) -> Any:
    """What a call returned or raised, as plain values; of a block: of each call, and what was left."""
    if operation.method in ("commit", "abandon"):
        return _block(store, operation)
    if operation.method == "fill_rest":
        return _fill_rest(store, operation.arguments[0])
    options = dict(operation.options)
    if operation.expect is not None:
        held = store.get(list(operation.expect), namespace=options["namespace"])
        revisions = [0 if kept is None else kept.revision for kept in held]
        options["expect"] = {
            name: revision + offset
            for (name, offset), revision in zip(operation.expect.items(), revisions, strict=True)
        }
    try:
        return _plain(getattr(store, operation.method)(*operation.arguments, **options))
    except ArgumentError:  # which of two bad arguments is named first is free
        return ("raised", ArgumentError.__name__)
    except VectorStoreError as error:
        return ("raised", type(error).__name__)


def _block(store: VectorStore, operation: Operation) -> Any:
    assert isinstance(store, Transacting), "a run with transactions needs stores that have them"
    done: list[Any] = []
    try:
        with store.transaction():
            done += [_answer(store, inner) for inner in operation.inside]
            if operation.method == "abandon":
                raise Abandoned
    except Abandoned:
        done.append("abandoned")
    return (*done, _whole(store))


def _fill_rest(store: VectorStore, namespace: str) -> Any:
    """Fill in what is pending in a namespace; the vector follows from the id."""
    assert isinstance(store, Filled), "a run with several spaces needs stores that fill one beside another"
    filling = store.filling()
    if filling is None:
        return None
    width = filling.space.dimension
    vectors = {
        one.id: [float(ord(one.id[0]) % 7 - 3)] * (width - 1) + [1.0] for one in store.unfilled(namespace=namespace)
    }
    written = store.fill_space(filling.space, vectors, namespace=namespace)
    left = store.filling()
    assert left is not None
    return (sorted(vectors), written, left.filled, sorted(left.pending.items()))


def _whole(store: VectorStore) -> Any:
    scans = [_plain(store.scan(namespace=name)) for name in NAMESPACES]
    texts = [_plain(store.search_text("zorb quil 日本語", len(IDS), namespace=name)) for name in NAMESPACES]
    return (_plain(store.namespaces()), scans, texts)


def _plain(value: Any) -> Any:
    if isinstance(value, Entry):
        vector = None if value.vector is None else value.vector.tolist()
        return (
            "entry",
            value.id,
            vector,
            value.text,
            value.context,
            _typed(value.metadata),
            value.revision,
            value.no_vector,
        )
    if isinstance(value, Match):
        return Match(value.entry, value.score)
    if value is None or isinstance(value, (int, str)):
        return value
    return [_plain(inner) for inner in value]


def _typed(metadata: Mapping[str, Any]) -> str:
    """Metadata with 1, 1.0 and true told apart."""
    return repr(sorted(metadata.items()))


def _alike(left: Any, right: Any, tolerance: float) -> bool:
    if type(left) is not type(right):
        return False
    if not isinstance(left, (list, tuple)):
        return bool(left == right)
    if len(left) != len(right):
        return False
    if left and isinstance(left[0], Match) and isinstance(right[0], Match):
        return _ranked_alike(left, right, tolerance)
    return all(_alike(one, other, tolerance) for one, other in zip(left, right, strict=True))


def _ranked_alike(left: Sequence[Match], right: Sequence[Match], tolerance: float) -> bool:
    """Scores rank by rank, each entry with its own; one may replace another only at the last score."""

    def near(one: float, other: float) -> bool:
        return abs(one - other) <= tolerance * max(1.0, abs(one))

    if not all(near(one.score, other.score) for one, other in zip(left, right, strict=True)):
        return False
    if tolerance == 0.0:
        return [_plain(match.entry) for match in left] == [_plain(match.entry) for match in right]
    ours, theirs = ({match.entry.id: match for match in found} for found in (left, right))
    shared = ours.keys() & theirs.keys()
    same = all(
        near(ours[name].score, theirs[name].score) and _plain(ours[name].entry) == _plain(theirs[name].entry)
        for name in shared
    )
    replaced = [found[name].score for found in (ours, theirs) for name in found.keys() - shared]
    return same and all(near(score, left[-1].score) for score in replaced)
