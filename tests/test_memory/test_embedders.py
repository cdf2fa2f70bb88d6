"""Embedders: the contract, the local table, hashing, and a server that answers nonsense.

Inner parts, on no face: ``tellback.memory.embedders.batching``, ``tellback.memory.embedders.local``.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tellback.memory.embedders.local as local
from tellback.memory import (
    ArgumentError,
    EmbedderError,
    HashingEmbedder,
    LocalEmbedder,
    OpenAICompatibleEmbedder,
    run_sync,
)
from tellback.memory.embedders.batching import split_batches
from tellback.memory.embedders.local import TokenVectorTable, installed_table
from tellback.memory.http import HttpClient
from tellback.memory.internals import local_available
from tellback.memory.testing import EmbedderContract
from tellback.vectorstore import MissingExtra

needs_local = pytest.mark.skipif(not local_available(), reason="the extra 'local' is not installed")


class Asked:
    """Requests to a fake embedding server, and its answers instead of the truth."""

    def __init__(self) -> None:
        self.url = ""
        self.payloads: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.twist: Callable[[list[dict[str, Any]]], Any] = lambda items: {"data": items}


def honest_vector(text: str) -> list[float]:
    """Return a vector that depends on the text, of any length but zero."""
    return (run_sync(HashingEmbedder(dimension=16).embed([text]))[0].astype(float) * 3).tolist()


@contextmanager
def embedding_server() -> Iterator[Asked]:
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            payload = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.payloads.append(payload)
            asked.headers.append({name.lower(): value for name, value in self.headers.items()})
            items = [
                {"object": "embedding", "index": n, "embedding": honest_vector(text)}
                for n, text in enumerate(payload["input"])
            ]
            answer = asked.twist(items)
            status = 400 if "error" in answer else 200
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        asked.url = f"http://127.0.0.1:{httpd.server_address[1]}/v1"
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield asked
        httpd.shutdown()
        thread.join()


@pytest.fixture
def server() -> Iterator[Asked]:
    with embedding_server() as asked:
        yield asked


def over_http(server: Asked, **options: Any) -> OpenAICompatibleEmbedder:
    return OpenAICompatibleEmbedder(server.url, "toy", client=HttpClient(retries=0), **options)


class TestHashingEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> HashingEmbedder:
        return HashingEmbedder()


class TestTinyHashingEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> HashingEmbedder:
        return HashingEmbedder(dimension=16)


@needs_local
class TestLocalEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> LocalEmbedder:
        return LocalEmbedder()


class TestOpenAICompatibleEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, server: Asked) -> OpenAICompatibleEmbedder:
        return over_http(server)


@pytest.mark.slow
def test_hashing_vectors_are_equal_in_every_process() -> None:
    code = (
        "from tellback.memory.embedders.hashing import HashingEmbedder; from tellback.memory.runtime import run_sync; "
        "print(run_sync(HashingEmbedder(dimension=64).embed(['Grüße, the quick fox']))[0].tolist())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_hashing_finds_the_same_words_and_parts_of_words() -> None:
    vectors = run_sync(HashingEmbedder().embed(["My cats are asleep", "the CAT, asleep!", "quarterly revenue"]))
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.1


def test_the_hashing_vector_of_a_text_without_letters_is_zero() -> None:
    assert not run_sync(HashingEmbedder().embed(["?! --- …"])).any()


def test_hashing_features_that_cancel_each_other_still_give_a_vector() -> None:
    vectors = run_sync(HashingEmbedder(dimension=1).embed([f"word{n}" for n in range(200)]))
    assert np.allclose(np.abs(vectors), 1)


@pytest.mark.parametrize("dimension", [0, -1, True, 2.0])
def test_an_unusable_dimension_of_the_hashing_embedder_raises(dimension: Any) -> None:
    with pytest.raises(ArgumentError, match="dimension"):
        HashingEmbedder(dimension=dimension)


@needs_local
def test_local_vectors_of_related_sentences_are_nearer_than_those_of_unrelated_sentences() -> None:
    vectors = run_sync(
        LocalEmbedder().embed(["The puppy is barking", "a dog makes noise", "interest rates rose sharply"])
    )
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.1


@needs_local
def test_a_local_vector_is_bitwise_the_same_alone_in_any_batch_and_after_any_amount_of_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "WIDEN_AFTER", 3000)
    table = TokenVectorTable(*table_files())
    texts = [f"note {n} about the harbour in Lisbon " * (n % 7 + 6) for n in range(100)]
    alone = np.concatenate([table.means([text]) for text in texts[:20]])
    once = table.means(texts, often=False)
    assert table._wide is None, "neither a few texts nor what is asked for once is worth it"
    together = table.means(texts)
    assert table._wide is not None
    assert np.array_equal(alone, together[:20])
    assert np.array_equal(once, together)
    assert np.array_equal(together[::-1], table.means(texts[::-1]))


@needs_local
def test_a_local_vector_is_the_plain_mean_of_the_token_vectors() -> None:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    weights, tokenizer = table_files()
    (rows,) = load_file(weights).values()
    text = "I moved to Lisbon, and nobody knows why. " * 400
    ids = Tokenizer.from_file(str(tokenizer)).encode(text, add_special_tokens=False).ids
    mean = rows[ids].astype(np.float64).mean(axis=0)
    assert np.allclose(installed_table().means([text])[0], mean / np.linalg.norm(mean), atol=1e-5)


@needs_local
def test_the_local_table_can_be_used_from_many_threads() -> None:
    table = TokenVectorTable(*table_files())
    texts = [f"thread text {n}" for n in range(64)]
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda text: table.means([text])[0], texts))
    assert np.array_equal(np.stack(rows), table.means(texts))


@needs_local
def test_the_local_fingerprint_follows_the_bytes_of_the_table(tmp_path: Path) -> None:
    weights, tokenizer = table_files()
    same = tmp_path / "same.safetensors"
    same.write_bytes(weights.read_bytes())
    changed = tmp_path / "changed.safetensors"
    data = bytearray(weights.read_bytes())
    data[-512 * 125 :] = bytes(512 * 125)
    changed.write_bytes(data)
    assert LocalEmbedder(table=TokenVectorTable(same, tokenizer)).fingerprint == LocalEmbedder().fingerprint
    assert LocalEmbedder(table=TokenVectorTable(changed, tokenizer)).fingerprint != LocalEmbedder().fingerprint


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 100, b"\x02\0\0\0\0\0\0\0{}", b"\x02\0\0\0\0\0\0\0[]"])
def test_a_damaged_local_table_is_an_embedder_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(content)
    with pytest.raises(EmbedderError, match=r"w\.safetensors"):
        TokenVectorTable(weights, weights)


def test_a_truncated_local_table_is_an_embedder_error(tmp_path: Path) -> None:
    header = b'{"embedding.weight":{"dtype":"F16","shape":[10,4],"data_offsets":[0,80]}}'
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(len(header).to_bytes(8, "little") + header + bytes(40))
    with pytest.raises(EmbedderError, match="reinstall"):
        TokenVectorTable(weights, weights)


def test_a_missing_local_extra_is_named_in_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    installed_table.cache_clear()
    assert not local_available()
    with pytest.raises(MissingExtra, match=r"pip install .*\[local\]"):
        LocalEmbedder()


@needs_local
def test_checking_for_the_local_extra_imports_none_of_its_packages() -> None:
    code = (
        "import sys; from tellback.memory.embedders.local import local_available; assert local_available(); "
        "from tellback.memory.embedders.local import LocalEmbedder; LocalEmbedder(); "
        "print([n for n in ('wordllama', 'tokenizers', 'safetensors') if n in sys.modules])"
    )
    env = {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout.strip() == "[]"


def table_files() -> tuple[Path, Path]:
    folder = local._wordllama_folder()
    assert folder is not None
    return folder / local._WEIGHTS_FILE, folder / local._TOKENIZER_FILE


def test_split_batches_bounds_batches_by_count_and_size() -> None:
    texts = ["aaaa", "b", "c", "d" * 20, "e", "f"]
    assert [list(batch) for batch in split_batches(texts, 2, 10)] == [["aaaa", "b"], ["c"], ["d" * 20], ["e", "f"]]
    assert [list(batch) for batch in split_batches(["a" * 5, "b" * 5, "c"], 9, 10)] == [["a" * 5, "b" * 5], ["c"]]
    assert [list(batch) for batch in split_batches(["d" * 20, "e"], 2, 10)] == [["d" * 20], ["e"]]
    assert list(split_batches([], 2, 10)) == []


def test_an_openai_embedding_request_carries_the_model_and_no_unset_options(server: Asked) -> None:
    run_sync(over_http(server).embed(["one", "two"]))
    assert server.payloads == [{"model": "toy", "input": ["one", "two"]}]
    assert "authorization" not in server.headers[0]


def test_an_openai_embedding_request_carries_key_dimensions_and_prefixes(server: Asked) -> None:
    embedder = over_http(
        server, api_key="sk-secret", dimensions=16, query_prefix="query: ", document_prefix="passage: "
    )
    run_sync(embedder.embed(["one"], "query"))
    run_sync(embedder.embed(["two"]))
    assert [payload["input"] for payload in server.payloads] == [["query: one"], ["passage: two"]]
    assert server.payloads[0]["dimensions"] == 16
    assert server.headers[0]["authorization"] == "Bearer sk-secret"
    assert "secret" not in repr(embedder)
    assert "secret" not in embedder.fingerprint


def test_the_fingerprint_of_an_endpoint_embedder_depends_on_its_settings_not_on_its_address() -> None:
    def fingerprint(url: str = "http://a/v1", model: str = "m", **options: Any) -> str:
        return OpenAICompatibleEmbedder(url, model, **options).fingerprint

    assert fingerprint() == fingerprint("http://b/v1")
    others = [fingerprint(model="n"), fingerprint(dimensions=8), fingerprint(query_prefix="q: ")]
    assert len({fingerprint(), *others}) == 4


def test_blank_texts_are_not_sent_to_the_embedding_server(server: Asked) -> None:
    vectors = run_sync(over_http(server, dimensions=16).embed(["", " ", "\n"]))
    assert vectors.shape == (3, 16)
    assert server.payloads == []


def test_many_texts_go_in_batches(server: Asked) -> None:
    run_sync(over_http(server, batch_texts=3).embed([f"text {n}" for n in range(7)]))
    assert sorted(len(payload["input"]) for payload in server.payloads) == [1, 3, 3]


def test_embeddings_from_a_server_are_ordered_by_their_indices(server: Asked) -> None:
    straight = run_sync(over_http(server).embed(["one", "two", "three"]))
    server.twist = lambda items: {"data": items[::-1]}
    assert np.array_equal(run_sync(over_http(server).embed(["one", "two", "three"])), straight)


def test_integers_and_extreme_numbers_are_accepted_in_embeddings(server: Asked) -> None:
    for values in ([1, 0, 0], [1e-40, 0.0, 0.0], [1e300, 0.0, 0.0], [5e-324, 0.0, 0.0]):
        server.twist = lambda items, values=values: {"data": [{"index": 0, "embedding": values}]}
        assert run_sync(over_http(server).embed(["x"])).tolist() == [[1, 0, 0]]


def first(items: list[dict[str, Any]], embedding: Any) -> dict[str, Any]:
    return {"data": [{**items[0], "embedding": embedding}, *items[1:]]}


@pytest.mark.parametrize(
    ("twist", "named"),
    [
        (lambda items: {"data": items[:1]}, "1 embeddings for 2 texts"),
        (lambda items: {"data": [*items, items[0]]}, "3 embeddings for 2 texts"),
        (lambda items: {"data": [items[0], items[0]]}, "repeated"),
        (lambda items: {"data": [{**items[0], "index": "0"}, items[1]]}, "wrong or repeated"),
        (lambda items: {"data": None}, "no list"),
        (lambda items: {"data": ["x", "y"]}, "no list"),
        (lambda items: [], "no list"),
        (lambda items: first(items, [[0.1, 0.2], [0.3, 0.4]]), "for each token"),
        (lambda items: first(items, [0.0] * 16), "zeros"),
        (lambda items: first(items, [float("nan")] * 16), "not finite"),
        (lambda items: first(items, [float("inf")] * 16), "not finite"),
        (lambda items: first(items, [10**400] * 16), "not finite"),
        (lambda items: first(items, [True] * 16), "not a list of numbers"),
        (lambda items: first(items, ["0.1"] * 16), "not a list of numbers"),
        (lambda items: first(items, "AACAPw=="), "not a list of numbers"),
        (lambda items: first(items, []), "not a list of numbers"),
        (lambda items: first(items, None), "not a list of numbers"),
        (lambda items: first(items, [0.5] * 8), "vectors of"),
        (lambda items: {"error": {"message": "model 'toy' not found"}}, "model 'toy' not found"),
    ],
)
def test_a_malformed_answer_of_an_embedding_server_is_an_embedder_error(server: Asked, twist: Any, named: str) -> None:
    server.twist = twist
    with pytest.raises(EmbedderError, match=named):
        run_sync(over_http(server).embed(["one", "two"]))


def test_an_endpoint_embedder_refuses_a_dimension_that_changes_between_calls(server: Asked) -> None:
    embedder = over_http(server)
    run_sync(embedder.embed(["one"]))
    server.twist = lambda items: first(items, [0.5] * 8)
    with pytest.raises(EmbedderError, match="8 numbers where 16 were expected"):
        run_sync(embedder.embed(["two"]))


def test_an_unreachable_embedding_server_is_an_embedder_error_with_its_address() -> None:
    embedder = OpenAICompatibleEmbedder("http://127.0.0.1:1/v1/", "toy", client=HttpClient(retries=0))
    with pytest.raises(EmbedderError, match=r"http://127\.0\.0\.1:1/v1/embeddings.*is the server running"):
        run_sync(embedder.embed(["one"]))


def test_an_endpoint_embedder_without_a_model_is_an_argument_error() -> None:
    with pytest.raises(ArgumentError, match="model"):
        OpenAICompatibleEmbedder("http://127.0.0.1/v1", " ")


def test_closing_an_embedder_leaves_a_given_http_client_open(server: Asked) -> None:
    async def work() -> int:
        async with HttpClient() as client:
            embedder = OpenAICompatibleEmbedder(server.url, "toy", client=client)
            await embedder.embed(["one"])
            await embedder.aclose()
            return len(await embedder.embed(["two"]))

    assert asyncio.run(work()) == 1
