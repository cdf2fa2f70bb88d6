"""Configuration of an agent: its settings, the components that all its runs share, and the fingerprint of both.

The fingerprint is a hash, so that a stored run can be matched with the configuration that it was made with.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, tzinfo
from typing import Any, Literal

from tellback.agent.agent_memory import MemoryOptions
from tellback.agent.context.assembly import DEFAULT_PROFILE_TOKENS
from tellback.agent.context.memory_reader import DEFAULT_RELEVANCE_FLOOR, MemoryReader
from tellback.agent.errors import ArgumentError, check_count, check_seconds
from tellback.agent.events import Hooks
from tellback.agent.loop import EMPTY_REPLY_PROMPT, Loop, LoopLimits
from tellback.agent.middleware.base import ModelMiddleware, RunMiddleware
from tellback.agent.providers.base import ModelSettings, Provider, ServerTool
from tellback.agent.tool_executor import ToolExecutor, ToolPolicy
from tellback.agent.tools.base import Tool, Toolset, annotations_of
from tellback.agent.turn_store import TurnStore
from tellback.agent.usage import Prices, RunLimits
from tellback.memory import TokenCounter, WindowPolicy
from tellback.memory.internals import Clock, system_clock


def zone_name(moment: datetime) -> str:
    """Return the name of the zone of *moment*, or else its offset: ``UTC+02:00``."""
    key = getattr(moment.tzinfo, "key", None)
    return key if isinstance(key, str) else f"UTC{moment.isoformat()[-6:]}".removesuffix("+00:00")


def new_session_id() -> str:
    """Return an id for a new session."""
    return str(uuid.uuid4())


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Settings of an agent. One value may serve any number of agents.

    - *name* stands in events and names the agent for those that call it; *system* is the system prompt.
    - *recall* is the number of memories and passages recalled for a prompt, at most; what scores less than the share
      *relevance_floor* of the best, and all where nothing is near, is left out (0: nothing is) and named in
      ``RunResult.left_out``. *token_budget* bounds a request, as *counter* counts it (None: no bound), *profile_tokens*
      the pinned memories in it. Without a *counter* tokens are counted exactly for a model whose tokenizer tiktoken
      has, else by an estimate that rather counts too many. *window* chooses from the history first. Memories marked
      sensitive are shown to a remote provider only with *share_sensitive*.
    - *model_settings* go with each request. *max_rounds* bounds the rounds of tool calls; with *last_round_answers*
      the last one forbids tools. An empty reply is asked again *nudges* times, with the words of *nudge*. An answer
      that does not fit the wanted type is repaired *repairs* times.
    - *parallel_tools* is the number of tool calls at a time. *tool_timeout* and *deadline* are the seconds of one
      tool call and of a whole run. *limits* bounds a run in calls, tokens and, by *prices*, cost.
    - *trace* keeps tool calls and results in history, not only prompt and answer. When memory cannot be read or
      written, ``on_memory_error="degrade"`` goes on without it and warns, "raise" ends the run in an error; a turn
      that could not be written waits for the next one in either case.
    - *log_contents* puts requests and replies, secrets redacted, into the log of model calls
      (``tellback.agent.model_calls``), which has sizes, times and usage alone otherwise.
    - *profile* shows the user's name, home and work, where they were told, beside the pinned memories, in every prompt.
      *user* is the name of the person who asks, *zone* their time zone (None: that of the machine); with a memory, the
      prompt names both, and the day.
    - *memory* bounds what is seen of memory, and stamps what is stored. *close_provider* closes the provider with the
      agent; else it stays open, as it may serve others. *clock*, *timer*, *sessions* and *seeds* are the sources of
      the time, of ids of new sessions, and of the secret behind the marks around recalled memories.
    """

    name: str = ""
    system: str = ""
    recall: int = 10
    relevance_floor: float = DEFAULT_RELEVANCE_FLOOR
    token_budget: int | None = 16_000
    profile_tokens: int = DEFAULT_PROFILE_TOKENS
    counter: TokenCounter | None = None
    window: WindowPolicy | None = None
    share_sensitive: bool = False
    profile: bool = False
    user: str = ""
    zone: tzinfo | None = None
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    max_rounds: int = 10
    last_round_answers: bool = False
    nudges: int = 1
    nudge: str = EMPTY_REPLY_PROMPT
    repairs: int = 2
    parallel_tools: int = 8
    tool_timeout: float | None = None
    deadline: float | None = None
    limits: RunLimits = field(default_factory=RunLimits)
    prices: Prices | None = None
    trace: bool = True
    on_memory_error: Literal["degrade", "raise"] = "degrade"
    log_contents: bool = False
    close_provider: bool = False
    clock: Clock = system_clock
    timer: Callable[[], float] = time.monotonic
    sessions: Callable[[], str] = new_session_id
    seeds: Callable[[], str] = lambda: secrets.token_hex(16)

    def __post_init__(self) -> None:
        if self.token_budget is not None:
            check_count("token_budget", self.token_budget, expected="at least 1 token is needed, or None")
        for name in ("profile_tokens", "recall", "repairs"):
            check_count(name, getattr(self, name), 0)
        if not 0 <= self.relevance_floor <= 1:
            raise ArgumentError("relevance_floor", self.relevance_floor, "a number in [0, 1] is needed")
        check_count("parallel_tools", self.parallel_tools)
        for name in ("tool_timeout", "deadline"):
            check_seconds(name, getattr(self, name))
        if self.on_memory_error not in ("degrade", "raise"):
            raise ArgumentError("on_memory_error", self.on_memory_error, 'one of "degrade", "raise" is needed')
        if self.limits.cost is not None and self.prices is None:
            raise ArgumentError("limits", self.limits, "a limit of cost needs prices")
        self.loop_limits()

    def situation(self) -> str:
        """Return the day and the user's name in words for a model."""
        now = self.clock().astimezone(self.zone)
        name = f" The user is {self.user}." if self.user else ""
        return f"Today is {now:%A}, {now.day} {now:%B %Y} ({zone_name(now)}).{name}"

    def loop_limits(self) -> LoopLimits:
        """Return the limits of the loop."""
        return LoopLimits(self.max_rounds, self.last_round_answers, self.nudges, self.nudge)


_FINGERPRINTED_SETTINGS = ("name", "system", "limits", "token_budget", "profile_tokens", "window", "trace")


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentComponents:
    """Components that all runs of one agent share; *executor*, *loop* and *fingerprint* are made from the rest.

    *counter* counts the tokens of requests. *seed* is the secret behind the marks around recalled items.
    """

    provider: Provider
    settings: AgentSettings
    counter: TokenCounter
    tools: Toolset
    server_tools: tuple[ServerTool, ...]
    policy: ToolPolicy
    run_middleware: tuple[RunMiddleware, ...]
    model_middleware: tuple[ModelMiddleware, ...]
    hooks: tuple[Hooks, ...]
    reader: MemoryReader
    turns: TurnStore
    seed: str
    executor: ToolExecutor = field(init=False)
    loop: Loop = field(init=False)
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        settings, limits = self.settings, self.settings.loop_limits()
        executor = ToolExecutor(
            self.tools, parallel=settings.parallel_tools, timeout=settings.tool_timeout, policy=self.policy
        )
        configuration = {
            **{name: getattr(settings, name) for name in _FINGERPRINTED_SETTINGS},
            "provider": type(self.provider).__name__,
            "model": getattr(self.provider, "model", None),
            "settings": settings.model_settings,
            "rounds": limits,
            "approval": self.policy.approval,
            "server_tools": [dict(tool.data) for tool in self.server_tools],
        }
        loop = Loop(
            self.provider, executor, limits=limits, middleware=self.model_middleware, log_contents=settings.log_contents
        )
        object.__setattr__(self, "executor", executor)
        object.__setattr__(self, "loop", loop)
        object.__setattr__(self, "fingerprint", _fingerprint(self.tools, configuration))

    @property
    def grounded(self) -> bool:
        """Return whether there is a memory, or documents, to recall from."""
        return self.reader.memory is not None or self.reader.knowledge is not None


def _fingerprint(tools: Iterable[Tool], configuration: Mapping[str, Any]) -> str:
    """Return SHA-256, in hex, over *configuration* and *tools* in a canonical form: neither the order of the tools nor
    that of any keys matters, nor what is None. Functions count by their names, other objects by their types."""
    described = [
        {
            "name": tool.spec.name,
            "description": tool.spec.description,
            "parameters": tool.spec.parameters,
            "timeout": tool.timeout,
            "annotations": annotations_of(tool),
        }
        for tool in sorted(tools, key=lambda tool: tool.spec.name)
    ]
    text = json.dumps(_canonical_value({**configuration, "tools": described}), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical_value(value: Any) -> Any:
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _canonical_value(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_canonical_value(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_canonical_value(item), sort_keys=True) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        public = {field.name: getattr(value, field.name) for field in fields(value) if not field.name.startswith("_")}
        return {"type": type(value).__name__, **_canonical_value(public)}
    return getattr(value, "__qualname__", type(value).__qualname__)
