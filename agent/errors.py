"""Errors of the agent: one tree, each error with its data and what to do.

AgentError
├── ArgumentError         a value given by the caller (also a ValueError): argument, value, expected
│   └── Unsupported       a provider cannot do what was asked: provider, feature
├── ProviderError         a model's endpoint failed: provider, status, retry_after, transient
│   ├── ContextOverflow   the request is longer than the model's window
│   └── UnreadableToolCall the server could not read the tool call that the model wrote: generation
├── ToolFailed            raised by a tool on purpose, with a text for the model: transient, retry_after
│   ├── ToolCallRefused   an authoriser or a person refused the call
│   ├── ToolTimedOut      the tool gave no answer in time
│   ├── CircuitOpen       the tool failed too often and rests: retry_after
│   └── RateLimited       calls come too fast for the time that is left
├── RequestRefused        raised by middleware on purpose: its text is the answer
├── ApprovalUnavailable   a run needs approval, and nobody can be asked
├── StopRun               raised by a tool on purpose: the run ends
└── RunError              a run ended without an answer: the incomplete result, see ``Ending``
    ├── IterationCap      the model still called tools in the last round (the turn is stored)
    ├── LimitReached      the run used up its calls, tokens or cost (the turn is stored)
    ├── InvalidOutput     the answer does not fit the type that was wanted (the turn is stored)
    ├── WindowExceeded    the request is longer than the model's window
    ├── EmptyReply        the model said nothing, asked again or not
    ├── DeadlinePassed    the time of the whole run was over
    ├── ProviderFailed    the model's endpoint failed (also a ProviderError)
    ├── RunAborted        a tool ended the run
    └── MemoryUnavailable memory could not be read or written, and ``on_memory_error`` is "raise" (also a memory error)

An ``tellback.agent.ArgumentError`` is also a ``tellback.memory.ArgumentError``, which is also a
``tellback.vectorstore.ArgumentError``.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from tellback import memory

if TYPE_CHECKING:
    from tellback.agent.results import RunResult

_TRANSIENT_STATUSES = frozenset({408, 409, 429})


class AgentError(Exception):
    """Base of everything this package raises on purpose."""


class ArgumentError(AgentError, memory.ArgumentError):
    """A caller's value is unusable; nothing was done."""

    def __init__(self, argument: str, value: object, expected: str) -> None:
        self.argument = argument
        self.value = value
        self.expected = expected
        Exception.__init__(self, f"{argument}: {expected}, got {shorten(repr(value), 80)}")


def shorten(text: str, length: int) -> str:
    """Return *text* in at most *length* characters; what is cut off ends in an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "…"


_Choice = TypeVar("_Choice", bound=StrEnum)


def choice(kind: type[_Choice], value: object, argument: str, expected: str = "") -> _Choice:
    """Return *value* as a member of *kind*; the text of one will do, and another value raises ``ArgumentError``."""
    if isinstance(value, kind):
        return value
    if not isinstance(value, str) or value not in tuple(kind):
        raise ArgumentError(argument, value, expected or f"one of {', '.join(kind)} is needed")
    return kind(value)


def check_count(argument: str, value: object, least: int = 1, expected: str = "") -> None:
    """Raise ``ArgumentError`` unless *value* is a whole number of at least *least*."""
    if type(value) is not int or value < least:
        raise ArgumentError(
            argument, value, expected or (f"at least {least} is needed" if least else "0 or more is needed")
        )


def check_seconds(argument: str, value: object) -> None:
    """Raise ``ArgumentError`` unless *value* is a limit of time in seconds, or None for no limit."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0):
        raise ArgumentError(argument, value, "a number of seconds above 0 is needed, or None")


class Unsupported(ArgumentError):
    """A request asks what *provider* cannot do; nothing was sent."""

    def __init__(self, provider: str, feature: str, value: object, remedy: str = "") -> None:
        self.provider = provider
        self.feature = feature
        remedy = remedy or "leave it out, or ask another provider"
        super().__init__(feature, value, f"{provider} cannot do this; {remedy}")


class ProviderError(AgentError):
    """A model's endpoint failed, or its answer cannot be parsed; *status* is HTTP's, where there was one.

    *transient* says whether the same request may fare better later (None: as the status says), *retry_after* is
    the wait in seconds that the server asked for.
    """

    def __init__(
        self,
        problem: str,
        *,
        provider: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        transient: bool | None = None,
    ) -> None:
        self.provider = provider
        self.status = status
        self.retry_after = retry_after
        by_status = status is not None and (status in _TRANSIENT_STATUSES or status >= 500)
        self.transient = by_status if transient is None else transient
        super().__init__(f"{provider}: {problem}" if provider else problem)


class ContextOverflow(ProviderError):
    """The request is longer than the model's window; a shorter one may be answered."""


class UnreadableToolCall(ProviderError):
    """The server could not read the tool call that the model wrote, its *generation*; the model may do better."""

    def __init__(self, problem: str, *, provider: str = "", generation: str = "") -> None:
        self.generation = generation
        super().__init__(problem, provider=provider, transient=False)


class ToolFailed(AgentError):
    """Raised in a tool to tell the model why the call failed and how it would work.

    *transient*: the same call may work later, after *retry_after* seconds where that is known.
    """

    def __init__(self, text: str, *, transient: bool = False, retry_after: float | None = None) -> None:
        self.transient = transient
        self.retry_after = retry_after
        super().__init__(text)


class ToolCallRefused(ToolFailed):
    """The call was not allowed, or not approved; it was not made."""


class ToolTimedOut(ToolFailed):
    """The tool gave no answer in time."""


class CircuitOpen(ToolFailed):
    """The tool failed too often in a row (*failures*) and is not called for *retry_after* seconds. At 0, a call that
    probes it is under way."""

    def __init__(self, tool: str, failures: int, retry_after: float) -> None:
        self.tool, self.failures = tool, failures
        wait = f"rests for {retry_after:.0f} s" if retry_after > 0 else "rests, while another call tries it"
        super().__init__(
            f"{tool} failed {failures} times in a row and {wait}; go on without it", retry_after=retry_after
        )


class RateLimited(ToolFailed):
    """The call would have to wait longer than there is time."""


class RequestRefused(AgentError):
    """Raised in middleware around a model's call to refuse: its text is the answer, and the ending says so."""


class ApprovalUnavailable(AgentError):
    """A run needs approval, and nobody can be asked."""


class StopRun(AgentError):
    """Raised in a tool to end the whole run; the model is not told."""


class RunError(AgentError):
    """A run ended without an answer; *result* is its incomplete result."""

    def __init__(self, problem: str, result: RunResult[Any]) -> None:
        self.problem = problem
        self.result = result
        super().__init__(problem)


class IterationCap(RunError):
    """The model still called tools in the last round; raise ``max_rounds``, or set ``last_round_answers``."""


class LimitReached(RunError):
    """The run used up its calls, its tokens or its cost."""


class InvalidOutput(RunError):
    """The answer does not fit the wanted type, repairs included."""


class WindowExceeded(RunError):
    """The request is longer than the model's window, and could not be made short enough."""


class EmptyReply(RunError):
    """The model said nothing, nudges included."""


class DeadlinePassed(RunError):
    """The time given to the whole run was over."""


class ProviderFailed(RunError, ProviderError):
    """The model's endpoint failed; the error it raised is the cause."""

    def __init__(self, problem: str, result: RunResult[Any], cause: Exception | None = None) -> None:
        RunError.__init__(self, problem, result)
        error = cause if isinstance(cause, ProviderError) else ProviderError(problem)
        self.provider, self.status = error.provider, error.status
        self.retry_after, self.transient = error.retry_after, error.transient
        self.__cause__ = cause


class RunAborted(RunError):
    """A tool, or middleware, ended the run."""


class MemoryUnavailable(RunError, memory.MemoryLayerError):
    """Memory could not be read, and the run was not to go on without it; or the turn could not be written: the result
    has the answer all the same, and the turn waits to be written with the next one."""


def error_for_result(result: RunResult[Any], problem: str, cause: Exception | None = None) -> RunError | None:
    """Return the error that an ending without an answer is raised as; None for an answer."""
    from tellback.agent.results import Ending  # not above: the command line needs errors long before results

    if result.ending.is_answer:
        return None
    if result.ending == Ending.PROVIDER_ERROR:
        return ProviderFailed(problem, result, cause)
    errors: dict[Ending, type[RunError]] = {
        Ending.ITERATION_CAP: IterationCap,
        Ending.LIMIT: LimitReached,
        Ending.INVALID_OUTPUT: InvalidOutput,
        Ending.CONTEXT_OVERFLOW: WindowExceeded,
        Ending.EMPTY_REPLY: EmptyReply,
        Ending.DEADLINE: DeadlinePassed,
        Ending.STOPPED: RunAborted,
        Ending.MEMORY_ERROR: MemoryUnavailable,
    }
    error = errors.get(result.ending, RunError)(problem, result)
    error.__cause__ = cause
    return error
