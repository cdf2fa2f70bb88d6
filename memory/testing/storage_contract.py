"""What every conversation history must do: subclass, give it a storage, run it.

class TestMyHistory(HistoryStorageContract):
    @pytest.fixture
    def history(self) -> HistoryStorage:
        return MyHistory(...)
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from memory.errors import ArgumentError
from memory.messages import (
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from memory.storage.protocol import HistoryStorage

EVERY_BLOCK = (
    TextBlock(text='quotes " and \\ and \n newlines, \u2028, \x7f, NUL \0, é, 記憶, 😀'),
    ImageBlock(media_type="image/png", data=bytes(range(256)), name="a.png", caption="a cat"),
    DocumentBlock(media_type="text/plain", data="Grüße".encode(), name="a.txt"),
    ThinkingBlock(text="hm", signature="sig==", redacted=None),
    ToolCallBlock(id="c1", name="add", arguments={"a": 1, "b": 1.5, "c": [None, True, {"d": "é"}]}),
    ToolCallBlock(id="c2", name="add", invalid="{not json"),
    ToolResultBlock(call_id="c1", name="add", content=(TextBlock(text="2.5"),), is_error=True),
)


class HistoryStorageContract:
    """One behaviour a test; the subclass's fixture ``history`` gives an empty storage."""

    def test_messages_come_back_in_order_with_rising_numbers(self, history: HistoryStorage) -> None:
        said = [Message.user("one"), Message.assistant("two"), Message.user("three")]
        first = asyncio.run(history.append("s", said[:2]))
        second = asyncio.run(history.append("s", said[2:]))
        stored = asyncio.run(history.load("s"))
        assert first + second == [1, 2, 3]
        assert [one.sequence for one in stored] == [1, 2, 3]
        assert [one.message for one in stored] == said

    def test_every_kind_of_block_comes_back_equal(self, history: HistoryStorage) -> None:
        message = Message(
            role="assistant",
            blocks=EVERY_BLOCK,
            name="Ann",
            at=datetime(1, 1, 1, tzinfo=UTC),
            metadata={"deep": {"list": [1, 2.5, "x", None, False]}, "big": 10**400},
        )
        asyncio.run(history.append("s", [message]))
        (stored,) = asyncio.run(history.load("s"))
        assert stored.message == message
        assert stored.message.model_dump_json() == message.model_dump_json()

    def test_what_json_cannot_carry_is_refused_and_nothing_is_stored(self, history: HistoryStorage) -> None:
        for bad in ({"x": float("nan")}, {"x": (1, 2)}, {"x": {1: "a"}}, {"x": "\ud800"}, {"x": object()}):
            with pytest.raises(ArgumentError, match=r"messages\[1\]"):
                asyncio.run(history.append("s", [Message.user("fine"), Message(role="user", metadata=bad)]))
        with pytest.raises(ArgumentError, match=r"messages\[0\]"):
            asyncio.run(history.append("s", [Message.user("\udfff")]))
        assert asyncio.run(history.load("s")) == []

    def test_nothing_is_shared_with_the_caller(self, history: HistoryStorage) -> None:
        message = Message(role="user", metadata={"list": [1]})
        asyncio.run(history.append("s", [message]))
        message.metadata["list"].append(2)
        (first,) = asyncio.run(history.load("s"))
        first.message.metadata["list"].append(3)
        (second,) = asyncio.run(history.load("s"))
        assert second.message.metadata == {"list": [1]}

    def test_appending_nothing_gives_no_numbers(self, history: HistoryStorage) -> None:
        assert asyncio.run(history.append("s", [])) == []
        assert asyncio.run(history.sessions()) == []

    def test_a_limit_counts_from_the_newest_and_an_offset_leaves_the_newest_out(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user(str(i)) for i in range(1, 6)]))

        def shown(limit: int | None, offset: int) -> str:
            found = asyncio.run(history.load("s", limit=limit, offset=offset))
            return "".join(one.message.text for one in found)

        assert shown(2, 0) == "45"
        assert shown(2, 1) == "34"
        assert shown(None, 2) == "123"
        assert shown(9, 9) == ""
        assert shown(0, 0) == ""
        assert shown(9, 0) == "12345"

    def test_roles_are_chosen_before_the_limit(self, history: HistoryStorage) -> None:
        said = [Message.user("q1"), Message.assistant("a1"), Message.user("q2"), Message.assistant("a2")]
        asyncio.run(history.append("s", said))
        found = asyncio.run(history.load("s", roles=["user"], limit=2))
        assert [one.message.text for one in found] == ["q1", "q2"]
        assert asyncio.run(history.load("s", roles=[])) == []

    def test_bad_limits_roles_and_names_are_refused(self, history: HistoryStorage) -> None:
        for limit in (-1, True, 1.5):
            with pytest.raises(ArgumentError, match="limit"):
                asyncio.run(history.load("s", limit=limit))  # type: ignore[arg-type]  # bad on purpose
        with pytest.raises(ArgumentError, match="offset"):
            asyncio.run(history.load("s", offset=-1))
        with pytest.raises(ArgumentError, match="roles"):
            asyncio.run(history.load("s", roles=["robot"]))  # type: ignore[list-item]  # bad on purpose
        for session in ("", "a\0b", "\ud800", "x" * 1025):
            with pytest.raises(ArgumentError, match="session"):
                asyncio.run(history.append(session, [Message.user("x")]))
        with pytest.raises(ArgumentError, match="namespace"):
            asyncio.run(history.load("s", namespace="a\0b"))

    def test_numbers_are_never_given_twice(self, history: HistoryStorage) -> None:
        two = [Message.user("a"), Message.user("b")]
        assert asyncio.run(history.append("s", two)) == [1, 2]
        assert asyncio.run(history.delete("s", [2])) == 1
        assert asyncio.run(history.append("s", two[:1])) == [3]
        assert asyncio.run(history.replace("s", two)) == [4, 5]
        assert asyncio.run(history.clear("s")) == 2
        assert asyncio.run(history.append("s", two[:1])) == [6]

    def test_replacing_leaves_only_the_new_messages(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user("old"), Message.user("kept")]))
        asyncio.run(history.replace("s", [Message.user("kept"), Message.user("new")]))
        assert [one.message.text for one in asyncio.run(history.load("s"))] == ["kept", "new"]
        assert asyncio.run(history.replace("s", [])) == []
        assert asyncio.run(history.load("s")) == []

    def test_a_bad_message_leaves_a_replaced_session_as_it_was(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user("old")]))
        with pytest.raises(ArgumentError):
            asyncio.run(history.replace("s", [Message.user("new"), Message.user("\ud800")]))
        assert [one.message.text for one in asyncio.run(history.load("s"))] == ["old"]

    def test_single_messages_are_deleted_and_missing_ones_are_not_counted(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user("a"), Message.user("b"), Message.user("c")]))
        assert asyncio.run(history.delete("s", [2, 2, 9])) == 1
        assert asyncio.run(history.delete("other", [1])) == 0
        assert [one.message.text for one in asyncio.run(history.load("s"))] == ["a", "c"]

    def test_namespaces_and_sessions_do_not_see_each_other(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user("here")], namespace="a"))
        asyncio.run(history.append("s", [Message.user("there")], namespace="b"))
        asyncio.run(history.append("S", [Message.user("other")], namespace="a"))
        assert asyncio.run(history.load("s")) == []
        assert asyncio.run(history.clear("s", namespace="b")) == 1
        assert [one.message.text for one in asyncio.run(history.load("s", namespace="a"))] == ["here"]
        assert asyncio.run(history.namespaces()) == ["a"]
        assert sorted(one.session for one in asyncio.run(history.sessions(namespace="a"))) == ["S", "s"]

    def test_a_session_says_how_many_messages_it_has(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user("a"), Message.user("b")]))
        asyncio.run(history.append("gone", [Message.user("c")]))
        asyncio.run(history.clear("gone"))
        (info,) = asyncio.run(history.sessions())
        assert (info.session, info.messages) == ("s", 2)
        assert info.first_at <= info.last_at
