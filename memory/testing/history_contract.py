"""Contract suite of conversation histories: subclass it, give it a storage, run it.

class TestMyHistory(HistoryStorageContract):
    @pytest.fixture
    def history(self) -> HistoryStorage:
        return MyHistory(...)
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tellback.memory.errors import ArgumentError
from tellback.memory.history.protocol import HistoryStorage
from tellback.memory.messages import (
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


NEEDED_ARGUMENTS: dict[str, dict[str, Any]] = {
    "append": {"messages": [Message.user("x")]},
    "load": {"session": "s"},
    "delete": {"session": "s"},
    "sessions": {},
}


class SyncHistory:
    """Synchronous view of a history: each call is run to its end."""

    def __init__(self, history: Any) -> None:
        self._history = history

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._history, name)
        if not callable(member):
            return member

        def call(*arguments: Any, **options: Any) -> Any:
            answer = member(*arguments, **options)
            return asyncio.run(answer) if isinstance(answer, Coroutine) else answer

        return call

    def append_user(self, *texts: str, session: str = "s", namespace: str = "") -> Any:
        """Append messages of the user; return their numbers."""
        return self.append(session, [Message.user(text) for text in texts], namespace=namespace)

    def texts(self, session: str = "s", **options: Any) -> list[str]:
        """Return the texts of the messages that are loaded."""
        return [row.message.text for row in self.load(session, **options)]


class HistoryStorageContract:
    """One behaviour a test; the subclass's fixture ``history`` gives an empty storage."""

    @pytest.fixture
    def storage(self, history: HistoryStorage) -> SyncHistory:
        """The storage, for tests that await nothing."""
        return SyncHistory(history)

    def test_messages_come_back_in_order_with_rising_numbers(self, storage: SyncHistory) -> None:
        messages = [Message.user("one"), Message.assistant("two"), Message.user("three")]
        assert storage.append("s", messages[:2]) + storage.append("s", messages[2:]) == [1, 2, 3]
        assert [(row.sequence, row.message) for row in storage.load("s")] == list(enumerate(messages, 1))

    def test_every_kind_of_block_comes_back_equal(self, storage: SyncHistory) -> None:
        message = Message(
            role="assistant",
            blocks=EVERY_BLOCK,
            name="Ann",
            at=datetime(1, 1, 1, tzinfo=UTC),
            metadata={"deep": {"list": [1, 2.5, "x", None, False]}, "big": 10**400},
        )
        storage.append("s", [message])
        (stored,) = storage.load("s")
        assert stored.message == message
        assert stored.message.model_dump_json() == message.model_dump_json()

    def test_times_keep_their_offset_and_calls_their_ids(self, storage: SyncHistory) -> None:
        delhi = timezone(timedelta(hours=5.5))
        messages = [
            Message.user("ten past nine in Delhi", at=datetime(2026, 3, 1, 9, 10, 0, 7, delhi)),
            Message.assistant([ToolCallBlock(id="call/1 é", name="look", arguments={"b": 1, "a": 2.0})]),
            Message.tool([ToolResultBlock(call_id="call/1 é", content=(TextBlock(text=" found \n"),))]),
        ]
        storage.append("s", messages)
        stored = [row.message for row in storage.load("s")]
        assert [row.model_dump_json() for row in stored] == [row.model_dump_json() for row in messages]
        assert stored[0].at.utcoffset() == timedelta(hours=5.5)
        assert list(stored[1].tool_calls[0].arguments) == ["b", "a"]

    def test_a_message_that_json_cannot_carry_is_refused_with_its_batch(self, storage: SyncHistory) -> None:
        for bad in ({"x": float("nan")}, {"x": (1, 2)}, {"x": {1: "a"}}, {"x": "\ud800"}, {"x": object()}):
            with pytest.raises(ArgumentError, match=r"messages\[1\]"):
                storage.append("s", [Message.user("fine"), Message(role="user", metadata=bad)])
        with pytest.raises(ArgumentError, match=r"messages\[0\]"):
            storage.append_user("\udfff")
        assert storage.load("s") == []
        storage.append_user("old")
        with pytest.raises(ArgumentError):
            storage.replace("s", [Message.user("new"), Message.user("\ud800")])
        assert storage.texts() == ["old"]

    def test_nothing_is_shared_with_the_caller(self, storage: SyncHistory) -> None:
        message = Message(role="user", metadata={"list": [1]})
        storage.append("s", [message])
        message.metadata["list"].append(2)
        (first,) = storage.load("s")
        first.message.metadata["list"].append(3)
        (second,) = storage.load("s")
        assert second.message.metadata == {"list": [1]}

    def test_appending_nothing_gives_no_numbers(self, storage: SyncHistory) -> None:
        assert storage.append("s", []) == storage.sessions() == []

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"limit": 2}, "45"),
            ({"limit": 2, "offset": 1}, "34"),
            ({"limit": None, "offset": 2}, "123"),
            ({"limit": 9, "offset": 9}, ""),
            ({"limit": 0}, ""),
            ({"limit": 9}, "12345"),
            ({"limit": 10**30}, "12345"),
            ({"offset": 10**30}, ""),
            ({"after": 0}, "12345"),
            ({"after": 3}, "45"),
            ({"after": 5}, ""),
            ({"after": 10**30}, ""),
            ({"after": 1, "limit": 2}, "45"),
        ],
        ids=str,
    )
    def test_a_limit_counts_from_the_newest_and_an_offset_leaves_the_newest_out(
        self, storage: SyncHistory, options: dict[str, Any], expected: str
    ) -> None:
        storage.append_user(*"12345")
        assert storage.texts(**options) == list(expected)

    def test_roles_are_chosen_before_the_limit_and_the_offset(self, storage: SyncHistory) -> None:
        for number in (1, 2, 3):
            storage.append("s", [Message.user(f"q{number}"), Message.assistant(f"a{number}")])
        assert storage.texts(roles=["user"], limit=2) == ["q2", "q3"]
        assert storage.texts(roles=["user"], limit=1, offset=1) == ["q2"]
        assert storage.texts(roles=["user"], offset=1) == ["q1", "q2"]
        assert storage.texts(roles=[]) == []

    @pytest.mark.parametrize(
        ("method", "argument", "values"),
        [
            ("load", "limit", [-1, True, 1.5]),
            ("sessions", "limit", [-1, True, 1.5]),
            ("load", "offset", [-1]),
            ("load", "after", [-1]),
            ("load", "roles", [["robot"], [["user"]], 7]),
            ("append", "session", ["", "a\0b", "\ud800", "x" * 1025]),
            ("load", "namespace", ["a\0b"]),
            ("delete", "sequences", [None, 1, "1", ["1"], [True], [1.0]]),
        ],
    )
    def test_a_bad_argument_is_refused_by_name(
        self, storage: SyncHistory, method: str, argument: str, values: list[Any]
    ) -> None:
        storage.append_user("a", "b")
        for bad in values:
            with pytest.raises(ArgumentError, match=argument):
                getattr(storage, method)(**NEEDED_ARGUMENTS[method] | {argument: bad})
        assert storage.texts() == ["a", "b"]

    def test_numbers_are_never_given_twice(self, storage: SyncHistory) -> None:
        assert storage.append_user("a", "b") == [1, 2]
        assert storage.delete("s", [2]) == 1
        assert storage.append_user("a") == [3]
        assert storage.replace("s", [Message.user("a"), Message.user("b")]) == [4, 5]
        assert storage.clear("s") == 2
        assert storage.append_user("a") == [6]

    def test_replacing_leaves_only_the_new_messages(self, storage: SyncHistory) -> None:
        storage.append_user("old", "kept")
        storage.replace("s", [Message.user("kept"), Message.user("new")])
        assert storage.texts() == ["kept", "new"]
        assert storage.replace("s", []) == storage.load("s") == []

    def test_a_copied_session_goes_its_own_way(self, storage: SyncHistory) -> None:
        storage.append("s", [Message.system("be brief"), Message.user("a"), Message.assistant("b")], namespace="n")
        storage.delete("s", [2], namespace="n")
        assert storage.copy("s", "fork", namespace="n") == [1, 2]
        forked, first = storage.load("fork", namespace="n"), storage.load("s", namespace="n")
        assert [(row.message, row.at) for row in forked] == [(row.message, row.at) for row in first]
        assert storage.append_user("c", session="fork", namespace="n") == [3]
        assert storage.append_user("d", namespace="n") == [4]
        assert storage.texts("fork", namespace="n") == ["be brief", "b", "c"]
        assert storage.texts(namespace="n") == ["be brief", "b", "d"]
        assert storage.texts("fork") == []

    def test_a_session_is_copied_to_one_without_messages_alone(self, storage: SyncHistory) -> None:
        assert storage.copy("unknown", "fork") == storage.sessions() == []
        storage.append_user("a")
        storage.append_user("b", session="taken")
        for new in ("taken", "s", "", "a\0b"):
            with pytest.raises(ArgumentError, match="new"):
                storage.copy("s", new)
        assert storage.texts("taken") == ["b"]
        storage.clear("taken")
        assert storage.copy("s", "taken") == [2]

    def test_single_messages_are_deleted_and_missing_ones_are_not_counted(self, storage: SyncHistory) -> None:
        storage.append_user(*"abc")
        assert storage.delete("s", [2, 2, 9]) == 1
        assert storage.delete("s", [10**30, -1, 0]) == storage.delete("other", [1]) == 0
        assert storage.texts() == ["a", "c"]

    def test_namespaces_and_sessions_do_not_see_each_other(self, storage: SyncHistory) -> None:
        storage.append_user("here", namespace="a")
        storage.append_user("there", namespace="b")
        storage.append_user("other", session="S", namespace="a")
        assert storage.load("s") == []
        assert storage.clear("s", namespace="b") == 1
        assert storage.texts(namespace="a") == ["here"]
        assert storage.namespaces() == ["a"]
        assert sorted(info.session for info in storage.sessions(namespace="a")) == ["S", "s"]

    def test_a_session_says_how_many_messages_it_has(self, storage: SyncHistory) -> None:
        storage.append_user("a", "b")
        storage.append_user("c", session="gone")
        storage.clear("gone")
        (info,) = storage.sessions(limit=10**30)
        assert (info.session, info.messages) == ("s", 2)
        assert info.first_at <= info.last_at

    def test_a_session_begins_with_the_first_words_of_the_user(self, storage: SyncHistory) -> None:
        image = ImageBlock(media_type="image/png", data=b"x", caption="a harbour")
        storage.append("words", [Message.system("be brief"), Message.user("Where is\n  the boat?")])
        storage.append("long", [Message.user("word " * 100)])
        storage.append("image", [Message.user([image])])
        storage.append("silent", [Message.assistant("Good morning")])
        begins = {info.session: info.begins for info in storage.sessions()}
        long = begins.pop("long")
        assert begins == {"words": "Where is the boat?", "image": "a harbour", "silent": "Good morning"}
        assert long.startswith("word word")
        assert len(long) <= 80

    def test_the_sessions_used_last_are_listed_first_and_no_more_than_asked_for(self, storage: SyncHistory) -> None:
        for session in ("a", "b", "a"):
            storage.append_user("x", session=session)
            time.sleep(0.002)
        assert [info.session for info in storage.sessions(limit=1)] == ["a"]
        assert storage.sessions(limit=0) == []

    def test_many_writers_at_once_lose_nothing_and_share_no_number(
        self, history: HistoryStorage, storage: SyncHistory
    ) -> None:
        async def write_at_once() -> list[list[int]]:
            return await asyncio.gather(
                *(history.append(f"s{i % 2}", [Message.user(f"{i}a"), Message.user(f"{i}b")]) for i in range(40))
            )

        numbered = asyncio.run(write_at_once())
        for session in (0, 1):
            numbers = [number for pair in numbered[session::2] for number in pair]
            assert sorted(numbers) == [row.sequence for row in storage.load(f"s{session}")] == list(range(1, 41))
            texts = storage.texts(f"s{session}")
            assert all(first[:-1] == second[:-1] for first, second in zip(texts[::2], texts[1::2], strict=True))

    def test_replacing_while_others_read_shows_the_old_or_the_new_and_nothing_between(
        self, history: HistoryStorage, storage: SyncHistory
    ) -> None:
        storage.append_user(*"00000")
        seen: list[set[str]] = []

        async def read() -> None:
            seen.append({row.message.text for row in await history.load("s")})

        async def write_and_read() -> None:
            writing = [history.replace("s", [Message.user(str(i))] * 5) for i in range(1, 11)]
            await asyncio.gather(*(job for write in writing for job in (write, read())))

        asyncio.run(write_and_read())
        assert [len(texts) for texts in seen] == [1] * 10
        assert len(storage.load("s")) == 5
