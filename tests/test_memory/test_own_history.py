"""A memory over a history of the program's own: what is said goes there, and what is forgotten goes from there."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from tellback.agent import Agent, QuotingProvider
from tellback.memory import ArgumentError, InMemoryHistory, LongTermMemory, Message, NoSuchMemory
from tellback.vectorstore import UnsupportedError, open_store
from tests.support.homes import HOMES, address_in_home
from tests.support.own_history import ListHistory

SECRET = "The code of the gate is 4417."


class ForwardingHistory:
    """A history that uses the memory's own database, which is locked while the memory writes."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


@pytest.fixture(params=["lists", "same database"])
def history(request, store):
    if request.param == "lists":
        return ListHistory()
    return ForwardingHistory(LongTermMemory(store).conversations)


@pytest.fixture(params=HOMES)
def store(request, tmp_path):
    opened = open_store(address_in_home(request, tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def memory(store, history):
    return LongTermMemory(store, history=history)


def run(awaitable):
    return asyncio.run(asyncio.wait_for(awaitable, 60))


def texts(history, session="s", **options):
    return [row.message.text for row in run(history.load(session, **options))]


def said(memory, *words, session="s"):
    messages = [Message.user(text) for text in words]
    return [report.id for report in run(memory.remember_turn(session, messages))]


def test_a_turn_is_kept_in_the_own_history_and_remembered_with_its_place(memory, history):
    (id,) = said(memory, "Ana lives in Porto.")
    assert texts(history) == ["Ana lives in Porto."]
    (found,) = run(memory.get([id]))
    assert (found.source.session, found.source.sequence) == ("s", 1)
    assert run(memory.recall("Where does Ana live?"))[0].memory.id == id
    assert run(Agent(QuotingProvider(), memory=memory).run("Where does Ana live?", session="s")).text
    assert len(texts(history)) == 3


def test_forgetting_goes_through_the_own_history_and_the_receipt_names_it(memory, history):
    secret, _ = said(memory, SECRET, "Ana lives in Porto.")
    run(history.append("t", [Message.user(SECRET), Message.user("Good morning.")]))
    run(history.append("s", [Message.user(SECRET)], namespace="other"))
    preview = run(memory.forget([secret], dry_run=True))
    assert len(texts(history)) == 2
    receipt = run(memory.forget([secret]))
    assert preview.messages == receipt.messages == 2
    named = [(copy.kind, copy.path) for copy in receipt.unreached if copy.kind != "server"]
    assert named == [("history", type(history).__name__)]
    assert texts(history) == ["Ana lives in Porto."]
    assert texts(history, "t") == ["Good morning."]
    assert texts(history, namespace="other") == [SECRET]


def test_a_session_and_a_namespace_are_forgotten_in_the_own_history(memory, history):
    said(memory, "Ana lives in Porto.")
    (id,) = said(memory, "The boat is red.", session="t")
    assert run(memory.forget(session="t")).memories == (id,)
    assert texts(history, "t") == []
    assert run(memory.forget_namespace("")).messages == 1
    assert run(history.sessions()) == []


@pytest.mark.parametrize("then", ["complete", "forget"])
def test_messages_that_a_process_forgot_and_did_not_delete_are_deleted_later(memory, history, monkeypatch, then):
    class KilledError(BaseException):
        pass

    def killed(*_arguments, **_options):
        raise KilledError

    secret, other = said(memory, SECRET, "Ana lives in Porto.")
    with monkeypatch.context() as patched:
        patched.setattr("tellback.memory.history.history_copy.HistoryCopy.delete_erased", killed)
        with pytest.raises(KilledError):
            run(memory.forget([secret]))
    assert texts(history) == [SECRET, "Ana lives in Porto."]
    run(memory.complete() if then == "complete" else memory.forget([other]))
    assert SECRET not in texts(history)


def test_of_a_turn_whose_memories_cannot_be_written_no_message_is_kept(memory, history, monkeypatch):
    def fail(*_arguments, **_options):
        raise OSError("the disk is gone")

    monkeypatch.setattr(type(memory.store), "upsert", fail)
    with pytest.raises(Exception, match="disk is gone"):
        said(memory, "Ana lives in Porto.")
    assert texts(history) == []


def test_an_export_has_the_messages_of_the_own_history(memory, history, tmp_path):
    said(memory, "Ana lives in Porto.")
    run(memory.export(tmp_path / "all.jsonl"))
    again = LongTermMemory(open_store("numpy:"))
    run(again.import_(tmp_path / "all.jsonl", trust="user"))
    assert texts(again.conversations) == ["Ana lives in Porto."]


def test_what_the_own_history_cannot_do_raises_before_anything_is_done(memory, history, tmp_path):
    (id,) = said(memory, "Ana lives in Porto.")
    run(memory.export(tmp_path / "all.jsonl"))
    for call in (
        lambda: memory.forget([id], grace=timedelta(days=1)),
        lambda: memory.import_(tmp_path / "all.jsonl"),
        lambda: memory.restore_forgotten("x"),
    ):
        with pytest.raises(UnsupportedError, match=type(history).__name__):
            run(call())
    assert texts(history) == ["Ana lives in Porto."]
    with pytest.raises(NoSuchMemory):
        run(memory.forget(["unknown"]))


@pytest.mark.parametrize("history", [7, "history.db", InMemoryHistory, object()])
def test_what_is_no_history_is_refused(history):
    with pytest.raises(ArgumentError, match="history"):
        LongTermMemory(open_store("numpy:"), history=history)
