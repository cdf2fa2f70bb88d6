"""Settings: their sources and precedence, and the errors for invalid ones.

Inner parts, on no face: ``tellback.agent.providers.open``.
"""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.agent.assistant.config import (
    ENVIRONMENT_VARIABLES,
    AssistantSettings,
    ConfigurationError,
    load_configuration,
)
from tellback.agent.assistant.setting_checks import Secret, http_address
from tellback.agent.providers.open import ollama_address


def load(*, file: Path | None = None, flags: dict | None = None, **environ: str):
    """Load with an explicit file, so that no other file of the machine is read."""
    if file is not None:
        environ["TELLBACK_CONFIG"] = str(file)
    return load_configuration(flags=flags or {}, environ=environ)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text('namespace = "file"\nmodel = "from-the-file"\ntoken_budget = 900\n')
    return path


def test_nothing_set_gives_the_defaults() -> None:
    found = load()
    assert (found.settings.namespace, found.settings.model, found.settings.offline) == ("", None, False)
    assert found.settings.memory.name == "memory.db"
    assert found.origins == {}


def test_a_flag_beats_the_environment_which_beats_the_file_which_beats_the_default(file: Path) -> None:
    found = load(file=file, flags={"namespace": "flag", "model": None}, TELLBACK_NAMESPACE="env", TELLBACK_MODEL="env")
    assert (found.settings.namespace, found.settings.model, found.settings.token_budget) == ("flag", "env", 900)
    assert found.origins == {"namespace": "--namespace", "model": "TELLBACK_MODEL", "token_budget": str(file)}
    assert found.settings.embedder == "auto"


@pytest.mark.parametrize("name", ENVIRONMENT_VARIABLES)
def test_each_variable_of_the_environment_sets_its_setting(name: str, tmp_path: Path) -> None:
    values = {"offline": "1", "token_budget": "700", "embedder": "local", "memory": str(tmp_path / "a.db")}
    values |= {"base_url": "http://localhost:1/v1", "embedding_base_url": "http://localhost:2/v1"}
    values |= {"embedding_cache": "700", "reranker": "onnx:given", "resident_idle": "700"}
    values |= {"automatic_backups": "1", "backup_space": "700"}
    values |= {"anthropic_base_url": "http://localhost:3", "window": "turns:3", "trace": "1"}
    values |= {"secrets": "reject", "share_sensitive": "1", "minimum_length": "700", "near_duplicates": "fold"}
    values |= {"model_server": "llama.cpp", "thinking": "700", "temperature": "700", "repetition_penalty": "700"}
    values |= {"max_tokens": "700", "reply_limit": "700", "silence_timeout": "700"}
    values |= {"hook_tokens": "700", "hook_keep": "prompts", "replacements": "model", "prompt_history": "1"}
    values |= {"zone": "Asia/Tokyo", "extract_facts": "1", "lines": "on", "line_tokens": "700"}
    values |= {"automatic_backups": "1", "backup_space": "700"}
    given_value = values.get(name, "given")
    settings = load(**{ENVIRONMENT_VARIABLES[name]: given_value}).settings
    found = getattr(settings, name)
    shown = found.reveal() if isinstance(found, Secret) else found
    assert shown in (given_value, True, 700, tmp_path / "a.db")


@pytest.mark.parametrize(
    ("written", "meant"), [("'off'", "off"), ("false", "off"), ("true", "on"), ("'ON'", "on"), ("512", 512)]
)
def test_thinking_is_a_switch_or_a_budget(written: str, meant: object, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(f"thinking = {written}\n")
    assert load(file=path).settings.thinking == meant


@pytest.mark.parametrize("name", ["thinking", "repetition_penalty", "reply_limit", "silence_timeout", "model_server"])
def test_an_invalid_model_setting_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        load(**{ENVIRONMENT_VARIABLES[name]: "-1"})


def test_an_empty_environment_variable_counts_as_unset(file: Path) -> None:
    assert load(file=file, TELLBACK_NAMESPACE="").settings.namespace == "file"


@pytest.mark.parametrize("text", ["", "none", "None"])
def test_the_model_flag_can_disable_a_model_of_the_environment(text: str) -> None:
    assert load(flags={"model": text}, TELLBACK_MODEL="gpt").settings.model is None


def test_a_relative_path_in_a_configuration_file_starts_at_the_folder_of_that_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('memory = "kept/m.db"\n')
    assert load(file=path).settings.memory == tmp_path / "kept" / "m.db"


def test_a_tilde_in_a_path_is_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load(TELLBACK_MEMORY="~/m.db").settings.memory == tmp_path / "m.db"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"TELLBACK_TOKEN_BUDGET": "many"}, ["token_budget", "TELLBACK_TOKEN_BUDGET", "integer", "'many'"]),
        ({"TELLBACK_TOKEN_BUDGET": "3"}, ["token_budget", "500"]),
        ({"TELLBACK_OFFLINE": "maybe"}, ["offline", "TELLBACK_OFFLINE", "boolean"]),
        ({"TELLBACK_TEMPERATURE": "nan"}, ["temperature", "TELLBACK_TEMPERATURE", "at least 0"]),
        ({"TELLBACK_HOOK_KEEP": "some"}, ["hook_keep", "TELLBACK_HOOK_KEEP", "'prompts'", "'some'"]),
        ({"TELLBACK_ZONE": "Europe"}, ["zone", "TELLBACK_ZONE", "Europe/Lisbon", "'Europe'"]),
        ({"TELLBACK_NAME": "x" * 101}, ["name", "TELLBACK_NAME", "100"]),
        ({"TELLBACK_EMBEDDER": "magic"}, ["embedder", "TELLBACK_EMBEDDER", "'local'"]),
        ({"OPENAI_BASE_URL": "localhost:8080"}, ["base_url", "OPENAI_BASE_URL", "http://localhost:8080/v1"]),
    ],
)
def test_an_invalid_setting_is_named_with_its_origin_and_the_accepted_values(environ: dict, words: list[str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(**environ)
    assert all(word in str(caught.value) for word in words)


def test_an_unknown_setting_in_the_file_is_refused_and_the_known_ones_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('modle = "gpt"\n')
    with pytest.raises(ConfigurationError, match=r"modle.*no such setting.*memory, namespace, offline, language, name"):
        load(file=path)


@pytest.mark.parametrize(("content", "words"), [(b"model = ", "not TOML"), (b"\xff\xfe", "cannot be read")])
def test_an_unreadable_configuration_file_is_a_configuration_error(content: bytes, words: str, tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=words):
        load(file=path)


def test_a_missing_file_in_tellback_config_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="TELLBACK_CONFIG"):
        load(file=tmp_path / "none.toml")


def test_settings_show_no_secret_in_their_repr() -> None:
    found = load(OPENAI_API_KEY="sk-secret", TELLBACK_EMBEDDING_API_KEY="sk-other", TELLBACK_MODEL="m")
    assert "sk-" not in repr(found) + str(found.settings) + str(found.settings.api_key)
    assert found.settings.model_endpoint.key == "sk-secret"


def test_an_invalid_secret_is_not_shown_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("api_key = 31337\n")
    with pytest.raises(ConfigurationError) as caught:
        load(file=path)
    assert "31337" not in str(caught.value)


def test_the_models_key_goes_to_an_embedder_at_the_same_endpoint_only() -> None:
    same = load(OPENAI_API_KEY="sk-a", OPENAI_BASE_URL="http://a.test/v1").settings
    other = load(
        OPENAI_API_KEY="sk-a", OPENAI_BASE_URL="http://a.test/v1", TELLBACK_EMBEDDING_BASE_URL="http://b.test/v1"
    ).settings
    assert (same.embedding_key, other.embedding_key, other.model_endpoint.key) == ("sk-a", None, "sk-a")


@pytest.mark.parametrize(
    ("environ", "kind"),
    [
        ({}, "openai"),
        ({"OLLAMA_HOST": "box:1234"}, "ollama"),
        ({"ANTHROPIC_API_KEY": "sk-ant"}, "anthropic"),
        ({"ANTHROPIC_API_KEY": "sk-ant", "OLLAMA_HOST": "box"}, "anthropic"),
        ({"OPENAI_API_KEY": "sk-a", "ANTHROPIC_API_KEY": "sk-ant", "OLLAMA_HOST": "box"}, "openai"),
        ({"OPENAI_BASE_URL": "http://a.test/v1", "OLLAMA_HOST": "box"}, "openai"),
    ],
)
def test_the_environment_decides_the_provider_of_a_plain_model_name(environ: dict, kind: str) -> None:
    settings = load(TELLBACK_MODEL="qwen3:8b", **environ).settings
    assert (settings.model_endpoint.kind, settings.model_endpoint.name) == (kind, "qwen3:8b")


@pytest.mark.parametrize("kind", ["openai", "anthropic", "ollama"])
def test_a_provider_prefix_of_a_model_name_overrides_the_environment(kind: str) -> None:
    settings = load(TELLBACK_MODEL=f"{kind}:some:name", OPENAI_API_KEY="sk-a", OLLAMA_HOST="box").settings
    assert (settings.model_endpoint.kind, settings.model_endpoint.name) == (kind, "some:name")


def test_a_key_is_used_for_its_own_endpoint_alone() -> None:
    settings = load(TELLBACK_MODEL="anthropic:m", OPENAI_API_KEY="sk-a", ANTHROPIC_API_KEY="sk-ant").settings
    assert settings.model_endpoint.key == "sk-ant"
    assert settings.model_endpoint.url == "https://api.anthropic.com"
    assert settings.embedding_key == "sk-a"
    assert load(TELLBACK_MODEL="ollama:m", OPENAI_API_KEY="sk-a", OLLAMA_HOST="box").settings.model_endpoint.key is None


def test_the_embedding_endpoint_is_ollamas_host_only_if_no_other_endpoint_is_set() -> None:
    assert load(OLLAMA_HOST="box:1234").settings.embedding_endpoint == "http://box:1234/v1"
    assert load(OLLAMA_HOST="box", OPENAI_API_KEY="sk-a").settings.embedding_endpoint == "https://api.openai.com/v1"


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8000", "http://127.0.0.1:8000"),
        (":8000", "http://127.0.0.1:8000"),
        ("box.local:8000", "http://box.local:8000"),
        ("http://box.local", "http://box.local:80"),
        ("https://box.local/", "https://box.local:443"),
        ("https://box.local:8443/ollama", "https://box.local:8443/ollama"),
        ("::1", "http://[::1]:11434"),
        ("[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_ollamas_host_is_read_by_ollamas_own_rules(host: str, address: str) -> None:
    assert ollama_address(host) == address


@given(st.text(alphabet="htps:/[].%@a1 \\\t", max_size=24))
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    for written in (text, f"http://{text}"):
        try:
            shown = http_address(written).lower()
        except ValueError as error:
            shown = str(error).removeprefix("an address such as ")
        assert shown.startswith(("http://", "https://"))


def test_settings_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        AssistantSettings().namespace = "other"  # type: ignore[misc]
