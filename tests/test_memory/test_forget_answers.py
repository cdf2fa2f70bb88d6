"""What waits in a time of grace is in no answer, here or after a restart; and its bytes go whoever notices the end."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from memory import (
    FixedWindow,
    KnowledgeBase,
    Memory,
    Message,
    NoSuchMemory,
    ShortTermMemory,
    SummaryWindow,
    open_memory,
)
from memory.internals import RecallStage
from tests.test_memory.forgetting import Moving
from vectorstore import BusyError
from vectorstore.sqlite import SqliteDatabase

SECRET = "the locker code is 44173921-zebra"
WORDS = ("zebra", "quagga", "okapi", "a private tag")
WEEK = timedelta(days=7)


@pytest.fixture
def clock():
    return Moving()


@pytest.fixture
def memory(tmp_path, clock):
    opened = open_memory(tmp_path / "m.db", clock=clock, choose_local=False)
    yield opened
    run(opened.close())


def run(awaitable):
    return asyncio.run(awaitable)


def window(memory):
    def summarise(before, given):
        return before + "; ".join(one.text for one in given)

    policy = SummaryWindow(FixedWindow(messages=1), summarise)
    return run(ShortTermMemory(memory.conversations, policy=policy, session="s").window())


def exported(memory, folder):
    path = folder / "all.jsonl"
    run(memory.export(path))
    lines = path.read_text()
    path.unlink()
    return lines


def of(awaitable):
    try:
        return run(awaitable)
    except NoSuchMemory:
        return None


ID = "0" * 32
ANSWERS = {
    "recall": lambda m, _: run(m.recall("Which locker code has the zebra?", neighbours=1)),
    "recall of passages": lambda m, _: run(KnowledgeBase(m).retrieve("Which okapi?")),
    "recall as of a day": lambda m, _: run(m.recall("locker code", as_of=m.clock() - timedelta(days=1))),
    "recall as known then": lambda m, _: run(m.recall("locker code", known_at=m.clock() - timedelta(days=1))),
    "list": lambda m, _: run(m.list()),
    "list as of a day": lambda m, _: run(m.list(as_of=m.clock() - timedelta(days=1))),
    "pinned": lambda m, _: run(m.pinned()),
    "get": lambda m, _: run(m.get([ID, *(entry.id for entry in m.store.scan(namespace="/archive"))])),
    "history": lambda m, _: of(m.history(ID)),
    "why not": lambda m, _: of(m.why_not("locker code", ID)),
    "stats": lambda m, _: run(m.stats()),
    "operations": lambda m, _: run(m.operations()),
    "export": exported,
    "sessions": lambda m, _: run(m.conversations.sessions()),
    "messages": lambda m, _: run(m.conversations.load("s")),
    "window": lambda m, _: window(m),
    "summary": lambda m, _: run(m.conversations.summary("s", "summary")),
    "documents": lambda m, _: run(KnowledgeBase(m).documents()),
}
NAMING = {"operations": "what was done", "export": "its tombstone", "why not": "as asked"}


def fill(memory, folder, clock):
    """A pinned memory with an older version and a tag, a session, a summary and a document that say the words."""
    clock.now -= timedelta(days=2)
    run(memory.remember(Memory(SECRET, id=ID)))
    run(memory.remember("The weather is fine."))
    clock.now += timedelta(days=2)
    run(memory.correct(ID, "the locker code is 55284032-quagga"))
    run(memory.pin([ID]))
    run(memory.tag([ID], ["a private tag"]))
    run(memory.remember_turn("s", [Message.user(SECRET), Message.assistant("Noted."), Message.user("Good.")]))
    (folder / "notes").mkdir()
    (folder / "notes" / "okapi.md").write_text(f"# Okapi\n\n{SECRET}\n")
    run(KnowledgeBase(memory).ingest(folder / "notes"))
    window(memory)


@pytest.mark.parametrize("restarted", [False, True])
def test_what_is_put_aside_is_in_no_answer(memory, tmp_path, clock, restarted):
    fill(memory, tmp_path, clock)
    before = {name: repr(ask(memory, tmp_path)) for name, ask in ANSWERS.items()}
    assert [name for name, answer in before.items() if not any(word in answer for word in (*WORDS, ID))] == []
    receipt = run(memory.forget([ID], grace=WEEK))
    assert receipt.due is not None
    asked = memory
    if restarted:
        run(memory.close())
        asked = open_memory(tmp_path / "m.db", clock=clock, choose_local=False)
    for name, ask in ANSWERS.items():
        answer = repr(ask(asked, tmp_path))
        assert [word for word in WORDS if word in answer] == [], name
        assert ID not in answer or name in ("operations", "export", "why not"), (
            name
        )  # the log, a tombstone, the question
    assert run(asked.why_not("locker code", ID)).stage is RecallStage.UNKNOWN
    assert run(asked.count()) == 3
    assert run(asked.stats()).lanes == {"archive": 0, "conversation": 3, "documents": 0}
    if restarted:
        run(asked.restore_forgotten(receipt.operation))
        assert "quagga" in repr(run(asked.history(ID)))
        run(asked.close())


def noted(memory):
    id = run(memory.remember(SECRET)).id
    return run(memory.forget([id], grace=WEEK))


def held(folder):
    return any(b"zebra" in path.read_bytes() for path in folder.iterdir() if path.is_file())


def test_the_bytes_of_what_another_process_put_aside_go_with_a_write_here(memory, tmp_path, clock):
    other = open_memory(tmp_path / "m.db", clock=clock, choose_local=False)
    noted(other)
    run(other.close())
    clock.now += WEEK - timedelta(seconds=1)
    run(memory.remember("a second too early"))
    assert held(tmp_path)
    clock.now += timedelta(minutes=1)
    run(memory.remember("some other thing"))
    assert not held(tmp_path)


def test_a_write_looks_for_what_others_put_aside_once_a_minute_or_when_the_clock_went_back(memory, clock, monkeypatch):
    looked = []
    held_there = memory.soft_deletes
    due = held_there.due
    monkeypatch.setattr(held_there, "due", lambda at: looked.append(at) or due(at))
    for seconds in (59, 0, 1, 59, -100, 0):
        clock.now += timedelta(seconds=seconds)
        run(memory.remember(f"thing {clock.now}"))
    start = datetime(2026, 6, 1, tzinfo=UTC)
    assert [(at - start).total_seconds() for at in looked] == [60, 19]


def test_bytes_that_cannot_go_now_fail_neither_a_write_nor_a_forgetting_and_go_later(
    memory, tmp_path, clock, monkeypatch
):
    noted(memory)
    other = run(memory.remember("another thing")).id
    clock.now += WEEK

    def busy(*given):
        raise BusyError("somebody else is writing")

    with monkeypatch.context() as patched:
        patched.setattr(memory.soft_deletes, "erase", busy)
        assert run(memory.remember("a new thing")).stored
        assert run(memory.forget([other])).memories == (other,)
        assert held(tmp_path)
    run(memory.remember("the next thing"))
    assert not held(tmp_path)


def test_a_file_that_can_only_be_read_keeps_what_is_due_and_proves_nothing(memory, clock, monkeypatch):
    receipt = noted(memory)
    clock.now += WEEK
    with monkeypatch.context() as patched:
        patched.setattr(SqliteDatabase, "read_only", True)
        assert memory.erase_due() == 0
        assert {"held", "log"} <= {one.where for one in run(memory.verify_forgotten(receipt)).left}
    assert memory.erase_due() == 1
    assert run(memory.verify_forgotten(receipt)).gone
