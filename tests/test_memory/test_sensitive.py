"""What is marked sensitive: kept whole, found by its words, given to no remote embedder."""

import numpy as np
import pytest

from memory import (
    HashingEmbedder,
    LongTermMemory,
    Memory,
    NearDuplicates,
    NoSecrets,
    OpenAICompatibleEmbedder,
    is_remote,
)
from memory import run_sync as run
from vectorstore import open_store

SECRET = "The PIN of the safe is 48213."


class Asked:
    """An embedder that notes what it was given."""

    fingerprint = "asked/4"
    dimension = 4

    def __init__(self, remote=None):
        self.texts = []
        if remote is not None:
            self.remote = remote

    async def embed(self, texts, kind="document"):
        self.texts += texts
        return np.full((len(texts), 4), 0.5, np.float32)


@pytest.fixture(params=["numpy:", "sqlite"])
def url(request, tmp_path):
    return request.param if request.param == "numpy:" else f"sqlite:///{tmp_path / 'm.db'}"


def test_only_what_a_person_marked_is_kept_whole_by_the_policy():
    memory = LongTermMemory(open_store("numpy:"), policies=[NoSecrets()])
    marked = run(memory.remember(Memory(SECRET, sensitive=True)))
    tool = run(memory.remember(Memory(SECRET, sensitive=True, actor="tool")))
    assert (marked.outcome, tool.outcome) == ("stored", "redacted")


@pytest.mark.parametrize(("remote", "sent"), [(None, False), (True, False), (False, True)])
def test_what_is_sensitive_is_sent_to_an_embedder_on_this_machine_only(url, remote, sent):
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


def test_what_waits_for_a_vector_is_not_sent_later_either(url):
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


def test_a_correction_of_what_is_sensitive_is_sensitive(url):
    embedder = Asked(remote=True)
    memory = LongTermMemory(open_store(url), embedder=embedder)
    id = run(memory.remember(Memory(SECRET, sensitive=True))).id
    report = run(memory.correct(id, "The PIN of the safe is 55555."))
    assert report.deferred == "sensitive: not sent to a remote embedder"
    assert embedder.texts == []
    assert run(memory.get([id]))[0].sensitive
    run(memory.close())


def test_each_embedder_says_whether_texts_leave_this_machine():
    here = OpenAICompatibleEmbedder("http://localhost:11434/v1", "m")
    away = OpenAICompatibleEmbedder("https://models.example.org/v1", "m")
    assert [is_remote(one) for one in (HashingEmbedder(), here, away, object(), None)] == [
        False,
        False,
        True,
        True,
        False,
    ]
    for one in (here, away):
        run(one.aclose())
