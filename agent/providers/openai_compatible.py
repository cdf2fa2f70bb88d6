"""Any endpoint that speaks OpenAI's Chat Completions: OpenAI, llama.cpp, vLLM, LM Studio, Ollama, OpenRouter, ….

    provider = OpenAICompatibleProvider("http://localhost:8080/v1", "qwen3")

It knows addresses and keys; the words of the format are ``openai_request`` and ``openai_chunks``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Literal
from urllib.parse import urlsplit

from agent.errors import ArgumentError, ProviderError
from agent.providers.openai_chunks import ChunkReader
from agent.providers.openai_request import payload
from agent.providers.protocol import Delta, Request
from memory import HttpError
from memory.http import HttpClient

_HINTS = {
    401: "the key was refused; is OPENAI_API_KEY that of this endpoint?",
    403: "the key may not use this model",
    404: "no such model, or the address lacks its /v1",
}


class OpenAICompatibleProvider:
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
        if not isinstance(model, str) or not model.strip():
            raise ArgumentError("model", model, "the name of a model is needed; list_models says which there are")
        self._url = checked_base(base_url)
        self._model = model
        self._headers = {**(headers or {}), **authorisation(api_key)}
        self._key = api_key or ""
        self._own = client is None
        self._client = client or HttpClient()
        self._reasoning_field = reasoning_field
        self._limit_field = limit_field or _limit_field(self._url)

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self._model

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """As the protocol says."""
        body = payload(request, self._model, limit_field=self._limit_field, reasoning_field=self._reasoning_field)
        reader = ChunkReader(self._model, hidden=self._key)
        events = self._client.stream_events(self._url + "/chat/completions", body, headers=self._headers)
        with translated(self._model):
            async with aclosing(events):
                async for event in events:
                    for delta in reader.read(event.event, event.data):
                        yield delta
                    if reader.done:
                        break
        yield reader.finish()

    async def aclose(self) -> None:
        """Close its connections; a client that was given stays open."""
        if self._own:
            await self._client.aclose()

    def __repr__(self) -> str:
        return f"OpenAICompatibleProvider({shown(self._url)!r}, {self._model!r})"


async def list_models(base_url: str, *, api_key: str | None = None, client: HttpClient | None = None) -> list[str]:
    """Return the names of the models that the endpoint has, sorted."""
    url = checked_base(base_url)
    http = client or HttpClient()
    try:
        with translated(shown(url)):
            answer = await http.get_json(url + "/models", headers=authorisation(api_key))
    finally:
        if client is None:
            await http.aclose()
    listed = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(listed, list):
        raise ProviderError("the list of models has an unknown shape", provider=shown(url))
    return sorted(one["id"] for one in listed if isinstance(one, dict) and isinstance(one.get("id"), str))


def authorisation(api_key: str | None) -> dict[str, str]:
    """Return the header that carries *api_key*; none without one."""
    if api_key is None:
        return {}
    if not isinstance(api_key, str) or not api_key.strip() or not api_key.isascii():
        raise ArgumentError("api_key", "(hidden)", "a key of plain characters is needed, or None")
    return {"authorization": f"Bearer {api_key.strip()}"}


def checked_base(base_url: str) -> str:
    """Return *base_url* without a trailing slash, if it is an http address."""
    expected = "an address such as http://localhost:8080/v1 is needed"
    if not isinstance(base_url, str):
        raise ArgumentError("base_url", base_url, expected)
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query
    except ValueError:
        usable = False
    if not usable:
        raise ArgumentError("base_url", shown(base_url), expected)
    return base_url.rstrip("/")


def shown(url: str) -> str:
    """Return *url* without what may carry a key."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "(unreadable address)"
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"


@contextmanager
def translated(provider: str) -> Iterator[None]:
    """Turn what the HTTP client raises into ``ProviderError``."""
    try:
        yield
    except HttpError as error:
        hint = _HINTS.get(error.status or 0)
        problem = f"{error} ({hint})" if hint else str(error)
        raise ProviderError(problem, provider=provider, status=error.status, retry_after=error.retry_after) from error


def _limit_field(url: str) -> str:
    host = urlsplit(url).hostname or ""
    return "max_completion_tokens" if host == "openai.com" or host.endswith(".openai.com") else "max_tokens"
