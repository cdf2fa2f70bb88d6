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

import numpy as np
import pytest
from numpy.typing import NDArray

from memory.embedders.protocol import Embedder, EmbeddingKind, embed_detailed
from memory.errors import ArgumentError

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

    def test_it_is_an_embedder(self, embedder: Embedder) -> None:
        assert isinstance(embedder, Embedder)
        assert embedder.fingerprint

    def test_each_text_gets_a_unit_vector_of_float32(self, embedder: Embedder) -> None:
        vectors = _embed(embedder, TEXTS)
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        assert vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    def test_questions_get_unit_vectors_too(self, embedder: Embedder) -> None:
        vectors = _embed(embedder, TEXTS[:2], "query")
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)

    def test_a_text_has_the_same_vector_alone_and_in_a_batch(self, embedder: Embedder) -> None:
        together = _embed(embedder, TEXTS)
        alone = np.concatenate([_embed(embedder, [text]) for text in TEXTS])
        assert np.allclose(together, alone, atol=1e-5)

    def test_order_is_that_of_the_texts(self, embedder: Embedder) -> None:
        forward, backward = _embed(embedder, TEXTS), _embed(embedder, TEXTS[::-1])
        assert np.allclose(forward, backward[::-1], atol=1e-5)

    def test_many_texts_are_all_embedded(self, embedder: Embedder) -> None:
        texts = [f"note number {number}" for number in range(700)]
        vectors = _embed(embedder, texts)
        assert vectors.shape[0] == 700
        assert np.allclose(vectors[699], _embed(embedder, [texts[699]])[0], atol=1e-5)

    def test_a_blank_text_gets_zeros_and_its_neighbours_do_not(self, embedder: Embedder) -> None:
        vectors = _embed(embedder, [*BLANK, "words"])
        assert not vectors[: len(BLANK)].any()
        assert vectors[-1].any()

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

    def test_the_end_of_a_long_text_counts_or_is_told_as_cut(self, embedder: Embedder) -> None:
        long = "word " * 20_000
        answer = asyncio.run(embed_detailed(embedder, [long + TEXTS[0], "short", long + TEXTS[1]]))
        if np.array_equal(answer.vectors[0], answer.vectors[2]):
            assert set(answer.truncated) == {0, 2}
        assert all(0 < truncation.kept < truncation.of for truncation in answer.truncated.values())

    @pytest.mark.parametrize("kind", ["document", "query"])
    def test_each_kind_is_taken_and_gives_the_same_space(self, embedder: Embedder, kind: EmbeddingKind) -> None:
        vectors = _embed(embedder, [*TEXTS[:3], *BLANK[:1]], kind)
        assert vectors.shape == (4, embedder.dimension)
        assert vectors.dtype == np.float32
        assert not vectors[3].any()

    def test_equal_texts_have_equal_vectors_in_their_own_rows(self, embedder: Embedder) -> None:
        vectors = _embed(embedder, [TEXTS[0], TEXTS[1], TEXTS[0], "", TEXTS[0]])
        assert np.array_equal(vectors[0], vectors[2])
        assert np.array_equal(vectors[0], vectors[4])
        assert not np.array_equal(vectors[0], vectors[1])
        vectors[0] = 7
        assert not np.array_equal(vectors[0], vectors[2])

    def test_the_fingerprint_stays(self, embedder: Embedder) -> None:
        before = embedder.fingerprint
        _embed(embedder, TEXTS[:1])
        _embed(embedder, TEXTS[:1], "query")
        assert embedder.fingerprint == before
        assert embedder.dimension > 0

    def test_many_calls_at_once_get_their_own_answers(self, embedder: Embedder) -> None:
        texts = [[f"call {call}, note {note}" for note in range(3)] for call in range(12)]

        async def together() -> list[NDArray[np.float32]]:
            return await asyncio.gather(*(embedder.embed(batch) for batch in texts))

        answers = asyncio.run(together())
        assert np.allclose(
            np.concatenate(answers), _embed(embedder, [text for batch in texts for text in batch]), atol=1e-5
        )

    def test_it_works_in_one_event_loop_after_another(self, embedder: Embedder) -> None:
        first = _embed(embedder, TEXTS[:2])
        assert np.allclose(_embed(embedder, TEXTS[:2]), first, atol=1e-5)

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

    @pytest.mark.parametrize("texts", [["\ud800"], ["fine", 7], "one text"])
    def test_what_is_no_list_of_whole_texts_is_an_argument_error(self, embedder: Embedder, texts: object) -> None:
        with pytest.raises(ArgumentError, match="texts"):
            _embed(embedder, texts)  # type: ignore[arg-type]

    def test_an_unknown_kind_is_an_argument_error(self, embedder: Embedder) -> None:
        with pytest.raises(ArgumentError, match="kind"):
            _embed(embedder, ["a"], "passage")  # type: ignore[arg-type]


def _embed(embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
    return asyncio.run(embedder.embed(texts, kind))
