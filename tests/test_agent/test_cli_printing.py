"""Output of the command line: escaped control characters, stable JSON, tables that fit."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.agent.assistant.cli.output import (
    escape_controls,
    escape_json_controls,
    format_count,
    format_day,
    format_minute,
    one_line,
    print_json,
    print_table,
    print_text,
    score_line,
)

HARMFUL = [
    ("\x1b[2J", r"\x1b[2J"),
    ("\x9b31m", r"\x9b31m"),
    ("a\rb", r"a\x0db"),
    ("\x07\x08\x7f", r"\x07\x08\x7f"),
    ("\u202etxt.exe\u202c", r"\u202etxt.exe\u202c"),
    ("\u2066\u2069\u200f\u061c", r"\u2066\u2069\u200f\u061c"),
    ("zero\u200bwidth\ufeff", r"zero\u200bwidth\ufeff"),
    ("\u2028line", r"\u2028line"),
    ("\U000e0041tag", r"\U000e0041tag"),
    ("half \ud800", r"half \ud800"),
]


class Terminal(io.TextIOWrapper):
    """A standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("text", "shown"), HARMFUL)
def test_control_and_invisible_characters_are_printed_as_escapes(text: str, shown: str) -> None:
    assert escape_controls(text) == shown


@pytest.mark.parametrize("text", ["plain", "two\nlines\tand a tab", "Größe", "日本語", "👩‍👩‍👧", "می‌خواهم", "שלום"])
def test_ordinary_text_of_any_language_stays_as_it_is(text: str) -> None:
    assert escape_controls(text) == text


def test_line_ends_of_windows_are_line_ends() -> None:
    assert escape_controls("one\r\ntwo") == "one\ntwo"


@given(st.text())
def test_nothing_printed_holds_a_control_or_a_direction_mark(text: str) -> None:
    shown = escape_controls(text)
    assert not set(shown) & set("\x1b\x07\x08\r\x7f\x9b\u202e\u2066\u200b\ufeff")
    assert escape_controls(shown) == shown
    assert "\n" not in one_line(text)


@given(st.text(st.characters(exclude_categories=())))
def test_json_keeps_its_value_and_is_safe_to_print(text: str) -> None:
    printed = escape_json_controls(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(printed) == {"text": text}
    assert escape_controls(printed) == printed
    printed.encode()


def test_json_is_one_line_with_times_in_iso_8601(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"at": datetime(2026, 5, 3, 18, 30, tzinfo=UTC), "text": "a\nb", "none": None})
    assert capsys.readouterr().out == '{"at": "2026-05-03T18:30:00+00:00", "text": "a\\nb", "none": null}\n'


def test_printing_an_arbitrary_object_as_json_raises_a_type_error() -> None:
    with pytest.raises(TypeError, match="object has no JSON form"):
        print_json({"thing": object()})


def test_json_is_ascii_where_the_output_is_not_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    print_json({"text": "日本"})
    assert written.getvalue() == b'{"text": "\\u65e5\\u672c"}\n'


def test_further_lines_are_indented(capsys: pytest.CaptureFixture[str]) -> None:
    print_text("first\nsecond", indent="    ")
    assert capsys.readouterr().out == "first\n    second\n"


def test_a_table_is_whole_where_it_is_asked_for_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    long = "word " * 100
    print_table(("id", "text"), [("a", long), ("bcd", "x\ny")], full=True)
    assert capsys.readouterr().out.splitlines() == ["id   text", f"a    {long.strip()}", "bcd  x y"]


def test_a_table_on_a_narrow_terminal_leaves_out_columns_before_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Terminal(written, encoding="utf-8"))
    monkeypatch.setenv("COLUMNS", "40")
    print_table(("id", "who", "text"), [("a", "a very long name of somebody else", "漢字" * 40), ("b", "Ana", "short")])
    lines = written.getvalue().decode().splitlines()
    assert lines[0].split() == ["id", "text"]
    assert [line.count("…") for line in lines] == [0, 1, 0]
    assert lines[0].index("text") == lines[2].index("short")


def test_ids_are_whole_on_a_terminal_and_an_empty_column_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Terminal(written, encoding="utf-8"))
    monkeypatch.setenv("COLUMNS", "80")
    session, other = "c301d64a-f69d-4573-b681-5ac4824b0cd9", "8"
    rows = [(session, "2026-11-22 04:47", "", "2", "word " * 20), (other, "2026-11-22 04:47", "", "12", "")]
    print_table(("session", "used last", "who", "messages", "begins"), rows, whole=1)
    lines = written.getvalue().decode().splitlines()
    assert lines[0].split() == ["session", "used", "last", "begins"]
    assert lines[1].startswith(session)
    assert max(map(len, lines)) <= 80


def test_long_lines_on_a_terminal_are_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", Terminal(written, encoding="utf-8"))
    monkeypatch.setenv("COLUMNS", "30")
    print_text("7 added, 1 skipped, 5 unreadable; 7 chunks\n漢字 " + "漢" * 20)
    assert written.getvalue().decode().splitlines() == [
        "7 added, 1 skipped, 5",
        "unreadable; 7 chunks",
        "漢字",
        "漢" * 15,
        "漢" * 5,
    ]


def test_times_at_the_ends_of_the_calendar_are_printed() -> None:
    ends = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), datetime(9999, 12, 31, 23, tzinfo=UTC)
    assert [(format_day(end)[:4], format_minute(end)[:4]) for end in ends] == [("0001", "0001"), ("9999", "9999")]


@pytest.mark.parametrize(("count", "words"), [(0, "0 memories"), (1, "1 memory"), (2, "2 memories")])
def test_format_count_uses_singular_and_plural(count: int, words: str) -> None:
    assert format_count(count, "memory", "memories") == words


def test_a_score_that_rounds_to_zero_has_no_sign() -> None:
    assert score_line(-0.001, {"words": -0.001}) == "0.00"
    assert score_line(-0.25, {"words": 0.05, "meaning": -0.3}) == "-0.25 = words 0.05 - meaning 0.30"
