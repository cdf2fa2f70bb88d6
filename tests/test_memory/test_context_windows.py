"""Read policies: the contract and each policy's own limit.

Inner parts, on no face: ``tellback.memory.testing.window_contract``.
"""

from __future__ import annotations

from typing import Any

import pytest

from tellback.memory import (
    ArgumentError,
    EstimatingCounter,
    FixedWindow,
    Message,
    TokenWindow,
    ToolCallBlock,
    ToolResultBlock,
    WindowPolicy,
    message_tokens,
)
from tellback.memory.internals import FullWindow
from tests.support.window_contract import WindowPolicyContract, random_conversation


class Tens:
    """Counts ten tokens a text, so that a message takes fourteen."""

    name = "tens"
    exact = True

    def count(self, text: str) -> int:
        return 10


class TestKeepAll(WindowPolicyContract):
    @pytest.fixture
    def policy(self) -> WindowPolicy:
        return FullWindow()


class TestFixedWindowOfMessages(WindowPolicyContract):
    @pytest.fixture
    def policy(self) -> WindowPolicy:
        return FixedWindow(messages=5)


class TestFixedWindowOfOneMessage(WindowPolicyContract):
    @pytest.fixture
    def policy(self) -> WindowPolicy:
        return FixedWindow(messages=1)


class TestFixedWindowOfTurns(WindowPolicyContract):
    @pytest.fixture
    def policy(self) -> WindowPolicy:
        return FixedWindow(turns=2)


class TestTokenWindow(WindowPolicyContract):
    @pytest.fixture
    def policy(self) -> WindowPolicy:
        return TokenWindow(120, EstimatingCounter())


class TestTinyTokenWindow(WindowPolicyContract):
    @pytest.fixture
    def policy(self) -> WindowPolicy:
        return TokenWindow(1, EstimatingCounter())


SYSTEM = Message.system("be brief")
A, B, C, D = (Message.user(name) for name in "ABCD")
CALL = Message.assistant([ToolCallBlock(id="1", name="look")])
RESULT = Message.tool([ToolResultBlock(call_id="1")])


def test_a_full_window_keeps_all_messages() -> None:
    window = FullWindow().apply([A, SYSTEM, CALL, RESULT, B])
    assert window.messages == (SYSTEM, A, CALL, RESULT, B)
    assert (window.dropped, window.over_budget) == (0, False)


@pytest.mark.parametrize(("limit", "shown"), [(1, (D,)), (2, (C, D)), (4, (A, B, C, D)), (9, (A, B, C, D))])
def test_a_fixed_window_shows_the_newest_messages(limit: int, shown: tuple[Message, ...]) -> None:
    window = FixedWindow(messages=limit).apply([A, B, C, D])
    assert (window.messages, window.dropped, window.over_budget) == (shown, 4 - len(shown), False)


def test_system_messages_do_not_count_in_a_fixed_window() -> None:
    assert FixedWindow(messages=1).apply([SYSTEM, A, B]).messages == (SYSTEM, B)


def test_a_message_group_that_does_not_fit_ends_the_window() -> None:
    window = FixedWindow(messages=3).apply([A, CALL, RESULT, RESULT, B])
    assert (window.messages, window.dropped) == ((B,), 4)


def test_the_newest_message_group_over_the_limit_is_shown_and_reported_as_over_budget() -> None:
    window = FixedWindow(messages=2).apply([A, CALL, RESULT, RESULT])
    assert (window.messages, window.over_budget) == ((CALL, RESULT, RESULT), True)


def test_a_window_of_turns_begins_with_a_user_message() -> None:
    messages = [A, CALL, RESULT, Message.assistant("a"), B, Message.assistant("b")]
    assert FixedWindow(turns=1).apply(messages).messages == tuple(messages[4:])
    assert FixedWindow(turns=2).apply(messages).messages == tuple(messages)
    assert not FixedWindow(turns=1).apply(messages).over_budget


def test_a_tool_result_without_its_call_does_not_begin_a_window() -> None:
    assert FixedWindow(messages=3).apply([RESULT, A, B]).messages == (A, B)
    assert FixedWindow(messages=1).apply([A, RESULT]).messages == (RESULT,)


@pytest.mark.parametrize("options", [{}, {"messages": 1, "turns": 1}, {"messages": 0}, {"turns": True}, {"turns": -1}])
def test_an_unusable_fixed_window_raises(options: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=r"messages|turns"):
        FixedWindow(**options)


@pytest.mark.parametrize(("budget", "shown"), [(13, (D,)), (14, (D,)), (27, (D,)), (28, (C, D)), (1000, (A, B, C, D))])
def test_a_token_window_shows_the_newest_messages_that_fit_an_exact_fit_included(
    budget: int, shown: tuple[Message, ...]
) -> None:
    window = TokenWindow(budget, Tens()).apply([A, B, C, D])
    assert window.messages == shown
    assert window.over_budget == (budget < 14)


def test_system_messages_count_in_the_budget_of_a_token_window() -> None:
    assert TokenWindow(28, Tens()).apply([SYSTEM, A, B]).messages == (SYSTEM, B)
    assert TokenWindow(20, Tens()).apply([SYSTEM, A, B]).over_budget


def test_a_token_window_skips_no_message_in_favour_of_an_older_message() -> None:
    messages = [Message.user("tiny"), Message.user("long " * 100), Message.user("new")]
    assert TokenWindow(40, EstimatingCounter()).apply(messages).messages == tuple(messages[2:])


@pytest.mark.parametrize("seed", range(20))
def test_a_token_window_is_a_suffix_of_the_messages_and_reports_an_exceeded_budget(seed: int) -> None:
    counter = EstimatingCounter()
    messages = [message for message in random_conversation(seed) if message.role != "system"]
    window = TokenWindow(90, counter).apply(messages)
    spent = sum(message_tokens(message, counter) for message in window.messages)
    assert window.over_budget == (spent > 90), seed
    assert tuple(messages[len(messages) - len(window.messages) :]) == window.messages, seed


@pytest.mark.parametrize("budget", [0, -5, True, 1.5])
def test_an_unusable_budget_of_a_token_window_raises(budget: Any) -> None:
    with pytest.raises(ArgumentError, match="budget"):
        TokenWindow(budget, EstimatingCounter())


def test_the_repr_of_a_window_policy_shows_its_limit() -> None:
    shown = [repr(policy) for policy in (FullWindow(), FixedWindow(turns=3), FixedWindow(messages=4))]
    assert shown == ["FullWindow()", "FixedWindow(turns=3)", "FixedWindow(messages=4)"]
    assert repr(TokenWindow(9, Tens())) == "TokenWindow(9)"
