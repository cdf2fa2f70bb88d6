"""``tellback memories profile``: by rules, written by a model over real HTTP, and as the answer to a question."""

from __future__ import annotations

import json

import pytest

from tellback.agent.testing import OpenAIServer, RawReply, Reply
from tests.support.command_line import CommandLine

SAID = ("My name is Clara.", "I moved to Grenoble.", "My sister Ana lives in Ghent.")


@pytest.fixture
def known(tellback: CommandLine) -> CommandLine:
    for text in SAID:
        tellback.json("remember", text)
    return tellback


def model(monkeypatch: pytest.MonkeyPatch, server: OpenAIServer) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("TELLBACK_MODEL", "any")


def test_without_a_model_each_statement_stands_under_its_topic_with_a_number(known: CommandLine) -> None:
    lines = known("memories", "profile").out.splitlines()
    assert [line.rsplit("]", 1)[0] for line in lines] == [
        "You",
        "  name        My name is Clara. [1",
        "  home        I moved to Grenoble. [2",
        "",
        "Your sister Ana",
        "  home        My sister Ana lives in Ghent. [3",
    ]
    answer = known.json("memories", "profile")
    assert [(entry["subject"], entry["topic"], entry["text"]) for entry in answer["entries"]] == [
        ("", "name", SAID[0]),
        ("", "home", SAID[1]),
        ("sister Ana", "home", SAID[2]),
    ]
    assert answer["sentences"] is None


def test_a_model_writes_the_profile_and_sentences_without_citation_are_left_out(
    known: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [
        {"text": "You are Clara and live in Grenoble.", "items": [1, 2]},
        {"text": "You are rich.", "items": []},
        {"text": "You are tall.", "items": [9]},
    ]
    with OpenAIServer(Reply(json.dumps({"answer": items}))) as server:
        model(monkeypatch, server)
        done = known("memories", "profile")
    assert done.out.splitlines()[:2] == ["You are Clara and live in Grenoble. [1] [2]", ""]
    assert "rich" not in done.out
    assert "2 sentences of the model left out" in done.err
    assert all(text in json.dumps(server.requests[0].body) for text in SAID)


def test_a_failing_model_leaves_the_profile_by_topic(known: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer(RawReply([b'{"error": {"message": "no"}}'], 400, "application/json")) as server:
        model(monkeypatch, server)
        done = known("memories", "profile")
    assert (done.code, done.out.splitlines()[0]) == (0, "You")
    assert "listed by rules instead" in done.err


def test_asking_what_do_you_know_about_me_shows_the_profile(known: CommandLine) -> None:
    shown = known("memories", "profile").out
    assert known("chat", text="So what do you know about me?\n").out == shown
    assert known("ask", "What do you know about me?").out == shown
