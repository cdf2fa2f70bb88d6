"""Agent: a provider, tools, memory and settings; runs start here.

    agent = Agent(QuotingProvider(), memory=open_memory("m.db"))
    print(agent.run_sync("I moved to Lisbon in May.").text)
    print(agent.run_sync("Where do I live?").text)

Settings and shared components are ``configuration``, one run is ``run``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import replace
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack, cast

from tellback.agent.agent_memory import AgentMemory, MemoryOptions, PassageRetriever, check_members
from tellback.agent.configuration import AgentComponents, AgentSettings
from tellback.agent.context.memory_reader import HistoryReader, MemoryReader, history_bound
from tellback.agent.errors import AgentError, ApprovalUnavailable, ArgumentError, check_seconds
from tellback.agent.events import Event, Hooks, RunEnded
from tellback.agent.middleware.base import ModelMiddleware, RunMiddleware
from tellback.agent.providers.base import Provider, Request, ServerTool, capabilities_of, check_request
from tellback.agent.results import OutputT, RunResult
from tellback.agent.run import AgentRun, checked_prompt
from tellback.agent.structured_output import expected_output
from tellback.agent.tool_executor import ToolPolicy
from tellback.agent.tools.base import Tool, ToolContext, Toolset
from tellback.agent.tools.function import tool
from tellback.agent.trust import with_trust
from tellback.agent.turn_store import TurnStore
from tellback.memory import Message, TokenCounter, run_sync
from tellback.memory.internals import Block, Clock, counter_for_model, is_remote

if TYPE_CHECKING:
    from tellback.memory import HistoryStorage

_CLOSED = "this agent is closed; make a new one"
ToolConnector: TypeAlias = AbstractAsyncContextManager[Iterable[Tool]]
"""Source of tools that must be opened and closed, such as a connection to a server."""


class RunOptions(TypedDict, total=False):
    """Options of a run, each for this run alone.

    *session* names the conversation to go on with (None: a new one). *store* off: nothing is kept. *deadline* is in
    seconds. *namespace*, *settings* and *memory_options* take the place of the agent's own, so that one agent serves
    many users.
    """

    session: str | None
    store: bool
    deadline: float | None
    namespace: str | None
    settings: AgentSettings | None
    memory_options: MemoryOptions | None


class Agent:
    """Answers prompts with *provider* and *tools*, grounded on *memory* and *knowledge*. Any number of runs at once.

    *tools* are tools, plain functions, tools that the server runs, and connectors that give tools: ``start`` or
    ``async with`` opens these, all or none, and closing the agent closes them. *memory* is read before and written
    after each turn, in *namespace*; without one, *history* alone keeps the conversation. The memory's own documents are
    recalled with it; *knowledge* adds those of another place. *settings* (None: the defaults) holds every number and
    switch.

    *policy* says how tools are called. *run_middleware* wraps each run and *model_middleware* each call of the model,
    the first one outermost; *hooks* observe every moment. Closing the agent leaves provider and memory open, which may
    serve others; the setting ``close_provider`` closes the provider with it.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        tools: Iterable[Tool | ServerTool | ToolConnector | Callable[..., Any]] = (),
        memory: AgentMemory | None = None,
        history: HistoryStorage | None = None,
        knowledge: PassageRetriever | None = None,
        namespace: str = "",
        settings: AgentSettings | None = None,
        policy: ToolPolicy | None = None,
        run_middleware: Sequence[RunMiddleware] = (),
        model_middleware: Sequence[ModelMiddleware] = (),
        hooks: Iterable[Hooks] = (),
    ) -> None:
        if not isinstance(provider, Provider):
            raise ArgumentError("provider", provider, "a provider is needed; QuotingProvider() needs no model")
        settings = AgentSettings() if settings is None else settings
        if not isinstance(settings, AgentSettings):
            raise ArgumentError("settings", settings, "AgentSettings are needed")
        if memory is not None and history is not None:
            raise ArgumentError("history", history, "memory keeps the history itself; give one of the two")
        if memory is not None:
            check_members("memory", memory, AgentMemory)
        if knowledge is not None:
            check_members("knowledge", knowledge, PassageRetriever)
        policy = policy or ToolPolicy()
        ready: list[Tool] = []
        server_tools: list[ServerTool] = []
        self._connectors: list[ToolConnector] = []
        for item in _checked_list("tools", tools, object, "tools=[my_tool]"):
            if isinstance(item, AbstractAsyncContextManager) and not isinstance(item, Tool):
                self._connectors.append(item)
            elif isinstance(item, ServerTool):
                server_tools.append(item)
            elif isinstance(item, (FunctionType, MethodType)):
                ready.append(tool(item))
            else:
                ready.append(cast("Tool", item))  # checked by the toolset
        self._memory, self._history, self._knowledge = memory, history, knowledge
        self._components = AgentComponents(
            provider=provider,
            settings=settings,
            counter=_counter(settings, provider),
            tools=Toolset((*ready, *policy.pages.tools)),
            server_tools=tuple(server_tools),
            policy=policy,
            run_middleware=_checked_list("run_middleware", run_middleware, RunMiddleware, "run_middleware=[mine]"),
            model_middleware=_checked_list("model_middleware", model_middleware, Callable, "model_middleware=[mine]"),
            hooks=_checked_list("hooks", hooks, Hooks, "hooks=[Hooks(…)]"),
            reader=self._reader(provider, settings, _checked_namespace(namespace), settings.memory),
            turns=TurnStore(memory, history),
            seed=settings.seeds(),
        )
        self._open_connectors: AsyncExitStack | None = None
        self._closed = False
        self._check_capabilities(self._components)

    @property
    def name(self) -> str:
        """Name in events and for the agents that call this one."""
        return self.settings.name

    @property
    def settings(self) -> AgentSettings:
        """Settings that the agent was made with."""
        return self._components.settings

    @property
    def unsaved(self) -> int:
        """Number of turns that wait to be written, because writing failed."""
        return len(self._components.turns.unsaved)

    @property
    def fingerprint(self) -> str:
        """Hash of this configuration; the order of the tools does not matter."""
        return self._components.fingerprint

    def needing_approval(self) -> list[str]:
        """Return the tools that need approval where only the reader of a stream could give it."""
        components = self._components
        return [] if components.policy.approver is not None else components.executor.needing_approval()

    async def start(self) -> None:
        """Open the connectors in order; where one fails, those before it are closed and its error is raised."""
        if self._closed:
            raise AgentError(_CLOSED)
        if self._open_connectors is not None:
            return
        async with AsyncExitStack() as stack:
            tools = list(self._components.tools)
            for connector in self._connectors:
                tools += list(await stack.enter_async_context(connector))
            self._components = replace(self._components, tools=Toolset(tools))
            self._open_connectors = stack.pop_all()

    async def run(
        self,
        prompt: str | Sequence[Block],
        *,
        result_type: type[OutputT] | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[OutputT]:
        """Answer *prompt* and return the result; an ending without an answer raises it in a ``RunError``.

        With *result_type*, a pydantic model or any type that pydantic validates, the answer fits it and is the result's
        ``output``. *options* are those of ``RunOptions``. Tools that need approval and nobody to ask raise
        ``ApprovalUnavailable`` before anything is done.
        """
        if tools := self.needing_approval():
            names = ", ".join(tools)
            raise ApprovalUnavailable(f"{names}: a policy with an approver is needed, or a reader of agent.stream")
        run = self._start_run(prompt, result_type, options, streams=False)
        async with aclosing(run.events()) as events:
            async for event in events:
                if isinstance(event, RunEnded):
                    if event.error is not None:
                        raise event.error
                    return event.result
        raise AssertionError("a stream ends in RunEnded")

    def run_sync(
        self,
        prompt: str | Sequence[Block],
        *,
        result_type: type[OutputT] | None = None,
        **options: Unpack[RunOptions],
    ) -> RunResult[OutputT]:
        """Answer *prompt* as ``run`` does, in plain scripts; a running event loop stands still meanwhile."""
        return run_sync(self.run(prompt, result_type=result_type, **options))

    def stream(
        self,
        prompt: str | Sequence[Block],
        *,
        result_type: Any = None,
        within: ToolContext | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[Event, None]:
        """Answer *prompt* event by event; the last one is ``RunEnded``, whatever happens.

        A bad argument raises at once; cancellation passes through, and nothing of the turn is kept then. Where no
        approver is set, the reader of the stream answers its ``ApprovalRequested``. *within* is the tool call that
        this run serves: its deadline, counts and approver hold here too, its session and its conversation do not.
        """
        if within is not None and options.get("namespace") is None and not self._components.reader.namespace:
            options["namespace"] = within.namespace
        run = self._start_run(prompt, result_type, options, within=within, streams=within is None)
        return run.events()

    async def aclose(self) -> None:
        """Write the unsaved turns, close connectors and provider.

        Closing twice is harmless, and tries once more to write turns that could not be written.
        """
        components = self._components
        if self._closed:
            await components.turns.store()
            return
        self._closed = True
        async with AsyncExitStack() as closing:
            close = getattr(components.provider, "aclose", None)
            if self.settings.close_provider and close is not None:
                closing.push_async_callback(close)
            if self._open_connectors is not None:
                closing.push_async_callback(self._open_connectors.aclose)
            await components.turns.store()

    async def __aenter__(self) -> Agent:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _components_for(
        self, namespace: str | None, settings: AgentSettings | None, options: MemoryOptions | None
    ) -> AgentComponents:
        """Return the components of a run in *namespace* with *settings* and *options*; None: the agent's own."""
        own = self._components
        if namespace is None and settings is None and options is None:
            return own
        namespace = own.reader.namespace if namespace is None else _checked_namespace(namespace)
        if settings is not None and not isinstance(settings, AgentSettings):
            raise ArgumentError("settings", settings, "AgentSettings are needed, or None for the agent's own")
        if options is not None and not isinstance(options, MemoryOptions):
            raise ArgumentError("memory_options", options, "MemoryOptions are needed, or None for the agent's own")
        settings = own.settings if settings is None else settings
        reader = self._reader(own.provider, settings, namespace, settings.memory if options is None else options)
        return replace(own, settings=settings, counter=_counter(settings, own.provider), reader=reader)

    def _reader(
        self, provider: Provider, settings: AgentSettings, namespace: str, options: MemoryOptions
    ) -> MemoryReader:
        bound = history_bound(settings.window, settings.token_budget, _counter(settings, provider))
        return MemoryReader(
            self._memory,
            HistoryReader(self._memory, self._history, settings.window, namespace, bound=bound),
            self._knowledge,
            namespace=namespace,
            k=settings.recall,
            sensitive=settings.share_sensitive or not is_remote(provider),
            floor=settings.relevance_floor if options.floor is None else options.floor,
            options=options,
            knows_user=settings.profile,
            zone=settings.zone,
            clock=settings.clock,
        )

    def _start_run(
        self,
        prompt: str | Sequence[Block],
        result_type: Any,
        options: RunOptions,
        *,
        within: ToolContext | None = None,
        streams: bool,
    ) -> AgentRun:
        components = self._components_for(
            options.get("namespace"), options.get("settings"), options.get("memory_options")
        )
        settings, session, deadline = components.settings, options.get("session"), options.get("deadline")
        if self._closed:
            raise AgentError(_CLOSED)
        if self._connectors and self._open_connectors is None:
            raise AgentError("this agent has connectors: start it first, or use it in `async with`")
        message = _prompt_message(prompt, settings.clock)
        if within is not None:
            message = with_trust(message, within.trust)  # a task is the word of the agent that gives it
        if session is not None and (not isinstance(session, str) or not session.strip()):
            raise ArgumentError("session", session, "the id of a session is needed, or None for a new one")
        check_seconds("deadline", deadline)
        self._check_capabilities(components, message)
        expected = None
        if result_type is not None:
            expected = expected_output(result_type, capabilities_of(components.provider), repairs=settings.repairs)
        return AgentRun(
            components,
            message,
            self,
            session=session or settings.sessions(),
            stores=options.get("store", True) and components.turns.keeps,
            deadline=deadline or settings.deadline,
            expected=expected,
            within=within,
            streams=streams,
        )

    def _check_capabilities(self, components: AgentComponents, *messages: Message) -> None:
        """Raise ``Unsupported`` for features that the provider lacks, before anything is sent."""
        capabilities = capabilities_of(components.provider)
        if capabilities is not None:
            request = Request(
                messages,
                tools=components.tools.specs,
                server_tools=components.server_tools,
                settings=components.settings.model_settings,
            )
            check_request(request, capabilities, type(components.provider).__name__)


def _checked_list(argument: str, items: object, kind: Any, example: str) -> tuple[Any, ...]:
    """Return *items*, which must be of *kind*; one alone, which is easily given, is refused with an *example*."""
    values = tuple(items) if isinstance(items, Iterable) else None
    if values is None or not all(isinstance(value, kind) for value in values):
        raise ArgumentError(argument, items, f"a list is needed, such as {example}")
    return values


def _counter(settings: AgentSettings, provider: Provider) -> TokenCounter:
    return counter_for_model(getattr(provider, "model", None), settings.counter)


def _checked_namespace(namespace: object) -> str:
    """Return *namespace*, which must be a text: None, from a handler without a user, would mix all users' memories."""
    if not isinstance(namespace, str):
        raise ArgumentError("namespace", namespace, 'a text is needed; "" is the common one')
    return namespace


def _prompt_message(prompt: str | Sequence[Block], clock: Clock) -> Message:
    """Return *prompt* as the user's message; one that cannot be answered raises ``ArgumentError``."""
    blocks = prompt if isinstance(prompt, str) else tuple(prompt)
    if not blocks or (isinstance(blocks, str) and not blocks.strip()):
        raise ArgumentError("prompt", prompt, "something to answer is needed")
    return checked_prompt(Message.user(blocks, at=clock()))
