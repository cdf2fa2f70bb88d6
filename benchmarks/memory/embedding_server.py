"""One embedder for all systems of a run: the local one, as an OpenAI-compatible endpoint on loopback.

A text is embedded once and kept, so that no system pays for another's turn; times of systems that share the embedder
are therefore without it. Questions are embedded like any text: the protocol does not tell them apart.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.memory.protocol import Settings
from tellback.memory import Embedder, run_sync

Vector = NDArray[np.float32]


class EmbeddingServer:
    """Serves *embedder* on a free port of loopback until it is closed."""

    def __init__(self, embedder: Embedder, name: str = "local") -> None:
        self._embedder, self.name = embedder, name
        self._vectors: dict[str, Vector] = {}
        self._lock = threading.Lock()
        self.dimensions = int(self.vectors(["dimensions"]).shape[1])
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
        with self._lock:
            if new := [text for text in dict.fromkeys(texts) if text not in self._vectors]:
                rows = run_sync(self._embedder.embed([text or " " for text in new]))
                self._vectors.update(zip(new, rows, strict=True))
            return np.stack([self._vectors[text] for text in texts])

    def settings(self, folder: Path) -> Settings:
        """Return the settings of a system that shares this embedder, in *folder*."""
        return Settings(folder, embedder=self.url, model=self.name, dimensions=self.dimensions)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _packed(row: Vector) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()
