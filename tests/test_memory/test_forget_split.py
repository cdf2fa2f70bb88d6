"""Words that stand in several blocks of a message, or in other lines: forgetting takes them however they are split."""

import asyncio

import pytest

from memory.erasure.verbatim_match import VerbatimTexts
from memory.long_term import LongTermMemory
from memory.messages import ImageBlock, Message, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock
from memory.models import Memory
from vectorstore import open_store

FIRST, SECOND = "The locker is by the door.", 'Its "code" is 44173921.'
IMAGE = ImageBlock(media_type="image/png", data=b"x")


@pytest.fixture(params=["numpy", "sqlite"])
def memory(request, tmp_path):
    opened = open_store("numpy:" if request.param == "numpy" else f"sqlite:///{tmp_path / 'm.db'}")
    yield LongTermMemory(opened)
    opened.close()


def run(awaitable):
    return asyncio.run(awaitable)


def blocks(*texts):
    return [TextBlock(text=text) for text in texts]


def results(*texts):
    return [ToolResultBlock(call_id=str(n), name="look", content=(TextBlock(text=t),)) for n, t in enumerate(texts)]


def left(memory, session):
    return [one.sequence for one in run(memory.conversations.load(session))]


def test_a_message_of_several_blocks_goes_with_its_own_memory(memory):
    said = [Message.user(blocks(FIRST, SECOND)), Message.assistant([TextBlock(text="Fine."), TextBlock(text="Bye.")])]
    first, _ = run(memory.remember_turn("s", said))
    assert run(memory.forget([first.id])).messages == 1
    assert left(memory, "s") == [2]


REPEATED = [
    Message.system(f"{FIRST}\n{SECOND}"),
    Message.system(f"You know: {FIRST} {SECOND} So open it."),
    Message(role="system", blocks=tuple(blocks(FIRST, SECOND))),
    Message(role="system", blocks=tuple(blocks("You know:", FIRST, SECOND, "So open it."))),
    Message(role="system", blocks=tuple(blocks(f"{FIRST} {SECOND[:14]}", SECOND[14:]))),
    Message(role="system", blocks=tuple(blocks(f"{FIRST}\n", SECOND[:-5], SECOND[-5:]))),
    Message(role="system", blocks=(TextBlock(text=FIRST), IMAGE, TextBlock(text=SECOND))),
    Message.assistant([ThinkingBlock(text=FIRST), ThinkingBlock(text=SECOND), TextBlock(text="Fine.")]),
    Message.tool(results(FIRST, SECOND)),
    Message.tool([ToolResultBlock(call_id="1", content=(*blocks(FIRST), IMAGE, *blocks(SECOND)))]),
    Message.assistant([ToolCallBlock(id="1", name="note", arguments={"text": f"{FIRST}\n\n{SECOND}"})]),
]


@pytest.mark.parametrize("repeated", REPEATED)
@pytest.mark.parametrize("many", [False, True])
def test_a_message_that_repeats_it_goes_however_it_is_split(memory, repeated, many):
    """Also where so many texts are forgotten that they are looked for in another way."""
    others = [remembered.id for remembered in run(memory.remember_many(f"Thing {n}." for n in range(70 * many)))]
    (told,) = run(memory.remember_turn("told", [Message.user(blocks(FIRST, SECOND))]))
    beside = [Message.system(FIRST), Message(role="system", blocks=tuple(blocks(SECOND, FIRST)))]
    run(memory.conversations.append("s", [repeated, *beside]))
    run(memory.forget([told.id, *others]))
    assert left(memory, "s") == [2, 3]


def test_a_text_that_is_said_in_one_piece_goes_from_messages_that_have_it_in_several(memory):
    noted = run(memory.remember(f"{FIRST} {SECOND}"))
    run(memory.conversations.append("s", [Message(role="system", blocks=tuple(blocks(FIRST, SECOND)))]))
    assert run(memory.forget([noted.id])).messages == 1


def test_a_memory_that_has_other_lines_is_the_same(memory):
    noted = run(memory.remember(f"{FIRST} {SECOND}"))
    wrapped = run(memory.remember(Memory(f"Note:\n  {FIRST}\n  {SECOND}\n")))
    assert run(memory.forget([noted.id])).also == (wrapped.id,)


def test_what_is_split_is_put_aside_and_erased_from_what_waits(memory):
    from datetime import timedelta

    (told,) = run(memory.remember_turn("told", [Message.tool(results(FIRST, SECOND)), Message.user("x y z")]))[1:]
    aside = run(memory.forget(session="told", grace=timedelta(days=1)))
    run(memory.forget([run(memory.remember(f"{FIRST}\n{SECOND}")).id]))
    run(memory.restore_forgotten(aside.operation))
    assert left(memory, "told") == [2]
    assert run(memory.get([told.id]))[0].text == "x y z"


def test_blocks_that_only_touch_are_no_copy():
    words = VerbatimTexts(["the locker code"])
    assert not words.in_message(Message(role="system", blocks=tuple(blocks("the locker", "is", "code"))))
    assert not words.in_message(Message(role="system", blocks=tuple(blocks("code", "the locker"))))
    assert not VerbatimTexts(["Ann"]).in_message(Message(role="system", blocks=tuple(blocks("I saw An", "nabel"))))
    assert VerbatimTexts(["Ann"]).in_message(Message(role="system", blocks=tuple(blocks("I saw", "Ann", "today"))))


def test_blanks_alone_are_held_by_nothing():
    assert not VerbatimTexts([" \n"]).held_by("a b")
    assert VerbatimTexts([" \n"]).longest_words() == []
