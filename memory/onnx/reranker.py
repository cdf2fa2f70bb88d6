"""Cross-encoder reranker: an ONNX model that reads the question and a text together and scores how well they fit.

hooks = RecallHooks(rerank=OnnxReranker("~/models/bge-reranker-base"), depth=20)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from threading import Lock
from typing import Any, Final

from tellback.memory.embedders.batching import check_positive_number, check_texts
from tellback.memory.errors import ArgumentError
from tellback.memory.onnx.model_files import find_model

_BATCH_TEXTS: Final = 16
_QUESTION_CHARACTERS: Final = 1000


class OnnxReranker:
    """Callable for ``RecallHooks.rerank``: scores of texts for a question by a cross-encoder on this machine.

    *model*, *file*, *download* and *threads* are as of ``OnnxEmbedder``. A question is cut to 1,000 characters, a text
    to *text_characters*, and both together to the tokens that the model reads. How many texts there are is the hook's
    *depth*, and its *timeout* bounds the wait: a model that fails or is late is left out of that recall, with a note.
    The model is loaded with the first question. Any thread may call. ``MissingExtra``: the extra `encoder` is not
    installed.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        file: str | None = None,
        download: bool = False,
        threads: int | None = None,
        text_characters: int = 2000,
    ) -> None:
        check_positive_number("threads", threads, unset=True)
        check_positive_number("text_characters", text_characters)
        self._files = find_model(model, "reranking", file=file, download=download)
        self._threads, self._text_characters = threads, text_characters
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
        scores = self._loaded_model().rerank(question[:_QUESTION_CHARACTERS], ordered, batch_size=_BATCH_TEXTS)
        by_index = dict(zip(order, map(float, scores), strict=True))
        return [by_index[index] for index in range(len(cut))]

    def _loaded_model(self) -> Any:
        with self._loading:
            if self._model is None:
                from fastembed.rerank.cross_encoder import TextCrossEncoder

                self._model = self._files.load(TextCrossEncoder, self._threads)
            return self._model

    def __repr__(self) -> str:
        return f"OnnxReranker({str(self._files)!r})"
