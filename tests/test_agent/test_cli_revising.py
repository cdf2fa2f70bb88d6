"""Commands that change what is remembered, take that back, and tell what was done: in process, on a real file."""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.assistant.cli.app import run_command_line
from agent.assistant.cli.output import format_minute

Mneme = Callable[..., tuple[int, str, str]]


@pytest.fixture
def mneme(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Mneme:
    """The command line on a memory file of its own: code, output, notes; *said* is typed on a terminal."""

    def command(*arguments: str, said: str | None = None) -> tuple[int, str, str]:
        typed = io.StringIO(said or "")
        monkeypatch.setattr(typed, "isatty", lambda: said is not None)
        monkeypatch.setattr(sys, "stdin", typed)
        code = run_command_line(["--memory", str(tmp_path / "m.db"), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def answered(mneme: Mneme, *arguments: str) -> dict[str, Any]:
    code, out, err = mneme(*arguments, "--json")
    assert (code, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


def kept(mneme: Mneme, text: str, *options: str) -> str:
    return str(answered(mneme, "remember", text, *options)["id"])


MARKS = [
    (["pin"], ["unpin"], "pinned", True),
    (["disable"], ["enable"], "disabled", True),
    (["tag", "--tag", "a", "--tag", "b"], ["untag", "--tag", "b", "--tag", "a"], "tags", ["a", "b"]),
    (["importance", "--set", "0.5"], ["importance", "--set", "none"], "importance", 0.5),
    (
        ["expire", "--at", "2099-05-01T12:00:30+00:00"],
        ["expire", "--at", "never"],
        "expires_at",
        datetime(2099, 5, 1, 12, 0, 30, tzinfo=UTC),
    ),
    (
        ["end", "--at", "2099-05-01T12:00+00:00"],
        ["end", "--at", "never"],
        "valid_to",
        datetime(2099, 5, 1, 12, tzinfo=UTC),
    ),
]


@pytest.mark.parametrize(("do", "undo", "field", "value"), MARKS)
def test_what_a_command_changes_is_shown_and_its_opposite_changes_it_back(mneme, do, undo, field, value):
    id = kept(mneme, "Ana lives in Porto.")
    before = answered(mneme, "memories", "show", id)[field]
    assert answered(mneme, "memories", do[0], id, *do[1:])["operation"]
    shown = answered(mneme, "memories", "show", id)[field]
    if isinstance(value, datetime):
        shown = datetime.fromisoformat(shown)  # in the zone of this machine
    assert shown == value
    code, out, err = mneme("memories", undo[0], id, *undo[1:])
    assert (code, err.startswith("take it back with: mneme undo ")) == (0, True)
    assert id in out
    assert answered(mneme, "memories", "show", id)[field] == before
    assert answered(mneme, "memories", undo[0], id, *undo[1:])["operation"] is None


def test_several_are_marked_at_once_and_those_that_were_are_named(mneme):
    one, other = kept(mneme, "Ana lives in Porto."), kept(mneme, "Ben lives in Faro.")
    mneme("memories", "pin", one)
    assert mneme("memories", "pin", one, other)[1].splitlines() == [f"pinned {other}", f"nothing to change: {one}"]
    assert answered(mneme, "memories", "pin", one)["changed"] == []


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["memories", "importance", "ID", "--set", "much"], "--set"),
        (["memories", "importance", "ID", "--set", "2"], "importance"),
        (["memories", "expire", "ID", "--at", "soon"], "--at"),
        (["memories", "end", "ID", "--at", "soon"], "--at"),
        (["memories", "merge", "ID", "--text", "x"], "two or more"),
        (["memories", "merge", "ID", "nope", "--text", "x"], "nope"),
        (["memories", "pin", "nope"], "nope"),
        (["memories", "list", "--since", "soon"], "--since"),
        (["memories", "list", "--trust", "nobody"], "trust"),
        (["memories", "list", "--order", "random"], "--order"),
        (["memories", "list", "--order", "newest", "--after", "x"], "after"),
        (["memories", "operations", "--before", "nope"], "operation"),
        (["undo", "nope"], "operation"),
        (["correct", "ID", "x", "--valid-from", "soon"], "--valid-from"),
    ],
)
def test_bad_input_is_one_line_that_names_it(mneme, arguments, named):
    id = kept(mneme, "Ana lives in Porto.")
    code, out, err = mneme(*(id if one == "ID" else one for one in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert named in err
    assert len(answered(mneme, "memories", "operations")["operations"]) == 1


def test_merged_memories_are_one_and_undo_parts_them(mneme):
    one, other = kept(mneme, "Ana lives in Porto."), kept(mneme, "Ana has a cat.")
    report = answered(mneme, "memories", "merge", one, other, "--text", "Ana lives in Porto with a cat.")
    assert (report["id"], report["merged"]) == (one, [other])
    (listed,) = answered(mneme, "memories")["memories"]
    assert (listed["text"], listed["derived_from"]) == ("Ana lives in Porto with a cat.", [listed["supersedes"], other])
    code, out, err = mneme("undo", report["operation"])
    assert (code, out.splitlines()[0]) == (0, f"took back {report['operation']}")
    assert err.startswith("do it again with: mneme undo ")
    assert [found["text"] for found in answered(mneme, "memories")["memories"]] == [
        "Ana lives in Porto.",
        "Ana has a cat.",
    ]
    assert mneme("memories", "merge", one, other, "--text", "Both.")[1] == f"merged into {one}: {other}\n"


def test_undo_alone_shows_the_last_that_stands_and_asks(mneme):
    id = kept(mneme, "Ana lives in Porto.")
    mneme("correct", id, "Ana lives in Faro.", "--valid-from", "2025-03-01")
    pinned = answered(mneme, "memories", "pin", id)["operation"]
    code, out, err = mneme("undo", said="no\n")
    assert (code, out) == (1, "")
    assert f"{pinned}" in err
    assert "pin by user" in err
    assert "Ana lives in Faro." in err
    assert mneme("undo")[0] == 2  # no terminal, no --yes
    assert mneme("undo", said="y\n")[1].startswith(f"took back {pinned}\n")
    assert answered(mneme, "undo", "--yes")["undoes"] != pinned
    assert answered(mneme, "memories", "show", id)["text"] == "Ana lives in Porto."
    assert mneme("undo", "--yes")[0] == 0
    code, out, err = mneme("undo", "--yes")
    assert (code, out) == (2, "")
    assert "nothing to take back" in err
    assert mneme("memories")[1] == "Nothing is remembered yet.\n"


def test_what_cannot_be_undone_says_what_is_in_the_way(mneme):
    id = kept(mneme, "Ana lives in Porto.")
    first = answered(mneme, "correct", id, "Ana lives in Faro.")["operation"]
    second = answered(mneme, "correct", id, "Ana lives in Beja.")["operation"]
    code, out, err = mneme("undo", first)
    assert (code, out) == (2, "")
    assert f"by correct {second}; undo that first" in err


def test_history_tells_versions_and_operations(mneme):
    id = kept(mneme, "Ana lives in Porto.")
    operation = answered(mneme, "correct", id, "Ana lives in Faro.")["operation"]
    undone = answered(mneme, "undo", operation)["id"]
    told = answered(mneme, "memories", "history", id)
    assert [one["text"] for one in told["versions"]] == [
        "Ana lives in Porto.",
        "Ana lives in Faro.",
        "Ana lives in Porto.",
    ]
    assert [one["kind"] for one in told["operations"]] == ["undo", "correct", "remember"]
    lines = mneme("memories", "history", id)[1].splitlines()
    assert lines[1].endswith("Ana lives in Faro.  (taken back)")
    assert lines[2] == f"  as {told['versions'][1]['id']}"
    assert lines[5].endswith(f"undo by user  (takes back {operation})")
    assert lines[6].endswith(f"correct by user  (taken back by {undone})")


def test_history_tells_what_each_operation_changed_and_when_a_version_held(mneme):
    def here(text: str) -> str:
        return format_minute(datetime.fromisoformat(text))

    id = kept(mneme, "Ana lives in Porto.", "--tag", "home", "--importance", "0.5")
    other = kept(mneme, "Ana has a cat.")
    mneme("memories", "tag", id, other, "--tag", "city", "--tag", "sea")
    tagged = mneme("memories", "untag", id, "--tag", "home")[2].split()[-1]
    mneme("memories", "importance", id, "--set", "0.75")
    mneme("memories", "importance", id, "--set", "none")
    mneme("memories", "expire", id, "--at", "2099-05-01T12:00+00:00")
    mneme("memories", "expire", id, "--at", "never")
    mneme("undo", tagged)
    mneme("correct", id, "Ana lives in Faro.", "--valid-from", "2025-03-01", "--valid-to", "2099-01-01")
    mneme("memories", "merge", id, other, "--text", "Ana lives in Faro with a cat.")
    lines = mneme("memories", "history", id)[1].splitlines()
    held = f"holds from {here('2025-03-01')} until {here('2099-01-01')}"
    assert [line.endswith(held) for line in lines if line.startswith(f"  as {id}@")] == [True, False]
    did = [line.split("  ")[3].partition(" by user")[::2] for line in lines if " by user" in line]
    assert did == [
        ("merge", f": with {other}"),
        ("correct", ""),
        ("undo", ": tags +home"),
        ("expire", f": expires never (was {here('2099-05-01T12:00+00:00')})"),
        ("expire", f": expires {here('2099-05-01T12:00+00:00')}"),
        ("importance", ": importance none (was 0.75)"),
        ("importance", ": importance 0.75 (was 0.5)"),
        ("untag", ": tags -home"),
        ("tag", ": tags +city +sea"),
        ("remember", ""),
    ]
    assert f"merge by user: into {id}" in mneme("memories", "history", other)[1]
    code, out, err = mneme("memories", "show", other)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"`mneme memories history {other}` tells" in err


def test_the_log_of_a_memory_that_nothing_is_known_of_says_so(mneme):
    kept(mneme, "Ana lives in Porto.")
    assert mneme("memories", "operations", "--memory", "nope")[1] == "Nothing is known of a memory nope.\n"
    assert mneme("memories", "operations", "--namespace", "x")[0] == 2
    assert mneme("--namespace", "ben", "memories", "operations")[1] == "Nothing was done yet.\n"


def test_the_first_and_the_last_year_are_times_too(mneme):
    id = kept(mneme, "Ana lives in Porto.")
    for moment in ("0001-01-01", "9999-12-31T23:59:59", "0001-01-01T00:00+14:00"):
        assert mneme("memories", "list", "--as-of", moment, "--known-at", moment)[0] == 0
        assert mneme("memories", "expire", id, "--at", moment)[0] == 0
    assert answered(mneme, "memories", "show", id)["expires_at"].startswith("0001-01-01")


@pytest.mark.parametrize("command", [["memories"], ["sessions"], []])
def test_what_each_command_does_is_said_whole_at_eighty_columns(mneme, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    out = mneme(*command, "--help")[1]
    assert [line for line in out.splitlines() if line.endswith("...") and "Usage" not in line] == []
    assert max(map(len, out.splitlines())) <= 80


def test_the_log_is_listed_page_by_page_without_words(mneme):
    ids = [kept(mneme, f"The code of safe {number} is 4711.") for number in range(3)]
    page = answered(mneme, "memories", "operations", "--limit", "2")
    assert [one["changes"][0]["id"] for one in page["operations"]] == ids[:0:-1]
    rest = answered(mneme, "memories", "operations", "--before", page["next"])
    assert ([one["changes"][0]["id"] for one in rest["operations"]], rest["next"]) == (ids[:1], None)
    assert len(answered(mneme, "memories", "operations", "--memory", ids[0])["operations"]) == 1
    code, out, err = mneme("memories", "operations", "--limit", "2")
    assert (code, len(out.splitlines())) == (0, 3)
    assert f"--before {page['next']}" in err
    assert "4711" not in out


def test_a_list_keeps_to_what_is_asked_and_pages_by_time(mneme):
    old = kept(mneme, "Ana lived in Porto.", "--at", "2020-05-01", "--tag", "home", "--kind", "event")
    new = kept(mneme, "Ana lives in Faro.", "--at", "2024-05-01")
    mneme("memories", "pin", new)

    def ids(*options: str) -> list[str]:
        return [one["id"] for one in answered(mneme, "memories", "list", *options)["memories"]]

    assert ids("--tag", "home") == ids("--kind", "event") == ids("--before", "2021-01-01") == [old]
    assert ids("--pinned") == ids("--since", "2021-01-01") == ids("--contains", "FARO") == [new]
    assert ids("--not-pinned", "--not-disabled", "--not-expired") == [old]
    assert ids("--disabled") == ids("--expired") == ids("--session", "s") == []
    assert ids("--order", "newest") == ids("--trust", "user", "--order", "oldest")[::-1] == [new, old]
    page = answered(mneme, "memories", "list", "--order", "newest", "--limit", "1")
    assert (page["total"], page["memories"][0]["id"]) == (2, new)
    assert ids("--order", "newest", "--after", page["next"]) == [old]
    _, out, err = mneme("memories", "list", "--order", "newest", "--limit", "1")
    assert f"go on with: mneme memories list --order newest --limit 1 --after {page['next']}" in err
    assert "fact pinned" in out
    assert mneme("memories", "list", "--tag", "none")[1] == "Nothing like that is remembered.\n"


def test_the_next_page_is_named_with_all_that_was_asked(mneme):
    for number in range(3):
        kept(
            mneme,
            f"It's note {number}.",
            "--kind",
            "my note",
            "--scope",
            "project=garden",
            "--at",
            f"2024-05-0{number + 1}",
        )
    kept(mneme, "It's a note.", "--kind", "my note", "--scope", "project=work")
    asked = ["--kind", "my note", "--kind", "x", "--scope", "project=garden", "--contains", "it's", "--not-pinned"]
    asked += ["--since", "2024-01-01", "--where", '{"actor": "user"}', "--order", "newest", "--limit", "1"]
    seen = []
    arguments = ["memories", "list", *asked]
    while True:
        _, out, err = mneme(*arguments)
        seen.append(out.splitlines()[1].split("  ")[-1])
        if "go on with: mneme " not in err:
            break
        arguments = shlex.split(err.partition("go on with: mneme ")[2])
    assert seen == ["It's note 2.", "It's note 1.", "It's note 0."]
    assert answered(mneme, "memories", "list", "--scope", "project=work")["memories"][0]["scopes"] == {
        "project": "work"
    }


def test_a_list_of_another_time_shows_what_held_then(mneme):
    id = kept(mneme, "Ana lives in Porto.")
    mneme("correct", id, "Ana lives in Faro.", "--valid-from", "2025-03-01")
    then = answered(mneme, "memories", "list", "--as-of", "2025-02-01")["memories"]
    assert [one["text"] for one in then] == ["Ana lives in Porto."]
    assert answered(mneme, "memories", "list", "--known-at", "2001-01-01")["total"] == 0


def test_stats_count_one_namespace(mneme):
    kept(mneme, "Ana lives in Porto.", "--tag", "home", "--at", "2024-05-01")
    id = kept(mneme, "Ana has a cat.", "--kind", "note")
    mneme("correct", id, "Ana has two cats.")
    mneme("memories", "disable", id)
    counts = answered(mneme, "memories", "stats")
    assert (counts["memories"], counts["lanes"]["archive"], counts["disabled"]) == (2, 1, 1)
    assert (counts["kinds"], counts["tags"]) == ({"fact": 1, "note": 1}, {"home": 1})
    out = mneme("memories", "stats")[1]
    assert out.startswith("2 memories, 1 earlier version\n  from 2024-05-01 to ")
    assert "  1 disabled\n" in out
    assert answered(mneme, "--namespace", "ben", "memories", "stats")["memories"] == 0


def test_recall_and_stats_keep_to_a_scope(mneme: Mneme) -> None:
    roses = kept(mneme, "The roses need water.", "--scope", "project=garden")
    kept(mneme, "The office plant needs water.", "--scope", "project=work")
    hits = answered(mneme, "recall", "Which plants need water?", "--scope", "project=garden")["hits"]
    assert [hit["id"] for hit in hits] == [roses]
    assert answered(mneme, "memories", "stats", "--scope", "project=work")["memories"] == 1
    code, _, err = mneme("recall", "What?", "--scope", "garden")
    assert (code, "NAME=VALUE" in err) == (2, True)


def test_recall_asks_for_another_time(mneme: Mneme) -> None:
    id = kept(mneme, "My office is in the old harbour.")
    answered(mneme, "correct", id, "My office is in the new tower.")
    hits = answered(mneme, "recall", "Where is my office?", "--known-at", "2000-01-01")["hits"]
    assert hits == []
    hits = answered(mneme, "recall", "Where is my office?", "--as-of", "2099-01-01")["hits"]
    assert [hit["text"] for hit in hits] == ["My office is in the new tower."]
    code, _, err = mneme("recall", "What?", "--as-of", "tomorrow")
    assert (code, "2026-05-03" in err) == (2, True)
