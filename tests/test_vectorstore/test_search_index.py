"""Indexes of a namespace on the server: they answer as the whole namespace in memory does, and follow each write.

Inner parts, on no face: ``tellback.vectorstore.engines.postgres_store``,
``tellback.vectorstore.postgres.search_index``.
``TELLBACK_INDEX_ROWS`` sets the size.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from tellback.vectorstore import ArgumentError, Entry, Metric, NumpyStore, Space, SqliteStore, copy_store
from tellback.vectorstore.engines.postgres_store import PostgresStore
from tellback.vectorstore.postgres import search_index
from tests.support.postgres import PostgresServer
from tests.support.waiting import wait_until

ROWS = int(os.environ.get("TELLBACK_INDEX_ROWS", "3000"))
DIMENSION = 24
FILTERS: tuple[dict[str, Any] | None, ...] = (None, {"shelf": {"$in": [1, 2]}}, {"shelf": 7}, {"shelf": 99})


def made_entries(count: int, seed: int, *, prefix: str = "e") -> list[Entry]:
    """Entries with vectors around a few centres, words as rare as in a language, and some without either."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(40, DIMENSION))
    words = np.minimum(random.zipf(1.3, size=(count, 9)), 5000)
    entries = []
    for i in range(count):
        vector = centres[random.integers(40)] + 0.4 * random.normal(size=DIMENSION)
        text = " ".join(f"w{word}" for word in words[i, : random.integers(0, 10)])
        has_vector = random.random() > 0.02
        fields = {"shelf": int(random.integers(10))}
        entries.append(Entry(f"{prefix}{i}", vector if has_vector else None, text, f"w{words[i, 0]} note", fields))
    return entries


class Homes:
    """One content in the memory of the process and on a server."""

    def __init__(self, address: str, metric: Metric = Metric.COSINE) -> None:
        space = Space("made", DIMENSION, metric)
        address += "&options=-c%20enable_sort%3Doff"  # so few rows are sorted faster than found by an index
        self.address = address
        self.memory, self.server = NumpyStore(space=space), PostgresStore(address, space=space)
        self.both = (self.memory, self.server)

    def upsert(self, entries: list[Entry], namespace: str = "large") -> None:
        for store in self.both:
            store.upsert(entries, namespace=namespace)

    def compare(self, seed: int, *, vectors: bool = True) -> None:
        """Ask both the same questions: words and scores are the same; of the nearest, equally near ones may differ."""
        random = np.random.default_rng(seed)
        for number in range(24):
            where = FILTERS[number % len(FILTERS)]
            question = " ".join(f"w{word}" for word in np.minimum(random.zipf(1.3, size=3), 5000))
            named = [store.search_text(question, where=where, namespace="large") for store in self.both]
            assert ids_and_scores(named[0]) == ids_and_scores(named[1])
            if vectors:
                vector = random.normal(size=DIMENSION)
                near = [store.search(vector, where=where, namespace="large") for store in self.both]
                wanted, found = (dict(ids_and_scores(matches)) for matches in near)
                assert all(found[id] == wanted[id] for id in found.keys() & wanted.keys())
                assert [*found.values()] == pytest.approx([*wanted.values()], abs=1e-6)
        ids = [*(f"e{i}" for i in range(0, ROWS, ROWS // 20)), "unknown"]
        answers = []
        for store in self.both:
            with store.view(["large"]) as view:
                answers.append(
                    (
                        view.terms(ids, namespace="large"),
                        view.df(["w1", "w2", "nowher"], namespace="large"),
                        view.vocabulary(namespace="large"),
                        view.score_text("w1 w2 w40", ids, namespace="large").tolist(),
                        view.passing(ids, where={"shelf": {"$lt": 5}}, namespace="large").tolist(),
                        str(view.similarity(np.ones(DIMENSION), ids, namespace="large").tolist()),
                        view.count(namespace="large"),
                        [None if entry is None else entry.text for entry in view.get(ids, namespace="large")],
                    )
                )
        assert answers[0] == answers[1]


def ids_and_scores(matches: list[Any]) -> list[tuple[str, float]]:
    return [(match.entry.id, match.score) for match in matches]


@pytest.fixture
def homes(postgres: PostgresServer, tmp_path: Path) -> Iterator[Homes]:
    made = Homes(postgres.address(tmp_path))
    yield made
    for store in made.both:
        store.close()


def loaded_namespaces(store: PostgresStore) -> bool:
    return store._indexes.is_loaded("large")


@pytest.mark.parametrize("kind", ["vector", "halfvec"])
def test_an_index_answers_as_the_namespace_in_memory_does_and_follows_each_write(homes: Homes, kind: Any) -> None:
    homes.upsert(made_entries(ROWS, 1))
    homes.upsert(made_entries(50, 2), namespace="other")
    built = homes.server.build_index("large", kind=kind)
    assert (built.namespace, built.entries, built.vectors) == ("large", ROWS, kind)
    assert built.bytes > 0
    homes.compare(3)
    homes.upsert(made_entries(ROWS // 4, 4, prefix="later"))
    homes.upsert(made_entries(ROWS // 8, 5))  # in the place of some
    for store in homes.both:
        store.delete([f"e{i}" for i in range(0, ROWS, 3)], namespace="large")
        store.erase([f"e{i}" for i in range(1, ROWS, 11)], namespace="large")
        store.patch({f"e{i}": {"shelf": 7} for i in range(2, ROWS, 7)}, namespace="large")
        store.put_vectors({f"e{i}": np.ones(DIMENSION) + i for i in range(2, ROWS, 31)}, namespace="large")
    homes.compare(6)
    assert homes.server.verify() == []
    assert not loaded_namespaces(homes.server)


def test_postings_of_common_words_are_left_out_and_the_answers_stay_the_same(
    homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_index, "_PRUNED_POSTINGS", 200)
    summed: list[int] = []
    by_words = search_index.SearchIndexReader._by_words
    monkeypatch.setattr(
        search_index.SearchIndexReader,
        "_by_words",
        lambda self, weights, *rest: summed.append(len(weights)) or by_words(self, weights, *rest),
    )
    homes.upsert(made_entries(ROWS, 1))
    homes.server.build_index("large")
    for seed in range(4):
        homes.compare(seed, vectors=False)
    assert min(summed) < max(summed)


@pytest.mark.parametrize("metric", [Metric.L2, Metric.DOT])
def test_an_index_answers_under_each_metric(homes: Homes, postgres: PostgresServer, metric: Metric) -> None:
    others = Homes(postgres.address(f"{homes.address} {metric}"), metric)
    others.upsert(made_entries(ROWS // 3, 1))
    others.server.build_index("large")
    others.compare(2)
    with pytest.raises(ArgumentError, match="'vector' is needed"):
        others.server.build_index("large", kind="halfvec")
    for store in others.both:
        store.close()


def test_equal_scores_are_in_order_of_id_beyond_the_candidates(homes: Homes) -> None:
    entries = [Entry(f"{i:04}", None, "equal words") for i in np.random.default_rng(1).permutation(900)]
    homes.upsert(entries)
    homes.server.build_index("large")
    named = [ids_and_scores(store.search_text("equal", 10, namespace="large")) for store in homes.both]
    assert named[0] == named[1]
    assert [id for id, _ in named[1]] == [f"{i:04}" for i in range(10)]


def index_scans(store: PostgresStore) -> int:
    with store.database.read() as connection:
        sql = "SELECT idx_scan FROM pg_stat_user_indexes WHERE schemaname = current_schema() AND indexrelname LIKE ?"
        (row,) = connection.execute(sql, ("%hnsw%",))
        return int(row[0])


def test_vectors_are_found_by_the_index_of_the_server(homes: Homes) -> None:
    homes.upsert(made_entries(ROWS, 1))
    homes.server.build_index("large")
    before = index_scans(homes.server)

    def is_used() -> bool:  # statistics come a moment later
        homes.server.search(np.ones(DIMENSION), namespace="large")
        return index_scans(homes.server) > before

    assert wait_until(is_used)


def test_an_index_is_built_again_and_dropped_with_all_that_belongs_to_it(homes: Homes) -> None:
    homes.upsert(made_entries(200, 1))
    homes.server.build_index("large")
    homes.server.build_index("large", kind="halfvec")
    assert [(index.namespace, index.vectors) for index in homes.server.indexes()] == [("large", "halfvec")]
    assert homes.server.drop_index("large")
    assert not homes.server.drop_index("large")
    assert homes.server.indexes() == []
    with homes.server.database.read() as connection:
        assert connection.execute(
            "SELECT (SELECT count(*) FROM postings) + count(*) FROM search_indexes"
        ).fetchone() == (0,)
        assert (
            connection.execute(
                "SELECT 1 FROM pg_trigger WHERE tgrelid = 'forward'::regclass AND NOT tgisinternal"
            ).fetchone()
            is None
        )
        assert connection.execute("SELECT 1 FROM pg_class WHERE oid = to_regclass('entries_hnsw_1')").fetchone() is None
    homes.server.search(np.ones(DIMENSION), namespace="large")
    homes.server.search_text("w1", namespace="large")
    assert loaded_namespaces(homes.server)
    bad: Any = "float"
    with pytest.raises(ArgumentError, match="namespace"):
        homes.server.build_index("unknown")
    with pytest.raises(ArgumentError, match="kind"):
        homes.server.build_index("large", kind=bad)


def test_another_worker_uses_an_index_from_its_next_call_on(homes: Homes) -> None:
    homes.upsert(made_entries(200, 1))
    worker = PostgresStore(homes.address)
    worker.search_text("w1", namespace="large")
    homes.server.build_index("large")
    worker.upsert([Entry("new", None, "w1 unheard")], namespace="large")
    with worker.view(["large"]) as view:
        assert not view.in_memory(namespace="large")
    assert [match.entry.id for match in worker.search_text("unheard", namespace="large")] == ["new"]
    worker.close()
    assert homes.server.verify() == []


def test_a_switch_to_another_space_drops_what_was_built_over_the_vectors(homes: Homes) -> None:
    homes.upsert(made_entries(200, 1))
    homes.server.build_index("large")
    wider, narrower = Space("wider", DIMENSION + 8), Space("narrower", 8)
    for space in (wider, narrower):
        for store in homes.both:
            store.begin_space(space)
            ids = [entry.id for entry in store.unfilled(namespace="large")]
            store.fill_space(space, {id: np.ones(space.dimension) for id in ids}, namespace="large")
            store.commit_space(space)
    (index,) = homes.server.indexes()
    assert (index.vectors, index.bytes) == (None, 0)
    found = [ids_and_scores(store.search(np.ones(8), namespace="large")) for store in homes.both]
    assert found[0] == found[1]


def test_a_copy_in_a_file_has_no_index(homes: Homes, tmp_path: Path) -> None:
    homes.upsert(made_entries(100, 1))
    homes.server.build_index("large")
    copy_store(homes.address, f"sqlite:///{tmp_path / 'copy.db'}")
    copy = SqliteStore(tmp_path / "copy.db")
    question = "w1 w2"
    assert ids_and_scores(copy.search_text(question, namespace="large")) == ids_and_scores(
        homes.memory.search_text(question, namespace="large")
    )
    assert copy.verify() == []
    copy.close()


def test_a_role_that_only_works_writes_to_an_indexed_namespace(homes: Homes, postgres: PostgresServer) -> None:
    homes.upsert(made_entries(100, 1))
    schema = homes.server.database.schema
    with psycopg.connect(postgres.address().split("&")[0], autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS indexed_worker")
        owner.execute("CREATE ROLE indexed_worker LOGIN")
        owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO indexed_worker")
        owner.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO indexed_worker")
        owner.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO indexed_worker")
    homes.server.build_index("large")
    worker = PostgresStore(homes.address.replace("owner@", "indexed_worker@"))
    worker.upsert([Entry("new", None, "unheard")], namespace="large")
    assert len(worker.search_text("unheard", namespace="large")) == 1
    worker.close()


def test_postings_are_as_separate_as_the_tables_that_they_are_made_from(homes: Homes) -> None:
    homes.upsert(made_entries(100, 1))
    with homes.server.database.write() as connection:
        connection.execute("ALTER TABLE forward ENABLE ROW LEVEL SECURITY")
    homes.server.build_index("large")
    homes.server.build_index("large")
    with homes.server.database.read() as connection:
        policies = "SELECT tablename FROM pg_policies WHERE schemaname = current_schema() ORDER BY tablename"
        assert connection.execute(policies).fetchall() == [("postings",), ("search_indexes",)]
    homes.compare(2)
