"""Base of every contract class: making, reopening and closing a store, and the operations that it declares as missing.

Not a test itself. A backend's test is a class that names its contracts and makes its store:

    class TestMyStore(VectorStoreContract, FilterContract, LifecycleContract):
        persists = True

        def make_store(self, path, *, space, fields=()):
            return MyStore(path / "my.db", space=space, fields=fields)

        def reopen(self, store, path):
            store.close()
            return MyStore(path / "my.db")
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
import pytest

from tellback.vectorstore.errors import UnsupportedError, VectorStoreError
from tellback.vectorstore.protocol import LifecycleStore, VectorStore
from tellback.vectorstore.types import Entry, Match, Metric, Space
from tellback.vectorstore.wrapper_store import lifecycle_of

COSINE_SPACE = Space("toy", 3)
NEXT_SPACE = Space("next", 2, Metric.L2)
RENAMED_SPACE = Space("like-toy", 3)
"""A space that differs from the one in use by its name alone."""

NASTY_NAMES = (
    *("", "a", "A", "a ", " a", "ab", "a/b", "a:b", "a%", "a_", "%", "_", "*", "..", "'", '"', "a\n", "a\nb"),
    *(
        "a'; DROP TABLE entries; --",
        "é",
        "e\u0301",
        "ﬁ",
        "日本",
        "\U0001f600",
        "\u202e",
        "x" * 1024,
        "\U0001f600" * 1024,
    ),
)
SAMPLE_ARGUMENTS: Mapping[str, Any] = {
    "entries": [Entry("a")],
    "metadata": {"a": {}},
    "vectors": {"a": [1, 0, 0]},
    "search_many.vectors": [[1, 0, 0]],
    "fill_space.vectors": {"a": [1, 2]},
    "vector": [1, 0, 0],
    "query": "zorb",
    "ids": ["a", "x"],
    "terms": ["zorb"],
    "n": 3,
    "namespaces": [""],
    "prefix": "",
    "space": NEXT_SPACE,
    "fields": ("n",),
}
"""A good argument for each parameter that needs one, for all methods or for one of them."""

StoreT = TypeVar("StoreT", bound=VectorStore)

every_metric = pytest.mark.parametrize(
    "space", [Space(f"toy-{metric}", 3, metric) for metric in Metric], ids=lambda space: str(space.metric)
)


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

    @pytest.fixture
    def store(self) -> VectorStore:
        """A new store."""
        return self.open()

    @pytest.fixture
    def filled(self) -> LifecycleStore:
        """A store with entries of every kind in two namespaces."""
        return fill_store(self.open_lifecycle())

    @pytest.fixture
    def migrating(self) -> LifecycleStore:
        """A filled store with the second space begun."""
        store = fill_store(self.open_lifecycle())
        store.begin_space(NEXT_SPACE)
        return store

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
        store = self.open(space)
        assert isinstance(store, LifecycleStore), "LifecycleContract is for stores with the second protocol"
        return store

    def reopened(self, store: StoreT) -> StoreT:
        """Return the only *store* of the test, closed and opened again."""
        if not self.persists:
            pytest.skip("does not persist")
        return cast("StoreT", self._tracked(self.reopen(store, self._folder / "store0")))

    def beside(self, store: StoreT) -> StoreT:
        """Return another object that has the only *store* of the test open."""
        if not self.shares:
            pytest.skip("one object at a time has it open")
        return cast("StoreT", self._tracked(self.open_beside(store, self._folder / "store0")))

    def restored(self, store: StoreT, copy: Path) -> StoreT:
        """Return the backup *copy* of *store*, opened."""
        return cast("StoreT", self._tracked(self.restore(copy, self.folder())))

    def folder(self) -> Path:
        """Return a new empty folder."""
        path = self._folder / f"store{sum(1 for _ in self._folder.iterdir())}"
        path.mkdir()
        return path

    def bytes_on_disk(self) -> bytes:
        """Return all bytes of the files of the test."""
        return b"".join(path.read_bytes() for path in self._folder.rglob("*") if path.is_file())

    def _tracked(self, store: VectorStore) -> VectorStore:
        self._opened.append(store)
        return store


class TransactionAbandoned(Exception):
    """Leaves a transaction from inside."""


@contextmanager
def abandoned_transaction(store: LifecycleStore) -> Iterator[None]:
    """Transaction that is rolled back at its end."""
    with pytest.raises(TransactionAbandoned), store.transaction():  # noqa: PT012 - the block is the caller's
        yield
        raise TransactionAbandoned


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


def store_answers(store: VectorStore, namespaces: Sequence[str] = ("", "other")) -> dict[str, Any]:
    """Return what each way of reading a store of three dimensions answers, by namespace."""
    answers: dict[str, Any] = {"namespaces": store.namespaces()}
    lifecycle = lifecycle_of(store)
    for name in namespaces:
        answers[name] = {
            "entries": list(store.scan(namespace=name)),
            "near": ids_and_scores(store.search([0.9, 0.1, 0.2], 99, namespace=name)),
            "many": list(map(ids_and_scores, store.search_many([[0, 1, 1]] * 2, 5, namespace=name))),
            "text": ids_and_scores(store.search_text("zorb quil vexa morp", 99, namespace=name)),
        }
        for field in ("declared", "other"):
            found = store.search([1, 0, 0], 99, where={field: 1}, namespace=name)
            answers[name][field] = result_ids(found), store.count(where={field: 1}, namespace=name)
        if lifecycle is not None:
            with lifecycle.view([name]) as view:
                answers[name]["words"] = dict(view.vocabulary(namespace=name))
    return answers


def declared_members(protocol: type) -> dict[str, Any]:
    """Return the methods and properties that *protocol* itself names."""
    return {name: member for name, member in vars(protocol).items() if not name.startswith("_")}


def protocol_calls(protocol: type, target: object, **options: Any) -> dict[str, Callable[[], object]]:
    """Return, by name, a call of each method of *target* that *protocol* names and that takes all *options*.

    The other arguments are good ones. ``close`` and ``backup`` are left out.
    """
    calls: dict[str, Callable[[], object]] = {}
    for name, method in declared_members(protocol).items():
        if isinstance(method, property) or name in ("close", "backup"):
            continue
        parameters = list(inspect.signature(method).parameters)[1:]
        samples = {key: SAMPLE_ARGUMENTS.get(f"{name}.{key}", SAMPLE_ARGUMENTS.get(key)) for key in parameters}
        arguments = {key: value for key, value in samples.items() if value is not None} | options
        if options.keys() <= set(parameters):
            calls[name] = partial(_call_to_the_end, getattr(target, name), arguments)
    assert calls, f"no method of {protocol.__name__} takes {options}"
    return calls


def _call_to_the_end(method: Callable[..., object], arguments: Mapping[str, Any]) -> object:
    answer = method(**arguments)
    if isinstance(answer, AbstractContextManager):
        with answer:
            return None
    return list(answer) if isinstance(answer, Iterator) else answer


def vector_calls(store: VectorStore, vector: Any) -> dict[str, Callable[[], object]]:
    """Return, by name, a call of each method of the data part that takes *vector*."""
    return {
        "upsert": lambda: store.upsert([make_entry("new", text="lost"), make_entry("a", vector)]),
        "put_vectors": lambda: store.put_vectors({"a": vector}),
        "search": lambda: store.search(vector),
        "search_many": lambda: store.search_many([vector]),
    }


def calls_not_refused(error: type[VectorStoreError], calls: Mapping[str, Callable[[], object]]) -> list[str]:
    """Return the names of the calls that do not raise *error*."""
    names = []
    for name, call in calls.items():
        try:
            call()
        except error:
            continue
        names.append(name)
    return names


def vector_forms(values: Sequence[int]) -> dict[str, Any]:
    """Return one vector in every form that a caller may give, by the name of the form."""
    wide = np.zeros(2 * len(values), dtype=np.float32)
    wide[::2] = values
    read_only = np.array(values, dtype=np.float32)
    read_only.flags.writeable = False
    return {
        "a list of whole numbers": list(values),
        "a list of floats": [float(value) for value in values],
        "a tuple": tuple(values),
        **{str(kind): np.array(values, dtype=kind) for kind in ("float32", "float64", "float16", "int64", ">f4")},
        "not contiguous": wide[::2],
        "backwards": np.array(values[::-1], dtype=np.float32)[::-1],
        "read-only": read_only,
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
    if space.metric == Metric.COSINE:
        bad["without length"] = [0.0] * n
        bad["without a length to speak of"] = [1e-45] * n
        bad["without a length in float32"] = np.full(n, 1e-60)
    return bad


def fill_store(store: LifecycleStore) -> LifecycleStore:
    """Return *store* with entries of every kind in two namespaces."""
    embedded = [make_entry("a", [1, 0, 0], "zorb", n=1), make_entry("b", [0, 1, 0], "quil", n=2)]
    store.upsert([*embedded, make_entry("pending", text="vexa"), Entry("never", text="morp", no_vector="too long")])
    store.upsert([make_entry("a", [0, 0, 1], "zorb zorb")], namespace="other")
    return store


def fill_second_space(store: LifecycleStore) -> None:
    """Fill in what is pending."""
    store.fill_space(NEXT_SPACE, {"a": [1, 2], "b": [3, 4], "pending": [5, 6]})
    store.fill_space(NEXT_SPACE, {"a": [7, 8]}, namespace="other")


def fill_pending(store: LifecycleStore, space: Space, vector: Sequence[float]) -> None:
    """Fill in what is pending in each namespace with the same vector."""
    for name in store.namespaces():
        store.fill_space(space, {entry.id: vector for entry in store.unfilled(namespace=name)}, namespace=name)


def vector_numbers(entry: Entry) -> list[float] | None:
    """Return the vector of an entry as a list."""
    return None if entry.vector is None else entry.vector.tolist()
