"""Any function as an embedder, and what all embedders report.

Inner parts, on no face: ``tellback.memory.embedders.batching``, ``tellback.memory.embedders.fingerprint``,
``tellback.memory.embedders.protocol``.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

from tellback.memory import ArgumentError, EmbedderError, FunctionEmbedder, HashingEmbedder, run_sync
from tellback.memory.embedders.batching import truncate_text
from tellback.memory.embedders.fingerprint import is_same_model, marked_fingerprint, probe_embedder, probe_similarity
from tellback.memory.embedders.protocol import Truncation, embed_detailed, is_space_of, measure_truncation
from tellback.memory.internals import PROBES
from tellback.memory.testing import EmbedderContract
from tellback.vectorstore import Space

HASHING = HashingEmbedder(dimension=32)


def many(texts: list[str]) -> list[list[float]]:
    return (run_sync(HASHING.embed(texts)) * 5).tolist()


def one(text: str) -> np.ndarray:
    return run_sync(HASHING.embed([text]))[0] * 2


async def many_later(texts: list[str]) -> Any:
    await asyncio.sleep(0)
    return await HASHING.embed(texts)


async def one_later(text: str) -> Any:
    await asyncio.sleep(0)
    return (await HASHING.embed([text]))[0].astype(np.float64)


FUNCTIONS = [("texts", many), ("text", one), ("texts", many_later), ("text", one_later)]


class FunctionContract(EmbedderContract):
    takes: Any = "texts"
    function: Any = staticmethod(many)

    @pytest.fixture
    def embedder(self) -> FunctionEmbedder:
        return FunctionEmbedder(type(self).function, fingerprint="mine/1", takes=self.takes, concurrency=4)


class TestFunctionOfMany(FunctionContract):
    pass


@pytest.mark.slow
class TestFunctionOfOne(FunctionContract):
    takes, function = "text", staticmethod(one)


@pytest.mark.slow
class TestAwaitedFunctionOfMany(FunctionContract):
    function = staticmethod(many_later)


@pytest.mark.slow
class TestAwaitedFunctionOfOne(FunctionContract):
    takes, function = "text", staticmethod(one_later)


@pytest.mark.slow
class TestFunctionWithMaxTokens(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> FunctionEmbedder:
        return FunctionEmbedder(many, fingerprint="mine/1", max_tokens=5000)


def test_a_synchronous_function_embedder_runs_outside_the_event_loop_thread() -> None:
    threads = set()

    def slow(texts: list[str]) -> Any:
        threads.add(threading.current_thread())
        return many(texts)

    run_sync(FunctionEmbedder(slow, fingerprint="f").embed(["a", "b"]))
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("takes", ["texts", "text"])
def test_a_function_embedder_gets_equal_texts_once_and_no_blank_texts(takes: Any) -> None:
    given: list[Any] = []

    def function(argument: Any) -> Any:
        given.append(argument)
        return one(argument) if takes == "text" else many(argument)

    run_sync(FunctionEmbedder(function, fingerprint="f", takes=takes).embed(["a", "b", "a", "", "b"]))
    assert given == (["a", "b"] if takes == "text" else [["a", "b"]])


def test_a_function_embedder_can_have_a_function_for_queries() -> None:
    embedder = FunctionEmbedder(many, queries=lambda texts: many([f"query: {text}" for text in texts]), fingerprint="f")
    asked, stated = run_sync(embedder.embed(["cat"], "query")), run_sync(embedder.embed(["query: cat"]))
    assert np.allclose(asked, stated)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (lambda texts: many(texts)[:-1], "1 vectors for 2 texts"),
        (lambda texts: None, "no list of vectors"),
        (lambda texts: 7, "no list of vectors"),
        (lambda texts: np.zeros((2, 4)), "zeros"),
        (lambda texts: np.full((2, 4), np.nan), "not finite"),
        (lambda texts: [[1.0, 2.0], [1.0]], "1 numbers where 2"),
        (lambda texts: np.ones((2, 3, 4)), "instead of one vector"),
        (lambda texts: np.array([["a"], ["b"]]), "instead of one vector"),
        (lambda texts: [{}, {}], "not a list of numbers"),
        (lambda texts: "ab", "not a list of numbers"),
    ],
)
def test_invalid_vectors_from_a_function_are_an_embedder_error(answer: Any, named: str) -> None:
    with pytest.raises(EmbedderError, match=named):
        run_sync(FunctionEmbedder(answer, fingerprint="f").embed(["a", "b"]))


def test_a_function_embedder_refuses_a_dimension_that_changes_between_calls() -> None:
    lengths = iter([3, 4])
    embedder = FunctionEmbedder(lambda texts: np.ones((len(texts), next(lengths))), fingerprint="f")
    run_sync(embedder.embed(["a"]))
    with pytest.raises(EmbedderError, match="4 numbers where 3"):
        run_sync(embedder.embed(["b"]))
    assert embedder.dimension == 3


def test_a_function_embedder_refuses_vectors_of_another_than_its_declared_dimension() -> None:
    with pytest.raises(EmbedderError, match="32 numbers where 3"):
        run_sync(FunctionEmbedder(many, fingerprint="f", dimension=3).embed(["a"]))


@pytest.mark.parametrize(("takes", "most"), [("texts", 1), ("texts", 3), ("text", 2)])
def test_a_function_embedder_runs_concurrent_calls_up_to_the_limit(takes: Any, most: int) -> None:
    now: list[int] = [0]
    seen: list[int] = []

    async def function(argument: Any) -> Any:
        now[0] += 1
        seen.append(now[0])
        await asyncio.sleep(0.002)
        now[0] -= 1
        return one(argument) if takes == "text" else many(argument)

    embedder = FunctionEmbedder(function, fingerprint="f", takes=takes, batch_texts=2, concurrency=most)
    run_sync(embedder.embed([f"note {number}" for number in range(16)]))
    assert max(seen) == most


def test_a_function_embedder_batches_texts_by_count_and_size() -> None:
    given: list[int] = []

    def function(texts: list[str]) -> Any:
        given.append(len(texts))
        return many(texts)

    run_sync(FunctionEmbedder(function, fingerprint="f", batch_texts=3).embed([f"note {n}" for n in range(8)]))
    assert given == [3, 3, 2]
    given.clear()
    run_sync(FunctionEmbedder(function, fingerprint="f").embed(["a" * 150_000, "b" * 50_000, "c"]))
    assert given == [2, 1]


def test_a_function_embedder_truncates_texts_at_max_tokens_and_reports_it() -> None:
    class Words:
        name, exact = "words", True

        def count(self, text: str) -> int:
            return len(text.split())

    given: list[str] = []

    def function(texts: list[str]) -> Any:
        given.extend(texts)
        return many(texts)

    embedder = FunctionEmbedder(function, fingerprint="f", max_tokens=3, counter=Words())
    texts = ["one two three", "one two three four five", "", "one two three four five"]
    answer = run_sync(embedder.embed_detailed(texts))
    assert [text.split() for text in given] == [["one", "two", "three"], ["one", "two", "three"]]
    assert answer.truncated == {1: Truncation(3, 5), 3: Truncation(3, 5)}
    assert answer.vectors[1:].any(axis=1).tolist() == [True, False, True]
    assert not run_sync(FunctionEmbedder(function, fingerprint="f").embed_detailed(texts)).truncated
    letter = FunctionEmbedder(function, fingerprint="f", max_tokens=1, counter=Words())
    assert run_sync(letter.embed_detailed(["one "])).truncated == {}
    assert run_sync(letter.embed_detailed(["on e"])).truncated == {0: Truncation(1, 2)}


def test_truncate_text_keeps_the_longest_beginning_within_the_limit() -> None:
    for limit in (1, 2, 7, 49, 50, 99):
        assert truncate_text("x" * 100, limit, len) == "x" * limit
    assert truncate_text("x" * 100, 100, len) == truncate_text("x" * 100, None, len) == "x" * 100
    assert truncate_text("ab", 1, lambda text: 5 * len(text)) == "a", "something of a text is always given"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 5, "counter": len}, "counter"),
        ({"function": 7}, "function"),
        ({"queries": 7}, "queries"),
        ({"fingerprint": " "}, "fingerprint"),
        ({"takes": "words"}, "takes"),
        ({"dimension": 0}, "dimension"),
        ({"batch_texts": 0}, "batch_texts"),
        ({"concurrency": 0}, "concurrency"),
    ],
)
def test_unusable_settings_of_a_function_embedder_are_argument_errors(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        FunctionEmbedder(**{"function": many, "fingerprint": "f", **options})


def test_the_total_of_a_truncation_exceeds_the_kept_tokens() -> None:
    assert measure_truncation("a b", "a b c", lambda text: len(text.split())) == Truncation(2, 3)
    assert measure_truncation("a b", "a b c", lambda text: len(text.split()), kept=9) == Truncation(9, 10)


def test_a_plain_embedder_reports_no_truncated_and_no_refused_texts() -> None:
    answer = run_sync(embed_detailed(HASHING, ["a"]))
    assert (dict(answer.truncated), dict(answer.refused)) == ({}, {})


def test_probes_of_one_model_agree_and_probes_of_another_model_do_not() -> None:
    mine = run_sync(probe_embedder(HASHING))
    assert mine.shape == (len(PROBES), 32)
    noise = np.random.default_rng(1).normal(0, 1e-3, mine.shape).astype(np.float32)
    assert is_same_model(mine, mine + noise)
    assert not is_same_model(mine, np.roll(mine, 1, axis=1))
    assert not is_same_model(mine, run_sync(probe_embedder(HashingEmbedder(dimension=16))))
    assert probe_similarity(mine, mine[:1]) == -1


@pytest.mark.parametrize("place", range(len(PROBES)))
def test_a_single_differing_probe_shows_another_model(place: int) -> None:
    mine = run_sync(probe_embedder(HASHING))
    other = mine.copy()
    other[place] = np.roll(other[place], 1)
    assert not is_same_model(mine, other)
    assert probe_similarity(mine, other) < 0.9


def test_a_space_with_a_marked_fingerprint_still_belongs_to_its_embedder() -> None:
    mine = run_sync(probe_embedder(HASHING))
    name = marked_fingerprint(HASHING.fingerprint, mine)
    assert name != HASHING.fingerprint
    assert is_space_of(Space(name, 32), HASHING)
    assert is_space_of(Space(HASHING.fingerprint, 32), HASHING)
    assert not is_space_of(Space("another/1", 32), HASHING)
    assert not is_space_of(Space(marked_fingerprint("another/1", mine), 32), HASHING)
    assert marked_fingerprint(HASHING.fingerprint, np.roll(mine, 1, axis=1)) != name
