"""Configuration of the assistant: a flag beats the environment, which beats the file, which beats the default.

The file is TOML: ``config.toml`` in the platform's configuration folder, or the file that ``TELLBACK_CONFIG`` names.
Its keys are the fields of the settings. Secrets are never shown: not in a repr, an error or the output of ``doctor``.
Addresses of endpoints are normalized from the forms that people write.
"""

from __future__ import annotations

import ipaddress
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, PositiveInt, SecretStr, ValidationError, field_validator

from agent.errors import AgentError
from vectorstore.persisted_names import FORMER_FOLDER


class ConfigurationError(AgentError):
    """A setting of the assistant is missing or unusable."""


CONFIG_VARIABLE = "TELLBACK_CONFIG"
DEFAULT_OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_ANTHROPIC_URL = "https://api.anthropic.com"
PROVIDER_KINDS = ("openai", "anthropic", "ollama")
NO_MODEL = "none"
WINDOW_KINDS = ("turns", "tokens", "summary")
EMBEDDER_KINDS = ("auto", "local", "static", "none", "ollama", "onnx", "openai")
ADDRESS_SETTINGS = ("anthropic_base_url", "base_url", "embedding_base_url", "ollama_host")
"""Settings that may hold a user name and a password."""
KEY_SETTINGS = ("api_key", "anthropic_api_key", "embedding_api_key")


class McpSettings(BaseModel):
    """MCP servers whose tools ``chat`` may use, by name; checked as ``McpServer`` where they are used."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    servers: Mapping[str, Mapping[str, Any]] = Field(default_factory=dict)

    def __str__(self) -> str:
        """The names of the servers; what is set of them may be secret."""
        return ", ".join(self.servers) or "none"


class AssistantSettings(BaseModel):
    """Settings of the assistant, from flags, environment, file and defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    memory: Path = Field(default_factory=lambda: _default_memory("tellback"))
    namespace: str = ""
    offline: bool = False
    language: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: SecretStr | None = None
    anthropic_api_key: SecretStr | None = None
    anthropic_base_url: str | None = None
    ollama_host: str | None = None
    model_server: Literal["openai", "openrouter", "llama.cpp", "vllm", "lmstudio", "ollama"] | None = None
    """Server at *base_url*: each has fields of its own for thinking and the repetition penalty."""
    thinking: Literal["on", "off"] | PositiveInt | None = None
    effort: str | None = None
    temperature: float | None = Field(default=None, ge=0)
    repetition_penalty: float | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, ge=1)
    reply_limit: int = Field(default=200_000, ge=1)
    """Characters after which a reply is cut off, its reasoning counted."""
    silence_timeout: float = Field(default=300.0, gt=0)
    """Seconds of silence after which a model's or an embedder's server is given up."""
    embedder: str = "auto"
    embedding_model: str | None = None
    embedding_base_url: str | None = None
    embedding_api_key: SecretStr | None = None
    embedding_cache: int = Field(default=0, ge=0)
    """Megabytes of vectors that are kept in the memory's file, so that a text that comes again is not sent again."""
    reranker: str | None = None
    """ONNX model that scores the best hits of a recall again: ``onnx:MODEL``."""
    token_budget: int = Field(default=16_000, ge=500)
    window: str = "all"
    web_hosts: str = ""
    """Hosts of one's own network, with commas between them, whose pages may be ingested."""
    trace: bool = True
    system: str = ""
    secrets: Literal["redact", "reject", "keep"] = "redact"
    share_sensitive: bool = False
    minimum_length: int = Field(default=0, ge=0)
    near_duplicates: Literal["keep", "link", "fold"] = "keep"
    replacements: Literal["off", "model"] = "off"
    """Who decides, when something is remembered, which older memories it replaces: nobody, or the model."""
    hook_tokens: int = Field(default=1_000, ge=100)
    """Tokens of what a hook adds to a prompt in another client, at most."""
    hook_keep: Literal["all", "prompts", "nothing"] = "all"
    """What hooks keep of a conversation in another client: prompts and answers, prompts alone, or nothing."""
    resident_idle: int = Field(default=1800, ge=0)
    """Seconds without a request after which the resident process of hooks ends; 0: none is started."""
    prompt_history: bool = True
    """Whether the arrow keys of ``chat`` bring back what was typed in earlier conversations."""
    mcp: McpSettings = McpSettings()

    @property
    def kind(self) -> str:
        """Kind of the provider: the prefix of the model's name (``ollama:NAME``), or the one that is set up."""
        prefix, colon, _ = (self.model or "").partition(":")
        if colon and prefix in PROVIDER_KINDS:
            return prefix
        if self.base_url is None and self.api_key is None:
            if self.anthropic_api_key is not None:
                return "anthropic"
            if self.ollama_host is not None:
                return "ollama"
        return "openai"

    @property
    def model_name(self) -> str:
        """Name of the model, as its endpoint knows it."""
        prefix, _, name = (self.model or "").partition(":")
        return name if name and prefix in PROVIDER_KINDS else self.model or ""

    @property
    def endpoint(self) -> str:
        """Address of the model's endpoint."""
        if self.kind == "anthropic":
            return self.anthropic_base_url or DEFAULT_ANTHROPIC_URL
        if self.kind == "ollama":
            return ollama_address(self.ollama_host or "")
        return self.base_url or DEFAULT_OPENAI_URL

    @property
    def embedder_kind(self) -> str:
        """Kind of the embedder: the word before the model's name."""
        return self.embedder.partition(":")[0]

    @property
    def embedder_model(self) -> str:
        """Name of the model that embeds, as its endpoint knows it, or its folder; "" where none is set."""
        return self.embedder.partition(":")[2] or self.embedding_model or ""

    @property
    def embeds_at_an_endpoint(self) -> bool:
        """Return whether an endpoint embeds texts."""
        return self.embedder_kind in ("ollama", "openai")

    @property
    def embedding_endpoint(self) -> str:
        """Address of the embedder's endpoint, if an endpoint embeds texts."""
        if self.embedder_kind == "ollama":
            address = self.embedding_base_url or ollama_address(self.ollama_host or "")
            return address.removesuffix("/v1")
        if self.embedding_base_url is None and self.base_url is None and self.api_key is None and self.ollama_host:
            return ollama_address(self.ollama_host) + "/v1"
        return self.embedding_base_url or self.base_url or DEFAULT_OPENAI_URL

    @property
    def key(self) -> str | None:
        """Key of the model's endpoint, for this endpoint alone."""
        return _secret_value({"openai": self.api_key, "anthropic": self.anthropic_api_key}.get(self.kind))

    @property
    def embedding_key(self) -> str | None:
        """Key of the embedder's endpoint. OpenAI's key is used only if the endpoint is OpenAI's own."""
        same = self.embedder_kind != "ollama" and self.embedding_endpoint == (self.base_url or DEFAULT_OPENAI_URL)
        return _secret_value(self.embedding_api_key or (self.api_key if same else None))

    @field_validator("memory", mode="before")
    @classmethod
    def _path(cls, value: object) -> object:
        if isinstance(value, (str, Path)) and not str(value).strip():
            raise ValueError("the path of a file is needed")
        return Path(value).expanduser() if isinstance(value, (str, Path)) else value

    @field_validator("model")
    @classmethod
    def _model(cls, value: str | None) -> str | None:
        return None if value is None or value.strip().lower() in ("", NO_MODEL) else value.strip()

    @field_validator("language")
    @classmethod
    def _language(cls, value: str | None) -> str | None:
        return None if value is None or not value.strip() else value.strip()

    @field_validator("thinking", mode="before")
    @classmethod
    def _thinking(cls, value: object) -> object:
        switches = {"true": "on", "false": "off"}
        text = str(value).strip().lower()
        text = switches.get(text, text)
        if value is None or text in ("on", "off") or (text.isdecimal() and int(text) > 0):
            return None if value is None else int(text) if text.isdecimal() else text
        raise ValueError("on, off or a number of tokens is needed")

    @field_validator("window")
    @classmethod
    def _window(cls, value: str) -> str:
        kind, _, size = value.strip().partition(":")
        if value.strip() != "all" and (kind not in WINDOW_KINDS or not size.isdecimal() or int(size) < 1):
            raise ValueError("all, turns:NUMBER, tokens:NUMBER or summary:NUMBER (of tokens) is needed")
        return value.strip()

    @field_validator("embedder")
    @classmethod
    def _embedder(cls, value: str) -> str:
        kind, colon, name = value.strip().partition(":")
        has_model = kind in ("ollama", "onnx", "openai")
        if kind not in EMBEDDER_KINDS or (colon and not (has_model and name.strip())):
            kinds = "'auto', 'local', 'static', 'none', 'ollama:MODEL', 'onnx:MODEL' or 'openai:MODEL'"
            raise ValueError(f"{kinds} is needed")
        return value.strip()

    @field_validator("reranker")
    @classmethod
    def _reranker(cls, value: str | None) -> str | None:
        kind, _, name = (value or "").strip().partition(":")
        if kind in ("", "none") and not name:
            return None
        if kind != "onnx" or not name.strip():
            raise ValueError("'onnx:MODEL' or 'none' is needed")
        return f"{kind}:{name.strip()}"

    @field_validator("base_url", "anthropic_base_url", "embedding_base_url")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        return None if value is None else http_address(value)

    @field_validator("ollama_host")
    @classmethod
    def _host(cls, value: str | None) -> str | None:
        if value is not None:
            http_address(ollama_address(value))
        return value


_VENDOR_VARIABLES = {
    "base_url": "OPENAI_BASE_URL",
    "api_key": "OPENAI_API_KEY",
    "anthropic_api_key": "ANTHROPIC_API_KEY",
    "anthropic_base_url": "ANTHROPIC_BASE_URL",
    "ollama_host": "OLLAMA_HOST",
}
ENVIRONMENT_VARIABLES: Mapping[str, str] = {
    name: _VENDOR_VARIABLES.get(name, f"TELLBACK_{name.upper()}")
    for name in AssistantSettings.model_fields
    if name != "mcp"  # tables are for the file
}
"""Environment variable of each setting."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings with the origin of each that is not a default."""

    settings: AssistantSettings
    origins: Mapping[str, str]
    path: Path

    @property
    def former_memory(self) -> Path | None:
        """Memory file in the folder of the project's former name, if no new memory has been begun."""
        former = _default_memory(FORMER_FOLDER)
        chosen = "memory" in self.origins or os.path.lexists(self.settings.memory)
        return None if chosen or not former.is_file() else former


def load_configuration(*, flags: Mapping[str, Any], environ: Mapping[str, str]) -> Configuration:
    """Return the configuration; *flags* that are None were not given.

    Raises ``ConfigurationError`` naming the setting, where it came from and what would be right.
    """
    named = environ.get(CONFIG_VARIABLE)
    path = Path(named).expanduser() if named else platformdirs.user_config_path("tellback") / "config.toml"
    layers = {
        **_file_layer(path, required=bool(named)),
        **{name: (environ[key], key) for name, key in ENVIRONMENT_VARIABLES.items() if environ.get(key)},
        **{name: (value, f"--{name}") for name, value in flags.items() if value is not None},
    }
    values = {name: value for name, (value, _) in layers.items()}
    origins = {name: origin for name, (_, origin) in layers.items()}
    try:
        settings = AssistantSettings.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError(validation_message(error, values, origins)) from None
    return Configuration(settings, origins, path)


def _default_memory(folder: str) -> Path:
    return platformdirs.user_data_path(folder) / "memory.db"


def validation_message(error: ValidationError, values: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """Return the first problem of *error* in one line: the setting, its origin, what would be right."""
    problem = error.errors(include_input=False, include_url=False)[0]
    name = str(problem["loc"][0])
    if problem["type"] == "extra_forbidden":
        return f"{name} (from {origins[name]}): no such setting; there are {', '.join(AssistantSettings.model_fields)}"
    message = problem["msg"].removeprefix("Value error, ")
    if name == "mcp":
        return f"{'.'.join(map(str, problem['loc']))} (from {origins[name]}): {message}"
    value = "" if name in ADDRESS_SETTINGS + KEY_SETTINGS else f", got {values[name]!r}"
    return f"{name} (from {origins[name]}): {message}{value}"


def _file_layer(path: Path, *, required: bool) -> dict[str, tuple[Any, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if required:
            raise ConfigurationError(f"{path}: the file that {CONFIG_VARIABLE} names is not there") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: the configuration cannot be read ({error})") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from error
    if isinstance(values.get("memory"), str) and values["memory"].strip():
        # A path in the file is meant from where the file stands, whatever folder the command runs in.
        values["memory"] = path.parent / Path(values["memory"]).expanduser()
    return {name: (value, str(path)) for name, value in values.items()}


def _secret_value(value: SecretStr | None) -> str | None:
    return None if value is None else value.get_secret_value()


_OLLAMA_PORTS = {"http": "80", "https": "443"}
_OLLAMA_PORT = "11434"


def http_address(text: str) -> str:
    """Return *text* without a trailing slash, if it is an http address; else raise ``ValueError``."""
    address = text.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("an address such as http://localhost:8080/v1 is needed")
    return address


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
    try:
        return str(ipaddress.ip_address(authority.strip("[]"))), ""
    except ValueError:
        host, _, port = authority.rpartition(":") if ":" in authority else (authority, "", "")
        return host.strip("[]"), port
