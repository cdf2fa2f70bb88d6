"""One embedder for all systems of a run: the local one, as an OpenAI-compatible endpoint on loopback.

A text is embedded once and kept, so that no system pays for another's turn; times of systems that share the embedder
are therefore without it. A file keeps vectors for a run that was killed. Questions are embedded like any text: the
protocol does not tell them apart.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Sequence
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory.protocol import Settings
from tellback.memory import Embedder, run_sync

Vector = NDArray[np.float32]
_BATCH = 256
"""Texts that are embedded, and kept, at once."""


class EmbeddingServer:
    """Serves *embedder* on a free port of loopback until it is closed; a file in *folder*, if given, keeps vectors."""

    def __init__(self, embedder: Embedder, name: str = "local", *, folder: Path | None = None) -> None:
        self._embedder, self.name, self.dimensions = embedder, name, embedder.dimension
        self._lock = threading.Lock()
        self._row = np.dtype([("key", "V32"), ("vector", "<f4", (self.dimensions,))])
        mark = sha256(embedder.fingerprint.encode()).hexdigest()[:16]
        self._file = None if folder is None else folder / f"vectors-{mark}.bin"
        rows = np.zeros(0, self._row)
        if self._file is not None and self._file.exists():
            rows = np.fromfile(self._file, self._row)  # without a last one that a kill cut off
            os.truncate(self._file, rows.nbytes)
        self._vectors: dict[bytes, Vector] = {row["key"].tobytes(): row["vector"] for row in rows}
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                given = body.get("input", [])
                texts = [given] if isinstance(given, str) else given
                if not self.path.endswith("/embeddings") or not all(isinstance(text, str) for text in texts):
                    self._answer(400, {"error": {"message": "POST /v1/embeddings with texts is all that is served"}})
                    return
                rows = server.vectors(texts)
                packed = body.get("encoding_format") == "base64"
                data = [
                    {"object": "embedding", "index": place, "embedding": _packed(row) if packed else row.tolist()}
                    for place, row in enumerate(rows)
                ]
                usage = {"prompt_tokens": 0, "total_tokens": 0}
                self._answer(200, {"object": "list", "model": server.name, "data": data, "usage": usage})

            def do_GET(self) -> None:
                self._answer(200, {"object": "list", "data": [{"id": server.name, "object": "model"}]})

            def _answer(self, status: int, value: Any) -> None:
                content = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def vectors(self, texts: Sequence[str]) -> Vector:
        """Return the vectors of *texts*, (texts, dimensions), float32."""
        keys = [sha256(text.encode("utf-8", "replace")).digest() for text in texts]
        with self._lock:
            new = [(key, text) for key, text in dict(zip(keys, texts, strict=True)).items() if key not in self._vectors]
            for start in range(0, len(new), _BATCH):
                batch = new[start : start + _BATCH]
                vectors = run_sync(self._embedder.embed([text or " " for _, text in batch]))
                self._vectors.update((key, vector) for (key, _), vector in zip(batch, vectors, strict=True))
                if self._file is not None:
                    with self._file.open("ab") as file:
                        np.array([(key, self._vectors[key]) for key, _ in batch], self._row).tofile(file)
            return np.stack([self._vectors[key] for key in keys])

    def settings(self, folder: Path) -> Settings:
        """Return the settings of a system that shares this embedder, in *folder*."""
        return Settings(folder, embedder=self.url, model=self.name, dimensions=self.dimensions)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _packed(row: Vector) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()
