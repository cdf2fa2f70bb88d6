"""The E5 encoder: meaning of notes and questions in some hundred languages, without key, server or download.

>>> from tellback.memory.internals import E5Encoder
>>> encoder = E5Encoder()
>>> run_sync(encoder.embed(["Ana is allergic to walnuts."])).shape
(1, 384)

The network is multilingual-e5-small (Wang et al. 2024, arXiv 2402.05672), a transformer of twelve layers, in numpy. A
question and what answers it are marked as such ("query: ", "passage: "), since the network was trained so. A fitted
head (``e5_head``) brings both together.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping, Sequence
from itertools import chain, pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.batching import check_embedder_input, is_blank, token_batches
from tellback.memory.embedders.blas_threads import OneBlasThread
from tellback.memory.embedders.e5_files import (
    DIMENSION,
    HEADS,
    LAYERS,
    WEIGHTS_MARK,
    TokenTable,
    open_e5_files,
    open_e5_pieces,
)
from tellback.memory.embedders.e5_head import E5Head, head_mark
from tellback.memory.embedders.fingerprint import names_weights
from tellback.memory.embedders.normalization import normalize_layer
from tellback.memory.embedders.protocol import Embedder, EmbeddingKind, Embeddings, Truncation, checked_embedder
from tellback.memory.embedders.sentence_pieces import SentencePieces
from tellback.memory.errors import ArgumentError

MAX_TOKENS = 512
"""Tokens of a text that count, its mark and both ends among them: the network has no more positions."""
_MAX_CHARACTERS = 8 * MAX_TOKENS
"""Characters that are tokenized: in every language a token has fewer than eight on average."""
_BATCH_TOKENS = 384
"""Tokens of texts that go through the network together: above it, the arrays leave the processor's cache."""
_FEW_TOKENS = 40
"""Up to here, OpenBLAS multiplies a block without copying it; beyond, one product of all blocks is faster."""
_EPSILON = 1e-12
_MARKS: dict[EmbeddingKind, str] = {"query": "query: ", "document": "passage: "}
_FINGERPRINT = f"local/multilingual-e5-small-{DIMENSION}/{WEIGHTS_MARK}"

Floats = NDArray[np.float32]


class _Layer(NamedTuple):
    """Weights of one layer; products are cut into blocks, of heads or of columns, along the first axis."""

    heads: Floats
    query_bias: Floats
    attention: Floats
    attention_bias: Floats
    attention_norm: Floats
    up: Floats
    up_bias: Floats
    down: Floats
    down_bias: Floats
    down_norm: Floats


class E5Network:
    """The network: ids of tokens in, unit vectors out. Its arrays are mapped; any thread may call."""

    def __init__(self, weights: Mapping[str, NDArray[Any]], tokens: TokenTable) -> None:
        self._tokens, self._positions, self._norm = tokens, weights["positions"], weights["norm"]
        self._one_thread = OneBlasThread()
        self._layers = [_Layer(*(weights[name][number] for name in _Layer._fields)) for number in range(LAYERS)]

    def encode(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return a unit vector for each of *texts*, given as ids of tokens, shape (len(texts), 384)."""
        vectors = np.empty((len(texts), DIMENSION), np.float32)
        for begin, end in token_batches(texts, _BATCH_TOKENS):
            with self._one_thread:
                vectors[begin:end] = self._encode_batch(texts[begin:end])
        return vectors

    def _encode_batch(self, texts: Sequence[Sequence[int]]) -> Floats:
        """Return the vectors of *texts*, whose tokens lie behind one another; each attends to its own text's."""
        lengths = [len(ids) for ids in texts]
        starts = np.cumsum([0, *lengths])
        spans = [slice(*span) for span in pairwise(starts.tolist())]
        states = self._tokens.rows(chain.from_iterable(texts))
        states += self._positions[np.concatenate([np.arange(length) for length in lengths])]
        states = normalize_layer(states, *self._norm, epsilon=_EPSILON)
        for layer in self._layers:
            attended = _product_of_blocks(_attention(states, layer, spans), layer.attention)
            states = normalize_layer(states + attended + layer.attention_bias, *layer.attention_norm, epsilon=_EPSILON)
            widened = _product_of_blocks(_activation(states @ layer.up + layer.up_bias), layer.down)
            states = normalize_layer(states + widened + layer.down_bias, *layer.down_norm, epsilon=_EPSILON)
        sums = np.add.reduceat(states, starts[:-1], axis=0)
        return np.asarray(sums / np.sqrt(np.einsum("ij,ij->i", sums, sums))[:, None], np.float32)


def _attention(states: Floats, layer: _Layer, spans: Sequence[slice]) -> Floats:
    """Return the values that each token attends to, shape (heads, tokens, 32)."""
    projected = states @ layer.heads
    queries, keys, values = projected[:HEADS] + layer.query_bias, projected[HEADS:-HEADS], projected[-HEADS:]
    attended = np.empty_like(queries)
    for span in spans:
        scores = queries[:, span] @ keys[:, span].transpose(0, 2, 1)
        shares = np.exp(scores - scores.max(axis=2, keepdims=True))
        attended[:, span] = shares @ values[:, span] / shares.sum(axis=2, keepdims=True)
    return attended


def _activation(values: Floats) -> Floats:
    """Return twice the GELU of *values*, by tanh (Hendrycks and Gimpel 2016, arXiv 1606.08415), in their place."""
    inner = values * values
    inner *= np.float32(0.044715 * np.sqrt(2 / np.pi))
    inner += np.float32(np.sqrt(2 / np.pi))
    inner *= values
    np.tanh(inner, out=inner)
    inner += np.float32(1)
    values *= inner
    return values


def _product_of_blocks(blocks: Floats, weights: Floats) -> Floats:
    """Return the product of *blocks*, shape (n, tokens, columns), side by side, and *weights*, (n, columns, 384)."""
    if blocks.shape[1] <= _FEW_TOKENS:
        return np.asarray((blocks @ weights).sum(axis=0))
    return np.asarray(blocks.transpose(1, 0, 2).reshape(blocks.shape[1], -1) @ weights.reshape(-1, DIMENSION))


@functools.cache
def _network() -> tuple[E5Network, SentencePieces]:
    files = open_e5_files()
    return E5Network(files.weights, TokenTable(files.folder)), open_e5_pieces(files.folder)


@functools.cache
def _fitted_head() -> E5Head:
    return E5Head.load()


class E5Encoder:
    """Embedder of notes, questions and turns, 384 dimensions; nothing leaves the machine.

    *passages* embeds the passages of documents, which are many and long: ``LocalEmbedder()`` takes a hundredth of the
    time, and its vectors are filled up with zeros (None: this one does). *head*: None gives the network's own vectors.

    Raises ``MissingExtra`` when the package with the weights is not installed (``e5_available`` tells beforehand; there
    is one for Linux on x86-64), and ``EmbedderError`` where its file is not the one that this version knows. The first
    one of a machine converts the weights into a private cache, which takes a second or two.
    """

    remote = False
    dimension = DIMENSION

    def __init__(self, *, passages: Embedder | None = None, head: Literal["fitted"] | None = "fitted") -> None:
        self.passages: Embedder = self if passages is None else WidenedEmbedder(passages, DIMENSION)
        self._network, self._pieces = _network()
        self._head = None if head is None else _fitted_head()
        self._own = _FINGERPRINT if head is None else f"{_FINGERPRINT}/{head_mark()}"

    @property
    def names_weights(self) -> bool:
        """True if the embedder of passages names its weights, too."""
        return self.passages is self or names_weights(self.passages)

    @property
    def fingerprint(self) -> str:
        """The weights and the head, and the embedder of passages where that is another one."""
        return self._own if self.passages is self else f"{self._own}+{self.passages.fingerprint}"

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Floats:
        """As the protocol says, in a thread; a question and a document with the same words get different vectors."""
        return (await self.embed_detailed(texts, kind)).vectors

    async def embed_detailed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
        """As the protocol says: of a text beyond ``MAX_TOKENS`` the beginning is embedded."""
        check_embedder_input(texts, kind)
        return await asyncio.to_thread(self._encode, texts, kind)

    def _encode(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        present = [position for position, text in enumerate(texts) if not is_blank(text)]
        tokens, truncated = list[tuple[int, ...]](), {}
        for position in present:
            beginning = texts[position][:_MAX_CHARACTERS]
            ids = self._pieces.ids(_MARKS[kind] + beginning)
            total = len(ids) * len(texts[position]) // len(beginning)  # as if all of it were like its beginning
            if total > MAX_TOKENS:
                truncated[position] = Truncation(min(len(ids), MAX_TOKENS), total)
            tokens.append(tuple(ids if len(ids) <= MAX_TOKENS else [*ids[: MAX_TOKENS - 1], ids[-1]]))
        vectors = np.zeros((len(texts), DIMENSION), np.float32)
        if present:
            rows = {ids: row for row, ids in enumerate(dict.fromkeys(tokens))}  # in two rows, last bits could differ
            encoded = self._network.encode([*rows])
            encoded = encoded if self._head is None else self._head.apply(encoded, kind)
            vectors[present] = encoded[[rows[ids] for ids in tokens]]
        return Embeddings(vectors, truncated)

    def __repr__(self) -> str:
        return f"E5Encoder({self.fingerprint!r})"


class WidenedEmbedder:
    """Embedder whose vectors are those of *inner*, filled up with zeros to *dimension*; their cosines stay."""

    remote = False

    def __init__(self, inner: Embedder, dimension: int) -> None:
        checked_embedder(inner, "passages")
        if inner.dimension > dimension:
            raise ArgumentError("passages", inner, f"an embedder of at most {dimension} dimensions is needed")
        self.inner = inner
        self.dimension = dimension
        self.fingerprint = inner.fingerprint
        self.names_weights = names_weights(inner)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Floats:
        """As the protocol says."""
        vectors = await self.inner.embed(texts, kind)
        return np.pad(vectors, ((0, 0), (0, self.dimension - vectors.shape[1])))
