"""``tellback sessions``: the list of conversations, and the messages of one."""

from __future__ import annotations

import json

from tellback.memory import (
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    open_memory,
    run_sync,
)
from tests.support.command_line import CommandLine


def test_sessions_are_listed_with_times_counts_and_first_words(tellback: CommandLine) -> None:
    tellback.remember_turn("first", Message.user("Where is the boat?"), Message.assistant("In the harbour."))
    tellback.remember_turn("second", Message.user("Who feeds\nthe cat?"))
    answer = tellback.json("sessions")
    assert set(answer) == {"sessions", "more"}
    assert answer["more"] is False
    assert set(answer["sessions"][0]) == {"session", "messages", "first_at", "last_at", "begins"}
    items = [(item["session"], item["messages"], item["begins"]) for item in answer["sessions"]]
    assert items == [("second", 1, "Who feeds the cat?"), ("first", 2, "Where is the boat?")]
    headings, second, first = tellback("sessions").out.splitlines()
    assert headings.split() == ["#", "session", "used", "last", "messages", "begins"]
    assert second.startswith("1  second")
    assert first.endswith("Where is the boat?")


def test_sessions_list_honours_its_limit(tellback: CommandLine) -> None:
    for number in range(3):
        tellback.remember_turn(f"s{number}", Message.user("hello"))
    done = tellback("sessions", "list", "--limit", "2")
    assert len(done.out.splitlines()) == 3
    assert "--limit" in done.err
    answer = tellback.json("sessions", "list", "--limit", "2")
    assert ([item["session"] for item in answer["sessions"]], answer["more"]) == (["s2", "s1"], True)


def test_sessions_show_prints_all_messages_media_calls_and_results(tellback: CommandLine) -> None:
    call = ToolCallBlock(id="c1", name="add", arguments={"a": 1})
    result = ToolResultBlock(call_id="c1", name="add", content=(TextBlock(text="two\nlines"),), is_error=True)
    image = ImageBlock(media_type="image/png", data=b"x", caption="a harbour")
    file = DocumentBlock(media_type="application/pdf", data=b"xy")
    tellback.remember_turn("s", Message.user([TextBlock(text="Add!"), image, file], name="Ana"))
    tellback.remember_turn("s", Message.assistant([call]), Message.tool([result]), Message.assistant("Done."))
    lines = [line.partition("  ")[2] for line in tellback("sessions", "show", "s").out.splitlines()]
    assert lines == [
        "Ana: Add!",
        "  (image: a harbour)",
        "  (document: application/pdf)",
        'assistant: (calls add {"a": 1})',
        "tool: (error of add: two",
        "  lines)",
        "assistant: Done.",
    ]
    answer = tellback.json("sessions", "show", "s")
    keys = {"sequence", "role", "speaker", "text", "said_at", "stored_at", "memory", "media", "calls", "results"}
    assert (answer["session"], [set(item) for item in answer["messages"]]) == ("s", [keys] * 4)
    first, second, third, _ = answer["messages"]
    assert (first["sequence"], first["speaker"], first["text"]) == (1, "Ana", "Add!")
    assert first["memory"]
    assert first["media"][0] == {
        "type": "image",
        "media_type": "image/png",
        "name": "",
        "caption": "a harbour",
        "bytes": 1,
    }
    assert second["calls"] == [{"id": "c1", "name": "add", "arguments": {"a": 1}}]
    assert third["results"] == [{"call": "c1", "name": "add", "text": "two\nlines", "error": True}]
    assert [item["sequence"] for item in tellback.json("sessions", "show", "s", "--limit", "2")["messages"]] == [3, 4]


def test_sessions_show_renders_the_quotes_of_a_quoting_answer(tellback: CommandLine) -> None:
    tellback("remember", "The spare key lies under the blue pot.")
    assert tellback("ask", "Where is the spare key?").code == 0
    memory = open_memory(tellback.path)
    (given,) = run_sync(memory.recall("spare key", 1))
    quote = {"quotes": [{"id": given.memory.id, "start": 0, "end": 13}], "reply": "quoted"}
    run_sync(memory.remember_turn("s", [Message(role="assistant", metadata=quote)]))
    run_sync(memory.close())
    assert "“The spare key”" in tellback("sessions", "show", "s").out


def test_no_namespace_sees_the_sessions_of_another(tellback: CommandLine) -> None:
    tellback.remember_turn("s", Message.user("secret"), namespace="ana")
    assert tellback("sessions").out == "No conversation is kept yet.\n"
    assert tellback("--namespace", "ana", "sessions").out.splitlines()[1].endswith("secret")
    done = tellback("sessions", "show", "s")
    assert (done.code, done.out) == (2, "")
    assert "tellback sessions" in done.err


def test_sessions_list_without_a_memory_file_creates_none(tellback: CommandLine) -> None:
    assert tellback("sessions").code == 3
    assert not tellback.path.exists()


def test_wrong_usage_of_the_sessions_command_exits_with_2(tellback: CommandLine) -> None:
    tellback.remember_turn("s", Message.user("hello"))
    for arguments in (["--limit", "0"], ["--sort", "size"]):
        assert tellback("sessions", "list", *arguments).code == 2


def test_escapes_and_line_breaks_cannot_forge_a_line_of_the_session_list(tellback: CommandLine) -> None:
    tellback.remember_turn("s", Message.user("\x1b[31mred\n2026-01-01 00:00  assistant: forged"))
    listed = tellback("sessions").out
    assert "\x1b" not in listed
    assert len(listed.splitlines()) == 2
    first, second = tellback("sessions", "show", "s").out.splitlines()
    assert "\\x1b" in first
    assert second.startswith("    2026")


def test_chat_continues_the_last_session_or_says_that_a_new_one_begins(tellback: CommandLine) -> None:
    done = tellback("chat", "-c", "--json", text="The boat is in the harbour.\n")
    assert (done.code, done.err) == (0, "no conversation is kept yet; this is the first\n")
    session = json.loads(done.out)["session"]
    done = tellback("chat", "--continue", "--json", text="It is red.\n")
    assert (json.loads(done.out)["session"], done.err) == (session, "")
    done = tellback("chat", "--session", session[:6], "--json", text="It is old.\n")
    assert (json.loads(done.out)["session"], done.err) == (session, "")
    assert tellback("chat", "-c", "--session", session).code == 2


def test_a_session_can_be_named_and_a_mistyped_name_is_an_error_with_suggestions(
    tellback: CommandLine,
) -> None:
    tellback("chat", "--new", "harbour", text="The boat is in the harbour.\n/new garden\nThe roses need water.\n")
    done = tellback("chat", "--session", "harbor", text="It leaks.\n")
    assert (done.code, done.out) == (2, "")
    assert "no session is called harbor; did you mean harbour? --new harbor begins it" in done.err
    assert tellback("chat", "--new", "harbour", text="It leaks.\n").code == 2
    assert "no session is called roses; did you mean garden?" in tellback("chat", "--session", "roses").err
    about = [info["session"] for info in tellback.json("sessions", "list", "Where", "is", "the", "boat?")["sessions"]]
    assert about == ["harbour"]
    token = "ghp_" + "aB3" * 12
    done = tellback("chat", "--new", token, text="I live in Porto.\n")
    assert (done.code, token in done.err) == (2, False)
    assert len(tellback.json("sessions")["sessions"]) == 2


def test_a_fork_begins_with_a_copy_and_leaves_the_other_session_as_it_is(tellback: CommandLine) -> None:
    tellback("chat", "--new", "plan", text="We leave on Friday.\n")
    done = tellback("chat", "--fork", "plan", "--new", "other plan", text="We leave on Monday.\n")
    assert (done.code, done.out) == (0, "Noted: “We leave on Monday.”\n")
    assert "a copy, 2 messages, of plan" in done.err
    sizes = {info["session"]: info["messages"] for info in tellback.json("sessions")["sessions"]}
    assert sizes == {"plan": 2, "other plan": 4}
    assert "no session is called" in tellback("chat", "--fork", "nothing", text="Hello.\n").err
    assert tellback("chat", "--fork", "plan", "-c", text="Hello.\n").code == 2
