"""Models that speak Anthropic's Messages: Anthropic's own, and servers that follow it, such as llama.cpp.

    provider = AnthropicProvider("the-name-of-a-model", api_key="…")

It knows addresses and keys; the words of the format are ``anthropic_request`` and ``anthropic_events``.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping
from typing import Any
from urllib.parse import quote

from agent.errors import ArgumentError
from agent.providers.anthropic_events import EventReader
from agent.providers.anthropic_request import payload
from agent.providers.capabilities import SETTINGS, Capabilities, ModelInfo
from agent.providers.endpoint_provider import EndpointProvider, Reader
from agent.providers.protocol import Request
from agent.providers.wire import Endpoint, bearer, checked_key, count_of, text_of
from memory.http import HttpClient

BASE_URL = "https://api.anthropic.com"
VERSION = "2026-10-21"
_HINTS = {
    401: "the key was refused; is ANTHROPIC_API_KEY that of this endpoint?",
    403: "the key may not use this model",
    404: "no such model, or the address is wrong: it has no /v1 at its end",
}
_UNKNOWN = frozenset({"min_p", "presence_penalty", "frequency_penalty", "seed"})
_SAMPLING = frozenset({"temperature", "top_p", "top_k"})
_SAMPLING_ENDED = "2026-10-21"
"""From this version on the format has no sampling settings, and keys go as bearer tokens."""
_PAGES = 20


class AnthropicProvider(EndpointProvider):
    """Streams replies of *model* at *base_url* (without ``/v1``).

    *api_key* is sent where given and never shown. *max_tokens*, which the format demands, is the limit of output
    where a request sets none. *cache* asks for prompt caching. *version* is the format's: one before 2026-10-21
    takes temperature, top_p and top_k, which raise with later ones. *headers* are added to each request. A *client*
    given is shared and not closed here.
    """

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str = BASE_URL,
        max_tokens: int = 8192,
        cache: bool = False,
        version: str = VERSION,
        headers: Mapping[str, str] | None = None,
        client: HttpClient | None = None,
    ) -> None:
        if type(max_tokens) is not int or max_tokens < 1:
            raise ArgumentError("max_tokens", max_tokens, "at least 1 is needed")
        if not isinstance(version, str) or not re.fullmatch(r"\d{4}-\d\d-\d\d", version):
            raise ArgumentError("version", version, f"a date such as {VERSION} is needed")
        self._max_tokens, self._cache = max_tokens, cache
        self._samples = version < _SAMPLING_ENDED
        key = checked_key(api_key)
        carrying = ({"x-api-key": key} if key else {}) if self._samples else bearer(api_key)
        sent = {**(headers or {}), "anthropic-version": version, **carrying}
        super().__init__(Endpoint(base_url, name=model, headers=sent, key=key, hints=_HINTS, client=client), model)

    @property
    def capabilities(self) -> Capabilities:
        """What the format can say in this version."""
        return Capabilities(SETTINGS - _UNKNOWN - (frozenset() if self._samples else _SAMPLING))

    async def models(self) -> list[ModelInfo]:
        """Return the models that the endpoint has, sorted by name."""
        found: list[ModelInfo] = []
        after = ""
        for _ in range(_PAGES):
            answer = await self._endpoint.get("/v1/models?limit=1000" + (f"&after_id={quote(after)}" if after else ""))
            listed = answer.get("data") if isinstance(answer, dict) else None
            if not isinstance(listed, list):
                raise self._endpoint.broken("the list of models has an unknown shape")
            named = [one for one in listed if isinstance(one, dict) and isinstance(one.get("id"), str)]
            found += [
                ModelInfo(one["id"], text_of(one.get("display_name")), count_of(one.get("max_input_tokens")) or None)
                for one in named
            ]
            after = text_of(answer.get("last_id"))
            if answer.get("has_more") is not True or not after:
                break
        return sorted(found, key=lambda one: one.name)

    def _asked(self, request: Request) -> tuple[AsyncGenerator[Any, None], Reader]:
        body = payload(request, self._model, max_tokens=self._max_tokens, cache=self._cache)
        return self._endpoint.events("/v1/messages", body), EventReader(self._endpoint)
