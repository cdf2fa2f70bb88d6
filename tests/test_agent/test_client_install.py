"""``tellback install``: a client's own files get the memory server and hooks, and are as before once both are removed.

The parts below ``tellback.agent.assistant`` are the subject; they have no public face.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tellback.agent.assistant.clients.json_edit import parse_json, remove_member, set_member
from tellback.agent.assistant.clients.registry import HOOK_CLIENTS, hook_client
from tellback.agent.assistant.clients.toml_edit import remove_table, set_table
from tellback.agent.assistant.hooks import run_log
from tellback.agent.assistant.hooks.run_log import HookRun
from tests.support.command_line import CommandLine

pytestmark = pytest.mark.slow

PROGRAM = str(Path(sys.executable).parent / "tellback")
CLAUDE_SETTINGS = """{
    "model": "opus",
    "hooks": {
        "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]
    }
}
"""


@pytest.fixture
def startable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every server for one that can start, which saves a process."""
    monkeypatch.setattr("tellback.agent.assistant.clients.registration.start_failure", lambda command: "")


def file_of(client: str) -> Path:
    """Return the file of a client's hooks."""
    hooks = hook_client(client).hook_file
    assert hooks is not None
    return hooks.path


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"a": 1}',
        '{\n\t"a": {"b": [1, 2], "c": null}, // why\n\t/* and */ "keys": {"x": 1,},\n}\n',
        '{"keys": {"new": 7, "x": [1]}, "b": "\\u00e9 } ] , //"}',
        '{"keys": []}',
    ],
)
def test_a_json_edit_changes_one_member_and_leaves_the_rest(text: str) -> None:
    before = parse_json(text)
    if before.get("keys") == []:
        with pytest.raises(ValueError, match="keys is no object"):
            set_member(text, ("keys", "new", "-"), {"n": 1})
        return
    after = set_member(text, ("keys", "new"), {"n": ["é"]})
    assert parse_json(after) == before | {"keys": before.get("keys", {}) | {"new": {"n": ["é"]}}}
    assert set_member(after, ("keys", "new"), {"n": ["é"]}) == after
    gone = remove_member(after, ("keys", "new"))
    if "new" not in before.get("keys", {}):
        assert parse_json(gone) == before
        assert re.findall(r"//.*|/\*.*?\*/", gone) == re.findall(r"//.*|/\*.*?\*/", text)
    appended = set_member(after, ("list", "-"), 1)
    assert parse_json(set_member(appended, ("list", "-"), {"two": 2}))["list"] == [1, {"two": 2}]


@pytest.mark.parametrize("text", ['{"a" 1}', "[1", '{"a":1,,}', "tru", '{"a":1} x', "[" * 200])
def test_a_file_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|ends|nested"):
        parse_json(text)


def test_a_toml_edit_changes_one_table_and_leaves_the_rest() -> None:
    text = 'model = "m" # mine\n\n[mcp_servers.other]\ncommand = "x"\n\n[z]\nlist = [\n  [1],\n]\n'
    after = set_table(text, ("mcp_servers", "tellback"), {"command": 'C:\\t "é"', "args": ["mcp"]})
    assert after.startswith(text)
    assert set_table(after, ("mcp_servers", "tellback"), {"command": 'C:\\t "é"', "args": ["mcp"]}) == after
    assert remove_table(after + "\n[mcp_servers.tellback.env]\nA = '1'\n", ("mcp_servers", "tellback")) == text
    for inline in ('mcp_servers = {tellback = {command = "x"}}', "mcp_servers.tellback.command = 'x'"):
        assert remove_table(inline, ("mcp_servers", "tellback")) == ""


def test_claude_code_gets_server_hooks_and_skill_in_its_documented_form(tellback: CommandLine) -> None:
    settings = file_of("claude-code")
    settings.parent.mkdir()
    settings.write_text(CLAUDE_SETTINGS)
    settings.chmod(0o640)
    planned = tellback("install", "claude-code", "--dry-run")
    assert (settings.read_text(), planned.code) == (CLAUDE_SETTINGS, 0)
    done = tellback.json("install", "claude-code")
    options = ["--memory", str(tellback.path)]
    servers = json.loads((Path.home() / ".claude.json").read_text())["mcpServers"]
    assert servers == {"tellback": {"type": "stdio", "command": PROGRAM, "args": ["mcp", *options]}}
    hooks = json.loads(settings.read_text())["hooks"]
    assert hooks["Stop"][0] == json.loads(CLAUDE_SETTINGS)["hooks"]["Stop"][0]
    expected: dict[str, dict[str, Any]] = {}
    for event, seconds in (("SessionStart", 10), ("UserPromptSubmit", 10), ("Stop", 20), ("PreCompact", 20)):
        command = " ".join([PROGRAM, "hook", "claude-code", event, *options])
        expected[event] = {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}
    expected["SessionStart"]["matcher"] = "startup|clear|compact"
    assert {event: groups[-1] for event, groups in hooks.items()} == expected
    skill = Path.home() / ".claude" / "skills" / "tellback" / "SKILL.md"
    assert skill.read_text().startswith("---\nname: tellback\n")
    assert settings.stat().st_mode & 0o777 == 0o640
    assert (Path.home() / ".claude.json").stat().st_mode & 0o777 == 0o600
    (backup,) = (line["backup"] for line in done["changed"] if line["backup"])
    assert Path(backup).read_text() == CLAUDE_SETTINGS
    assert tellback.json("install", "claude-code")["changed"] == []
    tellback.json("install", "claude-code", "--remove")
    assert settings.read_text() == CLAUDE_SETTINGS
    assert not (Path.home() / ".claude.json").exists()
    assert not skill.parent.exists()


def test_install_changes_no_file_if_one_of_them_cannot_be_parsed(tellback: CommandLine) -> None:
    settings = file_of("claude-code")
    settings.parent.mkdir()
    for text in ("{ no json", '{"hooks": {"Stop": "?"}}'):
        settings.write_text(text)
        done = tellback("install", "claude-code")
        assert done.code == 2
        assert "nothing was changed" in done.err
        assert [path.name for path in Path.home().rglob("*") if path.is_file()] == ["settings.json"]
        assert settings.read_text() == text


@pytest.mark.parametrize(
    ("client", "file", "text"),
    [
        ("cursor", ".cursor/mcp.json", ""),
        ("cursor", ".cursor/mcp.json", "{}\n"),
        ("cursor", ".cursor/mcp.json", "// mine\n"),
        ("cursor", ".cursor/mcp.json", '{"mcpServers": {}}'),
        ("cursor", ".cursor/mcp.json", '{\r\n  "mcpServers": {\r\n    "x": {"command": "x"}\r\n  }\r\n}\r\n'),
        ("cursor", ".cursor/hooks.json", '{"version": 1}'),
        ("cursor", ".cursor/hooks.json", '{"hooks": {"stop": []}}'),
        ("claude-code", ".claude/settings.json", '{"hooks": {}}\n'),
        ("zed", ".config/zed/settings.json", "{ // why\n}\n"),
        ("codex", ".codex/config.toml", "# mine\n"),
        ("codex", ".codex/config.toml", "[mcp_servers]\n"),
        ("codex", ".codex/config.toml", 'model = "m"\r\n\r\n[mcp_servers.x]\r\ncommand = "x"\r\n'),
    ],
)
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.usefixtures("startable")
def test_removal_leaves_a_file_that_was_there_as_it_was(
    client: str, file: str, text: str, linked: bool, tellback: CommandLine, tmp_path: Path
) -> None:
    path = Path.home() / file
    path.parent.mkdir(parents=True)
    if linked:
        path.symlink_to(tmp_path / "dotfile")
    path.write_bytes(text.encode())
    tellback.json("install", client)
    assert b"tellback" in path.read_bytes()
    assert (b"\r\n" in path.read_bytes()) == ("\r\n" in text)
    tellback.json("install", client, "--remove")
    assert (path.read_bytes().decode(), path.is_symlink()) == (text, linked)


@pytest.mark.parametrize(
    "entry", [{"command": "mine", "args": ["mcp"]}, {"type": "http", "url": "http://localhost/mcp"}]
)
@pytest.mark.usefixtures("startable")
def test_a_users_own_server_of_that_name_is_neither_replaced_nor_removed(entry: Any, tellback: CommandLine) -> None:
    path = Path.home() / ".cursor" / "mcp.json"
    path.parent.mkdir()
    text = json.dumps({"mcpServers": {"tellback": entry}})
    path.write_text(text)
    done = tellback("install", "cursor")
    assert (done.code, path.read_text()) == (2, text)
    assert "rename or remove that first" in done.err
    assert tellback.json("install", "cursor", "--remove")["changed"] == []


@pytest.mark.usefixtures("startable")
def test_a_pipe_in_the_place_of_a_file_is_refused(tellback: CommandLine) -> None:
    path = Path.home() / ".cursor" / "mcp.json"
    path.parent.mkdir()
    os.mkfifo(path)
    done = tellback("install", "cursor")
    assert (done.code, "no regular file" in done.err) == (2, True)
    assert "cursor" in tellback("install").out


def test_a_symlinked_configuration_file_stays_a_symlink(tellback: CommandLine, tmp_path: Path) -> None:
    settings, real = file_of("claude-code"), tmp_path / "dotfiles.json"
    settings.parent.mkdir()
    real.write_text(CLAUDE_SETTINGS)
    settings.symlink_to(real)
    tellback.json("install", "claude-code", "--no-hooks")
    assert settings.read_text() == CLAUDE_SETTINGS
    tellback.json("install", "claude-code")
    assert settings.is_symlink()
    assert "tellback hook" in real.read_text()


def test_a_server_that_cannot_start_is_not_registered_and_doctor_fails_for_one_that_is(
    tellback: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tellback.json("install", "cursor", "--no-hooks")
    settings = Path.home() / ".cursor" / "mcp.json"
    broken = tmp_path / "tellback"
    broken.write_text("#!/bin/sh\necho 'tellback: the MCP server needs the extra' >&2; exit 2\n")
    broken.chmod(0o700)
    monkeypatch.setattr("tellback.agent.assistant.clients.registration.own_program", lambda: broken)
    done = tellback("install", "codex")
    assert (done.code, [*Path.home().glob(".codex")]) == (2, [])
    assert "could not start: the MCP server needs the extra" in done.err
    for program, problem in ((PROGRAM, ""), (str(broken), "needs the extra"), ("/gone/tellback", "cannot be started")):
        settings.write_text(json.dumps({"mcpServers": {"tellback": {"command": program, "args": ["mcp"]}}}))
        done = tellback("doctor", "--json")
        (check,) = (item for item in json.loads(done.out)["checks"] if item["name"] == "server of cursor")
        assert (check["fine"], done.code) == ((False, 1) if problem else (True, 0))
        assert problem in check["seen"]


def hook_checks(tellback: CommandLine) -> list[tuple[str, bool, str]]:
    """Return doctor's checks of hooks: name, verdict and text."""
    done = tellback("doctor", "--json")
    checks: list[dict[str, Any]] = json.loads(done.out)["checks"]
    return [(check["name"], check["fine"], check["seen"]) for check in checks if "hooks" in check["name"]]


def test_doctor_reports_dead_and_failing_hooks(tellback: CommandLine) -> None:
    assert hook_checks(tellback) == []
    tellback.json("install", "claude-code")
    settings = file_of("claude-code")
    name = "hooks of claude-code"
    assert hook_checks(tellback) == [(name, True, "registered; not called yet")]
    text = settings.read_text()

    transcript = Path.home() / ".claude" / "projects" / "-w" / "s1.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text("{}\n")
    later = settings.stat().st_mtime + 3_600
    os.utime(transcript, (later, later))
    ((_, fine, seen),) = hook_checks(tellback)
    assert (fine, seen.partition(" the conversation")[0]) == (False, "not called in")

    tellback("hook", "claude-code", "Stop", text="no json")
    ((_, fine, seen),) = hook_checks(tellback)
    assert not fine
    assert re.fullmatch(r"failed 1 times? in a row, last at \S+ \(Stop\): JSONDecodeError: .*", seen)

    run_log.log_run("claude-code", HookRun(at="2099-01-01T00:00:00+00:00", event="Stop", outcome="done", seconds=0.2))
    ((_, fine, seen),) = hook_checks(tellback)
    assert (fine, seen) == (True, "last called at 2099-01-01T00:00, 0.2 s at most")

    for change, problem in (
        (text.replace(PROGRAM, "/gone/tellback"), "starts /gone/tellback, which is not there"),
        (text.replace('"PreCompact"', '"Other"'), "not registered for PreCompact"),
        (text.replace('"hooks"', '"disableAllHooks": true, "hooks"', 1), "the client calls no hook"),
        ("{", "cannot be read"),
    ):
        settings.write_text(change)
        ((_, fine, seen),) = hook_checks(tellback)
        assert not fine
        assert problem in seen


def test_doctor_reports_paused_and_resumed_hooks(tellback: CommandLine) -> None:
    assert tellback("pause").code == 0
    ((name, fine, seen),) = hook_checks(tellback)
    assert (name, fine, seen.partition(" since")[0]) == ("hooks", True, "paused")
    assert tellback("resume").out.startswith("hooks go on; paused since ")
    assert tellback("resume").out == "hooks were not paused\n"


def test_the_log_of_runs_is_bounded() -> None:
    run = HookRun(at="2026-11-01T10:00:00+00:00", event="Stop", outcome="failed", error="x" * 200)
    for _ in range(400):
        run_log.log_run("claude-code", run)
    path = run_log.state_folder() / "claude-code.jsonl"
    assert path.stat().st_size < 70_000
    assert len(run_log.read_runs("claude-code")) >= 100
    assert path.stat().st_mode & 0o777 == 0o600


def test_every_client_names_its_documented_version_and_source() -> None:
    for client in HOOK_CLIENTS:
        assert re.search(r"\d", client.documented), client.name


def test_a_registration_of_a_former_module_is_ours_and_is_written_anew(startable, tellback: CommandLine) -> None:
    path = Path.home() / ".claude.json"
    former = {"command": sys.executable, "args": ["-m", "agent.assistant.cli", "mcp"]}
    path.write_text(json.dumps({"mcpServers": {"tellback": former}}))
    hooks = file_of("claude-code")
    hooks.parent.mkdir(parents=True, exist_ok=True)
    hook = {"type": "command", "command": f"{sys.executable} -m agent.assistant.cli hook claude-code Stop"}
    hooks.write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))
    assert tellback("install", "claude-code").code == 0
    assert json.loads(path.read_text())["mcpServers"]["tellback"]["command"] == PROGRAM
    assert "agent.assistant" not in hooks.read_text()
