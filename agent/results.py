"""Results of a run: its ending, its answer, and its usage. Values only."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from enum import StrEnum
from operator import add
from typing import Generic, Literal

from pydantic import BaseModel
from typing_extensions import TypeVar

from agent.context_items import AnswerCitation, ContextItem
from memory import Message, Report, ToolCallBlock, ToolResultBlock, Trust
from memory.internals import Omitted

OutputT = TypeVar("OutputT", bound="BaseModel | None", default=None)
"""Type of a run's output; None where no type of answer was asked for."""


class StopReason(StrEnum):
    """Reason why a model's reply ended."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    MAX_TOKENS = "max_tokens"
    TOO_LONG = "too_long"
    """It was ended on our side, at ``max_characters``."""
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"


class Ending(StrEnum):
    """Ending of a run. The first six are answers; with the others ``run`` raises."""

    FINAL = "final"
    LAST_ROUND = "last_round"
    """The answer of the last round, which was asked for without tools."""
    TOKEN_LIMIT = "token_limit"  # noqa: S105 - an ending, not a secret
    """The answer is cut: the model reached its limit of output tokens."""
    TOO_LONG = "too_long"
    """The answer is cut: it passed the limit of characters of one reply, ``ModelSettings.max_characters``."""
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    ITERATION_CAP = "iteration_cap"
    EMPTY_REPLY = "empty_reply"
    PROVIDER_ERROR = "provider_error"
    DEADLINE = "deadline"
    LIMIT = "limit"
    """The run used up its calls, its tokens or its cost."""
    INVALID_OUTPUT = "invalid_output"
    """The answer does not fit the wanted type, repairs included."""
    CONTEXT_OVERFLOW = "context_overflow"
    """The request is longer than the model's window, made shorter or not."""
    STOPPED = "stopped"
    """A tool or middleware ended the run."""
    MEMORY_ERROR = "memory_error"
    """Memory could not be read or written, and the agent was told not to go on without it."""

    @property
    def is_answer(self) -> bool:
        """Return whether ``run`` returns with it."""
        cut = (Ending.TOKEN_LIMIT, Ending.TOO_LONG, Ending.REFUSAL, Ending.CONTENT_FILTER)
        return self in (Ending.FINAL, Ending.LAST_ROUND, *cut)

    @property
    def is_stored(self) -> bool:
        """Return whether the turn is kept: answers are, and the partial results of a limit."""
        return self.is_answer or self in (Ending.ITERATION_CAP, Ending.LIMIT, Ending.INVALID_OUTPUT)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the provider counted them.

    *input* is all that was read, with *cache_read* and *cache_write* among it; *output* is all that was written,
    with *reasoning* among it. They add up over calls.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(add, astuple(self), astuple(other)))

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.input + self.output

    @property
    def cached_share(self) -> float:
        """Share of the input that was read from the provider's cache, in [0, 1]."""
        return self.cache_read / self.input if self.input else 0.0


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """Record of a tool call: the call, its result, its duration in seconds, and *began*, the seconds from the beginning
    of the run to that of the call."""

    call: ToolCallBlock
    result: ToolResultBlock
    elapsed: float = 0.0
    began: float = 0.0


@dataclass(frozen=True, slots=True)
class RunResult(Generic[OutputT]):
    """Result of a run, whether it is returned or carried by the error that is raised.

    - *text* is the answer, or as much of it as there was; *output* the answer as the wanted type (None: there is no
      answer of this type, or none was wanted). *messages* are those that this turn adds to the conversation, the
      prompt first. *stored* has a report for each message that was kept.
    - *memories* were shown to the model, *left_out* were found and not shown, or only in part; *dropped* messages of
      history had no room. *citations* point into *memories*. *abstain* is the reason to doubt them ("nothing": they
      are about something else, "other": about someone else).
    - *usage*, *calls* of models and *cost* (None: no prices are known) are those of the whole run with its sub-agents.
    - *warnings* name deviations from the request, *notes* how memory was searched. *tokens_exact* tells whether the
      token budget was counted exactly (False: by an estimate that rather counts too many; None: there was no budget).
      *fingerprint* is that of the agent's configuration, *trust* that of the least trusted word that the run has read.
      *model* is the model that answered last, with its version, where its endpoint tells it.
    """

    ending: Ending
    text: str
    session: str
    messages: tuple[Message, ...] = ()
    steps: int = 0
    tool_runs: tuple[ToolCallRecord, ...] = ()
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    cost: float | None = None
    output: OutputT | None = None
    memories: tuple[ContextItem, ...] = ()
    citations: tuple[AnswerCitation, ...] = ()
    left_out: tuple[Omitted, ...] = ()
    dropped: int = 0
    stored: tuple[Report, ...] = ()
    abstain: Literal["nothing", "other"] | None = None
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    elapsed: float = 0.0
    fingerprint: str = ""
    tokens_exact: bool | None = None
    trust: Trust = Trust.USER
    model: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ending", Ending(self.ending))
        object.__setattr__(self, "trust", Trust(self.trust))
