"""How long a write or a question waits for an embedder, and what holds where it is not the memory's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from memory.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """Limits in seconds. ``flush`` and ``reembed`` have none: they do nothing else, and can be cancelled.

    A write waits *write_patience* and *per_text* for each of its texts, and is then stored without vectors; a question
    waits *question_patience*, and is then answered by words alone. After such a wait the embedder is left alone for
    *rest*. *mismatch*: an embedder whose vectors are not those of the memory is refused at opening ("raise"), or
    taken and not used ("words"): everything is found by words, new things wait, and ``reembed`` mends it.
    *cache_bytes*: keep the vectors of texts in the memory's file, at most so many bytes of them, so that a text that
    comes again is not embedded again; 0 keeps none.
    """

    write_patience: float = 60.0
    per_text: float = 1.0
    question_patience: float = 10.0
    rest: float = 30.0
    cache_bytes: int = 0
    mismatch: Literal["raise", "words"] = "raise"

    def __post_init__(self) -> None:
        for name in ("write_patience", "per_text", "question_patience", "rest"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
                raise ArgumentError(name, value, "a number of seconds, at least 0, is needed")
        if type(self.cache_bytes) is not int or self.cache_bytes < 0:
            raise ArgumentError("cache_bytes", self.cache_bytes, "a number of bytes, at least 0, is needed")
        if self.mismatch not in ("raise", "words"):
            raise ArgumentError("mismatch", self.mismatch, "'raise' or 'words' is needed")


def checked_settings(settings: object) -> EmbeddingSettings:
    """Return *settings* if they are ``EmbeddingSettings``; None are the usual ones."""
    if settings is not None and not isinstance(settings, EmbeddingSettings):
        raise ArgumentError("embedding_settings", settings, "EmbeddingSettings are needed, or None")
    return settings or EmbeddingSettings()
