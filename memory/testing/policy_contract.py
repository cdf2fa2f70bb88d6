"""What every read policy must do: subclass, give it a policy, run it.

class TestMyPolicy(ReadPolicyContract):
    @pytest.fixture
    def policy(self):
        return MyPolicy(...)
"""

from __future__ import annotations

import random

import pytest

from memory.messages import Message, TextBlock, ToolCallBlock, ToolResultBlock
from memory.policies.protocol import ReadPolicy
from memory.turns import groups


class ReadPolicyContract:
    """One behaviour a test; the subclass's fixture ``policy`` gives a policy, however large its window."""

    def test_no_messages_give_an_empty_window(self, policy: ReadPolicy) -> None:
        window = policy.apply([])
        assert (window.messages, window.dropped, window.over_budget) == ((), 0, False)

    @pytest.mark.parametrize("seed", range(12))
    def test_system_messages_come_first_and_all_of_them(self, policy: ReadPolicy, seed: int) -> None:
        messages = conversation(seed)
        system = tuple(message for message in messages if message.role == "system")
        assert policy.apply(messages).messages[: len(system)] == system

    @pytest.mark.parametrize("seed", range(12))
    def test_the_others_are_whole_groups_from_the_end_without_gaps(self, policy: ReadPolicy, seed: int) -> None:
        messages = conversation(seed)
        spoken = groups([message for message in messages if message.role != "system"])
        shown = [message for message in policy.apply(messages).messages if message.role != "system"]
        suffixes = [[message for group in spoken[start:] for message in group] for start in range(len(spoken))]
        assert shown in suffixes, seed

    @pytest.mark.parametrize("seed", range(12))
    def test_the_newest_group_is_always_shown(self, policy: ReadPolicy, seed: int) -> None:
        messages = conversation(seed)
        newest = groups([message for message in messages if message.role != "system"])[-1]
        assert policy.apply(messages).messages[-len(newest) :] == newest

    @pytest.mark.parametrize("seed", range(12))
    def test_what_is_not_shown_is_counted(self, policy: ReadPolicy, seed: int) -> None:
        messages = conversation(seed)
        window = policy.apply(messages)
        assert len(window.messages) + window.dropped == len(messages)

    @pytest.mark.parametrize("seed", range(12))
    def test_a_result_is_never_shown_without_its_call(self, policy: ReadPolicy, seed: int) -> None:
        called: set[str] = set()
        for message in policy.apply(conversation(seed)).messages:
            called |= {call.id for call in message.tool_calls}
            assert {result.call_id for result in message.tool_results} <= called

    def test_the_messages_given_are_left_alone(self, policy: ReadPolicy) -> None:
        messages = conversation(1)
        before = list(messages)
        policy.apply(messages)
        assert messages == before


def conversation(seed: int) -> list[Message]:
    """Return a conversation with system messages, tool rounds and long messages, made from *seed*."""
    rng = random.Random(seed)  # noqa: S311 -- a test wants the same conversation again
    messages = [Message.system("Be brief.")] if seed % 2 else []
    for number in range(rng.randrange(1, 12)):
        messages.append(Message.user(f"question {number} " + "word " * rng.choice((1, 1, 40))))
        for round_number in range(rng.choice((0, 0, 1, 2))):
            ids = [f"c{number}.{round_number}.{call}" for call in range(rng.randrange(1, 4))]
            calls = [ToolCallBlock(id=call, name="look", arguments={"n": number}) for call in ids]
            messages.append(Message.assistant([TextBlock(text="Let me look."), *calls]))
            messages += [
                Message.tool([ToolResultBlock(call_id=call, content=(TextBlock(text="found"),))]) for call in ids
            ]
        if rng.random() < 0.8:
            messages.append(Message.assistant(f"answer {number}"))
        if rng.random() < 0.1:
            messages.append(Message.system("A note."))
    return messages
