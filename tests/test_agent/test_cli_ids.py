"""Abbreviated ids: a prefix or suffix of an id, and numbers of the terminal's last listing."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import pytest

from tellback.agent.assistant.cli.prompts import chosen_numbers
from tellback.memory import Memory, Message, open_memory, run_sync
from tests.support.command_line import CommandLine


@pytest.fixture
def terminal() -> Iterator[None]:
    """Let standard input of the process be a terminal, as the system sees it."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    controller, ours = pty.openpty()
    before = os.dup(0)
    os.dup2(ours, 0)
    yield
    os.dup2(before, 0)
    for descriptor in (before, controller, ours):
        os.close(descriptor)


def listing_file() -> Path:
    """Return the one file that holds lists of terminals."""
    (path,) = (platformdirs.user_state_path("tellback") / "listings").iterdir()
    return path


def remember_with_ids(tellback: CommandLine, *ids: str) -> None:
    memory = open_memory(tellback.path)
    run_sync(memory.remember_many([Memory(f"This is {id}.", id=id) for id in ids]))
    run_sync(memory.close())


# Prefix or suffix of an id


def test_an_id_may_be_abbreviated_to_a_unique_prefix_or_suffix(tellback: CommandLine) -> None:
    ids = [tellback.json("remember", f"Fact number {number}.")["id"] for number in range(3)]
    assert tellback.json("memories", "show", ids[1][-5:])["id"] == ids[1]
    assert tellback.json("memories", "show", ids[2][:-1])["id"] == ids[2]
    shown = tellback("memories", "list").out.splitlines()[1:]
    assert [line.split()[1] for line in shown] == [id[-5:] for id in reversed(ids)]
    tellback("correct", shown[0].split()[1], "Fact number two.")
    revision = tellback.json("memories", "history", ids[2][-6:])["versions"][1]["id"].partition("@")[2]
    assert tellback("memories", "show", f"{ids[2][-5:]}@{revision}").out.startswith("Fact number 2.\n")
    operation = tellback.json("memories", "operations")["operations"][0]["id"]
    assert tellback("undo", operation[-5:]).out.startswith(f"took back {operation}\n")
    assert tellback.json("forget", ids[0][-5:], "--yes")["memories"] == [ids[0]]


def test_an_ambiguous_id_prefix_or_suffix_is_refused_and_names_the_matches(tellback: CommandLine) -> None:
    remember_with_ids(tellback, "garden-north", "garden-south", "window-north")
    done = tellback("forget", "garden", "--yes")
    assert (done.code, done.out) == (2, "")
    assert "several ids begin or end like this: garden-north, garden-south" in done.err
    assert tellback.json("memories", "show", "window")["id"] == "window-north"
    remember_with_ids(tellback, "garden")
    assert tellback.json("memories", "show", "garden")["id"] == "garden"  # a whole id comes first
    assert tellback("memories", "show", "gar").code == 2  # too short for a prefix
    assert tellback.json("memories")["total"] == 4


def test_a_session_may_be_named_by_an_id_prefix_or_a_list_number(tellback: CommandLine, terminal: None) -> None:
    for session in ("0a1b2c3d-1111-4222-8333-444455556666", "holiday"):
        tellback.remember_turn(session, Message.user("Where is the boat?"))
    assert tellback.json("sessions", "show", "0a1b")["session"].startswith("0a1b2c3d")
    assert [line.split()[1] for line in tellback("sessions").out.splitlines()[1:]] == ["holiday", "56666"]
    assert tellback.json("sessions", "show", "2")["session"].endswith("56666")
    assert tellback.json("memories", "list", "--session", "56666")["total"] == 1


# Numbers of the last listing


def test_a_number_stands_for_that_line_of_the_last_listing(tellback: CommandLine, terminal: None) -> None:
    ids = [tellback.json("remember", f"Fact number {number}.")["id"] for number in range(3)]
    tellback("memories", "list")
    assert tellback.json("memories", "show", "#1")["id"] == tellback.json("memories", "show", "1")["id"] == ids[2]
    found = tellback("recall", "fact number 0", "-k", "1")
    assert found.out.startswith("1. Fact number 0.")
    done = tellback("forget", "1", "--yes")
    assert (done.code, done.out) == (0, "forgot 1 memory\n")
    assert done.err == f"#1 is {ids[0]}: Fact number 0.\n"
    assert tellback("memories", "show", "4").code == 2
    path = listing_file()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "Fact" not in path.read_text()


def test_a_list_number_is_refused_for_a_changed_memory_an_old_list_or_another_namespace(
    tellback: CommandLine, terminal: None
) -> None:
    id = tellback.json("remember", "The plumber comes on Friday.")["id"]
    tellback("memories", "list")
    tellback("correct", id, "The plumber comes on Monday.")
    assert "#1: it was changed or removed since" in tellback("forget", "#1", "--yes").err
    assert tellback("--namespace", "ana", "memories", "show", "1").code == 2
    tellback("memories", "list")
    path = listing_file()
    lists = json.loads(path.read_text())
    for minutes, to_read, to_change in ((5, 0, 0), (20, 0, 2), (70, 2, 2)):
        lists["memories"]["at"] = time.time() - 60 * minutes
        path.write_text(json.dumps(lists))
        assert tellback("memories", "show", "1").code == to_read
        assert tellback("memories", "pin", "1").code == to_change
        tellback("memories", "unpin", id)
        lists["memories"]["revisions"] = [tellback.json("memories", "show", id)["revision"]]
    assert tellback.json("memories")["total"] == 1


def test_without_a_terminal_a_number_is_refused(tellback: CommandLine) -> None:
    tellback.json("remember", "The plumber comes on Friday.")
    tellback("memories", "list")
    done = tellback("forget", "#1", "--yes")
    assert (done.code, "numbers are of lists on a terminal; give the id" in done.err) == (2, True)
    assert not platformdirs.user_state_path("tellback").exists()


@pytest.mark.parametrize(
    ("answer", "numbers"),
    [
        ("2\n", [2]),
        ("1 3-4", [1, 3, 4]),
        ("4,1", [1, 4]),
        ("all", [1, 2, 3, 4]),
        ("all -2 -4", [1, 3]),
        ("all -1-3", [4]),
        ("\n", []),
        ("", []),
        *((bad, None) for bad in ("5", "0", "x", "3-1", "1-9", "-", "y", "²")),
    ],
)
def test_a_selection_of_list_numbers_may_have_ranges_all_and_exceptions(answer: str, numbers: list[int] | None) -> None:
    if numbers is None:
        with pytest.raises(ValueError, match=r"is not a number|is not in the list"):
            chosen_numbers(answer, 4)
    else:
        assert chosen_numbers(answer, 4) == numbers
