"""Results of a run: its ending, its answer, its steps, and its usage. Values only."""

from __future__ import annotations

import traceback
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from operator import add
from typing import Generic, Literal, Self

from typing_extensions import TypeVar

from tellback.agent.context_items import AnswerCitation, ContextItem
from tellback.memory import Message, Report, ToolCallBlock, ToolResultBlock, Trust
from tellback.memory.internals import Omitted, redact_secrets

OutputT = TypeVar("OutputT", default=None)
"""Type of a run's output; None where no type of answer was asked for."""


class StopReason(StrEnum):
    """Reason why a model's reply ended."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    PAUSED = "paused"
    """The server ended its turn early and goes on when the reply is sent back to it."""
    MAX_TOKENS = "max_tokens"
    TOO_LONG = "too_long"
    """The reply was cut on our side, at ``max_characters``."""
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
    CANCELLED = "cancelled"
    """The run was cancelled, or its reader left the stream. Only hooks see it: no result is returned."""
    ERROR = "error"
    """A part of the program around the run, such as a window policy, raised. Only hooks see it: the error is raised."""

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


_LONGEST_TRACEBACK = 20_000


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """Exception as text: its *type*, its *message* and its *traceback*, causes included, with secrets redacted.

    It is for the developer: nothing of it is shown to a model. Of a traceback beyond 20,000 characters the end is kept.
    """

    type: str
    message: str = ""
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Return the record of *error*."""
        lines = traceback.TracebackException.from_exception(error)
        text, _ = redact_secrets("".join(lines.format()))
        message, _ = redact_secrets(error_text(error))
        return cls(
            type(error).__name__, message, text if len(text) <= _LONGEST_TRACEBACK else "…" + text[-_LONGEST_TRACEBACK:]
        )

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


def error_text(error: BaseException) -> str:
    """Return the message of *error*, or a placeholder where its ``__str__`` fails."""
    try:
        return str(error)
    except Exception:  # a stranger's exception
        return "(its text could not be made)"


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """Record of a tool call: the call, its result, its duration in seconds, and *began*, the seconds from the beginning
    of the run to that of the call. *error* is the exception behind a result that is an error."""

    call: ToolCallBlock
    result: ToolResultBlock
    elapsed: float = 0.0
    began: float = 0.0
    error: ErrorRecord | None = None


@dataclass(frozen=True, slots=True)
class RunStep:
    """Step of a run: one call of the model, and the tool calls that its reply asked for.

    *number* counts from 1, as in events. *began* is in seconds from the beginning of the run; *elapsed* is the duration
    of the model's call, *first_token* the part of it until the first piece of the reply came (None: none came).
    *model* is the one that answered, or else was asked, where that is known. *stop* is None where there is no whole
    reply; *error* says why.
    """

    number: int
    model: str = ""
    began: float = 0.0
    elapsed: float = 0.0
    first_token: float | None = None
    usage: Usage = field(default_factory=Usage)
    stop: StopReason | None = None
    tool_runs: tuple[ToolCallRecord, ...] = ()
    error: ErrorRecord | None = None


MemoryPart = Literal["history", "profile", "recall", "knowledge", "turn"]


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """Access of a run to memory: a read of the *part* "history", "profile" (pinned memories), "recall" or "knowledge"
    (documents of another place), or the write of the "turn".

    *began* and *elapsed* are seconds, *count* the messages, memories, passages or reports that it gave. *problem* says
    why it gave less than was asked, or nothing: the embedder failed or gave no answer in time, so that words alone
    were searched, or the read itself failed; then *error* is the exception. It is empty where all went well, so that
    an empty result differs from a failed read.
    """

    part: MemoryPart
    began: float = 0.0
    elapsed: float = 0.0
    count: int = 0
    problem: str = ""
    error: ErrorRecord | None = None


@dataclass(frozen=True, slots=True)
class RunResult(Generic[OutputT]):
    """Result of a run, whether it is returned or carried by the error that is raised.

    - *text* is the answer, or as much of it as there was; *output* the answer as the wanted type (None: there is no
      answer of this type, or none was wanted). *messages* are those that this turn adds to the conversation, the
      prompt first. *stored* has a report for each message that was kept.
    - *memories* were shown to the model, in its context or by its tools; *left_out* were found and not shown, or only
      in part; *dropped* messages of history had no room. *citations* point into *memories*. *abstain* is the reason to
      doubt them ("nothing": they are about something else, "other": about someone else).
    - *steps* are the calls of the model, each with its tool calls, times, usage and error; *tool_runs* are all tool
      calls, *memory_accesses* the reads and the write of memory with their times. *elapsed* is the duration of the
      whole run in seconds.
    - *usage*, *calls* of models and *cost* (None: no prices are known) are those of the whole run with its sub-agents.
    - *warnings* name deviations from the request, *notes* how memory was searched. *error* is the exception behind an
      ending without an answer, where there was one. *tokens_exact* tells whether the token budget was counted exactly
      (False: by an estimate that rather counts too many; None: there was no budget). *fingerprint* is that of the
      agent's configuration, *trust* that of the least trusted word that the run has read. *model* is the model that
      answered last, with its version, where its endpoint tells it.
    """

    ending: Ending
    text: str
    session: str
    messages: tuple[Message, ...] = ()
    steps: tuple[RunStep, ...] = ()
    tool_runs: tuple[ToolCallRecord, ...] = ()
    memory_accesses: tuple[MemoryAccess, ...] = ()
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
    error: ErrorRecord | None = None
    elapsed: float = 0.0
    fingerprint: str = ""
    tokens_exact: bool | None = None
    trust: Trust = Trust.USER
    model: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "ending", Ending(self.ending))
        object.__setattr__(self, "trust", Trust(self.trust))
