"""The chain around each call of a tool, and middleware around a run: every link, and the order in which they stand.

Inner parts, on no face: ``tellback.agent.approval``, ``tellback.agent.errors``, ``tellback.agent.events``,
``tellback.agent.tool_executor``, ``tellback.agent.tools.base``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from tellback.agent import (
    Agent,
    AgentSettings,
    ApprovalRequest,
    ApprovalRequested,
    ArgumentError,
    AuthorizationDecision,
    CircuitBreaker,
    DeadlinePassed,
    Ending,
    Hooks,
    RateLimit,
    RequestRefused,
    Retry,
    RunEnded,
    RunMiddleware,
    StopRun,
    TextDelta,
    ToolContext,
    ToolFailed,
    ToolInvocation,
    ToolPolicy,
    approval_except,
    approval_never,
    tool,
)
from tellback.agent.approval import ApprovalDecision, ApprovalStatus, approval_as_annotated
from tellback.agent.errors import CircuitOpen, RateLimited
from tellback.agent.events import ApprovalDecided, HookDispatcher, TextWithdrawn
from tellback.agent.testing import Reply, ScriptedProvider, call
from tellback.agent.tool_executor import ToolExecutor
from tellback.agent.tools.base import RunScope, ToolAnnotations, Toolset, annotations_of
from tellback.memory import LongTermMemory, Message, ToolCallBlock
from tests.support.passing_time import DEADLINE, time_passes

pytestmark = pytest.mark.anyio


class Scripted:
    """A tool whose outcomes are written beforehand; *entered* counts its calls."""

    def __init__(self, *outcomes: object, name: str = "work", timeout: float | None = None, **annotations) -> None:
        self.outcomes, self.entered, self.moved = list(outcomes), 0, asyncio.Condition()
        self._tool = tool(name=name, timeout=timeout, **annotations)(self._work)
        self.spec, self.timeout, self.annotations = self._tool.spec, timeout, self._tool.annotations

    async def call(self, arguments, context):
        return await self._tool.call(arguments, context)

    async def has_entered(self, times: int) -> None:
        async with self.moved:
            await self.moved.wait_for(lambda: self.entered >= times)

    async def _work(self) -> str:
        """Work."""
        self.entered += 1
        async with self.moved:
            self.moved.notify_all()
        outcome = self.outcomes.pop(0) if self.outcomes else "done"
        if isinstance(outcome, BaseException):
            raise outcome
        if isinstance(outcome, asyncio.Event):
            await outcome.wait()
            return "late"
        return str(outcome)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def texts(policy: ToolPolicy, *tools, calls=None, scope: RunScope | None = None, **options) -> list[str]:
    dispatcher = ToolExecutor(Toolset(tools), policy=policy, **options)
    context = ToolContext(agent="ada", scope=scope or RunScope())
    asked = calls or [call(item.spec.name) for item in tools]
    return [run.result.text for run in (await dispatcher.run(asked, context)).runs]


# The order


async def test_the_links_of_the_tool_chain_run_in_their_documented_order() -> None:
    seen: list[str] = []

    def noting(name: str, action: Callable | None = None):
        async def middleware(invocation: ToolInvocation, proceed):
            seen.append(name)
            return await proceed(invocation)

        return middleware

    async def approver(request: ApprovalRequest) -> bool:
        seen.append("approval")
        return True

    def authorise(arguments, context) -> AuthorizationDecision:
        seen.append("authoriser")
        return AuthorizationDecision(True)

    class Seen(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append("logging")

    class NotedRetry(Retry):
        async def __call__(self, invocation, proceed):
            seen.append("retry")
            assert invocation.context.deadline is not None  # the timeout stands outside
            return await super().__call__(invocation, proceed)

    class NotedBreaker(CircuitBreaker):
        async def __call__(self, invocation, proceed):
            seen.append("breaker")
            assert invocation.context.deadline is not None
            return await super().__call__(invocation, proceed)

    class NotedLimit(RateLimit):
        async def __call__(self, invocation, proceed):
            seen.append("rate limit")
            return await super().__call__(invocation, proceed)

    logger = logging.getLogger("tellback.agent.middleware.logging")
    handler = Seen()
    logger.addHandler(handler)
    level, _ = logger.level, logger.setLevel(logging.DEBUG)
    try:
        policy = ToolPolicy(
            authorise=authorise,
            approval=approval_except(),
            approver=approver,
            breaker=NotedBreaker(),
            rate_limit=NotedLimit(1000),
            retry=NotedRetry(),
            middleware=[noting("user 1"), noting("user 2")],
        )
        assert await texts(policy, Scripted("fine"), timeout=600) == ["fine"]
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
    # The log's line is written when a call has ended, so it is the last.
    assert seen == [
        "authoriser",
        "approval",
        "breaker",
        "rate limit",
        "retry",
        "user 1",
        "user 2",
        "logging",
    ]


async def test_an_unknown_tool_and_broken_arguments_never_enter_the_chain() -> None:
    breaker = CircuitBreaker(1)
    work = Scripted()
    broken = ToolCallBlock(id="b", name="work", invalid="{")
    results = await texts(
        ToolPolicy(breaker=breaker, approval=approval_except()), work, calls=[call("nothing"), broken]
    )
    assert "there is no tool 'nothing'" in results[0]
    assert "not a JSON object" in results[1]
    assert not breaker.is_open("work")
    assert not breaker.is_open("nothing")


async def test_a_timed_out_tool_call_is_logged_as_failed(caplog) -> None:
    with caplog.at_level(logging.INFO, logger="tellback.agent"):
        await texts(ToolPolicy(), Scripted(asyncio.Event()), timeout=0.01)
    assert "failed" in caplog.text
    assert "ToolTimedOut" in caplog.text


async def test_the_log_names_calls_and_shows_no_arguments(caplog) -> None:
    @tool
    async def keep(secret: str) -> str:
        """Keep it."""
        raise ToolFailed("no room for it")

    with caplog.at_level(logging.DEBUG, logger="tellback.agent"):
        await texts(ToolPolicy(), keep, calls=[call("keep", secret="hunter2")])
    assert "tool keep" in caplog.text
    assert "hunter2" not in caplog.text


# Authoriser and approval


async def test_an_unauthorised_tool_call_fails_with_the_reason_and_no_approval_request() -> None:
    work = Scripted(authorise=lambda arguments, context: AuthorizationDecision(False, "only on weekdays"))
    asked: list[ApprovalRequest] = []

    async def approver(request: ApprovalRequest) -> bool:
        asked.append(request)
        return True

    (result,) = await texts(ToolPolicy(approval=approval_except(), approver=approver), work)
    assert "only on weekdays" in result
    assert (asked, work.entered) == ([], 0)


async def test_an_authoriser_sees_arguments_and_context_and_may_be_asynchronous() -> None:
    async def authorise(arguments, context) -> AuthorizationDecision:
        return AuthorizationDecision(arguments["path"].startswith("mine/") and context.agent == "ada")

    @tool(authorise=authorise)
    def show(path: str) -> str:
        """Show it."""
        return path

    results = await texts(ToolPolicy(), show, calls=[call("show", path="mine/a"), call("show", path="theirs")])
    assert results[0] == "mine/a"
    assert "not allowed" in results[1]


async def test_a_failing_authoriser_blocks_the_tool_call() -> None:
    work = Scripted(authorise=lambda arguments, context: 1 / 0)
    assert "ZeroDivisionError" in (await texts(ToolPolicy(), work))[0]
    odd = Scripted(authorise=lambda arguments, context: True)
    assert "AuthorizationDecision" in (await texts(ToolPolicy(), odd))[0]
    assert work.entered == odd.entered == 0


async def answer_with(status: ApprovalStatus, reason: str = ""):
    async def approver(request: ApprovalRequest) -> ApprovalDecision:
        return ApprovalDecision(status, reason)

    work = Scripted(needs_approval=True)
    (result,) = await texts(ToolPolicy(approver=approver), work)
    return result, work.entered


async def test_each_approval_status_gives_its_own_tool_result() -> None:
    assert await answer_with(ApprovalStatus.APPROVED) == ("done", 1)
    result, entered = await answer_with(ApprovalStatus.REJECTED, "too late")
    assert ("did not approve" in result, "too late" in result, entered) == (True, True, 0)
    result, entered = await answer_with(ApprovalStatus.UNAVAILABLE)
    assert ("nobody can be asked" in result, entered) == (True, 0)


async def test_a_failing_approver_blocks_the_tool_call() -> None:
    async def approver(request: ApprovalRequest) -> bool:
        raise OSError("the terminal is gone")

    work = Scripted(needs_approval=True)
    (result,) = await texts(ToolPolicy(approver=approver), work)
    assert ("terminal is gone" in result, work.entered) == (True, 0)


async def test_an_approval_timeout_blocks_the_tool_call() -> None:
    async def approver(request: ApprovalRequest) -> bool:
        await asyncio.sleep(600)
        return True

    work = Scripted(needs_approval=True)
    (result,) = await texts(ToolPolicy(approver=approver, approval_timeout=0.02), work)
    assert ("nobody answered in time" in result, work.entered) == (True, 0)


async def test_a_pending_approval_does_not_count_towards_the_tool_timeout() -> None:
    async def approver(request: ApprovalRequest) -> bool:
        time_passes()
        await asyncio.sleep(0.01)  # longer than every limit that was set before
        return True

    policy = ToolPolicy(approval=approval_except(), approver=approver, approval_timeout=None)
    assert await texts(policy, Scripted(), timeout=DEADLINE) == ["done"]


async def test_a_pending_approval_takes_no_slot_of_the_parallel_calls() -> None:
    answered = asyncio.Event()

    async def approver(request: ApprovalRequest) -> bool:
        await answered.wait()
        return True

    @tool
    async def settle() -> str:
        """Answer the request of the other call."""
        answered.set()
        return "settled"

    async with asyncio.timeout(60):
        results = await texts(ToolPolicy(approver=approver), Scripted(needs_approval=True), settle, parallel=1)
    assert results == ["done", "settled"]


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        (approval_as_annotated, ["danger"]),
        (approval_except(), ["plain", "danger"]),
        (approval_never, []),
        (approval_except("danger"), ["plain"]),
        (lambda call, flagged: call.name.startswith("p"), ["plain"]),
    ],
)
async def test_the_approval_policy_decides_which_calls_need_approval(policy, asked: list[str]) -> None:
    seen: list[str] = []

    async def approver(request: ApprovalRequest) -> bool:
        seen.append(request.call.name)
        return True

    tools = (Scripted(name="plain"), Scripted(name="danger", needs_approval=True))
    assert await texts(ToolPolicy(approval=policy, approver=approver), *tools) == ["done", "done"]
    assert sorted(seen) == sorted(asked)
    assert ToolExecutor(Toolset(tools), policy=ToolPolicy(approval=policy)).needing_approval() == asked


async def test_an_approval_request_without_an_approver_is_an_event_that_a_reader_can_reject() -> None:
    events: list[object] = []

    def emit(event) -> None:
        events.append(event)
        if isinstance(event, ApprovalRequested):
            asyncio.get_running_loop().call_later(0.01, event.request.reject, "not now")

    scope = RunScope(emit=emit, streams=True)
    (result,) = await texts(ToolPolicy(), Scripted(needs_approval=True), scope=scope)
    assert "not now" in result
    assert [type(event) for event in events] == [ApprovalRequested, ApprovalDecided]
    assert events[0].request.description == "Work."
    assert events[1].decision == ApprovalDecision(ApprovalStatus.REJECTED, "not now")


async def test_only_the_first_decision_of_an_approval_request_counts_even_from_another_thread() -> None:
    request = ApprovalRequest(call("work"))
    await asyncio.to_thread(request.approve)
    request.reject("changed my mind")
    assert (await request.decided()).status is ApprovalStatus.APPROVED


# Timeout


async def test_the_timeout_of_a_tool_overrides_the_default_tool_timeout() -> None:
    never = asyncio.Event()
    slow, quick = Scripted(never, name="slow", timeout=0.02), Scripted(never, name="quick")
    results = await texts(ToolPolicy(), slow, timeout=60)
    assert results == ["no answer within 0.02 s; it was given up"]
    assert (await texts(ToolPolicy(), quick, timeout=0.03))[0].startswith("no answer within 0.03 s")


# Circuit breaker


async def test_the_circuit_opens_after_repeated_failures_and_probes_after_its_reset_timeout() -> None:
    clock, opened = Clock(), []
    breaker = CircuitBreaker(2, reset_timeout=10, timer=clock)
    work = Scripted(OSError("1"), OSError("2"), OSError("3"), "fine")
    scope = RunScope(hooks=HookDispatcher([Hooks(circuit_opened=lambda moment: opened.append(moment.value))]))
    policy = ToolPolicy(breaker=breaker)

    async def once() -> str:
        return (await texts(policy, work, scope=scope))[0]

    assert "OSError" in await once()
    assert "OSError" in await once()
    assert "failed 2 times in a row and rests for 10 s" in await once()
    assert work.entered == 2
    clock.now = 10.0
    assert "OSError: 3" in await once()  # the one probe fails: it rests again
    clock.now = 19.9
    assert "rests" in await once()
    clock.now = 20.0
    assert await once() == "fine"
    assert await once() == "done"
    assert opened == ["work", "work"]


async def test_a_success_resets_the_failure_count_of_a_circuit() -> None:
    breaker = CircuitBreaker(2)
    work = Scripted(OSError(), "fine", OSError(), "fine")
    for _ in range(4):
        await texts(ToolPolicy(breaker=breaker), work)
    assert not breaker.is_open("work")


async def test_tools_have_circuits_of_their_own() -> None:
    breaker = CircuitBreaker(1)
    results = await texts(ToolPolicy(breaker=breaker), Scripted(OSError(), name="bad"), Scripted(name="good"))
    assert results[1] == "done"
    assert (breaker.is_open("bad"), breaker.is_open("good")) == (True, False)


async def test_only_one_of_many_concurrent_calls_probes_an_open_circuit() -> None:
    clock, gate = Clock(), asyncio.Event()
    breaker = CircuitBreaker(1, reset_timeout=1, timer=clock)
    work = Scripted(OSError(), gate)
    policy = ToolPolicy(breaker=breaker)
    await texts(policy, work)
    clock.now = 5.0
    fifty = [call("work") for _ in range(50)]
    running = asyncio.create_task(texts(policy, work, calls=fifty, parallel=50))
    await work.has_entered(2)
    for _ in range(20):
        await asyncio.sleep(0)
    gate.set()
    results = await running
    assert work.entered == 2
    assert results.count("late") == 1
    assert sum("rests" in item for item in results) == 49
    assert not breaker.is_open("work")


async def test_a_late_success_of_an_earlier_call_does_not_close_an_open_circuit() -> None:
    clock, gate = Clock(), asyncio.Event()
    breaker = CircuitBreaker(1, reset_timeout=100, timer=clock)
    policy = ToolPolicy(breaker=breaker)
    work = Scripted(gate, OSError())
    old = asyncio.create_task(texts(policy, work))
    await work.has_entered(1)
    await texts(policy, work)
    assert breaker.is_open("work")
    gate.set()
    assert await old == ["late"]
    assert breaker.is_open("work")


async def test_a_timeout_counts_as_a_failure_and_a_cancellation_does_not() -> None:
    breaker = CircuitBreaker(1)
    never = asyncio.Event()
    work = Scripted(never)
    task = asyncio.create_task(texts(ToolPolicy(breaker=breaker), work, timeout=600))
    await work.has_entered(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not breaker.is_open("work")
    await texts(ToolPolicy(breaker=breaker), Scripted(never), timeout=0.01)
    assert breaker.is_open("work")


async def test_a_cancelled_circuit_probe_lets_the_next_call_probe() -> None:
    clock = Clock()
    breaker = CircuitBreaker(1, reset_timeout=1, timer=clock)
    policy = ToolPolicy(breaker=breaker)
    work = Scripted(OSError(), asyncio.Event(), "fine")
    await texts(policy, work)
    clock.now = 2.0
    probe = asyncio.create_task(texts(policy, work))
    await work.has_entered(2)
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert breaker.is_open("work")
    assert await texts(policy, work) == ["fine"]


@pytest.mark.parametrize("error", [ToolFailed("no such city"), StopRun("enough")])
async def test_errors_unrelated_to_the_tool_do_not_open_its_circuit(error: Exception) -> None:
    breaker = CircuitBreaker(1)
    await texts(ToolPolicy(breaker=breaker), Scripted(error))
    assert not breaker.is_open("work")


async def test_a_rate_limit_error_neither_counts_nor_resets_the_failures_of_a_circuit() -> None:
    breaker = CircuitBreaker(2)
    work = Scripted(OSError(), RateLimited("too fast"), OSError())
    for _ in range(3):
        await texts(ToolPolicy(breaker=breaker), work)
    assert breaker.is_open("work")


async def test_a_transient_tool_failure_counts_as_a_circuit_failure() -> None:
    breaker = CircuitBreaker(1)
    await texts(ToolPolicy(breaker=breaker), Scripted(ToolFailed("busy", transient=True)))
    assert breaker.is_open("work")


# Rate limit


async def test_calls_beyond_the_burst_wait_their_turn_in_order() -> None:
    order: list[int] = []

    @tool
    async def note(number: int) -> str:
        """Note it."""
        order.append(number)
        return ""

    limit = RateLimit(100, burst=2)
    began = asyncio.get_running_loop().time()
    await texts(ToolPolicy(rate_limit=limit), note, calls=[call("note", number=n) for n in range(6)])
    assert order == list(range(6))
    assert asyncio.get_running_loop().time() - began >= 0.039  # a lower bound: 4 turns of 10 ms


async def test_a_new_call_does_not_overtake_calls_waiting_at_the_rate_limit() -> None:
    order: list[int] = []
    begun = asyncio.Event()

    @tool
    async def note(number: int) -> str:
        """Note it."""
        order.append(number)
        begun.set()
        return ""

    policy = ToolPolicy(rate_limit=RateLimit(0.01))
    waiting = asyncio.create_task(texts(policy, note, calls=[call("note", number=n) for n in range(3)]))
    await begun.wait()
    time_passes()
    await texts(policy, note, calls=[call("note", number=3)])
    await waiting
    assert order == [0, 1, 2, 3]


async def test_a_rate_limit_wait_beyond_the_timeout_fails_immediately_and_opens_no_circuit() -> None:
    breaker = CircuitBreaker(1)
    policy = ToolPolicy(rate_limit=RateLimit(0.01), breaker=breaker)
    work = Scripted()
    async with asyncio.timeout(60):
        results = await texts(policy, work, calls=[call("work"), call("work")], timeout=30)
    assert results[0] == "done"
    assert "the next turn is" in results[1]
    assert not breaker.is_open("work")
    assert work.entered == 1


async def test_a_refused_call_uses_no_slot_of_the_rate_limit() -> None:
    clock = Clock()
    limit = RateLimit(1, timer=clock)
    assert limit._take_turn("a", None) == 0
    with pytest.raises(RateLimited):
        limit._take_turn("a", 0.5)
    assert limit._take_turn("a", 1.5) == 1


async def test_rate_limit_buckets_are_per_tool_or_shared() -> None:
    clock = Clock()
    own, shared = RateLimit(1, timer=clock), RateLimit(1, shared=True, timer=clock)
    policy = {limit: ToolPolicy(rate_limit=limit) for limit in (own, shared)}
    for limit, waits in ((own, 0.0), (shared, 1.0)):
        assert limit._take_turn("" if limit is shared else "a", None) == 0
        assert limit._take_turn("" if limit is shared else "b", None) == waits
    assert len(policy) == 2


# Retry


def retry(**options) -> tuple[Retry, list[float]]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return Retry(**{"sleep": sleep, "rng": lambda: 0.0, **options}), waits


async def test_an_idempotent_tool_is_called_again_with_doubling_waits() -> None:
    link, waits = retry(attempts=4, first=1.0, longest=3.0)
    work = Scripted(OSError(), OSError(), OSError(), idempotent=True)
    assert await texts(ToolPolicy(retry=link), work) == ["done"]
    assert waits == [1.0, 2.0, 3.0]


async def test_a_tool_that_is_not_idempotent_is_called_once() -> None:
    link, waits = retry()
    work = Scripted(OSError("disk"))
    assert "OSError: disk" in (await texts(ToolPolicy(retry=link), work))[0]
    assert (waits, work.entered) == ([], 1)


async def test_a_tool_failed_error_is_retried_only_if_transient() -> None:
    link, waits = retry()
    work = Scripted(ToolFailed("no such city"), idempotent=True)
    assert await texts(ToolPolicy(retry=link), work) == ["no such city"]
    busy = Scripted(ToolFailed("busy", transient=True, retry_after=99.0), idempotent=True)
    assert await texts(ToolPolicy(retry=link), busy) == ["done"]
    assert waits == [10.0]  # what is asked for is capped


async def test_the_last_error_is_reported_when_the_tool_retries_are_used_up() -> None:
    link, _ = retry(attempts=2)
    work = Scripted(OSError("first"), OSError("last"), idempotent=True)
    assert "OSError: last" in (await texts(ToolPolicy(retry=link), work))[0]


async def test_a_tool_is_not_retried_if_the_wait_would_pass_the_deadline() -> None:
    link, waits = retry(first=100.0, longest=100.0)
    work = Scripted(OSError("busy"), idempotent=True)
    assert "busy" in (await texts(ToolPolicy(retry=link), work, timeout=60))[0]
    assert waits == []


async def test_jitter_shortens_a_capped_retry_wait_and_the_wait_can_be_cancelled() -> None:
    link, waits = retry(first=100.0, longest=8.0, rng=lambda: 1.0)
    await texts(ToolPolicy(retry=link), Scripted(OSError(), idempotent=True))
    assert waits == [6.0]
    work = Scripted(OSError("real"), idempotent=True)
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.sleep(seconds)

    task = asyncio.create_task(texts(ToolPolicy(retry=Retry(first=600.0, longest=600.0, sleep=sleep)), work))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# User middleware


async def test_tool_middleware_can_answer_rewrite_or_refuse_a_call() -> None:
    async def answer(invocation: ToolInvocation, proceed):
        return "answered" if invocation.call.name == "a" else await proceed(invocation)

    async def upper(invocation: ToolInvocation, proceed):
        return (await proceed(invocation)).upper()

    async def refuse(invocation: ToolInvocation, proceed):
        if invocation.call.name == "c":
            raise ToolFailed("not today")
        return await proceed(invocation)

    tools = [Scripted(name=name) for name in "abc"]
    results = await texts(ToolPolicy(middleware=[answer, upper, refuse]), *tools)
    assert results == ["answered", "DONE", "not today"]
    assert [item.entered for item in tools] == [0, 1, 0]


async def test_an_error_in_tool_middleware_fails_only_its_own_call() -> None:
    async def broken(invocation: ToolInvocation, proceed):
        if invocation.call.name == "a":
            raise KeyError("oops")
        return await proceed(invocation)

    breaker = CircuitBreaker(1)
    results = await texts(ToolPolicy(middleware=[broken], breaker=breaker), Scripted(name="a"), Scripted(name="b"))
    assert "KeyError" in results[0]
    assert results[1] == "done"


async def test_a_tool_result_of_a_wrong_type_is_a_failed_call() -> None:
    class Odd(Scripted):
        async def call(self, arguments, context):
            return None

    assert "TypeError" in (await texts(ToolPolicy(), Odd()))[0]


# Facets and bad options


def test_a_tool_has_the_annotations_it_was_made_with() -> None:
    assert annotations_of(Scripted(needs_approval=True, skip_synthesis=True, idempotent=True)) == ToolAnnotations(
        True, None, True, True
    )
    assert annotations_of(object()) == ToolAnnotations()


async def test_results_are_the_answer_only_if_every_called_tool_skips_synthesis_and_succeeded() -> None:
    skip, plain = Scripted(name="skip", skip_synthesis=True), Scripted(name="plain")
    bad = Scripted(OSError(), name="bad", skip_synthesis=True)
    dispatcher = ToolExecutor(Toolset([skip, plain, bad]))

    async def answers(*names: str) -> bool:
        return (await dispatcher.run([call(name) for name in names], ToolContext())).answers

    assert await answers("skip", "skip")
    for names in (("skip", "plain"), ("skip", "unknown"), ("unknown",), ("skip", "bad"), ("plain",)):
        assert not await answers(*names)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CircuitBreaker(0),
        lambda: CircuitBreaker(True),
        lambda: CircuitBreaker(reset_timeout=0),
        lambda: RateLimit(0),
        lambda: RateLimit(float("inf")),
        lambda: RateLimit(1, burst=0),
        lambda: Retry(0),
        lambda: Retry(first=-1),
        lambda: Retry(longest=float("nan")),
        lambda: ToolPolicy(approval_timeout=0),
        lambda: ToolPolicy(approval="all"),
        lambda: approval_except(" "),
        lambda: ToolAnnotations(needs_approval=1),
        lambda: ToolAnnotations(authorise="yes"),
        lambda: ApprovalDecision("approved please"),
    ],
)
def test_invalid_options_are_refused(make) -> None:
    with pytest.raises(ArgumentError):
        make()


def test_a_circuit_open_error_carries_retry_after() -> None:
    assert CircuitOpen("look", 5, 3.0).retry_after == 3.0


# Around a run


class Editor(RunMiddleware):
    """Puts *sign* before prompt and answer, or refuses with *refused* in *refusing*."""

    def __init__(self, sign: str = "", refusing: str = "") -> None:
        self.sign, self.refusing = sign, refusing

    async def before(self, prompt: Message, context: ToolContext) -> Message:
        if self.refusing == "before":
            raise RequestRefused("Not today.")
        return Message.user(self.sign + prompt.text)

    async def after(self, result, context) -> str:
        if self.refusing == "after":
            raise RequestRefused("I would rather not say.")
        return self.sign + result.text


async def said(memory: LongTermMemory) -> list[tuple[str, str]]:
    return [(item.message.role, item.message.text) for item in await memory.conversations.load("s")]


async def test_a_run_that_is_refused_before_reads_nothing_asks_nobody_and_keeps_nothing(memory) -> None:
    await memory.remember("The shed is green.")
    with ScriptedProvider() as provider:
        agent = Agent(provider, memory=memory, run_middleware=[Editor("a"), Editor(refusing="before")])
        result = await agent.run("Which colour has the shed?", session="s")
        assert provider.requests == []
    assert (result.text, result.ending) == ("Not today.", Ending.REFUSAL)
    assert result.memory_accesses == ()
    assert await said(memory) == []
    assert agent.unsaved == 0


async def test_run_middleware_changes_prompt_and_answer_the_first_one_outermost(memory) -> None:
    with ScriptedProvider(Reply("green")) as provider:
        agent = Agent(provider, memory=memory, run_middleware=[Editor("a "), Editor("b ")])
        events = [event async for event in agent.stream("shed?", session="s")]
    assert provider.requests[0].grounding.question == "b a shed?"
    assert events[-1].result.text == "a b green"
    assert await said(memory) == [("user", "b a shed?"), ("assistant", "a b green")]
    shown = [event for event in events if isinstance(event, (TextDelta, TextWithdrawn))]
    assert isinstance(shown[-2], TextWithdrawn)
    assert shown[-1].text == "a b green"


async def test_an_answer_that_is_refused_is_neither_returned_nor_kept(memory) -> None:
    with ScriptedProvider(Reply("the code is 1234")) as provider:
        agent = Agent(provider, memory=memory, run_middleware=[Editor(refusing="after")])
        result = await agent.run("Which code?", session="s")
    assert (result.text, result.ending) == ("I would rather not say.", Ending.REFUSAL)
    assert await said(memory) == [("user", "Which code?"), ("assistant", "I would rather not say.")]


async def test_a_changed_answer_of_a_wanted_type_is_read_again_and_must_fit(memory) -> None:
    with ScriptedProvider(*[Reply('{"answer": [1]}')] * 2) as provider:
        agent = Agent(provider, run_middleware=[Editor(" ")])
        assert (await agent.run("?", result_type=list[int])).output == [1]
        with pytest.raises(ArgumentError, match="JSON of the wanted type"):
            await Agent(provider, run_middleware=[Editor("x")]).run("?", result_type=list[int])


@pytest.mark.parametrize("at", ["before", "after"])
async def test_the_deadline_of_a_run_bounds_its_middleware(at: str) -> None:
    async def waits(self, value, context):
        await asyncio.Event().wait()

    middleware = type("Waits", (RunMiddleware,), {at: waits})()
    agent = Agent(ScriptedProvider(Reply("x")), run_middleware=[middleware], settings=AgentSettings(deadline=0.05))
    with pytest.raises(DeadlinePassed):
        await agent.run("?")


async def test_the_prompt_that_middleware_makes_keeps_the_trust_of_the_one_it_was_given() -> None:
    with ScriptedProvider(Reply("x")) as provider:
        inner = Agent(provider, run_middleware=[Editor("a ")])
        context = ToolContext(trust="document")
        events = [event async for event in inner.stream("task", within=context)]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].result.trust == "document"
