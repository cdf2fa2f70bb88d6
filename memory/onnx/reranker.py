"""Cross-encoder reranker: an ONNX model that reads the question and a text together and scores how well they fit.

hooks = RecallHooks(rerank=OnnxReranker("~/models/bge-reranker-base"), depth=20)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Lock
from typing import Any

from tellback.memory.embedders.batching import check_positive_number, check_texts
from tellback.memory.errors import ArgumentError
from tellback.memory.onnx.model_files import find_model, register_once


class OnnxReranker:
    """Callable for ``RecallHooks.rerank``: scores of texts for a question by a cross-encoder on this machine.

    *model*, *file*, *download* and *threads* are as of ``OnnxEmbedder``. A question is cut to *question_characters*, a
    text to *text_characters*, and both together to the tokens that the model reads; *batch_texts* texts go through it
    together. How many texts there are is the hook's *depth*, and its *timeout* bounds the wait: a model that fails or
    is late is left out of that recall, with a note. The model is loaded with the first question; ``load`` does it
    before. Any thread may call. ``MissingExtra``: the extra `encoder` is not installed.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        file: str | None = None,
        download: bool = False,
        threads: int | None = None,
        batch_texts: int = 16,
        question_characters: int = 1000,
        text_characters: int = 2000,
    ) -> None:
        check_positive_number("threads", threads, unset=True)
        limits = {
            "batch_texts": batch_texts,
            "question_characters": question_characters,
            "text_characters": text_characters,
        }
        for name, number in limits.items():
            check_positive_number(name, number)
        self._files = find_model(model, "reranking", file=file, download=download)
        self._threads, self._batch_texts = threads, batch_texts
        self._question_characters, self._text_characters = question_characters, text_characters
        self._model: Any = None
        self._loading = Lock()

    def __call__(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return a score for each of *texts*, higher where it answers *question* better, on the model's own scale."""
        if not isinstance(question, str):
            raise ArgumentError("question", question, "a text is needed")
        check_texts(texts)
        if not texts:
            return []
        cut = [text[: self._text_characters] for text in texts]
        order = sorted(range(len(cut)), key=lambda index: len(cut[index]))  # texts of one length need less padding
        ordered = [cut[index] for index in order]
        model = self.load()._model
        scores = model.rerank(question[: self._question_characters], ordered, batch_size=self._batch_texts)
        by_index = dict(zip(order, map(float, scores), strict=True))
        return [by_index[index] for index in range(len(cut))]

    def load(self) -> OnnxReranker:
        """Load the model, unless it is loaded; return this reranker."""
        with self._loading:
            if self._model is None:
                from fastembed.rerank.cross_encoder import TextCrossEncoder

                name = self._files.name
                if not name:
                    name = f"tellback/{self._files.mark}/{self._files.file}"
                    register_once(name, TextCrossEncoder.add_custom_model, model_file=self._files.file)
                folder = str(self._files.folder)
                self._model = TextCrossEncoder(name, threads=self._threads, specific_model_path=folder)
        return self

    def __repr__(self) -> str:
        return f"OnnxReranker({self._files.name or str(self._files.folder)!r})"
