"""Embedders of endpoints over real HTTP: batches, refusals, cut texts, nonsense; the official clients as oracles.

Inner parts, on no face: ``tellback.memory.embedders.batching``, ``tellback.memory.embedders.protocol``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from tellback.memory import (
    ArgumentError,
    EmbedderError,
    HashingEmbedder,
    OllamaEmbedder,
    OpenAICompatibleEmbedder,
    run_sync,
)
from tellback.memory.embedders.batching import gather_bounded
from tellback.memory.embedders.protocol import DetailedEmbedder
from tellback.memory.http import HttpClient
from tellback.memory.testing import EmbedderContract

KEY = "sk-secret-0123456789"


@dataclass
class Server:
    """Server of both wire formats with a limit of *limit* words a text; it can be set to misbehave."""

    url: str = ""
    limit: int = 10_000
    poison: str | None = None
    refusal: int = 400
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    most: int = 0
    meets: int = 1
    """How many requests must once have been under way together before any is answered; a minute is waited for it."""
    twist: Callable[[dict[str, Any]], Any] = lambda answer: answer
    status: Callable[[int], tuple[int, dict[str, str]] | None] = lambda number: None
    _now: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def answer(self, path: str, payload: dict[str, Any]) -> tuple[int, Any, dict[str, str]]:
        given = payload["input"]
        texts = [given] if isinstance(given, str) else given
        if (stated := self.status(len(self.requests))) is not None:
            return stated[0], {"error": {"message": f"no, and your key {KEY} is known"}}, stated[1]
        if payload["model"] == "absent":
            return 400, {"error": {"message": "model 'absent' is not served"}}, {}
        if self.poison is not None and any(self.poison in text for text in texts):
            return self.refusal, {"error": {"message": "the input is not acceptable"}}, {}
        counts = [len(text.split()) for text in texts]
        if max(counts) > self.limit and not payload.get("truncate"):
            said_so = f"the input length exceeds the context length of {self.limit} tokens"
            return 400, {"error": {"message": said_so} if path.startswith("/v1") else said_so}, {}
        read = [" ".join(text.split()[: self.limit]) if payload.get("truncate") else text for text in texts]
        vectors = [vector_of(text) for text in read]
        tokens = sum(min(count, self.limit) for count in counts)
        if path.startswith("/v1"):
            data = [{"object": "embedding", "index": n, "embedding": vector} for n, vector in enumerate(vectors)]
            usage = {"prompt_tokens": tokens, "total_tokens": tokens}
            return 200, {"object": "list", "data": data, "model": payload["model"], "usage": usage}, {}
        return 200, {"model": payload["model"], "embeddings": vectors, "prompt_eval_count": tokens}, {}

    @contextmanager
    def busy(self) -> Iterator[None]:
        with self._changed:
            self._now += 1
            self.most = max(self.most, self._now)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.most >= self.meets, 60)
        try:
            if self.meets > 1:
                time.sleep(0.02)  # one too many would come now
            yield
        finally:
            with self._changed:
                self._now -= 1


def vector_of(text: str) -> list[float]:
    return (run_sync(HashingEmbedder(dimension=16).embed([text]))[0].astype(float) * 3).tolist()


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
            state.requests.append(payload)
            state.headers.append({name.lower(): value for name, value in self.headers.items()})
            state.paths.append(self.path)
            with state.busy():
                status, answer, headers = state.answer(self.path, payload)
            content = json.dumps(state.twist(answer)).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    class Listening(ThreadingHTTPServer):
        request_queue_size = 64

        def handle_error(self, *_: Any) -> None:
            pass  # a client that gave up

    with Listening(("127.0.0.1", 0), Handler) as httpd:
        state.url = f"http://127.0.0.1:{httpd.server_address[1]}"
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield state
        httpd.shutdown()
        thread.join()


def ollama(server: Server, **options: Any) -> OllamaEmbedder:
    return OllamaEmbedder("toy", base_url=server.url, client=HttpClient(retries=0), **options)


def openai(server: Server, **options: Any) -> OpenAICompatibleEmbedder:
    return OpenAICompatibleEmbedder(server.url + "/v1", "toy", client=HttpClient(retries=0), **options)


BOTH = pytest.mark.parametrize("make", [ollama, openai])


class TestOllamaEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, server: Server) -> OllamaEmbedder:
        return ollama(server)


@pytest.mark.slow
class TestOpenAICompatibleEmbedderInSmallBatches(EmbedderContract):
    @pytest.fixture
    def embedder(self, server: Server) -> OpenAICompatibleEmbedder:
        return openai(server, batch_texts=16, concurrency=3)


def test_an_ollama_request_disables_truncation_and_carries_no_unset_options(server: Server) -> None:
    run_sync(ollama(server).embed(["one", "two"]))
    assert server.requests == [{"model": "toy", "input": ["one", "two"], "truncate": False}]
    assert server.paths == ["/api/embed"]
    assert "authorization" not in server.headers[0]


def test_an_ollama_request_carries_all_options_prefix_and_api_key(server: Server) -> None:
    embedder = ollama(
        server, dimensions=16, keep_alive="10m", options={"num_ctx": 512}, query_prefix="q: ", api_key=KEY
    )
    run_sync(embedder.embed(["one"], "query"))
    sent = server.requests[0]
    assert sent["input"] == ["q: one"]
    assert (sent["dimensions"], sent["keep_alive"], sent["options"]) == (16, "10m", {"num_ctx": 512})
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@BOTH
def test_equal_texts_are_sent_once_and_blank_ones_not_at_all(server: Server, make: Any) -> None:
    vectors = run_sync(make(server).embed(["a", "b", "a", " ", "b", ""]))
    assert [request["input"] for request in server.requests] == [["a", "b"]]
    assert np.array_equal(vectors[0], vectors[2])
    assert np.array_equal(vectors[1], vectors[4])
    assert not vectors[3].any()
    assert not vectors[5].any()


@BOTH
def test_embedding_requests_are_batched_by_tokens(server: Server, make: Any) -> None:
    texts = ["short", "word " * 60, "tiny", "word " * 61, "last"]
    run_sync(make(server, batch_tokens=200).embed(texts))
    assert sorted(request["input"] for request in server.requests) == sorted([texts[:3], texts[3:]])


@BOTH
def test_embedding_requests_run_concurrently_up_to_the_limit(server: Server, make: Any) -> None:
    server.meets = 3
    texts = [f"text {n}" for n in range(24)]
    vectors = run_sync(make(server, batch_texts=2, concurrency=3).embed(texts))
    assert len(server.requests) == 12
    assert server.most == 3
    assert np.allclose(vectors, run_sync(make(server).embed(texts)), atol=1e-6)


def test_gather_bounded_cancels_the_other_calls_and_raises_the_first_failure() -> None:
    begun, ended = [], []

    async def call(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0)
        if number == 1:
            raise EmbedderError("one failed")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise RuntimeError("while it was ended") from None
        ended.append(number)
        return number

    with pytest.raises(EmbedderError, match="one failed"):
        asyncio.run(gather_bounded([lambda n=n: call(n) for n in range(10)], 3))
    assert begun == [0, 1, 2]
    assert ended == []


@pytest.mark.parametrize("status", [400, 422])
@BOTH
def test_a_text_refused_by_the_server_is_reported_and_the_other_texts_have_vectors(
    server: Server, make: Any, status: int
) -> None:
    server.poison, server.refusal = "forbidden", status
    texts = [f"note {n}" for n in range(9)]
    texts[6] = "a forbidden note"
    answer = run_sync(make(server).embed_detailed(texts))
    assert list(answer.refused) == [6]
    assert "not acceptable" in answer.refused[6]
    assert not answer.vectors[6].any()
    assert all(answer.vectors[place].any() for place in range(9) if place != 6)
    with pytest.raises(EmbedderError, match="not acceptable"):
        run_sync(make(server).embed(texts))


@pytest.mark.parametrize("kind", [OllamaEmbedder, OpenAICompatibleEmbedder])
def test_a_server_that_refuses_all_texts_gets_two_requests_before_the_error(server: Server, kind: Any) -> None:
    client = HttpClient(retries=0)
    place = {"base_url": server.url + ("/v1" if kind is OpenAICompatibleEmbedder else "")}
    embedder = kind(model="absent", client=client, **place)
    with pytest.raises(EmbedderError, match="'absent' is not served"):
        run_sync(embedder.embed_detailed([f"text {n}" for n in range(50)]))
    assert len(server.requests) == 2


@BOTH
def test_a_too_long_text_is_truncated_and_reported_with_kept_and_total_tokens(server: Server, make: Any) -> None:
    server.limit = 20
    long = " ".join(f"word{n}" for n in range(90))
    answer = run_sync(make(server).embed_detailed(["short one", long]))
    assert list(answer.truncated) == [1]
    reported = answer.truncated[1]
    assert 5 <= reported.kept <= 20 < reported.of
    assert str(reported) == f"truncated (kept {reported.kept} of {reported.of} tokens)"
    assert answer.refused == {}
    assert answer.vectors[1].any()
    assert np.allclose(run_sync(make(server).embed([long]))[0], answer.vectors[1], atol=1e-6)


@BOTH
def test_a_text_too_large_for_the_server_is_truncated(server: Server, make: Any) -> None:
    server.poison, server.refusal = "end", 413
    text = f"{'word ' * 50}end"
    answer = run_sync(make(server).embed_detailed(["short", text]))
    assert (list(answer.truncated), answer.refused) == ([1], {})
    assert server.requests[-1]["input"] == [text[: len(text) // 2]]


@BOTH
def test_a_text_too_large_at_any_truncation_is_reported_as_refused(server: Server, make: Any) -> None:
    server.poison, server.refusal = "w", 413
    answer = run_sync(make(server).embed_detailed(["short", "w" * 1000]))
    assert (list(answer.refused), answer.truncated) == ([1], {})
    assert len(server.requests) < 20


@BOTH
def test_a_text_whose_truncated_beginning_is_refused_is_reported_as_refused(server: Server, make: Any) -> None:
    server.limit, server.status = 20, lambda number: (422, {}) if number == 5 else None
    answer = run_sync(make(server).embed_detailed(["short", "word " * 50]))
    assert (list(answer.refused), answer.truncated) == ([1], {})
    assert "422" in answer.refused[1]
    assert answer.vectors[0].any()


def test_a_too_long_text_is_truncated_by_ollama_at_its_exact_limit(server: Server) -> None:
    server.limit = 20
    long = " ".join(f"word{n}" for n in range(90))
    answer = run_sync(ollama(server).embed_detailed([long]))
    assert answer.truncated[0].kept == 20
    kept = np.array(vector_of(" ".join(long.split()[:20])))
    assert np.allclose(answer.vectors[0], kept / np.linalg.norm(kept), atol=1e-6)
    both = run_sync(ollama(server, max_tokens=200).embed_detailed([long]))  # cut before it is sent, and cut again there
    assert 20 < len(server.requests[-1]["input"][0].split()) < 90
    assert both.truncated == answer.truncated


@BOTH
def test_max_tokens_truncates_texts_before_the_first_request(server: Server, make: Any) -> None:
    answer = run_sync(make(server, max_tokens=10).embed_detailed(["x" * 30, "y" * 31, "ü" * 100]))
    assert server.requests[0]["input"] == ["x" * 30, "y" * 30, "ü" * 5]  # a letter with a mark takes two at most
    assert {place: (item.kept, item.of) for place, item in answer.truncated.items()} == {1: (10, 11), 2: (10, 200)}


@pytest.mark.parametrize(
    ("twist", "named"),
    [
        (lambda answer: {**answer, "embeddings": answer["embeddings"][:1]}, "1 embeddings for 2 texts"),
        (lambda answer: {"embedding": answer["embeddings"][0]}, "no list"),
        (lambda answer: [], "no list"),
        (lambda answer: {**answer, "embeddings": [[0.0] * 16] * 2}, "zeros"),
        (lambda answer: {**answer, "embeddings": [[float("nan")] * 16] * 2}, "not finite"),
        (lambda answer: {**answer, "embeddings": [[1.0] * 16, [1.0] * 8]}, "8 numbers where 16"),
        (lambda answer: {**answer, "embeddings": [[[1.0]], [[1.0]]]}, "for each token"),
        (lambda answer: {**answer, "embeddings": ["x", None]}, "not a list of numbers"),
    ],
)
def test_a_malformed_answer_of_ollama_is_an_embedder_error(server: Server, twist: Any, named: str) -> None:
    server.twist = twist
    with pytest.raises(EmbedderError, match=named):
        run_sync(ollama(server).embed(["one", "two"]))


@BOTH
def test_an_api_key_is_in_no_repr_no_error_and_no_log(
    server: Server, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.status = lambda number: (401, {})
    embedder = make(server, api_key=KEY)
    with pytest.raises(EmbedderError) as caught:
        run_sync(embedder.embed(["one"]))
    stated = (
        f"{caught.value!r} {caught.value} {caught.value.__cause__!r} {embedder!r} {embedder.fingerprint} {caplog.text}"
    )
    assert "401" in stated
    assert KEY not in stated


@BOTH
def test_a_throttled_embedding_request_is_retried_after_a_bounded_retry_after(server: Server, make: Any) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    named = {1: "7", 2: "86400"}
    server.status = lambda number: (429, {"retry-after": named[number]}) if number in named else None
    kind, url = (OllamaEmbedder, server.url) if make is ollama else (OpenAICompatibleEmbedder, server.url + "/v1")
    embedder = kind(model="toy", base_url=url, client=HttpClient(retries=2, sleep=sleep, rng=lambda: 1.0))
    assert run_sync(embedder.embed(["one"])).shape == (1, 16)
    assert waits == [7.0, 0.75]


@pytest.mark.parametrize("make", [OllamaEmbedder, OpenAICompatibleEmbedder])
def test_an_embedder_without_a_given_http_client_retries_transient_failures(server: Server, make: Any) -> None:
    server.status = lambda number: (503, {"retry-after-ms": "1"}) if number == 1 else None
    options = {"base_url": server.url} if make is OllamaEmbedder else {}
    embedder = make(*([server.url + "/v1"] if not options else []), "toy", **options)
    assert run_sync(embedder.embed(["one"])).any()
    assert len(server.requests) == 2
    run_sync(embedder.aclose())


@BOTH
def test_an_offline_embedder_sends_nothing_to_another_machine(server: Server, make: Any) -> None:
    kind = OllamaEmbedder if make is ollama else OpenAICompatibleEmbedder
    far = kind(model="toy", base_url="http://192.0.2.1:9", client=HttpClient(offline=True, retries=0))
    with pytest.raises(EmbedderError, match="offline"):
        run_sync(far.embed(["one"]))


def test_the_fingerprint_of_an_untagged_ollama_model_is_that_of_its_latest_tag() -> None:
    assert OllamaEmbedder("m:latest").fingerprint == OllamaEmbedder("m").fingerprint
    assert OllamaEmbedder("m:1b").fingerprint != OllamaEmbedder("m").fingerprint
    assert OllamaEmbedder("m", fingerprint="mine/1").fingerprint == "mine/1"


@BOTH
def test_endpoint_embedders_are_detailed_embedders(server: Server, make: Any) -> None:
    assert isinstance(make(server), DetailedEmbedder)


@pytest.mark.parametrize("name", ["batch_texts", "batch_tokens", "max_tokens", "concurrency", "dimensions"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5])
@BOTH
def test_unusable_numbers_for_endpoint_embedders_are_argument_errors(make: Any, name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=name):
        make(Server(url="http://127.0.0.1:1"), **{name: value})


@BOTH
def test_an_invalid_token_counter_for_an_endpoint_embedder_is_an_argument_error(make: Any) -> None:
    with pytest.raises(ArgumentError, match="counter"):
        make(Server(url="http://127.0.0.1:1"), counter=len)


@pytest.mark.slow
def test_the_official_openai_client_gets_the_same_vectors(server: Server) -> None:
    official = pytest.importorskip("openai", reason="the oracle is in the extra dev")
    texts = ["Zürich 🚀 東京", "def f(): pass", "word " * 100]
    client = official.OpenAI(api_key=KEY, base_url=server.url + "/v1", max_retries=0)
    with client:
        theirs = client.embeddings.create(model="toy", input=texts, dimensions=16, encoding_format="float")
    mine = run_sync(openai(server, dimensions=16, api_key=KEY).embed(texts))
    asked, own = server.requests
    assert {**own, "encoding_format": "float"} == asked
    assert server.headers[0]["authorization"] == server.headers[1]["authorization"]
    assert np.allclose(mine, unit([item.embedding for item in theirs.data]), atol=1e-6)


def test_the_official_ollama_client_gets_the_same_vectors(server: Server) -> None:
    official = pytest.importorskip("ollama", reason="the oracle is in the extra dev")
    texts = ["Zürich 🚀 東京", "def f(): pass", "word " * 100]
    theirs = official.Client(host=server.url).embed(model="toy", input=texts, truncate=False, dimensions=16)
    mine = run_sync(ollama(server, dimensions=16).embed(texts))
    asked, own = server.requests
    assert own == asked
    assert server.paths[0] == server.paths[1]
    assert np.allclose(mine, unit(theirs.embeddings), atol=1e-6)


def unit(rows: Any) -> np.ndarray:
    found = np.array(rows, np.float64)
    return found / np.linalg.norm(found, axis=1, keepdims=True)
