"""Whatever a history holds, each provider is sent a conversation that it takes: roles, calls and results in order.

Inner parts, on no face: ``tellback.agent.context.assembly``, ``tellback.agent.context.memory_reader``,
``tellback.agent.context_items``, ``tellback.agent.providers``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.agent import Request
from tellback.agent.context.assembly import ContextSources, assemble_context
from tellback.agent.context.memory_reader import GatheredContext, SessionHistory
from tellback.agent.context_items import ContextItem
from tellback.agent.providers import anthropic
from tellback.agent.providers import ollama as ollama_request
from tellback.agent.providers import openai as openai_request
from tellback.memory import (
    EstimatingCounter,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)

PICTURE = ImageBlock(media_type="image/png", data=b"png")
IDS = st.sampled_from(["a", "b", "c"])
TEXT = st.sampled_from(["", "Hello.", "A longer thing to say."])


def _assistant(text: str, ids: list[str], thinks: bool) -> Message:
    thoughts = [ThinkingBlock(text="hm", signature="s")] if thinks else []
    calls = [ToolCallBlock(id=id, name="look") for id in ids]
    return Message.assistant([*thoughts, *([TextBlock(text=text)] if text else []), *calls])


def _results(ids: list[str], pictured: bool) -> Message:
    content = (TextBlock(text="seen"), *([PICTURE] if pictured else []))
    return Message.tool([ToolResultBlock(call_id=id, name="look", content=content) for id in ids])


MESSAGE = st.one_of(
    st.builds(Message.user, TEXT),
    st.builds(Message.system, st.just("Be kind.")),
    st.builds(_assistant, TEXT, st.lists(IDS, max_size=2, unique=True), st.booleans()),
    st.builds(_results, st.lists(IDS, min_size=1, max_size=2, unique=True), st.booleans()),
)
"""Any message in any place: also what no run of ours has stored, such as results without their calls."""
CASE = st.tuples(st.lists(MESSAGE, max_size=10), st.sampled_from([None, 60, 150, 400]), st.booleans())


def request_of(history: list[Message], budget: int | None, recalls: bool) -> Request:
    items = (ContextItem(1, "m1", "I live in Porto.", score=1.0),) if recalls else ()
    kept = tuple(message.model_copy() for message in history)
    gathered = GatheredContext(SessionHistory(kept, tuple(range(len(kept)))), pinned=items, recalled=items)
    given = ContextSources(Message.user("Where do I live?"), gathered, system="Be brief.", rules=recalls)
    assembled = assemble_context(given, budget=budget, counter=EstimatingCounter())
    return Request(assembled.messages, system=assembled.system)


@given(CASE)
def test_messages_alternate_and_every_call_has_its_results_and_only_those(case) -> None:
    messages = [message for message in request_of(*case).messages if message.role != "system"]
    assert (messages[0].role, messages[-1].role) == ("user", "user")
    for before, after in pairwise(messages):
        assert before.role != after.role
        assert (after.role == "tool") is bool(before.tool_calls)
        assert before.role == "assistant" or after.role != "tool"
        called = {call.id for call in before.tool_calls}
        assert called == {result.call_id for result in after.tool_results}
    assert messages[-1].blocks[-1].text == "Where do I live?"


def openai(request: Request) -> list[dict[str, Any]]:
    body = openai_request.openai_payload(request, "m", server=None, limit_field="max_tokens", reasoning_field=None)
    return body["messages"]


def ollama(request: Request) -> list[dict[str, Any]]:
    return ollama_request.ollama_payload(request, "m")["messages"]


@pytest.mark.parametrize("sent", [openai, ollama])
@given(case=CASE)
def test_openai_and_ollama_messages_satisfy_a_strict_chat_template(sent, case) -> None:
    messages = sent(request_of(*case))
    roles = [item["role"] for item in messages]
    assert roles.count("system") == 1
    assert roles[0] == "system"
    assert roles[1] == roles[-1] == "user"
    owed: list[str] = []
    for before, after in pairwise(messages[1:]):
        assert not (before["role"] == after["role"] and after["role"] in ("user", "assistant"))
        if before["role"] == "assistant":
            owed = [item.get("id", "") for item in before.get("tool_calls", [])]
        if after["role"] == "tool":
            assert owed, "a result without its call"
            owed.remove(after.get("tool_call_id", ""))
        else:
            assert owed == [], "a call without its result"


@given(CASE)
def test_the_messages_of_anthropic_alternate(case) -> None:
    body = anthropic.anthropic_payload(request_of(*case), "m", max_tokens=9, cache=False)
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
    owed: set[str] = set()
    for message in body["messages"]:
        kinds = [part["type"] for part in message["content"]]
        answered = {part["tool_use_id"] for part in message["content"] if part["type"] == "tool_result"}
        assert answered == owed
        assert kinds[: len(answered)].count("tool_result") == len(answered), "results stand first"
        owed = {part["id"] for part in message["content"] if part["type"] == "tool_use"}
    assert owed == set()


def test_joined_messages_have_the_lowest_trust_of_their_parts() -> None:
    low = Message.assistant("Two.").model_copy(update={"metadata": {"trust": "document"}})
    history = [Message.user("One?"), Message.assistant("One."), low]
    joined = request_of(history, None, False).messages[1]
    assert joined.text == "One.\nTwo."
    assert joined.metadata["trust"] == "document"
