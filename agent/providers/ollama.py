"""Models that Ollama serves, in its own format.

    provider = OllamaProvider("the-name-of-a-model")  # at http://127.0.0.1:11434

It knows addresses; the words of the format are ``ollama_request`` and ``ollama_lines``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any

from agent.providers.capabilities import SETTINGS, TOOL_CHOICES, Capabilities, ModelInfo
from agent.providers.endpoint_provider import EndpointProvider, Reader
from agent.providers.ollama_lines import LineReader
from agent.providers.ollama_request import payload
from agent.providers.protocol import Request
from agent.providers.wire import Endpoint, bearer, text_of
from memory.http import HttpClient

BASE_URL = "http://127.0.0.1:11434"
_HINTS = {404: "no such model there; `ollama pull` fetches it"}


class OllamaProvider(EndpointProvider):
    """Streams replies of *model* at *base_url* (without ``/v1``).

    *api_key* is for a server behind a guard; Ollama itself wants none. *headers* are added to each request. A
    *client* given is shared and not closed here. The format has no way to force a tool call and no thinking budget.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = BASE_URL,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        client: HttpClient | None = None,
    ) -> None:
        sent = {**(headers or {}), **bearer(api_key)}
        super().__init__(Endpoint(base_url, name=model, headers=sent, key=api_key, hints=_HINTS, client=client), model)

    @property
    def capabilities(self) -> Capabilities:
        """What the format can say."""
        choices = TOOL_CHOICES - {"required"}
        return Capabilities(SETTINGS, thinking=frozenset({"off", "adaptive"}), tool_choices=choices)

    async def models(self) -> list[ModelInfo]:
        """Return the models that are installed, sorted by name."""
        answer = await self._endpoint.get("/api/tags")
        listed = answer.get("models") if isinstance(answer, dict) else None
        if not isinstance(listed, list):
            raise self._endpoint.broken("the list of models has an unknown shape")
        names = [text_of(one.get("name")) or text_of(one.get("model")) for one in listed if isinstance(one, dict)]
        return [ModelInfo(name) for name in sorted(filter(None, names))]

    def _asked(self, request: Request) -> tuple[AsyncGenerator[Any, None], Reader]:
        return self._endpoint.lines("/api/chat", payload(request, self._model)), LineReader(self._endpoint)
