"""Lines that come by themselves: after a hook, a command or an import, by a process that a client or a model serves.

Inner parts, on no face: ``tellback.agent.assistant.line_process``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tellback.agent import Usage
from tellback.agent.assistant import line_process, model_servers
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.line_process import LineRecord, start_lines_if_due, write_lines
from tellback.agent.assistant.upkeep import UpkeepWatch
from tellback.agent.testing import OpenAIServer, Reply
from tellback.memory import run_sync
from tests.support.client_commands import ClientDouble
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until

pytestmark = pytest.mark.slow

KEY, LINE = "Anna has our spare key.", "spare house key: who keeps it"


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClientDouble:
    double = ClientDouble(tmp_path / "bin", monkeypatch, "claude")
    double.write({KEY: LINE})
    monkeypatch.setenv("TELLBACK_LINES", "claude-code")
    return double


def settings_of(tellback: CommandLine) -> AssistantSettings:
    return AssistantSettings(memory=tellback.path, lines="claude-code")


def ended(tellback: CommandLine) -> bool:
    record = LineRecord.of(settings_of(tellback))
    return bool(record.ended or record.failure)


def lines(tellback: CommandLine) -> dict[str, str]:
    return {memory["text"]: memory["about"] for memory in tellback.json("memories")["memories"]}


def test_what_a_hook_keeps_gets_its_line_by_the_command_of_the_client_and_once_in_ten_minutes(
    tellback: CommandLine, claude: ClientDouble, tmp_path: Path
) -> None:
    payload = {"session_id": "s", "cwd": str(tmp_path), "hook_event_name": "UserPromptSubmit"}
    tellback("hook", "claude-code", "UserPromptSubmit", text=json.dumps({**payload, "prompt": KEY}))
    assert wait_until(lambda: ended(tellback))
    assert lines(tellback) == {KEY: LINE}
    tellback("remember", "Our car is blue.")
    assert not start_lines_if_due(settings_of(tellback))
    assert len(claude.calls) == 1
    report = tellback("doctor").out
    assert "1 of 2 memories say it (1 by a model)" in report
    assert "Claude Code (claude -p); 330 of 100,000 tokens today" in report


def test_an_import_and_old_memories_get_lines_by_the_model_that_is_set(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tellback("remember", "Our car is blue.")
    (tmp_path / "notes.jsonl").write_text(json.dumps({"text": KEY}) + "\n", "utf-8")
    answers = [json.dumps({"lines": [{"n": 1, "about": line}]}) for line in ("our car: colour", LINE)]
    with OpenAIServer(*(Reply(answer, usage=Usage(200, 20)) for answer in answers)) as server:  # one by trust
        for name, value in {"MODEL": "any", "LINES": "auto"}.items():
            monkeypatch.setenv(f"TELLBACK_{name}", value)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        tellback("import", tmp_path / "notes.jsonl", "--yes")
        assert wait_until(lambda: ended(tellback))
    assert set(lines(tellback).values()) == {"our car: colour", LINE}


def test_the_tokens_of_a_day_bound_what_is_written_and_nothing_starts_before_the_next_write(
    tellback: CommandLine, claude: ClientDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_process, "SECONDS_BETWEEN_STARTS", 0.0)
    tellback("remember", KEY, "--offline")
    settings = settings_of(tellback)
    run_sync(write_lines(replace(settings, line_tokens=10)))
    assert (claude.calls, LineRecord.of(settings).ended) == ([], 0.0)
    run_sync(write_lines(replace(settings, line_tokens=2000)))
    assert (lines(tellback), LineRecord.of(settings).tokens) == ({KEY: LINE}, 330)
    assert not start_lines_if_due(settings)
    tellback("remember", "Our car is blue.", "--offline")
    assert not start_lines_if_due(replace(settings, line_tokens=330))
    assert start_lines_if_due(settings)
    assert wait_until(lambda: len(claude.calls) == 2)


def test_a_command_that_fails_is_tried_again_an_hour_later_and_doctor_says_so(
    tellback: CommandLine, claude: ClientDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_process, "SECONDS_BETWEEN_STARTS", 0.0)
    claude.write(fails=True)
    tellback("remember", KEY)
    assert wait_until(lambda: ended(tellback))
    assert LineRecord.of(settings_of(tellback)).failure == "ProviderError"
    assert not start_lines_if_due(settings_of(tellback))
    report = tellback("doctor")
    assert (report.code, "the last try failed (ProviderError)" in report.out) == (1, True)


@pytest.mark.parametrize("changed", [{"lines": "off"}, {"lines": "auto"}, {"lines": "on"}, {"offline": True}], ids=str)
def test_nobody_is_asked_without_a_yes_or_offline(tellback: CommandLine, changed: dict[str, object]) -> None:
    tellback("remember", KEY)
    assert not start_lines_if_due(replace(settings_of(tellback), **changed))  # type: ignore[arg-type]


def test_a_server_looks_for_what_is_due_when_it_ends(tellback: CommandLine, claude: ClientDouble) -> None:
    tellback("remember", KEY, "--offline")
    watch = UpkeepWatch(settings_of(tellback))
    watch.stop()
    assert wait_until(lambda: ended(tellback))
    assert lines(tellback) == {KEY: LINE}


@pytest.mark.parametrize(("answer", "kept"), [("y", "claude-code"), ("", "auto")])
def test_init_asks_whether_an_installed_client_may_write_where_no_model_is_set(
    tellback: CommandLine, claude: ClientDouble, monkeypatch: pytest.MonkeyPatch, answer: str, kept: str
) -> None:
    monkeypatch.delenv("TELLBACK_LINES")
    monkeypatch.setattr(model_servers, "LOCAL_SERVERS", {})
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:1")
    given = ("--name", "Ana", "--zone", "Europe/Lisbon", "--language", "en")
    done = tellback("init", *given, text=f"\n{answer}\n", terminal=True)
    assert (done.code, "No model is set to write them, but Claude Code is here." in done.err) == (0, True)
    assert tellback.json("config", "get", "lines")["value"] == kept


def test_a_client_is_set_to_write_after_a_yes_that_was_told_what_it_is_sent(
    tellback: CommandLine, claude: ClientDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TELLBACK_LINES")
    refused = tellback("config", "set", "lines", "codex", text="n\n", terminal=True)
    assert (refused.code, "`codex exec`, with your account there" in refused.err) == (1, True)
    assert tellback.json("config", "get", "lines")["value"] == "auto"
    assert "one of claude-code, codex, gemini-cli" in tellback("config", "set", "lines", "cursor").err
    done = tellback("config", "set", "lines", "claude-code:haiku", text="y\n", terminal=True)
    assert (done.code, tellback.json("config", "get", "lines")["value"]) == (0, "claude-code:haiku")
