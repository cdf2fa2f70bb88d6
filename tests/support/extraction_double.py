"""Double of a model that extracts facts: OpenAI's format on loopback, one scripted fact a message. Not a model."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from benchmarks.memory.embedding_server import EmbeddingServer

_MESSAGE = re.compile(r"^user: (.+)$", re.MULTILINE)


class ExtractionDouble:
    """Serves ``/chat/completions`` with a fact for each message of the user, and ``/embeddings`` of *embedder*."""

    def __init__(self, embedder: EmbeddingServer) -> None:
        self.asked: list[Any] = []
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/embeddings"):
                    rows = embedder.vectors([body["input"]] if isinstance(body["input"], str) else body["input"])
                    data = [{"index": place, "embedding": row.tolist()} for place, row in enumerate(rows)]
                    answer: Any = {"object": "list", "data": data, "model": "double", "usage": {"prompt_tokens": 0}}
                else:
                    double.asked.append(body)
                    said = _MESSAGE.findall(body["messages"][-1]["content"])
                    facts = json.dumps({"memory": [{"id": "0", "text": said[-1]}] if said else []})
                    message = {"role": "assistant", "content": facts}
                    choice = {"index": 0, "message": message, "finish_reason": "stop"}
                    answer = {"id": "1", "object": "chat.completion", "model": "double", "choices": [choice]}
                content = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()
