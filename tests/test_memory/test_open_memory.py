"""Opening a memory file: choice of the embedder, refused files, completion of interrupted work.

Inner part, on no face: ``tellback.memory.codec``.
"""

import socket
import stat
from asyncio import run

import numpy as np
import pytest

from tellback.memory import EmbedderMismatch, Memory, Message, MinimumLength, open_memory
from tellback.memory.codec import DECLARED_FIELDS
from tellback.memory.internals import local_available
from tellback.vectorstore import ArgumentError, NotAStore, Space, VectorStoreError, open_store


class Toy:
    fingerprint = "toy/1"
    dimension = 2

    async def embed(self, texts, kind="document"):
        return np.array([[len(text), 1] for text in texts], dtype=np.float32).reshape(len(texts), 2)


class OtherToy(Toy):
    fingerprint = "toy/2"


def test_open_memory_makes_one_file_with_owner_permissions_and_reopens_it(tmp_path):
    path = tmp_path / "new" / "m.db"
    memory = open_memory(path, embedder=Toy())
    kept = run(memory.remember("I moved to Lisbon."))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    run(memory.close())
    assert [item.name for item in path.parent.iterdir()] == ["m.db"]
    again = open_memory(str(path), embedder=Toy())
    assert [item.text for item in run(again.get([kept.id]))] == ["I moved to Lisbon."]
    assert again.store.space == Space("toy/1", 2)
    run(again.close())


def test_open_memory_keeps_a_percent_sign_in_the_path(tmp_path):
    memory = open_memory(tmp_path / "50%20off.db", choose_local=False)
    run(memory.close())
    assert [item.name for item in tmp_path.iterdir()] == ["50%20off.db"]


def test_the_fields_that_recall_filters_by_are_declared(tmp_path):
    memory = open_memory(tmp_path / "m.db")
    assert memory.store.fields == DECLARED_FIELDS
    run(memory.close())


def test_without_an_embedder_argument_the_local_embedder_is_used_if_available(tmp_path):
    memory = open_memory(tmp_path / "m.db")
    report = run(memory.remember("I moved to Lisbon."))
    assert (memory.embedder is not None) == local_available()
    assert (memory.word_vectors is not None) == local_available()
    assert (report.deferred is None) == local_available()
    run(memory.close())


def test_a_file_of_another_space_is_opened_without_the_local_embedder(tmp_path):
    first = open_memory(tmp_path / "m.db", embedder=Toy())
    run(first.remember("one"))
    run(first.close())
    second = open_memory(tmp_path / "m.db")
    assert second.embedder is None
    assert run(second.remember("two")).deferred is not None
    run(second.close())
    third = open_memory(tmp_path / "m.db", embedder=Toy())
    assert run(third.flush()).embedded == 1
    run(third.close())


def test_an_embedder_of_another_space_is_refused_and_the_file_is_as_it_was(tmp_path):
    first = open_memory(tmp_path / "m.db", embedder=Toy())
    run(first.remember("one"))
    run(first.close())
    before = (tmp_path / "m.db").read_bytes()
    with pytest.raises(EmbedderMismatch, match=r"toy/1.*toy/2"):
        open_memory(tmp_path / "m.db", embedder=OtherToy())
    assert (tmp_path / "m.db").read_bytes() == before
    run(open_memory(tmp_path / "m.db", embedder=Toy()).close())


def test_open_memory_completes_history_messages_under_the_write_policies(tmp_path):
    first = open_memory(tmp_path / "m.db", embedder=Toy())
    run(first.conversations.append("s", [Message.user("ok"), Message.user("I have a dog.")]))
    run(first.close())
    second = open_memory(tmp_path / "m.db", embedder=Toy(), policies=[MinimumLength(5)])
    assert [item.text for item in run(second.list())] == ["I have a dog."]
    assert run(second.pending()) == 1
    run(second.remember("Something new."))
    assert run(second.pending()) == 0
    run(second.close())


def test_opening_touches_no_network(tmp_path, monkeypatch):
    def refuse(*_args, **_options):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    memory = open_memory(tmp_path / "m.db")
    memory.store.close()


@pytest.mark.parametrize("content", [b"", b"not a memory at all" * 100])
def test_a_file_that_is_not_a_memory_is_left_as_it_was(tmp_path, content):
    path = tmp_path / "m.db"
    path.write_bytes(content)
    with pytest.raises(NotAStore, match=r"m\.db"):
        open_memory(path)
    assert path.read_bytes() == content
    assert [item.name for item in tmp_path.iterdir()] == ["m.db"]


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_open_memory_refuses_an_invalid_path(path):
    with pytest.raises((ArgumentError, VectorStoreError)):
        open_memory(path)


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(VectorStoreError):
        open_memory(tmp_path)


def test_a_backup_is_a_whole_memory(tmp_path):
    memory = open_memory(tmp_path / "m.db", embedder=Toy())
    run(memory.remember(Memory("I moved.", key="k")))
    run(memory.remember_turn("s", [Message.user("hello there")]))
    memory.store.backup(str(tmp_path / "copy.db"))
    run(memory.remember("after the backup"))
    run(memory.close())
    copy = open_memory(tmp_path / "copy.db", embedder=Toy())
    assert sorted(item.text for item in run(copy.list())) == ["I moved.", "hello there"]
    assert len(run(copy.conversations.load("s"))) == 1
    assert run(copy.remember(Memory("I moved.", key="k"))).outcome == "duplicate"
    assert copy.store.verify() == []
    run(copy.close())


def test_a_plain_store_file_becomes_a_memory_without_losing_anything(tmp_path):
    store = open_store(f"sqlite:///{tmp_path / 'm.db'}", fields=DECLARED_FIELDS)
    store.close()
    memory = open_memory(tmp_path / "m.db", embedder=Toy())
    run(memory.remember("first"))
    assert memory.store.verify() == []
    run(memory.close())


SECRET = "The code of the gate is 4417."


@pytest.fixture
def saved(tmp_path):
    """A memory on a saved numpy store: said, noted, corrected and forgotten; with an export from before that."""
    memory = open_memory(f"numpy:///{tmp_path}/m", embedder=Toy())
    run(memory.remember_turn("s", [Message.user(SECRET), Message.user("Ana lives in Porto.")]))
    note = run(memory.remember(Memory("The boat is red.", key="boat"))).id
    run(memory.export(tmp_path / "before.jsonl"))
    memory.store.save()
    run(memory.correct(note, "The boat is blue."))
    (secret,) = [item.id for item in run(memory.list()) if item.text == SECRET]
    receipt = run(memory.forget([secret]))
    assert receipt.pending, "the saved file still has it"
    memory.store.save()
    assert not memory.store.pending_erasure()
    run(memory.close())
    return tmp_path


def test_all_of_a_memory_on_a_numpy_store_is_saved_with_it(saved):
    memory = open_memory(f"numpy:///{saved}/m", embedder=Toy())
    assert sorted(item.text for item in run(memory.list())) == ["Ana lives in Porto.", "The boat is blue."]
    assert [row.message.text for row in run(memory.conversations.load("s"))] == ["Ana lives in Porto."]
    assert [operation.kind for operation in run(memory.operations())][:2] == ["forget", "correct"]
    assert run(memory.remember(Memory("The boat is blue.", key="boat"))).outcome == "duplicate"
    (correction,) = [operation for operation in run(memory.operations()) if operation.kind == "correct"]
    run(memory.undo(correction.id))
    assert memory.store.verify() == []
    memory.store.save()
    again = open_memory(f"numpy:///{saved}/m", embedder=Toy())
    assert sorted(item.text for item in run(again.list())) == ["Ana lives in Porto.", "The boat is red."]


def test_what_was_forgotten_is_in_no_byte_of_a_saved_numpy_memory_and_no_import_brings_it_back(saved):
    def is_on_disk():
        return any(part in (saved / "m").read_bytes() for part in (SECRET.encode(), b"4417", b"gate"))

    assert not is_on_disk()
    memory = open_memory(f"numpy:///{saved}/m", embedder=Toy())
    run(memory.import_(saved / "before.jsonl", mode="upsert"))
    assert SECRET not in [item.text for item in run(memory.list())]
    assert SECRET not in [row.message.text for row in run(memory.conversations.load("s"))]
    memory.store.save()
    assert not is_on_disk()


def test_a_whole_namespace_forgotten_is_in_no_byte_of_a_saved_numpy_memory(saved):
    memory = open_memory(f"numpy:///{saved}/m", embedder=Toy())
    assert b"Porto" in (saved / "m").read_bytes()
    assert run(memory.forget_namespace("")).pending
    memory.store.save()
    data = (saved / "m").read_bytes()
    assert not any(word in data for word in (b"Porto", b"porto", b"boat"))
