"""Contract suite of embedders: subclass it, give it an embedder, run it.

class TestMyEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return MyEmbedder(...)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tellback.memory.embedders.protocol import Embedder, EmbeddingKind, embed_detailed
from tellback.memory.errors import ArgumentError

TEXTS = (
    "I moved to Lisbon last spring.",
    "The cat sleeps on the warm windowsill.",
    "def add(a, b):\n    return a + b",
    "記憶は大切です。",
    "Grüße aus Köln, 😀!",
    "word " * 2000,
    "NUL \0 inside",
)
BLANK = ("", " ", "\n\t\u2003")


class EmbedderContract:
    """One behaviour a test; the subclass's fixture ``embedder`` gives an embedder."""

    def test_it_is_an_embedder_whose_fingerprint_stays(self, embedder: Embedder) -> None:
        assert isinstance(embedder, Embedder)
        before = embedder.fingerprint
        assert before
        _embed(embedder, TEXTS[:1])
        _embed(embedder, TEXTS[:1], "query")
        assert (embedder.fingerprint, embedder.dimension > 0) == (before, True)

    @pytest.mark.parametrize("kind", ["document", "query"])
    def test_each_text_gets_a_unit_vector_of_float32_and_a_blank_one_zeros(
        self, embedder: Embedder, kind: EmbeddingKind
    ) -> None:
        vectors = _embed(embedder, [*TEXTS, *BLANK, "words"], kind)
        assert vectors.shape == (len(TEXTS) + len(BLANK) + 1, embedder.dimension)
        assert vectors.dtype == np.float32
        lengths = np.linalg.norm(vectors, axis=1)
        assert np.allclose(lengths, [*[1] * len(TEXTS), *[0] * len(BLANK), 1], atol=1e-5)
        assert not vectors[len(TEXTS) : -1].any()

    def test_a_text_has_the_same_vector_alone_and_in_a_batch_of_any_order(self, embedder: Embedder) -> None:
        together, backward = _embed(embedder, TEXTS), _embed(embedder, TEXTS[::-1])
        alone = np.concatenate([_embed(embedder, [text]) for text in TEXTS])
        assert np.allclose(together, alone, atol=1e-5)
        assert np.allclose(together, backward[::-1], atol=1e-5)

    def test_many_texts_are_all_embedded(self, embedder: Embedder) -> None:
        texts = [f"note number {number}" for number in range(700)]
        vectors = _embed(embedder, texts)
        assert vectors.shape[0] == 700
        assert np.allclose(vectors[699], _embed(embedder, [texts[699]])[0], atol=1e-5)

    def test_no_texts_give_no_rows(self, embedder: Embedder) -> None:
        _embed(embedder, ["first"])
        assert _embed(embedder, []).shape == (0, embedder.dimension)

    def test_the_same_text_is_nearest_to_itself(self, embedder: Embedder) -> None:
        vectors = _embed(embedder, TEXTS)
        assert (np.argmax(vectors @ vectors.T, axis=1) == np.arange(len(TEXTS))).all()

    def test_the_answer_belongs_to_the_caller(self, embedder: Embedder) -> None:
        first = _embed(embedder, TEXTS[:1])
        kept = first.copy()
        first[:] = 7
        assert (_embed(embedder, TEXTS[:1]) == kept).all()

    def test_the_end_of_a_long_text_counts_or_is_reported_as_truncated(self, embedder: Embedder) -> None:
        long = "word " * 20_000
        answer = asyncio.run(embed_detailed(embedder, [long + TEXTS[0], "short", long + TEXTS[1]]))
        if np.array_equal(answer.vectors[0], answer.vectors[2]):
            assert set(answer.truncated) == {0, 2}
        assert all(0 < truncation.kept < truncation.of for truncation in answer.truncated.values())

    def test_equal_texts_have_equal_vectors_in_their_own_rows(self, embedder: Embedder) -> None:
        vectors = _embed(embedder, [TEXTS[0], TEXTS[1], TEXTS[0], "", TEXTS[0]])
        assert np.array_equal(vectors[0], vectors[2])
        assert np.array_equal(vectors[0], vectors[4])
        assert not np.array_equal(vectors[0], vectors[1])
        vectors[0] = 7
        assert not np.array_equal(vectors[0], vectors[2])

    def test_many_calls_at_once_get_their_own_answers(self, embedder: Embedder) -> None:
        batches = [[f"call {call}, note {note}" for note in range(3)] for call in range(12)]

        async def embed_at_once() -> list[NDArray[np.float32]]:
            return await asyncio.gather(*(embedder.embed(batch) for batch in batches))

        answers = np.concatenate(asyncio.run(embed_at_once()))
        assert np.allclose(answers, _embed(embedder, [text for batch in batches for text in batch]), atol=1e-5)

    def test_a_call_that_is_cancelled_leaves_it_usable(self, embedder: Embedder) -> None:
        texts = [f"note number {number} of a call that is given up" for number in range(500)]

        async def given_up() -> NDArray[np.float32]:
            call = asyncio.ensure_future(embedder.embed(texts))
            await asyncio.sleep(0)
            call.cancel()
            with suppress(asyncio.CancelledError):
                await call
            return await embedder.embed(TEXTS[:2])

        assert np.allclose(asyncio.run(given_up()), _embed(embedder, TEXTS[:2]), atol=1e-5)

    @pytest.mark.parametrize(
        "bad", [{"texts": ["\ud800"]}, {"texts": ["fine", 7]}, {"texts": "one text"}, {"kind": "passage"}], ids=ascii
    )
    def test_a_bad_argument_is_refused_by_name(self, embedder: Embedder, bad: dict[str, Any]) -> None:
        with pytest.raises(ArgumentError, match="|".join(bad)):
            _embed(embedder, **{"texts": ["a"], **bad})


def _embed(embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
    return asyncio.run(embedder.embed(texts, kind))
