"""Cascade of forget: erased and kept items, tombstones, one transaction over all components.

Inner parts, on no face: ``tellback.memory.erasure``, ``tellback.memory.erasure.verbatim_match``,
``tellback.memory.tables.erasers``, ``tellback.memory.history.protocol``.
"""

import random
import shutil
from datetime import timedelta

import pytest

from tellback.memory import (
    CannotUndo,
    DocumentBlock,
    EmbeddingSettings,
    FixedWindow,
    ImageBlock,
    KnowledgeBase,
    Memory,
    Message,
    NoSuchMemory,
    NotTrusted,
    ShortTermMemory,
    Source,
    SummaryWindow,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
    Trust,
    open_memory,
)
from tellback.memory.erasure import cascade_plan
from tellback.memory.erasure.verbatim_match import VerbatimTexts
from tellback.memory.history.protocol import HistoryRow
from tellback.memory.internals import ARCHIVE, CONVERSATION, IngestAction, Outcome, store_namespace, to_entry
from tellback.memory.tables.erasers import ErasedItems
from tellback.vectorstore import Entry
from tests.support.forgetting import (
    BOOKS,
    NOTING_TURN,
    NOW,
    SECRET,
    WEEK,
    RecordingEraser,
    ToyEmbedder,
    ingested,
    message_texts,
    note_call,
    note_result,
    remembered,
    run,
    sequences,
    sources,
    texts,
    tool_memories,
)


@pytest.fixture
def library(tmp_path, clock):
    """A memory in a file that may ingest documents."""
    opened = open_memory(tmp_path / "m.db", embedder=ToyEmbedder(), clock=clock)
    yield opened
    run(opened.close())


# --- versions, sources, copies and derived memories


def turn(memory, *messages, session="s", used=()):
    return [report.id for report in run(memory.remember_turn(session, list(messages), used=used))]


def test_versions_go_with_their_memory(memory):
    kept = remembered(memory, "something else")
    gone = remembered(memory, "one")
    run(memory.correct(gone, "two"))
    run(memory.correct(gone, "three"))
    receipt = run(memory.forget([gone]))
    assert (receipt.memories, receipt.versions, receipt.dry_run) == ((gone,), 2, False)
    assert run(memory.get([gone, kept]))[0] is None
    assert texts(memory) == ["something else"]
    assert memory.store.count(namespace=store_namespace("", ARCHIVE)) == 0
    with pytest.raises(NoSuchMemory):
        run(memory.history(gone))


def test_the_source_message_goes_and_others_stay(memory):
    first, _ = turn(memory, Message.user("I moved to Lisbon."), Message.assistant("Good for you."))
    receipt = run(memory.forget([first]))
    assert receipt.messages == 1
    assert message_texts(memory) == ["Good for you."]
    assert run(memory.complete()) == 0


def test_a_fact_takes_its_source_message_with_its_memory(memory):
    first, second = turn(memory, Message.user("Rex barks a lot, you know"), Message.user("Nice weather today"))
    fact = remembered(memory, "Rex is a dog", source=Source(session="s", sequence=1), derived_from=(first,))
    receipt = run(memory.forget([fact]))
    assert (receipt.memories, receipt.also, receipt.messages) == ((fact,), (first,), 1)
    assert texts(memory) == ["Nice weather today"]
    assert message_texts(memory) == ["Nice weather today"]
    assert run(memory.get([second]))[0] is not None


def test_verbatim_copies_go_in_memories_metadata_passages_and_messages(memory):
    target = remembered(memory, SECRET)
    copy = remembered(memory, f"note: {SECRET}!")
    tagged = remembered(memory, "see below", metadata={"details": {"quote": [SECRET]}})
    memory.store.upsert([to_entry(Memory(f"chapter 1. {SECRET}", id="chunk", kind="document"))], namespace=BOOKS)
    turn(memory, Message.user("hello"), Message.assistant(f"You said: {SECRET}"))
    receipt = run(memory.forget([target]))
    answer = set(receipt.also) - {copy, tagged, "chunk"}
    assert len(answer) == 1
    assert receipt.messages == 1
    assert texts(memory) == ["hello"]
    assert message_texts(memory) == ["hello"]
    assert memory.store.count(namespace=BOOKS) == 0


def test_verbatim_copies_go_in_tool_calls_results_and_files(memory):
    target = remembered(memory, SECRET)
    call = ToolCallBlock(id="1", name="save", arguments={"notes": [{"text": f"x {SECRET} y"}]})
    result = ToolResultBlock(call_id="1", content=(TextBlock(text=f"saved: {SECRET}"),))
    file = DocumentBlock(media_type="text/plain", data=f"list\n{SECRET}\n".encode())
    turn(memory, Message.assistant([call]), Message.tool([result]), Message.user([file]), Message.user("bye"))
    receipt = run(memory.forget([target]))
    assert receipt.messages == 3
    assert message_texts(memory) == ["bye"]


def test_copies_of_earlier_versions_go(memory):
    first, second = turn(memory, Message.user(SECRET), Message.assistant(f"Noted: {SECRET}"))
    run(memory.correct(first, "the locker code is secret"))
    receipt = run(memory.forget([first]))
    assert (receipt.also, receipt.versions, receipt.messages) == ((second,), 1, 2)
    assert texts(memory) == []


def test_an_earlier_version_with_a_copy_goes_and_its_memory_stays(memory):
    target = remembered(memory, SECRET)
    other = remembered(memory, f"{SECRET} (told by Ann)")
    run(memory.correct(other, "Ann told me something"))
    receipt = run(memory.forget([target]))
    assert (receipt.also, receipt.versions) == ((), 1)
    assert [version.text for version in run(memory.history(other))] == ["Ann told me something"]


def test_memories_derived_from_a_forgotten_memory_alone_go_transitively(memory):
    a, b = remembered(memory, "the first thing"), remembered(memory, "the second thing")
    alone = remembered(memory, "from a", derived_from=(a,))
    grandchild = remembered(memory, "from that", derived_from=(alone, a))
    both = remembered(memory, "from both", derived_from=(a, b))
    receipt = run(memory.forget([a]))
    assert receipt.derived == tuple(sorted([alone, grandchild]))
    assert receipt.named == (both,)
    assert texts(memory) == ["from both", "the second thing"]


def test_derived_memories_and_copies_go_with_their_own_versions_and_messages(memory):
    first, second = turn(memory, Message.user("I have a dog."), Message.assistant("And a cat?"))
    made = remembered(memory, "has a pet", derived_from=(first,))
    run(memory.correct(made, "has an animal"))
    run(memory.correct(second, f"So: {SECRET}"))
    target = remembered(memory, SECRET)
    receipt = run(memory.forget([first, target]))
    assert (receipt.derived, receipt.also, receipt.versions, receipt.messages) == ((made,), (second,), 2, 2)
    assert memory.store.count(namespace=store_namespace("", ARCHIVE)) == 0
    assert message_texts(memory) == []


@pytest.mark.slow
def test_the_indexed_cascade_search_selects_the_same_as_reading_every_memory(library, monkeypatch):
    rng, memory, words = random.Random(4), library, ["ann", "Grüße", 'a "quote"', "tab\there", "back\\slash", "日本"]
    ids = []
    for number in range(40):
        text = " ".join(rng.choices(words, k=rng.randint(1, 2))) + rng.choice(["", f" number {number}"])
        some = rng.sample(ids, min(len(ids), rng.randint(0, 2)))
        kind = rng.choice(["plain", "derived", "turn", "tagged", "corrected", "merged"])
        if kind == "turn":
            ids += turn(memory, Message.user(f"asked {text}"), Message.assistant(text), used=some)
        elif kind == "corrected" and some:
            run(memory.correct(some[0], f"{text} corrected"))
        elif kind == "merged" and len(some) == 2:
            run(memory.merge(some, f"merged {text}"))
            ids.remove(some[1])
        else:
            fields = (
                {"derived_from": tuple(some)} if kind == "derived" else {"tags": (text,)} if kind == "tagged" else {}
            )
            ids.append(remembered(memory, text, **fields))
    chosen = [[id] for id in ids] + [rng.sample(ids, 3) for _ in range(20)]
    searched = [run(memory.forget(some, dry_run=True)) for some in chosen]
    with monkeypatch.context() as patched:
        patched.setattr(cascade_plan, "_MAX_SEARCHED_TEXTS", -1)
        read = [run(memory.forget(some, dry_run=True)) for some in chosen]
    assert searched == read
    receipt = run(memory.forget(chosen[-1]))
    assert run(memory.verify_forgotten(receipt)).gone, "an entry that stays mentions what went"
    assert sum(len(plan.ids) > len(some) for plan, some in zip(searched, chosen, strict=True)) > 5


def test_a_derived_memory_goes_when_all_its_sources_go(memory):
    a, b = remembered(memory, "the first thing"), remembered(memory, "the second thing")
    both = remembered(memory, "from both", derived_from=(a, b))
    assert run(memory.forget([a, b])).derived == (both,)
    assert texts(memory) == []


def test_answers_using_a_forgotten_memory_are_named_and_quoting_answers_go(memory):
    fact = remembered(memory, SECRET)
    used = turn(memory, Message.assistant("I would open it with your code."), used=[fact])
    quoting = Message(
        role="assistant", blocks=(TextBlock(text="44173921"),), metadata={"quotes": [{"id": fact, "start": 20}]}
    )
    (report,) = run(memory.remember_turn("s", [quoting]))
    assert (report.outcome, report.id) == (Outcome.REJECTED, "")
    receipt = run(memory.forget([fact]))
    assert (receipt.named, receipt.messages) == (tuple(used), 1)
    assert message_texts(memory) == ["I would open it with your code."]


def test_forgetting_a_short_text_forgets_its_whole_word_copies_alone(memory):
    target = remembered(memory, "Ann")
    turn(memory, Message.user("I like Annabel", name="Ann"), Message.user("This is Ann."))
    run(memory.forget([target]))
    assert texts(memory) == ["I like Annabel"]


def test_the_receipt_holds_no_text(memory):
    target = remembered(memory, SECRET)
    turn(memory, Message.assistant(f"Noted: {SECRET}"))
    assert "zebra" not in repr(run(memory.forget([target])))


def archive(memory):
    return [entry.text for entry in memory.store.scan(namespace=store_namespace("", ARCHIVE))]


def test_the_sources_of_a_merge_go_with_the_merged_memory(memory):
    a, b, c = (remembered(memory, text) for text in ("takes pills", "takes drops", "sees a doctor"))
    run(memory.merge([b, c], "takes drops by order of a doctor"))
    run(memory.merge([a, b], "takes pills and drops, by order"))
    kept = remembered(memory, "something else")
    receipt = run(memory.forget([a]))
    assert set(receipt.ids) == {a, b, c}
    assert archive(memory) == []
    assert [listed.id for listed in run(memory.list())] == [kept]
    assert run(memory.remember(Memory("again", id=c))).outcome is Outcome.REJECTED


def test_a_derived_memory_retired_by_a_correction_goes_with_its_source(memory):
    first = remembered(memory, "The first thing was said.")
    alone = remembered(memory, "There was a first thing.", derived_from=(first,))
    assert run(memory.correct(first, "The first thing was written.")).retired == (alone,)
    copy = remembered(memory, "There was a first thing.")
    receipt = run(memory.forget([first]))
    assert (receipt.derived, receipt.also, archive(memory)) == ((alone,), (), [])
    assert [listed.id for listed in run(memory.list())] == [copy]


def test_the_operation_lists_changes_in_the_order_of_the_receipt(memory):
    remembered(memory, "The first thing was said.", id="z")
    remembered(memory, "There was a first thing.", id="a", derived_from=("z",))
    remembered(memory, "He said: The first thing was said.", id="b")
    receipt = run(memory.forget(["z"]))
    assert receipt.ids == ("z", "a", "b")
    assert [change.id for change in run(memory.operations())[0].changes] == ["z", "a", "b"]


def test_memories_of_an_undone_merge_stay(memory):
    a, b = remembered(memory, "takes pills"), remembered(memory, "takes drops")
    merged = run(memory.merge([a, b], "takes pills and drops")).operation
    run(memory.undo(merged))
    assert run(memory.forget([a])).ids == (a,)
    assert [listed.text for listed in run(memory.list())] == ["takes drops"]


def test_an_undone_memory_can_be_forgotten(memory):
    report = run(memory.remember("said by mistake"))
    run(memory.undo(report.operation))
    assert archive(memory) == ["said by mistake"]
    receipt = run(memory.forget([report.id]))
    assert (receipt.memories, receipt.versions) == ((report.id,), 1)
    assert archive(memory) == []
    assert run(memory.forget([report.id])).memories == ()
    with pytest.raises(CannotUndo):
        run(memory.undo(report.operation))


def test_copies_are_compared_without_image_captions(memory):
    image = ImageBlock(media_type="image/png", data=b"x", caption="a red door")
    (report,) = run(memory.remember_turn("s", [Message.user([TextBlock(text=SECRET), image])]))
    copy = remembered(memory, f"He said: {SECRET}")
    assert run(memory.forget([report.id])).also == (copy,)


def test_backreferences_to_copies_are_removed_and_only_targets_are_named(memory):
    target, copy, other = (remembered(memory, text) for text in (SECRET, f"({SECRET})", "another thing"))
    of_copy = remembered(memory, "from the copy", derived_from=(copy, other))
    of_both = remembered(memory, "from all", derived_from=(target, copy, other))
    receipt = run(memory.forget([target]))
    assert (receipt.also, receipt.named) == ((copy,), (of_both,))
    assert [found.derived_from for found in run(memory.get([of_copy, of_both]))] == [(other,), (other,)]
    assert run(memory.verify_forgotten(receipt)).left == ()


def test_memories_undone_together_are_forgotten_one_by_one(memory):
    reports = run(memory.remember_many(["one thing", "another thing"]))
    run(memory.undo(reports[0].operation))
    assert run(memory.forget([reports[0].id])).ids == (reports[0].id,)
    assert run(memory.forget([reports[1].id])).versions == 1


def test_forgetting_many_memories_forgets_their_verbatim_copies(memory):
    secrets = [Memory(f"the secret number {n} is kept", tags=("gone",)) for n in range(60)]
    wanted = [report.id for report in run(memory.remember_many(secrets))]
    copies = [remembered(memory, f"he wrote: the secret number {n} is kept!") for n in range(0, 60, 7)]
    remembered(memory, "the secret number 61 is kept")
    run(memory.remember_turn("s", [Message.assistant("As I noted, the secret number 5 is kept."), Message.user("ok")]))
    receipt = run(memory.forget(tags=["gone"]))
    assert set(receipt.memories) == set(wanted)
    assert set(copies) < set(receipt.also)
    assert texts(memory) == ["ok", "the secret number 61 is kept"]
    assert message_texts(memory, "s") == ["ok"]


def test_a_derived_memory_loses_backreferences_and_goes_with_its_last_source(memory):
    a, b = remembered(memory, "the first thing"), remembered(memory, "the second thing")
    both = remembered(memory, "from both", derived_from=(a, b))
    assert run(memory.forget([a])).named == (both,)
    (kept,) = run(memory.get([both]))
    assert kept.derived_from == (b,)
    run(memory.correct(both, "from both of them"))
    c = remembered(memory, "the third thing")
    three = remembered(memory, "from all", derived_from=(b, c))
    run(memory.correct(three, "from all of them"))
    receipt = run(memory.forget([c]))
    assert [version.derived_from for version in run(memory.history(three))] == [(b,), (b,)]
    assert run(memory.verify_forgotten(receipt)).left == ()
    assert run(memory.forget([three])).derived == ()
    assert run(memory.forget([b])).derived == (both,)


# --- verbatim matches


def test_a_short_verbatim_text_matches_whole_words_and_a_long_text_any_place():
    assert VerbatimTexts(["ok"]).held_by("a book, ok")
    assert not any(VerbatimTexts(["ok"]).held_by(text) for text in ("book", "oka", "ok_then", "_ok", "ok2"))
    assert VerbatimTexts(["abcdefg"]).held_by("(abcdefgh)") is False
    assert VerbatimTexts(["abcdefgh"]).held_by("xabcdefghx")


def test_a_search_for_many_verbatim_texts_agrees_with_separate_searches():
    for seed in range(40):
        rng = random.Random(seed)
        words = ["".join(rng.choices("ab é_", k=rng.choice([1, 2, 3, 7, 8, 9, 14]))).strip() or "a" for _ in range(60)]
        many = VerbatimTexts(words)
        for _ in range(60):
            text = "".join(rng.choices("ab é_", k=rng.choice([0, 1, 6, 30, 80])))
            text += rng.choice(["", rng.choice(words), f"({rng.choice(words)})"])
            assert many.held_by(text) == any(VerbatimTexts([word]).held_by(text) for word in words), (seed, text)


IMAGE_FIELDS = {"media_type": "image/png", "data": b"x"}


@pytest.mark.parametrize(
    "message",
    [
        Message.user([ImageBlock(**IMAGE_FIELDS, caption="a secret word here")]),
        Message.user([ImageBlock(**IMAGE_FIELDS, name="a secret word here")]),
        Message.tool(
            [ToolResultBlock(call_id="1", content=(ImageBlock(**IMAGE_FIELDS, caption="a secret word here"),))]
        ),
        Message.assistant([ToolCallBlock(id="1", name="save", invalid="{a secret word here")]),
        Message(role="user", metadata={"notes": ["a secret word here"]}),
    ],
)
def test_every_part_of_a_message_is_searched_for_verbatim_copies(message):
    assert VerbatimTexts(["secret word"]).in_message(message)


@pytest.mark.parametrize(
    "field", [{"title": "a secret word"}, {"heading": ["a secret word"]}, {"tags": ["secret word"]}]
)
def test_title_headings_and_tags_are_searched_for_verbatim_copies(field):
    assert VerbatimTexts(["secret word"]).in_entry(Entry("x", None, "nothing of it", metadata=field))


FIRST, SECOND = "The locker is by the door.", 'Its "code" is 44173921.'


IMAGE = ImageBlock(media_type="image/png", data=b"x")


def blocks(*texts):
    return [TextBlock(text=text) for text in texts]


def results(*texts):
    return [ToolResultBlock(call_id=str(n), name="look", content=(TextBlock(text=t),)) for n, t in enumerate(texts)]


def test_a_message_of_several_blocks_goes_with_its_memory(memory):
    messages = [
        Message.user(blocks(FIRST, SECOND)),
        Message.assistant([TextBlock(text="Fine."), TextBlock(text="Bye.")]),
    ]
    first, _ = run(memory.remember_turn("s", messages))
    assert run(memory.forget([first.id])).messages == 1
    assert sequences(memory, "s") == [2]


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


@pytest.mark.parametrize("many", [False, True])
def test_a_verbatim_copy_goes_in_any_split_into_blocks(memory, many):
    """Also where so many texts are forgotten that they are looked for in another way."""
    others = [remembered.id for remembered in run(memory.remember_many(f"Thing {n}." for n in range(70 * many)))]
    (report,) = run(memory.remember_turn("told", [Message.user(blocks(FIRST, SECOND))]))
    beside = [Message.system(FIRST), Message(role="system", blocks=tuple(blocks(SECOND, FIRST)))]
    for number, repeated in enumerate(REPEATED):
        run(memory.conversations.append(str(number), [repeated, *beside]))
    run(memory.forget([report.id, *others]))
    assert [sequences(memory, str(number)) for number in range(len(REPEATED))] == [[2, 3]] * len(REPEATED)


def test_a_text_of_one_block_matches_several_blocks(memory):
    noted = run(memory.remember(f"{FIRST} {SECOND}"))
    run(memory.conversations.append("s", [Message(role="system", blocks=tuple(blocks(FIRST, SECOND)))]))
    assert run(memory.forget([noted.id])).messages == 1


def test_line_breaks_and_blanks_match_each_other(memory):
    noted = run(memory.remember(f"{FIRST} {SECOND}"))
    wrapped = run(memory.remember(Memory(f"Note:\n  {FIRST}\n  {SECOND}\n")))
    assert run(memory.forget([noted.id])).also == (wrapped.id,)


def test_adjacent_blocks_are_no_copy_in_another_order_or_within_a_word():
    words = VerbatimTexts(["the locker code"])
    assert not words.in_message(Message(role="system", blocks=tuple(blocks("the locker", "is", "code"))))
    assert not words.in_message(Message(role="system", blocks=tuple(blocks("code", "the locker"))))
    assert not VerbatimTexts(["Ann"]).in_message(Message(role="system", blocks=tuple(blocks("I saw An", "nabel"))))
    assert VerbatimTexts(["Ann"]).in_message(Message(role="system", blocks=tuple(blocks("I saw", "Ann", "today"))))


def test_a_blank_verbatim_text_matches_nothing():
    assert not VerbatimTexts([" \n"]).held_by("a b")
    assert VerbatimTexts([" \n"]).longest_words() == []


# --- tool calls


def test_the_tool_call_goes_with_its_result(memory):
    run(memory.remember_turn("s", NOTING_TURN))
    (noted,) = tool_memories(memory)
    assert "44173921" in noted.text
    assert run(memory.forget([noted.id])).messages == 2
    assert sequences(memory) == [1, 4]


def test_the_calling_message_goes_and_other_calls_of_the_id_stay(memory):
    messages = [
        Message.assistant([note_call("1", "first")]),
        Message.tool([note_result("1")]),
        Message.assistant([TextBlock(text="I shall note it."), note_call("1", "44173921")]),
        Message.user("Wait."),
        Message.tool([note_result("1")]),
        Message.assistant([note_call("2", "44173921")]),
        Message.tool([note_result("2", "it is full")]),
    ]
    reports = run(memory.remember_turn("s", messages))
    receipt = run(memory.forget([reports[4].id]))
    assert (receipt.also, receipt.messages) == ((reports[2].id,), 2)
    assert sequences(memory) == [1, 2, 4, 6, 7]


def test_equal_tool_results_without_a_memory_go(memory):
    run(memory.remember_turn("s", NOTING_TURN))
    rows = memory.conversations.rows
    rows.append("t", NOTING_TURN[1:3], memories=["", ""])
    rows.append(
        "u", [Message.assistant([note_call("1", "another")]), Message.tool([note_result("1")])], memories=["", ""]
    )
    assert run(memory.forget([tool_memories(memory)[0].id])).messages == 4
    assert (sequences(memory), sequences(memory, "t"), sequences(memory, "u")) == ([1, 4], [], [1, 2])


# --- trust


def test_forgetting_by_a_less_trusted_actor_needs_approval(memory):
    mine = remembered(memory, "my own words")
    theirs = remembered(memory, "a tool: my own words", trust=Trust.TOOL)
    for chosen in ([mine], [theirs]):
        receipt = None
        if chosen == [theirs]:
            receipt = run(memory.forget(chosen, actor="tool", dry_run=True))
        else:
            with pytest.raises(NotTrusted):
                run(memory.forget(chosen, actor="tool"))
        assert receipt is None or receipt.memories == (theirs,)
    with pytest.raises(NotTrusted):
        run(memory.forget_namespace("", actor="tool"))
    assert run(memory.count()) == 2
    assert run(memory.forget([theirs], actor="tool")).memories == (theirs,)
    assert run(memory.forget([mine], actor="tool", approved_by="user")).memories == (mine,)


@pytest.mark.parametrize("whole", [False, True])
def test_messages_without_a_memory_have_the_trust_of_their_role(memory, whole):
    def forget(**named):
        run(memory.forget_namespace("", **named) if whole else memory.forget(session="s", **named))

    messages = [Message.system("be brief"), Message.user([]), Message.tool([])]
    for message, actor, may in [
        *((message, "tool", "user") for message in messages[:2]),
        (messages[2], "document", "tool"),
        (Message.assistant([]), "tool", "assistant"),
    ]:
        run(memory.conversations.append("s", [message]))
        with pytest.raises(NotTrusted, match="message 1 of session s") if may == "user" else pytest.raises(NotTrusted):
            forget(actor=actor)
        forget(actor=actor, approved_by=may)
        assert run(memory.conversations.load("s")) == []
        run(memory.forget_namespace(""))
    run(memory.conversations.append("s", [Message(role="user", metadata={"trust": "tool"})]))
    forget(actor="tool")
    assert run(memory.conversations.load("s")) == []


# --- tombstones


def test_crash_recovery_skips_forgotten_messages(memory):
    (target,) = turn(memory, Message.user(SECRET))
    run(memory.forget([target]))
    assert run(memory.complete()) == 0
    assert texts(memory) == []


def test_crash_recovery_skips_rows_reserved_for_a_forgotten_memory(memory):
    target = remembered(memory, "other words")
    memory.conversations.rows.append("s", [Message.user("words of the row")], memories=[target])
    run(memory.forget([target]))
    memory.conversations.rows.append("s", [Message.user("words of the row")], memories=[target])
    assert run(memory.complete()) == 0


def test_crash_recovery_skips_forgotten_words_in_messages_before_the_forgetting(memory, clock):
    run(memory.forget([remembered(memory, SECRET)]))
    early, late = clock.now, clock.now + timedelta(seconds=1)
    rows = [
        HistoryRow("", "old", place, Message.user(SECRET), position)
        for place, position in enumerate([early, late], start=1)
    ]
    memory.conversations.rows.place(rows)
    assert run(memory.complete()) == 1  # the second was said afresh
    assert [listed.sequence for listed in run(memory.list())] == [2]


def test_remembering_under_a_forgotten_id_is_rejected(memory):
    target = remembered(memory, SECRET)
    run(memory.forget([target]))
    report = run(memory.remember(Memory(SECRET, id=target)))
    assert (report.outcome, report.reason) == (Outcome.REJECTED, "forgotten")
    assert texts(memory) == []


def test_forgotten_words_may_be_remembered_again(memory, clock):
    run(memory.forget([remembered(memory, SECRET, key="k")]))
    clock.now += timedelta(seconds=1)
    assert run(memory.remember(SECRET)).outcome is Outcome.STORED
    assert run(memory.remember(Memory(SECRET, key="k"))).outcome is Outcome.STORED
    (again,) = turn(memory, Message.user(SECRET))
    run(memory.conversations.append("s", [Message.user(SECRET)]))
    assert run(memory.complete()) == 1
    assert again in [listed.id for listed in run(memory.list())]


def test_an_import_leaves_forgotten_messages_out(memory, tmp_path):
    for session in ("s", "t"):
        run(memory.conversations.append(session, [Message.system(f"{session}{n}") for n in "12"]))
    run(memory.export(tmp_path / "a.jsonl"))
    run(memory.forget(source=Source(session="s", sequence=1)))
    for session in ("s", "t"):
        run(memory.conversations.clear(session))
    run(memory.import_(tmp_path / "a.jsonl", trust="user"))
    assert (message_texts(memory), message_texts(memory, "t")) == (["s2"], ["t1", "t2"])


def test_crash_recovery_ignores_blanks_around_forgotten_words(memory):
    run(memory.forget([remembered(memory, SECRET)]))
    memory.conversations.rows.place([HistoryRow("", "s", 1, Message.user(f" {SECRET}\n"), NOW - WEEK)])
    assert run(memory.complete()) == 0


@pytest.mark.parametrize("whole", [False, True])
def test_each_memory_and_message_leaves_a_tombstone(memory, whole):
    (report,) = run(memory.remember_turn("s", [Message.user(SECRET)]))
    run(memory.correct(report.id, "other words"))
    run(memory.forget_namespace("") if whole else memory.forget([report.id]))
    conversation, history = store_namespace("", "conversation"), store_namespace("", "history")
    assert memory.tombstones.partitions() == [conversation, history]
    assert [id for id, _ in memory.tombstones.ids(conversation)] == [report.id]
    assert len(memory.tombstones.ids(history)) == 1


# --- documents


def test_a_forgotten_document_is_unlisted_and_not_ingested_again(library, notes):
    ingested(library, notes)
    receipt = run(library.forget(document="tower.md"))
    assert (len(receipt.memories), receipt.parts["documents"]) == (2, 1)
    assert sources(library) == ["garden.md"]
    ingested(library, notes)
    assert sources(library) == ["garden.md"]
    assert ingested(library, notes, again=True)["tower.md"] is IngestAction.ADDED
    assert sources(library) == ["garden.md", "tower.md"]


def test_a_document_is_listed_while_it_has_a_passage(library, notes):
    ingested(library, notes)
    (hit, *_) = run(library.recall("How many steps has the tower?", 1))
    receipt = run(library.forget([hit.memory.id]))
    assert "documents" not in receipt.parts
    assert sources(library) == ["garden.md", "tower.md"]


def test_an_import_brings_the_documents_list(library, notes, tmp_path):
    ingested(library, notes)
    run(library.export(tmp_path / "a.jsonl"))
    other = open_memory(tmp_path / "n.db", embedder=ToyEmbedder())
    report = run(other.import_(tmp_path / "a.jsonl", trust="user"))
    assert report.taken["document"] == 2
    assert sources(other) == ["garden.md", "tower.md"]
    assert set(ingested(other, notes).values()) == {IngestAction.UPDATED}  # each file hashes by a secret of its own
    assert sources(other) == ["garden.md", "tower.md"]
    run(other.close())


def test_a_forgotten_document_is_not_imported(library, notes, tmp_path):
    ingested(library, notes)
    run(library.export(tmp_path / "a.jsonl"))
    run(library.forget(document="tower.md"))
    report = run(library.import_(tmp_path / "a.jsonl"))
    assert report.left["document"] == 2
    assert sources(library) == ["garden.md"]
    assert [line.reason for line in report.lines].count("forgotten") == 2


# --- erasers of other parts


def test_erasers_run_for_forgotten_messages_alone_and_not_when_nothing_was_forgotten(memory):
    eraser = RecordingEraser()
    memory.erasers.append(eraser)
    assert run(memory.forget(session="s")).parts == {}
    run(memory.conversations.append("s", [Message.system("be kind")]))
    assert run(memory.forget(session="s")).parts == {"recording": 1}
    assert [[row.sequence for row in gone.messages] for gone in eraser.calls] == [[1]]


@pytest.mark.parametrize("whole", [False, True])
def test_idempotency_keys_go_with_their_memory(memory, whole):
    keys, noted = memory.keys, remembered(memory, "something")
    for namespace in ("", "b"):
        keys.put(namespace, "name", noted)
    keys.put("", "another name", "of another memory")
    receipt = run(memory.forget_namespace("") if whole else memory.forget([noted], grace=WEEK))
    assert (keys.get("", "name"), keys.get("b", "name")) == (None, noted)
    assert (keys.get("", "another name") is None) is whole
    assert receipt.parts["keys"] == 2 + whole, "that of its text, too"
    if not whole:
        run(memory.restore_forgotten(receipt.operation))
        assert keys.get("", "name") == noted


def test_a_receipt_has_a_time_and_a_dry_run_none(memory):
    named = [remembered(memory, "something")]
    assert [run(memory.forget(named, dry_run=dry_run)).at for dry_run in (True, False)] == [None, NOW]
    assert [run(memory.forget_namespace("", dry_run=dry_run)).at for dry_run in (True, False)] == [None, NOW]


def test_erasers_get_the_erased_items(memory):
    eraser = RecordingEraser()
    memory.erasers.append(eraser)
    first = run(memory.remember_turn("s", [Message.user(SECRET), Message.assistant("Noted.")]))[0].id
    receipt = run(memory.forget([first]))
    assert receipt.parts == {"recording": 1}
    (gone,) = eraser.calls
    assert isinstance(gone, ErasedItems)
    assert (gone.texts, [row.sequence for row in gone.messages]) == (frozenset([SECRET]), [1])
    assert gone.entries == {store_namespace("", CONVERSATION): [first]}


# --- one transaction


def opened_in(folder):
    settings = EmbeddingSettings(cache_bytes=1 << 20)
    return open_memory(folder / "m.db", embedder=ToyEmbedder(), clock=lambda: NOW, embedding_settings=settings)


@pytest.fixture(scope="module")
def filled_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("full")
    memory = opened_in(folder)
    fill(memory, folder)
    run(memory.close())
    return folder


@pytest.fixture
def full_memory(tmp_path, filled_folder):
    shutil.copytree(filled_folder, tmp_path, dirs_exist_ok=True)
    opened = opened_in(tmp_path)
    yield opened
    run(opened.close())


def fill(memory, folder):
    """Something in each part that has to let go: versions, copies, what was made of it, messages, a summary,
    documents, keys of another file, what recall derived, cached vectors, the log, what waits in a time of grace."""
    messages = [
        Message.user(SECRET),
        Message.assistant(f"Noted: {SECRET}"),
        Message.user("Good."),
        Message.user("Bye."),
    ]
    first = run(memory.remember_turn("s", messages))[0].id
    other = run(memory.remember(Memory("another thing", tags=("house",), key="k", occurred_at=NOW - WEEK))).id
    run(memory.remember(Memory("made of both", id="both", derived_from=(first, other))))
    run(memory.remember(Memory("made of it alone", id="alone", derived_from=(first,), scopes={"project": "x"})))
    run(memory.correct(first, "the locker code is 55284032-quagga"))
    run(memory.tag([first], ["private"]))
    policy = SummaryWindow(FixedWindow(messages=1), lambda before, given: before + "; ".join(m.text for m in given))
    run(ShortTermMemory(memory.conversations, policy=policy, session="s").window())
    (folder / "notes").mkdir()
    (folder / "notes" / "a.md").write_text(f"# The code\n\nAs was said: {SECRET}.\n\n# Two\n\nSomething else.\n")
    run(KnowledgeBase(memory).ingest(folder / "notes"))
    memory.keys.put("", "name", first)
    run(memory.remember(Memory(f"waits: {SECRET}", id="waits")))
    run(memory.forget(["waits"], grace=WEEK))
    run(memory.recall("Which code has the locker?"))


def everything(memory):
    """Every row of every table."""
    with memory.store.database.read() as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {table: list(connection.execute(f'SELECT * FROM "{table}"')) for table in tables}


def answers(memory):
    return (
        [(listed.id, listed.text) for listed in run(memory.list())],
        [row.message.text for row in run(memory.conversations.load("s"))],
        [hit.memory.id for hit in run(memory.recall("Which code has the locker?"))],
    )


def first_of(memory):
    return next(listed.id for listed in run(memory.list()) if "quagga" in listed.text)


NAMED = {
    "ids": lambda memory: {"ids": [first_of(memory)]},
    "session": lambda memory: {"session": "s"},
    "document": lambda memory: {"document": "a.md"},
    "source": lambda memory: {"source": Source(session="s", sequence=1)},
    "where": lambda memory: {"where": {"kind": "turn"}},
    "scopes": lambda memory: {"scopes": {"project": "x"}},
    "tags": lambda memory: {"tags": ["house"]},
    "older_than": lambda memory: {"older_than": timedelta(days=1)},
    "what waits": lambda memory: {"ids": ["waits"]},
}


LISTED = ("memories", "versions", "derived", "also", "messages", "named", "unreached", "namespace")


def of(receipt):
    return {name: getattr(receipt, name) for name in LISTED}


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(("named", "grace"), [*((item, None) for item in NAMED), ("ids", WEEK), ("session", WEEK)])
def test_a_dry_run_writes_no_byte_and_lists_what_a_forgetting_does(full_memory, tmp_path, named, grace):
    chosen, before = NAMED[named](full_memory), bytes_of(tmp_path)
    planned = run(full_memory.forget(**chosen, grace=grace, dry_run=True))
    assert bytes_of(tmp_path) == before
    assert planned.ids
    assert of(run(full_memory.forget(**chosen, grace=grace))) == of(planned)


def test_a_dry_run_of_a_query_or_a_namespace_writes_no_byte(full_memory, tmp_path):
    before = bytes_of(tmp_path)
    found = run(full_memory.forget(query="Which code has the locker?", dry_run=True))
    whole = run(full_memory.forget_namespace("", dry_run=True))
    assert bytes_of(tmp_path) == before
    assert of(run(full_memory.forget(found.memories, dry_run=True))) == of(found)
    assert of(run(full_memory.forget_namespace(""))) == of(whole)


def fails_after(monkeypatch, thing, method, times=1):
    """Make *method* of *thing* raise after its work, at the last of so many *times*."""
    works, calls = getattr(thing, method), []

    def failing(*given, **named):
        done = works(*given, **named)
        calls.append(given)
        if len(calls) == times:
            raise RuntimeError("cannot")
        return done

    monkeypatch.setattr(thing, method, failing)


def eraser(memory, name):
    return next(eraser for eraser in memory.erasers if eraser.name == name)


FORGETTING = {
    "an erasure of the store": lambda m: (m.store, "erase"),
    "the last erasure of the store": lambda m: (m.store, "erase", 3),
    "what stays": lambda m: (m.store, "patch"),
    "tombstones": lambda m: (m.tombstones, "add"),
    "tombstones of words": lambda m: (m.tombstones, "add_words"),
    "messages": lambda m: (m.conversations.rows, "erase"),
    "values in the log": lambda m: (m.operation_log, "erase"),
    "the log": lambda m: (m.operation_log, "add"),
    "summaries": lambda m: (eraser(m, "summaries"), "erase"),
    "cached vectors": lambda m: (eraser(m, "cached vectors"), "erase"),
    "keys": lambda m: (eraser(m, "keys"), "erase"),
    "derived rows": lambda m: (eraser(m, "derived rows"), "erase"),
    "documents": lambda m: (eraser(m, "documents"), "erase"),
}


WAITING = {
    "what waited": lambda m: (m.soft_deletes, "erase"),
    "what goes on waiting": lambda m: (m.soft_deletes, "put"),
}


PUTTING_ASIDE = {
    "what is put aside": lambda m: (m.soft_deletes, "put"),
    "what keys need": lambda m: (eraser(m, "keys"), "put_away"),
    "what documents need": lambda m: (eraser(m, "documents"), "put_away"),
}


WHOLE = {
    "an erasure of the store": lambda m: (m.store, "erase"),
    "the last erasure of the store": lambda m: (m.store, "erase", 3),
    "tombstones": lambda m: (m.tombstones, "add"),
    "messages": lambda m: (m.conversations.rows, "erase_namespace"),
    "the log": lambda m: (m.operation_log, "clear"),
    "what waited": lambda m: (m.soft_deletes, "erase"),
    **{name: FORGETTING[name] for name in ("summaries", "cached vectors", "keys", "derived rows", "documents")},
}


RESTORING = {
    "entries": lambda m: (m.store, "upsert"),
    "what stays": lambda m: (m.store, "patch"),
    "tombstones": lambda m: (m.tombstones, "lift"),
    "tombstones of words": lambda m: (m.tombstones, "lift_words"),
    "messages": lambda m: (m.conversations.rows, "place"),
    "keys": lambda m: (eraser(m, "keys"), "put_back"),
    "documents": lambda m: (eraser(m, "documents"), "put_back"),
    "what was held": lambda m: (m.soft_deletes, "erase"),
    "the log": lambda m: (m.operation_log, "add"),
    "the note in the log": lambda m: (m.operation_log, "undone"),
}


def refused(memory, monkeypatch, steps, work):
    """Make each of *steps* fail in turn within *work*; nothing may have changed."""
    before, answered = everything(memory), answers(memory)
    for name, step in steps.items():
        with monkeypatch.context() as patched:
            fails_after(patched, *step(memory))
            with pytest.raises(RuntimeError, match="cannot"):
                work()
        assert everything(memory) == before, name
        assert answers(memory) == answered, name
    assert memory.store.verify() == []


def test_a_failing_step_rolls_the_forgetting_back(full_memory, monkeypatch):
    first = first_of(full_memory)
    refused(full_memory, monkeypatch, FORGETTING, lambda: run(full_memory.forget([first])))


def test_a_failing_step_keeps_soft_deletes(full_memory, monkeypatch):
    two = [run(full_memory.remember(Memory(f"thing {n}", id=f"thing {n}"))).id for n in "ab"]
    run(full_memory.forget(two, grace=WEEK))
    refused(full_memory, monkeypatch, WAITING, lambda: run(full_memory.forget(["thing a"])))


def test_a_failing_step_rolls_a_soft_delete_back(full_memory, monkeypatch):
    first, steps = first_of(full_memory), {**FORGETTING, **PUTTING_ASIDE}
    refused(full_memory, monkeypatch, steps, lambda: run(full_memory.forget([first], grace=WEEK)))


def test_a_failing_step_rolls_the_forgetting_of_a_namespace_back(full_memory, monkeypatch):
    refused(full_memory, monkeypatch, WHOLE, lambda: run(full_memory.forget_namespace("")))


def test_a_failing_step_rolls_a_restore_back(full_memory, monkeypatch):
    first = first_of(full_memory)
    receipt = run(full_memory.forget(where={"$or": [{"document": "a.md"}, {"session": "s"}]}, grace=WEEK))
    assert first in receipt.ids
    restore = full_memory.restore_forgotten
    refused(full_memory, monkeypatch, RESTORING, lambda: run(restore(receipt.operation)))
    run(restore(receipt.operation))
    assert first_of(full_memory) == first


def test_due_soft_deletes_are_erased_all_or_none(full_memory, monkeypatch):
    run(full_memory.forget(["both"], grace=WEEK))
    before = everything(full_memory)
    monkeypatch.setattr(full_memory._eraser, "clock", lambda: NOW + WEEK)
    with monkeypatch.context() as patched:
        fails_after(patched, full_memory.soft_deletes, "erase", 2)
        with pytest.raises(RuntimeError, match="cannot"):
            full_memory.erase_due()
    assert everything(full_memory) == before
    assert full_memory.erase_due() == 2


def test_one_memory_without_permission_stops_the_whole_forgetting(full_memory):
    before = everything(full_memory)
    with pytest.raises(NotTrusted):
        run(full_memory.forget(session="s", actor="assistant"))
    assert everything(full_memory) == before


@pytest.mark.parametrize("tool", [False, True])
def test_what_is_forgotten_goes_from_every_fork_of_its_conversation(memory, tool):
    secret = Message.assistant([ToolCallBlock(id="1", name="look", arguments={"what": "gate"})])
    answer = Message.tool([ToolResultBlock(call_id="1", content=(TextBlock(text="The code is 4417."),))])
    told = [secret, answer] if tool else [Message.user("The code of the gate is 4417.")]
    *_, id = turn(memory, *told)
    turn(memory, Message.user("Ana lives in Porto."))
    for first, fork in (("s", "t"), ("t", "u")):
        run(memory.conversations.copy(first, fork))
    assert run(memory.complete()) == 0
    run(memory.forget([id]))
    for session in "stu":
        assert "4417" not in str(run(memory.conversations.load(session)))
        assert "Porto" in str(run(memory.conversations.load(session)))


def test_forgetting_a_fork_leaves_what_was_said_before_it(memory):
    (before,) = turn(memory, Message.user("Ana lives in Porto."))
    run(memory.conversations.copy("s", "fork"))
    (after,) = turn(memory, Message.user("The boat is red."), session="fork")
    assert run(memory.forget(session="fork")).memories == (after,)
    assert run(memory.get([before])) != [None]
    assert [row.message.text for row in run(memory.conversations.load("s"))] == ["Ana lives in Porto."]
    assert run(memory.conversations.load("fork")) == []
