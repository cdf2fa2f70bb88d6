"""Sensitive memories: stored whole, found by word search, sent to no remote embedder."""

import numpy as np
import pytest

from tellback.memory import (
    ArgumentError,
    HashingEmbedder,
    LongTermMemory,
    Memory,
    NearDuplicates,
    NoSecrets,
    OpenAICompatibleEmbedder,
)
from tellback.memory import run_sync as run
from tellback.memory.internals import is_remote
from tellback.vectorstore import open_store
from tests.support.homes import HOMES, address_in_home

SECRET = "The PIN of the safe is 48213."


class Asked:
    """Embedder that records the texts it was given."""

    fingerprint = "asked/4"
    dimension = 4

    def __init__(self, remote=None):
        self.texts = []
        if remote is not None:
            self.remote = remote

    async def embed(self, texts, kind="document"):
        self.texts += texts
        return np.full((len(texts), 4), 0.5, np.float32)


@pytest.fixture(params=HOMES)
def url(request, tmp_path):
    return address_in_home(request, tmp_path)


def test_the_secret_policy_keeps_a_sensitive_memory_whole_only_with_user_trust():
    memory = LongTermMemory(open_store("numpy:"), policies=[NoSecrets()])
    marked = run(memory.remember(Memory(SECRET, sensitive=True)))
    tool = run(memory.remember(Memory(SECRET, sensitive=True, actor="tool")))
    quoted = run(memory.remember(Memory(SECRET, sensitive=True, trust="document")))  # the user notes what a page says
    assert [item.outcome for item in (marked, tool, quoted)] == ["stored", "redacted", "redacted"]


@pytest.mark.parametrize(("remote", "sent"), [(None, False), (True, False), (False, True)])
def test_a_sensitive_memory_is_embedded_by_a_local_embedder_only(url, remote, sent):
    embedder = Asked(remote)
    memory = LongTermMemory(open_store(url), embedder=embedder, policies=[NearDuplicates()])
    report = run(memory.remember(Memory(SECRET, sensitive=True)))
    run(memory.remember("The safe is green."))
    run(memory.flush())
    assert (SECRET in embedder.texts) is sent
    assert (report.deferred is None) is sent
    assert [hit.memory.text for hit in run(memory.recall("PIN of the safe", 1))] == [SECRET]
    assert run(memory.pending()) == 0
    run(memory.close())


def test_backfill_sends_no_sensitive_memory_to_a_remote_embedder(url):
    store = open_store(url)
    before = LongTermMemory(store)
    run(before.remember(Memory(SECRET, sensitive=True)))
    run(before.remember("The safe is green."))
    assert run(before.flush()).embedded == 0
    embedder = Asked(remote=True)
    after = LongTermMemory(store, embedder=embedder)
    assert run(after.flush()).embedded == 1
    assert "The safe is green." in embedder.texts
    assert SECRET not in embedder.texts
    assert run(after.pending()) == 0
    run(after.close())


def test_a_correction_of_a_sensitive_memory_stays_sensitive(url):
    embedder = Asked(remote=True)
    memory = LongTermMemory(open_store(url), embedder=embedder)
    id = run(memory.remember(Memory(SECRET, sensitive=True))).id
    report = run(memory.correct(id, "The PIN of the safe is 55555."))
    assert report.deferred == "sensitive: not sent to a remote embedder"
    assert embedder.texts == []
    assert run(memory.get([id]))[0].sensitive
    run(memory.close())


@pytest.mark.parametrize("how", ["correct", "merge"])
@pytest.mark.parametrize("actor", ["user", "tool"])
def test_correct_and_merge_can_replace_text_by_a_secret_marked_sensitive(url, how, actor):
    embedder = Asked(remote=True)
    memory = LongTermMemory(open_store(url), embedder=embedder, policies=[NoSecrets()])
    ids = [run(memory.remember(text)).id for text in ("The safe is green.", "The safe is old.")]
    options = {"sensitive": True, "actor": actor, "approved_by": "user"}
    if how == "correct":
        report = run(memory.correct(ids[0], SECRET, **options))
    else:
        report = run(memory.merge(ids, SECRET, **options))
    assert SECRET not in embedder.texts
    assert report.deferred == "sensitive: not sent to a remote embedder"
    (now,) = run(memory.get([ids[0]]))
    assert (now.sensitive, report.outcome) == (True, "stored" if actor == "user" else "redacted")
    assert ("48213" in now.text) is (actor == "user")
    run(memory.undo(report.operation))
    assert not run(memory.get([ids[0]]))[0].sensitive
    run(memory.close())


def test_correct_can_mark_a_memory_sensitive_without_changing_its_text(url):
    memory = LongTermMemory(open_store(url))
    id = run(memory.remember(SECRET)).id
    assert run(memory.correct(id, SECRET, sensitive=True)).outcome == "stored"
    assert run(memory.get([id]))[0].sensitive
    assert run(memory.correct(id, SECRET)).outcome == "duplicate"
    for bad in (1, None, "yes"):
        with pytest.raises(ArgumentError, match="sensitive"):
            run(memory.correct(id, SECRET, sensitive=bad))
        with pytest.raises(ArgumentError, match="sensitive"):
            run(memory.merge([id, run(memory.remember("other")).id], SECRET, sensitive=bad))
    run(memory.close())


def test_each_embedder_says_whether_texts_leave_this_machine():
    here = OpenAICompatibleEmbedder("http://localhost:11434/v1", "m")
    away = OpenAICompatibleEmbedder("https://models.example.org/v1", "m")
    assert [is_remote(item) for item in (HashingEmbedder(), here, away, object(), None)] == [
        False,
        False,
        True,
        True,
        False,
    ]
    for item in (here, away):
        run(item.aclose())
