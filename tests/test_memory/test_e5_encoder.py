"""The E5 encoder: its vectors, its head, its tokens, its cache, and the one thread it takes.

Inner parts, on no face: ``tellback.memory.embedders`` (``e5_files``, ``encoder_files``), and
``tellback.memory.embedders.blas_threads``, ``tellback.memory.embedders.e5_head``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tellback.memory import E5Encoder, EmbedderError, run_sync
from tellback.memory.embedders import e5_files
from tellback.memory.embedders.blas_threads import OneBlasThread
from tellback.memory.embedders.e5_head import E5_HEAD, E5Head
from tellback.memory.testing import EmbedderContract
from tellback.vectorstore import MissingExtra

pytest.importorskip("threadpoolctl", reason="the extra `local` is not installed")
needs_weights = pytest.mark.skipif(
    not e5_files.e5_available(), reason="the weights of the E5 encoder are not installed"
)

NUTS = "Ana is allergic to walnuts."
BEGINNINGS = {
    NUTS: ([0.0655, 0.0065, -0.0542, -0.0929], [0.0655, -0.0278, -0.1010, -0.0713]),
    "我的猫叫咪咪": ([0.0818, -0.0006, -0.0211, -0.0703], [0.0893, -0.0119, -0.0193, -0.0471]),
    "\U0001f642 ok\r\n": ([0.0558, -0.0088, -0.0388, -0.0542], [0.0477, -0.0099, -0.0395, -0.0615]),
}
"""Beginnings of the network's vectors as a document and a question; their cosine with the package's is above .9998."""
WITH_HEAD = ([0.0674, 0.0152, -0.0577, -0.0555], [0.0649, 0.0269, -0.0976, -0.0278])
"""The same of ``NUTS`` with the fitted head; they change when it is fitted anew."""
MAX_HEAD_BYTES = 400_000


@pytest.fixture
def encoded_once() -> None:
    """Every text goes through the encoder here, each time."""


@pytest.fixture
def encoder() -> E5Encoder:
    return E5Encoder()


@pytest.mark.slow
@needs_weights
class TestE5Encoder(EmbedderContract):
    @pytest.fixture
    def embedder(self, encoder: E5Encoder) -> E5Encoder:
        return encoder


@needs_weights
def test_e5_vectors_are_those_of_the_model_or_of_its_fitted_head(encoder: E5Encoder) -> None:
    without_head = E5Encoder(head=None)
    assert without_head.fingerprint != encoder.fingerprint
    cases = [(without_head, text, *vectors) for text, vectors in BEGINNINGS.items()]
    for embedder, text, document, query in [*cases, (encoder, NUTS, *WITH_HEAD)]:
        assert run_sync(embedder.embed([text]))[0, :4] == pytest.approx(document, abs=5e-4)
        assert run_sync(embedder.embed([text], "query"))[0, :4] == pytest.approx(query, abs=5e-4)


def test_the_head_file_is_small_and_gives_unit_vectors(tmp_path: Path) -> None:
    assert E5_HEAD.stat().st_size <= MAX_HEAD_BYTES
    rows = np.load(E5_HEAD)
    assert (rows.dtype, rows.shape) == (np.float16, (386, 384))
    head = E5Head.load(E5_HEAD)
    head.save(tmp_path / "head.npy")
    assert (np.load(tmp_path / "head.npy") == rows).all()
    vectors = np.random.default_rng(5).normal(size=(3, 384)).astype(np.float32)
    documents, queries = head.apply(vectors, "document"), head.apply(vectors, "query")
    for applied in (documents, queries):
        assert (applied.dtype, applied.shape) == (np.float32, (3, 384))
        assert np.linalg.norm(applied, axis=1) == pytest.approx(1.0, abs=1e-5)
    assert not np.allclose(documents, queries)


@needs_weights
def test_an_e5_question_is_nearest_to_its_answer_and_the_translation(encoder: E5Encoder) -> None:
    texts = ["The boiler is serviced every October.", NUTS, "Ana verträgt keine Walnüsse."]
    question = run_sync(encoder.embed(["Which nuts can Ana not eat?"], "query"))[0]
    other, statement, german = (run_sync(encoder.embed(texts)) @ question).tolist()
    assert min(statement, german) > other + 0.05


@needs_weights
def test_a_text_beyond_the_positions_of_e5_is_embedded_by_its_beginning(encoder: E5Encoder) -> None:
    answer = run_sync(encoder.embed_detailed(["short", "walnut " * 5000]))
    assert list(answer.truncated) == [1]
    assert answer.truncated[1].kept == 512
    assert answer.truncated[1].of > 5000


@needs_weights
def test_e5_weights_with_other_bytes_than_expected_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"E5S1")
    monkeypatch.setattr(e5_files, "_installed", lambda: weights)
    with pytest.raises(EmbedderError, match="not the weights that were expected"):
        e5_files.convert_e5_files(tmp_path / "cache")


def test_missing_e5_weights_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(e5_files, "_installed", lambda: None)
    assert not e5_files.e5_available()
    with pytest.raises(MissingExtra, match="local"):
        e5_files.convert_e5_files(tmp_path / "cache")


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("query: \ufb01ne \t \u2167\x01\u200b", "\u2581query:\u2581fine\u2581VIII\u2581"),
        ("cafe\u0301", "\u2581caf\u00e9"),
        ("\uff21\uff5e\u2581\uff22", "\u2581A\uff5e\u2581B"),
        ("a\r\n\nb", "\u2581a\u2581b"),
    ],
)
def test_e5_reads_texts_as_its_vocabulary_was_made(text: str, letters: str) -> None:
    assert e5_files.normalize(text) == letters


def test_products_take_one_thread_until_the_last_block_ends() -> None:
    from threadpoolctl import threadpool_limits

    one_thread = OneBlasThread()

    def threads() -> list[int]:
        return [library["num_threads"] for library in one_thread._controller.info()]

    with threadpool_limits(2, "blas"):
        before = threads()
        with one_thread:
            with one_thread:
                assert set(threads()) <= {1}
            assert set(threads()) <= {1}
        assert threads() == before
