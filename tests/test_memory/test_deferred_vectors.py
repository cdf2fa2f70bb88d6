"""Vectors of the texts of a write: the space that they set, and what becomes of a text that gets none.

Inner parts, on no face: ``tellback.memory.write.embedding_service``.
"""

import asyncio

import numpy as np
import pytest

from tellback.memory import EmbedderMismatch
from tellback.memory.write.embedding_service import NO_EMBEDDER, NOTHING_TO_EMBED, EmbeddingService
from tellback.vectorstore import Space, open_store


class Counting:
    """An embedder whose vectors say how long a text is; blank-looking texts get zeros."""

    fingerprint = "counting/1"
    dimension = 2

    def __init__(self, answer=None, error=None):
        self.answer = answer
        self.error = error

    async def embed(self, texts, kind="document"):
        if self.error is not None:
            raise self.error
        if self.answer is not None:
            return self.answer
        return np.array([[len(text), 1] if text.isprintable() else [0, 0] for text in texts], dtype=np.float32)


def test_the_first_vectors_set_the_space_of_the_store():
    store = open_store("numpy:")
    made = asyncio.run(EmbeddingService(store, Counting()).vectors(["ab", "\0"]))
    assert store.space == Space("counting/1", 2)
    assert made[0].vector.tolist() == [2, 1]
    assert made[1].vector is None
    assert [text.no_vector for text in made] == [None, NOTHING_TO_EMBED]
    assert [text.deferred for text in made] == [None, None]


@pytest.mark.parametrize(
    "embedder",
    [
        Counting(error=RuntimeError("boom")),
        Counting(answer=np.zeros((5, 2), dtype=np.float32)),
        Counting(answer=np.full((1, 2), np.nan, dtype=np.float32)),
        Counting(answer=[[1.0], [2.0]]),
        Counting(answer="nonsense"),
    ],
)
def test_vectors_of_an_embedder_that_fails_or_returns_nonsense_are_deferred(embedder):
    store = open_store("numpy:")
    made = asyncio.run(EmbeddingService(store, embedder).vectors(["text"]))
    assert [(text.vector, text.no_vector) for text in made] == [(None, None)]
    assert "the embedder failed" in made[0].deferred
    assert store.space is None


def test_vectors_without_an_embedder_are_deferred():
    made = asyncio.run(EmbeddingService(open_store("numpy:"), None).vectors(["a"]))
    assert [(text.vector, text.deferred) for text in made] == [(None, NO_EMBEDDER)]


def test_an_embedder_of_another_space_is_refused():
    store = open_store("numpy:", space=Space("other/1", 2))
    with pytest.raises(EmbedderMismatch, match="other/1"):
        EmbeddingService(store, Counting())


def test_vectors_of_another_length_than_the_spaces_are_deferred():
    store = open_store("numpy:", space=Space("counting/1", 3))
    made = asyncio.run(EmbeddingService(store, Counting()).vectors(["a"]))
    assert "dimensions" in made[0].deferred


def test_vectors_are_deferred_if_another_process_sets_another_space_meanwhile():
    store = open_store("numpy:")

    class Late(Counting):
        async def embed(self, texts, kind="document"):
            store.set_space(Space("other/1", 2))
            return await super().embed(texts, kind)

    embedding = EmbeddingService(store, Late())
    assert "other/1" in asyncio.run(embedding.vectors(["a"]))[0].deferred
    assert asyncio.run(embedding.vectors([])) == []


def test_cancelling_a_write_that_waits_for_its_vector_cancels_it():
    class Waiting(Counting):
        async def embed(self, texts, kind="document"):
            asked.set()
            await asyncio.Event().wait()

    async def cancelled():
        writing = asyncio.ensure_future(EmbeddingService(open_store("numpy:"), Waiting()).vectors(["a"]))
        await asked.wait()
        writing.cancel()
        return await writing

    asked = asyncio.Event()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
