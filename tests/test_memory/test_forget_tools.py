"""A memory of what tools answered tells what they were asked, too: forgetting it takes both out of the conversation."""

from dataclasses import replace
from datetime import timedelta

import pytest

from memory import Action, EmbeddingSettings, Judge, PolicyDecision, open_memory
from memory.long_term import LongTermMemory
from memory.messages import Message, TextBlock, ToolCallBlock, ToolResultBlock
from tests.test_memory.forgetting import Toy, run
from vectorstore import open_store

WEEK = timedelta(days=7)


@pytest.fixture(params=["numpy", "sqlite"])
def memory(request, tmp_path):
    opened = open_store("numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path / 'm.db'}")
    yield LongTermMemory(opened)
    opened.close()


def call(id, note):
    return ToolCallBlock(id=id, name="save", arguments={"note": note})


def answer(id, text="saved"):
    return ToolResultBlock(call_id=id, content=(TextBlock(text=text),))


ASKED = [
    Message.user("Please note my code."),
    Message.assistant([call("1", "44173921")]),
    Message.tool([answer("1")]),
    Message.assistant("Done."),
]


def left(memory, session="s"):
    return [one.sequence for one in run(memory.conversations.load(session))]


def of_tools(memory):
    return [one for one in run(memory.list()) if one.role == "tool"]


def test_what_was_asked_goes_with_what_was_answered(memory):
    run(memory.remember_turn("s", ASKED))
    (noted,) = of_tools(memory)
    assert "44173921" in noted.text
    assert run(memory.forget([noted.id])).messages == 2
    assert left(memory) == [1, 4]


def test_what_was_said_while_asking_goes_too_and_other_calls_stay(memory):
    said = [
        Message.assistant([call("1", "first")]),
        Message.tool([answer("1")]),
        Message.assistant([TextBlock(text="I shall note it."), call("1", "44173921")]),
        Message.user("Wait."),
        Message.tool([answer("1")]),
        Message.assistant([call("2", "44173921")]),
        Message.tool([answer("2", "it is full")]),
    ]
    reports = run(memory.remember_turn("s", said))
    receipt = run(memory.forget([reports[4].id]))
    assert (receipt.also, receipt.messages) == ((reports[2].id,), 2)
    assert left(memory) == [1, 2, 4, 6, 7]


def test_an_answer_without_a_memory_that_tells_the_same_goes_too(memory):
    run(memory.remember_turn("s", ASKED))
    rows = memory.conversations.rows
    rows.append("t", ASKED[1:3], memories=["", ""])
    rows.append("u", [Message.assistant([call("1", "another")]), Message.tool([answer("1")])], memories=["", ""])
    assert run(memory.forget([of_tools(memory)[0].id])).messages == 4
    assert (left(memory), left(memory, "t"), left(memory, "u")) == ([1, 4], [], [1, 2])


def test_both_come_back_together_or_are_gone_together(memory):
    run(memory.remember_turn("s", ASKED))
    (noted,) = of_tools(memory)
    first = run(memory.forget([noted.id], grace=WEEK))
    assert left(memory) == [1, 4]
    run(memory.restore_forgotten(first.operation))
    assert left(memory) == [1, 2, 3, 4]
    second = run(memory.forget(session="s", grace=WEEK))
    assert run(memory.forget([run(memory.remember(noted.text)).id])).parts["held"] >= 2
    run(memory.restore_forgotten(second.operation))
    assert 3 not in left(memory)
    assert of_tools(memory) == []


def test_no_vector_is_kept_of_what_was_asked_and_answered_before_a_policy_changed_it(tmp_path):
    embedder, asked = Toy(), []
    shorter = Judge(
        lambda one: asked.append(one) or PolicyDecision(Action.TRANSFORM, "short", memory=replace(one, text="short"))
    )
    settings = EmbeddingSettings(cache_bytes=1 << 20)
    memory = open_memory(tmp_path / "m.db", embedder=embedder, policies=[shorter], embedding_settings=settings)
    run(memory.remember_turn("s", ASKED[1:3]))
    (before,) = {one.text for one in asked}
    cache = memory.embedding._cache
    cache.put("toy/1", "document", {before: cache.get("toy/1", "document", ["short"])[0]})
    run(memory.forget([of_tools(memory)[0].id]))
    assert cache.get("toy/1", "document", [before, "short"]) == [None, None]
    run(memory.close())
