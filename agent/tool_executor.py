"""Execution of the tool calls of one reply: run at the same time, results in the order of the calls.

A failing call is reported to the model and never stops its siblings. ``StopRun`` ends the run once all calls have
ended. Each call goes through the middleware chain of its ``ToolPolicy``; an unknown tool and invalid arguments never
enter it. Models and messages are not known here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tellback.agent.approval import ApprovalPolicy, Approver, approval_as_annotated
from tellback.agent.context.rendering import break_mark
from tellback.agent.errors import ArgumentError, StopRun, ToolFailed, check_count, shorten
from tellback.agent.middleware.approval import ApprovalMiddleware, AuthorizationMiddleware
from tellback.agent.middleware.base import ToolHandler, ToolInvocation, ToolMiddleware, wrap_tool_handler
from tellback.agent.middleware.logging import log_tool_call
from tellback.agent.middleware.resilience import CircuitBreaker, RateLimit, Retry, ToolTimeout
from tellback.agent.results import ErrorRecord, ToolCallRecord, error_text
from tellback.agent.tools.base import Authorizer, ToolContext, ToolOutput, Toolset, annotations_of
from tellback.agent.tools.pagination import ResultPagination
from tellback.memory import DocumentBlock, ImageBlock, TextBlock, ToolCallBlock, ToolResultBlock, Trust
from tellback.memory.internals import redact_secrets


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """The chain around each call, outermost first: *authorise*, *approval*, logging, timeout, *breaker*,
    *rate_limit*, *retry*, *middleware* in its order, the tool.

    *approval* says which calls need approval, *approver* gives it (None: the reader of the stream), within
    *approval_timeout* seconds (None: no limit); waiting does not count towards a tool's own time. *pages* cuts long
    results. The breaker and the rate limit keep their state here, so it outlives runs.
    """

    authorise: Authorizer | None = None
    approval: ApprovalPolicy = approval_as_annotated
    approver: Approver | None = None
    approval_timeout: float | None = 300.0
    breaker: CircuitBreaker | None = None
    rate_limit: RateLimit | None = None
    retry: Retry | None = None
    middleware: Sequence[ToolMiddleware] = ()
    pages: ResultPagination = field(default_factory=ResultPagination)

    def __post_init__(self) -> None:
        if self.approval_timeout is not None and not self.approval_timeout > 0:
            raise ArgumentError("approval_timeout", self.approval_timeout, "seconds above 0 are needed, or None")
        for name in ("approval", "approver", "authorise"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ArgumentError(name, getattr(self, name), "a function is needed")


_FAILURE_LENGTH = 500


@dataclass(frozen=True, slots=True)
class ToolBatchResult:
    """Results of the calls, in their order, and the ``StopRun`` that one of them raised. *answers*: every called tool
    has *skip_synthesis*, all of them worked, and there was at least one."""

    runs: tuple[ToolCallRecord, ...]
    stop: StopRun | None = None
    answers: bool = False


class ToolExecutor:
    """Calls *tools*: at most *parallel* at a time, each for at most *timeout* seconds (None: no limit) or its own."""

    def __init__(
        self,
        tools: Toolset,
        *,
        parallel: int = 8,
        timeout: float | None = None,
        policy: ToolPolicy | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        check_count("parallel_tools", parallel)
        policy = self._policy = policy or ToolPolicy()
        self._tools, self._parallel, self._timer = tools, parallel, timer
        guards: list[ToolMiddleware | None] = [policy.breaker, policy.rate_limit, policy.retry]
        around: list[ToolMiddleware] = [log_tool_call, ToolTimeout(timeout), *filter(None, guards), *policy.middleware]
        self._call_tool = wrap_tool_handler(around, _call_tool)
        # These may wait for a person, so a call that has not passed them is no running call.
        self._before: list[ToolMiddleware] = [
            AuthorizationMiddleware(policy.authorise),
            ApprovalMiddleware(policy.approval, approver=policy.approver, timeout=policy.approval_timeout),
        ]

    def needing_approval(self) -> list[str]:
        """Return the tools whose calls need approval, whatever their arguments are, sub-agents' included."""
        approval = self._policy.approval
        names: list[str] = []
        for tool in self._tools:
            if approval(ToolCallBlock(id="", name=tool.spec.name), annotations_of(tool).needs_approval):
                names.append(tool.spec.name)
            of_subagent = getattr(tool, "needing_approval", None)
            names += [f"{tool.spec.name}.{name}" for name in of_subagent()] if callable(of_subagent) else []
        return names

    async def run(
        self,
        calls: Sequence[ToolCallBlock],
        context: ToolContext,
        *,
        on_ended: Callable[[ToolCallRecord], object] | None = None,
    ) -> ToolBatchResult:
        """Run *calls* together; a cancellation cancels all of them.

        *on_ended* is given the record of each call when it ends, also where it is cancelled. The writes of the calls
        have the trust of what the run had read before them; their results count as read afterwards.
        """
        context = replace(context, trust=Trust.least((Trust.ASSISTANT, context.scope.trust.least)))
        semaphore = asyncio.Semaphore(self._parallel)

        async def call_tool(invocation: ToolInvocation) -> ToolOutput:
            async with semaphore:
                return await self._call_tool(invocation)

        chain = wrap_tool_handler(self._before, call_tool)
        record = on_ended or (lambda run: None)
        tasks = [asyncio.create_task(self._run(call, context, chain, record)) for call in calls]
        try:
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        results = [task.result() for task in tasks]
        runs = tuple(run for run, _ in results)
        called = [annotations_of(tool) for call in calls if (tool := self._tools.get(call.name)) is not None]
        context.scope.trust.record(*(annotations.trust for annotations in called))
        answers = bool(called) and all(annotations.skip_synthesis for annotations in called)
        stop = next((stop for _, stop in results if stop), None)
        return ToolBatchResult(runs, stop, answers and not any(run.result.is_error for run in runs))

    async def _run(
        self,
        call: ToolCallBlock,
        context: ToolContext,
        chain: ToolHandler,
        on_ended: Callable[[ToolCallRecord], object],
    ) -> tuple[ToolCallRecord, StopRun | None]:
        began, began_in_run = self._timer(), context.scope.timer()
        context = replace(context, call_id=call.id)
        raised: Exception | asyncio.CancelledError | None = None
        try:
            output: ToolOutput = await self._call(call, context, chain)
        except asyncio.CancelledError as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                result = tool_result_block(call, "cancelled", is_error=True)
                elapsed = self._timer() - began
                on_ended(ToolCallRecord(call, result, elapsed, began_in_run, ErrorRecord.of(error)))
                raise
            output, raised = "the tool cancelled itself", error  # not our cancellation: one inside the tool leaked
        except Exception as error:  # a stranger's code; the model may find another way
            output, raised = _failure_text(error), error
        elapsed = self._timer() - began
        shown = _break_output_mark(self._policy.pages.cut(output, context), context.scope.mark)
        result = tool_result_block(call, shown, is_error=raised is not None)
        error_record = None if raised is None else ErrorRecord.of(raised)
        stop = raised if isinstance(raised, StopRun) else None
        record = ToolCallRecord(call, result, elapsed, began_in_run, error_record)
        on_ended(record)
        return record, stop

    async def _call(self, call: ToolCallBlock, context: ToolContext, chain: ToolHandler) -> ToolOutput:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(spec.name for spec in self._tools.specs)
            raise ToolFailed(f"there is no tool {call.name!r}; there are: {known or 'none'}")
        if call.invalid is not None:
            raise ToolFailed(f"the arguments are not a JSON object: {shorten(call.invalid, _FAILURE_LENGTH)}")
        if annotations_of(tool).recalls:
            # Before anybody is asked for approval: a person is shown the memories that the numbers stand for.
            call = call.model_copy(update={"arguments": dict(context.scope.with_ids(call.arguments))})
        return await chain(ToolInvocation(tool, call, context))


def _failure_text(error: Exception) -> str:
    """Return the words of *error* for the model: one line, never a traceback."""
    if isinstance(error, StopRun):
        return "the run was ended"
    if isinstance(error, ToolFailed):
        return str(error)
    reason, _ = redact_secrets(error_text(error))  # an exception may name an address with its password
    return shorten(f"the tool failed: {type(error).__name__}{f': {reason}' if reason else ''}", _FAILURE_LENGTH)


async def _call_tool(invocation: ToolInvocation) -> ToolOutput:
    output = await invocation.tool.call(invocation.call.arguments, invocation.context)
    if isinstance(output, str) or all(isinstance(block, (TextBlock, ImageBlock, DocumentBlock)) for block in output):
        return output
    raise TypeError("a tool answers with a text, or with text, image and document blocks")


def _break_output_mark(output: ToolOutput, mark: str) -> ToolOutput:
    if isinstance(output, str):
        return break_mark(output, mark)
    return [TextBlock(text=break_mark(block.text, mark)) if isinstance(block, TextBlock) else block for block in output]


def tool_result_block(call: ToolCallBlock, output: ToolOutput, *, is_error: bool = False) -> ToolResultBlock:
    """Return *output* as the answer to *call*."""
    content = (TextBlock(text=output),) if isinstance(output, str) else tuple(output)
    return ToolResultBlock(call_id=call.id, name=call.name, content=content, is_error=is_error)
