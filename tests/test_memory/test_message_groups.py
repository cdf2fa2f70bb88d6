"""Which messages belong together.

Inner parts, on no face: ``tellback.memory.messages``.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tellback.memory import Message, TextBlock, ToolCallBlock, ToolResultBlock
from tellback.memory.messages import conversation_turns, message_groups

USER = Message.user("question")
ANSWER = Message.assistant("answer")
SYSTEM = Message.system("be brief")
CALL = Message.assistant([TextBlock(text="let me see"), ToolCallBlock(id="1", name="look")])
RESULT = Message.tool([ToolResultBlock(call_id="1")])
CONVERSATIONS = st.lists(st.sampled_from([USER, ANSWER, SYSTEM, CALL, RESULT]), max_size=30)


def test_plain_messages_are_groups_of_their_own() -> None:
    assert message_groups([SYSTEM, USER, ANSWER]) == [(SYSTEM,), (USER,), (ANSWER,)]


def test_a_call_and_all_results_directly_after_it_are_one_group() -> None:
    assert message_groups([USER, CALL, RESULT, RESULT, ANSWER]) == [(USER,), (CALL, RESULT, RESULT), (ANSWER,)]


def test_two_rounds_of_calls_are_two_groups() -> None:
    assert message_groups([CALL, RESULT, CALL, RESULT]) == [(CALL, RESULT), (CALL, RESULT)]


def test_a_call_without_results_is_a_group() -> None:
    assert message_groups([CALL, USER]) == [(CALL,), (USER,)]


def test_a_result_without_its_call_is_a_group() -> None:
    assert message_groups([RESULT, ANSWER, RESULT]) == [(RESULT,), (ANSWER,), (RESULT,)]


def called(*ids: str) -> Message:
    return Message.assistant([ToolCallBlock(id=id, name="look") for id in ids])


def answered(*ids: str) -> Message:
    return Message.tool([ToolResultBlock(call_id=id) for id in ids])


def test_a_later_tool_result_belongs_to_the_group_of_its_call() -> None:
    late = [USER, called("a", "b"), answered("a"), USER, answered("b"), ANSWER]
    assert message_groups(late) == [(USER,), tuple(late[1:5]), (ANSWER,)]


def test_overlapping_tool_calls_are_one_group() -> None:
    overlapping = [called("a"), USER, called("b"), answered("a"), ANSWER, answered("b"), USER]
    assert message_groups(overlapping) == [tuple(overlapping[:6]), (USER,)]


def test_a_reused_call_id_refers_to_the_newest_call() -> None:
    again = [called("a"), answered("a"), USER, called("a"), answered("a"), USER]
    assert message_groups(again) == [tuple(again[:2]), (USER,), tuple(again[3:5]), (USER,)]


def test_a_second_tool_result_of_an_answered_call_is_a_group_of_its_own() -> None:
    repeated = [called("a"), answered("a"), USER, answered("a")]
    assert message_groups(repeated) == [tuple(repeated[:2]), (USER,), tuple(repeated[3:])]


def test_tool_calls_count_only_from_assistants_and_results_only_from_tools() -> None:
    quoted = [Message.user(called("a").blocks), answered("a")]
    assert message_groups(quoted) == [(quoted[0],), (quoted[1],)]
    pasted = [called("a"), Message.user(answered("a").blocks), ANSWER]
    assert message_groups(pasted) == [(pasted[0],), (pasted[1],), (ANSWER,)]


@given(
    st.lists(st.sampled_from([USER, ANSWER, *(make(id) for make in (called, answered) for id in "abc")]), max_size=25)
)
def test_a_tool_call_and_its_result_are_always_in_one_group(messages: list[Message]) -> None:
    waiting: dict[str, int] = {}
    for number, group in enumerate(message_groups(messages)):
        for message in group:
            waiting.update((call.id, number) for call in message.tool_calls)
            for result in message.tool_results:
                assert waiting.pop(result.call_id, number) == number


def test_a_conversation_turn_begins_with_a_user_message() -> None:
    assert conversation_turns([USER, CALL, RESULT, ANSWER, USER, ANSWER]) == [
        (USER, CALL, RESULT, ANSWER),
        (USER, ANSWER),
    ]


def test_messages_before_the_first_user_message_are_a_turn() -> None:
    assert conversation_turns([ANSWER, USER]) == [(ANSWER,), (USER,)]
    assert conversation_turns([ANSWER]) == [(ANSWER,)]


@given(CONVERSATIONS)
def test_groups_and_turns_keep_all_messages_in_order_and_are_never_empty(messages: list[Message]) -> None:
    for cut in (message_groups, conversation_turns):
        parts = cut(messages)
        assert [message for part in parts for message in part] == messages
        assert all(parts)


@given(CONVERSATIONS)
def test_a_group_beginning_with_a_tool_result_never_follows_a_tool_call(messages: list[Message]) -> None:
    parts = message_groups(messages)
    for before, part in pairwise(parts):
        if part[0].role == "tool":
            assert not before[0].tool_calls
