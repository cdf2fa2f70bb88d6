"""``remember_many`` is ``remember`` on each: equal reports and memories for all policies and embedders.

Inner parts, on no face: ``tellback.memory.embedders.protocol``, ``tellback.memory.write``.
"""

import asyncio
import itertools
import tempfile
import threading
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.memory import (
    ArgumentError,
    DuplicateKey,
    ExtractedFact,
    Extractor,
    Judge,
    LongTermMemory,
    Memory,
    MinimumLength,
    NearDuplicates,
    NoSecrets,
    Report,
    run_sync,
)
from tellback.memory.internals import Outcome
from tellback.memory.write import memory_writer
from tellback.vectorstore import WrapperStore, open_store
from tests.support.embedders import LetterEmbedder

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS = [
    "I like green tea.",
    "Green tea I like!",
    "I do not like green tea.",
    "ok",
    "The plumber comes on Friday.",
    "the plumber comes on friday",
    "My PIN is 48213.",
    "My PIN is 55512.",
    "boom",
    "weather talk",
]


class Away(LetterEmbedder):
    """An embedder that never answers."""

    async def embed(self, texts, kind="document"):
        raise OSError("away")


class Remote(LetterEmbedder):
    """Remote embedder."""

    remote = True


class Refusing(LetterEmbedder):
    """An embedder that fails where a text is about tea."""

    async def embed(self, texts, kind="document"):
        if any("tea" in text for text in texts):
            raise OSError("no tea")
        return await super().embed(texts, kind)


async def about_weather(memory):
    if "boom" in memory.text:
        raise OSError("the judge is away")
    return "weather" not in memory.text


POLICIES = {
    "length": MinimumLength(4),
    "turns": MinimumLength(4, of="turn"),
    "secrets": NoSecrets(),
    "no secrets": NoSecrets("reject"),
    "link": NearDuplicates(),
    "fold": NearDuplicates(words=0.6, fold=True),
    "judge": Judge(about_weather),
    "strict judge": Judge(about_weather, on_failure="reject"),
    "distil": Judge(lambda memory: "Friday: plumber" if "Friday" in memory.text else True),
    "facts": Extractor(lambda turn: [ExtractedFact("a fact"), "ok"] if "like" in turn.text else [], kinds=["fact"]),
    "facts alone": Extractor(lambda turn: ["another"] if "plumber" in turn.text else [], kinds=["fact"], keep=False),
}
EMBEDDERS = {"none": None, "here": LetterEmbedder(), "away": Away(), "remote": Remote()}

item = st.builds(
    Memory,
    text=st.sampled_from(TEXTS),
    key=st.sampled_from([None, None, None, "a", "b"]),
    id=st.sampled_from(["", "", "", "mine"]),
    speaker=st.sampled_from([None, "Ann"]),
    actor=st.sampled_from(["user", "tool"]),
    sensitive=st.booleans(),
    disabled=st.sampled_from([False, False, True]),
    expires_at=st.sampled_from([None, None, NOW]),
    derived_from=st.sampled_from([(), ("mine",)]),
    supersedes=st.sampled_from([None, None, "mine@1"]),
)


@cache
def empty_snapshot():
    """Return the address of a saved empty memory: what opens it has the same key, of which ids are made."""
    address = f"numpy:///{Path(tempfile.mkdtemp()) / 'empty'}"
    store = open_store(address)
    assert LongTermMemory(store).tombstones.key
    store.save()
    return address


def opened(policies, embedder):
    numbers = itertools.count()
    return LongTermMemory(
        open_store(empty_snapshot()),
        embedder=embedder,
        policies=[POLICIES[name] for name in policies],
        clock=lambda: NOW,
        ids=lambda: f"m{next(numbers):04}",
    )


def one_by_one(memory, items):
    lines = []
    for each in items:
        try:
            lines.append(run_sync(memory.remember(each)))
        except DuplicateKey as error:
            lines.append(Report(Outcome.REJECTED, error.id, str(error)))
    return lines


def plain(report):
    return replace(report, operation=None, made=tuple(plain(each) for each in report.made))


def state(memory):
    """Return all that is kept, but how often it was written to and what the writes were called."""
    entries = memory.store.scan(namespace="/conversation")
    return [
        (
            entry.id,
            entry.text,
            {k: v for k, v in entry.metadata.items() if k != "operation"},
            entry.no_vector,
            entry.vector is None,
        )
        for entry in entries
    ]


@pytest.mark.slow
@given(
    items=st.lists(item, max_size=9),
    policies=st.lists(st.sampled_from(sorted(POLICIES)), max_size=4, unique=True),
    embedder=st.sampled_from(sorted(EMBEDDERS)),
    batch=st.sampled_from([1, 2, 256]),
)
def test_remember_many_reports_and_stores_the_same_as_single_remembers(items, policies, embedder, batch):
    many, single = (opened(policies, EMBEDDERS[embedder]) for _ in range(2))
    seen = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_writer, "WRITE_BATCH", batch)
        reports = run_sync(many.remember_many(iter(items), on_progress=seen.append))
    lines = one_by_one(single, items)
    assert [plain(report) for report in reports] == [plain(line) for line in lines]
    assert state(many) == state(single)
    assert len(reports) == len(items)
    assert seen == [min(done, len(items)) for done in range(batch, len(items) + batch, batch)] if items else not seen
    stored = [each for report in reports for each in (report, *report.made) if each.stored]
    assert sorted(each.id for each in stored) == [entry[0] for entry in state(many)]
    assert all(report.reason for report in reports if report.outcome is Outcome.REJECTED)


@pytest.mark.slow
@given(
    items=st.lists(item, max_size=9),
    policies=st.lists(st.sampled_from(["length", "secrets", "judge", "facts"]), max_size=3, unique=True),
    batch=st.sampled_from([2, 256]),
)
def test_remember_many_differs_from_single_remembers_only_in_deferred_where_embedding_fails(items, policies, batch):
    many, single = (opened(policies, Refusing()) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_writer, "WRITE_BATCH", batch)
        reports = run_sync(many.remember_many(items))
    lines = one_by_one(single, items)

    def told(report):
        return replace(plain(report), deferred=None, made=tuple(told(each) for each in report.made))

    assert [told(each) for each in reports] == [told(line) for line in lines]
    for memory in (many, single):
        memory.embedding.embedder = LetterEmbedder()
        run_sync(memory.flush())
        assert run_sync(memory.pending()) == 0
    assert state(many) == state(single)


def test_a_duplicate_item_has_no_facts_extracted_again():
    memory = opened(["facts"], None)
    item = Memory("I like green tea.", key="tea")
    (first,) = run_sync(memory.remember_many([item]))
    assert [made.outcome for made in first.made] == ["stored", "stored"]
    many = run_sync(memory.remember_many([item, item]))
    assert [(each.outcome, each.made) for each in (*many, run_sync(memory.remember(item)))] == [("duplicate", ())] * 3
    assert run_sync(memory.count()) == 3


def test_a_memory_derived_from_an_item_of_its_batch_takes_the_trust_stored_for_that_item():
    """Also where that one is named by its key, and where it is not stored, since it is there already."""
    memory = opened([], None)
    keyed = run_sync(memory.remember(Memory("Rain comes.", key="rain"))).id
    run_sync(memory.forget([keyed]))
    rain = [Memory("Rain comes.", key="rain", actor="tool"), Memory("Take a coat.", derived_from=(keyed,))]
    run_sync(memory.remember(Memory("Snow comes.", id="snow")))
    snow = [Memory("Snow comes.", id="snow", actor="tool"), Memory("Take boots.", derived_from=("snow",))]
    for batch, outcome, trust in ((rain, "stored", "tool"), (snow, "duplicate", "user")):
        source, made = run_sync(memory.remember_many(batch))
        assert (source.outcome, made.outcome) == (outcome, "stored")
        assert run_sync(memory.get([made.id]))[0].trust == trust


def test_a_fact_of_a_duplicate_item_counts_as_no_near_duplicate():
    numbers = itertools.count()
    facts = Extractor(lambda turn: [f"fact {next(numbers)} of tea"] if "like" in turn.text else [], kinds=["fact"])
    memory = LongTermMemory(open_store("numpy:"), policies=[facts, NearDuplicates(words=1)])
    item = Memory("I like green tea.", key="tea")
    run_sync(memory.remember(item))
    again, other = run_sync(memory.remember_many([item, "fact 1 of tea"]))
    assert (again.outcome, other.outcome, other.of) == ("duplicate", "stored", None)


def test_items_stream_in_bounded_batches():
    taken, held = [], []

    def stream():
        for number in range(700):
            taken.append(number)
            yield f"number {number}"

    memory = opened([], None)
    reports = run_sync(memory.remember_many(stream(), on_progress=lambda done: held.append(len(taken) - done)))
    assert len(reports) == 700
    assert held == [0, 0, 0]  # nothing is read ahead of what is written


@pytest.mark.slow
@given(
    items=st.lists(item, max_size=9),
    policies=st.lists(st.sampled_from(sorted(POLICIES)), max_size=1),
    embedder=st.sampled_from(sorted(EMBEDDERS)),
    batch=st.sampled_from([1, 2, 3]),
)
def test_remember_many_of_a_list_with_batches_prepared_ahead_equals_single_remembers(items, policies, embedder, batch):
    many, single = (opened(policies, EMBEDDERS[embedder]) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_writer, "WRITE_BATCH", batch)
        reports = run_sync(many.remember_many(items))
    assert [plain(report) for report in reports] == [plain(each) for each in one_by_one(single, items)]
    assert state(many) == state(single)


class Telling(LetterEmbedder):
    """An embedder that says when it was asked for "b"."""

    def __init__(self, asked):
        self.asked = asked

    async def embed(self, texts, kind="document"):
        if "b" in texts:
            self.asked.set()
        return await super().embed(texts, kind)


class Slow(WrapperStore):
    """Store whose writes wait for an event, at most a minute."""

    def __init__(self, wrapped, wanted):
        super().__init__(wrapped)
        self.wanted, self.waited = wanted, []
        self.begun, self.stored = threading.Event(), threading.Event()

    def upsert(self, entries, **options):
        self.begun.set()
        self.waited.append(self.wanted.wait(60))
        count = super().upsert(entries, **options)
        self.stored.set()
        return count


def test_while_one_batch_of_a_list_is_stored_the_next_is_embedded(monkeypatch):
    monkeypatch.setattr(memory_writer, "WRITE_BATCH", 1)
    asked = threading.Event()
    store = Slow(open_store("numpy:"), asked)
    reports = run_sync(LongTermMemory(store, embedder=Telling(asked)).remember_many(["a", "b"]))
    assert store.waited == [True, True]
    assert [report.deferred for report in reports] == [None, None]


class LookedAt(WrapperStore):
    """A store that stores the first batch a little late, so that whoever does not wait for it reads before it."""

    view = WrapperStore.view  # only ``get`` is told of

    def __init__(self, wrapped):
        super().__init__(wrapped)
        self.storing, self.looked = threading.Event(), threading.Event()

    def upsert(self, entries, **options):
        self.storing.set()
        self.looked.wait(0.3)
        return super().upsert(entries, **options)

    def get(self, ids, **options):
        found = super().get(ids, **options)
        if self.storing.is_set():
            self.looked.set()
        return found


def test_a_memory_derived_from_an_item_of_the_previous_batch_waits_until_it_is_stored(monkeypatch, tmp_path):
    monkeypatch.setattr(memory_writer, "WRITE_BATCH", 1)
    memory = LongTermMemory(LookedAt(open_store(f"sqlite:///{tmp_path / 'm.db'}")))
    source = Memory("Snow comes.", actor="tool", id="snow")
    lines = run_sync(memory.remember_many([source, Memory("Take boots.", derived_from=("snow",))]))
    assert run_sync(memory.get([lines[1].id]))[0].trust == "tool"
    run_sync(memory.close())


@pytest.mark.parametrize("kind", [list, iter])
def test_remember_many_stores_no_batch_after_a_failing_progress_callback(kind, monkeypatch):
    monkeypatch.setattr(memory_writer, "WRITE_BATCH", 1)
    memory = opened([], LetterEmbedder())

    def stop(done):
        if done == 2:
            raise OSError("no more room on the screen")

    with pytest.raises(OSError, match="no more room"):
        run_sync(memory.remember_many(kind(["a", "b", "c", "d"]), on_progress=stop))
    assert {entry.text for entry in run_sync(memory.list())} == {"a", "b"}


def test_remember_many_reports_progress_of_batches_stored_before_a_bad_item(monkeypatch):
    monkeypatch.setattr(memory_writer, "WRITE_BATCH", 2)
    memory, seen = opened([], LetterEmbedder()), []
    with pytest.raises(ArgumentError, match=r"items\[5\]"):
        run_sync(memory.remember_many(["a", "b", "c", "d", "e", " "], on_progress=seen.append))
    assert seen == [2, 4]
    assert len(run_sync(memory.list())) == 4


def test_a_cancelled_remember_many_stores_no_further_batch(monkeypatch):
    monkeypatch.setattr(memory_writer, "WRITE_BATCH", 1)
    asked, stop = threading.Event(), threading.Event()
    store = Slow(open_store("numpy:"), stop)
    memory = LongTermMemory(store, embedder=Telling(asked))

    async def cancelled():
        writing = asyncio.create_task(memory.remember_many(["a", "b", "c"]))
        assert await asyncio.to_thread(asked.wait, 60)
        assert await asyncio.to_thread(store.begun.wait, 60)  # else "a" too would be one that had not begun
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        stop.set()
        assert await asyncio.to_thread(store.stored.wait, 60)
        return await memory.list()

    assert [each.text for each in run_sync(cancelled())] == ["a"]


def test_an_empty_stream_is_no_error():
    seen = []
    assert run_sync(opened([], None).remember_many([], on_progress=seen.append)) == []
    assert seen == []


def test_a_bad_item_raises_before_its_batch_is_written_and_after_the_earlier_ones(monkeypatch):
    monkeypatch.setattr(memory_writer, "WRITE_BATCH", 2)
    memory = opened([], None)
    with pytest.raises(ArgumentError, match=r"items\[3\]"):
        run_sync(memory.remember_many(["a", "b", "c", "", "e"]))
    assert [entry.text for entry in run_sync(memory.list())] == ["a", "b"]


@pytest.mark.parametrize("bad", ["text", b"x", Memory("x"), 5, None])
def test_remember_many_of_an_invalid_items_argument_raises(bad):
    with pytest.raises(ArgumentError, match="items"):
        run_sync(opened([], None).remember_many(bad))


def test_a_text_truncated_by_the_embedder_is_reported_as_truncated_and_stored_whole():
    from tellback.memory import HashingEmbedder

    class Cutting(HashingEmbedder):
        async def embed_detailed(self, texts, kind="document"):
            from tellback.memory.embedders.protocol import Embeddings, Truncation

            rows = await self.embed(texts, kind)
            return Embeddings(
                rows, {place: Truncation(8, len(t.split())) for place, t in enumerate(texts) if " " in t}, {}
            )

    memory = LongTermMemory(open_store("numpy:"), embedder=Cutting(dimension=16))
    report = run_sync(memory.remember("one two three four five six seven eight nine ten"))
    assert (report.kept, report.total) == (8, 10)
    assert "truncated (kept 8 of 10 tokens)" in str(report)
    assert run_sync(memory.remember("short")).total is None
    assert run_sync(memory.get([report.id]))[0].text.endswith("ten")


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (Report(Outcome.STORED, "m1"), "stored"),
        (Report(Outcome.STORED, "m1", "near-duplicate", of="m0"), "stored, near-duplicate of m0"),
        (Report(Outcome.DUPLICATE, "m0", "known already", of="m0"), "known already"),
        (Report(Outcome.NEAR_DUPLICATE, "m0", "near-duplicate", of="m0"), "near-duplicate of m0"),
        (Report(Outcome.REDACTED, "m1", "secret: PIN", spans=1), "redacted 1 span (secret: PIN)"),
        (Report(Outcome.REDACTED, "m1", "a code", spans=2), "redacted 2 spans (a code)"),
        (Report(Outcome.REJECTED, "", "too short"), "rejected (too short)"),
        (Report(Outcome.STORED, "m1", deferred="no embedder"), "stored, deferred (no embedder)"),
        (Report(Outcome.STORED, "m1", kept=5, total=9), "stored, truncated (kept 5 of 9 tokens)"),
    ],
)
def test_a_write_report_has_a_readable_text_form(report, line):
    assert str(report) == line
