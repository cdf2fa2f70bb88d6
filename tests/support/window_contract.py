"""Contract suites of conversation windows (read policies): subclass one, give it a policy, run it.

class TestMyPolicy(WindowPolicyContract):
    @pytest.fixture
    def policy(self):
        return MyPolicy(...)

Inner parts, on no face: ``tellback.memory.messages``, ``tellback.memory.history.protocol``,
``tellback.memory.history.database``, ``tellback.memory.history.windows``.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from tellback.memory.history.database import InMemoryHistory
from tellback.memory.history.protocol import Conversation
from tellback.memory.history.windows import ConversationWindowPolicy, Window, WindowPolicy
from tellback.memory.messages import Message, TextBlock, ToolCallBlock, ToolResultBlock, message_groups
from tests.support.slow import first_fast

every_conversation = pytest.mark.parametrize("seed", [*range(3), *first_fast(range(3, 12))])


class WindowPolicyContract:
    """One behaviour a test; the subclass's fixture ``policy`` gives a policy, however large its window."""

    def test_no_messages_give_an_empty_window(self, policy: WindowPolicy) -> None:
        window = policy.apply([])
        assert (window.messages, window.dropped, window.over_budget) == ((), 0, False)

    @every_conversation
    def test_a_window_is_the_system_messages_and_the_newest_whole_groups_and_counts_the_rest(
        self, policy: WindowPolicy, seed: int
    ) -> None:
        messages = random_conversation(seed)
        system, groups = system_and_groups(messages)
        window = policy.apply(messages)
        shown = list(window.messages)
        assert shown[: len(system)] == system
        assert shown[len(system) :] in suffixes(groups)
        assert shown[-len(groups[-1]) :] == list(groups[-1]), "the newest group is always shown"
        assert len(shown) + window.dropped == len(messages)

    @every_conversation
    def test_a_result_is_never_shown_without_its_call(self, policy: WindowPolicy, seed: int) -> None:
        called: set[str] = set()
        for message in policy.apply(random_conversation(seed)).messages:
            called |= {call.id for call in message.tool_calls}
            assert {result.call_id for result in message.tool_results} <= called

    @every_conversation
    def test_the_messages_of_a_window_give_the_same_window(self, policy: WindowPolicy, seed: int) -> None:
        first = policy.apply(random_conversation(seed))
        second = policy.apply(first.messages)
        assert (second.messages, second.dropped, second.over_budget) == (first.messages, 0, first.over_budget)

    def test_the_messages_given_are_left_alone(self, policy: WindowPolicy) -> None:
        messages = random_conversation(1)
        policy.apply(messages)
        assert messages == random_conversation(1)


class ConversationWindowPolicyContract:
    """The same rules for a policy that reads a conversation, which the fixture ``policy`` gives."""

    def test_an_empty_conversation_gives_an_empty_window(self, policy: ConversationWindowPolicy) -> None:
        window = asyncio.run(policy.window(Conversation(InMemoryHistory(), "s")))
        assert (window.messages, window.dropped, window.summary) == ((), 0, None)

    @every_conversation
    def test_a_window_is_system_messages_a_summary_and_the_newest_groups_and_counts_the_rest(
        self, policy: ConversationWindowPolicy, seed: int
    ) -> None:
        for messages, window in asyncio.run(growing_conversation(policy, seed)):
            system, groups = system_and_groups(messages)
            shown = list(window.messages)
            assert shown[: len(system)] == system, seed
            rest = shown[len(system) :]
            if window.summary is not None:
                assert rest.pop(0) is window.summary, seed
            assert rest in (suffixes(groups) or [[]]), seed
            assert len(shown) - (window.summary is not None) + window.dropped == len(messages), seed

    def test_the_storage_keeps_every_message(self, policy: ConversationWindowPolicy) -> None:
        history = InMemoryHistory()
        messages = random_conversation(3)
        asyncio.run(history.append("s", messages))
        asyncio.run(policy.window(Conversation(history, "s")))
        assert [row.message for row in asyncio.run(history.load("s"))] == messages


def system_and_groups(messages: list[Message]) -> tuple[list[Message], list[tuple[Message, ...]]]:
    """Return the system messages of a conversation, and the groups of the others."""
    system = [message for message in messages if message.role == "system"]
    return system, message_groups([message for message in messages if message.role != "system"])


def suffixes(groups: list[tuple[Message, ...]]) -> list[list[Message]]:
    """Return the messages from each group on."""
    return [[message for group in groups[start:] for message in group] for start in range(len(groups))]


async def growing_conversation(policy: ConversationWindowPolicy, seed: int) -> list[tuple[list[Message], Window]]:
    """Return what was said so far and its window, group by group, as a conversation of *seed* grows."""
    history = InMemoryHistory()
    messages: list[Message] = []
    grown = []
    for group in message_groups(random_conversation(seed)):
        await history.append("s", group)
        messages += group
        grown.append((list(messages), await policy.window(Conversation(history, "s"))))
    return grown


def random_conversation(seed: int) -> list[Message]:
    """Return a conversation with system messages, tool rounds and long messages, made from *seed*."""
    rng = random.Random(seed)
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
