"""The data protocol on Qdrant (extra ``qdrant``): one collection, a namespace as tenant, exact scores computed here.

A point has the whole entry in its payload, its vector as it was given among it, since Qdrant returns vectors normalized
under cosine. Its id is a UUID made from namespace and id. Each namespace has a point of its own that counts its writes.
Qdrant has no transactions: a batch is one request, *expect* is checked before it, and two writers at the same moment
overwrite each other; one object orders its own. What needs more is ``LifecycleStore``, which this is not.
"""

from __future__ import annotations

import base64
import json
import os
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
import numpy as np
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.call_hints import with_hints
from tellback.vectorstore.distance import as_vector, as_vectors, exact_scores, prepare_rows
from tellback.vectorstore.engines.base import PAGE_SIZE, read_pages, write_batches
from tellback.vectorstore.engines.qdrant_filter import FIELDS, qdrant_condition
from tellback.vectorstore.errors import (
    ArgumentError,
    RevisionConflict,
    ServerUnavailable,
    SettingMismatch,
    SpaceMismatch,
    StoreClosed,
    VectorStoreError,
)
from tellback.vectorstore.filters import FilterNode, filter_tree, matches_everything, matches_filter
from tellback.vectorstore.index.bm25 import bm25_shares, idf
from tellback.vectorstore.json_values import check_text
from tellback.vectorstore.types import (
    Entry,
    Filter,
    Match,
    Metadata,
    Metric,
    ProgressCallback,
    SearchMode,
    Space,
    Vector,
    VectorLike,
)
from tellback.vectorstore.validation import (
    NO_SPACE,
    CheckedEntry,
    check_after,
    check_entries,
    check_expect,
    check_ids,
    check_k,
    check_min_score,
    check_namespace,
    check_patches,
    check_search_mode,
    check_space,
    check_vectors,
    drop_overwritten,
)

DEFAULT_COLLECTION: Final = "tellback"
_VECTOR: Final = "v"
_ROOT: Final = uuid.UUID("b3f0c0de-6a3b-5d0e-8f5a-7e11bac00001")
_SETTINGS: Final = str(uuid.uuid5(_ROOT, "settings"))
_DISTANCES: Final = {
    Metric.COSINE: models.Distance.COSINE,
    Metric.DOT: models.Distance.DOT,
    Metric.L2: models.Distance.EUCLID,
}
_EXTRA: Final = 64
"""Points beside those asked for: Qdrant rounds scores, and equals come in order of id here."""
_WIDER: Final = 4
_ROUNDING: Final = 1e-4
"""Relative difference of a score of Qdrant's from the exact one, with room; it computes in float32."""
_MANY: Final = 1_000_000
_TENANT_LINKS: Final = 16


@with_hints
class QdrantStore:
    """Implements ``VectorStore`` in a collection at *address*. Any thread may call.

    ``qdrant://host:6333/collection`` is a server (``?https=1`` for TLS; the key is read from ``QDRANT_API_KEY``),
    ``qdrant:///folder`` a folder of this machine, by the client's local mode, for one process, and ``qdrant:`` its
    memory. *search* "fast" lets a server answer by HNSW, else it reads all of the namespace. Words are found by the
    analyzer's terms with exact BM25; each question reads the terms of all entries that share one of its words.
    """

    def __init__(
        self,
        address: str,
        *,
        space: Space | None = None,
        analyzer: Analyzer | None = None,
        search: SearchMode | str = SearchMode.EXACT,
    ) -> None:
        if space is not None:
            check_space(space)
        self.search_mode = check_search_mode(search)
        self._lock = threading.RLock()
        self._closed = False
        self._client, self._collection = _client_at(address)
        self._is_server = bool(urlsplit(address).netloc)
        try:
            with self._calling():
                self._open(space, analyzer)
        except BaseException:
            self._client.close()
            raise

    @property
    def space(self) -> Space | None:
        """The space of its vectors; a collection that was made without one has none."""
        return self._space

    def upsert(
        self,
        entries: Iterable[Entry],
        *,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> int:
        """As ``VectorStore.upsert``; a batch is one request."""
        name = check_namespace(namespace)

        def write(batch: Sequence[Entry], start: int, expected: dict[str, int]) -> tuple[list[CheckedEntry], int]:
            checked = check_entries(batch, start, self._space)
            with self._writing(name, expected) as points:
                final = drop_overwritten(checked)
                for entry in final:
                    points[entry.id] = self._payload(entry)
                return checked, len(final)

        self._check_open()
        return write_batches(entries, expect, on_progress, write)

    def patch(
        self, metadata: Mapping[str, Metadata], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.patch``."""
        checked = check_patches(metadata)
        return self._change(
            checked, namespace, expect, lambda id: {"metadata": checked[id], FIELDS: json.loads(checked[id])}
        )

    def put_vectors(
        self, vectors: Mapping[str, VectorLike], *, namespace: str = "", expect: Mapping[str, int] | None = None
    ) -> int:
        """As ``VectorStore.put_vectors``."""
        checked = check_vectors(vectors, self._space)
        return self._change(
            checked, namespace, expect, lambda id: {"vector": _encoded(checked[id]), "no_vector": None}, same=True
        )

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        """As ``VectorStore.get``."""
        name, names = check_namespace(namespace), check_ids(ids)
        with self._calling():
            payloads = self._payloads(name, names)
        return [_entry(payloads[id]) if id in payloads else None for id in names]

    def search(
        self,
        vector: VectorLike,
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[Match]:
        """As ``VectorStore.search``."""
        if self._space is None:
            raise ArgumentError("vector", vector, NO_SPACE)
        query = as_vector(vector, self._space.dimension, self._space.metric, argument="vector")
        return self._search(query, k, where, min_score, namespace, exact=self.search_mode == SearchMode.EXACT)

    def search_many(
        self,
        vectors: Sequence[VectorLike] | NDArray[np.float32],
        k: int = 10,
        *,
        where: Filter | None = None,
        min_score: float | None = None,
        namespace: str = "",
    ) -> list[list[Match]]:
        """As ``VectorStore.search_many``, one after the other."""
        if self._space is None:
            raise ArgumentError("vectors", vectors, NO_SPACE)
        queries = as_vectors(vectors, self._space.dimension, self._space.metric, argument="vectors")
        check_k(k)
        check_min_score(min_score)
        check_namespace(namespace)
        node = filter_tree(where)
        self._check_open()
        return [self._search(query, k, node, min_score, namespace, exact=True) for query in queries]

    def search_text(self, query: str, k: int = 10, *, where: Filter | None = None, namespace: str = "") -> list[Match]:
        """As ``VectorStore.search_text``."""
        asked = sorted(set(self._analyzer.terms(check_text(query, "query"))))
        name, node = check_namespace(namespace), filter_tree(where)
        check_k(k)
        with self._calling():
            if not asked or not k:
                return []
            found = self._points(
                name,
                node,
                models.FieldCondition(key="terms", match=models.MatchAny(any=asked)),
                keys=["id", "terms", "counts", "length", "metadata"],
            )
            scores = self._text_scores(name, asked, list(found))
            ids = sorted(scores, key=lambda id: (-scores[id], id))[:k]
            payloads = self._payloads(name, ids)
        return [Match(_entry(payloads[id]), scores[id]) for id in ids if id in payloads]

    def delete(self, ids: Iterable[str] = (), *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.delete``."""
        name, node, names = check_namespace(namespace), filter_tree(where), check_ids(ids)
        if not names and matches_everything(node):
            raise ArgumentError("ids", names, "ids, or a filter that is not empty, are needed to delete")
        with self._calling():
            if names:
                payloads = self._payloads(name, names)
                chosen = [id for id in payloads if matches_filter(node, json.loads(payloads[id]["metadata"]))]
            else:
                chosen = [payload["id"] for payload in self._points(name, node, keys=["id", "metadata"])]
            if chosen:
                points: list[Any] = [_point_id(name, id) for id in chosen]
                self._client.delete(self._collection, models.PointIdsList(points=points))
            return len(chosen)

    def count(self, *, where: Filter | None = None, namespace: str = "") -> int:
        """As ``VectorStore.count``."""
        name, node = check_namespace(namespace), filter_tree(where)
        with self._calling():
            if matches_everything(node):
                return self._client.count(self._collection, count_filter=_tenant(name), exact=True).count
            return sum(1 for _ in self._points(name, node, keys=["metadata"]))

    def scan(
        self,
        *,
        where: Filter | None = None,
        namespace: str = "",
        after: str | None = None,
        embedded: bool | None = None,
    ) -> Iterator[Entry]:
        """As ``VectorStore.scan``; the ids are read first, since Qdrant has no order of texts."""
        name, node, start = check_namespace(namespace), filter_tree(where), check_after(after)
        with self._calling():
            keys = ["id", "metadata", "vector", "no_vector"] if embedded is not None else ["id", "metadata"]
            ids = sorted(
                payload["id"]
                for payload in self._points(name, node, keys=keys)
                if (start is None or payload["id"] > start) and _is_in_state(payload, embedded)
            )
        places = {id: place for place, id in enumerate(ids)}

        def page(last: str | None, size: int) -> list[Entry]:
            begin = 0 if last is None or last == start else places[last] + 1
            while begin < len(ids):  # a page whose entries have all gone is passed over
                found = [entry for entry in self.get(ids[begin : begin + size], namespace=name) if entry is not None]
                if found:
                    return found
                begin += size
            return []

        return read_pages(page, start)

    def namespaces(self, *, prefix: str = "") -> list[str]:
        """As ``VectorStore.namespaces``."""
        start = check_namespace(prefix)
        with self._calling():
            found = self._client.facet(
                self._collection, "namespace", facet_filter=_entries_filter(), limit=_MANY, exact=True
            )
        return sorted(str(hit.value)[1:] for hit in found.hits if hit.count and str(hit.value)[1:].startswith(start))

    def close(self) -> None:
        """As ``VectorStore.close``."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._client.close()

    def _open(self, space: Space | None, analyzer: Analyzer | None) -> None:
        """Take the settings of the collection, or make it with those given."""
        if not self._client.collection_exists(self._collection):
            self._create(space, analyzer or Analyzer())
        points = self._client.retrieve(self._collection, [_SETTINGS])
        if not points or points[0].payload is None:
            raise VectorStoreError(f"the collection {self._collection!r} is another program's; name another")
        facts = points[0].payload
        known = facts["space"]
        self._space = (
            None if known is None else Space(known["fingerprint"], known["dimension"], Metric(known["metric"]))
        )
        self._analyzer = Analyzer(facts["language"])
        if space is not None and space != self._space:
            if self._space is None:
                raise ArgumentError("space", space, "none is possible: the collection was made without; name another")
            raise SpaceMismatch(self._space, space)
        if analyzer is not None and analyzer != self._analyzer:
            raise SettingMismatch("analyzer", self._analyzer.language, analyzer.language)

    def _create(self, space: Space | None, analyzer: Analyzer) -> None:
        links = models.HnswConfigDiff(m=0, payload_m=_TENANT_LINKS)  # links within a tenant alone
        vectors = (
            {}
            if space is None
            else {
                _VECTOR: models.VectorParams(size=space.dimension, distance=_DISTANCES[space.metric], hnsw_config=links)
            }
        )
        self._client.create_collection(self._collection, vectors_config=vectors)
        schemas: dict[str, Any] = {
            "namespace": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
            "terms": models.PayloadSchemaType.KEYWORD,
            "length": models.PayloadSchemaType.INTEGER,
        }
        if self._is_server:  # the local mode has none
            for field, schema in schemas.items():
                self._client.create_payload_index(self._collection, field, field_schema=schema)
        facts = None
        if space is not None:
            facts = {"fingerprint": space.fingerprint, "dimension": space.dimension, "metric": space.metric.value}
        settings = {"space": facts, "language": analyzer.language}
        self._client.upsert(self._collection, [models.PointStruct(id=_SETTINGS, vector={}, payload=settings)])

    @contextmanager
    def _writing(self, name: str, expected: Mapping[str, int]) -> Iterator[dict[str, dict[str, Any]]]:
        """Yield a dictionary of payloads by id, which are given revisions and written in one request at the end."""
        with self._calling():
            for id, wanted in expected.items():
                actual = self._revisions(name, [id]).get(id, 0)
                if actual != wanted:
                    raise RevisionConflict(id, name, wanted, actual)
            changed: dict[str, dict[str, Any]] = {}
            yield changed
            if not changed:
                return
            head = _point_id(name, None)
            stored = self._client.retrieve(self._collection, [head])
            revision = int((stored[0].payload or {})["writes"]) if stored else 0
            points = []
            for id, payload in changed.items():
                if "revision" not in payload:
                    revision += 1
                    payload["revision"] = revision
                payload |= {"id": id, "namespace": _tenant_value(name), "entry": True}
                vector: dict[str, Any] = {}
                if payload["vector"] is not None:
                    vector[_VECTOR] = _decoded(payload["vector"]).tolist()
                points.append(models.PointStruct(id=_point_id(name, id), vector=vector, payload=payload))
            points.append(models.PointStruct(id=head, vector={}, payload={"writes": revision}))
            self._client.upsert(self._collection, points)

    def _change(
        self,
        wanted: Iterable[str],
        namespace: str,
        expect: Mapping[str, int] | None,
        change: Any,
        *,
        same: bool = False,
    ) -> int:
        """Write those of *wanted* that are there with the fields that *change* returns; *same* keeps the revision."""
        name, expected = check_namespace(namespace), check_expect(expect)
        with self._writing(name, expected) as points:
            for id, payload in self._payloads(name, list(wanted)).items():
                kept = payload if same else {key: value for key, value in payload.items() if key != "revision"}
                points[id] = {**kept, **change(id)}
            return len(points)

    def _payload(self, entry: CheckedEntry) -> dict[str, Any]:
        terms = Counter(self._analyzer.terms(entry.context)) if entry.context else Counter[str]()
        for sentence in self._analyzer.sentences(entry.text) if entry.text else ():
            terms.update(sentence)
        return {
            "text": entry.text,
            "context": entry.context,
            "metadata": entry.metadata,
            FIELDS: json.loads(entry.metadata),
            "no_vector": entry.no_vector,
            "vector": None if entry.vector is None else _encoded(entry.vector),
            "terms": list(terms),
            "counts": list(terms.values()),
            "length": terms.total(),
        }

    def _revisions(self, name: str, ids: Sequence[str]) -> dict[str, int]:
        return {id: payload["revision"] for id, payload in self._payloads(name, ids).items()}

    def _payloads(self, name: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return the payloads of those of *ids* that exist, in the order of *ids*."""
        found: dict[str, dict[str, Any]] = {}
        names = list(dict.fromkeys(ids))
        for start in range(0, len(names), PAGE_SIZE):
            points = [_point_id(name, id) for id in names[start : start + PAGE_SIZE]]
            for record in self._client.retrieve(self._collection, points, with_payload=True):
                payload = record.payload or {}
                found[payload["id"]] = payload
        return {id: found[id] for id in names if id in found}

    def _points(
        self, name: str, node: FilterNode, *conditions: models.Condition, keys: list[str]
    ) -> Iterator[dict[str, Any]]:
        """Yield *keys* of the payloads of a namespace's entries that pass *node* and *conditions*."""
        offset: Any = None
        chosen = _tenant(name, qdrant_condition(node), *conditions)
        is_whole = matches_everything(node)
        while True:
            records, offset = self._client.scroll(
                self._collection, scroll_filter=chosen, limit=1000, offset=offset, with_payload=keys
            )
            for record in records:
                payload = record.payload or {}
                if is_whole or matches_filter(node, json.loads(payload["metadata"])):
                    yield payload
            if offset is None:
                return

    def _search(
        self,
        query: Vector,
        k: int,
        where: Filter | FilterNode | None,
        min_score: float | None,
        namespace: str,
        *,
        exact: bool,
    ) -> list[Match]:
        assert self._space is not None, "the caller has checked it"
        name, node = check_namespace(namespace), filter_tree(where)
        check_k(k)
        least = check_min_score(min_score)
        metric, limit = self._space.metric, k + _EXTRA
        prepared = prepare_rows(query[np.newaxis], metric)[0]
        with self._calling():
            while k:
                points = self._client.query_points(
                    self._collection,
                    query=query.tolist(),
                    using=_VECTOR,
                    query_filter=_tenant(name, qdrant_condition(node)),
                    search_params=models.SearchParams(exact=exact) if self._is_server else None,
                    limit=limit,
                ).points
                payloads = [point.payload or {} for point in points]
                passing = [p for p in payloads if matches_filter(node, json.loads(p["metadata"]))]
                if passing:
                    rows = np.stack([_decoded(payload["vector"]) for payload in passing])
                    scores = exact_scores(prepare_rows(rows, metric), prepared, metric).tolist()
                else:
                    scores = []
                ranked = sorted(zip(passing, scores, strict=True), key=lambda pair: (-pair[1], pair[0]["id"]))
                if len(points) < limit or (len(ranked) >= k and self._is_behind(points[-1].score, ranked[k - 1][1])):
                    return [
                        Match(_entry(payload), score)
                        for payload, score in ranked[:k]
                        if least is None or score >= least
                    ]
                limit *= _WIDER
            return []

    def _is_behind(self, rounded: float, score: float) -> bool:
        """Return whether all points after one of the *rounded* score of Qdrant's are behind *score*."""
        assert self._space is not None, "the caller has checked it"
        highest = -rounded if self._space.metric is Metric.L2 else rounded
        return highest + _ROUNDING * max(1.0, abs(rounded)) < score

    def _text_scores(self, name: str, asked: Sequence[str], found: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Return BM25 of the payloads *found*, by id."""
        if not found:
            return {}
        total = self._client.count(self._collection, count_filter=_tenant(name), exact=True).count
        lengths = self._client.facet(self._collection, "length", facet_filter=_tenant(name), limit=_MANY, exact=True)
        average = sum(int(hit.value) * hit.count for hit in lengths.hits) / total
        scores = dict.fromkeys((payload["id"] for payload in found), 0.0)
        for term in asked:
            condition = models.FieldCondition(key="terms", match=models.MatchValue(value=term))
            df = self._client.count(self._collection, count_filter=_tenant(name, condition), exact=True).count
            having = [payload for payload in found if term in payload["terms"]]
            if not having:
                continue
            counts = np.array([payload["counts"][payload["terms"].index(term)] for payload in having])
            shares = bm25_shares(idf(total, df), counts, np.array([p["length"] for p in having]), average)
            for payload, share in zip(having, shares.tolist(), strict=True):
                scores[payload["id"]] += share
        return scores

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Hold the lock, refuse a closed store, and translate the client's errors."""
        with self._lock:
            self._check_open()
            try:
                yield
            except (ResponseHandlingException, httpx.TransportError) as error:
                raise ServerUnavailable(
                    f"qdrant: the server cannot be reached, or was lost in the call ({error})"
                ) from error
            except ApiException as error:
                raise VectorStoreError(f"qdrant: {error}") from error

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed


def _client_at(address: str) -> tuple[QdrantClient, str]:
    """Return a client of the server, or of the folder, at *address*, and the name of its collection."""
    if not isinstance(address, str) or not address.startswith("qdrant:"):
        raise ArgumentError("address", address, "an address like 'qdrant://host:6333/collection' is needed")
    parts = urlsplit(address)
    parameters = dict(parse_qsl(parts.query))
    unknown = parameters.keys() - {"collection", "https"}
    if unknown or parts.username or parts.password:
        raise ArgumentError("address", parts.hostname, "only ?collection= and ?https=1; a key is in QDRANT_API_KEY")
    collection = parameters.get("collection", DEFAULT_COLLECTION)
    if parts.netloc:
        named = unquote(parts.path).strip("/")
        client = QdrantClient(
            host=parts.hostname,
            port=parts.port or 6333,
            https=parameters.get("https") == "1",
            api_key=os.environ.get("QDRANT_API_KEY"),
            check_compatibility=False,
        )
        return client, named or collection
    if parts.path:
        return QdrantClient(path=str(Path(unquote(parts.path)[1:]))), collection
    return QdrantClient(location=":memory:"), collection


def _point_id(name: str, id: str | None) -> str:
    """Return the UUID of an entry, or with None of the namespace's own point."""
    return str(uuid.uuid5(_ROOT, json.dumps([name, id])))


def _tenant_value(name: str) -> str:
    """Return the value of a namespace in payloads, which is never empty."""
    return "=" + name


def _tenant(name: str, *conditions: models.Condition | None) -> models.Filter:
    tenant = models.FieldCondition(key="namespace", match=models.MatchValue(value=_tenant_value(name)))
    return models.Filter(must=[tenant, *(condition for condition in conditions if condition is not None)])


def _entries_filter() -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key="entry", match=models.MatchValue(value=True))])


def _encoded(vector: Vector) -> str:
    return base64.b64encode(vector.astype("<f4", copy=False).tobytes()).decode()


def _decoded(text: str) -> Vector:
    return np.frombuffer(bytearray(base64.b64decode(text)), dtype="<f4").astype(np.float32, copy=False)


def _entry(payload: Mapping[str, Any]) -> Entry:
    vector = None if payload["vector"] is None else _decoded(payload["vector"])
    metadata = json.loads(payload["metadata"])
    return Entry(
        payload["id"], vector, payload["text"], payload["context"], metadata, payload["revision"], payload["no_vector"]
    )


def _is_in_state(payload: Mapping[str, Any], embedded: bool | None) -> bool:
    if embedded is None:
        return True
    has_vector = payload["vector"] is not None
    return has_vector if embedded else not has_vector and payload["no_vector"] is None
