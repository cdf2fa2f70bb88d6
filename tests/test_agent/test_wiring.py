"""Objects made of the settings: provider, embedder, memory and assistant."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tellback.agent import (
    AnthropicProvider,
    OllamaProvider,
    OpenAICompatibleProvider,
    ProviderFailed,
    QuotingProvider,
    open_provider,
)
from tellback.agent.assistant.config import AssistantSettings, ConfigurationError
from tellback.agent.assistant.wiring import (
    make_embedder,
    make_http_client,
    make_provider,
    open_assistant,
    open_configured_memory,
)
from tellback.agent.testing import AnthropicServer, OllamaServer, OpenAIServer, Reply
from tellback.memory import LocalEmbedder, Memory, OpenAICompatibleEmbedder, run_sync
from tellback.vectorstore import ArgumentError, NotAStore


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note every address that is connected to or looked up; loopback goes through."""
    seen: list[object] = []
    for name in ("connect", "connect_ex"):
        original = getattr(socket.socket, name)

        def noted(self, address, original=original):
            seen.append(address)
            return original(self, address)

        monkeypatch.setattr(socket.socket, name, noted)
    lookup = socket.getaddrinfo

    def looked_up(host, *rest, **options):
        seen.append(host)
        return lookup(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    return seen


def test_without_a_model_answers_are_quotes() -> None:
    assert isinstance(make_provider(AssistantSettings(), None), QuotingProvider)


@pytest.mark.parametrize("more", [{"api_key": "sk-a"}, {"base_url": "http://127.0.0.1:1/v1"}])
def test_a_model_with_a_key_or_base_url_uses_the_openai_compatible_provider(more: dict) -> None:
    provider = make_provider(AssistantSettings(model="m", **more), None)
    assert isinstance(provider, OpenAICompatibleProvider)
    assert provider.model == "m"


def test_a_model_with_neither_key_nor_address_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY is needed, or OPENAI_BASE_URL"):
        make_provider(AssistantSettings(model="m"), None)


def test_a_program_opens_a_provider_by_the_name_of_a_model_and_the_variables_of_its_vendor(monkeypatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ArgumentError, match="ANTHROPIC_API_KEY is needed, or ANTHROPIC_BASE_URL"):
        open_provider("anthropic:claude")
    with pytest.raises(ArgumentError, match="OPENAI_API_KEY is needed"):
        open_provider("gpt", environment={"OPENAI_API_KEY": ""})
    with pytest.raises(ArgumentError, match="a name such as"):
        open_provider(" ")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant")
    claude = open_provider("anthropic:claude")
    assert isinstance(claude, AnthropicProvider)
    assert claude.model == "claude"
    assert "sk-ant" not in repr(claude)
    assert isinstance(open_provider("claude"), AnthropicProvider)
    assert isinstance(open_provider("ollama:qwen3:8b"), OllamaProvider)
    assert isinstance(
        open_provider("openai:m", environment={"OPENAI_BASE_URL": "http://a/v1"}), OpenAICompatibleProvider
    )


def test_the_model_name_and_the_configured_keys_choose_the_provider() -> None:
    assert isinstance(make_provider(AssistantSettings(model="m", anthropic_api_key="sk-ant"), None), AnthropicProvider)
    assert isinstance(make_provider(AssistantSettings(model="m", ollama_host="box"), None), OllamaProvider)
    named = make_provider(AssistantSettings(model="ollama:m:8b", api_key="sk-a"), None)
    assert isinstance(named, OllamaProvider)
    assert named.model == "m:8b"
    with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
        make_provider(AssistantSettings(model="anthropic:m", api_key="sk-a"), None)


def test_without_an_embedder_setting_the_memory_chooses_its_embedder() -> None:
    assert make_embedder(AssistantSettings(), None) is None
    given = AssistantSettings(embedder="openai", embedding_model="e", embedding_base_url="http://127.0.0.1:1/v1")
    assert isinstance(make_embedder(given, None), OpenAICompatibleEmbedder)


def test_the_static_embedder_can_be_set() -> None:
    pytest.importorskip("wordllama")
    assert isinstance(make_embedder(AssistantSettings(embedder="static"), None), LocalEmbedder)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (AssistantSettings(embedder="openai", api_key="sk-a"), "TELLBACK_EMBEDDING_MODEL"),
        (AssistantSettings(embedder="openai", embedding_model="e"), "OPENAI_API_KEY, or TELLBACK_EMBEDDING_BASE_URL"),
    ],
)
def test_an_incomplete_embedder_configuration_is_a_configuration_error(settings: AssistantSettings, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        make_embedder(settings, None)


@pytest.mark.parametrize(
    ("opener", "reading"),
    [(open_configured_memory, {"create": False}), (open_assistant, {"reads_only": True})],
)
def test_a_missing_memory_file_is_created_only_for_writing(opener, reading: dict, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "m.db"
    with pytest.raises(NotAStore, match="no memory is here yet"):
        opener(AssistantSettings(memory=path), **reading)
    assert list(tmp_path.iterdir()) == []
    run_sync(opener(AssistantSettings(memory=path)).close())
    assert path.is_file()


def test_a_configuration_error_is_raised_before_a_memory_file_is_created(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        open_assistant(AssistantSettings(memory=tmp_path / "m.db", model="m"))
    with pytest.raises(ConfigurationError):
        open_configured_memory(AssistantSettings(memory=tmp_path / "m.db", embedder="openai"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_no_memory_file(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="a folder"):
        open_configured_memory(AssistantSettings(memory=tmp_path))


def test_a_model_without_a_key_does_not_keep_a_memory_from_being_opened(tmp_path: Path) -> None:
    place = open_configured_memory(AssistantSettings(memory=tmp_path / "m.db", model="m"))
    assert run_sync(place.memory.count()) == 0
    run_sync(place.close())


def test_the_assistant_works_in_the_configured_namespace(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    assistant = open_assistant(AssistantSettings(memory=path, namespace="ana"))
    run_sync(assistant.agent.run("My shed has the code 2580."))
    assert run_sync(assistant.opened.memory.count(namespace="ana")) == 1
    assert run_sync(assistant.opened.memory.count()) == 0
    run_sync(assistant.close())


def test_a_model_is_given_the_memory_its_tools_and_the_key(tmp_path: Path) -> None:
    with OpenAIServer(Reply("It is 2580 [1].")) as server:
        settings = AssistantSettings(
            memory=tmp_path / "m.db", model="m", base_url=server.url, api_key="sk-test", offline=True
        )
        assistant = open_assistant(settings)
        run_sync(assistant.opened.memory.remember("The shed has the code 2580."))
        result = run_sync(assistant.agent.run("What is the code of the shed?"))
        run_sync(assistant.close())
    (seen,) = server.requests
    assert result.citations[0].quote == "The shed has the code 2580."
    assert seen.headers["authorization"] == "Bearer sk-test"
    assert "The shed has the code 2580." in str(seen.body["messages"])
    names = {item["function"]["name"] for item in seen.body["tools"]}
    assert any("memor" in name for name in names)
    assert "personal assistant" in str(seen.body["messages"][0])


@pytest.mark.parametrize("kind", ["anthropic", "ollama"])
def test_the_assistant_uses_the_wire_format_and_key_of_the_configured_provider(kind: str, tmp_path: Path) -> None:
    server_type = AnthropicServer if kind == "anthropic" else OllamaServer
    with server_type(Reply("It is 2580 [1].")) as server:
        keys = {"anthropic_api_key": "sk-ant", "anthropic_base_url": server.url, "api_key": "sk-other"}
        given = keys if kind == "anthropic" else {"ollama_host": server.url, "api_key": "sk-other"}
        settings = AssistantSettings(memory=tmp_path / "m.db", model=f"{kind}:m", offline=True, **given)
        assistant = open_assistant(settings)
        run_sync(assistant.opened.memory.remember("The shed has the code 2580."))
        result = run_sync(assistant.agent.run("What is the code of the shed?"))
        run_sync(assistant.close())
    (seen,) = server.requests
    assert result.citations[0].quote == "The shed has the code 2580."
    assert seen.body["model"] == "m"
    assert "sk-other" not in str(seen.headers)
    assert seen.headers.get("authorization") == ("Bearer sk-ant" if kind == "anthropic" else None)
    assert ("cache_control" in seen.body) is (kind == "anthropic")


def test_offline_a_model_beyond_this_machine_is_not_dialled(tmp_path: Path, dialled: list[object]) -> None:
    settings = AssistantSettings(
        memory=tmp_path / "m.db", model="m", base_url="http://model.test/v1", api_key="sk-a", offline=True
    )
    assistant = open_assistant(settings)
    with pytest.raises(ProviderFailed, match="offline"):
        run_sync(assistant.agent.run("Where am I?"))
    run_sync(assistant.close())
    assert dialled == []


def test_offline_a_remote_embedder_is_not_connected_to_and_the_text_is_still_stored(
    tmp_path: Path, dialled: list[object]
) -> None:
    settings = AssistantSettings(
        memory=tmp_path / "m.db",
        embedder="openai",
        embedding_model="e",
        embedding_base_url="http://embed.test/v1",
        offline=True,
    )
    place = open_configured_memory(settings)
    report = run_sync(place.memory.remember(Memory("The key is under the stone.")))
    found = run_sync(place.memory.recall("Where is the key?"))
    run_sync(place.close())
    assert report.deferred
    assert found[0].memory.text == "The key is under the stone."
    assert dialled == []


def test_one_client_serves_several_event_loops() -> None:
    client = make_http_client(AssistantSettings(offline=True))
    with OpenAIServer(Reply("One."), Reply("Two.")) as server:
        provider = make_provider(AssistantSettings(model="m", base_url=server.url), client)
        settings = AssistantSettings(model="m", base_url=server.url)
        assert settings.model_endpoint.url == server.url
        from tellback.agent import Agent

        agent = Agent(provider)
        assert [asyncio.run(agent.run("Say.")).text for _ in range(2)] == ["One.", "Two."]
    asyncio.run(client.aclose())


def test_a_memory_file_keeps_its_language_and_refuses_another_setting(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    place = open_configured_memory(AssistantSettings(memory=path, language="de"))
    assert place.memory.store.analyzer.language == "german"
    run_sync(place.close())
    for language in (None, "german", "de-AT"):
        again = open_configured_memory(AssistantSettings(memory=path, language=language))
        assert again.memory.store.analyzer.language == "german"
        run_sync(again.close())
    with pytest.raises(ConfigurationError, match=r"language es: .*m\.db was begun in german.*leave the language out"):
        open_configured_memory(AssistantSettings(memory=path, language="es", language_of_file=True))
    other = open_configured_memory(AssistantSettings(memory=path, language="es"))  # that of new files
    assert other.memory.store.analyzer.language == "german"
    run_sync(other.close())


def test_an_unknown_language_creates_no_memory_file(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="language: one of arabic"):
        open_configured_memory(AssistantSettings(memory=tmp_path / "m.db", language="klingon"))
    assert not (tmp_path / "m.db").exists()


def test_quotes_are_matched_in_the_language_of_the_memory(tmp_path: Path) -> None:
    assistant = open_assistant(AssistantSettings(memory=tmp_path / "m.db", language="de"))
    run_sync(assistant.opened.memory.remember("Die Ferienhäuser am See sind rot."))
    run = run_sync(assistant.agent.run("Welche Farbe hat das Ferienhaus?", store=False))
    assert run.text == "“Die Ferienhäuser am See sind rot.” [1]"
    run_sync(assistant.close())
