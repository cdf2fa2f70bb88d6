"""Wiring of settings to objects: the one place that names concrete classes of all three packages.

Network clients, documents and the agent are imported where they are used: most commands need none of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import TYPE_CHECKING, Any, cast

from tellback.agent.assistant.config import AssistantSettings, ConfigurationError, McpSettings
from tellback.agent.assistant.local_time import machine_zone, zone_of
from tellback.memory import (
    ArgumentError,
    Embedder,
    EmbedderError,
    EmbeddingSettings,
    LocalEmbedder,
    LongTermMemory,
    RecallHooks,
    RecallSettings,
    WritePolicy,
    local_embedder,
    open_memory,
)
from tellback.memory.internals import counter_for_model, is_loopback, is_remote, local_available
from tellback.vectorstore import NotAStore, SettingMismatch

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from tellback.agent.agent import Agent
    from tellback.agent.agent_memory import PassageRetriever
    from tellback.agent.context.line_writer import LineWriter
    from tellback.agent.context.section_writer import SectionWriter
    from tellback.agent.context_items import AnswerCitation
    from tellback.agent.desk.desk import MemoryDesk, Room
    from tellback.agent.mcp.client import McpTools
    from tellback.agent.mcp.settings import McpServer
    from tellback.agent.providers.base import ModelSettings, Provider
    from tellback.agent.tools.base import Tool
    from tellback.memory import KnowledgeBase, WindowPolicy
    from tellback.memory.http import HttpClient
    from tellback.vectorstore import Analyzer, Filter

DEFAULT_SYSTEM_PROMPT = "You are the user's personal assistant."
_RERANKED = 20
"""Hits that a reranker reads: on a CPU, each costs about as much as embedding its text."""


@dataclass(frozen=True, slots=True)
class OpenedMemory:
    """Open memory of the settings; *client* is set if an endpoint embeds its texts.

    Of a server with several users, it is what one of them sees: *own*, or shared with them, then without what is marked
    sensitive; which they may change if *writes*, as far as there is *room*.
    """

    settings: AssistantSettings
    memory: LongTermMemory
    client: HttpClient | None = None
    own: bool = True
    writes: bool = True
    room: Room | None = None

    @property
    def namespace(self) -> str:
        """Namespace of the settings."""
        return self.settings.namespace

    @property
    def desk(self) -> MemoryDesk:
        """Desk of the namespace for the user, who sees all of it where it is their own."""
        from tellback.agent.desk.desk import MemoryDesk

        return MemoryDesk(memory=self.memory, namespace=self.namespace, sensitive=self.own, room=self.room)

    def seen_by(
        self, memory: LongTermMemory, namespace: str, *, own: bool, writes: bool, room: Room | None
    ) -> OpenedMemory:
        """Return what a user of a server sees of it: *namespace*, by the *memory* that carries their name.

        The owner's tools and the hosts of the owner's network are not theirs.
        """
        settings = replace(self.settings, namespace=namespace, name=None, mcp=McpSettings(), web_hosts="")
        return OpenedMemory(settings, memory, self.client, own=own, writes=writes, room=room)

    @property
    def analyzer(self) -> Analyzer:
        """Analyzer of the memory's words."""
        from tellback.vectorstore import Analyzer, lifecycle_of

        store = lifecycle_of(self.memory.store)
        return Analyzer() if store is None else store.analyzer

    def knowledge(self, collection: str = "default") -> KnowledgeBase:
        """Return the knowledge base of the namespace's documents."""
        from tellback.memory import KnowledgeBase

        return KnowledgeBase(self.memory, collection=collection, namespace=self.namespace)

    async def knowledge_bases(self, collection: str | None = None) -> list[KnowledgeBase]:
        """Return the knowledge base of *collection*, or (None) those of all collections."""
        names = await self.knowledge().collections() if collection is None else (collection,)
        return [self.knowledge(name) for name in names]

    async def document_bases(self, collection: str | None = None) -> Sequence[KnowledgeBase]:
        """Return the knowledge bases whose files may be on this machine: none of a memory on a server."""
        return await self.knowledge_bases(collection) if self.settings.remote_memory is None else ()

    async def locations(self, citations: Sequence[AnswerCitation]) -> list[str | None]:
        """Return the path or address of the document that each of *citations* is from; None for a memory."""
        bases = await self.document_bases()
        return [await _location(bases, item) for item in citations]

    async def close(self) -> None:
        """Release the memory file and the connections."""
        await self.memory.close()
        if self.client is not None:
            await self.client.aclose()


async def _location(bases: Sequence[KnowledgeBase], item: AnswerCitation) -> str | None:
    for knowledge in bases if item.source else ():
        if len(bases) == 1 or await knowledge.passage(item.id) is not None:
            return await knowledge.locate(item.source)
    return None


@dataclass(frozen=True, slots=True)
class Assistant:
    """Agent of the settings around an open memory."""

    opened: OpenedMemory
    agent: Agent
    connectors: tuple[McpTools, ...] = ()
    notes: tuple[str, ...] = ()

    async def start(self) -> list[str]:
        """Connect the MCP servers; return notes for the user, such as a server that is left out."""
        await self.agent.start()
        return [*self.notes, *(note for connector in self.connectors for note in connector.notes)]

    async def close(self) -> None:
        """Write turns that wait; release the connections and the memory file."""
        try:
            await self.agent.aclose()
        finally:
            await self.opened.close()


def open_configured_memory(
    settings: AssistantSettings, client: HttpClient | None = None, *, create: bool = True
) -> OpenedMemory:
    """Open the memory file; without *create* a missing file raises ``NotAStore`` and is not made.

    *client* is that of an embedder at an endpoint; None makes one where it is needed.
    """
    if settings.remote_memory is not None:
        from tellback.agent.assistant.remote_memory import RemoteMemory

        if settings.token is None:
            raise ConfigurationError(f"memory {settings.remote_memory}: TELLBACK_TOKEN is needed, the token for it")
        served = RemoteMemory(settings.remote_memory, settings.token.reveal(), offline=settings.offline)
        return OpenedMemory(settings, cast("LongTermMemory", served))
    if client is None and (settings.embeds_at_an_endpoint or settings.replacements == "model"):
        client = make_http_client(settings)
    path = settings.file
    embedder = make_embedder(settings, client)
    if path is not None and path.is_dir():
        raise NotAStore(str(path), "a folder, not a memory file; name a file in it, such as memory.db")
    if not create and path is not None and not settings.is_begun:
        raise NotAStore(str(path), "no memory is here yet; `tellback remember` or `tellback ingest` begins one")
    try:
        memory = open_memory(
            settings.memory,
            embedder=embedder,
            choose_local=settings.embedder_kind != "none",
            policies=make_write_policies(settings, client),
            language=settings.language if settings.language_of_file or path is None or not path.exists() else None,
            zone=user_zone(settings),
            embedding_settings=EmbeddingSettings(mismatch="words", cache_bytes=settings.embedding_cache * 1_000_000),
            hooks=make_recall_hooks(settings),
            user_name=settings.name,
        )
    except SettingMismatch as error:
        if error.setting != "analyzer":
            raise
        raise ConfigurationError(
            f"language {settings.language}: {settings.shown_memory} was begun in {error.recorded} and stays so; "
            "leave the language out, or begin another file"
        ) from error
    return OpenedMemory(settings, memory, client)


def open_assistant(
    settings: AssistantSettings, *, reads_only: bool = False, attached: PassageRetriever | None = None
) -> Assistant:
    """Open the memory file, as ``open_configured_memory`` does, and build the agent around it.

    A model gets tools to search, read, note, correct and forget, the last two with approval each time. With
    *reads_only* it can only search and read, and a memory file that is missing or cannot be read is an error; without,
    a missing file is created, and a turn that cannot read it is answered without memory. *attached* are documents of
    this conversation alone, which are searched beside the memory.
    """
    client = make_http_client(settings) if settings.model is not None or settings.embeds_at_an_endpoint else None
    provider = make_provider(settings, client)
    if attached is not None and reads_only and not settings.is_begun:
        opened = OpenedMemory(settings, open_memory("numpy:", language=settings.language), client)
    else:
        opened = open_configured_memory(settings, client, create=not reads_only)
    return _make_assistant(opened, provider, reads_only=reads_only, attached=attached)


def assistant_around(opened: OpenedMemory, *, reads_only: bool = False) -> Assistant:
    """Return the assistant around a memory that is open, as ``open_assistant``; whoever opened it closes it."""
    client = make_http_client(opened.settings) if opened.settings.model is not None else None
    return _make_assistant(opened, make_provider(opened.settings, client), reads_only=reads_only, attached=None)


async def change_assistant(
    assistant: Assistant, settings: AssistantSettings, attached: PassageRetriever | None = None
) -> Assistant:
    """Return an assistant with the model of *settings* around the open memory of *assistant*.

    Its tools are connected, and the old agent is closed. A model that cannot be set up raises ``ConfigurationError``
    and leaves the old assistant as it was.
    """
    client = make_http_client(settings) if settings.model is not None else None
    provider = make_provider(settings, client)
    opened = replace(assistant.opened, settings=settings)
    changed = _make_assistant(opened, provider, reads_only=False, attached=attached)
    await assistant.agent.aclose()
    await changed.agent.start()
    return changed


def _make_assistant(
    opened: OpenedMemory, provider: Provider, *, reads_only: bool, attached: PassageRetriever | None
) -> Assistant:
    """Return the assistant with *provider* around the memory *opened*."""
    from tellback.agent.agent import Agent
    from tellback.agent.configuration import AgentSettings

    settings, memory, namespace = opened.settings, opened.memory, opened.namespace
    zone = user_zone(settings)
    tools: list[Tool] = []
    connectors: list[McpTools] = []
    notes: list[str] = []
    if settings.model is not None:  # quotes need no tools, whose imports take a tenth of an `ask`
        from tellback.agent.tools.builtin import calculator, clock
        from tellback.agent.tools.knowledge import knowledge_tools
        from tellback.agent.tools.memory import ALL_MEMORY_TOOLS, READING_MEMORY_TOOLS, memory_tools

        include = READING_MEMORY_TOOLS if reads_only else ALL_MEMORY_TOOLS
        shown = settings.share_sensitive or not is_remote(provider)
        tools += memory_tools(memory, namespace=namespace, include=include, users_words=True, ask=True, sensitive=shown)
        if settings.remote_memory is None:  # a server's documents are found by its recall
            tools += knowledge_tools(opened.knowledge())
        tools += (clock(home=zone), calculator())
        if not reads_only:
            connectors, notes = make_mcp_connectors(settings)
    agent = Agent(
        provider,
        tools=[*tools, *connectors],
        memory=memory,
        knowledge=attached,
        namespace=namespace,
        settings=AgentSettings(
            close_provider=True,
            system=settings.system or DEFAULT_SYSTEM_PROMPT,
            model_settings=make_model_settings(settings),
            token_budget=settings.token_budget,
            window=make_window(settings, provider),
            trace=settings.trace,
            on_memory_error="raise" if reads_only else "degrade",
            share_sensitive=settings.share_sensitive,
            profile=settings.model is not None,
            user=settings.name or "",
            zone=zone,
        ),
    )
    return Assistant(opened, agent, tuple(connectors), tuple(notes))


def user_zone(settings: AssistantSettings) -> tzinfo | None:
    """Return the time zone of the settings, or else of the machine; None where the machine names none."""
    return zone_of(settings.zone or machine_zone())


def make_mcp_servers(settings: AssistantSettings) -> dict[str, McpServer]:
    """Return the MCP servers of the settings by name; an unusable one raises ``ConfigurationError``."""
    from pydantic import ValidationError

    from tellback.agent.mcp.settings import McpServer

    servers = {}
    for name, fields in settings.mcp.servers.items():
        try:
            servers[name] = McpServer.model_validate(fields)
        except ValidationError as error:
            problem = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(map(str, ("mcp", "servers", name, *problem["loc"])))
            raise ConfigurationError(f"{place}: {problem['msg'].removeprefix('Value error, ')}") from None
    return servers


def make_mcp_connectors(settings: AssistantSettings) -> tuple[list[McpTools], list[str]]:
    """Return connectors to the MCP servers of the settings, and notes on those that are left out."""
    servers = make_mcp_servers(settings)
    if not servers:
        return [], []
    import platformdirs

    from tellback.agent.mcp.client import McpTools
    from tellback.agent.mcp.definitions import DefinitionRegister

    register = DefinitionRegister(platformdirs.user_state_path("tellback") / "mcp-tools.json")
    reached = {name: server for name, server in servers.items() if server.is_local or not settings.offline}
    notes = [f"MCP server {name}: offline, so its tools are left out" for name in servers if name not in reached]
    return [McpTools(name, server, register=register, optional=True) for name, server in reached.items()], notes


def make_memory_server_of(
    opened: Callable[[Any], Awaitable[OpenedMemory]], *, within: Filter | None = None, read_only: bool = False
) -> Server[Any]:
    """Return the MCP server of the memory that *opened* returns, which the requests call that need it, each with its
    context.

    Memories marked sensitive are shown only if the settings allow it. *within* selects the memories that are shown
    unless a call asks for all.
    """
    from importlib.metadata import version

    from tellback.agent.mcp.memory_tools import MemoryServerTools
    from tellback.agent.mcp.server import make_memory_server

    async def service(context: Any) -> MemoryServerTools:
        it = await opened(context)
        shown = it.settings.share_sensitive
        return MemoryServerTools(
            it.memory, it.namespace, sensitive=shown, within=within, writes=it.writes, room=it.room
        )

    return make_memory_server(service, version=version("tellback"), read_only=read_only)


def make_http_client(settings: AssistantSettings) -> HttpClient:
    """Return the HTTP client that model and embedder share; offline, it connects to this machine only."""
    from tellback.memory.http import HttpClient, Timeouts

    longest = max(settings.silence_timeout, Timeouts().total or 0)
    return HttpClient(offline=settings.offline, timeout=Timeouts(read=settings.silence_timeout, total=longest))


def make_model_settings(settings: AssistantSettings) -> ModelSettings:
    """Return the settings of each request to the model; without a model there are none."""
    from tellback.agent.providers.base import ModelSettings

    if settings.model is None:
        return ModelSettings()
    return ModelSettings(
        temperature=settings.temperature,
        repetition_penalty=settings.repetition_penalty,
        max_tokens=settings.max_tokens,
        thinking=settings.thinking,
        effort=settings.effort,
        max_characters=settings.reply_limit,
    )


def make_provider(settings: AssistantSettings, client: HttpClient | None) -> Provider:
    """Return the provider of the configured model; without a model, the one that answers with quotes."""
    from tellback.agent.providers.extractive import QuotingProvider
    from tellback.agent.providers.open import open_provider

    if settings.model is None:
        return QuotingProvider()
    try:
        return open_provider(
            settings.model, environment=settings.vendor_variables, client=client, server=settings.model_server
        )
    except ArgumentError as error:
        without = " (without TELLBACK_MODEL, questions are answered by quotes)"
        raise ConfigurationError(f"model {settings.model}: {error.expected}{without}") from error


def make_line_writer(settings: AssistantSettings, client: HttpClient) -> LineWriter:
    """Return the writer of lines that say what memories are about: the client that the settings name, or the model."""
    from tellback.agent.context.line_writer import LineWriter

    if settings.line_client:
        import platformdirs

        from tellback.agent.providers.client_command import ClientCommandProvider

        if settings.offline:
            raise ConfigurationError(f"lines {settings.lines}: offline, so no client is asked")
        model, folder = settings.lines.partition(":")[2] or None, platformdirs.user_state_path("tellback") / "asked"
        command = ClientCommandProvider(settings.line_client, model=model, folder=folder)
        return LineWriter(command, share_sensitive=settings.share_sensitive)
    if settings.model is None:
        raise ConfigurationError(
            "no model is set to write the lines: `tellback init` looks for one, or set TELLBACK_MODEL"
        )
    provider, model_settings = make_provider(settings, client), make_model_settings(settings)
    return LineWriter(provider, share_sensitive=settings.share_sensitive, settings=model_settings)


def make_section_writer(settings: AssistantSettings, client: HttpClient) -> SectionWriter:
    """Return the writer of lines for passages of documents, with the model of the settings."""
    from tellback.agent.context.section_writer import SectionWriter

    if settings.model is None:
        raise ConfigurationError(
            "no model is set to write the lines: `tellback init` looks for one, or set TELLBACK_MODEL"
        )
    return SectionWriter(make_provider(settings, client), settings=make_model_settings(settings))


def writes_lines(settings: AssistantSettings) -> bool:
    """Return whether the model writes lines in the background: as set, or else where it is on this machine."""
    if settings.model is None or settings.lines not in ("auto", "on"):
        return False
    return settings.lines == "on" or is_loopback(settings.model_endpoint.url)


def make_window(settings: AssistantSettings, provider: Provider) -> WindowPolicy | None:
    """Return the window policy of the settings; None for the whole conversation within the token budget."""
    from tellback.agent.context.summarizer import summarizer
    from tellback.memory import FixedWindow, SummaryWindow, TokenWindow

    kind, _, size = settings.window.partition(":")
    if kind == "all":
        return None
    if kind == "turns":
        return FixedWindow(turns=int(size))
    counter = counter_for_model(settings.model and settings.model_endpoint.name)
    window, half = (TokenWindow(max(int(size) // part, 1), counter) for part in (1, 2))
    if kind == "tokens":
        return window
    if settings.model is None:
        raise ConfigurationError("window summary needs a model, which writes it; without one, use tokens:NUMBER")
    return SummaryWindow(window, summarizer(provider), down_to=half)


def make_write_policies(settings: AssistantSettings, client: HttpClient | None = None) -> tuple[WritePolicy, ...]:
    """Return the write policies of the settings: secrets, minimum length, near-duplicates, a judge of replacements."""
    from tellback.memory import MinimumLength, NearDuplicates, NoSecrets

    policies: list[WritePolicy] = []
    if settings.secrets != "keep":
        policies.append(NoSecrets(settings.secrets))
    if settings.minimum_length:
        policies.append(MinimumLength(settings.minimum_length, of="turn"))
    if settings.near_duplicates != "keep":
        policies.append(NearDuplicates(fold=settings.near_duplicates == "fold"))
    if settings.replacements == "model":
        if settings.model is None:
            raise ConfigurationError("replacements model needs a model, which judges them: set TELLBACK_MODEL")
        from tellback.agent.context.replacement_judge import replacement_judge

        policies.append(replacement_judge(make_provider(settings, client), share_sensitive=settings.share_sensitive))
    return tuple(policies)


def make_embedder(settings: AssistantSettings, client: HttpClient | None) -> Embedder | None:
    """Return the embedder of the settings; None leaves the choice to the memory (local if installed, else words).

    "static" gives static vectors to everything. "local" leaves the choice to the memory, too, and raises
    ``MissingExtra`` where no local embedder is installed.
    """
    kind, model = settings.embedder_kind, settings.embedder_model
    if kind in ("local", "static"):
        static = LocalEmbedder()
        return static if kind == "static" else None
    if kind != "onnx" and not settings.embeds_at_an_endpoint:
        return None
    if not model:
        raise ConfigurationError(
            f"embedder {kind} needs the model that embeds: {kind}:MODEL, or TELLBACK_EMBEDDING_MODEL"
        )
    if kind == "onnx":
        return _make_onnx_embedder(model)
    url = settings.embedding_endpoint
    if kind == "ollama":
        from tellback.memory import OllamaEmbedder

        return OllamaEmbedder(model, base_url=url, api_key=settings.embedding_key, client=client)
    addresses = (settings.embedding_base_url, settings.base_url, settings.ollama_host)
    if settings.embedding_key is None and not any(addresses):
        raise ConfigurationError(
            "embedder openai needs OPENAI_API_KEY, or TELLBACK_EMBEDDING_BASE_URL for a server of your own"
        )
    from tellback.memory import OpenAICompatibleEmbedder

    return OpenAICompatibleEmbedder(url, model, api_key=settings.embedding_key, client=client)


def download_models(settings: AssistantSettings) -> None:
    """Fetch the named ONNX models of the settings that are not on this machine."""
    embeds = settings.embedder_kind == "onnx" and settings.embedder_model
    if not embeds and settings.reranker is None:
        raise ConfigurationError("no model to download: set TELLBACK_EMBEDDER or TELLBACK_RERANKER to onnx:MODEL")
    if settings.offline:
        raise ConfigurationError("no model is downloaded while offline is set")
    if embeds:
        _make_onnx_embedder(settings.embedder_model, download=True)
    make_recall_hooks(settings, download=True)


def make_recall_hooks(settings: AssistantSettings, *, download: bool = False) -> RecallHooks | None:
    """Return the reranker of the settings as hooks of each recall, or None."""
    if settings.reranker is None:
        return None
    from tellback.memory.onnx import OnnxReranker

    model = settings.reranker.partition(":")[2]
    with _model_errors("reranker", model, download=download):
        return RecallHooks(rerank=OnnxReranker(model, download=download), depth=_RERANKED)


def _make_onnx_embedder(model: str, *, download: bool = False) -> Embedder:
    from tellback.memory.onnx import OnnxEmbedder

    with _model_errors("embedder", model, download=download):
        return OnnxEmbedder(model, download=download)


@contextmanager
def _model_errors(setting: str, model: str, *, download: bool) -> Generator[None, None, None]:
    """Raise ``ConfigurationError`` where the *model* that a *setting* names cannot be used."""
    try:
        yield
    except ArgumentError as error:
        raise ConfigurationError(f"{setting} onnx:{model}: {error.expected}") from error
    except EmbedderError as error:
        hint = "" if download else ", or by `tellback reembed --download`"
        raise ConfigurationError(f"{setting} onnx:{model}: {error}{hint}") from error


def make_reembedding_target(settings: AssistantSettings) -> Embedder | None:
    """Return the embedder that re-embedding uses; None: the memory's own."""
    return local_embedder() if settings.embedder_kind in ("auto", "local") and local_available() else None


def make_named_embedder(settings: AssistantSettings, name: str) -> tuple[Embedder, HttpClient | None]:
    """Return the embedder that *name* describes, and its HTTP client.

    It is local, static, hashing, ollama:MODEL, onnx:MODEL or openai:MODEL.
    """
    if name == "local":
        return local_embedder(), None
    if name == "hashing":
        from tellback.memory import HashingEmbedder

        return HashingEmbedder(), None
    kind, _, model = name.partition(":")
    if name != "static" and (kind not in ("ollama", "onnx", "openai") or not model):
        known = "local, static, hashing, ollama:MODEL, onnx:MODEL or openai:MODEL"
        raise ConfigurationError(f"no embedder {name!r}: it is {known}")
    named = replace(settings, embedder=name)
    client = make_http_client(named) if named.embeds_at_an_endpoint else None
    embedder = make_embedder(named, client)
    assert embedder is not None
    return embedder, client


def changed_recall_settings(settings: RecallSettings, changes: Sequence[str]) -> RecallSettings:
    """Return *settings* with *changes* such as ``dialogue.session=0.2``.

    An unknown setting, or a value that is no number, raises ``ConfigurationError``.
    """
    for change in changes:
        name, _, value = change.partition("=")
        part, _, field = name.strip().rpartition(".")
        owner: Any = getattr(settings, part, None) if part else settings
        fields: Mapping[str, Any] = {"cosine": 0.0, **owner} if isinstance(owner, Mapping) else dict(_numbers_of(owner))
        if field not in fields:
            raise ConfigurationError(
                f"{name!r} is no setting of recall that is a number; candidates and dialogue.session are"
            )
        try:
            changed: Any = type(fields[field])(value)
        except ValueError as error:
            raise ConfigurationError(f"{name}: {value!r} is not a number such as {fields[field]}") from error
        changes_of_owner: dict[str, Any] = {field: changed}
        owner = {**owner, **changes_of_owner} if isinstance(owner, Mapping) else replace(owner, **changes_of_owner)
        parts: dict[str, Any] = {part: owner}
        settings = replace(settings, **parts) if part else owner
    return settings


def _numbers_of(settings: object) -> Iterator[tuple[str, float]]:
    for name in getattr(settings, "__slots__", ()):
        value = getattr(settings, name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, value
