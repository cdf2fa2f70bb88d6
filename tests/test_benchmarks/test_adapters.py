"""Every adapter whose package is installed gives the answers of numpy by hand, in the process that the race asks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.stores import clustered
from benchmarks.stores.asking import Asked
from benchmarks.stores.contenders import BY_KEY, CONTENDERS, Contender, missing
from benchmarks.stores.data import KINDS, SHARES, Data
from benchmarks.stores.truth import Truth

pytestmark = pytest.mark.slow

ROWS, DIMENSION, QUERIES = 1_200, 32, 64
ENOUGH = 0.9
SEARCHED = [contender for contender in CONTENDERS if "search" in contender.measures]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    clustered.make(folder, n=ROWS, d=DIMENSION, seed=5, queries=QUERIES)
    return folder


def filled(contender: Contender, folder: Path, data: Path) -> Asked:
    if (why := missing(contender)) is not None:
        pytest.skip(why)
    source = BY_KEY[contender.file_of] if contender.file_of else contender
    store = Asked(source, folder, data)
    try:
        assert store.ask("fill", text=True)["seconds"] > 0
        store.ask("close")
    finally:
        store.close()
    return Asked(contender, folder, data)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.fixture(scope="module")
def store(request: pytest.FixtureRequest, folder: Path, data: Path) -> Iterator[Asked]:
    """Each store in turn, filled once; the tests that change it stand last."""
    asked = filled(request.param, folder / request.param.key, data)
    yield asked
    asked.close()


def those(*needs: str) -> pytest.MarkDecorator:
    able = [item for item in CONTENDERS if set(needs) <= item.measures]
    return pytest.mark.parametrize("store", able, ids=lambda item: item.key, indirect=True)


def fair(store: Asked, recall: float) -> bool:
    return recall >= (ENOUGH if store.contender.approximate else 1.0)


@those("search")
def test_a_search_finds_the_nearest_and_returns_their_own_rows(store: Asked, data: Path) -> None:
    answer = store.ask("answers", count=QUERIES, k=10)
    assert answer["rows"]
    assert all(len(ids) == 10 for ids in answer["ids"])
    assert fair(store, Truth(Data(data), QUERIES).recall(answer["ids"], 10))


@those("filter")
def test_a_filter_comes_before_the_nearest_are_chosen(store: Asked, data: Path) -> None:
    truth = Truth(Data(data), QUERIES)
    for kind in SHARES:
        answer = store.ask("answers", count=QUERIES, k=10, kind=kind)
        assert fair(store, truth.recall(answer["ids"], 10, kind)), kind


@those("many")
def test_the_bulk_call_answers_each_query_in_its_place(store: Asked, data: Path) -> None:
    answer = store.ask("many_answers", k=10)
    assert len(answer["ids"]) == QUERIES
    assert fair(store, Truth(Data(data), QUERIES).recall(answer["ids"], 10))


@those("text")
def test_a_text_search_finds_rows(store: Asked) -> None:
    answer = store.ask("timed", what="text", start=0, calls=4, seconds=600, k=10)
    assert len(answer["times"]) == 4
    assert answer["found"] == 10


@those("seen")
def test_a_row_that_was_added_is_found_and_one_that_was_deleted_is_not(store: Asked) -> None:
    assert len(store.ask("add_and_see", extra=[0, 1, 2])["times"]) == 3
    assert store.ask("see", extra=1)["seen"]
    store.ask("delete", extra=[1, 2])
    assert store.ask("see", extra=0)["seen"]
    assert not store.ask("see", extra=1)["seen"]
    assert not store.ask("see", extra=2)["seen"]


@those("seen")
def test_a_persistent_adapter_finds_its_rows_after_a_reopen(store: Asked, folder: Path, data: Path) -> None:
    store.ask("add_together", extra=[7])
    store.ask("close")
    store.close()
    again = Asked(store.contender, folder / store.contender.key, data)
    try:
        assert again.ask("see", extra=7)["seen"]
    finally:
        again.close()


def test_the_rows_of_each_kind_have_their_exact_share(data: Path) -> None:
    rows = Data(data)
    for kind, share in SHARES.items():
        assert int((rows.kinds[:ROWS] == KINDS.index(kind)).sum()) == round(share * ROWS)


def test_every_store_that_can_be_searched_takes_part() -> None:
    assert {"chroma", "lancedb", "lancedb-indexed", "sqlite-vec"} <= {item.key for item in SEARCHED}
    assert {item.key for item in SEARCHED if item.ours} >= {"tellback-numpy", "tellback-sqlite", "tellback-tenth"}
