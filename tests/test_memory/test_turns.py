"""Which messages belong together."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from memory.messages import Message, TextBlock, ToolCallBlock, ToolResultBlock
from memory.turns import groups, turns

USER = Message.user("question")
ANSWER = Message.assistant("answer")
SYSTEM = Message.system("be brief")
CALL = Message.assistant([TextBlock(text="let me see"), ToolCallBlock(id="1", name="look")])
RESULT = Message.tool([ToolResultBlock(call_id="1")])
CONVERSATIONS = st.lists(st.sampled_from([USER, ANSWER, SYSTEM, CALL, RESULT]), max_size=30)


def test_plain_messages_are_groups_of_their_own() -> None:
    assert groups([SYSTEM, USER, ANSWER]) == [(SYSTEM,), (USER,), (ANSWER,)]


def test_a_call_and_all_results_directly_after_it_are_one_group() -> None:
    assert groups([USER, CALL, RESULT, RESULT, ANSWER]) == [(USER,), (CALL, RESULT, RESULT), (ANSWER,)]


def test_two_rounds_of_calls_are_two_groups() -> None:
    assert groups([CALL, RESULT, CALL, RESULT]) == [(CALL, RESULT), (CALL, RESULT)]


def test_a_call_without_results_is_a_group() -> None:
    assert groups([CALL, USER]) == [(CALL,), (USER,)]


def test_a_result_without_its_call_is_a_group() -> None:
    assert groups([RESULT, ANSWER, RESULT]) == [(RESULT,), (ANSWER,), (RESULT,)]


def test_a_turn_begins_with_what_the_user_says() -> None:
    assert turns([USER, CALL, RESULT, ANSWER, USER, ANSWER]) == [(USER, CALL, RESULT, ANSWER), (USER, ANSWER)]


def test_what_comes_before_the_first_user_message_is_a_turn() -> None:
    assert turns([ANSWER, USER]) == [(ANSWER,), (USER,)]
    assert turns([ANSWER]) == [(ANSWER,)]


@given(CONVERSATIONS)
def test_nothing_is_lost_moved_or_empty(messages: list[Message]) -> None:
    for cut in (groups, turns):
        parts = cut(messages)
        assert [message for part in parts for message in part] == messages
        assert all(parts)


@given(CONVERSATIONS)
def test_only_a_result_without_a_call_begins_a_group_with_a_result(messages: list[Message]) -> None:
    parts = groups(messages)
    for before, part in pairwise(parts):
        if part[0].role == "tool":
            assert not before[0].tool_calls
