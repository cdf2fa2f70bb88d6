"""``tellback chat`` with and without a model: turns, commands, failures that do not end a conversation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tellback.agent.testing import OpenAIServer, RawReply, Reply, call
from tests.support.command_line import CommandLine

CITATION_KEYS = {
    "number", "id", "quote", "source", "title", "page", "line", "heading", "start", "end", "speaker", "session", "date",
    "lane", "score",
}  # fmt: skip
REFUSAL = RawReply([b'{"error": {"message": "the key sk-canary is wrong"}}'], 401, "application/json")


def test_chat_keeps_statements_and_answers_from_them(tellback: CommandLine) -> None:
    done = tellback("chat", text="My bicycle lock has the code 4711.\n\nWhat is the code of my bicycle lock?\n")
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert lines[0] == "Noted: “My bicycle lock has the code 4711.”"
    assert lines[1] == "“My bicycle lock has the code 4711.” [1]"
    assert lines[2].startswith("[1] you, ")


LIFE = """\
hello
I live in Leith and I work as a bridge inspector.
My sister Imke lives in Groningen with her two boys, Joost and Pim.
Tansy is allergic to chicken, only lamb for her.
The ferry to Orkney leaves on 19 September, cabin 4.
My desk is number 14, by the window.
The surgeon was Ms Abara.
Where do I live?
Where does Imke live?
What's my sister called?
Who was the surgeon?
Which cabin do I have on the ferry?
What do I do for a living?
When is the ferry?
What is Tansy allergic to?
Which desk is mine?
tell me a joke
forget the surgeon
help
thanks!
"""
TRANSCRIPT = """\
Hello. Tell me what I should remember, or ask me about it.
“I live in Leith and I work as a bridge inspector.” [1]
“My sister Imke lives in Groningen with her two boys, Joost and Pim.” [1]
“My sister Imke lives in Groningen with her two boys, Joost and Pim.” [1]
“The surgeon was Ms Abara.” [1]
“The ferry to Orkney leaves on 19 September, cabin 4.” [1]
“I live in Leith and I work as a bridge inspector.” [1]
“The ferry to Orkney leaves on 19 September, cabin 4.” [1]
“Tansy is allergic to chicken, only lamb for her.” [1]
“My desk is number 14, by the window.” [1]
That takes a model. Without one, I keep what you tell me and answer questions with quotes of it.
You are welcome.
"""


@pytest.mark.slow
def test_a_chat_without_a_model_prints_the_expected_transcript(tellback: CommandLine) -> None:
    done = tellback("chat", text=LIFE)
    items = [line for line in done.out.splitlines() if not line.startswith(("Noted: ", "[1] ", "[2] "))]
    assert items == TRANSCRIPT.splitlines()
    assert "`tellback forget --query 'the surgeon'`" in done.err
    assert "/new [NAME]" in done.err
    assert "forget the surgeon" not in [memory["text"] for memory in tellback.json("memories", "list")["memories"]]


def test_chat_repeats_no_secret_and_says_that_it_was_not_kept(tellback: CommandLine) -> None:
    done = tellback("chat", text="The PIN of my bicycle lock is 4711.\n")
    assert done.out == "Noted: “The PIN of my bicycle lock is [redacted: PIN].”\n"
    assert done.err == "kept without 1 part of your words (secret: PIN)\n"
    for file in tellback.path.parent.glob("m.db*"):
        assert b"4711" not in file.read_bytes()


def test_chat_json_prints_one_object_per_turn(tellback: CommandLine) -> None:
    done = tellback("chat", "--json", "--new", "s1", text="I live in Porto.\nWhere do I live?\n")
    first, second = map(json.loads, done.out.splitlines())
    keys = {"session", "question", "answer", "citations", "stored", "tokens_exact", "warnings", "error"}
    assert set(first) == set(second) == keys
    assert first["session"] == second["session"] == "s1"
    assert (first["error"], first["question"]) == (None, "I live in Porto.")
    assert set(second["citations"][0]) == CITATION_KEYS
    assert first["stored"] == [second["citations"][0]["id"]]


def test_chat_runs_its_slash_commands_and_reports_unknown_ones(tellback: CommandLine) -> None:
    done = tellback(
        "chat", "--json", text="/session\nI am here.\n/new\nI am there.\n/frob\n/help\n/quit\nNever said.\n"
    )
    first, second = map(json.loads, done.out.splitlines())
    assert first["session"] != second["session"]
    assert done.err.splitlines()[0] == first["session"]
    assert "there is no /frob" in done.err
    assert tellback.json("memories")["total"] == 2


def test_a_failed_chat_turn_is_reported_and_the_conversation_goes_on(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OpenAIServer(Reply("Hello."), REFUSAL, Reply("Again.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
        monkeypatch.setenv("TELLBACK_MODEL", "any")
        done = tellback("chat", "--json", text="One.\nTwo.\nThree.\n")
    turns = [json.loads(line) for line in done.out.splitlines()]
    assert [turn["answer"] for turn in turns] == ["Hello.", "", "Again."]
    assert [bool(turn["error"]) for turn in turns] == [False, True, False]
    assert done.code == 4
    assert done.err.count("tellback: ") == 1
    assert "sk-canary" not in done.out + done.err


def test_chat_refuses_piped_input_that_is_not_text(tellback: CommandLine) -> None:
    done = tellback("chat", text=b"I am here.\n\xff\xfe\n")
    assert done.code == 2
    assert "line 2 of standard input is not UTF-8" in done.err
    assert tellback.json("memories")["total"] == 1


def test_ask_is_answered_by_the_configured_model(tellback: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    tellback.json("remember", "The shed has the code 2580.")
    with OpenAIServer(Reply("It is 2580 [1].")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("TELLBACK_MODEL", "any")
        answer = tellback.json("ask", "What is the code of the shed?")
    assert (answer["answer"], answer["model"], answer["ending"]) == ("It is 2580 [1].", "any", "final")
    assert answer["citations"][0]["quote"] == "The shed has the code 2580."


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch):
    """Set *settings* for a model at the address of a server."""

    def configure(server: OpenAIServer, **settings: object) -> None:
        environ = {"OPENAI_BASE_URL": server.url, "TELLBACK_MODEL": "any"}
        environ |= {f"TELLBACK_{name.upper()}": str(value) for name, value in settings.items()}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)

    return configure


def test_model_settings_are_sent_as_parameters_of_the_configured_server(tellback: CommandLine, model) -> None:
    tellback.json("remember", "The shed has the code 2580.")
    sent = {"temperature": 0, "max_tokens": 500, "repetition_penalty": 1.1, "effort": "low"}
    with OpenAIServer(Reply("It is 2580 [1].")) as server:
        model(server, model_server="llama.cpp", thinking=512, **sent)
        answer = tellback.json("ask", "What is the code of the shed?")
    body = server.requests[0].body
    assert {name: body[name] for name in ("temperature", "max_tokens", "repeat_penalty", "reasoning_effort")} == {
        "temperature": 0, "max_tokens": 500, "repeat_penalty": 1.1, "reasoning_effort": "low"
    }  # fmt: skip
    assert (body["chat_template_kwargs"], body["thinking_budget_tokens"]) == ({"enable_thinking": True}, 512)
    assert answer["answered_by"] == "scripted"


def test_a_model_setting_unsupported_by_the_server_is_reported_in_one_line(tellback: CommandLine, model) -> None:
    tellback.json("remember", "The shed has the code 2580.")
    with OpenAIServer() as server:
        model(server, thinking=512)
        done = tellback("ask", "What is the code of the shed?")
    assert (done.code, done.out, server.requests) == (2, "", [])
    assert "model_server" in done.err


def test_an_endless_reply_is_cut_at_the_limit_and_exits_with_4(tellback: CommandLine, model) -> None:
    tellback.json("remember", "The shed has the code 2580.")
    endless = Reply("again " * 500)
    with OpenAIServer(endless, endless, Reply("Fine.")) as server:
        model(server, reply_limit=60)
        done = tellback("ask", "What is the code of the shed?")
        talk = tellback("chat", text="And now?\nAnd then?\n")
    assert (done.code, done.out) == (4, "again " * 10 + "\n")
    assert "cut off: the model had written 60 characters" in done.err
    assert (talk.code, talk.out) == (4, "again " * 10 + "\nFine.\n")


@pytest.mark.slow
def test_a_silent_server_times_out_as_configured_and_is_not_retried(
    tellback: CommandLine, model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tellback.agent.providers.http_provider._NOTICE_SECONDS", 0.1)
    with OpenAIServer(RawReply([60.0]), Reply("Too late.")) as server:
        model(server, silence_timeout=2)
        done = tellback("chat", text="Are you there?\n")
        assert len(server.requests) == 1
    assert (done.code, done.out) == (4, "")
    assert "nothing has come from the model for 0.1 s (until 2 s)" in done.err
    assert "the server was silent for 2 s" in done.err.splitlines()[-1]


def test_control_sequences_in_a_model_answer_are_escaped(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tellback.json("remember", "The shed has the code 2580.")
    with OpenAIServer(Reply("\x1b]0;owned\x07It is."), Reply("\x1b]0;owned\x07It is.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("TELLBACK_MODEL", "any")
        assert tellback("ask", "What is it?").out == "\\x1b]0;owned\\x07It is.\n"
        assert "\x1b" not in tellback("chat", text="What is it?\n").out


def test_without_a_terminal_a_model_can_neither_correct_nor_forget_memories(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = tellback.json("remember", "The shed has the code 2580.")["id"]
    calls = (call("forget_memory", ids=[id]), call("correct_memory", id=id, text="It has none."))
    with OpenAIServer(Reply(calls=calls), Reply("I could not.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("TELLBACK_MODEL", "any")
        done = tellback("chat", text="Forget the code.\n")
    results = [result["content"] for result in server.requests[1].body["messages"] if result["role"] == "tool"]
    assert done.out.startswith("I could not.")
    assert len(results) == 2
    assert all("nobody sits at a terminal" in result for result in results)
    assert "The shed has the code 2580." in [result["text"] for result in tellback.json("memories")["memories"]]


def test_the_ask_command_offers_a_model_no_writing_tools(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tellback.json("remember", "The shed has the code 2580.")
    with OpenAIServer(Reply("2580.")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("TELLBACK_MODEL", "any")
        tellback("ask", "What is the code?")
    names = {item["function"]["name"] for item in server.requests[0].body["tools"]}
    assert names == {
        *("search_memory", "get_memory", "search_documents", "list_documents"),
        *("current_time", "calculate"),
    }


WITHOUT_A_MODEL = """\
My husband is called Marek, his birthday is on 14 March.
When is my husband's birthday?
no, it's on 15 March
y
Jonas is allergic to peanuts.
No wait, Jonas is allergic to walnuts
n
n
The plumber comes on Friday.
forget that
y
undo
y
/pin
/quit
"""


def test_on_a_terminal_plain_words_correct_and_forget_after_confirmation(tellback: CommandLine) -> None:
    done = tellback("chat", text=WITHOUT_A_MODEL, terminal=True)
    assert done.code == 0
    texts = [memory["text"] for memory in tellback.json("memories", "list")["memories"]]
    assert "  was: My husband is called Marek, his birthday is on 14 March.\n" in done.err
    assert "  now: My husband is called Marek, his birthday is on 15 March.\n" in done.err
    # Neither the declined correction nor the answer to no question is kept; what was said last is forgotten, which
    # undo cannot take back.
    assert "left as it is" in done.err
    assert "no question is open" in done.err
    assert "forgot 1 memory" in done.out
    assert "took back" in done.out
    assert not any(words in text for text in texts for words in ("walnuts", "plumber"))
    assert "n" not in texts
    assert tellback.json("memories", "operations")["operations"][0]["kind"] == "pin"


def test_a_request_for_a_reminder_is_kept_and_says_that_nothing_reminds(tellback: CommandLine) -> None:
    done = tellback("chat", text="remind me to call the dentist tomorrow at 10\nforget that\n")
    assert "nothing reminds you" in done.err
    assert [memory["text"] for memory in tellback.json("memories")["memories"]] == [
        "remind me to call the dentist tomorrow at 10"
    ]


def test_a_redacted_secret_is_stored_on_request_and_chat_reports_changes_of_a_turn(tellback: CommandLine) -> None:
    done = tellback("chat", text="The PIN of my bicycle lock is 4711.\n/keep\n/keep\n", terminal=True)
    assert "PIN not kept; /keep to keep it" in done.err
    assert "kept with its PIN, marked as sensitive" in done.err
    assert "nothing was left out" in done.err
    assert "4711" not in done.out + done.err
    (memory,) = tellback.json("memories", "list")["memories"]
    assert (memory["text"], memory["sensitive"]) == ("The PIN of my bicycle lock is 4711.", True)
    again = tellback("chat", text="I live in Porto.\nI live in Porto.\n", terminal=True)
    assert "\nkept " in again.err


def test_chat_names_the_tools_of_a_turn_and_approval_shows_a_diff(tellback: CommandLine, model) -> None:
    id = tellback.json("remember", "The plumber comes on Friday.")["id"]
    calls = (call("correct_memory", id=id, text="The plumber comes on Monday."), call("remember", text="He has moved."))
    with OpenAIServer(Reply(calls=calls), Reply("Done, your PIN 4711 too.")) as server:
        model(server)
        done = tellback("chat", text="The plumber comes on Monday, my PIN is 4711.\ny\n", terminal=True)
    assert "  was: The plumber comes on Friday.\n  now: The plumber comes on Monday.\n" in done.err
    assert "noted “He has moved.” · correct_memory · 20 + 10 tokens" in done.err
    assert done.out == "> Allow it? [y/N] Done, your PIN [redacted: PIN] too.\n> "
    corrected = tellback.json("memories", "operations", "--of", id)["operations"][0]
    assert (corrected["kind"], corrected["actor"]) == ("correct", "user")


def test_slash_commands_run_on_the_open_memory(tellback: CommandLine) -> None:
    typed = "The ferry leaves at nine.\n/recall ferry\n/why When does the ferry leave?\nWhen does the ferry leave?\n"
    done = tellback("chat", text=typed + "/sources\n/remember Jonas's aunt is Ida.\n/memories\n/recal ferry\n/model\n")
    assert done.code == 0
    assert "1. The ferry leaves at nine." in done.out
    assert " = words " in done.out or "score" in done.out
    assert "    The ferry leaves at nine.\n" in done.out
    assert "Jonas's aunt is Ida." in done.out
    assert "did you mean /recall?" in done.err
    assert "no model; questions are answered by quotes" in done.err


def test_a_question_about_piped_or_attached_text_is_answered_and_the_text_not_stored(
    tellback: CommandLine, tmp_path: Path, model
) -> None:
    report = "# Report\n\nThe bridge was inspected in May.\n\nThe new bearing is due on 3 December.\n"
    done = tellback("ask", "When is the new bearing due?", text=report)
    assert (done.code, done.out.splitlines()[0]) == (0, "“The new bearing is due on 3 December.” [1]")
    assert not tellback.path.exists()
    file = tmp_path / "report.md"
    file.write_text(report)
    done = tellback("chat", "--attach", file, text="When was the bridge inspected?\n/attach nowhere.txt\n/attach\n")
    assert done.out.startswith("“The bridge was inspected in May.” [1]")
    assert "nowhere.txt cannot be read" in done.err
    assert tellback.json("documents")["documents"] == []
    with OpenAIServer(Reply("In May.")) as server:
        model(server)
        tellback("chat", "--attach", file, text="When was it inspected?\n")
    assert "The bridge was inspected in May." in json.dumps(server.requests[0].body["messages"][-1])


def test_the_model_of_a_chat_can_be_changed(tellback: CommandLine, model) -> None:
    with OpenAIServer(Reply("Hello.")) as server:
        model(server)
        done = tellback("chat", text="Hello there.\n/model none\nI live in Porto.\n/model\n")
    assert done.out == "Hello.\nNoted: “I live in Porto.”\n"
    assert "quotes from now on" in done.err
