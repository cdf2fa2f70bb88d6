"""A forgetting is one transaction: a dry run writes nothing, a failure at any step leaves everything as it was."""

from datetime import UTC, datetime, timedelta

import pytest

from memory import (
    EmbeddingSettings,
    FixedWindow,
    KnowledgeBase,
    Memory,
    Message,
    NotTrusted,
    ShortTermMemory,
    Source,
    SummaryWindow,
    open_memory,
)
from tests.test_memory.forgetting import Toy, run

NOW = datetime(2026, 6, 1, tzinfo=UTC)
WEEK = timedelta(days=7)
SECRET = "the locker code is 44173921-zebra"


@pytest.fixture
def memory(tmp_path):
    settings = EmbeddingSettings(cache_bytes=1 << 20)
    opened = open_memory(tmp_path / "m.db", embedder=Toy(), clock=lambda: NOW, embedding_settings=settings)
    fill(opened, tmp_path)
    yield opened
    run(opened.close())


def fill(memory, folder):
    """Something in each part that has to let go: versions, copies, what was made of it, messages, a summary,
    documents, keys of another file, what recall derived, cached vectors, the log, what waits in a time of grace."""
    said = [Message.user(SECRET), Message.assistant(f"Noted: {SECRET}"), Message.user("Good."), Message.user("Bye.")]
    first = run(memory.remember_turn("s", said))[0].id
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
        [(one.id, one.text) for one in run(memory.list())],
        [one.message.text for one in run(memory.conversations.load("s"))],
        [hit.memory.id for hit in run(memory.recall("Which code has the locker?"))],
        memory.store.verify(),
    )


def first_of(memory):
    return next(one.id for one in run(memory.list()) if "quagga" in one.text)


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


@pytest.mark.parametrize(("named", "grace"), [*((one, None) for one in NAMED), ("ids", WEEK), ("session", WEEK)])
def test_a_dry_run_writes_no_byte_and_says_what_then_happens(memory, tmp_path, named, grace):
    chosen, before = NAMED[named](memory), bytes_of(tmp_path)
    planned = run(memory.forget(**chosen, grace=grace, dry_run=True))
    assert bytes_of(tmp_path) == before
    assert planned.ids
    assert of(run(memory.forget(**chosen, grace=grace))) == of(planned)


def test_a_dry_run_of_a_question_or_of_a_namespace_writes_no_byte(memory, tmp_path):
    before = bytes_of(tmp_path)
    found = run(memory.forget(query="Which code has the locker?", dry_run=True))
    whole = run(memory.forget_namespace("", dry_run=True))
    assert bytes_of(tmp_path) == before
    assert of(run(memory.forget(found.memories, dry_run=True))) == of(found)
    assert of(run(memory.forget_namespace(""))) == of(whole)


def fails_after(monkeypatch, thing, method, times=1):
    """Let *method* of *thing* do its work and then fail, the last of so many *times*."""
    works, calls = getattr(thing, method), []

    def failing(*given, **named):
        done = works(*given, **named)
        calls.append(given)
        if len(calls) == times:
            raise RuntimeError("cannot")
        return done

    monkeypatch.setattr(thing, method, failing)


def eraser(memory, name):
    return next(one for one in memory.erasers if one.name == name)


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


def refused(memory, monkeypatch, step, work):
    before, answered = everything(memory), answers(memory)
    with monkeypatch.context() as patched:
        fails_after(patched, *step)
        with pytest.raises(RuntimeError, match="cannot"):
            work()
    assert everything(memory) == before
    assert answers(memory) == answered


@pytest.mark.parametrize("step", FORGETTING)
def test_a_forgetting_that_fails_on_its_way_leaves_everything_as_it_was(memory, monkeypatch, step):
    first = first_of(memory)
    refused(memory, monkeypatch, FORGETTING[step](memory), lambda: run(memory.forget([first])))


@pytest.mark.parametrize("step", WAITING)
def test_what_waits_stays_as_it_was_where_the_forgetting_fails(memory, monkeypatch, step):
    two = [run(memory.remember(Memory(f"thing {n}", id=f"thing {n}"))).id for n in "ab"]
    run(memory.forget(two, grace=WEEK))
    refused(memory, monkeypatch, WAITING[step](memory), lambda: run(memory.forget(["thing a"])))


@pytest.mark.parametrize("step", {**FORGETTING, **PUTTING_ASIDE})
def test_putting_aside_that_fails_on_its_way_leaves_everything_as_it_was(memory, monkeypatch, step):
    first = first_of(memory)
    step = {**FORGETTING, **PUTTING_ASIDE}[step](memory)
    refused(memory, monkeypatch, step, lambda: run(memory.forget([first], grace=WEEK)))


@pytest.mark.parametrize("step", WHOLE)
def test_a_namespace_whose_forgetting_fails_on_its_way_is_as_it_was(memory, monkeypatch, step):
    refused(memory, monkeypatch, WHOLE[step](memory), lambda: run(memory.forget_namespace("")))


@pytest.mark.parametrize("step", RESTORING)
def test_taking_back_that_fails_on_its_way_leaves_everything_put_aside(memory, monkeypatch, step):
    first = first_of(memory)
    receipt = run(memory.forget(where={"$or": [{"document": "a.md"}, {"session": "s"}]}, grace=WEEK))
    assert first in receipt.ids
    refused(memory, monkeypatch, RESTORING[step](memory), lambda: run(memory.restore_forgotten(receipt.operation)))
    run(memory.restore_forgotten(receipt.operation))
    assert first_of(memory) == first


def test_bytes_that_are_due_go_all_or_none(memory, monkeypatch):
    run(memory.forget(["both"], grace=WEEK))
    before = everything(memory)
    monkeypatch.setattr(memory._eraser, "_clock", lambda: NOW + WEEK)
    with monkeypatch.context() as patched:
        fails_after(patched, memory.soft_deletes, "erase", 2)
        with pytest.raises(RuntimeError, match="cannot"):
            memory.erase_due()
    assert everything(memory) == before
    assert memory.erase_due() == 2


def test_what_may_not_be_forgotten_stops_what_may(memory):
    before = everything(memory)
    with pytest.raises(NotTrusted):
        run(memory.forget(session="s", actor="assistant"))
    assert everything(memory) == before
