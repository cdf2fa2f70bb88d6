"""Secrets in the assistant: stored after confirmation, redacted in output, never sent to a remote model unasked."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tellback.agent import (
    Agent,
    AgentSettings,
    OllamaProvider,
    OpenAICompatibleProvider,
    QuotingProvider,
    RetryingProvider,
    ToolContext,
    memory_tools,
)
from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.wiring import make_write_policies, open_configured_memory
from tellback.agent.testing import Reply, ScriptedProvider
from tellback.memory import LongTermMemory, Memory, Message, NotTrusted, run_sync
from tellback.memory.internals import is_remote
from tellback.vectorstore import open_store

CODE = "The PIN of the safe is 48213."


class Typed(io.TextIOWrapper):
    """Standard input as a terminal on which *text* is typed."""

    def __init__(self, text: str, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(text.encode()), encoding="utf-8")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.fixture
def tellback(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, typed: str | None = None) -> SimpleNamespace:
        monkeypatch.setattr(sys, "stdin", Typed(typed or "", terminal=typed is not None))
        code = run_command_line(["--memory", str(tmp_path / "m.db"), *arguments])
        captured = capsys.readouterr()
        return SimpleNamespace(code=code, out=captured.out, err=captured.err)

    return call


def kept(tellback) -> list[dict]:
    done = tellback("memories", "list", "--json")
    return json.loads(done.out)["memories"] if done.code == 0 else []


def test_a_confirmed_secret_is_stored_unredacted_and_marked_sensitive(tellback, tmp_path: Path) -> None:
    done = tellback("remember", CODE, typed="y\n")
    assert done.code == 0
    assert done.err.count("looks like a secret (PIN)") == 1
    assert [item["text"] for item in kept(tellback)] == [CODE]
    place = open_configured_memory(AssistantSettings(memory=tmp_path / "m.db"))
    (memory,) = run_sync(place.memory.list())
    run_sync(place.close())
    assert memory.sensitive


def test_a_secret_without_confirmation_is_not_stored(tellback) -> None:
    for answer in ("n\n", "\n", ""):
        done = tellback("remember", CODE, typed=answer)
        assert done.code == 1
        assert "nothing was kept" in done.err
    assert kept(tellback) == []


def test_without_a_terminal_a_secret_is_stored_only_with_allow_sensitive(tellback) -> None:
    done = tellback("remember", CODE)
    assert (done.code, done.out) == (2, "")
    assert "; --allow-sensitive keeps it, marked as sensitive" in done.err
    assert tellback("remember", CODE, "--allow-sensitive").code == 0
    assert [item["text"] for item in kept(tellback)] == [CODE]


def reworded(tellback, how: str, *more: str, typed: str | None = None) -> SimpleNamespace:
    """Replace the text of one memory, or of two that are merged, by one with the secret."""
    ids = [item["id"] for item in kept(tellback)]
    if how == "correct":
        return tellback("correct", ids[0], CODE, *more, typed=typed)
    return tellback("memories", "merge", *ids, "--text", CODE, *more, typed=typed)


@pytest.mark.parametrize("how", ["correct", "merge"])
def test_a_secret_in_a_correction_or_merge_needs_confirmation(tellback, how: str) -> None:
    for text in ("The safe is green.", "The safe is old.")[: 1 + (how == "merge")]:
        tellback("remember", text)
    refused = reworded(tellback, how)
    assert (refused.code, refused.out) == (2, "")
    assert "--allow-sensitive" in refused.err
    said_no = reworded(tellback, how, typed="n\n")
    assert (said_no.code, "nothing was kept" in said_no.err) == (1, True)
    assert not any(CODE in item["text"] or "redacted" in item["text"] for item in kept(tellback))
    asked = reworded(tellback, how, typed="y\n")
    assert (asked.code, asked.err.count("looks like a secret (PIN)")) == (0, 1)
    (now,) = kept(tellback)
    assert (now["text"], now["sensitive"]) == (CODE, True)


@pytest.mark.parametrize("how", ["correct", "merge"])
def test_a_new_secret_in_a_memory_already_marked_sensitive_needs_no_confirmation(tellback, how: str) -> None:
    tellback("remember", "The safe is green.")
    if how == "merge":
        tellback("remember", "The safe is old.")
    assert reworded(tellback, how, "--allow-sensitive").code == 0
    if how == "merge":
        tellback("remember", "The safe is old.")
    again = tellback("correct", kept(tellback)[0]["id"], "The PIN of the safe is 11223.") if how == "correct" else None
    again = again or tellback(
        "memories", "merge", *[item["id"] for item in kept(tellback)], "--text", "The PIN is 11223."
    )
    assert (again.code, "looks like" in again.err) == (0, False)
    (now,) = kept(tellback)
    assert ("11223" in now["text"], now["sensitive"]) == (True, True)


def test_a_text_without_a_secret_needs_no_confirmation_and_is_not_marked_sensitive(tellback, tmp_path: Path) -> None:
    assert tellback("remember", "The safe is green.", "--allow-sensitive").err == ""
    place = open_configured_memory(AssistantSettings(memory=tmp_path / "m.db"))
    (memory,) = run_sync(place.memory.list())
    run_sync(place.close())
    assert not memory.sensitive


def test_scopes_importance_expiry_and_a_pin_can_be_given(tellback, tmp_path: Path) -> None:
    more = ("--scope", "project=atlas", "--importance", "0.7", "--pin", "--expires", "2030-01-01T00:00+00:00")
    assert tellback("remember", "The safe is green.", *more).code == 0
    place = open_configured_memory(AssistantSettings(memory=tmp_path / "m.db"))
    (memory,) = run_sync(place.memory.list())
    run_sync(place.close())
    assert (dict(memory.scopes), memory.importance, memory.pinned) == ({"project": "atlas"}, 0.7, True)
    assert memory.expires_at.isoformat() == "2030-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    "bad", [("--scope", "project"), ("--scope", "=x"), ("--importance", "2"), ("--expires", "soon")]
)
def test_a_bad_option_is_named(tellback, bad: tuple[str, str]) -> None:
    done = tellback("remember", "The safe is green.", *bad)
    assert (done.code, done.out) == (2, "")
    assert bad[0] in done.err


def test_remember_prints_the_outcome_and_the_id(tellback) -> None:
    first = tellback("remember", "The safe is green.", "--key", "k").out.split()
    assert first[0] == "stored"
    assert tellback("remember", "The safe is green.", "--key", "k").out == (f"known already {first[1]}\n")


@pytest.mark.parametrize(
    ("settings", "said", "outcome"),
    [
        ({}, CODE, "redacted"),
        ({"secrets": "reject"}, CODE, "rejected"),
        ({"secrets": "keep"}, CODE, "stored"),
        ({"minimum_length": 10}, "ok", "rejected"),
        ({"near_duplicates": "fold"}, "The safe is green.", "near-duplicate"),
        ({"near_duplicates": "link"}, "The safe is green.", "stored"),
    ],
)
def test_the_write_policy_settings_decide_the_outcome_of_a_turn(settings, said: str, outcome: str) -> None:
    memory = LongTermMemory(open_store("numpy:"), policies=make_write_policies(AssistantSettings(**settings)))
    run_sync(memory.remember_turn("s", [Message.user("The safe is green.")]))
    assert run_sync(memory.remember_turn("s", [Message.user(said)]))[0].outcome == outcome


# --- models


@pytest.fixture
def memory():
    opened = LongTermMemory(open_store("numpy:"))
    run_sync(opened.remember(Memory(CODE, sensitive=True)))
    run_sync(opened.remember(Memory("The safe stands in the cellar.", pinned=True)))
    run_sync(opened.remember(Memory("The other safe opens with 55512.", pinned=True, sensitive=True)))
    yield opened
    run_sync(opened.close())


def shown_to(provider: ScriptedProvider) -> str:
    return "\n".join(message.text for message in provider.requests[0].messages)


@pytest.mark.parametrize(("remote", "share", "shown"), [(True, False, False), (True, True, True), (False, False, True)])
def test_a_remote_model_sees_nothing_sensitive_unless_it_is_shared(
    memory, remote: bool, share: bool, shown: bool
) -> None:
    with ScriptedProvider(Reply("It is in the cellar.")) as provider:
        provider.remote = remote
        agent = Agent(provider, memory=memory, settings=AgentSettings(share_sensitive=share))
        agent.run_sync("What is the PIN of the safe in the cellar?")
    seen = shown_to(provider)
    assert "cellar" in seen
    assert ("48213" in seen, "55512" in seen) == (shown, shown)


@pytest.mark.parametrize("sensitive", [True, False])
def test_the_memory_tools_show_sensitive_memories_only_with_the_sensitive_option(memory, sensitive: bool) -> None:
    search, get = memory_tools(memory, include=["search_memory", "get_memory"], sensitive=sensitive)
    ids = [item.id for item in run_sync(memory.list())]
    context = ToolContext(call_id="c", session="s")
    found = run_sync(search.call({"query": "What is the PIN of the safe?"}, context))
    read = run_sync(get.call({"ids": ids}, context))
    for seen in (found, read):
        assert "cellar" in seen
        assert ("48213" in seen) is sensitive


def test_a_correction_of_a_user_memory_by_the_model_needs_the_users_words_option(memory) -> None:
    (code_id, *_) = [item.id for item in run_sync(memory.list()) if item.text == CODE]
    with pytest.raises(NotTrusted):
        run_sync(memory.correct(code_id, "The PIN is 1.", actor="assistant"))
    (correct,) = memory_tools(memory, include=["correct_memory"], users_words=True)
    run_sync(correct.call({"id": code_id, "text": "The safe has no PIN."}, ToolContext(call_id="c", session="s")))
    (now,) = run_sync(memory.get([code_id]))
    assert (now.text, now.actor) == ("The safe has no PIN.", "assistant")


def test_is_remote_distinguishes_remote_and_local_providers() -> None:
    here = OllamaProvider("m", base_url="http://127.0.0.1:11434")
    away = OpenAICompatibleProvider("https://models.example.org/v1", "m")
    assert [
        is_remote(item) for item in (QuotingProvider(), here, away, RetryingProvider(here), RetryingProvider(away))
    ] == [
        False,
        False,
        True,
        False,
        True,
    ]
    assert is_remote(object())
    for item in (here, away):
        run_sync(item.aclose())
