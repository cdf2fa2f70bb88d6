"""Contract suite of conversation histories: subclass it, give it a storage, run it.

class TestMyHistory(HistoryStorageContract):
    @pytest.fixture
    def history(self) -> HistoryStorage:
        return MyHistory(...)
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from memory.errors import ArgumentError
from memory.history.protocol import HistoryStorage
from memory.messages import (
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)

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
        messages = [Message.user("one"), Message.assistant("two"), Message.user("three")]
        first = asyncio.run(history.append("s", messages[:2]))
        second = asyncio.run(history.append("s", messages[2:]))
        stored = asyncio.run(history.load("s"))
        assert first + second == [1, 2, 3]
        assert [row.sequence for row in stored] == [1, 2, 3]
        assert [row.message for row in stored] == messages

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

    def test_times_keep_their_offset_and_calls_their_ids(self, history: HistoryStorage) -> None:
        messages = [
            Message.user(
                "ten past nine in Delhi", at=datetime(2026, 3, 1, 9, 10, 0, 7, timezone(timedelta(hours=5.5)))
            ),
            Message.assistant([ToolCallBlock(id="call/1 é", name="look", arguments={"b": 1, "a": 2.0})]),
            Message.tool([ToolResultBlock(call_id="call/1 é", content=(TextBlock(text=" found \n"),))]),
        ]
        asyncio.run(history.append("s", messages))
        stored = [row.message for row in asyncio.run(history.load("s"))]
        assert [row.model_dump_json() for row in stored] == [row.model_dump_json() for row in messages]
        assert stored[0].at is not None
        assert stored[0].at.utcoffset() == timedelta(hours=5.5)
        assert list(stored[1].tool_calls[0].arguments) == ["b", "a"]

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
            return "".join(row.message.text for row in found)

        assert shown(2, 0) == "45"
        assert shown(2, 1) == "34"
        assert shown(None, 2) == "123"
        assert shown(9, 9) == ""
        assert shown(0, 0) == ""
        assert shown(9, 0) == "12345"

    def test_roles_are_chosen_before_the_limit(self, history: HistoryStorage) -> None:
        messages = [Message.user("q1"), Message.assistant("a1"), Message.user("q2"), Message.assistant("a2")]
        asyncio.run(history.append("s", messages))
        found = asyncio.run(history.load("s", roles=["user"], limit=2))
        assert [row.message.text for row in found] == ["q1", "q2"]
        assert asyncio.run(history.load("s", roles=[])) == []

    def test_roles_are_chosen_before_the_offset(self, history: HistoryStorage) -> None:
        messages = [
            make(f"{name}{number}")
            for number in (1, 2, 3)
            for name, make in (("q", Message.user), ("a", Message.assistant))
        ]
        asyncio.run(history.append("s", messages))
        found = asyncio.run(history.load("s", roles=["user"], limit=1, offset=1))
        assert [row.message.text for row in found] == ["q2"]
        rest = asyncio.run(history.load("s", roles=["user"], offset=1))
        assert [row.message.text for row in rest] == ["q1", "q2"]

    def test_only_messages_after_a_number_are_looked_at(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user(str(i)) for i in range(1, 6)]))

        def shown(after: int, limit: int | None = None) -> str:
            found = asyncio.run(history.load("s", after=after, limit=limit))
            return "".join(row.message.text for row in found)

        assert (shown(0), shown(3), shown(5), shown(10**30)) == ("12345", "45", "", "")
        assert shown(1, limit=2) == "45"

    def test_numbers_beyond_all_counting_are_no_error(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user("a")]))
        assert len(asyncio.run(history.load("s", limit=10**30))) == 1
        assert asyncio.run(history.load("s", offset=10**30)) == []
        assert asyncio.run(history.delete("s", [10**30, -1, 0])) == 0
        assert len(asyncio.run(history.sessions(limit=10**30))) == 1

    def test_bad_limits_roles_and_names_are_refused(self, history: HistoryStorage) -> None:
        for limit in (-1, True, 1.5):
            with pytest.raises(ArgumentError, match="limit"):
                asyncio.run(history.load("s", limit=limit))  # type: ignore[arg-type]  # bad on purpose
            with pytest.raises(ArgumentError, match="limit"):
                asyncio.run(history.sessions(limit=limit))  # type: ignore[arg-type]  # bad on purpose
        with pytest.raises(ArgumentError, match="offset"):
            asyncio.run(history.load("s", offset=-1))
        with pytest.raises(ArgumentError, match="after"):
            asyncio.run(history.load("s", after=-1))
        for roles in (["robot"], [["user"]], 7):
            with pytest.raises(ArgumentError, match="roles"):
                asyncio.run(history.load("s", roles=roles))  # type: ignore[arg-type]  # bad on purpose
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
        assert [row.message.text for row in asyncio.run(history.load("s"))] == ["kept", "new"]
        assert asyncio.run(history.replace("s", [])) == []
        assert asyncio.run(history.load("s")) == []

    def test_a_bad_message_leaves_a_replaced_session_as_it_was(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user("old")]))
        with pytest.raises(ArgumentError):
            asyncio.run(history.replace("s", [Message.user("new"), Message.user("\ud800")]))
        assert [row.message.text for row in asyncio.run(history.load("s"))] == ["old"]

    def test_single_messages_are_deleted_and_missing_ones_are_not_counted(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user("a"), Message.user("b"), Message.user("c")]))
        assert asyncio.run(history.delete("s", [2, 2, 9])) == 1
        assert asyncio.run(history.delete("other", [1])) == 0
        assert [row.message.text for row in asyncio.run(history.load("s"))] == ["a", "c"]

    @pytest.mark.parametrize("sequences", [None, 1, "1", ["1"], [True], [1.0]])
    def test_what_is_no_list_of_numbers_deletes_nothing(self, history: HistoryStorage, sequences: object) -> None:
        asyncio.run(history.append("s", [Message.user("a"), Message.user("b")]))
        with pytest.raises(ArgumentError, match="sequences"):
            asyncio.run(history.delete("s", sequences))  # type: ignore[arg-type]  # bad on purpose
        assert len(asyncio.run(history.load("s"))) == 2

    def test_namespaces_and_sessions_do_not_see_each_other(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user("here")], namespace="a"))
        asyncio.run(history.append("s", [Message.user("there")], namespace="b"))
        asyncio.run(history.append("S", [Message.user("other")], namespace="a"))
        assert asyncio.run(history.load("s")) == []
        assert asyncio.run(history.clear("s", namespace="b")) == 1
        assert [row.message.text for row in asyncio.run(history.load("s", namespace="a"))] == ["here"]
        assert asyncio.run(history.namespaces()) == ["a"]
        assert sorted(info.session for info in asyncio.run(history.sessions(namespace="a"))) == ["S", "s"]

    def test_a_session_says_how_many_messages_it_has(self, history: HistoryStorage) -> None:
        asyncio.run(history.append("s", [Message.user("a"), Message.user("b")]))
        asyncio.run(history.append("gone", [Message.user("c")]))
        asyncio.run(history.clear("gone"))
        (info,) = asyncio.run(history.sessions())
        assert (info.session, info.messages) == ("s", 2)
        assert info.first_at <= info.last_at

    def test_a_session_begins_with_the_first_words_of_the_user(self, history: HistoryStorage) -> None:
        image = ImageBlock(media_type="image/png", data=b"x", caption="a harbour")
        asyncio.run(history.append("words", [Message.system("be brief"), Message.user("Where is\n  the boat?")]))
        asyncio.run(history.append("long", [Message.user("word " * 100)]))
        asyncio.run(history.append("image", [Message.user([image])]))
        asyncio.run(history.append("silent", [Message.assistant("Good morning")]))
        begins = {info.session: info.begins for info in asyncio.run(history.sessions())}
        assert (begins["words"], begins["image"], begins["silent"]) == (
            "Where is the boat?",
            "a harbour",
            "Good morning",
        )
        assert begins["long"].startswith("word word")
        assert len(begins["long"]) <= 80

    def test_the_sessions_used_last_are_listed_first_and_no_more_than_asked_for(self, history: HistoryStorage) -> None:
        for session in ("a", "b", "a"):
            asyncio.run(history.append(session, [Message.user("x")]))
            time.sleep(0.002)
        assert [info.session for info in asyncio.run(history.sessions(limit=1))] == ["a"]
        assert asyncio.run(history.sessions(limit=0)) == []

    def test_many_writers_at_once_lose_nothing_and_share_no_number(self, history: HistoryStorage) -> None:
        async def all_at_once() -> list[list[int]]:
            return await asyncio.gather(
                *(history.append(f"s{i % 2}", [Message.user(f"{i}a"), Message.user(f"{i}b")]) for i in range(40))
            )

        numbered = asyncio.run(all_at_once())
        for session in (0, 1):
            numbers = [number for pair in numbered[session::2] for number in pair]
            stored = asyncio.run(history.load(f"s{session}"))
            assert sorted(numbers) == [row.sequence for row in stored] == list(range(1, 41))
            texts = [row.message.text for row in stored]
            assert all(first[:-1] == second[:-1] for first, second in zip(texts[::2], texts[1::2], strict=True))

    def test_replacing_while_others_read_shows_the_old_or_the_new_and_nothing_between(
        self, history: HistoryStorage
    ) -> None:
        asyncio.run(history.append("s", [Message.user("0")] * 5))

        seen: list[set[str]] = []

        async def reading() -> None:
            seen.append({row.message.text for row in await history.load("s")})

        async def both() -> None:
            writing = [history.replace("s", [Message.user(str(i))] * 5) for i in range(1, 11)]
            await asyncio.gather(*(job for write in writing for job in (write, reading())))

        asyncio.run(both())
        assert [len(texts) for texts in seen] == [1] * 10
        assert len(asyncio.run(history.load("s"))) == 5
