"""Commands that change memories, undo changes, and list versions and operations: in process, on a real file."""

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

from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.assistant.cli.output import format_minute

Tellback = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tellback(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Tellback:
    """The command line on a memory file of its own: code, output, notes; *said* is typed on a terminal."""

    def command(*arguments: str, said: str | None = None) -> tuple[int, str, str]:
        typed = io.StringIO(said or "")
        monkeypatch.setattr(typed, "isatty", lambda: said is not None)
        monkeypatch.setattr(sys, "stdin", typed)
        code = run_command_line(["--memory", str(tmp_path / "m.db"), *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return command


def answered(tellback: Tellback, *arguments: str) -> dict[str, Any]:
    code, out, err = tellback(*arguments, "--json")
    assert (code, err) == (0, "")
    answer: dict[str, Any] = json.loads(out)
    return answer


def kept(tellback: Tellback, text: str, *options: str) -> str:
    return str(answered(tellback, "remember", text, *options)["id"])


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


def test_each_memories_command_changes_its_field_and_its_opposite_restores_it(tellback):
    id = kept(tellback, "Ana lives in Porto.")
    before = answered(tellback, "memories", "show", id)
    for do, _, _, _ in MARKS:
        assert answered(tellback, "memories", do[0], id, *do[1:])["operation"]
    changed = answered(tellback, "memories", "show", id)
    for _, undo, field, value in MARKS:
        shown = changed[field]
        if isinstance(value, datetime):
            shown = datetime.fromisoformat(shown)  # in the zone of this machine
        assert shown == value, field
        code, out, err = tellback("memories", undo[0], id, *undo[1:])
        assert (code, err.startswith("take it back with: tellback undo ")) == (0, True)
        assert id in out
        assert answered(tellback, "memories", undo[0], id, *undo[1:])["operation"] is None, field
    restored = answered(tellback, "memories", "show", id)
    assert [restored[field] for *_, field, _ in MARKS] == [before[field] for *_, field, _ in MARKS]


def test_pinning_several_memories_names_those_already_pinned(tellback):
    item, other = kept(tellback, "Ana lives in Porto."), kept(tellback, "Ben lives in Faro.")
    tellback("memories", "pin", item)
    assert tellback("memories", "pin", item, other)[1].splitlines() == [f"pinned {other}", f"nothing to change: {item}"]
    assert answered(tellback, "memories", "pin", item)["changed"] == []


BAD_INPUT = [
    (["memories", "importance", "ID", "--set", "much"], "--set"),
    (["memories", "importance", "ID", "--set", "2"], "importance"),
    (["memories", "expire", "ID", "--at", "soon"], "--at"),
    (["memories", "end", "ID", "--at", "soon"], "--at"),
    (["memories", "merge", "ID", "--text", "x"], "two or more"),
    (["memories", "merge", "ID", "nope", "--text", "x"], "nope"),
    (["memories", "pin", "nope"], "nope"),
    (["memories", "list", "--since", "soon"], "--since"),
    (["memories", "list", "--trust", "nobody"], "trust"),
    (["memories", "list", "--sort", "random"], "--sort"),
    (["memories", "list", "--sort", "newest", "--after", "x"], "after"),
    (["memories", "operations", "--before", "nope"], "operation"),
    (["undo", "nope"], "operation"),
    (["correct", "ID", "x", "--valid-from", "soon"], "--valid-from"),
]


def test_bad_input_of_a_memories_command_is_one_error_line_that_names_it(tellback):
    id = kept(tellback, "Ana lives in Porto.")
    for arguments, named in BAD_INPUT:
        code, out, err = tellback(*(id if argument == "ID" else argument for argument in arguments))
        assert (code, out, err.count("\n")) == (2, "", 1), arguments
        assert named in err, arguments
    assert len(answered(tellback, "memories", "operations")["operations"]) == 1


def test_merging_makes_one_memory_and_undo_restores_both(tellback):
    item, other = kept(tellback, "Ana lives in Porto."), kept(tellback, "Ana has a cat.")
    report = answered(tellback, "memories", "merge", item, other, "--text", "Ana lives in Porto with a cat.")
    assert (report["id"], report["merged"]) == (item, [other])
    (listed,) = answered(tellback, "memories")["memories"]
    assert (listed["text"], listed["derived_from"]) == ("Ana lives in Porto with a cat.", [listed["supersedes"], other])
    code, out, err = tellback("undo", report["operation"])
    assert (code, out.splitlines()[0]) == (0, f"took back {report['operation']}")
    assert err.startswith("do it again with: tellback undo ")
    assert [found["text"] for found in answered(tellback, "memories")["memories"]] == [
        "Ana has a cat.",
        "Ana lives in Porto.",
    ]
    assert tellback("memories", "merge", item, other, "--text", "Both.")[1] == f"merged into {item}: {other}\n"


def test_undo_without_an_id_shows_the_last_active_operation_and_asks_for_confirmation(tellback):
    id = kept(tellback, "Ana lives in Porto.")
    tellback("correct", id, "Ana lives in Faro.", "--valid-from", "2025-03-01")
    pinned = answered(tellback, "memories", "pin", id)["operation"]
    code, out, err = tellback("undo", said="no\n")
    assert (code, out) == (1, "")
    assert f"{pinned}" in err
    assert "pin by user" in err
    assert "Ana lives in Faro." in err
    assert tellback("undo")[0] == 2  # no terminal, no --yes
    assert tellback("undo", said="y\n")[1].startswith(f"took back {pinned}\n")
    assert answered(tellback, "undo", "--yes")["undoes"] != pinned
    assert answered(tellback, "memories", "show", id)["text"] == "Ana lives in Porto."
    assert tellback("undo", "--yes")[0] == 0
    code, out, err = tellback("undo", "--yes")
    assert (code, out) == (2, "")
    assert "nothing to take back" in err
    assert tellback("memories")[1] == "Nothing is remembered yet.\n"


def test_undo_takes_back_a_forgetting_in_its_time_of_grace_and_passes_over_a_final_one(tellback):
    other, id = kept(tellback, "The roof leaks."), kept(tellback, "Ana lives in Porto.")
    forgotten = answered(tellback, "forget", id, "--grace", "7d", "--yes")["operation"]
    code, out, err = tellback("undo", "--yes")
    assert (code, out.splitlines()[0], err) == (0, f"took back {forgotten}", "")
    assert answered(tellback, "memories", "show", id)["text"] == "Ana lives in Porto."
    tellback("forget", id, "--yes")
    assert "passed over" in tellback("undo", "--yes")[2]
    assert tellback("memories")[1] == "Nothing is remembered yet.\n"
    assert answered(tellback, "memories", "history", other)["operations"][0]["kind"] == "undo"


def test_undoing_an_overlaid_operation_names_the_operation_in_the_way(tellback):
    id = kept(tellback, "Ana lives in Porto.")
    first = answered(tellback, "correct", id, "Ana lives in Faro.")["operation"]
    second = answered(tellback, "correct", id, "Ana lives in Beja.")["operation"]
    code, out, err = tellback("undo", first)
    assert (code, out) == (2, "")
    assert f"by correct {second}; undo that first" in err


def test_history_lists_versions_and_operations(tellback):
    id = kept(tellback, "Ana lives in Porto.")
    operation = answered(tellback, "correct", id, "Ana lives in Faro.")["operation"]
    undone = answered(tellback, "undo", operation)["id"]
    given = answered(tellback, "memories", "history", id)
    assert [item["text"] for item in given["versions"]] == [
        "Ana lives in Porto.",
        "Ana lives in Faro.",
        "Ana lives in Porto.",
    ]
    assert [item["kind"] for item in given["operations"]] == ["undo", "correct", "remember"]
    lines = tellback("memories", "history", id)[1].splitlines()
    assert lines[1].endswith("Ana lives in Faro.  (taken back)")
    assert lines[2] == f"  as {given['versions'][1]['id']}"
    assert lines[5].endswith(f"undo by user  (takes back {operation})")
    assert lines[6].endswith(f"correct by user  (taken back by {undone})")


def test_history_shows_what_each_operation_changed_and_when_each_version_was_valid(tellback):
    def here(text: str) -> str:
        return format_minute(datetime.fromisoformat(text))

    id = kept(tellback, "Ana lives in Porto.", "--tag", "home", "--importance", "0.5")
    other = kept(tellback, "Ana has a cat.")
    tellback("memories", "tag", id, other, "--tag", "city", "--tag", "sea")
    tagged = tellback("memories", "untag", id, "--tag", "home")[2].split()[-1]
    tellback("memories", "importance", id, "--set", "0.75")
    tellback("memories", "importance", id, "--set", "none")
    tellback("memories", "expire", id, "--at", "2099-05-01T12:00+00:00")
    tellback("memories", "expire", id, "--at", "never")
    tellback("undo", tagged)
    tellback("correct", id, "Ana lives in Faro.", "--valid-from", "2025-03-01", "--valid-to", "2099-01-01")
    tellback("memories", "merge", id, other, "--text", "Ana lives in Faro with a cat.")
    lines = tellback("memories", "history", id)[1].splitlines()
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
    assert f"merge by user: into {id}" in tellback("memories", "history", other)[1]
    code, out, err = tellback("memories", "show", other)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"see `tellback memories history {other}`" in err


def test_the_operation_log_of_an_unknown_memory_is_reported_as_unknown(tellback):
    kept(tellback, "Ana lives in Porto.")
    assert tellback("memories", "operations", "--of", "nope")[1] == "Nothing is known of a memory nope.\n"
    assert tellback("--namespace", "ben", "memories", "operations")[1] == "Nothing was done yet.\n"


def test_times_in_the_first_and_last_year_are_accepted(tellback):
    id = kept(tellback, "Ana lives in Porto.")
    for moment in ("0001-01-01", "9999-12-31T23:59:59", "0001-01-01T00:00+14:00"):
        assert tellback("memories", "list", "--as-of", moment, "--known-at", moment)[0] == 0
        assert tellback("memories", "expire", id, "--at", moment)[0] == 0
    assert answered(tellback, "memories", "show", id)["expires_at"].startswith("0001-01-01")


@pytest.mark.parametrize("command", [["memories"], ["sessions"], []])
def test_the_help_of_each_command_is_not_truncated_at_eighty_columns(tellback, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    out = tellback(*command, "--help")[1]
    assert [line for line in out.splitlines() if line.endswith("...") and "Usage" not in line] == []
    assert max(map(len, out.splitlines())) <= 80


def test_the_operation_log_is_listed_page_by_page_without_memory_texts(tellback):
    ids = [kept(tellback, f"The code of safe {number} is 4711.") for number in range(3)]
    page = answered(tellback, "memories", "operations", "--limit", "2")
    assert [item["changes"][0]["id"] for item in page["operations"]] == ids[:0:-1]
    rest = answered(tellback, "memories", "operations", "--before", page["next"])
    assert ([item["changes"][0]["id"] for item in rest["operations"]], rest["next"]) == (ids[:1], None)
    assert len(answered(tellback, "memories", "operations", "--of", ids[0])["operations"]) == 1
    code, out, err = tellback("memories", "operations", "--limit", "2")
    assert (code, len(out.splitlines())) == (0, 3)
    assert f"--before {page['next']}" in err
    assert "4711" not in out


def test_memories_list_applies_its_filters_and_pages_by_time(tellback):
    old = kept(tellback, "Ana lived in Porto.", "--at", "2020-05-01", "--tag", "home", "--kind", "event")
    new = kept(tellback, "Ana lives in Faro.", "--at", "2024-05-01")
    tellback("memories", "pin", new)

    def ids(*options: str) -> list[str]:
        return [item["id"] for item in answered(tellback, "memories", "list", *options)["memories"]]

    assert ids("--tag", "home") == ids("--kind", "event") == ids("--before", "2021-01-01") == [old]
    assert ids("--pinned") == ids("--since", "2021-01-01") == ids("--contains", "FARO") == [new]
    assert ids("--not-pinned", "--not-disabled", "--not-expired") == [old]
    assert ids("--disabled") == ids("--expired") == ids("--session", "s") == []
    assert ids("--sort", "newest") == ids("--trust", "user", "--sort", "oldest")[::-1] == [new, old]
    page = answered(tellback, "memories", "list", "--sort", "newest", "--limit", "1")
    assert (page["total"], page["memories"][0]["id"]) == (2, new)
    assert ids("--sort", "newest", "--after", page["next"]) == [old]
    _, out, err = tellback("memories", "list", "--sort", "newest", "--limit", "1")
    assert f"go on with: tellback memories list --limit 1 --after {page['next']}" in err
    assert "fact pinned" in out
    assert tellback("memories", "list", "--tag", "none")[1] == "Nothing like that is remembered.\n"


def test_the_hint_for_the_next_page_repeats_all_filters(tellback):
    for number in range(3):
        kept(
            tellback,
            f"It's note {number}.",
            "--kind",
            "my note",
            "--scope",
            "project=garden",
            "--at",
            f"2024-05-0{number + 1}",
        )
    kept(tellback, "It's a note.", "--kind", "my note", "--scope", "project=work")
    asked = ["--kind", "my note", "--kind", "x", "--scope", "project=garden", "--contains", "it's", "--not-pinned"]
    asked += ["--since", "2024-01-01", "--where", '{"actor": "user"}', "--sort", "newest", "--limit", "1"]
    seen = []
    arguments = ["memories", "list", *asked]
    while True:
        _, out, err = tellback(*arguments)
        seen.append(out.splitlines()[1].split("  ")[-1])
        if "go on with: tellback " not in err:
            break
        arguments = shlex.split(err.partition("go on with: tellback ")[2])
    assert seen == ["It's note 2.", "It's note 1.", "It's note 0."]
    assert answered(tellback, "memories", "list", "--scope", "project=work")["memories"][0]["scopes"] == {
        "project": "work"
    }


def test_memories_list_as_of_a_time_shows_the_version_valid_then(tellback):
    id = kept(tellback, "Ana lives in Porto.")
    tellback("correct", id, "Ana lives in Faro.", "--valid-from", "2025-03-01")
    then = answered(tellback, "memories", "list", "--as-of", "2025-02-01")["memories"]
    assert [item["text"] for item in then] == ["Ana lives in Porto."]
    assert answered(tellback, "memories", "list", "--known-at", "2001-01-01")["total"] == 0


def test_stats_count_one_namespace(tellback):
    kept(tellback, "Ana lives in Porto.", "--tag", "home", "--at", "2024-05-01")
    id = kept(tellback, "Ana has a cat.", "--kind", "note")
    tellback("correct", id, "Ana has two cats.")
    tellback("memories", "disable", id)
    counts = answered(tellback, "memories", "stats")
    assert (counts["memories"], counts["lanes"]["archive"], counts["disabled"]) == (2, 1, 1)
    assert (counts["kinds"], counts["tags"]) == ({"fact": 1, "note": 1}, {"home": 1})
    out = tellback("memories", "stats")[1]
    assert out.startswith("2 memories, 1 earlier version\n  from 2024-05-01 to ")
    assert "  1 disabled\n" in out
    assert answered(tellback, "--namespace", "ben", "memories", "stats")["memories"] == 0


def test_recall_and_stats_keep_to_a_scope(tellback: Tellback) -> None:
    roses = kept(tellback, "The roses need water.", "--scope", "project=garden")
    kept(tellback, "The office plant needs water.", "--scope", "project=work")
    hits = answered(tellback, "recall", "Which plants need water?", "--scope", "project=garden")["hits"]
    assert [hit["id"] for hit in hits] == [roses]
    assert answered(tellback, "memories", "stats", "--scope", "project=work")["memories"] == 1
    code, _, err = tellback("recall", "What?", "--scope", "garden")
    assert (code, "NAME=VALUE" in err) == (2, True)


def test_recall_honours_as_of_and_known_at(tellback: Tellback) -> None:
    id = kept(tellback, "My office is in the old harbour.")
    answered(tellback, "correct", id, "My office is in the new tower.")
    hits = answered(tellback, "recall", "Where is my office?", "--known-at", "2000-01-01")["hits"]
    assert hits == []
    hits = answered(tellback, "recall", "Where is my office?", "--as-of", "2099-01-01")["hits"]
    assert [hit["text"] for hit in hits] == ["My office is in the new tower."]
    code, _, err = tellback("recall", "What?", "--as-of", "soon")
    assert (code, "2026-05-03" in err) == (2, True)


def test_undo_skips_operations_that_cannot_be_undone_and_names_them(tellback, tmp_path):
    id = kept(tellback, "Ana lives in Porto.")
    tellback("memories", "tag", id, "--tag", "family")
    gone = kept(tellback, "The safe has the code 4711.")
    answered(tellback, "forget", gone, "--yes")
    assert tellback("export", str(tmp_path / "export.jsonl"))[0] == 0
    code, out, err = tellback("undo", "--yes")
    assert (code, out.splitlines()[1].strip().startswith(id)) == (0, True)
    passed = [line for line in err.splitlines() if line.startswith("passed over ")]
    assert [line.split("  ")[2].split()[0] for line in passed] == ["export", "forget", "remember"]
    assert passed[1].endswith(": what was forgotten is gone for good")
    assert answered(tellback, "memories", "show", id)["tags"] == []
    assert tellback("undo", "--yes")[0] == 0
    code, out, err = tellback("undo", "--yes")
    assert (code, out, "there is nothing to take back" in err) == (2, "", True)


def test_a_superseded_memory_is_recalled_for_its_time_and_restored_by_undo(tellback: Tellback) -> None:
    old = kept(tellback, "I live in Lisbon.", "--at", "2025-01-01")
    code, out, err = tellback("remember", "The boxes are in Porto.", "--at", "2025-06-01", "--replaces", old)
    assert code == 0
    assert "I live in Lisbon." in out
    now, then = (answered(tellback, "recall", "live", *when) for when in ([], ["--as-of", "2025-03-01"]))
    assert [[hit["text"] for hit in found["hits"]] for found in (now, then)] == [
        ["The boxes are in Porto."],
        ["I live in Lisbon."],
    ]
    assert "replaced by" in tellback("memories", "history", old)[1]
    (undo,) = [line.partition(": ")[2] for line in err.splitlines() if "take it back with" in line]
    assert tellback(*shlex.split(undo)[1:])[0] == 0
    assert answered(tellback, "memories", "show", old)["valid_to"] is None
    assert tellback("remember", "A", "--replaces", "nothing-like-it")[0] != 0


def test_people_are_added_listed_and_split_again(tellback: Tellback) -> None:
    id = answered(tellback, "memories", "people", "add", "Lena", "my wife")["id"]
    (person,) = answered(tellback, "memories", "people")["people"]
    assert (person["name"], person["role"], person["memory"]["id"]) == ("Lena", "my wife", id)
    assert "Lena" in tellback("memories", "people")[1]
    assert tellback("memories", "people", "add", "Lena", "my boss")[0] != 0
    assert "Lena, my wife" in tellback("memories", "people", "split", "Mara", "my wife")[2]
    _, _, err = tellback("memories", "people", "split", "lena", "wife")
    assert answered(tellback, "memories", "people") == {"people": []}
    assert tellback(*shlex.split(err.partition("with: ")[2])[1:])[0] == 0
    assert len(answered(tellback, "memories", "people")["people"]) == 1


@pytest.mark.parametrize(("name", "role"), [("Jan Kowalski", "mein Bruder"), ("Ana", "mi hermana")])
def test_a_person_is_added_in_a_sentence_that_is_understood(tellback: Tellback, name: str, role: str) -> None:
    answered(tellback, "memories", "people", "add", name, role)
    (person,) = answered(tellback, "memories", "people")["people"]
    assert (person["name"], person["role"]) == (name, role)


def test_conflicts_are_listed_with_the_command_that_resolves_them(tellback: Tellback) -> None:
    old = kept(tellback, "The wifi password is tulip.", "--at", "2025-01-01", "--allow-sensitive")
    new = kept(tellback, "The wifi password is rose.", "--at", "2025-06-01", "--allow-sensitive")
    (conflict,) = answered(tellback, "memories", "conflicts")["conflicts"]
    assert conflict["ids"] == [new, old]
    _, out, err = tellback("memories", "conflicts")
    assert "tulip" in out
    command = err.strip().partition("hold: ")[2]
    code, out, _ = tellback(*shlex.split(command)[1:])
    assert (code, "held until" in out) == (0, True)
    assert answered(tellback, "memories", "conflicts") == {"conflicts": []}
    assert "No memories contradict" in tellback("memories", "conflicts")[1]
