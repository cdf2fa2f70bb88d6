"""Any endpoint that speaks OpenAI's Chat Completions: OpenAI, llama.cpp, vLLM, LM Studio, Ollama, OpenRouter, ….

    provider = OpenAICompatibleProvider("http://localhost:8080/v1", "qwen3")

It knows addresses and keys; the words of the format are ``openai_request`` and ``openai_chunks``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from agent.providers.capabilities import SETTINGS, Capabilities, ModelInfo
from agent.providers.endpoint_provider import EndpointProvider, Reader
from agent.providers.openai_chunks import ChunkReader
from agent.providers.openai_request import payload
from agent.providers.protocol import Request
from agent.providers.wire import Endpoint, bearer, checked_base, count_of, part_of, shown
from memory.http import HttpClient

_HINTS = {
    401: "the key was refused; is OPENAI_API_KEY that of this endpoint?",
    403: "the key may not use this model",
    404: "no such model, or the address lacks its /v1",
}
_NOT_OPENAI = frozenset({"top_k", "min_p"})


class OpenAICompatibleProvider(EndpointProvider):
    """Streams replies of *model* at *base_url* (which usually ends in ``/v1``).

    *api_key* is sent where given and never shown. *headers* are added to each request. *reasoning_field* names the
    field in which this server wants a model's reasoning back during tool use; None sends none back, as the format
    has no place of its own. *limit_field* is the server's name for the limit of output tokens (None: OpenAI's own
    for OpenAI, ``max_tokens`` elsewhere). A *client* given is shared and not closed here.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        client: HttpClient | None = None,
        headers: Mapping[str, str] | None = None,
        reasoning_field: Literal["reasoning_content", "reasoning"] | None = None,
        limit_field: Literal["max_tokens", "max_completion_tokens"] | None = None,
    ) -> None:
        sent = {**(headers or {}), **bearer(api_key)}
        super().__init__(Endpoint(base_url, name=model, headers=sent, key=api_key, hints=_HINTS, client=client), model)
        self._is_openai = _is_openai(self._endpoint.url)
        self._reasoning_field = reasoning_field
        self._limit_field = limit_field or ("max_completion_tokens" if self._is_openai else "max_tokens")

    @property
    def capabilities(self) -> Capabilities:
        """What the format can say; OpenAI itself takes fewer settings than servers that follow it."""
        return Capabilities(SETTINGS - _NOT_OPENAI if self._is_openai else SETTINGS, thinking=frozenset({"off"}))

    async def models(self) -> list[ModelInfo]:
        """Return the models that the endpoint has, sorted by name."""
        answer = await self._endpoint.get("/models")
        listed = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise self._endpoint.broken("the list of models has an unknown shape")
        named = [one for one in listed if isinstance(one, dict) and isinstance(one.get("id"), str)]
        return sorted((ModelInfo(one["id"], context=_context(one)) for one in named), key=lambda one: one.name)

    def _asked(self, request: Request) -> tuple[AsyncGenerator[Any, None], Reader]:
        body = payload(request, self._model, limit_field=self._limit_field, reasoning_field=self._reasoning_field)
        return self._endpoint.events("/chat/completions", body), ChunkReader(self._endpoint)


async def list_models(base_url: str, *, api_key: str | None = None, client: HttpClient | None = None) -> list[str]:
    """Return the names of the models that the endpoint has, sorted."""
    provider = OpenAICompatibleProvider(base_url, shown(checked_base(base_url)), api_key=api_key, client=client)
    try:
        return [model.name for model in await provider.models()]
    finally:
        await provider.aclose()


def _is_openai(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


def _context(listed: dict[str, Any]) -> int | None:
    """Return the length of a model's window under the names that servers use; OpenAI itself does not tell."""
    names = ("context_length", "context_window", "max_model_len")
    known = [count_of(listed.get(name)) for name in names] + [count_of(part_of(listed, "meta").get("n_ctx_train"))]
    return next((count for count in known if count), None)
