"""Indexes on the server for one namespace that is too large for the memory of a worker: postings, and HNSW of pgvector.

They are built and dropped by a call, never by themselves. From then on every worker asks the server for the candidates
of a question, and scores those again by the computations of the index in memory: words come out the same to the last
bit, vectors as far as HNSW finds them.

search_indexes   the indexed namespaces, each with the number of all its terms
postings         how often a term is in an entry, and how many terms the entry has; a trigger on ``forward`` writes them

A fact of the store, "index KEY", marks an indexed namespace, so that readers learn of it without another question. Its
value is the kind of the vectors' index: "vector", "halfvec", or "" for none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.database import Connection, VectorBytes
from tellback.vectorstore.errors import ArgumentError, VectorStoreError
from tellback.vectorstore.filters import FilterNode, matches_everything
from tellback.vectorstore.index.bm25 import BM25_B, BM25_K1, bm25_shares, decode_terms, idf
from tellback.vectorstore.index.vectors import Ranking
from tellback.vectorstore.postgres.connection import PostgresConnection
from tellback.vectorstore.postgres.database import PostgresDatabase, quoted
from tellback.vectorstore.sqlite.connection import fetch_all, fetch_first, fetch_one, json_array, rows_of_keys
from tellback.vectorstore.sqlite.entry_reader import (
    READ_FACT,
    ids_by_key,
    namespace_key,
    parse_entry,
    read_space,
    rows_by_key,
)
from tellback.vectorstore.sqlite.index_cache import NamespaceHead
from tellback.vectorstore.sqlite.vector_sql import SqlVectorSearch, exact_scores_by_key, ranking_of_keys
from tellback.vectorstore.types import Entry, Finding, Metric, SearchMode, Space, Vector

IndexKind: TypeAlias = Literal["vector", "halfvec"]
_LARGEST_DIMENSIONS: Final = {"vector": 2000, "halfvec": 4000}
_OPERATORS: Final = {Metric.COSINE: ("<=>", "cosine"), Metric.L2: ("<->", "l2"), Metric.DOT: ("<#>", "ip")}
_EXTRA_CANDIDATES: Final = 64
"""Rows beside those asked for that are scored again: what HNSW, halves of floats or sums in SQL put a little lower."""
_EF_SEARCH: Final = 400
_LARGEST_EF_SEARCH: Final = 1000
_SCANNED_TUPLES: Final = 200_000
_FILTERED_ROWS: Final = 10_000
"""Nearest rows that are held against a filter; where fewer pass than are wanted, all of the namespace is read."""
_ROUNDING: Final = 1e-9
"""Relative difference of a sum in SQL from the same in numpy, with much room."""
_WIDER: Final = 8
_PRUNED_POSTINGS: Final = 20_000
"""Postings that are added up without looking for those that can be left out; about ten milliseconds."""
_BUILD_MEMORY: Final = (
    "SELECT set_config('maintenance_work_mem',"
    " greatest(pg_size_bytes(current_setting('maintenance_work_mem')) / 1024, 524288) || 'kB', FALSE)"
)
"""Half a gigabyte for the graph of HNSW, or what the server or the address gives, if that is more."""

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS search_indexes (namespace BIGINT PRIMARY KEY, terms BIGINT NOT NULL)",
    """
    CREATE TABLE IF NOT EXISTS postings (
        key BIGINT NOT NULL, namespace BIGINT NOT NULL, term INT NOT NULL, length INT NOT NULL, count INT NOT NULL,
        PRIMARY KEY (namespace, term, key)
    )
    """,
    """
    CREATE OR REPLACE FUNCTION tellback_terms(sequence bytea) RETURNS TABLE (term int, count int)
    IMMUTABLE PARALLEL SAFE LANGUAGE sql AS $$
        SELECT number, count(*)::int FROM (
            SELECT get_byte(sequence, i) + (get_byte(sequence, i + 1) << 8) + (get_byte(sequence, i + 2) << 16)
                + (get_byte(sequence, i + 3) << 24) AS number
            FROM generate_series(0, length(sequence) - 4, 4) AS i) AS numbers
        WHERE number <> 0 GROUP BY number
    $$
    """,
    """
    CREATE OR REPLACE FUNCTION tellback_postings() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
        changed bigint := 0;
        old_sequence bytea := ''::bytea;
        new_sequence bytea := ''::bytea;
        row_namespace bigint;
        row_key bigint;
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            old_sequence := OLD.sequence; row_namespace := OLD.namespace; row_key := OLD.key;
        END IF;
        IF TG_OP <> 'DELETE' THEN
            new_sequence := NEW.sequence; row_namespace := NEW.namespace; row_key := NEW.key;
        END IF;
        IF old_sequence = new_sequence OR NOT EXISTS (SELECT FROM search_indexes i WHERE i.namespace = row_namespace)
            THEN RETURN NULL; END IF;
        DELETE FROM postings AS p USING tellback_terms(old_sequence) AS t
            WHERE p.namespace = row_namespace AND p.term = t.term AND p.key = row_key;
        INSERT INTO postings (key, namespace, term, length, count)
            SELECT row_key, row_namespace, t.term, sum(t.count) OVER (), t.count FROM tellback_terms(new_sequence) AS t;
        SELECT coalesce((SELECT sum(t.count) FROM tellback_terms(new_sequence) AS t), 0)
            - coalesce((SELECT sum(t.count) FROM tellback_terms(old_sequence) AS t), 0) INTO changed;
        UPDATE search_indexes AS i SET terms = i.terms + changed WHERE i.namespace = row_namespace;
        RETURN NULL;
    END
    $$
    """,
)
_TRIGGER: Final = (
    "CREATE TRIGGER tellback_postings AFTER INSERT OR UPDATE OR DELETE ON forward"
    " FOR EACH ROW EXECUTE FUNCTION tellback_postings()"
)
_HAS_TRIGGER: Final = "SELECT 1 FROM pg_trigger WHERE tgname = 'tellback_postings' AND tgrelid = 'forward'::regclass"
_POSTINGS: Final = (
    "SELECT f.key, t.term, sum(t.count) OVER (PARTITION BY f.key), t.count"
    " FROM forward AS f, tellback_terms(f.sequence) AS t WHERE f.namespace = ?"
)
_IS_SEPARATED: Final = "SELECT 1 FROM pg_class WHERE oid = 'forward'::regclass AND relrowsecurity"
_POLICY: Final = (
    "CREATE POLICY tellback_tenant ON {0} TO PUBLIC"
    " USING (EXISTS (SELECT 1 FROM namespaces AS o WHERE o.key = {0}.namespace))"
)
"""Rows of a namespace that the connection may see, where the owner keeps tenants apart."""
_WRITERS: Final = (
    "SELECT DISTINCT grantee FROM information_schema.role_table_grants"
    " WHERE table_schema = current_schema() AND table_name = 'forward' AND privilege_type = 'INSERT'"
)


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """Index of the store namespace *namespace* on the server.

    *vectors* is the type that HNSW keeps them as, None where there is no index of vectors: they are then read all.
    *bytes* is what the namespace's HNSW takes on the server's disk.
    """

    namespace: str
    entries: int
    vectors: IndexKind | None
    bytes: int


def build_search_index(database: PostgresDatabase, namespace: str, kind: IndexKind) -> SearchIndex:
    """Build the index of *namespace*, in the place of one that it has; see ``PostgresStore.build_index``."""
    if kind not in get_args(IndexKind):
        raise ArgumentError("kind", kind, "'vector' or 'halfvec' is needed")
    with database.read() as connection:
        key, space = namespace_key(connection, namespace), read_space(connection)
        stored = (
            "SELECT tableoid::regclass::text FROM vectors WHERE namespace = ? LIMIT 1"  # a partition, where they are
        )
        table = None if key is None else fetch_first(connection, stored, (key,))
    if key is None:
        raise ArgumentError("namespace", namespace, "a namespace with entries is needed")
    vectors = "" if space is None or table is None else _index_sql(table[0], key, space, kind)
    with database.write() as connection:  # a moment: it keeps every writer out
        for statement in _TABLES:
            connection.execute(statement)
        for (role,) in fetch_all(connection, _WRITERS):
            connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON search_indexes, postings TO {quoted(role)}")
        if fetch_first(connection, _IS_SEPARATED):
            for name in ("search_indexes", "postings"):
                connection.execute(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
                connection.execute(f"DROP POLICY IF EXISTS tellback_tenant ON {name}")
                connection.execute(_POLICY.format(name))
        if fetch_first(connection, _HAS_TRIGGER) is None:
            connection.execute(_TRIGGER)
    with database.write(lock=namespace) as connection:
        _remove_postings(connection, key)
        connection.execute(
            f"INSERT INTO postings (namespace, key, term, length, count) SELECT ?, made.* FROM ({_POSTINGS}) AS made",
            (key, key),
        )
        connection.execute(
            "INSERT INTO search_indexes SELECT ?, coalesce(sum(count), 0) FROM postings WHERE namespace = ?", (key, key)
        )
        _mark(connection, key, "")
    if space is not None and vectors:
        _build_vectors(database, namespace, key, space, kind, vectors)
    database.run_alone(*(f"VACUUM (ANALYZE) {quoted(database.schema, name)}" for name in ("postings", "vectors")))
    return next(index for index in search_indexes(database) if index.namespace == namespace)


def _build_vectors(
    database: PostgresDatabase, namespace: str, key: int, space: Space, kind: IndexKind, sql: str
) -> None:
    drop = f"DROP INDEX CONCURRENTLY IF EXISTS {quoted(database.schema, _index_name(key))}"
    try:
        database.run_alone(drop, _BUILD_MEMORY, sql)
        with database.write(lock=namespace) as connection:
            if read_space(connection) != space:
                raise VectorStoreError("the store was switched to another space meanwhile; build the index again")
            _mark(connection, key, kind)
    except BaseException:
        with suppress(VectorStoreError):
            database.run_alone(drop)  # a build that broke off leaves an index that costs and serves nothing
        raise


def drop_search_index(database: PostgresDatabase, namespace: str) -> bool:
    """Drop the index of *namespace*; return whether there was one."""
    with database.read() as connection:
        key = namespace_key(connection, namespace)
        if key is None or fetch_first(connection, READ_FACT, (_fact(key),)) is None:
            return False
    with database.write(lock=namespace) as connection:
        connection.execute("DELETE FROM store_facts WHERE name = ?", (_fact(key),))
        _remove_postings(connection, key)
        is_last = fetch_first(connection, "SELECT 1 FROM search_indexes LIMIT 1") is None
    index = quoted(database.schema, _index_name(key))
    database.run_alone(f"DROP INDEX CONCURRENTLY IF EXISTS {index}", f"VACUUM {quoted(database.schema, 'postings')}")
    if is_last:
        with database.write() as connection:
            if fetch_first(connection, "SELECT 1 FROM search_indexes LIMIT 1") is None:
                connection.execute("DROP TRIGGER IF EXISTS tellback_postings ON forward")
    return True


def search_indexes(database: PostgresDatabase) -> list[SearchIndex]:
    """Return the indexes that there are, by namespace."""
    with database.read() as connection:
        rows = fetch_all(
            connection,
            "SELECT n.name, n.entries, f.value, coalesce(pg_relation_size(to_regclass('entries_hnsw_' || n.key)), 0)"
            " FROM namespaces AS n JOIN store_facts AS f ON f.name = 'index ' || n.key ORDER BY n.name",
        )
    return [SearchIndex(name, entries, kind or None, size) for name, entries, kind, size in rows]


def verify_postings(connection: Connection) -> list[Finding]:
    """Compare the postings of each indexed namespace with the terms that its entries have."""
    findings = []
    for name, key in fetch_all(
        connection, "SELECT n.name, n.key FROM namespaces AS n JOIN store_facts AS f ON f.name = 'index ' || n.key"
    ):
        stored, made = "SELECT key, term, length, count FROM postings WHERE namespace = ?", _POSTINGS
        (differing,) = fetch_one(
            connection,
            f"SELECT count(*) FROM (({stored} EXCEPT {made}) UNION ALL ({made} EXCEPT {stored})) AS differing",
            (key,) * 4,
        )
        if differing:
            findings.append(Finding("postings", f"{differing} are not of the entries; build the index again", name))
    return findings


def drop_vector_indexes(connection: Connection) -> None:
    """Drop what is built over the vectors, whose space is about to be another; the postings stay."""
    for (name,) in fetch_all(connection, "SELECT name FROM store_facts WHERE name LIKE 'index %'"):
        key = int(name.split()[1])
        connection.execute(f"DROP INDEX IF EXISTS {_index_name(key)}")
        _mark(connection, key, "")


def _remove_postings(connection: Connection, key: int) -> None:
    connection.execute("DELETE FROM search_indexes WHERE namespace = ?", (key,))
    connection.execute("DELETE FROM postings WHERE namespace = ?", (key,))


def _mark(connection: Connection, key: int, kind: str) -> None:
    connection.execute(
        "INSERT INTO store_facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (_fact(key), kind),
    )


def _fact(key: int) -> str:
    return f"index {key}"


def _index_name(key: int) -> str:
    return f"entries_hnsw_{key}"


def _index_sql(table: str, key: int, space: Space, kind: IndexKind) -> str:
    if space.dimension > _LARGEST_DIMENSIONS[kind]:
        needed = f"HNSW takes vectors of at most {_LARGEST_DIMENSIONS[kind]} numbers as {kind!r}, these have"
        raise ArgumentError("kind", kind, f"{needed} {space.dimension}")
    if kind == "halfvec" and space.metric is not Metric.COSINE:
        raise ArgumentError("kind", kind, "'vector' is needed: halves hold numbers up to 65504, and no others' length")
    operators = f"{kind}_{_OPERATORS[space.metric][1]}_ops"
    return (
        f"CREATE INDEX CONCURRENTLY {_index_name(key)} ON {table} USING hnsw"
        f" (({_column(space, kind)}) {operators}) WHERE namespace = {key}"
    )


def _column(space: Space, kind: str, column: str = "vector") -> str:
    return (
        f"l2_normalize({column})::halfvec({space.dimension})"
        if kind == "halfvec"
        else f"{column}::vector({space.dimension})"
    )


class TermWeight(NamedTuple):
    """A term of a question: its number, in how many *entries* it is, and what that makes it weigh."""

    number: int
    entries: int
    idf: float


class SearchIndexReader:
    """Implements ``NamespaceReader`` by the index on the server; nothing of the namespace is kept in the process.

    *kind* is that of the vectors' index, "" where there is none.
    """

    in_memory: Final = False

    def __init__(self, connection: PostgresConnection, space: Space | None, head: NamespaceHead, kind: str) -> None:
        self._connection = connection
        self._space = space
        self._head = head
        self._kind = kind

    def cursor(self) -> int:
        """Return the namespace's write number."""
        return self._head.revision

    def count(self) -> int:
        """Return the number of entries."""
        return self._head.entries

    def ids_of(self, keys: Sequence[int]) -> list[str]:
        """Return the ids of *keys*."""
        return ids_by_key(self._connection, keys)

    def keys_of(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the keys of *ids*, -1 where there is none."""
        sql = f"SELECT e.id, e.key FROM {self._connection.dialect.wanted_texts} entries AS e"
        sql += " ON e.namespace = ? AND e.id = wanted.value"
        key_of: dict[str, int] = dict(fetch_all(self._connection, sql, (json_array(list(ids)), self._head.key)))
        return np.array([key_of.get(id, -1) for id in ids], dtype=np.int64)

    def entries(self, keys: Sequence[int]) -> list[Entry]:
        """Return the entries of *keys*."""
        rows = rows_by_key(self._connection, keys)
        return [parse_entry(rows[key]) for key in keys]

    def passing(self, keys: NDArray[np.int64], where: FilterNode) -> NDArray[np.bool_]:
        """Return which of *keys* are of an entry that passes."""
        condition, values = self._connection.dialect.condition(self._connection, self._head.key, where)
        entries = f"entries AS e ON e.key = wanted.value WHERE e.namespace = ? AND ({condition})"
        rows = rows_of_keys(self._connection, "e.key", entries, keys.tolist(), self._head.key, *values)
        return np.isin(keys, np.array([key for (key,) in rows], dtype=np.int64))

    def nearest(
        self,
        queries: NDArray[np.float32],
        k: int,
        where: FilterNode,
        min_score: float | None,
        search: SearchMode | None,
    ) -> list[Ranking]:
        """Return the k nearest of each query: candidates by HNSW, scored exactly; all are read where it finds too few.

        With *search* None all are read anyway.
        """
        assert self._space is not None, "a view has checked that there is a space"
        if search is None or not self._kind:
            scan = SqlVectorSearch(self._connection, self._space, self._head.key, where)
            return [scan.nearest(query, k, min_score) for query in queries]
        return [self._nearest(query, k, where, min_score) for query in queries]

    def similarity(self, query: Vector, keys: Sequence[int]) -> NDArray[np.float64]:
        """Return the exact scores of *keys*."""
        assert self._space is not None, "a view has checked that there is a space"
        return exact_scores_by_key(self._connection, self._space, query, list(keys))

    def matching(self, terms: Sequence[str], k: int, where: FilterNode) -> Ranking:
        """Return the *k* best by BM25."""
        weights = self._weights(terms)
        if not weights or k == 0:
            return []
        keys = self._pruned(weights, k, where)
        if keys is None:
            keys = self._best(weights, k, where)
        return ranking_of_keys(self._connection, keys.tolist(), self._scores(weights, keys), k)

    def score_terms(self, terms: Sequence[str], keys: Sequence[int]) -> NDArray[np.float64]:
        """Return BM25 of *keys*."""
        return self._scores(self._weights(terms), np.array(keys, dtype=np.int64))

    def terms_of(self, keys: Sequence[int]) -> list[tuple[tuple[str, ...], ...]]:
        """Return the terms of *keys*."""
        columns, forward = "f.key, f.sequence, f.context_length", "forward AS f ON f.key = wanted.value"
        rows = rows_of_keys(self._connection, columns, forward, keys)
        sequences = {key: (np.frombuffer(blob, dtype="<i4"), length) for key, blob, length in rows}
        used = sorted({0}.union(*(numbers.tolist() for numbers, _ in sequences.values())) - {0})
        terms = "terms AS t ON t.namespace = ? AND t.number = wanted.value"
        name_of: dict[int, str] = dict(rows_of_keys(self._connection, "t.number, t.term", terms, used, self._head.key))
        return [decode_terms(*sequences[key], name_of.__getitem__) if key in sequences else ((),) for key in keys]

    def df(self, terms: Sequence[str]) -> list[int]:
        """Return in how many entries each term occurs."""
        found = self._frequencies(terms)
        return [found[term][1] if term in found else 0 for term in terms]

    def vocabulary(self) -> dict[str, int]:
        """Return every term in use."""
        rows = fetch_all(
            self._connection,
            "SELECT t.term, p.entries FROM (SELECT term, count(*) AS entries FROM postings WHERE namespace = ?"
            " GROUP BY term) AS p JOIN terms AS t ON t.namespace = ? AND t.number = p.term",
            (self._head.key, self._head.key),
        )
        return dict(rows)

    def _nearest(self, query: Vector, k: int, where: FilterNode, min_score: float | None) -> Ranking:
        space, key, connection = self._space, self._head.key, self._connection
        assert space is not None, "a view has checked that there is a space"
        operand = _column(space, self._kind, "?::vector")
        order = f"({_column(space, self._kind, 'v.vector')}) {_OPERATORS[space.metric][0]} {operand}"
        sql = f"SELECT v.key FROM vectors AS v WHERE v.namespace = {key} ORDER BY {order} LIMIT ?"
        vector, count = VectorBytes(query.astype("<f4", copy=False)), k + max(k, _EXTRA_CANDIDATES)
        while True:
            for name, value in (
                ("ef_search", min(max(_EF_SEARCH, 3 * count), _LARGEST_EF_SEARCH)),
                ("iterative_scan", "relaxed_order"),
                ("max_scan_tuples", _SCANNED_TUPLES),
            ):
                connection.prepare(f"SET LOCAL hnsw.{name} = {value}")
            found = fetch_all(connection, sql, (vector, count))
            keys, _ = self._passing([(key, 0.0) for (key,) in found], where)
            if len(keys) >= k or len(found) < count or count * _WIDER > _FILTERED_ROWS:
                break
            count *= _WIDER
        if len(keys) < min(k, self._head.entries):
            return SqlVectorSearch(connection, space, key, where).nearest(query, k, min_score)
        scores = exact_scores_by_key(connection, space, query, keys.tolist())
        return ranking_of_keys(connection, keys.tolist(), scores, k, min_score)

    def _best(self, weights: Sequence[TermWeight], k: int, where: FilterNode) -> NDArray[np.int64]:
        """Return the keys of the *k* best that pass, and of those that may equal the last, by all postings."""
        limit = k + _EXTRA_CANDIDATES
        while True:
            found = self._by_words(weights, "ORDER BY score DESC LIMIT ?", limit)
            keys, scores = self._passing(found, where)
            if len(found) < limit:
                return keys
            if len(keys) >= k:
                break
            limit *= _WIDER
        lowest = float(scores[k - 1]) * (1.0 - _ROUNDING)
        if found[-1][1] < lowest:
            return keys
        return self._passing(self._by_words(weights, "HAVING sum(share) >= ?", lowest), where)[0]

    def _pruned(self, weights: Sequence[TermWeight], k: int, where: FilterNode) -> NDArray[np.int64] | None:
        """Return the same without the postings of common words, None where that cannot be told or does not pay.

        What the rarest words find gives a score that k entries reach. Words whose highest shares together stay below
        it can bring in nobody by themselves: an entry must have one of the others, and enough of them. (MaxScore:
        Turtle and Flood, "Query Evaluation: Strategies and Optimizations", 1995.)
        """
        rarest_first = sorted(weights, key=lambda weight: weight.entries)
        reach = np.cumsum([weight.entries for weight in rarest_first])
        if reach[-1] <= _PRUNED_POSTINGS:
            return None
        seeds = rarest_first[: max(1, int(np.searchsorted(reach, _PRUNED_POSTINGS)))]
        keys, _ = self._passing(self._by_words(seeds, "ORDER BY score DESC LIMIT ?", k + _EXTRA_CANDIDATES), where)
        if len(keys) < k:
            return None
        reached = float(np.sort(self._scores(weights, keys))[-k]) * (1.0 - _ROUNDING)
        bounds = np.cumsum([weight.idf * (BM25_K1 + 1.0) for weight in reversed(rarest_first)])
        spared = int(np.searchsorted(bounds, reached))
        if not 0 < spared < len(weights):
            return None
        needed = rarest_first[: len(weights) - spared]
        missing = reached - float(bounds[spared - 1])
        found = self._by_words(needed, "HAVING sum(share) >= ? LIMIT ?", missing, _PRUNED_POSTINGS)
        return None if len(found) == _PRUNED_POSTINGS else self._passing(found, where)[0]

    def _passing(
        self, found: Sequence[tuple[int, float]], where: FilterNode
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return keys and scores of those of *found* that pass."""
        keys = np.array([key for key, _ in found], dtype=np.int64)
        scores = np.array([score for _, score in found])
        if matches_everything(where) or not len(keys):
            return keys, scores
        passing = self.passing(keys, where)
        return keys[passing], scores[passing]

    def _frequencies(self, terms: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return number and document frequency of those of *terms* that are in use."""
        rows = fetch_all(
            self._connection,
            "SELECT t.term, t.number, (SELECT count(*) FROM postings AS p WHERE p.namespace = ? AND p.term = t.number)"
            f" FROM {self._connection.dialect.wanted_texts} terms AS t ON t.namespace = ? AND t.term = wanted.value",
            (self._head.key, json_array(sorted(set(terms))), self._head.key),
        )
        return {term: (number, count) for term, number, count in rows if count}

    def _weights(self, terms: Sequence[str]) -> list[TermWeight]:
        """Return each distinct term in use, in order of text."""
        found = self._frequencies(terms)
        return [
            TermWeight(found[term][0], found[term][1], idf(self._head.entries, found[term][1]))
            for term in sorted(found)
        ]

    def _average(self) -> float:
        (total,) = fetch_one(
            self._connection, "SELECT terms FROM search_indexes WHERE namespace = ?", (self._head.key,)
        )
        return int(total) / self._head.entries

    def _by_words(self, weights: Sequence[TermWeight], end: str, *bound: float) -> list[tuple[int, float]]:
        """Return (key, score summed by the server) of entries with a term of *weights*."""
        share = f"w.idf * p.count * {BM25_K1 + 1} / (p.count + {BM25_K1} * ({1 - BM25_B} + {BM25_B} * p.length / ?))"
        return fetch_all(
            self._connection,
            f"SELECT key, sum(share) AS score FROM (SELECT p.key, {share} AS share"
            " FROM jsonb_to_recordset(?::jsonb) AS w(term int, idf float8)"
            " JOIN postings AS p ON p.namespace = ? AND p.term = w.term) AS shares GROUP BY key " + end,
            (
                self._average(),
                json.dumps([{"term": weight.number, "idf": weight.idf} for weight in weights]),
                self._head.key,
                *bound,
            ),
        )

    def _scores(self, weights: Sequence[TermWeight], keys: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return BM25 of *keys* as the index in memory adds it up: term by term, in order of their text."""
        scores = np.zeros(len(keys))
        if not weights or not len(keys):
            return scores
        postings = "postings AS p ON p.namespace = ? AND p.key = wanted.value"
        postings += " AND p.term IN (SELECT jsonb_array_elements_text(?::jsonb)::int)"
        bound = (self._head.key, json_array([weight.number for weight in weights]))
        columns = "p.term, p.key, p.count, p.length"
        rows = [*rows_of_keys(self._connection, columns, postings, keys.tolist(), *bound)]
        if not rows:
            return scores
        average = self._average()
        terms, owners, counts, lengths = np.array(rows, dtype=np.int64).T
        place_of = {key: place for place, key in enumerate(keys.tolist())}
        places = np.fromiter(map(place_of.__getitem__, owners.tolist()), dtype=np.int64, count=len(owners))
        for weight in weights:
            hit = terms == weight.number
            scores[places[hit]] += bm25_shares(weight.idf, counts[hit], lengths[hit], average)
        return scores
