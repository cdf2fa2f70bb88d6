"""Base of every contract class: how a store is made, reopened and closed, and what a store says it lacks.

Not a test itself. A backend's test is a class that names its contracts and makes its store:

    class TestMyStore(VectorStoreContract, FilterContract, LifecycleContract):
        persists = True

        def make_store(self, path, *, space, fields=()):
            return MyStore(path / "my.db", space=space, fields=fields)

        def reopen(self, store, path):
            store.close()
            return MyStore(path / "my.db")

``failing_tests`` runs a contract without a pytest session, for tests that plant a fault in a store and assert that
it is caught.
"""

from __future__ import annotations

import inspect
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from vectorstore.errors import UnsupportedError
from vectorstore.protocol import LifecycleStore, VectorStore
from vectorstore.types import Entry, Match, Metric, Space, Vector

COSINE_SPACE = Space("toy", 3)
METRIC_SPACES = tuple(Space(f"toy-{metric}", 3, metric) for metric in Metric)


class StoreContract(ABC):
    """Base of the contracts. *persists*: a closed store can be reopened. *shares*: so can one that is open.

    *lacks* names tests that a store cannot pass, each with the reason; they are skipped for all to see.
    """

    persists: ClassVar[bool] = False
    shares: ClassVar[bool] = False
    lacks: ClassVar[Mapping[str, str]] = {}

    @abstractmethod
    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> VectorStore:
        """Return a new, empty store; *path* is an empty folder of its own."""

    def reopen(self, store: VectorStore, path: Path) -> VectorStore:
        """Close *store* and return it opened again from the folder *path*."""
        raise UnsupportedError("reopen", f"{type(self).__name__} sets persists and so must say how to reopen")

    def open_beside(self, store: VectorStore, path: Path) -> VectorStore:
        """Return another object that opens *store* from the folder *path*, as another process would."""
        raise UnsupportedError("open_beside", f"{type(self).__name__} sets shares and so must say how to open it")

    def restore(self, backup: Path, path: Path) -> VectorStore:
        """Return a store opened on the copy *backup*; *path* is an empty folder of its own."""
        raise UnsupportedError("restore", f"{type(self).__name__} must say how to open a backup, or lack it")

    @pytest.fixture(autouse=True)
    def _stores(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
        name: str = request.node.originalname
        if name in self.lacks:
            pytest.skip(self.lacks[name])
        self.begin(tmp_path)
        yield
        self.end()

    def begin(self, folder: Path) -> None:
        """Make ready for one test, whose stores are in *folder*."""
        self._folder = folder
        self._opened: list[VectorStore] = []

    def end(self) -> None:
        """Close what the test opened."""
        for store in self._opened:
            store.close()

    def open(self, space: Space | None = COSINE_SPACE, *, fields: tuple[str, ...] = ()) -> VectorStore:
        """Return a new store that is closed after the test."""
        return self._tracked(self.make_store(self.folder(), space=space, fields=fields))

    def open_lifecycle(self, space: Space | None = COSINE_SPACE) -> LifecycleStore:
        """Return a new store that has the second protocol too."""
        return as_lifecycle(self.open(space))

    def reopened(self, store: VectorStore) -> VectorStore:
        """Return the only *store* of the test, closed and opened again."""
        if not self.persists:
            pytest.skip("does not persist")
        return self._tracked(self.reopen(store, self._folder / "store0"))

    def beside(self, store: VectorStore) -> VectorStore:
        """Return another object that has the only *store* of the test open."""
        if not self.shares:
            pytest.skip("one object at a time has it open")
        return self._tracked(self.open_beside(store, self._folder / "store0"))

    def folder(self) -> Path:
        """Return a new empty folder."""
        path = self._folder / f"store{sum(1 for _ in self._folder.iterdir())}"
        path.mkdir()
        return path

    def _tracked(self, store: VectorStore) -> VectorStore:
        self._opened.append(store)
        return store


class TransactionAbandoned(Exception):
    """Leaves a transaction from inside."""


@contextmanager
def abandoned_transaction(store: LifecycleStore) -> Iterator[None]:
    """A transaction that fails at its end, and says so."""
    with pytest.raises(TransactionAbandoned), store.transaction():  # noqa: PT012 - the block is the caller's
        yield
        raise TransactionAbandoned


def as_lifecycle(store: VectorStore) -> LifecycleStore:
    """Return *store*, which has the second protocol too."""
    assert isinstance(store, LifecycleStore), "LifecycleContract is for stores with the second protocol"
    return store


def make_entry(name: str, vector: Any = None, text: str = "", context: str = "", **metadata: Any) -> Entry:
    """Return an entry in one line."""
    return Entry(name, vector, text, context, metadata)


def result_ids(found: Iterable[Match | Entry]) -> list[str]:
    """Return the ids of matches or entries, in order."""
    return [result.entry.id if isinstance(result, Match) else result.id for result in found]


def ids_and_scores(found: Iterable[Match]) -> list[tuple[str, float]]:
    """Return ids with scores, in order."""
    return [(match.entry.id, match.score) for match in found]


def get_entry(store: VectorStore, name: str, *, namespace: str = "") -> Entry:
    """Return an entry that must be there."""
    (found,) = store.get([name], namespace=namespace)
    assert found is not None, f"{name!r} is not in the store"
    return found


def all_entries(store: VectorStore, namespaces: Sequence[str]) -> dict[str, list[Entry]]:
    """Return all entries of *namespaces*."""
    return {name: list(store.scan(namespace=name)) for name in namespaces}


def read_only_vector(values: Sequence[float]) -> Vector:
    """Return a float32 array that refuses to be written."""
    vector = np.array(values, dtype=np.float32)
    vector.flags.writeable = False
    return vector


def vector_forms(values: Sequence[int]) -> dict[str, Any]:
    """Return one vector in every form that a caller may give, by the name of the form."""
    wide = np.zeros(2 * len(values), dtype=np.float32)
    wide[::2] = values
    return {
        "a list of whole numbers": list(values),
        "a list of floats": [float(value) for value in values],
        "a tuple": tuple(values),
        "float32": np.array(values, dtype=np.float32),
        "float64": np.array(values, dtype=np.float64),
        "float16": np.array(values, dtype=np.float16),
        "int64": np.array(values, dtype=np.int64),
        "big-endian": np.array(values, dtype=">f4"),
        "not contiguous": wide[::2],
        "backwards": np.array(values[::-1], dtype=np.float32)[::-1],
        "read-only": read_only_vector(values),
    }


def invalid_vectors(space: Space) -> dict[str, Any]:
    """Return vectors that no store of *space* may take, by what is wrong with them."""
    n = space.dimension
    bad: dict[str, Any] = {
        "too short": [1.0] * (n - 1),
        "too long": [1.0] * (n + 1),
        "empty": [],
        "a matrix": np.ones((1, n), dtype=np.float32),
        "a number": 1.0,
        "NaN": [float("nan"), *[1.0] * (n - 1)],
        "infinity": [float("inf"), *[1.0] * (n - 1)],
        "beyond float32": [1e39, *[1.0] * (n - 1)],
        "an array beyond float32": np.full(n, -1e39),
        "beyond every float": [10**400, *[1] * (n - 1)],
        "texts": ["1"] * n,
        "a text": "1" * n,
        "objects": [None] * n,
        "complex": np.ones(n, dtype=np.complex64),
        "booleans": np.ones(n, dtype=np.bool_),
    }
    if space.metric is Metric.COSINE:
        bad["without length"] = [0.0] * n
        bad["without a length to speak of"] = [1e-45] * n
        bad["without a length in float32"] = np.full(n, 1e-60)
    return bad


NEXT_SPACE = Space("next", 2, Metric.L2)
RENAMED_SPACE = Space("like-toy", 3)
"""A space that differs from the one in use by its name alone."""


def begin_second_space(store: LifecycleStore) -> LifecycleStore:
    """Return *store* with entries of every kind in two namespaces, and the second space begun."""
    store.upsert(
        [
            make_entry("a", [1, 0, 0], "zorb", n=1),
            make_entry("b", [0, 1, 0], "quil", n=2),
            make_entry("pending", text="vexa"),
            Entry("never", text="morp", no_vector="too long"),
        ]
    )
    store.upsert([make_entry("a", [0, 0, 1], "zorb zorb")], namespace="other")
    store.begin_space(NEXT_SPACE)
    return store


def fill_second_space(store: LifecycleStore) -> None:
    """Fill in what is pending."""
    store.fill_space(NEXT_SPACE, {"a": [1, 2], "b": [3, 4], "pending": [5, 6]})
    store.fill_space(NEXT_SPACE, {"a": [7, 8]}, namespace="other")


def vector_numbers(entry: Entry) -> list[float] | None:
    """Return the vector of an entry as a list."""
    return None if entry.vector is None else entry.vector.tolist()


def space_answers(store: LifecycleStore) -> dict[str, Any]:
    """Return what the space in use answers."""
    return {
        name: (
            list(store.scan(namespace=name)),
            ids_and_scores(store.search([0.9, 0.1, 0.2], 99, namespace=name)),
            ids_and_scores(store.search_text("zorb quil vexa morp", 99, namespace=name)),
        )
        for name in ("", "other")
    }


def contract_tests(contract: type[StoreContract]) -> dict[str, Callable[..., object]]:
    """Return the tests of a contract by name."""
    return {name: value for name, value in inspect.getmembers(contract, callable) if name.startswith("test_")}


def failing_tests(contract: type[StoreContract], folder: Path) -> dict[str, BaseException]:
    """Run every test of *contract* in new folders inside *folder*; return the failed ones with what they raised.

    Of a test with parameters, the first case that fails counts. What the store lacks or skips does not fail.
    """
    failed: dict[str, BaseException] = {}
    numbers = itertools.count()
    for name, test in contract_tests(contract).items():
        if name in contract.lacks:
            continue
        for case in _parametrized_cases(test):
            failure = _run_case(contract, test, case, folder / f"run{next(numbers)}")
            if failure is not None:
                failed[name] = failure
                break
    return failed


def _run_case(
    contract: type[StoreContract], test: Callable[..., object], case: dict[str, Any], folder: Path
) -> BaseException | None:
    folder.mkdir()
    suite = contract()
    suite.begin(folder)
    try:
        test(suite, **case)
    except pytest.skip.Exception:
        return None
    except (Exception, pytest.fail.Exception) as failure:  # whatever a test raises is its failure
        return failure
    finally:
        suite.end()
    return None


def _parametrized_cases(test: Callable[..., object]) -> Iterator[dict[str, Any]]:
    """Yield the arguments of each case, from the test's parametrize marks."""
    axes: list[list[dict[str, Any]]] = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            parameters, values = mark.args
            names = (
                [name.strip() for name in parameters.split(",")] if isinstance(parameters, str) else list(parameters)
            )
            axes.append([_case_arguments(names, value) for value in values])
    for chosen in itertools.product(*axes):
        yield {name: value for part in chosen for name, value in part.items()}


def _case_arguments(names: list[str], value: Any) -> dict[str, Any]:
    values = [value] if len(names) == 1 else list(value)
    return dict(zip(names, values, strict=True))
