"""The first minute: `tellback` alone, `tellback init`, and where keys are kept."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from tellback.agent.assistant import model_servers
from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.testing import OllamaServer, OpenAIServer, Reply
from tests.support.command_line import CommandLine

KEY = "sk-never-shown-1234"


class LlamaCppServer(OpenAIServer):
    """A server that identifies itself as llama.cpp's does."""

    def listed(self, models: Any) -> Any:
        return {"object": "list", "data": [{"id": name, "owned_by": "llamacpp"} for name in models]}


@pytest.fixture(autouse=True)
def _no_other_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask no server that happens to run on this machine; nothing listens at Ollama's address."""
    monkeypatch.setattr(model_servers, "LOCAL_SERVERS", {})
    with socket.create_server(("127.0.0.1", 0)) as closed:
        monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{closed.getsockname()[1]}")


@pytest.fixture
def file() -> Path:
    return Path.home() / ".config" / "tellback" / "config.toml"


@pytest.fixture
def keys(file: Path) -> Path:
    return file.with_name("config.keys.toml")


@pytest.fixture
def keyring_with(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Set a keyring in memory, or one that refuses; no test sees that of this machine."""
    keyring = pytest.importorskip("keyring")
    from keyring.backend import KeyringBackend
    from keyring.errors import KeyringLocked

    class MemoryKeyring(KeyringBackend):
        priority = 5  # type: ignore[assignment]

        def __init__(self, *, locked: bool) -> None:
            super().__init__()
            self.kept: dict[tuple[str, str], str] = {}
            self.locked = locked

        def set_password(self, service: str, username: str, password: str) -> None:
            if self.locked:
                raise KeyringLocked(f"no {password} here")
            self.kept[service, username] = password

        def get_password(self, service: str, username: str) -> str | None:
            return self.kept.get((service, username))

        def delete_password(self, service: str, username: str) -> None:
            del self.kept[service, username]

    def use(*, locked: bool = False) -> MemoryKeyring:
        backend = MemoryKeyring(locked=locked)
        before = keyring.get_keyring()
        keyring.set_keyring(backend)
        restored.append(before)
        return backend

    restored: list[Any] = []
    yield use
    for before in restored[:1]:
        keyring.set_keyring(before)


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setattr("tellback.agent.assistant.key_store.usable_keyring", lambda: None)


# init


def test_init_without_a_terminal_uses_detected_models_and_given_options(
    tellback: CommandLine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OllamaServer(models=("bge-m3", "qwen3:4b", "zephyr")) as ollama:
        monkeypatch.setenv("OLLAMA_HOST", ollama.url)
        answer = tellback.json("init", "--name", " Ana  Luz ", "--zone", "Asia/Tokyo", "--language", "pt", "--facts")
        shown = tellback("init").out
    keys = {"path", "memory", "model", "key", "name", "language", "zone", "extract_facts", "servers", "keys_for"}
    assert set(answer) == keys | {"warning"}
    assert (answer["model"], answer["name"], answer["language"]) == ("ollama:qwen3:4b", "Ana Luz", "pt")
    written = file.read_text()
    assert f'ollama_host = "{ollama.url}"\n' in written
    assert f'memory = "{tellback.path}"\n' in written
    assert 'zone = "Asia/Tokyo"\nextract_facts = true\n' in written
    assert file.stat().st_mode & 0o777 == 0o600
    assert not tellback.path.exists()
    assert "ollama:qwen3:4b" in shown
    assert shown.endswith("next: tellback chat\n")


def test_init_without_a_server_or_key_says_that_answers_are_quotes(tellback: CommandLine) -> None:
    done = tellback("init")
    assert done.code == 0
    assert re.search(r"model +none: questions are answered with quotes from the memory\n", done.out)


@pytest.mark.parametrize(("server", "kind"), [(LlamaCppServer, "llama.cpp"), (OpenAIServer, None)])
def test_a_server_on_a_default_port_is_identified_by_its_response(
    server: type[OpenAIServer], kind: str | None, tellback: CommandLine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with server(models=("local.gguf",)) as running:
        monkeypatch.setattr(model_servers, "LOCAL_SERVERS", {running.url: ""})
        answer = tellback.json("init")
        assert "authorization" not in running.requests[0].headers  # the key is OpenAI's
    assert (answer["model"], answer["keys_for"]) == ("local.gguf", ["OpenAI"])
    assert ('model_server = "llama.cpp"' in file.read_text()) == (kind is not None)


def test_init_sets_the_named_server_and_model_and_reports_unusable_ones(tellback: CommandLine, file: Path) -> None:
    with OpenAIServer(models=("big", "small")) as server:
        bare = server.url.removesuffix("/v1")
        assert tellback.json("--model", "small", "init", "--server", bare)["model"] == "small"
        assert f'base_url = "{server.url}"' in file.read_text()
        unlisted = tellback("--model", "tiny", "init", "--server", server.url)
        assert (unlisted.code, "does not list tiny" in unlisted.err) == (0, True)
    gone = tellback("init", "--server", server.url)
    assert (gone.code, gone.out) == (4, "")
    assert "is the server running?" in gone.err
    for words in (["--model", "absent", "init"], ["init", "--server", "openai"], ["init", "--zone", "Mars"]):
        refused = tellback(*words)
        assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    assert tellback.json("--model", "none", "init")["model"] is None
    assert "model =" not in file.read_text()


def test_init_asks_on_a_terminal_and_writes_nothing_before_the_last_answer(
    tellback: CommandLine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OllamaServer(models=("alpha", "beta", "nomic-embed-text")) as ollama:
        monkeypatch.setenv("OLLAMA_HOST", ollama.url)
        stopped = tellback("init", text="1\n2\nJonas\n", terminal=True)
        assert (stopped.code, file.exists()) == (1, False)
        asked = tellback("init", text="9\n1\nzzz\nBET\nJonas\nxx\nde\nMars\nAsia/Tokyo\ny\n", terminal=True)
        again = tellback("init", text="\n\n\n\n\n", terminal=True)
    assert "nomic" not in asked.err
    for words in ("from 1 to 3", "no model of that name", "its code is needed", "time zone is needed"):
        assert words in " ".join(asked.err.split())
    chosen = ["ollama:beta", "Jonas", "Asia/Tokyo"]
    assert [re.findall(r"(?m)^(?:model|name|zone) +(.*)$", done.out) for done in (asked, again)] == [chosen, chosen]
    assert 'language = "de"' in file.read_text()


def test_new_memory_files_have_the_configured_language(tellback: CommandLine, tmp_path: Path) -> None:
    assert tellback("remember", "The cat sleeps.").code == 0
    assert tellback("config", "set", "language", "de").code == 0
    assert "cat" in tellback("recall", "cat").out
    run_command_line(["--memory", str(tmp_path / "new.db"), "remember", "Die Katze schläft."])
    assert "language: german" in tellback("--memory", tmp_path / "new.db", "doctor").out


def test_times_are_read_and_shown_in_the_zone_of_the_user(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELLBACK_ZONE", "Pacific/Kiritimati")  # fourteen hours ahead
    id = tellback.json("remember", "I planted beans.", "--at", "2026-05-01T08:00")["id"]
    (memory,) = tellback.json("memories")["memories"]
    assert memory["occurred_at"] == "2026-05-01T08:00:00+14:00"
    assert "2026-05-01 08:00" in tellback("memories", "show", id).out
    assert tellback.json("recall", "What did I do on 1 May 2026?")["hits"][0]["id"] == id


# keys


def test_a_key_is_kept_in_the_keyring_and_sent_from_there(tellback: CommandLine, keys: Path, keyring_with: Any) -> None:
    backend = keyring_with()
    with OpenAIServer(Reply("Red."), models=("m",)) as server:
        done = tellback("init", "--server", server.url, "--key-stdin", text=KEY)
        assert "the system's keyring" in done.out
        assert backend.kept == {("tellback", server.url): KEY}
        assert json.loads(tellback("config", "--json").out)["keys"][0]["kept_in"] == "the system's keyring"
        assert tellback("config", "get", "api_key", "--json").out.count('"from": "keyring"') == 1
        shown = done.out + done.err + tellback("config").out + tellback("doctor").out
        tellback("remember", "My bike is red.")
        assert "Red." in tellback("ask", "What colour is my bike?").out
        assert server.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in shown + keys.read_text()
    backend.kept.clear()
    assert "api_key" in tellback("ask", "What colour?").err
    assert tellback("config", "unset", "api_key").code == 0
    assert "http" not in keys.read_text().replace("https://", "")


@pytest.mark.parametrize("locked", [True, False])
def test_without_a_keyring_a_key_is_kept_in_a_private_file_for_its_endpoint_alone(
    locked: bool, tellback: CommandLine, file: Path, keys: Path, request: pytest.FixtureRequest
) -> None:
    if locked:
        request.getfixturevalue("keyring_with")(locked=True)
    else:
        request.getfixturevalue("no_keyring")
    with OpenAIServer(models=("m",)) as server, OpenAIServer(models=("n",)) as other:
        done = tellback("init", "--server", server.url, "--key-stdin", text=KEY)
        assert "config.keys.toml (private to you)" in done.out
        assert (keys.stat().st_mode & 0o777, KEY in keys.read_text()) == (0o600, True)
        assert KEY not in file.read_text() + done.out + done.err + tellback("config").out
        assert tellback("config", "get", "api_key").out == "set\n"
        assert tellback("init", "--server", other.url).code == 0
        assert "authorization" not in other.requests[-1].headers
        assert tellback("config", "get", "api_key").out == "\n"
        assert tellback("init", "--server", server.url).code == 0
        assert server.requests[-1].headers["authorization"] == f"Bearer {KEY}"
        keys.chmod(0o644)
        assert f"chmod 600 {keys}" in tellback("doctor").out
    assert tellback("config", "unset", "api_key").code == 0
    assert KEY not in keys.read_text()


def test_a_key_set_by_config_is_moved_out_of_the_configuration_file(
    tellback: CommandLine, file: Path, keys: Path, no_keyring: None
) -> None:
    file.parent.mkdir(parents=True)
    file.write_text('api_key = "sk-by-hand"\nmodel = "m"\n')
    done = tellback("config", "set", "api_key", "-", text=f"{KEY}\n")
    assert done.out.startswith("api_key: set (for https://api.openai.com/v1, in ")
    assert file.read_text() == 'model = "m"\n'
    assert f'"https://api.openai.com/v1" = "{KEY}"' in keys.read_text()
    assert tellback("config", "set", "api_key", KEY).code == 2
    keys.write_text("[broken\n")
    assert (tellback("recall", "x").code, "cannot be read" in tellback("recall", "x").err) == (2, True)


# tellback without a command


def test_tellback_without_a_command_shows_the_memory_file_its_features_and_a_next_step(
    tellback: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = tellback()
    assert new.code == 0
    assert f"{tellback.path}: not begun yet\n" in new.out
    assert "next      tellback init" in new.out
    tellback("remember", "We adopted a cat called Miso.")
    (tmp_path / "notes.md").write_text("# Bridge\n\nIt opened in 1932.\n")
    tellback("ingest", str(tmp_path / "notes.md"))
    (Path.home() / ".claude").mkdir()
    monkeypatch.setenv("TELLBACK_MODEL", "ollama:qwen3:4b")
    monkeypatch.setenv("COLUMNS", "60")
    shown = tellback().out
    assert "1 memory, 1 passage of documents" in " ".join(shown.split())
    assert "model     ollama:qwen3:4b\n" in shown
    assert "clients   claude-code here, not connected\n" in shown
    assert "next      tellback install claude-code" in shown
    assert all(len(line) <= 60 for line in shown.splitlines() if "/" not in line)
    answer = tellback.json()
    counts = {name: answer[name] for name in ("memories", "passages", "problem", "not_connected", "next")}
    assert counts == {
        "memories": 1, "passages": 1, "problem": None, "not_connected": ["claude-code"],
        "next": "tellback install claude-code",
    }  # fmt: skip
    assert set(answer) == {*counts, "memory", "exists", "model", "connected"}
    assert tellback.json("--namespace", "other")["memories"] == 0
    tellback.path.write_bytes(b"no database")
    assert "next      tellback doctor" in tellback().out
