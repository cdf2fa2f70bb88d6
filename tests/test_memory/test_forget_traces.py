"""Where words can have gone before they are forgotten: wherever it was, no byte of them is left in any file."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from memory import (
    Action,
    CachedEmbedder,
    EmbeddingSettings,
    FixedWindow,
    ImageBlock,
    Judge,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Message,
    NearDuplicates,
    NoSuchMemory,
    PolicyDecision,
    Receipt,
    Retention,
    ShortTermMemory,
    SqliteEmbeddingCache,
    SqliteHistory,
    SummaryWindow,
    TextBlock,
    ThinkingBlock,
    open_memory,
)
from memory.internals import BackfillReport
from memory.messages import DocumentBlock
from memory.retrieval.index import index_cache, index_sync

SECRET = "the locker code is 44173921-zebra"
TRACES = ("zebra", "44173921")


class Ticking:
    """A clock that moves a second at each look."""

    def __init__(self) -> None:
        self.now = datetime(2026, 6, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


class Toy:
    """An embedder whose vectors differ from text to text; with a *gate* it waits at the words, with *down* it fails."""

    dimension = 8

    def __init__(self, fingerprint: str = "toy/1", sign: int = 1) -> None:
        self.fingerprint, self.sign, self.down = fingerprint, sign, False
        self.gate: tuple[asyncio.Event, asyncio.Event] | None = None

    async def embed(self, texts, kind="document"):
        if self.down:
            raise RuntimeError("it is down")
        if self.gate is not None and SECRET in texts:
            began, may_end = self.gate
            began.set()
            await may_end.wait()
        return np.array([self.sign * vector_of(text) for text in texts], dtype=np.float32).reshape(len(texts), 8)


def vector_of(text):
    row = np.random.default_rng(list(text.encode())).normal(size=8).astype(np.float32)
    return row / np.linalg.norm(row)


def run(awaitable):
    return asyncio.run(awaitable)


def opened(folder: Path, **options) -> LongTermMemory:
    given = {"embedder": Toy(), "clock": Ticking(), "embedding_settings": EmbeddingSettings(cache_bytes=1 << 20)}
    return open_memory(folder / "m.db", **{**given, **options})


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[LongTermMemory]:
    opened_memory = opened(tmp_path)
    run(opened_memory.remember("an ordinary sentence"))
    yield opened_memory
    run(opened_memory.close())


def remembered(memory: LongTermMemory, text: str, **fields) -> str:
    return run(memory.remember(Memory(text, **fields))).id


def said(memory: LongTermMemory, *blocks) -> None:
    run(memory.remember_turn("s", [Message.user(list(blocks))]))


def in_base64(data: bytes) -> list[bytes]:
    """The middle of *data* as it stands in base64, wherever in a file it begins."""
    return [urlsafe_b64encode(b"x" * before + data)[4:-4] for before in range(3)]


def traces(folder: Path, *vectors: np.ndarray) -> list[tuple[str, bytes]]:
    """Name each file below *folder* and what of the words, or of a vector, it holds."""
    wanted = [one.astype(np.float32).tobytes() for one in (vector_of(SECRET), *vectors)]
    for trace in TRACES:
        for data in (trace.encode(), trace.encode("utf-16-le"), trace.encode("utf-16-be")):
            wanted += [data, *(piece for piece in in_base64(data) if len(piece) >= 4)]
    contents = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    return [(name, one) for name, content in contents.items() for one in wanted if one in content]


# --- where the words can have been


def beside_it(memory: LongTermMemory) -> Receipt:
    """Forget a memory that says what was put elsewhere before."""
    return run(memory.forget([remembered(memory, SECRET)]))


def in_a_memory_that_was_undone(memory, tmp_path):
    id = remembered(memory, SECRET)
    run(memory.undo(run(memory.operations())[0].id))
    return run(memory.forget([id]))


def in_a_memory_that_was_merged_into_another(memory, tmp_path):
    first, other = remembered(memory, SECRET), remembered(memory, "another thing")
    run(memory.merge([other, first], "both of them"))
    return run(memory.forget([first]))


def in_a_version_that_was_corrected(memory, tmp_path):
    id = remembered(memory, SECRET)
    run(memory.correct(id, "the code is another one"))
    return run(memory.forget([id]))


def in_a_tag_that_is_only_in_the_log(memory, tmp_path):
    other = remembered(memory, "another thing")
    run(memory.tag([other], [SECRET]))
    run(memory.untag([other], [SECRET]))
    return beside_it(memory)


def in_the_caller_s_own_fields(memory, tmp_path):
    remembered(memory, "another thing", metadata={"notes": [{"quoted": f"<{SECRET}>"}]})
    return beside_it(memory)


def in_what_was_thought(memory, tmp_path):
    run(memory.conversations.append("s", [Message.assistant([ThinkingBlock(text=SECRET), TextBlock(text="Fine.")])]))
    return beside_it(memory)


def in_the_caption_of_an_image(memory, tmp_path):
    said(memory, TextBlock(text="look"), ImageBlock(media_type="image/png", data=b"xx", caption=f"a {SECRET}"))
    return beside_it(memory)


def in_an_attached_file(memory, tmp_path):
    said(memory, TextBlock(text="look"), DocumentBlock(media_type="text/plain", data=f"1. {SECRET}\n".encode()))
    return beside_it(memory)


def in_an_attached_file_of_windows(memory, tmp_path):
    data = f"1. {SECRET}\n".encode("utf-16")
    said(memory, TextBlock(text="look"), DocumentBlock(media_type="text/plain", data=data))
    return beside_it(memory)


def in_a_summary(memory, tmp_path):
    spoken = [SECRET, "Noted, thank you.", "one", "two", "three"]
    run(memory.remember_turn("s", [Message.user(text) for text in spoken]))
    policy = SummaryWindow(FixedWindow(messages=2), lambda before, given: before + "; ".join(m.text for m in given))
    run(ShortTermMemory(memory.conversations, policy=policy, session="s").window())
    return run(memory.forget([one.id for one in run(memory.list()) if one.text == SECRET]))


def in_a_passage_and_a_heading(memory, tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text(f"# {SECRET}\n\nSomething else.\n\n# Two\n\nAs was said: {SECRET}.\n")
    run(KnowledgeBase(memory).ingest(notes))
    (notes / "a.md").unlink()
    return beside_it(memory)


def in_what_waits_in_a_time_of_grace(memory, tmp_path):
    run(memory.forget([remembered(memory, SECRET)], grace=timedelta(days=30)))
    return beside_it(memory)


def in_a_forgetting_whose_grace_is_cut_short(memory, tmp_path):
    id = remembered(memory, SECRET)
    run(memory.forget([id], grace=timedelta(days=30)))
    return run(memory.forget([id]))


def in_vectors_of_a_second_space(memory, tmp_path):
    id = remembered(memory, SECRET)
    run(memory.reembed(Toy("toy/2", sign=-1), switch=False))
    return run(memory.forget([id]))


PLACES: list[Callable[[LongTermMemory, Path], Receipt]] = [
    in_a_memory_that_was_undone,
    in_a_memory_that_was_merged_into_another,
    in_a_version_that_was_corrected,
    in_a_tag_that_is_only_in_the_log,
    in_the_caller_s_own_fields,
    in_what_was_thought,
    in_the_caption_of_an_image,
    in_an_attached_file,
    in_an_attached_file_of_windows,
    in_a_summary,
    in_a_passage_and_a_heading,
    in_what_waits_in_a_time_of_grace,
    in_a_forgetting_whose_grace_is_cut_short,
    in_vectors_of_a_second_space,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_wherever_the_words_were_no_byte_of_them_is_left(memory, tmp_path, place, monkeypatch):
    forget = memory.forget

    async def asked_before(*given, **named):
        assert len(await memory.recall("Which locker code has the zebra?"))  # what that derives of them goes, too
        return await forget(*given, **named)

    monkeypatch.setattr(memory, "forget", asked_before)
    receipt = place(memory, tmp_path)
    assert not receipt.pending
    assert traces(tmp_path, -vector_of(SECRET)) == []
    proof = run(memory.verify_forgotten(receipt, [SECRET]))
    assert (proof.left, proof.notes) == ((), ())
    assert "an ordinary sentence" in [one.text for one in run(memory.list())]
    assert memory.store.verify() == []
    run(memory.close())
    assert traces(tmp_path, -vector_of(SECRET)) == []


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_the_search_for_traces_sees_them_while_they_are_there(memory, tmp_path, place, monkeypatch):
    monkeypatch.setattr(memory, "forget", kept_as_it_is)
    place(memory, tmp_path)
    assert traces(tmp_path, -vector_of(SECRET))


async def kept_as_it_is(*given, **named):
    return Receipt(())


@pytest.mark.parametrize("kept_before", [True, False])
def test_what_recall_derived_of_it_is_not_kept_afterwards_either(memory, tmp_path, monkeypatch, kept_before):
    monkeypatch.setattr(index_sync, "_MIN_SAVED_ROWS", 4)
    monkeypatch.setattr(index_cache, "_MAX_SEGMENT_ROWS", 8)
    run(memory.remember_many(Memory(f"The garden is number {n}.", id=f"m{n}") for n in range(20)))
    remembered(memory, f"{SECRET}, says Zebediah", id="a")
    if not kept_before:  # as it is while another process writes
        monkeypatch.setattr(index_cache.IndexCache, "save", lambda *given, **named: False)
    run(memory.recall("Which garden?"))
    receipt = run(memory.forget(["a"]))
    monkeypatch.undo()
    monkeypatch.setattr(index_sync, "_MIN_SAVED_ROWS", 4)
    monkeypatch.setattr(index_cache, "_MAX_SEGMENT_ROWS", 8)
    run(memory.remember_many(f"The next garden is number {n}." for n in range(20)))
    run(memory.recall("Which garden?"))
    with memory.store.database.read() as connection:
        assert next(connection.execute("SELECT sum(size) FROM recall_segments")) == (41,)
    assert traces(tmp_path) == []
    assert run(memory.verify_forgotten(receipt, [SECRET])).left == ()


# --- messages that readings do not show


@pytest.mark.parametrize("by", [{"session": "s"}, {"older_than": timedelta(0)}, {"source": "s"}], ids=str)
def test_messages_that_a_retention_hides_go_with_their_session_and_do_not_come_back(memory, tmp_path, by):
    retention = Retention(messages=2, unremembered="keep")
    history = SqliteHistory(memory.store.database, clock=memory.clock, retention=retention)
    run(history.append("s", [Message.user(text) for text in (SECRET, "b", "c", "d")]))
    assert [one.message.text for one in run(history.load("s"))] == ["c", "d"]
    reader = LongTermMemory(memory.store, embedder=Toy(), history=history, clock=memory.clock)
    assert run(reader.forget(**by)).messages == 4
    assert traces(tmp_path) == []
    assert run(reader.complete()) == 0


def test_a_namespace_takes_hidden_messages_and_an_import_does_not_bring_them_back(memory, tmp_path):
    history = SqliteHistory(memory.store.database, clock=memory.clock)
    spoken = [Message.user(SECRET), Message.user("b"), Message.system("be kind to them")]
    run(history.append("s", spoken, namespace="ann"))
    run(memory.export(tmp_path / "a.jsonl", namespace="ann"))
    strict = SqliteHistory(
        memory.store.database, clock=memory.clock, retention=Retention(messages=1, unremembered="keep")
    )
    run(strict.append("s", [Message.user("d")], namespace="ann"))
    reader = LongTermMemory(memory.store, embedder=Toy(), history=strict, clock=memory.clock)
    planned = run(reader.forget_namespace("ann", dry_run=True))
    assert (planned.messages, run(reader.forget_namespace("ann")).messages) == (4, 4)
    report = run(memory.import_(tmp_path / "a.jsonl", namespace="ann", trust="user"))
    assert report.taken.get("message", 0) == 0
    assert run(memory.conversations.load("s", namespace="ann")) == []


# --- a memory that is forgotten while its text is being embedded


def cached(memory: LongTermMemory, text: str) -> bool:
    cache = memory.embedding._cache
    return any(kept is not None for kept in cache.get("toy/1", "document", [text]))


async def meanwhile(memory: LongTermMemory, embedder: Toy, work, forget) -> object:
    """Begin *work*, forget while the embedder has the text, then let the work go on."""
    embedder.gate = began, may_end = asyncio.Event(), asyncio.Event()
    task = asyncio.ensure_future(work())
    await began.wait()
    receipt = await forget()
    may_end.set()
    (ended,) = await asyncio.gather(task, return_exceptions=True)
    assert not receipt.pending
    return ended


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[tuple[LongTermMemory, Toy]]:
    embedder = Toy()
    opened_memory = opened(tmp_path, embedder=embedder)
    run(opened_memory.remember("an ordinary sentence"))
    yield opened_memory, embedder
    run(opened_memory.close())


def test_a_vector_that_comes_too_late_is_kept_nowhere(slow, tmp_path):
    memory, embedder = slow
    embedder.down = True
    id = remembered(memory, SECRET)
    embedder.down = False
    memory.embedding.use(embedder, memory.store.space)
    assert run(meanwhile(memory, embedder, memory.flush, lambda: memory.forget([id]))) == BackfillReport()
    run(memory.remember("the next write"))
    assert not cached(memory, SECRET)
    assert traces(tmp_path) == []


@pytest.mark.parametrize("change", ["correct", "merge"])
def test_words_for_a_memory_that_was_forgotten_meanwhile_are_kept_nowhere(slow, tmp_path, change):
    memory, embedder = slow
    id, other = remembered(memory, "words before"), remembered(memory, "other words")

    async def changed():
        return await (memory.correct(id, SECRET) if change == "correct" else memory.merge([id, other], SECRET))

    assert isinstance(run(meanwhile(memory, embedder, changed, lambda: memory.forget([id]))), NoSuchMemory)
    embedder.gate = None
    run(memory.remember("the next write"))
    assert not cached(memory, SECRET)
    assert traces(tmp_path) == []


def test_a_vector_of_a_second_space_that_comes_too_late_is_kept_nowhere(slow, tmp_path):
    memory, _ = slow
    id = remembered(memory, SECRET)
    second = Toy("toy/2", sign=-1)
    caching = CachedEmbedder(second, SqliteEmbeddingCache.at(tmp_path / "vectors.db"))

    async def embedded_anew():
        return await memory.reembed(caching, switch=False)

    done = run(meanwhile(memory, second, embedded_anew, lambda: memory.forget([id])))
    assert (done.embedded, done.switched) == (1, False)
    assert traces(tmp_path, -vector_of(SECRET)) == []


@pytest.mark.parametrize("whole", [False, True])
def test_words_that_a_policy_took_out_leave_no_vector_in_the_cache(tmp_path, whole):
    shorter = Judge(lambda one: PolicyDecision(Action.TRANSFORM, "short", memory=replace(one, text="There is a code.")))
    memory = opened(tmp_path, policies=[NearDuplicates(), shorter])
    noted = run(memory.remember(SECRET))
    assert not cached(memory, SECRET)
    (turn,) = run(memory.remember_turn("s", [Message.user(f"listen: {SECRET}")]))
    run(memory.forget_namespace("") if whole else memory.forget([noted.id, turn.id]))
    assert not cached(memory, f"listen: {SECRET}")
    assert traces(tmp_path, vector_of(f"listen: {SECRET}")) == []
    run(memory.close())
