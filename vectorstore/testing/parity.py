"""Parity: the same random operations on several stores side by side, and every answer compared.

``check_parity`` makes the stores anew, runs until two of them differ, then drops what the difference does not
need, and raises ``ParityError`` with the seed, both answers and the shortest run it found.

Operations are values, drawn from one seeded generator out of small pools of ids, words, whole-numbered vectors and
values, so that repeats, ties, conflicts and misses happen all the time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from vectorstore.errors import ArgumentError, VectorStoreError
from vectorstore.protocol import VectorStore
from vectorstore.types import Entry, Match, Space, SpaceMigration, VectorLike

OPERATION_IDS = (*"abcdefghij", "é", "\U0001f600", "A", "aa")
OPERATION_NAMESPACES = ("", "other")
OPERATION_WORDS = (
    "zorb",
    "quil",
    "vexa",
    "morp",
    "tulk",
    "Zorb",
    "zorb.",
    "日本語",
    "snake_case",
    "running",
    "the",
    "3.52",
)
METADATA_VALUES: tuple[Any, ...] = (
    0,
    1,
    1.0,
    True,
    False,
    None,
    "x",
    "y",
    "",
    2**63,
    2**63 + 1,
    0.5,
    [1, "x"],
    ["y"],
    {"k": 1},
)
METADATA_FIELDS = ("a", "b", "c.d")


@dataclass(frozen=True, slots=True)
class StoreOperation:
    """Call of a store; *expect* holds offsets to the revisions that the entries have when it is made."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    expect: dict[str, int] | None = None
    inside: tuple[StoreOperation, ...] = ()

    def __str__(self) -> str:
        arguments = [repr(argument) for argument in self.arguments]
        arguments += [f"{name}={value!r}" for name, value in self.options.items()]
        arguments += [f"expect=revisions + {self.expect}"] if self.expect is not None else []
        arguments += [str(operation) for operation in self.inside]
        return f"{self.method}({', '.join(arguments)})"


class OperationGenerator:
    """Draws operations for stores of *space*; the same seed draws the same ones.

    *others*, which have its dimension, are filled beside it and switched to.
    """

    def __init__(self, seed: int, space: Space | None, others: Sequence[Space] = ()) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - a repeatable draw, no secret
        self._space = space
        self._others = tuple(others)

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
        writes: list[Callable[[], StoreOperation]] = [self._upsert, self._upsert, self._patch, self._delete]
        reads = [self._get, self._count, self._scan, self._search_text, lambda: StoreOperation("namespaces")]
        if self._space is not None:
            writes.append(self._put_vectors)
            reads += [self._search, self._search, self._search_many]
        if self._others and self._rng.random() < 0.3:
            return self._second_space()
        return self._rng.choice(writes if self._rng.random() < 0.45 else reads)()

    def _second_space(self) -> StoreOperation:
        space, draw = self._rng.choice([self._space, *self._others]), self._rng.random()
        if draw < 0.25:
            return StoreOperation("begin_space", (space,))
        if draw < 0.45:
            return StoreOperation("fill_rest", (self._rng.choice(OPERATION_NAMESPACES),))
        if draw < 0.65:
            return StoreOperation("commit_space", (space,))
        if draw < 0.7:
            return StoreOperation("abort_space")
        if draw < 0.85:
            reasons = {name: self._rng.choice(["no words", "no words", ""]) for name in self._ids()}
            vectors = {name: self._vector() for name in self._ids() if name not in reasons}
            options: dict[str, Any] = {"no_vector": reasons, **self._namespace()}
            return StoreOperation("fill_space", (space, vectors), options, self._expect())
        return StoreOperation("unfilled", (), {**self._namespace(), "after": self._rng.choice([None, *OPERATION_IDS])})

    def _upsert(self) -> StoreOperation:
        entries = tuple(self._entry() for _ in range(self._rng.randint(0, 6)))
        return StoreOperation("upsert", (entries,), self._namespace(), self._expect())

    def _patch(self) -> StoreOperation:
        return StoreOperation(
            "patch", ({name: self._metadata() for name in self._ids()},), self._namespace(), self._expect()
        )

    def _put_vectors(self) -> StoreOperation:
        vectors = {name: self._vector() for name in self._ids()}
        return StoreOperation("put_vectors", (vectors,), self._namespace(), self._expect())

    def _delete(self) -> StoreOperation:
        by_filter = {"where": self._filter()} if self._rng.random() < 0.3 else {}
        return StoreOperation("delete", (self._ids(),), {**by_filter, **self._namespace()})

    def _get(self) -> StoreOperation:
        return StoreOperation("get", (self._ids(),), self._namespace())

    def _count(self) -> StoreOperation:
        return StoreOperation("count", (), self._asked())

    def _scan(self) -> StoreOperation:
        chosen = {"after": self._rng.choice([None, *OPERATION_IDS]), "embedded": self._rng.choice([None, True, False])}
        return StoreOperation("scan", (), {**chosen, **self._asked()})

    def _search(self) -> StoreOperation:
        return StoreOperation("search", (self._vector(), self._k()), {**self._min_score(), **self._asked()})

    def _search_many(self) -> StoreOperation:
        vectors = [self._vector() for _ in range(self._rng.randint(0, 3))]
        return StoreOperation("search_many", (vectors, self._k()), {**self._min_score(), **self._asked()})

    def _search_text(self) -> StoreOperation:
        return StoreOperation("search_text", (self._text(3), self._k()), self._asked())

    def _asked(self) -> dict[str, Any]:
        return {"where": self._filter() if self._rng.random() < 0.5 else None, **self._namespace()}

    def _min_score(self) -> dict[str, Any]:
        # no score is likely to lie so near these that rounding would decide
        return {"min_score": self._rng.choice([None, None, 0.1234567, -0.7654321, -2.3456789])}

    def _namespace(self) -> dict[str, Any]:
        return {"namespace": OPERATION_NAMESPACES[self._rng.random() < 0.2]}

    def _expect(self) -> dict[str, int] | None:
        if self._rng.random() < 0.75:
            return None
        return {name: int(self._rng.random() < 0.15) for name in self._ids()}

    def _ids(self) -> list[str]:
        return self._rng.choices(OPERATION_IDS, k=self._rng.randint(0, 4))

    def _k(self) -> int:
        return self._rng.choice([0, 1, 2, 3, 5, 10, 10, 100, -1])

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

    def _values(self) -> Sequence[Any]:
        return [self._value() for _ in range(self._rng.randint(0, 3))]

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
            operand = self._values()
        elif operator == "$exists":
            operand = self._rng.random() < 0.5
        elif operator in ("$gt", "$lte"):
            operand = self._rng.choice([0, 0.5, 1, "x", 2**63])
        if operator == "$near" and self._rng.random() < 0.9:  # an unknown operator, but seldom
            operator = "$eq"
        return {name: {operator: operand}}


Stores = Mapping[str, VectorStore]


class ParityError(AssertionError):
    """Two stores gave different answers; *operations* is the shortest run that was found to show it."""

    def __init__(self, seed: int, operations: Sequence[StoreOperation], difference: str) -> None:
        self.seed = seed
        self.operations = tuple(operations)
        run = "\n".join(f"  {number}. {operation}" for number, operation in enumerate(operations, 1))
        super().__init__(f"seed {seed}: {difference}\nafter these operations:\n{run}")


class BlockAbandoned(Exception):
    """Ends a block that shall never have been."""


@runtime_checkable
class TransactionalStore(Protocol):
    """A store with transactions."""

    def transaction(self) -> AbstractContextManager[None]:
        """As ``LifecycleStore.transaction``."""
        ...


@runtime_checkable
class MigratingStore(Protocol):
    """A store that fills a second space beside the one in use."""

    def filling(self) -> SpaceMigration | None:
        """As ``LifecycleStore.filling``."""
        ...

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``."""
        ...

    def fill_space(self, space: Space, vectors: Mapping[str, VectorLike], *, namespace: str = "") -> int:
        """As ``LifecycleStore.fill_space``."""
        ...


@dataclass(frozen=True, slots=True)
class _ParityRules:
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
    operations = OperationGenerator(seed, space, spaces).draw(
        steps, transactions=transactions, reopening=reopen is not None
    )
    rules = _ParityRules(tolerance or {}, reopen)
    found = _first_difference(make, operations, rules)
    if found is None:
        return
    shortest, difference = operations[: found[0] + 1], found[1]
    for size in (8, 4, 2, 1):
        for start in range(len(shortest) - 1 - size, -1, -size):
            if shrink <= 0:
                break
            shrink -= 1
            shorter = [*shortest[:start], *shortest[start + size :]]
            if (difference_again := _first_difference(make, shorter, rules)) is not None:
                shortest, difference = shorter[: difference_again[0] + 1], difference_again[1]
    raise ParityError(seed, shortest, difference)


def _first_difference(
    make: Callable[[], Stores], operations: Sequence[StoreOperation], rules: _ParityRules
) -> tuple[int, str] | None:
    stores = dict(make())
    try:
        for step, operation in enumerate(operations):
            if (difference := _difference_after(stores, operation, rules)) is not None:
                return step, difference
        return None
    finally:
        for store in stores.values():
            store.close()


def _difference_after(stores: dict[str, VectorStore], operation: StoreOperation, rules: _ParityRules) -> str | None:
    if operation.method == "reopen":
        assert rules.reopen is not None
        for name, store in stores.items():
            stores[name] = rules.reopen(name, store)
        return _compare_answers({name: _whole_store(store) for name, store in stores.items()}, operation, rules)
    return _compare_answers({name: _answer_of(store, operation) for name, store in stores.items()}, operation, rules)


def _compare_answers(answers: Mapping[str, Any], operation: StoreOperation, rules: _ParityRules) -> str | None:
    (first, expected), *others = answers.items()
    for name, answer in others:
        if not _answers_alike(expected, answer, rules.tolerance.get(name, 0.0)):
            return f"{operation.method}: {first} answered {expected!r}, {name} answered {answer!r}"
    return None


def _answer_of(store: VectorStore, operation: StoreOperation) -> Any:
    """Return what a call returned or raised, as plain values; of a block: of each call, and what was left."""
    if operation.method in ("commit", "abandon"):
        return _run_block(store, operation)
    if operation.method == "fill_rest":
        return _fill_pending(store, operation.arguments[0])
    options = dict(operation.options)
    if operation.expect is not None:
        entries = store.get(list(operation.expect), namespace=options["namespace"])
        revisions = [0 if entry is None else entry.revision for entry in entries]
        options["expect"] = {
            name: revision + offset
            for (name, offset), revision in zip(operation.expect.items(), revisions, strict=True)
        }
    try:
        return _plain_answer(getattr(store, operation.method)(*operation.arguments, **options))
    except ArgumentError:  # which of two bad arguments is named first is free
        return ("raised", ArgumentError.__name__)
    except VectorStoreError as error:
        return ("raised", type(error).__name__)


def _run_block(store: VectorStore, operation: StoreOperation) -> Any:
    assert isinstance(store, TransactionalStore), "a run with transactions needs stores that have them"
    answers: list[Any] = []
    try:
        with store.transaction():
            answers += [_answer_of(store, inner) for inner in operation.inside]
            if operation.method == "abandon":
                raise BlockAbandoned
    except BlockAbandoned:
        answers.append("abandoned")
    return (*answers, _whole_store(store))


def _fill_pending(store: VectorStore, namespace: str) -> Any:
    """Fill in what is pending in a namespace; the vector follows from the id."""
    assert isinstance(store, MigratingStore), "a run with several spaces needs stores that fill one beside another"
    filling = store.filling()
    if filling is None:
        return None
    width = filling.space.dimension
    vectors = {
        entry.id: [float(ord(entry.id[0]) % 7 - 3)] * (width - 1) + [1.0]
        for entry in store.unfilled(namespace=namespace)
    }
    written = store.fill_space(filling.space, vectors, namespace=namespace)
    migration = store.filling()
    assert migration is not None
    return (sorted(vectors), written, migration.filled, sorted(migration.pending.items()))


def _whole_store(store: VectorStore) -> Any:
    scans = [_plain_answer(store.scan(namespace=name)) for name in OPERATION_NAMESPACES]
    texts = [
        _plain_answer(store.search_text("zorb quil 日本語", len(OPERATION_IDS), namespace=name))
        for name in OPERATION_NAMESPACES
    ]
    return (_plain_answer(store.namespaces()), scans, texts)


def _plain_answer(value: Any) -> Any:
    if isinstance(value, Entry):
        vector = None if value.vector is None else value.vector.tolist()
        return (
            "entry",
            value.id,
            vector,
            value.text,
            value.context,
            _typed_metadata(value.metadata),
            value.revision,
            value.no_vector,
        )
    if isinstance(value, Match):
        return Match(value.entry, value.score)
    if value is None or isinstance(value, (int, str)):
        return value
    return [_plain_answer(inner) for inner in value]


def _typed_metadata(metadata: Mapping[str, Any]) -> str:
    """Metadata in which 1, 1.0 and true differ."""
    return repr(sorted(metadata.items()))


def _answers_alike(left: Any, right: Any, tolerance: float) -> bool:
    if type(left) is not type(right):
        return False
    if not isinstance(left, (list, tuple)):
        return bool(left == right)
    if len(left) != len(right):
        return False
    if left and isinstance(left[0], Match) and isinstance(right[0], Match):
        return _rankings_alike(left, right, tolerance)
    return all(_answers_alike(one, other, tolerance) for one, other in zip(left, right, strict=True))


def _rankings_alike(left: Sequence[Match], right: Sequence[Match], tolerance: float) -> bool:
    """Scores rank by rank, each entry with its own; one may replace another only at the last score."""

    def near(one: float, other: float) -> bool:
        return abs(one - other) <= tolerance * max(1.0, abs(one))

    if not all(near(one.score, other.score) for one, other in zip(left, right, strict=True)):
        return False
    if tolerance == 0.0:
        return [_plain_answer(match.entry) for match in left] == [_plain_answer(match.entry) for match in right]
    left_matches, right_matches = ({match.entry.id: match for match in found} for found in (left, right))
    shared = left_matches.keys() & right_matches.keys()
    same = all(
        near(left_matches[name].score, right_matches[name].score)
        and _plain_answer(left_matches[name].entry) == _plain_answer(right_matches[name].entry)
        for name in shared
    )
    replaced = [found[name].score for found in (left_matches, right_matches) for name in found.keys() - shared]
    return same and all(near(score, left[-1].score) for score in replaced)
