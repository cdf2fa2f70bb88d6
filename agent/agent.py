"""The agent: its configuration, checked and put together; runs are started here, and connectors and provider closed.

    agent = Agent(QuotingProvider(), memory=open_memory("m.db"))
    print(agent.run_sync("I moved to Lisbon in May.").text)
    print(agent.run_sync("Where do I live?").text)

One run is ``run``. The fingerprint is a hash of the configuration, so that a stored run can be matched with it.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from agent.context.assembly import DEFAULT_PROFILE_TOKENS
from agent.context.history_reader import HistoryReader, history_bound
from agent.context.memory_reader import MemoryReader, PassageRetriever
from agent.errors import AgentClosed, AgentError, ApprovalUnavailable, ArgumentError
from agent.events import Event, RunEnded
from agent.hooks import Hooks
from agent.loop import EMPTY_REPLY_PROMPT, Loop, LoopLimits
from agent.middleware.base import ModelMiddleware
from agent.providers.base import ModelSettings, Provider, Request, capabilities_of, check_request
from agent.results import RunResult
from agent.run import AgentComponents, AgentRun, RunState
from agent.structured_output import expected_output
from agent.tool_executor import ToolExecutor, ToolPolicy
from agent.tools.base import Tool, ToolContext, Toolset, annotations_of
from agent.trust import with_trust
from agent.turn_store import TurnStore
from agent.usage import Prices, RunLimits
from memory import EstimatingCounter, Message, TokenCounter, WindowPolicy, run_sync
from memory.internals import Block, Clock, is_remote, system_clock

if TYPE_CHECKING:
    from memory import HistoryStorage, LongTermMemory


def agent_fingerprint(tools: Iterable[Tool], **parts: Any) -> str:
    """Return SHA-256, in hex, over *parts* and *tools* in a canonical form: neither the order of the tools nor that
    of any keys matters, nor what is None. Functions count by their names, other objects by their types."""
    described = sorted((_tool_fields(tool) for tool in tools), key=lambda tool: str(tool["name"]))
    text = json.dumps(
        {**_canonical_value(parts), "tools": _canonical_value(described)}, sort_keys=True, ensure_ascii=True
    )
    return hashlib.sha256(text.encode()).hexdigest()


def _tool_fields(tool: Tool) -> dict[str, Any]:
    spec, facets = tool.spec, annotations_of(tool)
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "timeout": tool.timeout,
        "facets": facets,
    }


def _canonical_value(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _canonical_value(one) for key, one in value.items() if one is not None}
    if isinstance(value, (list, tuple)):
        return [_canonical_value(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_canonical_value(one), sort_keys=True) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in fields(value) if not field.name.startswith("_")}
        return {"type": type(value).__name__, **_canonical_value(held)}
    return getattr(value, "__qualname__", type(value).__qualname__)


def new_session_id() -> str:
    """Return an id for a new session."""
    return str(uuid.uuid4())


def new_mark_seed() -> str:
    """Return a secret from which the marks around recalled memories are made."""
    return secrets.token_hex(16)


def prompt_message(prompt: str | Sequence[Block], clock: Clock) -> Message:
    """Return *prompt* as the user's message, if it can be answered."""
    blocks = prompt if isinstance(prompt, str) else tuple(prompt)
    if not blocks or (isinstance(blocks, str) and not blocks.strip()):
        raise ArgumentError("prompt", prompt, "something to answer is needed")
    message = Message.user(blocks, at=clock())
    try:
        message.text.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError("prompt", prompt, "must not contain lone surrogates") from error
    wrong = [block for block in message.blocks if block.type not in ("text", "image", "document")]
    if wrong:
        raise ArgumentError("prompt", wrong[0], "text, image and document blocks are needed")
    return message


def checked_deadline(seconds: float | None) -> float | None:
    """Return *seconds* if a run can be given them."""
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0):
        raise ArgumentError("deadline", seconds, "a number of seconds above 0 is needed, or None")
    return seconds


class Agent:
    """Answers prompts with *provider* and *tools*, grounded on *memory* and *knowledge*. Any number of runs at once.

    *memory* is read before and written after each turn, in *namespace*; without one, *history* alone keeps the
    conversation. The memory's own documents are recalled with it; *knowledge* adds those of another place.
    *token_budget* bounds what is sent, as *counter* counts it (None: no bound), *profile_tokens* what pinned memories
    may take of it; *window* chooses from history first. *trace* keeps tool calls and results in history, not only
    prompt and answer. When memory cannot be read or written, ``on_memory_error="degrade"`` goes on without and warns,
    "raise" ends in an error; a turn that could not be written waits for the next one in either case. What is marked
    sensitive is shown to a remote provider only with *share_sensitive*.

    *deadline* and *tool_timeout* are seconds of a whole run and of one tool call; *limits* bounds each run in calls,
    tokens and, by *prices*, cost. *policy* says how tools are called, *model_middleware* stands around each call of
    the model (the first one outermost), *hooks* are told of every moment. An answer that does not fit the type that
    a run wants is repaired *repairs* times. *connectors* give more tools: they are opened by ``start`` or ``async
    with``, all or none, and closed with the agent.

    Closing the agent closes its provider, but with ``close_provider=False``; memory stays open.
    """

    def __init__(
        self,
        provider: Provider,
        *,
        name: str = "",
        system: str = "",
        tools: Iterable[Tool] = (),
        connectors: Iterable[AbstractAsyncContextManager[Iterable[Tool]]] = (),
        memory: LongTermMemory | None = None,
        history: HistoryStorage | None = None,
        knowledge: PassageRetriever | None = None,
        namespace: str = "",
        recall: int = 10,
        token_budget: int | None = 16_000,
        profile_tokens: int = DEFAULT_PROFILE_TOKENS,
        counter: TokenCounter | None = None,
        window: WindowPolicy | None = None,
        settings: ModelSettings | None = None,
        max_rounds: int = 10,
        last_round_answers: bool = False,
        nudges: int = 1,
        nudge: str = EMPTY_REPLY_PROMPT,
        repairs: int = 2,
        parallel_tools: int = 8,
        tool_timeout: float | None = None,
        deadline: float | None = None,
        limits: RunLimits | None = None,
        prices: Prices | None = None,
        policy: ToolPolicy | None = None,
        model_middleware: Sequence[ModelMiddleware] = (),
        hooks: Iterable[Hooks] = (),
        trace: bool = True,
        on_memory_error: Literal["degrade", "raise"] = "degrade",
        share_sensitive: bool = False,
        close_provider: bool = True,
        clock: Clock = system_clock,
        timer: Callable[[], float] = time.monotonic,
        sessions: Callable[[], str] = new_session_id,
        seeds: Callable[[], str] = new_mark_seed,
    ) -> None:
        if not isinstance(provider, Provider):
            raise ArgumentError("provider", provider, "a provider is needed; QuotingProvider() needs no model")
        if memory is not None and history is not None:
            raise ArgumentError("history", history, "memory keeps the history itself; give one of the two")
        if token_budget is not None and (type(token_budget) is not int or token_budget < 1):
            raise ArgumentError("token_budget", token_budget, "at least 1 token is needed, or None")
        if type(profile_tokens) is not int or profile_tokens < 0:
            raise ArgumentError("profile_tokens", profile_tokens, "0 or more is needed")
        if type(recall) is not int or recall < 0:
            raise ArgumentError("recall", recall, "0 or more is needed")
        if on_memory_error not in ("degrade", "raise"):
            raise ArgumentError("on_memory_error", on_memory_error, 'one of "degrade", "raise" is needed')
        if limits is not None and limits.cost is not None and prices is None:
            raise ArgumentError("limits", limits, "a limit of cost needs prices")
        if type(repairs) is not int or repairs < 0:
            raise ArgumentError("repairs", repairs, "0 or more is needed")
        policy, counter = policy or ToolPolicy(), counter or EstimatingCounter()
        self._provider, self._repairs = provider, repairs
        self._rounds = LoopLimits(max_rounds, last_round_answers, nudges, nudge)
        self._middleware, self._calling = tuple(model_middleware), (parallel_tools, tool_timeout)
        toolset = Toolset((*tools, *policy.pages.tools))
        self._parts = self._equipped(
            toolset,
            AgentComponents(
                name=name,
                system=system,
                tools=toolset,
                loop=Loop(provider, ToolExecutor(toolset)),
                dispatcher=ToolExecutor(toolset),
                policy=policy,
                reader=MemoryReader(
                    memory,
                    HistoryReader(
                        memory, history, window, namespace, bound=history_bound(window, token_budget, counter)
                    ),
                    knowledge,
                    namespace=namespace,
                    k=recall,
                    sensitive=share_sensitive or not is_remote(provider),
                ),
                turns=TurnStore(memory, history, namespace=namespace),
                grounded=memory is not None or knowledge is not None,
                settings=settings or ModelSettings(),
                counter=counter,
                clock=clock,
                budget=token_budget,
                profile=profile_tokens,
                window=window,
                limits=limits or RunLimits(),
                prices=prices,
                hooks=tuple(hooks),
                trace=trace,
                raises=on_memory_error == "raise",
                seed=seeds(),
            ),
        )
        self._deadline = checked_deadline(deadline)
        self._connectors = tuple(connectors)
        self._opened: AsyncExitStack | None = None
        self._closes_provider = close_provider
        self._timer, self._sessions = timer, sessions
        self._closed = False
        self._check()

    @property
    def name(self) -> str:
        """What it is called, in events and for the agents that call it."""
        return self._parts.name

    @property
    def unsaved(self) -> int:
        """How many turns wait to be written, because writing failed."""
        return len(self._parts.turns.unsaved)

    @property
    def fingerprint(self) -> str:
        """What tells this configuration from another; the order of the tools does not matter."""
        return self._parts.fingerprint

    def needing_approval(self) -> list[str]:
        """Return the tools that need somebody's yes where there is nobody to give it but the reader of a stream."""
        return [] if self._parts.policy.approver is not None else self._parts.dispatcher.needing_approval()

    async def start(self) -> None:
        """Open the connectors, in order; one that fails closes those before it, and its error is raised."""
        if self._closed:
            raise AgentClosed
        if self._opened is not None:
            return
        async with AsyncExitStack() as stack:
            tools = list(self._parts.tools)
            for connector in self._connectors:
                tools += list(await stack.enter_async_context(connector))
            self._parts = self._equipped(Toolset(tools), self._parts)
            self._opened = stack.pop_all()

    async def run(
        self,
        prompt: str | Sequence[Block],
        *,
        session: str | None = None,
        store: bool = True,
        deadline: float | None = None,
        result_type: type[BaseModel] | None = None,
    ) -> RunResult:
        """Answer *prompt* and return the result; an ending without an answer raises it in a ``RunError``.

        *session* names the conversation to go on with (None: a new one). *store* off: nothing is kept. With
        *result_type* the answer fits that model, and is the result's ``output``. Tools that need approval and nobody
        to ask raise ``ApprovalUnavailable`` before anything is done.
        """
        if waiting := self.needing_approval():
            names = ", ".join(waiting)
            raise ApprovalUnavailable(f"{names}: a policy with an approver is needed, or a reader of agent.stream")
        running = self._running(prompt, session, store, deadline, result_type, None, streams=False)
        async with aclosing(running.events()) as events:
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
        session: str | None = None,
        store: bool = True,
        deadline: float | None = None,
        result_type: type[BaseModel] | None = None,
    ) -> RunResult:
        """As ``run``, for plain scripts."""
        return run_sync(self.run(prompt, session=session, store=store, deadline=deadline, result_type=result_type))

    def stream(
        self,
        prompt: str | Sequence[Block],
        *,
        session: str | None = None,
        store: bool = True,
        deadline: float | None = None,
        result_type: type[BaseModel] | None = None,
        within: ToolContext | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Answer *prompt* event by event; the last one is ``RunEnded``, whatever happens.

        A bad argument raises at once; cancellation passes through, and nothing of the turn is kept then. Where no
        approver is set, whoever reads the stream answers its ``ApprovalRequested``. *within* is the call of a tool
        that this run serves: its deadline, counts and approver hold here too, its session and its words do not.
        """
        streams = within is None
        return self._running(prompt, session, store, deadline, result_type, within, streams=streams).events()

    async def aclose(self) -> None:
        """Write what still waits, close connectors and provider. Closing twice is harmless, and tries once more to
        write what could not be written."""
        if self._closed:
            await self._parts.turns.flush()
            return
        self._closed = True
        async with AsyncExitStack() as closing:
            close = getattr(self._provider, "aclose", None)
            if self._closes_provider and close is not None:
                closing.push_async_callback(close)
            if self._opened is not None:
                closing.push_async_callback(self._opened.aclose)
            await self._parts.turns.flush()

    async def __aenter__(self) -> Agent:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _running(
        self,
        prompt: str | Sequence[Block],
        session: str | None,
        store: bool,
        deadline: float | None,
        result_type: type[BaseModel] | None,
        within: ToolContext | None,
        *,
        streams: bool,
    ) -> AgentRun:
        if self._closed:
            raise AgentClosed
        if self._connectors and self._opened is None:
            raise AgentError("this agent has connectors: start it first, or use it in `async with`")
        message = prompt_message(prompt, self._parts.clock)
        if within is not None:
            message = with_trust(message, within.trust)  # a task is the word of the agent that gives it
        if session is not None and (not isinstance(session, str) or not session.strip()):
            raise ArgumentError("session", session, "the id of a session is needed, or None for a new one")
        limit = checked_deadline(deadline) or self._deadline
        self._check(message)
        keeps = store and self._parts.turns.keeps
        turn = RunState(message, session or self._sessions(), keeps, limit, self._timer)
        can = capabilities_of(self._provider)
        wanted = None if result_type is None else expected_output(result_type, can, repairs=self._repairs)
        return AgentRun(self._parts, turn, expected=wanted, within=within, streams=streams, lineage=(self,))

    def _check(self, *messages: Message) -> None:
        """Refuse at once what the provider says it cannot do."""
        can = capabilities_of(self._provider)
        if can is not None:
            parts = self._parts
            request = Request(messages, tools=parts.tools.specs, settings=parts.settings)
            check_request(request, can, type(self._provider).__name__)

    def _equipped(self, tools: Toolset, parts: AgentComponents) -> AgentComponents:
        """Return *parts* with *tools*, and what is made from them."""
        parallel, timeout = self._calling
        dispatcher = ToolExecutor(tools, parallel=parallel, timeout=timeout, policy=parts.policy)
        loop = Loop(self._provider, dispatcher, limits=self._rounds, middleware=self._middleware)
        mark = agent_fingerprint(
            tools,
            name=parts.name,
            system=parts.system,
            provider=type(self._provider).__name__,
            model=getattr(self._provider, "model", None),
            settings=parts.settings,
            rounds=self._rounds,
            limits=parts.limits,
            approval=parts.policy.approval,
            token_budget=parts.budget,
            profile_tokens=parts.profile,
            window=parts.window,
            trace=parts.trace,
        )
        return replace(parts, tools=tools, dispatcher=dispatcher, loop=loop, fingerprint=mark)
