"""Embeddings as OpenAI's clients ask for them, by the memory's own embedder."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tellback.agent.assistant.server.proxy.upstream import MODEL_ALIAS, Refusal
from tellback.agent.json_values import parsed_object
from tellback.memory import Embedder, default_counter

_MOST_TEXTS: Final = 2_048
_KINDS: Final = {"document": "document", "passage": "document", "query": "query"}
_FIELDS: Final = frozenset({"dimensions", "encoding_format", "input", "input_type", "model", "user"})


async def embeddings(body: bytes, embedder: Embedder | None) -> dict[str, Any]:
    """Return the answer to the request *body*; what cannot be honoured raises ``Refusal``."""
    request = parsed_object(body)
    if request is None:
        raise Refusal("unreadable", "the body is no JSON object")
    if embedder is None:
        raise Refusal("no_embedder", "this memory searches by words alone; the extra `local` brings an embedder", 501)
    if unknown := sorted(request.keys() - _FIELDS):
        raise Refusal("unknown_field", f"{unknown[0]}: no such field; there are {', '.join(sorted(_FIELDS))}")
    texts = _texts(request.get("input"))
    form = request.get("encoding_format", "float")
    if form not in ("float", "base64"):
        raise Refusal("encoding_format", f"encoding_format: float or base64 is needed, not {form!r}")
    kind = _KINDS.get(str(request.get("input_type", "document")))
    if kind is None:
        raise Refusal("input_type", f"input_type: one of {', '.join(_KINDS)} is needed")
    name = embedder.fingerprint
    if request.get("model") not in (MODEL_ALIAS, name):
        raise Refusal("model_not_found", f"model: {MODEL_ALIAS} is needed, or its full name {name}", 404)
    vectors = await embedder.embed(texts, "query" if kind == "query" else "document")
    wanted = request.get("dimensions")
    if wanted is not None and wanted != vectors.shape[1]:
        raise Refusal("dimensions", f"dimensions: this embedder has {vectors.shape[1]}")
    data = [
        {"object": "embedding", "index": index, "embedding": _encoded(vector, form)}
        for index, vector in enumerate(vectors)
    ]
    count = default_counter().count
    tokens = sum(count(text) for text in texts)
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return {"object": "list", "model": name, "data": data, "usage": usage}


def _texts(given: Any) -> Sequence[str]:
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise Refusal("input", "input: a text or a list of texts is needed; the embedder has no tokens of others")
    if len(texts) > _MOST_TEXTS:
        raise Refusal("input", f"input: at most {_MOST_TEXTS} texts, not {len(texts)}")
    return texts


def _encoded(vector: np.ndarray[Any, np.dtype[np.float32]], form: str) -> str | list[float]:
    if form == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    return [float(number) for number in vector]
