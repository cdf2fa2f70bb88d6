"""The line editor of the chat, and the parts of it that are pure: corrections in plain words, blocks of Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

# Inner modules: none of this has a face, and a terminal for each case would take minutes.
from tellback.agent.assistant.cli.conversation.answer_view import PlainView, split_blocks
from tellback.agent.assistant.cli.conversation.line_editor import LineEditor
from tellback.agent.assistant.cli.conversation.prompt_history import PromptHistory
from tellback.agent.assistant.cli.text_diff import marked_difference
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.conversation.plain_requests import corrected_text, correction_request, forget_request
from tellback.agent.assistant.conversation.secret_mask import SecretMask
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.memory import Message, open_memory, run_sync
from tellback.vectorstore import Analyzer


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield keys


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[OpenedMemory]:
    memory = open_memory(tmp_path / "m.db", embedder=None)
    yield OpenedMemory(AssistantSettings(memory=tmp_path / "m.db"), memory)
    run_sync(memory.close())


def editor(keys: PipeInput, opened: OpenedMemory | None = None) -> LineEditor:
    return LineEditor(PromptHistory(opened), input=keys, output=DummyOutput())


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("hello\r", "hello"),
        ("one\x1b\rtwo\r", "one\ntwo"),
        ("one\ntwo\r", "one\ntwo"),
        ("\x1b[200~list:\n- milk\r\n- 猫粮\x1b[201~\r", "list:\n- milk\n- 猫粮"),
        ("\x1b[200~one \x1b[201\x1b[201~two\r", "one \x1b[201two"),
        ("typo\x03right\r", "right"),
        ("\x03hello\r", "hello"),
        ("\x03\x03", None),
        ("\x04", None),
    ],
)
def test_a_prompt_may_have_several_lines_and_ends_by_enter(keys: PipeInput, typed: str, line: str | None) -> None:
    keys.send_text(typed)
    assert editor(keys).read() == line


@pytest.mark.slow
def test_prompt_history_is_kept_between_runs_without_forgotten_prompts_and_secrets(
    keys: PipeInput, opened: OpenedMemory
) -> None:
    memory = opened.memory
    for text in ("I live in Porto.", "Jonas is allergic.", "Where\ndo I live?"):
        run_sync(memory.remember_turn("s", [Message.user(text)]))
    run_sync(memory.remember_turn("other", [Message.user("Not mine.")], namespace="ana"))
    reader = editor(keys, opened)
    reader.history.append_string("my PIN is 4471")
    assert run_sync(prompts(reader.history)) == ["Where\ndo I live?", "Jonas is allergic.", "I live in Porto."]
    found = run_sync(memory.forget(query="Jonas is allergic", k=1, dry_run=True)).memories
    run_sync(memory.forget(found))
    reader.history.forget_typed()
    assert run_sync(prompts(reader.history)) == ["Where\ndo I live?", "I live in Porto."]
    assert run_sync(prompts(PromptHistory(None))) == []


async def prompts(history: PromptHistory) -> list[str]:
    return [prompt async for prompt in history.load()]


@pytest.mark.parametrize(
    ("line", "statement"),
    [
        ("no, his birthday is 15 March", "his birthday is 15 March"),
        ("No wait, my husband is called Mark", "my husband is called Mark"),
        ("actually my desk is number 31", "my desk is number 31"),
        ("nein, sie wohnt in Bonn", "sie wohnt in Bonn"),
        ("不对，她住在上海", "她住在上海"),
        ("that's wrong, Tunde is in Leeds", "Tunde is in Leeds"),
        ("No milk in my coffee.", None),
        ("Norway is cold.", None),
        ("no, is it?", None),
        ("no", None),
    ],
)
def test_a_correction_in_plain_words_is_distinguished_from_a_statement(line: str, statement: str | None) -> None:
    assert correction_request(line) == statement


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("forget that Jonas is allergic", "Jonas is allergic"),
        ("Please delete my old desk.", "my old desk"),
        ("忘记我的猫", "我的猫"),
        ("forget it", ""),
        ("Forget that.", ""),
        ("Don't forget the milk", None),
        ("I forget names.", None),
    ],
)
def test_a_request_to_forget_is_recognised_with_its_subject(line: str, what: str | None) -> None:
    assert forget_request(line) == what


@pytest.mark.parametrize(
    ("old", "statement", "new"),
    [
        ("Marek's birthday is on 14 March.", "his birthday is 15 March", "Marek's birthday is 15 March."),
        ("My husband is Marek, his birthday is 14 March.", "his birthday is 15 March",
         "My husband is Marek, his birthday is 15 March."),
        ("My husband is called Marek.", "my husband is called Mark", "My husband is called Mark."),
        ("Jonas lives in Köln.", "he lives in Bonn", "Jonas lives in Bonn."),
        ("The ferry leaves on 14 March.", "15 March", "The ferry leaves on 15 March."),
        ("The train leaves at 9:15.", "9:45", "The train leaves at 9:45."),
        ("Ana lives in Porto and keeps bees", "Ana lives in Braga", "Ana lives in Braga and keeps bees"),
        ("Ana wohnt in Porto und sie hat Bienen.", "sie hat Hühner", "Ana wohnt in Porto und sie hat Hühner."),
        ("Ana and Ben live in Porto.", "Ana lives in Braga", "Ana lives in Braga."),
    ],
)  # fmt: skip
def test_a_correction_replaces_the_clause_that_it_is_about(old: str, statement: str, new: str) -> None:
    assert corrected_text(old, statement, Analyzer()) == new


def test_the_words_that_changed_are_marked() -> None:
    texts = marked_difference("The plumber comes on Friday.", "The plumber comes on Monday.")
    assert [[text.plain[slice(*span[:2])] for span in text.spans] for text in texts] == [["Friday"], ["Monday"]]


def test_markdown_is_cut_where_blocks_end() -> None:
    text = "# Title\n\n- a\n\n  more of a\n\n```\ncode\n\ncode\n```\n\nThe end"
    blocks, rest = split_blocks(text)
    assert blocks == ["# Title", "- a\n\n  more of a", "```\ncode\n\ncode\n```"]
    assert rest == "The end"


def test_a_secret_of_the_prompt_is_redacted_in_an_answer_wherever_the_stream_is_cut(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = PlainView(SecretMask("my PIN is 4471"))
    for piece in ("Your PIN 4", "47", "1 is\nsafe: 44", "71"):
        view.write(piece)
    view.close()
    assert capsys.readouterr().out == "Your PIN [redacted: PIN] is\nsafe: [redacted: PIN]\n"
