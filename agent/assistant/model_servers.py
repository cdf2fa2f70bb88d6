"""Model servers: those that answer on this machine, those that keys are set for, and one at an address; their models.

On this machine the usual ports of Ollama, llama.cpp and LM Studio are asked, all at once and briefly. A service with a
key is only asked when it is chosen: that leaves the machine.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from tellback.agent.assistant.config import (
    ENVIRONMENT_VARIABLES,
    AssistantSettings,
    Configuration,
    ConfigurationError,
    with_settings,
)
from tellback.agent.assistant.key_store import KEYRING_ORIGIN, keys_path, read_keys
from tellback.agent.assistant.setting_checks import Secret, http_address
from tellback.agent.errors import AgentError
from tellback.agent.providers.open import DEFAULT_ANTHROPIC_URL, DEFAULT_OPENAI_URL, ollama_address

if TYPE_CHECKING:
    from tellback.agent.providers.base import ModelInfo
    from tellback.memory.http import HttpClient

LOCAL_SERVERS: Final = {"http://127.0.0.1:8080/v1": "", "http://127.0.0.1:1234/v1": "lmstudio"}
"""Default addresses of OpenAI-compatible servers on this machine, with the kind where one server alone uses the port.

Ollama's address is a setting. Port 8080 is the default of llama.cpp, which names itself, and of many others.
"""
SERVICES: Final = {
    "openai": ("OpenAI", DEFAULT_OPENAI_URL, "api_key"),
    "anthropic": ("Anthropic", DEFAULT_ANTHROPIC_URL, "anthropic_api_key"),
}
"""Services by the prefix of their models: title, address, and the setting of the key."""
_ENDPOINT_SETTINGS: Final = ("model", "base_url", "model_server", "ollama_host", "anthropic_base_url")
_KIND_OF_OWNER: Final = {"llamacpp": "llama.cpp", "vllm": "vllm"}
"""Kind of a server by who owns its models, as it says itself."""
_TITLES: Final = {"llama.cpp": "llama.cpp", "vllm": "vLLM", "lmstudio": "LM Studio"}
_CONNECT_SECONDS: Final = 0.5
_SEARCH_SECONDS: Final = 2.0
_SERVICE_SECONDS: Final = 20.0
_NO_CHAT_MODEL: Final = re.compile(
    r"embed|\bbge|minilm|\be5-|\bgte-|rerank|whisper|\btts|dall-e|moderation|transcribe|image|realtime|audio|sora"
    r"|davinci|babbage",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ModelServer:
    """Server of models: its *title* and *address*, the settings that lead to it, and the models it lists.

    *prefix* stands before a model's name in the settings. *key_setting* is the setting of its key, if it takes one.
    """

    title: str
    address: str
    settings: Mapping[str, str]
    prefix: str = ""
    key_setting: str | None = None
    models: tuple[str, ...] = ()

    @property
    def chat_models(self) -> tuple[str, ...]:
        """Models that can answer, as far as their names tell: embedders and the like are left out."""
        return tuple(name for name in self.models if not _NO_CHAT_MODEL.search(name))

    def settings_for(self, model: str) -> dict[str, str | None]:
        """Return the settings that make *model* of this server the one that answers; None takes one out."""
        return {**dict.fromkeys(_ENDPOINT_SETTINGS), **self.settings, "model": self.prefix + model}


@dataclass(frozen=True, slots=True)
class FoundServers:
    """Servers that answered, each with its models, and services that a key is set for, which were not asked."""

    servers: tuple[ModelServer, ...] = ()
    services: tuple[ModelServer, ...] = field(default=())


async def find_servers(configuration: Configuration) -> FoundServers:
    """Return the servers that answer within two seconds, and the services that there is a key for."""
    settings = configuration.settings
    candidates = [_ollama(settings)]
    if settings.base_url is not None:
        candidates.append(_compatible(settings.base_url, settings.model_server))
    candidates += [_compatible(address, kind) for address, kind in LOCAL_SERVERS.items()]
    unique = {server.address.replace("localhost", "127.0.0.1"): server for server in reversed(candidates)}
    async with _client(settings, _SEARCH_SECONDS, connect=_CONNECT_SECONDS) as client:
        answers = await asyncio.gather(
            *(_answering(server, configuration, client) for server in reversed(unique.values())), return_exceptions=True
        )
    services = [known for known in map(service, SERVICES) if _known_key(known, configuration) is not None]
    answered = tuple(server for server in answers if isinstance(server, ModelServer))
    return FoundServers(answered, tuple(services))


async def server_at(address: str, configuration: Configuration, key: str | None = None) -> ModelServer:
    """Return the server at *address*, or the service of that name, with its models; it is sent *key*.

    An address may leave out its ``/v1``. A server that does not answer raises its error.
    """
    settings, name = configuration.settings, address.strip().lower()
    if name in SERVICES:
        candidates = [service(name)]
        if key is None and _known_key(candidates[0], configuration) is None:
            raise ConfigurationError(f"{candidates[0].title} needs a key: --key-stdin reads one")
    elif name == "ollama":
        candidates = [_ollama(settings)]
    else:
        try:
            url = http_address(address)
        except ValueError as error:
            known = ", ".join(("ollama", *SERVICES))
            raise ConfigurationError(f"server {address!r}: {error}, or one of {known}") from None
        ollama = ModelServer("Ollama", url, {"ollama_host": url}, "ollama:")
        bare = [_compatible(f"{url}/v1"), ollama, _compatible(url)]
        candidates = [_compatible(url)] if url.endswith("/v1") else bare
    async with _client(settings, _SERVICE_SECONDS) as client:
        for server in candidates[:-1]:
            try:
                return await _answering(server, configuration, client, key)
            except AgentError:
                continue
        return await _answering(candidates[-1], configuration, client, key)


def service(name: str) -> ModelServer:
    """Return the service *name* of ``SERVICES``, not yet asked for its models."""
    title, address, key = SERVICES[name]
    return ModelServer(title, address, {}, f"{name}:", key)


def _ollama(settings: AssistantSettings) -> ModelServer:
    host = settings.ollama_host
    settings_of_server = {} if host is None else {"ollama_host": host}
    return ModelServer("Ollama", ollama_address(host or ""), settings_of_server, "ollama:")


def _compatible(address: str, kind: str | None = None) -> ModelServer:
    """Return the OpenAI-compatible server at *address*, of the *kind* that settings name."""
    settings_of_server = {"base_url": address} | ({"model_server": kind} if kind else {})
    return ModelServer(_TITLES.get(kind or "", address), address, settings_of_server, key_setting="api_key")


def _client(settings: AssistantSettings, seconds: float, *, connect: float | None = None) -> HttpClient:
    from tellback.memory.http import HttpClient, Timeouts

    times = Timeouts(connect=connect or seconds, read=seconds, write=seconds, total=seconds)
    return HttpClient(timeout=times, retries=0, offline=settings.offline)


async def _answering(
    server: ModelServer, configuration: Configuration, client: HttpClient, key: str | None = None
) -> ModelServer:
    """Return *server* with the models that it lists, and its title and kind as far as it says them."""
    from tellback.agent.assistant.wiring import make_provider

    chosen = with_settings(configuration.settings, server.settings_for("any"))
    if server.key_setting is not None:
        sent = _known_key(server, configuration) if key is None else Secret(key)
        chosen = with_settings(chosen, {server.key_setting: sent})
    provider: Any = make_provider(chosen, client)  # every provider of an endpoint lists its models
    models: list[ModelInfo] = await provider.models()
    kind = next((_KIND_OF_OWNER[model.owner] for model in models if model.owner in _KIND_OF_OWNER), None)
    if kind is not None and "base_url" in server.settings:
        server = _compatible(server.address, kind)
    return replace(server, models=tuple(model.name for model in models))


def _known_key(server: ModelServer, configuration: Configuration) -> Secret | None:
    """Return the key kept or configured for the address of *server*; None for a server without one.

    A key is never returned for another address. A key in the environment belongs to its service, unless the
    environment names an address, too.
    """
    if server.key_setting is None:
        return None
    keys = keys_path(configuration.path)
    if (kept := read_keys(keys).get(server.address)) is not None:
        return kept
    settings, origins = configuration.settings, configuration.origins
    configured: Secret | None = getattr(settings, server.key_setting)
    if origins.get(server.key_setting) in (KEYRING_ORIGIN, str(keys)):
        return None
    is_service = not server.settings
    address = "base_url" if server.key_setting == "api_key" else "anthropic_base_url"
    address_given = origins.get(address) == ENVIRONMENT_VARIABLES[address]
    own = server.address == settings.endpoint_of(server.key_setting)
    return configured if own or (is_service and not address_given) else None
