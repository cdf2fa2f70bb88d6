"""Lines by a client's own command: doubles that are real programs on PATH.

Inner parts, on no face: ``tellback.agent.providers.accumulator``, ``tellback.agent.providers.client_command``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.agent import ArgumentError, ProviderError, Request
from tellback.agent.callables import LineWriter
from tellback.agent.providers.accumulator import Response, collect_response
from tellback.agent.providers.client_command import CLIENT_COMMANDS, ClientCommandProvider
from tellback.memory import LongTermMemory, Memory, Message
from tests.support.client_commands import ClientDouble

pytestmark = pytest.mark.anyio
PROGRAMS = {"claude-code": "claude", "codex": "codex", "gemini-cli": "gemini"}


@pytest.fixture(params=PROGRAMS)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def double(client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClientDouble:
    return ClientDouble(tmp_path / "bin", monkeypatch, PROGRAMS[client])


async def ask(client: str, folder: Path, *, seconds: float = 60, model: str | None = None) -> Response:
    provider = ClientCommandProvider(client, folder=folder, seconds=seconds, model=model)
    request = Request((Message.user("1 (user): Anna has our spare key."),), system="Write lines.")
    return await collect_response(provider, request)


async def test_words_go_to_standard_input_of_a_command_in_a_folder_where_hooks_are_off(
    client: str, double: ClientDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("TELLBACK_API_KEY", "secret")
    folder = tmp_path / "asked"
    reply = await ask(client, folder, model="small")
    assert '"about Anna has our spare ' in reply.text
    assert (reply.usage.input, reply.usage.output) == (321, 9)
    (call,) = double.calls
    assert call["words"] == "Write lines.\n\n1 (user): Anna has our spare key."
    assert not any("Anna" in word for word in call["arguments"])
    assert call["arguments"][call["arguments"].index("--model") + 1] == "small"
    assert (Path(call["folder"]), (folder / ".tellback-off").exists()) == (folder, True)
    ours = {name: value for name, value in call["environment"].items() if name.startswith(("TELLBACK", "CLAUDECODE"))}
    assert ours == {"TELLBACK_HOOK_KEEP": "nothing"}


async def test_lines_of_a_command_are_kept_and_sensitive_memories_are_not_sent(
    client: str, double: ClientDouble, tmp_path: Path, memory: LongTermMemory
) -> None:
    await memory.remember_many(["Anna has our spare key.", Memory("My PIN is 4471.", sensitive=True)])
    double.write({"Anna has our spare key.": "spare house key: who keeps it"})
    (done,) = [
        step async for step in LineWriter(ClientCommandProvider(client, folder=tmp_path / "asked")).write(memory)
    ]
    assert (done.written, done.tokens) == (1, 330)
    assert {found.about for found in await memory.list()} == {"spare house key: who keeps it", ""}
    assert "4471" not in double.calls[0]["words"]


async def test_a_command_that_fails_or_is_missing_is_an_error_without_its_words(
    client: str, double: ClientDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    double.write(fails=True)
    with pytest.raises(ProviderError, match="ended with code 1 and no answer") as failed:
        await ask(client, tmp_path)
    assert "Anna" not in str(failed.value)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProviderError, match="is not found"):
        await ask(client, tmp_path)


async def test_a_command_that_gives_no_answer_is_ended(double: ClientDouble, client: str, tmp_path: Path) -> None:
    double.write(hangs=True)
    with pytest.raises(ProviderError, match=r"no answer in 0\.5 seconds"):
        await ask(client, tmp_path, seconds=0.5)


def test_an_unknown_client_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=f"one of {', '.join(CLIENT_COMMANDS)}"):
        ClientCommandProvider("cursor", folder=tmp_path)
