"""Providers by the name of a model: ``open_provider("anthropic:claude-…")``, with key and address of the environment.

Importing it imports no provider: the command line reads endpoints from here at each start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tellback.agent.errors import ArgumentError

if TYPE_CHECKING:
    from tellback.agent.providers.base import Provider
    from tellback.agent.providers.openai import Server
    from tellback.memory.http import HttpClient

PROVIDER_KINDS: Final = ("openai", "anthropic", "ollama")
DEFAULT_OPENAI_URL: Final = "https://api.openai.com/v1"
DEFAULT_ANTHROPIC_URL: Final = "https://api.anthropic.com"
_OLLAMA_PORTS = {"http": "80", "https": "443"}
_OLLAMA_PORT = "11434"


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """Endpoint of a model: the *kind* of its API, the model's *name* there, its address and its key.

    *named*: the environment has an address or a key for it.
    """

    kind: str
    name: str
    url: str
    key: str | None = field(repr=False)
    named: bool


def model_endpoint(model: str, environment: Mapping[str, str]) -> ModelEndpoint:
    """Return the endpoint of *model* by the variables in *environment*.

    Its kind is the prefix of the name (``ollama:NAME``), else the one that has a key or an address there.
    """
    prefix, _, name = model.partition(":")
    if not name or prefix not in PROVIDER_KINDS:
        prefix, name = "openai", model
        if not environment.keys() & {"OPENAI_BASE_URL", "OPENAI_API_KEY"}:
            others = {"ANTHROPIC_API_KEY": "anthropic", "OLLAMA_HOST": "ollama"}
            prefix = next((kind for variable, kind in others.items() if variable in environment), prefix)
    if prefix == "ollama":
        return ModelEndpoint(prefix, name, ollama_address(environment.get("OLLAMA_HOST", "")), None, True)
    default = DEFAULT_ANTHROPIC_URL if prefix == "anthropic" else DEFAULT_OPENAI_URL
    url, key = (environment.get(f"{prefix.upper()}_{part}") for part in ("BASE_URL", "API_KEY"))
    return ModelEndpoint(prefix, name, url or default, key, bool(url or key))


def open_provider(
    model: str,
    *,
    environment: Mapping[str, str] | None = None,
    client: HttpClient | None = None,
    server: Server | None = None,
) -> Provider:
    """Return the provider of *model*: "anthropic:NAME", "openai:NAME" or "ollama:NAME".

    Keys and addresses are ``ANTHROPIC_API_KEY``, ``OPENAI_API_KEY``, ``ANTHROPIC_BASE_URL``, ``OPENAI_BASE_URL`` and
    ``OLLAMA_HOST`` of *environment* (None: of the process); a name without a prefix goes to the one of them that is
    set. *server* says which server of OpenAI's format it is. A *client* given is shared. Where neither key nor address
    is set, ``ArgumentError`` names the variables.
    """
    if not isinstance(model, str) or not model.strip():
        raise ArgumentError("model", model, 'a name such as "anthropic:claude-sonnet-5" is needed')
    variables = {name: value for name, value in (os.environ if environment is None else environment).items() if value}
    endpoint = model_endpoint(model.strip(), variables)
    if not endpoint.named:
        vendor = endpoint.kind.upper()
        needed = f"{vendor}_API_KEY is needed, or {vendor}_BASE_URL for a server of your own"
        if endpoint.kind == "openai":
            needed += "; ANTHROPIC_API_KEY or OLLAMA_HOST where it is theirs"
        raise ArgumentError("model", model, needed)
    if endpoint.kind == "anthropic":
        from tellback.agent.providers.anthropic import AnthropicProvider

        return AnthropicProvider(endpoint.name, api_key=endpoint.key, base_url=endpoint.url, cache=True, client=client)
    if endpoint.kind == "ollama":
        from tellback.agent.providers.ollama import OllamaProvider

        return OllamaProvider(endpoint.name, base_url=endpoint.url, client=client)
    from tellback.agent.providers.openai import OpenAICompatibleProvider

    return OpenAICompatibleProvider(endpoint.url, endpoint.name, api_key=endpoint.key, client=client, server=server)


def ollama_address(host: str) -> str:
    """Return the address of what ``OLLAMA_HOST`` names, by Ollama's own rules.

    >>> ollama_address("192.168.1.4")
    'http://192.168.1.4:11434'
    """
    scheme, separator, rest = host.strip().strip("\"'").partition("://")
    if not separator:
        scheme, rest = "http", scheme
    port = _OLLAMA_PORTS[scheme] if separator and scheme in _OLLAMA_PORTS else _OLLAMA_PORT
    authority, _, path = rest.partition("/")
    name, named_port = _split_host_port(authority)
    name = name or "127.0.0.1"
    if name in ("0.0.0.0", "::"):  # noqa: S104 - where a server listens; a client asks this machine
        name = "127.0.0.1"
    name = f"[{name}]" if ":" in name else name
    return "/".join(part for part in (f"{scheme}://{name}:{named_port or port}", path.strip("/")) if part)


def _split_host_port(authority: str) -> tuple[str, str]:
    """Return host and port ("" where none is named) of ``host``, ``:port``, ``host:port``, ``[v6]:port`` or ``v6``."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(authority.strip("[]"))), ""
    except ValueError:
        host, _, port = authority.rpartition(":") if ":" in authority else (authority, "", "")
        return host.strip("[]"), port
