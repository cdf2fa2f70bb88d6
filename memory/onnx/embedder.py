"""Embedder of an ONNX model on this machine: one of the user's own, or one that fastembed knows by name.

embedder = OnnxEmbedder("~/models/multilingual-e5-small", query_prefix="query: ", document_prefix="passage: ")
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any, Final, Literal

import numpy as np

from tellback.memory.embedders.batching import BatchingEmbedder, TextVector, check_positive_number
from tellback.memory.embedders.normalization import normalize_rows
from tellback.memory.embedders.protocol import EmbeddingKind, Truncation
from tellback.memory.errors import ArgumentError, EmbedderError
from tellback.memory.onnx.model_files import ModelFiles, find_model
from tellback.memory.runtime import run_in_thread

Pooling = Literal["mean", "cls", "last", "none"]
_BATCH_TEXTS: Final = 32
_SENTENCE_OUTPUT = "sentence_embedding"
"""Output of models that pool by themselves, as sentence-transformers exports them."""
_CHARACTERS_A_TOKEN = 8
"""In every language a token has fewer on average; what is longer is not tokenized to its end."""
_SEARCH_QUERY = "Represent this sentence for searching relevant passages: "
_PREFIXES: Final = (
    ("intfloat/multilingual-e5", "query: ", "passage: "),
    ("nomic-ai/nomic-embed-text", "search_query: ", "search_document: "),
    ("mixedbread-ai/mxbai-embed", _SEARCH_QUERY, ""),
    ("snowflake/snowflake-arctic-embed", _SEARCH_QUERY, ""),
    ("baai/bge-small-en", _SEARCH_QUERY, ""),
    ("baai/bge-base-en", _SEARCH_QUERY, ""),
    ("baai/bge-large-en", _SEARCH_QUERY, ""),
)
"""Prefixes that the authors of models which fastembed knows ask for on their cards: of questions, of texts."""


class OnnxEmbedder(BatchingEmbedder):
    """Embeds with the ONNX model in a folder, or with one of the models that fastembed knows by name.

    A folder has ``model.onnx`` (*file* names another), ``tokenizer.json`` and ``tokenizer_config.json``. A named model
    is looked for in the cache alone; *download* fetches it once where it is missing. Nothing else leaves this machine.

    - *pooling*: "mean", "cls" (the first token) or "last" of the vectors of the tokens, or "none" for a model that
      gives one vector a text. None: as sentence-transformers recorded in the folder, else as the model's outputs are,
      else the mean. A named model has its own.
    - *query_prefix*, *document_prefix*: put before questions and texts. None: as recorded in the folder, or as the
      authors of a named model ask.
    - *threads* of the processor (None: all).

    Vectors have length 1. Of a text longer than the model reads, the beginning is embedded, and reported as cut. The
    fingerprint has name, hash of the files, pooling and prefixes; the folder may be moved and renamed. The model is
    loaded with the first text. Any thread may call. ``MissingExtra``: the extra `encoder` is not installed.
    """

    remote = False

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        file: str | None = None,
        download: bool = False,
        pooling: Pooling | None = None,
        query_prefix: str | None = None,
        document_prefix: str | None = None,
        threads: int | None = None,
    ) -> None:
        if pooling not in (None, "mean", "cls", "last", "none"):
            raise ArgumentError("pooling", pooling, "'mean', 'cls', 'last', 'none' or None is needed")
        for name, prefix in (("query_prefix", query_prefix), ("document_prefix", document_prefix)):
            if prefix is not None and not isinstance(prefix, str):
                raise ArgumentError(name, prefix, "a text is needed; an empty one for no prefix")
        check_positive_number("threads", threads, unset=True)
        self._files = find_model(model, "embedding", file=file, download=download)
        if self._files.name and pooling is not None:
            raise ArgumentError("pooling", pooling, f"{self._files.name} has its own; it is for models in a folder")
        self._pooling = pooling or self._files.pooling
        query, document = _own_prefixes(self._files)
        prefixes = {
            "query": query if query_prefix is None else query_prefix,
            "document": document if document_prefix is None else document_prefix,
        }
        parts = ["onnx", self._files.name, self._files.mark, self._pooling or ""]
        parts.append("+".join(map(repr, prefixes.values())) if any(prefixes.values()) else "")
        super().__init__(
            "/".join(filter(None, parts)), None, batch_texts=_BATCH_TEXTS, concurrency=1, max_tokens=None, counter=None
        )
        self._prefixes = prefixes
        self._threads = threads
        self._model: Any = None
        self._loading = Lock()

    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        if texts:  # all together: they are sorted by length first, and fastembed cuts the batches
            yield texts

    async def _embed_batch(self, batch: Sequence[str], kind: EmbeddingKind) -> Sequence[TextVector]:
        vectors: Sequence[TextVector] = await run_in_thread(partial(self._encode, batch, kind), name="tellback-onnx")
        return vectors

    def _encode(self, texts: Sequence[str], kind: EmbeddingKind) -> Sequence[TextVector]:
        limit, who = self._files.token_limit, f"the model {self._files}"
        beginnings = [text[: _CHARACTERS_A_TOKEN * limit] for text in texts]
        try:
            model, tokenizer = self._loaded_model()
            counts = [len(encoding.ids) for encoding in tokenizer.encode_batch(beginnings)]
            order = sorted(range(len(texts)), key=counts.__getitem__)  # texts of one length need no padding
            embed = model.query_embed if kind == "query" else model.passage_embed
            rows = list(embed([beginnings[index] for index in order], batch_size=self._batch_texts))
        except EmbedderError:
            raise
        except Exception as error:  # the runtime raises classes of its own, by model and version
            raise EmbedderError(f"{who} failed: {type(error).__name__}: {error}") from error
        unit = normalize_rows([np.asarray(row, np.float32) for row in rows], expected=self._dimension, who=who)
        self._dimension = unit.shape[1]
        results: dict[int, TextVector] = {}
        for row, index in zip(unit, order, strict=True):
            total = counts[index] * len(texts[index]) // len(beginnings[index])  # as if all were like its beginning
            results[index] = TextVector(row, Truncation(limit, total) if total > limit else None)
        return [results[index] for index in range(len(texts))]

    def _loaded_model(self) -> tuple[Any, Any]:
        """Return fastembed's model and a tokenizer that cuts nothing; load them at the first call."""
        with self._loading:
            if self._model is None:
                from tokenizers import Tokenizer

                tokenizer = Tokenizer.from_file(str(self._files.folder / "tokenizer.json"))
                tokenizer.no_truncation()
                tokenizer.no_padding()
                self._model = self._load(), tokenizer
            loaded: tuple[Any, Any] = self._model
        return loaded

    def _load(self) -> Any:
        from fastembed import TextEmbedding
        from fastembed.common.model_description import PoolingType

        if self._files.name:
            return self._files.load(TextEmbedding, self._threads)
        pooling, output = (self._pooling, None) if self._pooling else _own_pooling(self._files)
        types = {"mean": PoolingType.MEAN, "cls": PoolingType.CLS, "last": PoolingType.LAST_TOKEN}
        return self._files.load(
            TextEmbedding,
            self._threads,
            f"{pooling}/{output}",
            pooling=types.get(pooling or "", PoolingType.DISABLED),
            normalization=True,
            dim=1,  # not used: vectors are as long as they come
            output_name=output,
        )


def _own_prefixes(files: ModelFiles) -> tuple[str, str]:
    """Return the prefixes of questions and of texts that belong to the model."""
    for beginning, query, document in _PREFIXES:
        if files.name.lower().startswith(beginning):
            return query, document
    prompts = files.prompts
    return prompts.get("query", ""), prompts.get("document") or prompts.get("passage", "")


def _own_pooling(files: ModelFiles) -> tuple[Pooling, str | None]:
    """Return the pooling that fits the outputs of the model, and the output to use if it is not the first."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the session is asked for its outputs alone
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    outputs = onnxruntime.InferenceSession(
        str(files.folder / files.file), options, providers=["CPUExecutionProvider"]
    ).get_outputs()
    if any(output.name == _SENTENCE_OUTPUT for output in outputs):
        return "none", _SENTENCE_OUTPUT
    return ("none" if len(outputs[0].shape) == 2 else "mean"), None
