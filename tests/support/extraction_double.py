"""Double of a model that extracts facts: OpenAI's format on loopback, scripted by the schema it is asked for."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from benchmarks.memory.embedding_server import EmbeddingServer

_MESSAGE = re.compile(r"^user: (.+)$", re.MULTILINE)
_CURRENT = re.compile(r"<CURRENT[ _]MESSAGE>\s*(.+?)\s*</CURRENT[ _]MESSAGE>", re.DOTALL)
_ENTITIES = ("extracted_entities", "nodes", "entities")


class ExtractionDouble:
    """Serves ``/chat/completions`` with a fact for each message, and ``/embeddings`` of *embedder*."""

    def __init__(self, embedder: EmbeddingServer) -> None:
        self.asked: list[Any] = []
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path.endswith("/embeddings"):
                    rows = embedder.vectors([body["input"]] if isinstance(body["input"], str) else body["input"])
                    data = [{"index": place, "embedding": row.tolist()} for place, row in enumerate(rows)]
                    usage = {"prompt_tokens": 0, "total_tokens": 0}
                    answer: Any = {"object": "list", "data": data, "model": "double", "usage": usage}
                else:
                    double.asked.append(body)
                    answer = _completion(body)
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


def _completion(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to one request: an instance of the schema that it names, else mem0's list of facts."""
    prompts = [str(message["content"]) for message in body["messages"]]
    current = _CURRENT.search(prompts[-1])
    said = current[1] if current else prompts[-1].strip()
    schema = _schema(body, prompts)
    if schema is None:
        told = _MESSAGE.findall(prompts[-1])
        value: Any = {"memory": [{"id": "0", "text": told[-1]}] if told else []}
    else:
        value = _instance(schema, schema, said)
    message = {"role": "assistant", "content": json.dumps(value)}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    head = {"id": "1", "object": "chat.completion", "created": 0, "model": "double"}
    return {**head, "choices": [choice], "usage": usage}


def _schema(body: Mapping[str, Any], prompts: Sequence[str]) -> Any:
    """Return the schema that the request names, or that one of its *prompts* shows; None for neither."""
    named = (body.get("response_format") or {}).get("json_schema")
    if named:
        return named["schema"]
    for prompt in prompts:
        for place in re.finditer(r"\{", prompt):
            with suppress(ValueError):
                found, _ = json.JSONDecoder().raw_decode(prompt[place.start() :])
                if isinstance(found, dict) and "properties" in found:
                    return found
    return None


def _instance(schema: Mapping[str, Any], root: Mapping[str, Any], said: str, name: str = "", place: int = 0) -> Any:
    """Return a value of *schema*: two entities, a fact that repeats what was *said*, nothing that is optional."""
    if "$ref" in schema:
        return _instance(root["$defs"][schema["$ref"].rpartition("/")[2]], root, said, name, place)
    if "anyOf" in schema:
        kinds = [one for one in schema["anyOf"] if one.get("type") != "null"]
        return None if len(kinds) < len(schema["anyOf"]) else _instance(kinds[0], root, said, name, place)
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            wanted = schema.get("required", schema.get("properties", {}).keys())
            fields = schema.get("properties", {})
            return {key: _instance(fields[key], root, said, key, place) for key in wanted}
        case "array":
            if name in ("duplicate_facts", "contradicted_facts", "entity_resolutions", "summaries", "timestamps"):
                return []
            count = 2 if name in _ENTITIES else 1
            return [_instance(schema.get("items", {}), root, said, name, number) for number in range(count)]
        case "integer" | "number":
            return 0
        case "boolean":
            return False
    words = re.findall(r"\w{3,}", said) or ["nothing"]
    ends = (words[0], words[-1])
    if name in ("name", "id"):
        return ends[place]
    if name.startswith("source"):
        return ends[0]
    if name.startswith("target"):
        return ends[1]
    return said if name in ("fact", "text", "summary", "description", "content") else "SAID"
