"""Vectors of the shared embedder for packages that take a function: the standard library alone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from urllib.request import Request, urlopen

from benchmarks.memory.protocol import Settings

_BATCH = 256


def embed(settings: Settings, texts: Sequence[str]) -> list[list[float]]:
    """Return the vectors of *texts* from the server that *settings* names."""
    vectors: list[list[float]] = []
    for start in range(0, len(texts), _BATCH):
        body = json.dumps({"model": settings.model, "input": list(texts[start : start + _BATCH])}).encode()
        request = Request(f"{settings.embedder}/embeddings", body, {"Content-Type": "application/json"})
        with urlopen(request) as answer:
            vectors += [row["embedding"] for row in json.load(answer)["data"]]
    return vectors
