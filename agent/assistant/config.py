"""Configuration of the assistant: a flag beats the environment, which beats the file, which beats the default.

The file is TOML: ``config.toml`` in the platform's configuration folder, or the file that ``TELLBACK_CONFIG`` names.
Its keys are the fields of the settings. Secrets are never shown: not in a repr, an error or the output of ``doctor``.
Addresses of endpoints are normalized from the forms that people write.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints

import platformdirs

from tellback.agent.assistant import setting_checks as check
from tellback.agent.assistant.setting_checks import LINE_CLIENTS, Secret, http_address
from tellback.agent.assistant.setting_checks import ConfigurationError as ConfigurationError
from tellback.agent.providers.open import (
    DEFAULT_ANTHROPIC_URL,
    DEFAULT_OPENAI_URL,
    ModelEndpoint,
    model_endpoint,
    ollama_address,
)
from tellback.vectorstore.persisted_names import FORMER_FOLDER


class UnusableSetting(ValueError):
    """A value that a setting cannot have: its *name*, the *value*, and what would be right."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        self.name = name
        self.value = value
        self.expected = expected
        super().__init__(f"{name}: {expected}")


CONFIG_VARIABLE = "TELLBACK_CONFIG"
ADDRESS_SETTINGS = ("anthropic_base_url", "base_url", "embedding_base_url", "ollama_host")
"""Settings that may hold a user name and a password."""
KEY_SETTINGS = ("api_key", "anthropic_api_key", "embedding_api_key", "token")
"""Settings that are secret; those that are kept are in the keyring, or in a private file (``key_store``)."""


@dataclass(frozen=True, slots=True)
class McpSettings:
    """MCP servers whose tools ``chat`` may use, by name; checked as ``McpServer`` where they are used."""

    servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the names of the servers; their settings may hold secrets."""
        return ", ".join(self.servers) or "none"

    @classmethod
    def of(cls, value: object) -> McpSettings:
        """Return the settings of a TOML table; an unknown key raises ``UnusableSetting``."""
        if isinstance(value, McpSettings):
            return value
        if not isinstance(value, Mapping):
            raise UnusableSetting("mcp", value, "a table is needed")
        if unknown := value.keys() - {"servers"}:
            raise UnusableSetting(f"mcp.{min(unknown)}", value, "no such setting; there is servers")
        try:
            return cls(check.tables(value.get("servers", {})))
        except ValueError as error:
            raise UnusableSetting("mcp.servers", value, str(error)) from None


@dataclass(frozen=True)
class AssistantSettings:
    """Settings of the assistant, from flags, environment, file and defaults.

    A value that a setting cannot have raises ``UnusableSetting``.
    """

    memory: Annotated[Path | str, check.place] = field(default_factory=lambda: _default_memory("tellback"))
    """File of the memory, or its address on a server: ``postgresql://HOST/NAME``."""
    namespace: str = ""
    offline: bool = False
    language: Annotated[str | None, check.stripped] = None
    language_of_file: Annotated[bool, None] = False
    """Require an existing memory file to be in *language*; otherwise the language is for a new file alone."""
    name: Annotated[str | None, check.name] = None
    """Name of the user, by which others may speak of them."""
    zone: Annotated[str | None, check.zone] = None
    """Time zone of the user, such as ``Europe/Lisbon``; None: that of the machine."""
    token: Secret | None = None
    """Token for the server that has the memory."""
    model: Annotated[str | None, check.model] = None
    base_url: Annotated[str | None, http_address] = None
    api_key: Secret | None = None
    anthropic_api_key: Secret | None = None
    anthropic_base_url: Annotated[str | None, http_address] = None
    ollama_host: Annotated[str | None, check.ollama_host] = None
    model_server: Literal["openai", "openrouter", "llama.cpp", "vllm", "lmstudio", "ollama"] | None = None
    """Server at *base_url*: each has fields of its own for thinking and the repetition penalty."""
    thinking: Annotated[Literal["on", "off"] | int | None, check.thinking] = None
    effort: str | None = None
    temperature: Annotated[float | None, check.number(least=0)] = None
    repetition_penalty: Annotated[float | None, check.number(above=0)] = None
    max_tokens: Annotated[int | None, check.integer(1)] = None
    reply_limit: Annotated[int, check.integer(1)] = 200_000
    """Characters after which a reply is cut off, its reasoning counted."""
    silence_timeout: Annotated[float, check.number(above=0)] = 300.0
    """Seconds without an answer after which a request to a model or an embedder fails."""
    embedder: Annotated[str, check.embedder] = "auto"
    embedding_model: str | None = None
    embedding_base_url: Annotated[str | None, http_address] = None
    embedding_api_key: Secret | None = None
    embedding_cache: Annotated[int, check.integer(0)] = 0
    """Megabytes of vectors cached in the memory's file: a text that was embedded before is not sent again."""
    reranker: Annotated[str | None, check.reranker] = None
    """ONNX model that scores the best hits of a recall again: ``onnx:MODEL``."""
    token_budget: Annotated[int, check.integer(500)] = 16_000
    window: Annotated[str, check.window] = "all"
    web_hosts: str = ""
    """Hosts of one's own network, with commas between them, whose pages may be ingested."""
    trace: bool = True
    system: str = ""
    secrets: Literal["redact", "reject", "keep"] = "redact"
    share_sensitive: bool = False
    minimum_length: Annotated[int, check.integer(0)] = 0
    near_duplicates: Literal["keep", "link", "fold"] = "keep"
    replacements: Literal["off", "model"] = "off"
    """Judge of the older memories that a new one replaces: none, or the model."""
    extract_facts: bool = False
    """Ask the model after each turn for the facts stated in it, at the cost of tokens."""
    lines: Annotated[str, check.lines] = "auto"
    """Writer of what memories are about, in the background: "on", the model; "auto", the model where it is on this
    machine; "off", none; or a client's own command, as ``claude-code`` or ``claude-code:MODEL``."""
    line_tokens: Annotated[int, check.integer(1)] = 100_000
    """Tokens a day that a writer elsewhere may take in the background."""
    hook_tokens: Annotated[int, check.integer(100)] = 600
    """Most tokens that a hook adds to a prompt in another client."""
    hook_keep: Literal["all", "prompts", "nothing"] = "all"
    """Messages of another client's conversation that hooks keep: prompts and answers, prompts alone, or nothing."""
    resident_idle: Annotated[int, check.integer(0)] = 1800
    """Seconds without a request after which the resident process of hooks ends; 0: none is started."""
    prompt_history: bool = True
    """Offer the prompts of earlier conversations on the arrow keys of ``chat``."""
    automatic_backups: bool = True
    """Make a backup beside the memory after the first write of a day; keep seven of days and four of weeks."""
    backup_space: Annotated[int, check.integer(1)] = 1000
    """Megabytes that automatic backups may take together."""
    mcp: Annotated[McpSettings, McpSettings.of] = McpSettings()

    @property
    def file(self) -> Path | None:
        """File of the memory; None for one on a server."""
        return self.memory if isinstance(self.memory, Path) else None

    @property
    def remote_memory(self) -> str | None:
        """Address of the server that has the memory (``tellback serve`` there); None for a memory that is opened."""
        return self.memory if isinstance(self.memory, str) and self.memory.startswith(("https:", "http:")) else None

    @property
    def shown_memory(self) -> Path | str:
        """Place of the memory for people to read: an address without user name and password."""
        return check.without_password(self.memory) if isinstance(self.memory, str) else self.memory

    @property
    def is_begun(self) -> bool:
        """Return whether there is a memory already; one on a server is made by whoever comes first."""
        return self.file is None or os.path.lexists(self.file)

    @property
    def vendor_variables(self) -> Mapping[str, str]:
        """Keys and addresses of models by the environment variables of their vendors."""
        values = {variable: getattr(self, name) for name, variable in _VENDOR_VARIABLES.items()}
        return {
            name: value.reveal() if isinstance(value, Secret) else value
            for name, value in values.items()
            if value is not None
        }

    @property
    def model_endpoint(self) -> ModelEndpoint:
        """Endpoint of the model."""
        return model_endpoint(self.model or "", self.vendor_variables)

    @property
    def line_client(self) -> str:
        """Client whose own command writes lines; "" where none does."""
        client = self.lines.partition(":")[0]
        return client if client in LINE_CLIENTS else ""

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
    def key_setting(self) -> str | None:
        """Name of the setting that is the key of the model's endpoint; None for an endpoint without."""
        return {"openai": "api_key", "anthropic": "anthropic_api_key"}.get(self.model_endpoint.kind)

    def endpoint_of(self, key_setting: str) -> str:
        """Return the address of the endpoint that the key *key_setting* is for."""
        if key_setting == "token":
            return self.remote_memory or ""
        if key_setting == "anthropic_api_key":
            return self.anthropic_base_url or DEFAULT_ANTHROPIC_URL
        return self.embedding_endpoint if key_setting == "embedding_api_key" else self.base_url or DEFAULT_OPENAI_URL

    @property
    def embedding_key(self) -> str | None:
        """Key of the embedder's endpoint. OpenAI's key is used only if the endpoint is OpenAI's own."""
        shared = self.embedder_kind != "ollama" and self.embedding_endpoint == (self.base_url or DEFAULT_OPENAI_URL)
        key = self.embedding_api_key or (self.api_key if shared else None)
        return None if key is None else key.reveal()

    def __post_init__(self) -> None:
        for name, convert in _CHECKS.items():
            value = getattr(self, name)
            if value is None and getattr(type(self), name, "") is None:
                continue
            try:
                object.__setattr__(self, name, convert(value))
            except UnusableSetting:
                raise
            except ValueError as error:
                raise UnusableSetting(name, value, str(error)) from None


_CHECKS_OF_TYPES: Final[Mapping[object, check.Check]] = {
    bool: check.switch,
    str: check.text,
    Path: check.path,
    Secret: check.secret,
}


def _check_of(hint: Any) -> check.Check | None:
    """Return the check of a setting of the type *hint*: the one that is named there, else that of the type.

    None stays None where that is the default.
    """
    if get_origin(hint) is Annotated:
        named: check.Check | None = hint.__metadata__[0]
        return named
    kinds = [kind for kind in get_args(hint) or (hint,) if kind is not type(None)]
    words = [word for kind in kinds for word in ([kind] if isinstance(kind, str) else get_args(kind))]
    return check.choice(*words) if words else _CHECKS_OF_TYPES[kinds[0]]


_CHECKS: Final[Mapping[str, check.Check]] = {
    name: named
    for name, hint in get_type_hints(AssistantSettings, include_extras=True).items()
    if (named := _check_of(hint)) is not None
}
SETTINGS: Final = tuple(_CHECKS)
"""The names of all settings."""
_VENDOR_VARIABLES = {
    "base_url": "OPENAI_BASE_URL",
    "api_key": "OPENAI_API_KEY",
    "anthropic_api_key": "ANTHROPIC_API_KEY",
    "anthropic_base_url": "ANTHROPIC_BASE_URL",
    "ollama_host": "OLLAMA_HOST",
}
ENVIRONMENT_VARIABLES: Mapping[str, str] = {
    name: _VENDOR_VARIABLES.get(name, f"TELLBACK_{name.upper()}")
    for name in _CHECKS
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
        """Memory file in the folder of the project's former name, if no new memory exists."""
        former = _default_memory(FORMER_FOLDER)
        chosen = "memory" in self.origins or self.settings.is_begun
        return None if chosen or not former.is_file() else former


def load_configuration(
    *, flags: Mapping[str, Any], environ: Mapping[str, str], may_be_missing: bool = False
) -> Configuration:
    """Return the configuration; *flags* that are None were not given.

    A file that ``TELLBACK_CONFIG`` names must be there, unless it *may_be_missing*.

    Raises ``ConfigurationError`` naming the setting, where it came from and what would be right.
    """
    named = environ.get(CONFIG_VARIABLE)
    path = Path(named).expanduser() if named else platformdirs.user_config_path("tellback") / "config.toml"
    layers = {
        **_file_layer(path, required=bool(named) and not may_be_missing),
        **{name: (environ[key], key) for name, key in ENVIRONMENT_VARIABLES.items() if environ.get(key)},
        **{name: (value, f"--{name}") for name, value in flags.items() if value is not None},
    }
    values = {name: value for name, (value, _) in layers.items()}
    origins = {name: origin for name, (_, origin) in layers.items()}
    if unknown := [name for name in values if name not in _CHECKS]:
        name = unknown[0]
        raise ConfigurationError(f"{name} (from {origins[name]}): no such setting; there are {', '.join(SETTINGS)}")
    try:
        settings = AssistantSettings(**values, language_of_file=origins.get("language") == "--language")
    except UnusableSetting as error:
        raise ConfigurationError(describe_unusable(error, origins[error.name.partition(".")[0]])) from None
    return _with_kept_keys(Configuration(settings, origins, path))


def _with_kept_keys(configuration: Configuration) -> Configuration:
    """Return *configuration* with the keys kept for its endpoints, where no other origin sets one."""
    if not configuration.path.with_suffix(".keys.toml").exists():  # the usual case: spares the import
        return configuration
    from tellback.agent.assistant.key_store import KEYRING_ORIGIN, KeyringSecret, keys_path, read_keys

    settings, origins = configuration.settings, dict(configuration.origins)
    path = keys_path(configuration.path)
    keys = read_keys(path)
    for name in KEY_SETTINGS:
        if name in origins or (name == "embedding_api_key" and not settings.embeds_at_an_endpoint):
            continue
        if name == "token" and settings.remote_memory is None:
            continue
        if (key := keys.get(settings.endpoint_of(name))) is not None:
            settings = with_settings(settings, {name: key})
            origins[name] = KEYRING_ORIGIN if isinstance(key, KeyringSecret) else str(path)
    return Configuration(settings, origins, configuration.path)


def _default_memory(folder: str) -> Path:
    return platformdirs.user_data_path(folder) / "memory.db"


def checked_setting(name: str, value: Any) -> Any:
    """Return *value* in the type of the setting *name*; a value that it cannot have raises ``UnusableSetting``."""
    return getattr(AssistantSettings(**{name: value}), name)


def setting_words(name: str) -> tuple[str, ...]:
    """Return the words that the setting *name* can be, where it is a switch or a choice; none for any other."""
    hint = get_type_hints(AssistantSettings)[name]
    kinds = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    if bool in kinds:
        return "yes", "no"
    return tuple(word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind))


def with_settings(settings: AssistantSettings, values: Mapping[str, Any]) -> AssistantSettings:
    """Return *settings* with other *values* by name."""
    return replace(settings, **values)


def describe_unusable(error: UnusableSetting, origin: str) -> str:
    """Return in one line the setting, its *origin*, what would be right, and the value where it is no secret."""
    secret = error.name in ADDRESS_SETTINGS + KEY_SETTINGS or error.name.startswith("mcp")
    value = "" if secret else f", got {error.value!r}"
    return f"{error.name} (from {origin}): {error.expected}{value}"


def _file_layer(path: Path, *, required: bool) -> dict[str, tuple[Any, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if required:
            raise ConfigurationError(f"{path}: the file that {CONFIG_VARIABLE} names does not exist") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: the configuration cannot be read ({error})") from error
    import tomllib

    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not TOML: {error}") from error
    if isinstance(values.get("memory"), str) and values["memory"].strip():
        # A relative path in the file starts at the file's folder, whatever folder the command runs in.
        values["memory"] = path.parent / Path(values["memory"]).expanduser()
    return {name: (value, str(path)) for name, value in values.items()}
