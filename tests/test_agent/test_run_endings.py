"""Endings of a run beside those of the plain loop: limits, overflow, result types, refusal, and results as answers.

Inner parts, on no face: ``tellback.agent.errors``, ``tellback.agent.providers.base``,
``tellback.agent.structured_output``, ``tellback.agent.usage``.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from pydantic import BaseModel, Field

from tellback.agent import (
    Agent,
    AgentSettings,
    ArgumentError,
    DeadlinePassed,
    Ending,
    ModelSettings,
    OpenAICompatibleProvider,
    Prices,
    ProviderFailed,
    RequestRefused,
    RunEnded,
    RunLimits,
    StopPiece,
    StopReason,
    StopRun,
    TextPiece,
    Unsupported,
    Usage,
    WarningIssued,
    tool,
)
from tellback.agent.errors import ContextOverflow, InvalidOutput, LimitReached, RunAborted, WindowExceeded
from tellback.agent.providers.base import Capabilities
from tellback.agent.testing import OpenAIServer, Reply, ScriptedProvider, call
from tellback.agent.usage import UsageLedger
from tellback.memory import InMemoryHistory, Message, ThinkingBlock, ToolCallBlock

pytestmark = pytest.mark.anyio


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def again(number: int, text: str = "") -> Reply:
    return Reply(text, calls=tuple(call("add", a=1, b=item) for item in range(number)))


# Limits


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (RunLimits(calls=2), "2 calls"),
        (RunLimits(tokens=30), "30 tokens"),
        (RunLimits(cost=0.0002), "cost"),
    ],
)
async def test_a_limit_ends_the_run_before_the_next_call_and_the_turn_is_kept(limits: RunLimits, words: str) -> None:
    history = InMemoryHistory()
    with ScriptedProvider(again(1, "one"), again(1, "two")) as provider:
        agent = Agent(
            provider, tools=[add], history=history, settings=AgentSettings(limits=limits, prices=Prices(10, 0))
        )
        with pytest.raises(LimitReached, match=words) as caught:
            await agent.run("?", session="s")
    result = caught.value.result
    assert (result.ending, result.text, result.calls) == (Ending.LIMIT, "two", 2)
    kept = [item.message.role for item in await history.load("s")]
    assert kept == ["user", "assistant", "tool", "assistant", "tool"]


async def test_the_result_has_a_cost_only_with_known_prices() -> None:
    usage = Usage(input=1_000_000, output=100_000, cache_read=400_000, cache_write=100_000)
    prices = Prices(input=2, output=10, cache_read=0.5, cache_write=3)
    for given, cost in ((prices, 0.5 * 2 + 0.4 * 0.5 + 0.1 * 3 + 0.1 * 10), (None, None)):
        result = await Agent(ScriptedProvider(Reply("hi", usage=usage)), settings=AgentSettings(prices=given)).run("?")
        assert result.cost == (pytest.approx(cost) if cost is not None else None)


@pytest.mark.parametrize(
    ("model", "budget", "exact"), [("gpt-4", 500, True), ("llama3.2:3b", 500, False), ("gpt-4", None, None)]
)
async def test_the_result_says_whether_the_token_budget_was_counted_exactly(
    model: str, budget: int | None, exact: bool | None
) -> None:
    with OpenAIServer(Reply("hi")) as server:
        provider = OpenAICompatibleProvider(server.url, model)
        async with Agent(provider, settings=AgentSettings(token_budget=budget)) as agent:
            assert (await agent.run("?")).tokens_exact is exact


def test_usage_of_a_child_ledger_counts_once_in_its_parent() -> None:
    top = UsageLedger(RunLimits(tokens=20), prices=Prices(1_000_000, 0))
    inner = UsageLedger(parent=top)
    inner.call()
    inner.spend(Usage(input=15))
    assert (top.usage.total, top.calls, top.cost, inner.passed()) == (15, 1, 15.0, "")
    top.spend(Usage(input=5))
    assert "20 tokens" in inner.passed()


@pytest.mark.parametrize(
    "make",
    [
        lambda: RunLimits(calls=0),
        lambda: RunLimits(tokens=1.5),
        lambda: RunLimits(cost=0),
        lambda: Prices(-1, 0),
        lambda: Agent(ScriptedProvider(), settings=AgentSettings(limits=RunLimits(cost=1))),
        lambda: Agent(ScriptedProvider(), settings=AgentSettings(repairs=-1)),
    ],
)
def test_invalid_limits_are_refused(make) -> None:
    with pytest.raises(ArgumentError):
        make()


# The window of the model


def overflow() -> Reply:
    return Reply(error=ContextOverflow("too many tokens"))


async def test_a_context_overflow_is_retried_once_with_a_shorter_context() -> None:
    history = InMemoryHistory()
    items = [
        Message.user("old " * 400),
        Message.assistant("yes " * 400),
        Message.user("newer"),
        Message.assistant("so"),
    ]
    await history.append("s", items)
    with ScriptedProvider(overflow(), Reply("fine")) as provider:
        agent = Agent(provider, history=history, settings=AgentSettings(token_budget=None))
        events = [event async for event in agent.stream("now?", session="s")]
    first, second = provider.requests
    assert [message.text[:5] for message in first.messages] == ["old o", "yes y", "newer", "so", "now?"]
    assert [message.text for message in second.messages] == ["newer", "so", "now?"]
    assert any(isinstance(event, WarningIssued) and "shorter" in event.text for event in events)
    assert events[-1].result.ending is Ending.FINAL


async def test_a_second_context_overflow_ends_the_run_with_window_exceeded() -> None:
    history = InMemoryHistory()
    await history.append("s", [Message.user("old " * 400), Message.assistant("yes " * 400)])
    with ScriptedProvider(overflow(), overflow()) as provider, pytest.raises(WindowExceeded) as caught:
        await Agent(provider, history=history).run("now?", session="s")
    assert caught.value.result.ending is Ending.CONTEXT_OVERFLOW
    assert isinstance(caught.value.__cause__, ContextOverflow)
    assert len(await history.load("s")) == 2


async def test_a_context_overflow_within_an_answer_ends_the_run_with_the_partial_text() -> None:
    half = Reply("Half an", error=ContextOverflow("too many tokens"))
    with ScriptedProvider(half) as provider, pytest.raises(WindowExceeded) as caught:
        await Agent(provider).run("now?")
    assert caught.value.result.text == "Half an"


async def test_the_deadline_reaches_the_reading_of_memory() -> None:
    class Slow:
        async def retrieve(self, question: str, k: int = 5):
            await asyncio.sleep(600)

    with pytest.raises(DeadlinePassed, match="memory was being read"):
        await Agent(ScriptedProvider(), knowledge=Slow(), settings=AgentSettings(deadline=0.05)).run("?")


async def test_a_providers_own_timeout_is_no_deadline() -> None:
    class Late:
        async def stream(self, request):
            raise TimeoutError("upstream")
            yield

    with pytest.raises(ProviderFailed, match="upstream"):
        await Agent(Late(), settings=AgentSettings(deadline=60)).run("?")


async def test_a_context_overflow_without_removable_items_is_not_retried() -> None:
    with ScriptedProvider(overflow()) as provider, pytest.raises(WindowExceeded):
        await Agent(provider).run("now?")


# Result types


class City(BaseModel):
    """A city."""

    name: str
    people: int = Field(default=0, ge=0)


class Able(ScriptedProvider):
    """A scripted provider with declared capabilities."""

    def __init__(self, *replies: Reply, capabilities: Capabilities) -> None:
        super().__init__(*replies)
        self.capabilities = capabilities


TOOLS_ONLY = Capabilities(Capabilities().settings - {"response_schema"})
NEITHER = Capabilities(TOOLS_ONLY.settings, tools=False)
LISBON = '{"name": "Lisbon", "people": 500000}'


async def test_a_result_type_uses_the_response_schema_of_a_capable_provider() -> None:
    with Able(Reply(LISBON), capabilities=Capabilities()) as provider:
        result = await Agent(provider).run("Which city?", result_type=City)
    assert result.output == City(name="Lisbon", people=500_000)
    assert provider.requests[0].settings.response_schema == City.model_json_schema()


async def test_a_result_type_without_schema_support_uses_a_final_answer_tool() -> None:
    answer = call("final_answer", name="Lisbon", people=5)
    with Able(again(1), Reply(calls=(answer,)), capabilities=TOOLS_ONLY) as provider:
        history = InMemoryHistory()
        agent = Agent(provider, tools=[add], history=history)
        result = await agent.run("Which city?", session="s", result_type=City)
    assert result.output == City(name="Lisbon", people=5)
    assert [tool.name for tool in provider.requests[0].tools] == ["add", "final_answer"]
    assert provider.requests[0].tool_choice == "required"
    assert City.model_validate_json(result.text) == result.output
    last = (await history.load("s"))[-1].message
    assert (last.text, last.tool_calls) == (result.text, ())


async def test_a_result_type_without_schema_and_tool_support_is_requested_in_the_system_prompt() -> None:
    with Able(Reply(f"```json\n{LISBON}\n```"), capabilities=NEITHER) as provider:
        result = await Agent(provider, settings=AgentSettings(system="Be brief.")).run("Which city?", result_type=City)
    assert result.output.people == 500_000
    assert provider.requests[0].system.startswith("Be brief.\n\nAnswer with one JSON object")


@pytest.mark.parametrize("capabilities", [Capabilities(), TOOLS_ONLY, NEITHER])
@pytest.mark.parametrize("bad", ['{"name": 7}', "Lisbon, I think.", '{"name": "L", "people": -1}', "[]"])
async def test_an_invalid_output_is_repaired_and_leaves_no_message(capabilities, bad: str) -> None:
    with Able(Reply(bad), Reply(LISBON), capabilities=capabilities) as provider:
        result = await Agent(provider).run("Which city?", result_type=City)
    assert result.output.name == "Lisbon"
    assert [message.role for message in result.messages] == ["user", "assistant"]
    assert "the answer" in provider.requests[1].messages[-1].text


async def test_an_invalid_final_answer_call_is_repaired_with_an_error_result() -> None:
    wrong, right = call("final_answer", name=7), call("final_answer", name="Lisbon", people=1)
    with Able(Reply(calls=(wrong,)), Reply(calls=(right,)), capabilities=TOOLS_ONLY) as provider:
        result = await Agent(provider).run("Which city?", result_type=City)
    assert result.output.people == 1
    tool_result = provider.requests[1].messages[-1].tool_results[0]
    assert (tool_result.call_id, tool_result.is_error) == (wrong.id, True)
    assert "name" in tool_result.text


async def test_a_final_answer_call_beside_other_calls_is_rejected() -> None:
    both = (call("add", a=1, b=1), call("final_answer", name="Lisbon", people=1))
    with Able(Reply(calls=both), Reply(calls=both[1:]), capabilities=TOOLS_ONLY) as provider:
        result = await Agent(provider, tools=[add]).run("Which city?", result_type=City)
    assert result.output is not None
    assert result.tool_runs == ()
    assert all("alone" in tool_result.text for tool_result in provider.requests[1].messages[-1].tool_results)


async def test_repairs_have_a_bound_and_the_turn_is_kept() -> None:
    history = InMemoryHistory()
    provider = Able(Reply("no"), Reply("still no"), capabilities=Capabilities())
    with provider, pytest.raises(InvalidOutput, match="not JSON") as caught:
        await Agent(provider, history=history, settings=AgentSettings(repairs=1)).run(
            "?", session="s", result_type=City
        )
    assert caught.value.result.ending is Ending.INVALID_OUTPUT
    assert caught.value.result.text == "still no"
    assert [item.message.text for item in await history.load("s")] == ["?", "still no"]


async def test_an_output_cut_at_the_token_limit_raises_and_is_not_repaired() -> None:
    cut = Reply('{"name": "Lis', stop=StopReason.MAX_TOKENS)
    with Able(cut, capabilities=Capabilities()) as provider, pytest.raises(InvalidOutput, match="cut at the limit"):
        await Agent(provider).run("?", result_type=City)


async def test_a_refusal_with_a_result_type_ends_as_a_refusal() -> None:
    no = Reply("I cannot say.", stop=StopReason.REFUSAL)
    with Able(no, capabilities=Capabilities()) as provider:
        result = await Agent(provider).run("?", result_type=City)
    assert (result.ending, result.output) == (Ending.REFUSAL, None)


async def test_the_last_round_offers_the_answer_alone() -> None:
    answer = Reply(calls=(call("final_answer", name="Lisbon", people=1),))
    with Able(again(1), answer, capabilities=TOOLS_ONLY) as provider:
        agent = Agent(provider, tools=[add], settings=AgentSettings(max_rounds=2, last_round_answers=True))
        assert (await agent.run("?", result_type=City)).output is not None
    assert [tool.name for tool in provider.requests[1].tools] == ["final_answer"]


async def test_a_final_answer_call_with_invalid_json_is_repaired() -> None:
    broken = ToolCallBlock(id="x", name="final_answer", invalid='{"name": ')
    right = call("final_answer", name="Lisbon", people=1)
    with Able(Reply(calls=(broken,)), Reply(calls=(right,)), capabilities=TOOLS_ONLY) as provider:
        assert (await Agent(provider).run("?", result_type=City)).output is not None
    assert "not a JSON object" in provider.requests[1].messages[-1].tool_results[0].text


async def test_the_last_round_forbids_tools_with_a_response_schema() -> None:
    with Able(again(1), Reply(LISBON), capabilities=Capabilities()) as provider:
        agent = Agent(provider, tools=[add], settings=AgentSettings(max_rounds=2, last_round_answers=True))
        result = await agent.run("?", result_type=City)
    assert [request.tool_choice for request in provider.requests] == ["auto", "none"]
    assert (result.ending, result.output.name) == (Ending.LAST_ROUND, "Lisbon")


def test_a_result_type_that_json_cannot_describe_is_refused() -> None:
    for wanted in (ScriptedProvider, City(name="x"), "City", 4):
        with pytest.raises(ArgumentError, match="result_type"):
            Agent(ScriptedProvider()).stream("?", result_type=wanted)


# Middleware around the model


async def test_model_middleware_can_rewrite_the_request_and_the_reply() -> None:
    order: list[str] = []

    def marked(name: str):
        async def middleware(request, context, proceed):
            order.append(name)
            async for delta in proceed(replace(request, system=request.system + name)):
                yield TextPiece(delta.text.upper()) if isinstance(delta, TextPiece) else delta

        return middleware

    with ScriptedProvider(Reply("hello")) as provider:
        result = await Agent(
            provider, model_middleware=[marked("a"), marked("b")], settings=AgentSettings(system=":")
        ).run("?")
    assert (result.text, provider.requests[0].system, order) == ("HELLO", ":ab", ["a", "b"])


async def test_model_middleware_can_answer_without_the_provider() -> None:
    async def cached(request, context, proceed):
        yield TextPiece("from the cache")
        yield StopPiece(StopReason.STOP)

    with ScriptedProvider() as provider:
        result = await Agent(provider, model_middleware=[cached]).run("?")
    assert (result.text, result.ending) == ("from the cache", Ending.FINAL)


async def test_a_refusal_of_model_middleware_is_the_answer_and_stores_the_turn() -> None:
    async def refuse(request, context, proceed):
        raise RequestRefused("Not about that.")
        yield

    history = InMemoryHistory()
    result = await Agent(ScriptedProvider(), history=history, model_middleware=[refuse]).run("?", session="s")
    assert (result.text, result.ending) == ("Not about that.", Ending.REFUSAL)
    assert [item.message.text for item in await history.load("s")] == ["?", "Not about that."]


async def test_model_middleware_can_end_the_run_and_its_failure_is_a_provider_error() -> None:
    async def stop(request, context, proceed):
        raise StopRun("closed for today")
        yield

    async def broken(request, context, proceed):
        raise KeyError("oops")
        yield

    with pytest.raises(RunAborted, match="closed for today"):
        await Agent(ScriptedProvider(), model_middleware=[stop]).run("?")
    events = [event async for event in Agent(ScriptedProvider(), model_middleware=[broken]).stream("?")]
    assert isinstance(events[-1], RunEnded)
    assert events[-1].result.ending is Ending.PROVIDER_ERROR


# Results as answers, thinking, settings


async def test_tool_results_are_the_answer_if_every_called_tool_skips_synthesis() -> None:
    @tool(skip_synthesis=True)
    def table(name: str) -> str:
        """Return a table."""
        return f"| {name} |"

    history = InMemoryHistory()
    with ScriptedProvider(Reply("Here:", calls=(call("table", name="a"), call("table", name="b")))) as provider:
        result = await Agent(provider, tools=[table], history=history).run("?", session="s")
    assert (result.text, result.ending) == ("| a |\n\n| b |", Ending.FINAL)
    assert [item.message.role for item in await history.load("s")] == ["user", "assistant", "tool", "assistant"]


async def test_the_model_answers_if_a_call_is_unknown_or_failed_or_does_not_skip_synthesis() -> None:
    @tool(skip_synthesis=True)
    def table(rows: int) -> str:
        """Return a table."""
        return "|" * rows

    for calls in ((call("unknown"),), (call("table", rows="x"),), (call("table", rows=1), call("add", a=1, b=1))):
        with ScriptedProvider(Reply(calls=calls), Reply("spoken")) as provider:
            assert (await Agent(provider, tools=[table, add]).run("?")).text == "spoken"


async def test_thinking_goes_back_unchanged_and_is_not_kept() -> None:
    thought = Reply(thinking="hm", signature="sig", redacted=("opaque",), calls=(call("add", a=1, b=2),))
    history = InMemoryHistory()
    with ScriptedProvider(thought, Reply("3")) as provider:
        await Agent(provider, tools=[add], history=history).run("?", session="s")
    sent = provider.requests[1].messages[1].blocks
    assert sent[:2] == (ThinkingBlock(text="hm", signature="sig"), ThinkingBlock(redacted="opaque"))
    kept = [block for item in await history.load("s") for block in item.message.blocks]
    assert not any(isinstance(block, ThinkingBlock) for block in kept)


async def test_a_setting_that_the_provider_cannot_honour_is_refused_when_the_agent_is_made() -> None:
    with pytest.raises(Unsupported) as caught:
        Agent(Able(capabilities=TOOLS_ONLY), settings=AgentSettings(model_settings=ModelSettings(response_schema={})))
    assert caught.value.feature == "response_schema"
    with pytest.raises(Unsupported, match="tools"):
        Agent(Able(capabilities=NEITHER), tools=[add])


def test_usage_computes_the_cached_share_of_the_input() -> None:
    assert Usage(input=80, cache_read=60).cached_share == 0.75
    assert Usage().cached_share == 0.0


async def test_concurrent_runs_have_separate_usage() -> None:
    provider = ScriptedProvider(*(Reply("x", usage=Usage(input=7)) for _ in range(10)))
    agent = Agent(provider)
    results = await asyncio.gather(*(agent.run("?") for _ in range(10)))
    assert [(item.usage.input, item.calls) for item in results] == [(7, 1)] * 10
