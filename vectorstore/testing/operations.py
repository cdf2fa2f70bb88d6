"""Random operations on a store, as values: what to call with what, drawn from one seeded generator.

Small pools of ids, words, whole-numbered vectors and values, so that repeats, ties, conflicts and misses
happen all the time. Knows no store.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from vectorstore.types import Entry, Space

IDS = (*"abcdefghij", "é", "\U0001f600", "A", "aa")
NAMESPACES = ("", "other")
WORDS = (
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
VALUES: tuple[Any, ...] = (
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
FIELDS = ("a", "b", "c.d")


@dataclass(frozen=True, slots=True)
class Operation:
    """One call; *expect* holds offsets to the revisions that the entries have when it is made."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    expect: dict[str, int] | None = None
    inside: tuple[Operation, ...] = ()

    def __str__(self) -> str:
        given = [repr(argument) for argument in self.arguments]
        given += [f"{name}={value!r}" for name, value in self.options.items()]
        given += [f"expect=revisions + {self.expect}"] if self.expect is not None else []
        given += [str(operation) for operation in self.inside]
        return f"{self.method}({', '.join(given)})"


class Operations:
    """Draws operations for stores of *space*; the same seed draws the same ones.

    *others*, which have its dimension, are filled beside it and switched to.
    """

    def __init__(self, seed: int, space: Space | None, others: Sequence[Space] = ()) -> None:
        self._rng = random.Random(seed)  # noqa: S311 - a repeatable draw, no secret
        self._space = space
        self._others = tuple(others)

    def draw(self, count: int, *, transactions: bool = False, reopening: bool = False) -> list[Operation]:
        """Return *count* operations, with blocks that commit or fail, and openings anew, if wanted."""
        return [self._one(transactions, reopening) for _ in range(count)]

    def _one(self, transactions: bool, reopening: bool) -> Operation:
        if transactions and self._rng.random() < 0.06:
            fate = self._rng.choice(["commit", "abandon"])
            return Operation(fate, inside=tuple(self._plain() for _ in range(self._rng.randint(1, 6))))
        if reopening and self._rng.random() < 0.02:
            return Operation("reopen")
        return self._plain()

    def _plain(self) -> Operation:
        writes: list[Callable[[], Operation]] = [self._upsert, self._upsert, self._patch, self._delete]
        reads = [self._get, self._count, self._scan, self._search_text, lambda: Operation("namespaces")]
        if self._space is not None:
            writes.append(self._put_vectors)
            reads += [self._search, self._search, self._search_many]
        if self._others and self._rng.random() < 0.3:
            return self._second_space()
        return self._rng.choice(writes if self._rng.random() < 0.45 else reads)()

    def _second_space(self) -> Operation:
        space, draw = self._rng.choice([self._space, *self._others]), self._rng.random()
        if draw < 0.25:
            return Operation("begin_space", (space,))
        if draw < 0.45:
            return Operation("fill_rest", (self._rng.choice(NAMESPACES),))
        if draw < 0.65:
            return Operation("commit_space", (space,))
        if draw < 0.7:
            return Operation("abort_space")
        if draw < 0.85:
            reasons = {name: self._rng.choice(["no words", "no words", ""]) for name in self._ids()}
            given = {name: self._vector() for name in self._ids() if name not in reasons}
            options: dict[str, Any] = {"no_vector": reasons, **self._namespace()}
            return Operation("fill_space", (space, given), options, self._expect())
        return Operation("unfilled", (), {**self._namespace(), "after": self._rng.choice([None, *IDS])})

    def _upsert(self) -> Operation:
        entries = tuple(self._entry() for _ in range(self._rng.randint(0, 6)))
        return Operation("upsert", (entries,), self._namespace(), self._expect())

    def _patch(self) -> Operation:
        return Operation(
            "patch", ({name: self._metadata() for name in self._ids()},), self._namespace(), self._expect()
        )

    def _put_vectors(self) -> Operation:
        vectors = {name: self._vector() for name in self._ids()}
        return Operation("put_vectors", (vectors,), self._namespace(), self._expect())

    def _delete(self) -> Operation:
        by_filter = {"where": self._where()} if self._rng.random() < 0.3 else {}
        return Operation("delete", (self._ids(),), {**by_filter, **self._namespace()})

    def _get(self) -> Operation:
        return Operation("get", (self._ids(),), self._namespace())

    def _count(self) -> Operation:
        return Operation("count", (), self._asked())

    def _scan(self) -> Operation:
        chosen = {"after": self._rng.choice([None, *IDS]), "embedded": self._rng.choice([None, True, False])}
        return Operation("scan", (), {**chosen, **self._asked()})

    def _search(self) -> Operation:
        return Operation("search", (self._vector(), self._k()), {**self._least(), **self._asked()})

    def _search_many(self) -> Operation:
        vectors = [self._vector() for _ in range(self._rng.randint(0, 3))]
        return Operation("search_many", (vectors, self._k()), {**self._least(), **self._asked()})

    def _search_text(self) -> Operation:
        return Operation("search_text", (self._text(3), self._k()), self._asked())

    def _asked(self) -> dict[str, Any]:
        return {"where": self._where() if self._rng.random() < 0.5 else None, **self._namespace()}

    def _least(self) -> dict[str, Any]:
        # no score is likely to lie so near these that rounding would decide
        return {"min_score": self._rng.choice([None, None, 0.1234567, -0.7654321, -2.3456789])}

    def _namespace(self) -> dict[str, Any]:
        return {"namespace": NAMESPACES[self._rng.random() < 0.2]}

    def _expect(self) -> dict[str, int] | None:
        if self._rng.random() < 0.75:
            return None
        return {name: int(self._rng.random() < 0.15) for name in self._ids()}

    def _ids(self) -> list[str]:
        return self._rng.choices(IDS, k=self._rng.randint(0, 4))

    def _k(self) -> int:
        return self._rng.choice([0, 1, 2, 3, 5, 10, 10, 100, -1])

    def _entry(self) -> Entry:
        name = "" if self._rng.random() < 0.02 else self._rng.choice(IDS)
        vector = self._vector() if self._space is not None and self._rng.random() < 0.7 else None
        reason = "too long" if vector is None and self._rng.random() < 0.3 else None
        return Entry(name, vector, self._text(8), self._text(2), self._metadata(), 0, reason)

    def _text(self, longest: int) -> str:
        words = self._rng.choices(WORDS, k=self._rng.randint(0, longest))
        return self._rng.choice([" ", " ", ". ", "\n"]).join(words)

    def _vector(self) -> Any:
        size = self._space.dimension if self._space is not None else 1
        if self._rng.random() < 0.02:
            return self._rng.choice([[0.0] * size, [1.0] * (size + 1), [float("nan")] * size])
        if self._rng.random() < 0.25:
            return [self._rng.gauss(0, 1) for _ in range(size)]
        return [float(self._rng.randint(-2, 2)) for _ in range(size - 1)] + [float(self._rng.randint(1, 2))]

    def _metadata(self) -> dict[str, Any]:
        return {name: self._value() for name in FIELDS if self._rng.random() < 0.6}

    def _value(self) -> Any:
        return self._rng.choice(VALUES)

    def _values(self) -> Sequence[Any]:
        return [self._value() for _ in range(self._rng.randint(0, 3))]

    def _where(self, depth: int = 2) -> dict[str, Any]:
        shape = self._rng.random()
        if depth and shape < 0.3:
            inner = [self._where(depth - 1) for _ in range(self._rng.randint(0, 3))]
            return {self._rng.choice(["$and", "$or"]): inner}
        if depth and shape < 0.4:
            return {"$not": self._where(depth - 1)}
        name = self._rng.choice(FIELDS)
        operator = self._rng.choice(["$eq", "$ne", "$in", "$nin", "$gt", "$lte", "$exists", "$contains", "$near"])
        wanted: Any = self._value()
        if operator in ("$in", "$nin"):
            wanted = self._values()
        elif operator == "$exists":
            wanted = self._rng.random() < 0.5
        elif operator in ("$gt", "$lte"):
            wanted = self._rng.choice([0, 0.5, 1, "x", 2**63])
        if operator == "$near" and self._rng.random() < 0.9:  # an unknown operator, but seldom
            operator = "$eq"
        return {name: {operator: wanted}}
