"""Parity: the same random operations on several stores side by side, and every answer compared.

``check_parity`` makes the stores anew, runs until two of them differ, then drops what the difference does not
need, and raises ``ParityError`` with the seed, both answers and the shortest run it found.

Operations are values, drawn from one seeded generator out of small pools of ids, words, whole-numbered vectors and
values, so that repeats, ties, conflicts and misses happen all the time.

Inner parts, on no face: ``tellback.vectorstore.types``, ``tellback.vectorstore.errors``,
``tellback.vectorstore.protocol``.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from tellback.vectorstore.errors import ArgumentError, VectorStoreError
from tellback.vectorstore.protocol import LifecycleStore, VectorStore
from tellback.vectorstore.types import Entry, Match, Space

OPERATION_IDS = (*"abcdefghij", "é", "\U0001f600", "A", "aa")
OPERATION_NAMESPACES = ("", "other")
OPERATION_WORDS = (
    *("zorb", "quil", "vexa", "morp", "tulk", "Zorb", "zorb.", "日本語", "snake_case", "running", "the", "3.52"),
)
METADATA_VALUES: tuple[Any, ...] = (
    *(0, 1, 1.0, 0.5, True, False, None, "x", "y", "", 2**63, 2**63 + 1, [1, "x"], ["y"], {"k": 1}),
)
METADATA_FIELDS = ("a", "b", "c.d")
SPACE_STEPS = {"begin_space": 3, "fill_rest": 6, "commit_space": 8, "abort_space": 1, "fill_space": 2, "unfilled": 2}
"""The relative frequency of each step of a space migration."""


@dataclass(frozen=True, slots=True)
class StoreOperation:
    """Call of a store; its *expect* holds offsets to the revisions that the entries have when it is made."""

    method: str
    options: dict[str, Any] = field(default_factory=dict)
    inside: tuple[StoreOperation, ...] = ()

    def __str__(self) -> str:
        arguments = [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.method}({', '.join([*arguments, *map(str, self.inside)])})"


class OperationGenerator:
    """Draws operations for stores of *space*; the same seed draws the same ones.

    *others*, which have its dimension, are filled beside it and switched to.
    """

    def __init__(self, seed: int, space: Space | None, others: Sequence[Space] = ()) -> None:
        self._rng = random.Random(seed)
        self._space = space
        self._others = tuple(others)
        chance, pick = self._rng.random, self._rng.choice
        self._draws: dict[str, Callable[[], Any]] = {
            "entries": lambda: tuple(self._entry() for _ in range(self._rng.randint(0, 6))),
            "metadata": lambda: {name: self._metadata() for name in self._ids()},
            "vectors": lambda: {name: self._vector() for name in self._ids()},
            "search_many.vectors": lambda: [self._vector() for _ in range(self._rng.randint(0, 3))],
            "ids": self._ids,
            "expect": lambda: {name: int(chance() < 0.15) for name in self._ids()} if chance() < 0.25 else None,
            "on_progress": lambda: None,
            "vector": self._vector,
            "query": lambda: self._text(3),
            "prefix": lambda: pick(["", "n", "a", "x/"]),
            "k": lambda: pick([0, 1, 2, 3, 5, 10, 10, 100, -1]),
            "where": lambda: self._filter() if chance() < 0.5 else None,
            # no score is likely to lie so near these that rounding would decide
            "min_score": lambda: pick([None, None, 0.1234567, -0.7654321, -2.3456789]),
            "after": lambda: pick([None, *OPERATION_IDS]),
            "embedded": lambda: pick([None, True, False]),
            "namespace": lambda: OPERATION_NAMESPACES[chance() < 0.2],
            "space": lambda: pick([self._space, *self._others]),
            "no_vector": lambda: {name: pick(["no words", "no words", ""]) for name in self._ids()[:2]},
        }

    def draw(self, count: int, *, transactions: bool = False, reopening: bool = False) -> list[StoreOperation]:
        """Return *count* operations, with blocks that commit or fail, and openings anew, if wanted."""
        return [self._operation(transactions, reopening) for _ in range(count)]

    def _operation(self, transactions: bool, reopening: bool) -> StoreOperation:
        if transactions and self._rng.random() < 0.06:
            fate = self._rng.choice(["commit", "abandon"])
            return StoreOperation(fate, inside=tuple(self._plain() for _ in range(self._rng.randint(1, 6))))
        if reopening and self._rng.random() < 0.02:
            return StoreOperation("reopen")
        return self._plain()

    def _plain(self) -> StoreOperation:
        writes = ["upsert", "upsert", "patch", "delete"]
        reads = ["get", "count", "scan", "search_text", "namespaces"]
        if self._space is not None:
            writes.append("put_vectors")
            reads += ["search", "search", "search_many"]
        if self._others and self._rng.random() < 0.3:
            (method,) = self._rng.choices(list(SPACE_STEPS), list(SPACE_STEPS.values()))
        else:
            method = self._rng.choice(writes if self._rng.random() < 0.45 else reads)
        if method == "fill_rest":
            return StoreOperation(method)
        parameters = list(inspect.signature(getattr(LifecycleStore, method)).parameters)[1:]
        draws = {name: self._draws.get(f"{method}.{name}", self._draws[name]) for name in parameters}
        return StoreOperation(method, {name: draw() for name, draw in draws.items()})

    def _ids(self) -> list[str]:
        return self._rng.choices(OPERATION_IDS, k=self._rng.randint(0, 4))

    def _entry(self) -> Entry:
        name = "" if self._rng.random() < 0.02 else self._rng.choice(OPERATION_IDS)
        vector = self._vector() if self._space is not None and self._rng.random() < 0.7 else None
        reason = "too long" if vector is None and self._rng.random() < 0.3 else None
        return Entry(name, vector, self._text(8), self._text(2), self._metadata(), 0, reason)

    def _text(self, longest: int) -> str:
        words = self._rng.choices(OPERATION_WORDS, k=self._rng.randint(0, longest))
        return self._rng.choice([" ", " ", ". ", "\n"]).join(words)

    def _vector(self) -> Any:
        size = self._space.dimension if self._space is not None else 1
        if self._rng.random() < 0.02:
            return self._rng.choice([[0.0] * size, [1.0] * (size + 1), [float("nan")] * size])
        if self._rng.random() < 0.25:
            return [self._rng.gauss(0, 1) for _ in range(size)]
        return [float(self._rng.randint(-2, 2)) for _ in range(size - 1)] + [float(self._rng.randint(1, 2))]

    def _metadata(self) -> dict[str, Any]:
        return {name: self._value() for name in METADATA_FIELDS if self._rng.random() < 0.6}

    def _value(self) -> Any:
        return self._rng.choice(METADATA_VALUES)

    def _filter(self, depth: int = 2) -> dict[str, Any]:
        shape = self._rng.random()
        if depth and shape < 0.3:
            inner = [self._filter(depth - 1) for _ in range(self._rng.randint(0, 3))]
            return {self._rng.choice(["$and", "$or"]): inner}
        if depth and shape < 0.4:
            return {"$not": self._filter(depth - 1)}
        name = self._rng.choice(METADATA_FIELDS)
        operator = self._rng.choice(["$eq", "$ne", "$in", "$nin", "$gt", "$lte", "$exists", "$contains", "$near"])
        operand: Any = self._value()
        if operator in ("$in", "$nin"):
            operand = [self._value() for _ in range(self._rng.randint(0, 3))]
        elif operator == "$exists":
            operand = self._rng.random() < 0.5
        elif operator in ("$gt", "$lte"):
            operand = self._rng.choice([0, 0.5, 1, "x", 2**63])
        if operator == "$near" and self._rng.random() < 0.9:  # an unknown operator, but seldom
            operator = "$eq"
        return {name: {operator: operand}}


Stores: TypeAlias = Mapping[str, VectorStore]
Reopen: TypeAlias = Callable[[str, VectorStore], VectorStore]


class ParityError(AssertionError):
    """Two stores gave different answers; *operations* is the shortest run that was found to show it."""

    def __init__(self, seed: int, operations: Sequence[StoreOperation], difference: str) -> None:
        self.seed = seed
        self.operations = tuple(operations)
        run = "\n".join(f"  {number}. {operation}" for number, operation in enumerate(operations, 1))
        super().__init__(f"seed {seed}: {difference}\nafter these operations:\n{run}")


class BlockAbandoned(Exception):
    """Raised inside a block to roll it back."""


def check_parity(
    make: Callable[[], Stores],
    *,
    seed: int,
    space: Space | None,
    steps: int = 200,
    tolerance: Mapping[str, float] | None = None,
    transactions: bool = False,
    spaces: Sequence[Space] = (),
    reopen: Reopen | None = None,
    shrink: int = 60,
) -> None:
    """Raise ``ParityError`` if stores that *make* returns (new and empty at each call) answer differently.

    Each is compared with the first. Scores must be equal, or for a store named in *tolerance* that near to
    the first's, relative to their size; nearly equal ones may then stand in another order. *transactions*
    draws blocks that commit or fail; *spaces*, which have the dimension of *space*, are filled beside it and
    switched to; *reopen* closes and opens the named store. *shrink*: how often to run again to shorten.
    """

    def difference_in(operations: Sequence[StoreOperation]) -> tuple[Sequence[StoreOperation], str] | None:
        return _first_difference(make, operations, tolerance or {}, reopen)

    generator = OperationGenerator(seed, space, spaces)
    found = difference_in(generator.draw(steps, transactions=transactions, reopening=reopen is not None))
    if found is None:
        return
    for size in (8, 4, 2, 1):
        for start in range(len(found[0]) - 1 - size, -1, -size):
            if shrink <= 0:
                break
            shrink -= 1
            found = difference_in([*found[0][:start], *found[0][start + size :]]) or found
    raise ParityError(seed, *found)


def _first_difference(
    make: Callable[[], Stores],
    operations: Sequence[StoreOperation],
    tolerance: Mapping[str, float],
    reopen: Reopen | None,
) -> tuple[Sequence[StoreOperation], str] | None:
    """Return the operations up to the first that two stores answer differently, and both answers."""
    stores = dict(make())
    try:
        for step, operation in enumerate(operations, 1):
            if operation.method == "reopen" and reopen is not None:
                stores = {name: reopen(name, store) for name, store in stores.items()}
            (first, expected), *others = ((name, _answer_of(store, operation)) for name, store in stores.items())
            for name, answer in others:
                if not _answers_alike(expected, answer, tolerance.get(name, 0.0)):
                    difference = f"{operation.method}: {first} answered {expected!r}, {name} answered {answer!r}"
                    return operations[:step], difference
        return None
    finally:
        for store in stores.values():
            store.close()


def _answer_of(store: VectorStore, operation: StoreOperation) -> Any:
    """Return what a call returned or raised, as plain values; of a block: of each call, and what was left."""
    if operation.method == "reopen":
        return _whole_store(store)
    if operation.method in ("commit", "abandon"):
        return _run_block(cast("LifecycleStore", store), operation)
    if operation.method == "fill_rest":
        return _fill_pending(cast("LifecycleStore", store))
    options = dict(operation.options)
    if offsets := options.get("expect"):
        entries = store.get(list(offsets), namespace=options["namespace"])
        revisions = [0 if entry is None else entry.revision for entry in entries]
        options["expect"] = {name: revision + offsets[name] for name, revision in zip(offsets, revisions, strict=True)}
    try:
        return _plain_answer(getattr(store, operation.method)(**options))
    except ArgumentError:  # which of two bad arguments is named first is free
        return ("raised", ArgumentError.__name__)
    except VectorStoreError as error:
        return ("raised", type(error).__name__)


def _run_block(store: LifecycleStore, operation: StoreOperation) -> Any:
    answers: list[Any] = []
    try:
        with store.transaction():
            answers += [_answer_of(store, inner) for inner in operation.inside]
            if operation.method == "abandon":
                raise BlockAbandoned
    except BlockAbandoned:
        answers.append("abandoned")
    return (*answers, _whole_store(store))


def _fill_pending(store: LifecycleStore) -> Any:
    """Fill in what is pending; the vector follows from the id."""
    filling = store.filling()
    if filling is None:
        return None
    rest = [1.0] * (filling.space.dimension - 1)
    written = []
    for name in OPERATION_NAMESPACES:
        ids = [entry.id for entry in store.unfilled(namespace=name)]
        vectors = {id: [float(ord(id[0]) % 7 - 3), *rest] for id in ids}
        written.append((ids, store.fill_space(filling.space, vectors, namespace=name)))
    migration = store.filling()
    assert migration is not None
    return (written, migration.filled, sorted(migration.pending.items()))


def _whole_store(store: VectorStore) -> Any:
    names, many = OPERATION_NAMESPACES, len(OPERATION_IDS)
    texts = [store.search_text("zorb quil 日本語", many, namespace=name) for name in names]
    return _plain_answer([store.namespaces(), *(store.scan(namespace=name) for name in names), *texts])


def _plain_answer(value: Any) -> Any:
    if isinstance(value, Entry):
        return (value, repr(sorted(value.metadata.items())))  # in which 1, 1.0 and true differ
    if value is None or isinstance(value, (int, str, Match)):
        return value
    return [_plain_answer(inner) for inner in value]


def _answers_alike(left: Any, right: Any, tolerance: float) -> bool:
    if type(left) is not type(right):
        return False
    if not isinstance(left, (list, tuple)):
        return bool(left == right)
    if len(left) != len(right):
        return False
    if left and isinstance(left[0], Match) and isinstance(right[0], Match):
        return _rankings_alike(left, right, tolerance)
    return all(_answers_alike(inner, other, tolerance) for inner, other in zip(left, right, strict=True))


def _rankings_alike(left: Sequence[Match], right: Sequence[Match], tolerance: float) -> bool:
    """Scores rank by rank, each entry with its own; one may replace another only at the last score."""

    def near(score: float, other: float) -> bool:
        return abs(score - other) <= tolerance * max(1.0, abs(score))

    if not all(near(match.score, other.score) for match, other in zip(left, right, strict=True)):
        return False
    if tolerance == 0.0:
        return bool(_plain_answer(match.entry for match in left) == _plain_answer(match.entry for match in right))
    left_matches, right_matches = ({match.entry.id: match for match in found} for found in (left, right))
    shared = left_matches.keys() & right_matches.keys()
    same = all(
        near(left_matches[name].score, right_matches[name].score)
        and _plain_answer(left_matches[name].entry) == _plain_answer(right_matches[name].entry)
        for name in shared
    )
    replaced = [found[name].score for found in (left_matches, right_matches) for name in found.keys() - shared]
    return same and all(near(score, left[-1].score) for score in replaced)
