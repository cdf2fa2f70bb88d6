"""Re-embedding a memory: beside the vectors in use, resumable, switched or aborted in one call.

Inner parts, on no face: ``tellback.memory.embedders.probe_pairs``, ``tellback.memory.write.reembed``.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from asyncio import run
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellback.memory import (
    ArgumentError,
    EmbedderError,
    EmbedderMismatch,
    EmbeddingSettings,
    HashingEmbedder,
    KnowledgeBase,
    LongTermMemory,
    Message,
    open_memory,
)
from tellback.memory.embedders.probe_pairs import PROBE_TEXTS
from tellback.memory.internals import CONVERSATION, PROBES, Embeddings, ReembeddingProgress, store_namespace
from tellback.memory.write.reembed import Reembedding
from tellback.vectorstore import SpaceNotReady, UnsupportedError, open_store
from tests.support.slow import first_fast

LANE = store_namespace("", CONVERSATION)
ROOT = Path(__file__).resolve().parents[2]


@cache
def hashed(text: str, dimension: int) -> np.ndarray:
    return HashingEmbedder(dimension=dimension)._vector(text)


class Model:
    """A model by its name and its length; *turn* makes it another under the same name; *before* is called first."""

    def __init__(self, name: str = "old", dimension: int = 32, *, turn: int = 0) -> None:
        self.fingerprint = f"{name}/1"
        self.dimension = dimension
        self.turn = turn + 7 * sum(name.encode())  # the same text has another vector under each name
        self.before: Callable[[Sequence[str]], None] = lambda texts: None
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
        if not {*PROBES, *PROBE_TEXTS}.issuperset(texts):
            self.before(texts)
            self.asked.extend(texts)
        return self.rows(texts)

    def rows(self, texts: Sequence[str]) -> np.ndarray:
        found = [hashed(text, self.dimension) for text in texts]
        return np.roll(np.array(found, np.float32).reshape(len(texts), self.dimension), self.turn, axis=1)


def opened(path: Path, embedder: Any, **settings: Any) -> LongTermMemory:
    return open_memory(path / "m.db", embedder=embedder, embedding_settings=EmbeddingSettings(**settings))


@pytest.fixture
def memory(store):
    return LongTermMemory(store, embedder=Model())


def wrong(memory: LongTermMemory, model: Model) -> list[str]:
    """Return the ids of entries, of every lane, that have not *model*'s vector of their text."""
    assert memory.store.space is not None
    assert memory.store.space.dimension == model.dimension
    found = []
    for lane in memory.store.namespaces():
        for entry in memory.store.scan(namespace=lane):
            if entry.vector is None or np.abs(entry.vector - model.rows([entry.text])[0]).max() > 1e-6:
                found.append(entry.id)
    return found


def filled(memory: LongTermMemory, count: int = 300) -> list[str]:
    return [line.id for line in run(memory.remember_many([f"note {n} about the harbour" for n in range(count)]))]


def test_reembed_gives_every_entry_a_vector_of_the_new_embedder_and_recall_uses_it(
    memory: LongTermMemory, tmp_path: Path
) -> None:
    filled(memory)
    first = run(memory.remember("The archive is in Turin."))
    run(memory.remember("for somebody else", namespace="other"))
    run(memory.correct(first.id, "The archive is in Milan."))
    (tmp_path / "doc.md").write_text("# Title\n\nA paragraph about boats.")
    run(KnowledgeBase(memory).ingest(tmp_path / "doc.md"))
    new = Model("new", 48)
    items: list[ReembeddingProgress] = []
    done = run(memory.reembed(new, on_progress=items.append))
    assert (done.before, done.space, done.switched, done.already) == ("old/1", "new/1", True, False)
    assert done.embedded == items[-1].total == items[-1].done == 300 + 3 + 1
    assert [item.done for item in items] == sorted(item.done for item in items)
    assert wrong(memory, new) == []
    assert memory.embedder is new
    assert run(memory.remember("afterwards")).deferred is None
    assert wrong(memory, new) == []
    found = run(memory.recall("Where is the archive?"))
    assert found[0].memory.text == "The archive is in Milan."
    assert found.notes == ()
    assert run(memory.reembedding()) is None


def test_the_old_space_serves_writes_and_recall_during_a_reembedding(memory: LongTermMemory) -> None:
    filled(memory)
    new = Model("new", 48)
    seen: list[Any] = []

    async def both() -> Any:
        async def look() -> None:
            report = await memory.remember("The archive is in Turin.")
            found = await memory.recall("Where is the archive?")
            seen.append((report.deferred, found[0].memory.text, found.notes, memory.store.space.fingerprint))

        looking: list[asyncio.Task[None]] = []

        def on_progress(step: ReembeddingProgress) -> None:
            if step.done and not looking:
                looking.append(asyncio.ensure_future(look()))

        new.before = lambda texts: None
        done = await memory.reembed(new, switch=False, on_progress=on_progress)
        await asyncio.gather(*looking)
        return done

    assert run(both()).switched is False
    assert seen == [(None, "The archive is in Turin.", (), "old/1")]
    assert wrong(memory, Model()) == []
    assert run(memory.reembed(new)).switched
    assert wrong(memory, new) == []


def test_a_reembedding_stopped_by_an_embedder_error_resumes_at_its_progress(memory: LongTermMemory) -> None:
    filled(memory)
    new = Model("new", 48)

    def fail(texts: Sequence[str]) -> None:
        if len(new.asked) >= 256:
            raise EmbedderError("down")

    new.before = fail
    with pytest.raises(EmbedderError, match="down"):
        run(memory.reembed(new))
    assert run(memory.reembedding()) == ReembeddingProgress(256, 300)
    assert wrong(memory, Model()) == []
    assert memory.embedder.fingerprint == "old/1"
    new.before = lambda texts: None
    assert run(memory.reembed(new)).embedded == 300 - 256
    assert len(new.asked) == 300
    assert wrong(memory, new) == []


def test_an_unfinished_reembedding_can_be_abandoned(memory: LongTermMemory) -> None:
    filled(memory, 10)
    new = Model("new", 48)
    run(memory.reembed(new, switch=False))
    with pytest.raises(SpaceNotReady, match="abandon"):
        run(memory.reembed(Model("third")))
    assert run(memory.abandon_reembedding()) is True
    assert run(memory.abandon_reembedding()) is False
    assert run(memory.reembedding()) is None
    assert wrong(memory, Model()) == []
    third = Model("third")
    run(memory.reembed(third))
    assert wrong(memory, third) == []


def test_an_embedder_with_changed_probes_does_not_resume_the_reembedding_of_its_namesake(
    memory: LongTermMemory,
) -> None:
    filled(memory, 10)
    run(memory.reembed(Model("new", 48), switch=False))
    run(memory.remember("One more note about the harbour."))
    changed = Model("new", 48, turn=1)
    with pytest.raises(SpaceNotReady, match="abandon"):
        run(memory.reembed(changed))
    assert changed.asked == []
    run(memory.reembed(Model("new", 48)))
    assert wrong(memory, Model("new", 48)) == []


def test_a_memory_corrected_during_a_reembedding_gets_the_vector_of_its_new_text(memory: LongTermMemory) -> None:
    ids = filled(memory, 20)
    new = Model("new", 48)
    loops: list[Any] = []

    class Correcting(Model):
        async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
            rows = await super().embed(texts, kind)
            if len(texts) == 20:
                await memory.correct(ids[3], "something else altogether")
                await memory.remember("written meanwhile")
                loops.append(1)
            return rows

    new = Correcting("new", 48)
    run(memory.reembed(new))
    assert loops == [1]
    assert wrong(memory, new) == []
    assert run(memory.count()) == 21


@pytest.mark.parametrize("seed", first_fast(range(3)))
def test_concurrent_writes_during_a_reembedding_mix_no_vectors(memory: LongTermMemory, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)

    class Slow(Model):
        async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
            rows = await super().embed(texts, kind)
            await asyncio.sleep(rng.random() * 0.02)
            return rows

    ids = filled(memory, 30)
    old, new = Slow("old"), Slow("new")  # of one length, so that only care keeps them apart
    memory.embedding.embedder = old

    async def write(number: int) -> None:
        await asyncio.sleep(rng.random() * 0.2)
        if number % 3:
            await memory.remember(f"meanwhile {number}")
        else:
            await memory.correct(ids[number % len(ids)], f"corrected {number}")

    async def everything() -> None:
        await asyncio.gather(memory.reembed(new), *(write(number) for number in range(60)))
        await memory.flush()

    run(everything())
    assert memory.embedder is new
    assert wrong(memory, new) == []
    assert run(memory.count()) == 30 + 40


def test_an_embedder_with_changed_probes_is_reembedded_into_a_space_of_its_own(tmp_path: Path) -> None:
    memory = opened(tmp_path, Model())
    filled(memory, 20)
    run(memory.close())
    changed = Model(turn=1)
    memory = opened(tmp_path, changed)
    assert any("words alone" in note for note in run(memory.recall("harbour")).notes)
    done = run(memory.reembed())
    assert done.before == "old/1"
    assert done.space.startswith("old/1#")
    assert wrong(memory, changed) == []
    assert run(memory.recall("harbour")).notes == ()
    run(memory.close())
    memory = opened(tmp_path, changed)
    assert run(memory.remember("more")).deferred is None
    assert run(memory.reembed()).already
    run(memory.close())
    back = Model()
    memory = opened(tmp_path, back)
    assert run(memory.recall("harbour")).notes != ()
    assert run(memory.reembed()).space == "old/1"
    assert wrong(memory, back) == []
    run(memory.close())


def test_reembed_with_the_embedder_in_use_embeds_nothing_anew_without_again_true(memory: LongTermMemory) -> None:
    filled(memory, 20)
    model = memory.embedder
    assert run(memory.reembed()).already
    assert len(model.asked) == 20
    done = run(memory.reembed(again=True))
    assert (done.embedded, len(model.asked)) == (20, 40)
    assert wrong(memory, Model()) == []


def test_reembed_of_a_store_without_vectors_embeds_every_entry_and_switches(tmp_path: Path) -> None:
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    run(memory.remember_many([f"note {n}" for n in range(300)]))
    model = Model()
    items: list[ReembeddingProgress] = []
    done = run(memory.reembed(model, on_progress=items.append))
    assert (done.before, done.space, done.embedded) == (None, "old/1", 300)
    assert items[-1] == ReembeddingProgress(300, 300)
    assert wrong(memory, model) == []
    assert memory.embedding.probes.get("old/1") is not None
    run(memory.close())


def test_reembed_adopts_the_embedder_of_the_space_in_use_without_embedding(tmp_path: Path) -> None:
    memory = opened(tmp_path, Model())
    filled(memory, 3)
    run(memory.close())
    memory, model = open_memory(tmp_path / "m.db", choose_local=False), Model()
    assert run(memory.reembed(model)).already
    assert (memory.embedder, model.asked) == (model, [])
    run(memory.close())


def test_reembed_does_not_switch_to_an_embedder_that_is_down(memory: LongTermMemory) -> None:
    filled(memory, 3)

    class Down(Model):
        refused = False

        async def embed_detailed(self, texts: Sequence[str], kind: Any = "document") -> Embeddings:
            self.refused = True
            return Embeddings(np.zeros((len(texts), 48), np.float32), {}, dict.fromkeys(range(len(texts)), "no"))

        async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
            if self.refused:
                raise EmbedderError("down")
            return await super().embed(texts, kind)

    with pytest.raises(EmbedderError, match="down"):
        run(memory.reembed(Down("new", 48)))
    assert wrong(memory, Model()) == []


def test_a_file_whose_embedder_is_gone_is_embedded_with_another(tmp_path: Path) -> None:
    memory = opened(tmp_path, Model())
    filled(memory, 20)
    run(memory.close())
    new = Model("new", 48)
    memory = opened(tmp_path, new, mismatch="words")
    assert any("re-embed" in note for note in run(memory.recall("harbour")).notes)
    run(memory.remember("pending until then"))
    run(memory.reembed())
    assert wrong(memory, new) == []
    assert run(memory.recall("harbour")).notes == ()
    assert run(memory.pending()) == 0
    run(memory.close())


def test_a_space_switch_by_another_memory_is_noticed_at_the_next_call(tmp_path: Path) -> None:
    here = opened(tmp_path, Model())
    run(here.remember("The archive is in Turin."))
    run(here.recall("archive"))
    present = opened(tmp_path, Model())
    run(present.reembed(Model("new", 48)))
    found = run(here.recall("Where is the archive?"))
    assert found[0].memory.text == "The archive is in Turin."
    assert any("words alone" in note and "new/1" in note for note in found.notes)
    report = run(here.remember("The library is in Milan."))
    assert "new/1" in report.deferred
    run(here.correct(report.id, "The library is in Rome."))
    assert run(present.flush()).embedded == 2
    assert wrong(present, Model("new", 48)) == []
    run(here.close())
    run(present.close())


def test_a_space_switch_by_another_memory_to_changed_probes_mixes_no_vectors(tmp_path: Path) -> None:
    here, changed = opened(tmp_path, Model()), Model(turn=1)
    assert run(here.remember("first")).deferred is None
    present = opened(tmp_path, changed)
    assert run(present.reembed()).space.startswith("old/1#")
    assert [run(here.remember(text)).deferred is not None for text in ("second", "third")] == [True, True]
    assert run(present.flush()).embedded == 2
    assert wrong(present, changed) == []
    run(here.close())
    run(present.close())


def test_a_space_switch_by_another_memory_to_the_embedder_of_this_memory_is_followed(tmp_path: Path) -> None:
    first = opened(tmp_path, Model())
    filled(first, 20)
    new = Model("new")
    here = opened(tmp_path, new, mismatch="words")
    assert "old/1" in run(here.remember("early")).deferred
    run(first.reembed(Model("new")))
    assert run(here.remember("late")).deferred is None
    assert run(here.recall("harbour")).notes == ()
    assert wrong(here, new) == []
    run(here.close())
    run(first.close())


@pytest.mark.parametrize("elsewhere", first_fast([True, False]))
@pytest.mark.parametrize("road", ["remember", "turn", "correct", "flush", "ingest"])
def test_a_vector_embedded_during_a_space_switch_is_not_stored(tmp_path: Path, road: str, elsewhere: bool) -> None:
    memory = opened(tmp_path, Model())
    first = run(memory.remember("first"))
    new = Model("new")  # of the same length, so that only care keeps them apart
    switched: list[bool] = []

    class Slow(Model):
        async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
            rows = await super().embed(texts, kind)
            if any("late" in text for text in texts) and not switched:
                switched.append(True)
                other = opened(tmp_path, Model()) if elsewhere else memory
                await other.reembed(new)
                if elsewhere:
                    await other.close()
            return rows

    if road == "flush":
        words_only = open_memory(tmp_path / "m.db", choose_local=False)
        run(words_only.remember("late"))
        run(words_only.close())
    memory.embedding.embedder = Slow()
    (tmp_path / "late.txt").write_text("late")
    call = {
        "remember": lambda: memory.remember("late"),
        "turn": lambda: memory.remember_turn("s", [Message.user("late")]),
        "correct": lambda: memory.correct(first.id, "late"),
        "flush": memory.flush,
        "ingest": lambda: KnowledgeBase(memory).ingest(tmp_path / "late.txt"),
    }[road]
    run(call())
    assert switched == [True]
    run(memory.close())
    again = opened(tmp_path, new)
    run(again.flush())
    assert wrong(again, new) == []
    assert "late" in {entry.text for lane in again.store.namespaces() for entry in again.store.scan(namespace=lane)}
    run(again.close())


def test_a_query_embedded_during_a_space_switch_is_answered_by_words_alone(tmp_path: Path) -> None:
    memory = opened(tmp_path, Model())
    run(memory.remember("The archive is in Turin."))
    switched: list[bool] = []

    class Slow(Model):
        async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
            rows = await super().embed(texts, kind)
            if kind == "query" and not switched:
                switched.append(True)
                other = opened(tmp_path, Model())
                await other.reembed(Model("new"))
                await other.close()
            return rows

    memory.embedding.embedder = Slow()
    found = run(memory.recall("Where is the archive?"))
    assert switched == [True]
    assert found[0].memory.text == "The archive is in Turin."
    assert any("words alone" in note and "new/1" in note for note in found.notes)
    assert run(memory.why_not("Where is the archive?", found[0].memory.id)).rank == 1
    run(memory.close())


def test_two_concurrent_reembeddings_of_one_file_both_succeed_without_wrong_vectors(tmp_path: Path) -> None:
    item, other = opened(tmp_path, Model()), opened(tmp_path, Model())
    filled(item, 600)
    models = Model("new", 48), Model("new", 48)

    async def both() -> Any:
        return await asyncio.gather(item.reembed(models[0]), other.reembed(models[1]))

    reports = run(both())
    assert all(report.switched for report in reports)
    assert wrong(item, models[0]) == []
    for memory in (item, other):
        assert run(memory.remember("after")).deferred is None
        run(memory.close())


def test_a_reembedding_is_done_where_another_one_of_the_file_switches_before_it_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item, other = opened(tmp_path, Model()), opened(tmp_path, Model())
    filled(item, 3)
    target = Reembedding._target

    def overtaken(self: Reembedding, *arguments: Any, **options: Any) -> Any:
        chosen = target(self, *arguments, **options)
        monkeypatch.undo()
        run(other.reembed(Model("new", 48)))
        return chosen

    monkeypatch.setattr(Reembedding, "_target", overtaken)
    assert run(item.reembed(Model("new", 48))).switched
    assert wrong(item, Model("new", 48)) == []
    for memory in (item, other):
        run(memory.close())


def test_reembed_without_an_embedder_or_store_support_raises_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="embedder"):
        run(LongTermMemory(open_store("numpy:")).reembed())
    with pytest.raises(ArgumentError, match="embedder"):
        run(LongTermMemory(open_store("numpy:")).reembed("text-embedding-3-small"))  # type: ignore[arg-type]

    class DataOnly:
        space = None

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    with pytest.raises(UnsupportedError, match="reembed"):
        run(LongTermMemory(DataOnly()).reembed(Model()))  # type: ignore[arg-type]


KILLED = """
    import asyncio, os, sys, time
    sys.path.insert(0, {tests!r})
    from pathlib import Path
    import importlib.util
    spec = importlib.util.spec_from_file_location("models", {module!r})
    models = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(models)
    new = models.Model("new", 48)

    def slow(texts):
        time.sleep(0.02)

    new.before = slow
    memory = models.opened(Path({folder!r}), models.Model())

    def on_progress(step):
        print(step.done, flush=True)

    asyncio.run(memory.reembed(new, on_progress=on_progress))
    print("switched", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(range(3)))
def test_a_reembedding_killed_at_any_step_loses_no_entry_and_resumes(tmp_path: Path, seed: int) -> None:
    memory = opened(tmp_path, Model())
    ids = filled(memory, 1000)
    run(memory.close())
    code = KILLED.format(tests=str(ROOT), module=str(Path(__file__)), folder=str(tmp_path))
    lines = 1 + seed  # number of reported steps before the kill
    done = -1
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as child:
        assert child.stdout is not None
        for _ in range(lines):
            line = child.stdout.readline().strip()
            done = int(line) if line.isdigit() else 1000
        time.sleep(random.Random(seed).random() * 0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
    try:
        memory = opened(tmp_path, Model())
    except EmbedderMismatch:  # it had switched already
        memory = opened(tmp_path, Model("new", 48))
    assert run(memory.count()) == 1000
    new = Model("new", 48)
    if memory.store.space.fingerprint == "old/1":
        assert wrong(memory, Model()) == []
        assert run(memory.reembedding()).done >= done
        assert run(memory.recall("harbour")).notes == ()
    run(memory.reembed(new))
    assert len(new.asked) <= 1000 - done
    assert wrong(memory, new) == []
    assert memory.store.verify() == []
    assert [item.id for item in run(memory.list(limit=2000))] == sorted(ids)
    run(memory.close())


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(range(4)))
def test_an_embedder_that_fails_at_random_leaves_everything_embedded_or_pending(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    truth: dict[str, str] = {}
    switched = "old/1"
    models = {name: Model(name) for name in ("old", "new", "third")}

    def sometimes(texts: Sequence[str]) -> None:
        if rng.random() < 0.35:
            raise rng.choice([EmbedderError("down"), TimeoutError(), RuntimeError("boom"), ValueError("nonsense")])

    for model in models.values():
        model.before = sometimes
    memory = opened(tmp_path, models["old"])
    for step in range(80):
        choice = rng.random()
        if choice < 0.4 or not truth:
            text = f"step {step} says {rng.random()}"
            truth[run(memory.remember(text)).id] = text
        elif choice < 0.55:
            chosen = rng.choice(sorted(truth))
            truth[chosen] = f"corrected at {step}"
            run(memory.correct(chosen, truth[chosen]))
        elif choice < 0.6:
            chosen = rng.choice(sorted(truth))
            for gone in run(memory.forget([chosen])).memories:
                truth.pop(gone)
        elif choice < 0.7:
            run(memory.flush())
        elif choice < 0.75:
            run(memory.abandon_reembedding())
        elif choice < 0.82:
            run(memory.close())
            name = switched.partition("/")[0]
            memory = opened(tmp_path, models[name])
        else:
            name = rng.choice(sorted(models))
            with suppress(EmbedderError, RuntimeError, ValueError, TimeoutError, SpaceNotReady):
                run(memory.reembed(models[name], switch=rng.random() < 0.7))
            switched = memory.store.space.fingerprint if memory.store.space else switched
        consistent(memory, truth, models)
    for model in models.values():
        model.before = lambda texts: None
    run(memory.abandon_reembedding())
    run(memory.flush())
    assert run(memory.pending()) == 0
    consistent(memory, truth, models)
    assert memory.store.verify() == []
    run(memory.close())


def consistent(memory: LongTermMemory, truth: dict[str, str], models: dict[str, Model]) -> None:
    """Each live memory has its present text, and the vector of that text in the space in use, or is pending."""
    entries = {entry.id: entry for entry in memory.store.scan(namespace=LANE)}
    assert {id: entry.text for id, entry in entries.items()} == truth
    waiting = 0
    for lane in memory.store.namespaces():
        for entry in memory.store.scan(namespace=lane):
            if entry.vector is None:
                assert entry.no_vector is None
                waiting += 1
                continue
            model = models[memory.store.space.fingerprint.partition("/")[0]]
            assert np.allclose(entry.vector, model.rows([entry.text])[0], atol=1e-6), entry
    assert run(memory.pending()) == waiting
