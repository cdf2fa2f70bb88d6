"""``tellback doctor``: it reports faults with their remedy, shows no secret and changes nothing.

Inner parts, on no face: ``tellback.memory.tables.operation_log``, ``tellback.memory.tokens.token_tables``.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.testing import AnthropicServer, OllamaServer, OpenAIServer
from tellback.memory import Message
from tellback.memory.tables.operation_log import OperationLogTables, m001_operation_log, m002_user_names
from tellback.vectorstore import Finding, TableComponent
from tellback.vectorstore.sqlite import atomic_write
from tests.support.command_line import CommandLine

CLOSED = "http://127.0.0.1:9/v1"


@pytest.fixture
def doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def examined(*arguments: str) -> tuple[int, dict[str, dict]]:
        capsys.readouterr()
        fixing = [argument for argument in arguments if argument in ("--fix", "--yes")]
        before = [argument for argument in arguments if argument not in fixing]
        code = run_command_line(["--memory", str(tmp_path / "m.db"), *before, "doctor", *fixing, "--json"])
        answer = json.loads(capsys.readouterr().out)
        assert set(answer) == {"fine", "checks"}
        assert all(set(check) == {"name", "fine", "seen", "remedy"} for check in answer["checks"])
        assert answer["fine"] == all(check["fine"] for check in answer["checks"]) == (code == 0)
        return code, {check["name"]: check for check in answer["checks"]}

    return examined


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("filled") / "m.db"


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    """A copy of one memory file, which the first test makes."""
    if not filled.exists():
        assert run_command_line(["--memory", str(filled), "remember", "The key is under the quartz stone."]) == 0
    return Path(shutil.copy(filled, tmp_path))


def test_without_a_memory_file_doctor_succeeds_and_creates_none(doctor, tmp_path: Path) -> None:
    code, checks = doctor()
    assert code == 0
    assert "not there yet" in checks["memory file"]["seen"]
    assert list(tmp_path.iterdir()) == []


def test_doctor_reports_an_intact_memory_file_as_fine(doctor, path: Path) -> None:
    code, checks = doctor()
    assert code == 0
    assert checks["memories"]["seen"].startswith("1 ")
    assert checks["private"]["seen"] == "mode 0600"
    assert checks["content"]["seen"] == "every row is as it was written"


def test_doctor_says_that_tokens_are_counted_exactly(doctor) -> None:
    _, checks = doctor()
    assert checks["token counts"]["seen"].startswith("exact for models of OpenAI")
    assert "token table" not in doctor("--fix")[1]  # nothing is missing, so nothing is fetched or asked


@pytest.fixture
def missing_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without the table of tokens; returns the user's cache folder for it."""
    monkeypatch.setattr("tellback.memory.tokens.token_tables._LIBRARY", "a_library_that_is_not_there")
    monkeypatch.setattr("tiktoken.registry.ENCODINGS", {})
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "tables"))
    return tmp_path / "tables"


def test_doctor_says_where_token_counts_are_estimates(doctor, missing_table: Path) -> None:
    code, checks = doctor("--fix")
    assert (code, checks["token counts"]["seen"]) == (0, "estimated, rather too many than too few")
    assert not missing_table.exists()


def test_doctor_reports_an_unfinished_copy_that_may_still_be_written(doctor, path: Path) -> None:
    with atomic_write(path.parent / "copy", token=os.urandom) as unfinished:
        code, checks = doctor()
        assert (code, checks["unfinished copy"]["seen"]) == (0, str(unfinished))
    former = path.parent / ".mneme-00ff.part"  # of a version without locks
    former.touch()
    assert doctor()[1]["unfinished copy"]["seen"] == str(former)
    os.utime(former, (0, 0))
    assert "unfinished copy" not in doctor()[1]
    assert not former.exists()


def test_doctor_reports_a_damaged_row(doctor, path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"quartz", b"basalt"))
    code, checks = doctor()
    assert code == 3
    assert not checks["content"]["fine"]
    assert "tellback doctor --salvage" in checks["content"]["remedy"]


@pytest.mark.slow
def test_doctor_salvages_what_is_left_in_a_new_file_and_counts_what_is_lost(
    tellback: CommandLine, tmp_path: Path
) -> None:
    tellback.remember_turn("s", Message.user("The café is in Évora."), Message.user("The ferry leaves at nine."))
    tellback.path.write_bytes(tellback.path.read_bytes().replace('Évora."'.encode(), b'\xff\xffvora."'))
    shown = tellback("sessions", "show", "s")
    assert shown.code == 5
    assert "The ferry leaves at nine." in shown.out
    assert "1 damaged message was passed over: s 1" in shown.err
    exported = tellback("export", tmp_path / "out.jsonl")
    assert exported.code == 5
    assert "1 damaged message was passed over: s 1" in exported.err
    before = tellback.path.read_bytes()
    done = tellback("doctor", "--salvage", tmp_path / "new.db")
    assert done.code == 5
    assert ["history_messages", "1", "1"] in [line.split() for line in done.out.splitlines()]
    assert "history_messages: a text is not UTF-8" in done.err
    assert tellback.path.read_bytes() == before
    again = tellback("doctor", "--salvage", tmp_path / "new.db")
    assert (again.code, "nothing is yet" in again.err) == (2, True)
    tellback.path = tmp_path / "new.db"
    assert tellback("doctor").code == 0
    answer = tellback("doctor", "--salvage", tmp_path / "newer.db", "--json")
    report = json.loads(answer.out)
    assert (answer.code, report["whole"], report["findings"]) == (0, True, [])
    assert {"table": "history_messages", "saved": 1, "lost": 0, "reasons": []} in report["tables"]


def test_a_damaged_file_header_is_reported_in_one_line_with_exit_code_3(tellback: CommandLine, path: Path) -> None:
    content = bytearray(tellback.path.read_bytes())
    content[47] = 9
    tellback.path.write_bytes(content)
    done = tellback("recall", "key")
    assert (done.code, len(done.err.splitlines())) == (3, 1)
    assert "doctor --salvage" in tellback("doctor").out


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the program a newer version, whose operation log has one more migration."""

    def m003_noisier(connection) -> None:
        connection.execute("UPDATE operations SET kind = kind || '!'")

    def newer_tables(self: OperationLogTables) -> None:
        TableComponent.__init__(
            self,
            "operations",
            (m001_operation_log, m002_user_names, m003_noisier),
            ("operations", "operation_changes"),
        )

    monkeypatch.setattr(OperationLogTables, "__init__", newer_tables)


def test_a_successful_upgrade_leaves_no_backup_copy(doctor, path: Path, upgrade: None) -> None:
    assert run_command_line(["--memory", str(path), "recall", "key"]) == 0
    assert list(path.parent.glob("*.backup")) == []
    assert "upgrade" not in doctor()[1]


def test_doctor_reports_the_backup_copy_kept_by_a_failed_upgrade(
    doctor, path: Path, upgrade: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OperationLogTables, "verify", lambda *_: [Finding("operations", "planted")])
    assert run_command_line(["--memory", str(path), "recall", "key"]) == 0
    (copy,) = path.parent.glob("*.backup")
    code, checks = doctor()
    assert code == 3
    assert "planted" in checks["content"]["seen"]
    assert checks["upgrade"]["seen"].endswith(f"stays: {copy}")
    assert copy.exists()


def test_an_upgrade_succeeds_without_disk_space_for_a_backup_copy(
    path: Path, upgrade: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = shutil.disk_usage(path.parent)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    assert run_command_line(["--memory", str(path), "recall", "key"]) == 0
    assert list(path.parent.glob("*.backup")) == []


def test_doctor_reports_a_file_that_is_no_memory_and_leaves_it_unchanged(doctor, tmp_path: Path) -> None:
    (tmp_path / "m.db").write_text("Milk, bread, eggs.\n" * 200)
    code, checks = doctor()
    assert code == 3
    assert "not a memory file" in checks["memory file"]["seen"]
    assert (tmp_path / "m.db").read_text().startswith("Milk")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
def test_doctor_reports_a_memory_file_readable_by_others(doctor, path: Path) -> None:
    path.chmod(0o644)
    code, checks = doctor()
    assert (code, checks["private"]["remedy"]) == (3, f"chmod 600 {path}")


def test_doctor_looks_up_the_model_in_the_list_of_a_reachable_endpoint(doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer(models=("small", "large")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("TELLBACK_MODEL", "large")
        assert doctor()[1]["model's endpoint"]["seen"] == "it answers, and has the model"
        assert "without huge" in doctor("--model", "huge")[1]["model's endpoint"]["seen"]


@pytest.mark.parametrize(
    ("server_type", "variable"), [(AnthropicServer, "ANTHROPIC_BASE_URL"), (OllamaServer, "OLLAMA_HOST")]
)
def test_each_providers_endpoint_is_asked_in_its_own_format(
    doctor, server_type, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server_type(models=("small", "large")) as server:
        monkeypatch.setenv(variable, server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY" if server_type is AnthropicServer else "TELLBACK_SYSTEM", "sk-canary")
        monkeypatch.setenv("TELLBACK_MODEL", "large")
        checks = doctor()[1]
    assert checks["model's endpoint"]["seen"] == "it answers, and has the model"
    assert checks["provider"]["seen"] == ("anthropic" if server_type is AnthropicServer else "ollama")
    assert "sk-canary" not in str(checks)


def test_doctor_reports_a_refused_connection_to_the_model_and_runs_its_other_checks(
    doctor, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", CLOSED)
    monkeypatch.setenv("TELLBACK_MODEL", "any")
    code, checks = doctor()
    assert code == 4
    assert "cannot connect" in checks["model's endpoint"]["seen"]
    assert checks["content"]["fine"]


def test_doctor_reports_a_refused_connection_to_the_embedder(doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELLBACK_EMBEDDER", "openai")
    monkeypatch.setenv("TELLBACK_EMBEDDING_MODEL", "e")
    monkeypatch.setenv("TELLBACK_EMBEDDING_BASE_URL", CLOSED)
    code, checks = doctor()
    assert code == 4
    assert "cannot connect" in checks["embedder's endpoint"]["seen"]


def test_doctor_reports_a_missing_model_key_without_connecting(doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELLBACK_MODEL", "any")
    code, checks = doctor()
    assert code == 2
    assert "OPENAI_API_KEY" in checks["model's endpoint"]["seen"]


def test_settings_are_shown_with_their_origin_and_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://user:pa55@127.0.0.1:9/v1?token=t0ken")
    monkeypatch.setenv("TELLBACK_NAMESPACE", "ana")
    run_command_line(["--memory", str(tmp_path / "m.db"), "--model", "any", "doctor"])
    printed = "".join(capsys.readouterr())
    assert "model: any (from --model)" in printed
    assert "api_key: set (from OPENAI_API_KEY)" in printed
    assert "namespace: ana (from TELLBACK_NAMESPACE)" in printed
    assert not [secret for secret in ("sk-canary", "pa55", "t0ken") if secret in printed]


def test_doctor_reports_a_misconfigured_mcp_server(doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[mcp.servers.files]\ncomand = "npx"\n')
    monkeypatch.setenv("TELLBACK_CONFIG", str(file))
    code, checks = doctor()
    assert code == 2
    assert checks["mcp servers"]["seen"].startswith("mcp.servers.files")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")
@pytest.mark.parametrize(
    "text",
    ['api_key = "sk-canary"\n', '[mcp.servers.x]\nurl = "http://localhost/mcp"\nheaders = { Authorization = "k" }\n'],
)
def test_doctor_reports_a_key_in_a_configuration_file_readable_by_others(
    doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    file.chmod(0o644)
    monkeypatch.setenv("TELLBACK_CONFIG", str(file))
    code, checks = doctor()
    assert (code, checks["configuration"]["remedy"]) == (2, f"chmod 600 {file}")
    file.chmod(0o600)
    wrong = {name for name, check in doctor()[1].items() if not check["fine"]}
    assert wrong == ({"mcp servers"} if "mcp" in text and find_spec("mcp") is None else set())
