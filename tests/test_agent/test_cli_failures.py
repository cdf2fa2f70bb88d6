"""A failure is one line and a documented exit code; the traceback only where it is asked for."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer

import tellback.memory.http
from tellback import agent, vectorstore
from tellback.agent import Ending, MemoryUnavailable, ProviderFailed, RunResult
from tellback.agent.assistant.cli import app as way_in
from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.assistant.cli.errors import (
    EXIT_ENDPOINT,
    EXIT_FAILED,
    EXIT_FILE,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    describe_error,
)
from tellback.agent.assistant.config import ConfigurationError

ROOT = Path(__file__).resolve().parents[2]
TELLBACK = [sys.executable, "-c", "from tellback.agent.assistant.cli import main; main()"]
NOTHING = RunResult(Ending.MEMORY_ERROR, "", "s")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), EXIT_USAGE),
        (agent.ArgumentError("a", 1, "b"), EXIT_USAGE),
        (tellback.memory.ArgumentError("a", 1, "b"), EXIT_USAGE),
        (tellback.memory.NoSuchMemory("x"), EXIT_USAGE),
        (tellback.memory.DuplicateKey("k", "i"), EXIT_USAGE),
        (tellback.memory.EmbedderMismatch("a", "b"), EXIT_USAGE),
        (vectorstore.ArgumentError("a", 1, "b"), EXIT_USAGE),
        (vectorstore.MissingExtra("PDF", "docs"), EXIT_USAGE),
        (vectorstore.NotAStore("p", "why"), EXIT_FILE),
        (vectorstore.NewerFile("p", "format", 2, 1), EXIT_FILE),
        (vectorstore.BusyError("busy"), EXIT_FILE),
        (vectorstore.StorageFull("full"), EXIT_FILE),
        (vectorstore.StorageUnwritable("read only"), EXIT_FILE),
        (vectorstore.DamageError("rows"), EXIT_FILE),
        (tellback.memory.http.HttpConnectError("http://a", "nothing there"), EXIT_ENDPOINT),
        (tellback.memory.EmbedderError("nonsense"), EXIT_ENDPOINT),
        (agent.ProviderError("no"), EXIT_ENDPOINT),
        (ProviderFailed("no", NOTHING), EXIT_ENDPOINT),
        (agent.AgentError("this agent is closed"), EXIT_FAILED),
        (ZeroDivisionError("x"), EXIT_FAILED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_each_error_has_its_exit_code_and_its_line(error: Exception, code: int) -> None:
    found, line = describe_error(error)
    assert found == code
    assert line
    assert "\n" not in line


def test_a_memory_unavailable_error_is_described_by_its_cause() -> None:
    error = MemoryUnavailable("memory could not be read", NOTHING)
    error.__cause__ = vectorstore.DamageError("row 7")
    assert describe_error(error) == (EXIT_FILE, "damaged data: row 7")


def test_an_error_with_escapes_or_several_lines_is_one_harmless_line() -> None:
    assert describe_error(ConfigurationError("a\n b\x1b[2J"))[1] == r"a b\x1b[2J"


def test_an_unexpected_failure_hints_at_the_debug_option(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("deep inside")

    monkeypatch.setattr("tellback.agent.assistant.wiring.open_configured_memory", broken)
    assert run_command_line(["--memory", str(tmp_path / "m.db"), "recall", "x"]) == EXIT_FAILED
    assert (
        capsys.readouterr().err
        == "tellback: unexpected ZeroDivisionError: deep inside (tellback --debug shows where)\n"
    )
    with pytest.raises(ZeroDivisionError):
        run_command_line(["--debug", "--memory", str(tmp_path / "m.db"), "recall", "x"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frob"], "No such command 'frob'"),
        (["recall"], "Missing argument 'QUESTION' (see tellback recall --help)"),
        (["recall", "it", "costs", "-5", "euros"], "put quotes round the question, or see tellback recall --help"),
        (["delete", "x"], "Did you mean 'tellback forget'?"),
        (["stats"], "Did you mean 'tellback memories stats'?"),
        (["recall", "x", "-k", "0"], "'-k'"),
        (["--memory"], "--memory"),
        (["remember", "x", "--at", "someday"], "--at: 'someday' is not a time such as 2026-05-03"),
        (["remember", "bad \udcff byte"], "TEXT: is not UTF-8 text"),
        (["chat", "--session", " "], "--session: the name of a session is needed"),
    ],
)
def test_wrong_usage_is_one_line_that_names_it(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command_line(arguments) == EXIT_USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("tellback: ")
    assert words in line


def test_ask_fails_on_a_damaged_memory_instead_of_answering_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.db"
    assert run_command_line(["--memory", str(path), "remember", "The key is under the quartz stone."]) == 0
    data = path.read_bytes()
    assert data.count(b"quartz")
    path.write_bytes(data.replace(b"quartz", b"basalt"))
    capsys.readouterr()
    assert run_command_line(["--memory", str(path), "ask", "Where is the key, under which stone?"]) == EXIT_FILE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "damaged" in captured.err


@pytest.mark.slow
def test_a_closed_output_pipe_is_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    for fact in ("A fact that is told at length. ", "Another one, for Python may miss the end of the pipe once. "):
        run_command_line(["--memory", str(path), "remember", fact * 5000])
    with subprocess.Popen(
        [*TELLBACK, "--memory", str(path), "memories", "list", "--full"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as listing:
        assert listing.stdout is not None
        assert listing.stderr is not None
        listing.stdout.read(5)
        listing.stdout.close()
        assert listing.stderr.read() == b""
    assert listing.returncode == 0


@pytest.mark.slow
def test_an_interrupt_of_piped_chat_prints_one_line_and_exits_130(tmp_path: Path) -> None:
    chat = subprocess.Popen(
        [*TELLBACK, "--memory", str(tmp_path / "m.db"), "chat"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with chat:
        assert chat.stdin is not None
        assert chat.stdout is not None
        assert chat.stderr is not None
        chat.stdin.write("The key is in the jar.\n")
        chat.stdin.flush()
        assert chat.stdout.readline() == "Noted: “The key is in the jar.”\n"
        for _ in range(10):  # one that comes just before it reads on is noticed with the next one
            if chat.poll() is not None:
                break
            os.kill(chat.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                chat.wait(20)
        else:
            chat.kill()
        problems = chat.stderr.read()
    assert (chat.returncode, problems) == (EXIT_INTERRUPTED, "\ntellback: interrupted\n")


@pytest.mark.slow
def test_text_that_the_output_cannot_encode_is_spelled_out(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    run_command_line(["--memory", str(path), "remember", "漢字 größer"])
    done = subprocess.run(
        [*TELLBACK, "--memory", str(path), "memories"],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\\u6f22\\u5b57 größer".encode("latin-1") in done.stdout


def test_the_exit_codes_are_those_of_the_manual() -> None:
    manual = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    for code in (0, EXIT_FAILED, EXIT_USAGE, EXIT_FILE, EXIT_ENDPOINT, 5, EXIT_INTERRUPTED):
        assert f"\n| {code} | " in manual


def test_the_manual_names_every_command_and_every_variable() -> None:
    from tellback.agent.assistant.config import CONFIG_VARIABLE, ENVIRONMENT_VARIABLES

    settings = (ROOT / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    for setting, variable in ENVIRONMENT_VARIABLES.items():
        assert f"| `{setting}` | `{variable}` |" in settings
    assert f"`{CONFIG_VARIABLE}`" in settings
    manual = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    commands = {name for name, command in typer.main.get_command(way_in.app).commands.items() if not command.hidden}  # type: ignore[attr-defined]
    for command in commands:
        assert f"`{command}" in manual


def every_command() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each command of the command line by its words, those of the groups among them."""
    top = typer.main.get_command(way_in.app)
    for name, command in top.commands.items():  # type: ignore[attr-defined]
        for word, inner in getattr(command, "commands", {}).items():
            yield (name, word), inner
        yield (name,), command


@pytest.mark.parametrize(("words", "command"), list(every_command()), ids=lambda one: str(one)[:40])
def test_the_manual_names_every_option_of_every_command(words: tuple[str, ...], command: Any) -> None:
    manual = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.search(rf"`({' '.join(words)}|{words[-1]})\b", manual)
    for option in (name for item in command.params for name in item.opts if name.startswith("-")):
        assert option in manual, option


READING = [
    ["memories"],
    ["memories", "list"],
    ["memories", "show", "x"],
    ["memories", "history", "x"],
    ["memories", "operations"],
    ["memories", "profile"],
    ["memories", "stats"],
    ["memories", "namespaces"],
    *(["memories", mark, "x"] for mark in ("pin", "unpin", "disable", "enable", "promote", "demote")),
    *(["memories", mark, "x", "--tag", "t"] for mark in ("tag", "untag")),
    ["memories", "importance", "x", "--set", "1"],
    ["memories", "about", "x", "a line"],
    ["memories", "about", "--missing"],
    ["memories", "about", "--write"],
    ["memories", "expire", "x", "--at", "never"],
    ["memories", "end", "x", "--at", "never"],
    ["memories", "merge", "x", "y", "--text", "z"],
    ["memories", "conflicts"],
    ["memories", "given"],
    ["memories", "people"],
    ["memories", "people", "split", "Lena", "my wife"],
    ["memories", "settle", "x", "y"],
    ["list"],
    ["show", "x"],
    ["search", "why?"],
    ["sessions"],
    ["sessions", "list"],
    ["sessions", "show", "x"],
    ["ask", "why?"],
    ["recall", "why?"],
    ["why-not", "why?", "x"],
    ["correct", "x", "y"],
    ["forget", "x", "--yes"],
    ["undo", "--yes"],
    ["documents"],
    ["documents", "list"],
    ["documents", "forget", "x", "--yes"],
    ["export", "x.jsonl"],
    ["reembed"],
    ["backup"],
    ["restore"],
    ["eval"],
    ["memories", "eval"],
]


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_a_reading_command_without_a_memory_file_fails_in_one_line_and_creates_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = run_command_line(["--memory", "none.db", "--offline", *words])
    output = capsys.readouterr()
    assert (code, output.out, output.err.count("\n")) == (EXIT_FILE, "", 1)
    assert "no memory is here yet" in output.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ["ingest", "http://127.0.0.1:9/page"],
        ["ingest", "http://ana:heron@pages.example/"],
        ["remember", "I like tea.", "--key", ""],
        ["remember", "I like tea.", "--replaces", "gone"],
    ],
)
def test_refused_input_makes_no_memory_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    assert run_command_line(["--memory", str(tmp_path / "m.db"), *words]) == EXIT_USAGE
    assert "tellback: " in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_import_of_no_conversation_makes_no_memory_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "export").mkdir()
    run_command_line(["--memory", str(tmp_path / "m.db"), "import", "--from", "chatgpt", str(tmp_path / "export")])
    assert "no conversation of ChatGPT" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


def test_the_table_of_reading_commands_has_every_command_that_needs_a_memory_file() -> None:
    others = {
        "chat",
        "init",
        "ingest",
        "remember",
        "serve",
        "import",
        "config",
        "doctor",
        "help",
        "install",
        "memories migrate",
        "migrate",
        "pause",
        "resume",
    }
    others |= {
        "index",
        "index build",
        "index drop",
        "index list",
        "init",
        "mcp",
        "watch",
        "resident",
        "resident status",
        "resident stop",
        "hooks",
        "hooks pause",
        "hooks resume",
    }
    others |= {"hook"} | {
        f"config {name}" for name in ("list", "get", "set", "unset", "path", "models", "embedder", "rights", "users")
    }
    assert {" ".join(words) for words, _ in every_command()} - others == {
        " ".join(words[: 2 if words[0] in ("memories", "sessions", "documents") else 1]) for words in READING
    }
