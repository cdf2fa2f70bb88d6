"""Messages are pure values that survive a round trip."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tellback.memory import DocumentBlock, ImageBlock, Message, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock

EVERYTHING = Message(
    role="assistant",
    name="Ann",
    at=datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),
    metadata={"nested": {"list": [1, 2.5, None, True, "ü"]}},
    blocks=(
        TextBlock(text="line\r\n\u2028\0 🙂"),
        ImageBlock(media_type="image/png", data=bytes(range(256)), name="a.png", caption="a cat"),
        DocumentBlock(media_type="application/pdf", data=b"%PDF", name="a.pdf"),
        ThinkingBlock(text="hm", signature="sig"),
        ThinkingBlock(redacted="opaque"),
        ToolCallBlock(id="1", name="look", arguments={"where": ["here", {"deep": 1}]}),
        ToolCallBlock(id="2", name="look", invalid="{broken"),
        ToolResultBlock(
            call_id="1",
            name="look",
            content=(TextBlock(text="seen"), ImageBlock(media_type="image/gif", data=b"\0")),
            is_error=True,
        ),
    ),
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_every_block_survives_a_round_trip() -> None:
    text = EVERYTHING.model_dump_json()
    again = Message.model_validate_json(text)
    assert again == EVERYTHING
    assert again.model_dump_json() == text
    assert Message.model_validate(json.loads(text)) == EVERYTHING


@given(
    st.text(), st.dictionaries(st.text(), JSON, max_size=4), st.binary(min_size=1), st.datetimes(timezones=st.just(UTC))
)
def test_any_text_arguments_bytes_and_time_survive(
    text: str, values: dict[str, Any], data: bytes, at: datetime
) -> None:
    message = Message(
        role="assistant",
        blocks=(
            TextBlock(text=text),
            ToolCallBlock(id="1", name="t", arguments=values),
            ImageBlock(media_type="image/webp", data=data),
        ),
        at=at,
        metadata=values,
    )
    again = Message.model_validate_json(message.model_dump_json())
    assert again == message
    assert repr(again.metadata) == repr(message.metadata)


def test_the_text_of_a_message_leaves_out_tool_results_and_thinking() -> None:
    assert Message.user([TextBlock(text="one"), TextBlock(text="two")]).text == "one\ntwo"
    assert EVERYTHING.text == "line\r\n\u2028\0 🙂"
    assert Message.tool([ToolResultBlock(call_id="1", content=(TextBlock(text="x"),))]).text == ""


def test_calls_and_results_are_listed_in_order() -> None:
    assert [call.id for call in EVERYTHING.tool_calls] == ["1", "2"]
    assert [result.text for result in EVERYTHING.tool_results] == ["seen"]


def test_dropping_thinking_leaves_the_rest_alone() -> None:
    dropped = EVERYTHING.without_thinking()
    assert not [block for block in dropped.blocks if isinstance(block, ThinkingBlock)]
    assert len(dropped.blocks) == len(EVERYTHING.blocks) - 2
    assert dropped.metadata == EVERYTHING.metadata


def test_a_message_without_thinking_is_returned_as_it_is() -> None:
    message = Message.user("hello")
    assert message.without_thinking() is message


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Message.user("a").role = "tool"  # type: ignore[misc]


@pytest.mark.parametrize(
    "data",
    [
        {"role": "robot"},
        {"role": "user", "blocks": [{"type": "video", "data": "AA=="}]},
        {"role": "user", "blocks": [{"type": "image", "media_type": "image/tiff", "data": "AA=="}]},
        {"role": "user", "blocks": [{"type": "image", "media_type": "image/png", "data": ""}]},
        {"role": "user", "blocks": [{"type": "document", "media_type": "text/html", "data": "AA=="}]},
        {"role": "user", "surprise": 1},
        {"role": "user", "at": "2026-01-01T00:00:00"},
    ],
)
def test_invalid_message_json_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Message.model_validate_json(json.dumps(data))


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(ValidationError, match="timezone"):
        Message.user("a", at=datetime(2026, 1, 1))  # noqa: DTZ001


def test_image_bytes_stay_out_of_the_repr() -> None:
    assert "data" not in repr(ImageBlock(media_type="image/png", data=b"x" * 1000))
