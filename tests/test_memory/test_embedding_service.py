"""The embedding service: probes of the model, refused texts, patience, closing.

Inner parts, on no face: ``tellback.memory.embedders.protocol``, ``tellback.memory.tables.embedder_probes``,
``tellback.memory.write.embedding_service``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from asyncio import run
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellback.memory import (
    ArgumentError,
    CachedEmbedder,
    DatabaseEmbeddingCache,
    EmbedderError,
    EmbedderMismatch,
    EmbeddingSettings,
    FunctionEmbedder,
    HashingEmbedder,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Message,
    OllamaEmbedder,
    open_memory,
)
from tellback.memory.embedders.protocol import Truncation
from tellback.memory.internals import (
    CONVERSATION,
    PROBES,
    BackfillReport,
    Embeddings,
    is_remote,
    store_namespace,
)
from tellback.memory.tables.embedder_probes import EmbedderProbes
from tellback.memory.write.embedding_service import EmbeddingService, WritesInFlight
from tellback.vectorstore import StoreClosed, WrapperStore, open_store
from tests.support.passing_time import DEADLINE, outlasting

LANE = store_namespace("", CONVERSATION)
HASHING = HashingEmbedder(dimension=64)


class Model:
    """Embedder whose model can change under its name, and that can fail, hang, be late, refuse and truncate."""

    dimension = 64

    def __init__(self, fingerprint: str = "model/1", *, turn: int = 0) -> None:
        self.fingerprint = fingerprint
        self.turn = turn
        self.fails: str | None = None
        self.hangs = False
        self.late = False
        self.asked: list[str] = []
        self.probed = 0

    async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
        self.probed += tuple(texts) == PROBES
        self.asked.extend(text for text in texts if text not in PROBES)
        if self.fails is not None:
            raise EmbedderError(self.fails)
        if self.late:
            await outlasting()
        await until(lambda: not self.hangs)
        for text in texts:
            if "poison" in text:
                raise RuntimeError(f"cannot read {text}")
        return np.roll(await HASHING.embed(texts, kind), self.turn, axis=1)


class Detailed(Model):
    """Refuses texts with "bad", truncates texts with "long"."""

    async def embed_detailed(self, texts: Sequence[str], kind: Any = "document") -> Embeddings:
        refused = {place: "not this one" for place, text in enumerate(texts) if "bad" in text}
        truncated = {place: Truncation(3, 9) for place, text in enumerate(texts) if "long" in text}
        vectors = (await self.embed(texts, kind)).copy()
        vectors[list(refused)] = 0
        return Embeddings(vectors, truncated, refused)


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110 - what is waited for happens in another event loop or thread
        await asyncio.sleep(0.005)


def opened(path: Path, embedder: Any, **settings: Any) -> LongTermMemory:
    return open_memory(
        path / "m.db", embedder=embedder, word_vectors=None, embedding_settings=EmbeddingSettings(**settings)
    )


def vector_of(memory: LongTermMemory, id: str) -> Any:
    (entry,) = memory.store.get([id], namespace=LANE)
    assert entry is not None
    return entry.vector


# --- probes


def test_an_embedder_is_probed_once_with_the_first_text_and_not_on_opening(tmp_path: Path) -> None:
    model = Model()
    memory = opened(tmp_path, model)
    assert model.probed == 0
    run(memory.remember("one"))
    run(memory.remember("two"))
    run(memory.recall("one"))
    assert model.probed == 1
    run(memory.close())
    again = opened(tmp_path, model)
    assert model.probed == 1
    run(again.recall("one"))
    assert model.probed == 2
    run(again.close())


class NamedWeights(Model):
    names_weights = True


def test_an_embedder_whose_fingerprint_names_its_weights_is_probed_for_a_new_file_alone(tmp_path: Path) -> None:
    model = NamedWeights()
    memory = opened(tmp_path, model)
    run(memory.remember("one"))
    assert model.probed == 1
    run(memory.close())
    again = opened(tmp_path, model)
    (hit,) = run(again.recall("one"))
    run(again.close())
    assert (hit.memory.text, model.probed, model.asked) == ("one", 1, ["one", "one"])


def test_a_model_changed_under_the_same_name_is_detected_and_its_vectors_are_not_stored(tmp_path: Path) -> None:
    memory = opened(tmp_path, Model())
    run(memory.remember("The archive is in Turin."))
    run(memory.close())
    changed = opened(tmp_path, Model(turn=1))
    found = run(changed.recall("Where is the archive?"))
    assert found[0].memory.text == "The archive is in Turin."
    assert any("words alone" in note and "changed under the same name" in note for note in found.notes)
    assert any("re-embed" in note for note in found.notes)
    report = run(changed.remember("The library is in Milan."))
    assert "changed under the same name" in report.deferred
    assert vector_of(changed, report.id) is None
    assert run(changed.pending()) == 1
    assert "changed under the same name" in run(changed.embedding.mismatch())
    run(changed.close())
    back = opened(tmp_path, Model())
    assert run(back.embedding.mismatch()) is None
    assert run(back.flush()).embedded == 1
    run(back.close())


def test_a_dimension_that_changes_during_a_run_is_detected_and_its_vectors_are_not_stored(tmp_path: Path) -> None:
    class Shrinking(Model):
        length = 64

        async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
            vectors = (await super().embed(texts, kind))[:, : self.length]
            return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)

    model = Shrinking()
    memory = opened(tmp_path, model)
    run(memory.remember("The archive is in Turin."))
    model.length = 32
    report = run(memory.remember("The library is in Milan."))
    assert "32 dimensions" in report.deferred
    assert vector_of(memory, report.id) is None
    found = run(memory.recall("Where is the library?"))
    assert found[0].memory.id == report.id
    assert any("words alone" in note for note in found.notes)
    model.length = 64
    assert run(memory.flush()).embedded == 1
    assert vector_of(memory, report.id).shape == (64,)
    run(memory.close())


def test_probes_with_small_numeric_noise_are_of_the_same_model(tmp_path: Path) -> None:
    class Noisy(Model):
        async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
            rows = await super().embed(texts, kind)
            noise = np.random.default_rng(len(texts)).normal(0, 1e-3, rows.shape)
            return (rows + noise).astype(np.float32)

    memory = opened(tmp_path, Model())
    run(memory.remember("one"))
    run(memory.close())
    noisy = opened(tmp_path, Noisy())
    assert run(noisy.remember("two")).deferred is None
    run(noisy.close())


def test_an_embedder_is_probed_again_after_a_failure(tmp_path: Path) -> None:
    model = Model()
    memory = opened(tmp_path, model)
    run(memory.remember("one"))
    model.fails = "gone"
    run(memory.remember("two"))
    model.fails, model.turn = None, 1
    assert "changed under the same name" in run(memory.remember("three")).deferred
    run(memory.close())


def test_a_file_without_probes_records_the_first_probes_of_its_embedder(tmp_path: Path) -> None:
    memory = opened(tmp_path, Model())
    run(memory.remember("one"))
    with memory.store.database.write() as connection:  # type: ignore[attr-defined]
        connection.execute("DELETE FROM embedder_probes")
    run(memory.close())
    again = opened(tmp_path, Model())
    run(again.remember("two"))
    assert EmbedderProbes(again.store.database).get("model/1").shape == (len(PROBES), 64)  # type: ignore[attr-defined,union-attr]
    assert again.store.verify() == []  # type: ignore[attr-defined]
    run(again.close())


def test_damaged_embedder_probes_are_a_finding_until_the_database_is_rebuilt(tmp_path: Path) -> None:
    memory = opened(tmp_path, Model())
    run(memory.remember("one"))
    database = memory.store.database  # type: ignore[attr-defined]
    with database.write() as connection:
        connection.execute("UPDATE embedder_probes SET vectors = x'0102'")
    (finding,) = memory.store.verify()  # type: ignore[attr-defined]
    assert (finding.part, finding.subject) == ("embedder_probes", "model/1")
    database.rebuild()
    assert memory.store.verify() == []  # type: ignore[attr-defined]
    run(memory.close())


def test_a_memory_opened_with_another_embedder_and_mismatch_words_never_calls_it(tmp_path: Path) -> None:
    memory = opened(tmp_path, Model())
    run(memory.remember("The archive is in Turin."))
    run(memory.close())
    with pytest.raises(EmbedderMismatch, match=r"model/1.*model/2"):
        opened(tmp_path, Model("model/2"))
    other = Model("model/2")
    memory = opened(tmp_path, other, mismatch="words")
    found = run(memory.recall("Where is the archive?"))
    assert found[0].memory.text == "The archive is in Turin."
    assert any("words alone" in note and "re-embed" in note for note in found.notes)
    assert "model/1" in run(memory.remember("new")).deferred
    assert other.asked == []
    assert "model/2" in run(memory.embedding.mismatch())
    run(memory.close())


# --- refused, truncated and failed texts


def test_a_refused_text_is_pending_with_its_reason_and_the_other_texts_have_vectors(tmp_path: Path) -> None:
    memory = opened(tmp_path, Detailed())
    good, bad, other = run(memory.remember_many(["one", "a bad one", "two"]))
    assert good.deferred is None
    assert other.deferred is None
    assert bad.deferred == "the embedder refused it: not this one"
    assert [vector_of(memory, line.id) is None for line in (good, bad, other)] == [False, True, False]
    assert run(memory.flush()).embedded == 0
    assert run(memory.pending()) == 1
    run(memory.close())


WRONG: dict[str, Callable[[np.ndarray], Any]] = {
    "one vector too few": lambda vectors: vectors[:-1],
    "one too many": lambda vectors: np.concatenate([vectors, vectors[:1]]),
    "not a number": lambda vectors: np.where(np.arange(vectors.shape[1]) == 3, np.nan, vectors),
    "infinite": lambda vectors: np.where(np.arange(vectors.shape[1]) == 3, np.inf, vectors),
    "another length": lambda vectors: vectors[:, :32],
    "one vector for all": lambda vectors: vectors[0],
    "zeros": np.zeros_like,
    "no vectors": lambda vectors: None,
    "words": lambda vectors: [["a"] * 64] * len(vectors),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_invalid_vectors_are_never_stored_and_fail_no_write(wrong: str) -> None:
    class Lying(Model):
        wrong: Callable[[np.ndarray], Any] | None = None

        async def embed(self, texts: Sequence[str], kind: Any = "document") -> Any:
            vectors = await super().embed(texts, kind)
            return vectors if self.wrong is None or tuple(texts) == PROBES else self.wrong(vectors)

    model = Lying()
    memory = LongTermMemory(open_store("numpy:"), embedder=model)
    first, second = run(memory.remember_many(["The archive is in Turin.", "The harbour is in Bari."]))
    model.wrong = WRONG[wrong]
    with pytest.raises(EmbedderError):  # and the vectors in use stay
        run(memory.reembed(again=True))
    run(memory.abandon_reembedding())
    run(memory.correct(first.id, "The library is in Milan."))
    assert run(memory.remember("The museum is in Genoa.")).deferred
    assert all(
        item.deferred for item in run(memory.remember_many(["The castle is in Ferrara.", "The zoo is in Pisa."]))
    )
    assert run(memory.flush()).embedded == 0
    entries = list(memory.store.scan(namespace=LANE))
    (kept,) = [entry for entry in entries if entry.vector is not None]
    assert (kept.id, kept.vector.tolist()) == (second.id, run(HASHING.embed([kept.text]))[0].tolist())
    model.wrong = None
    assert run(memory.flush()).embedded == len(entries) - 1
    assert run(memory.pending()) == 0
    run(memory.close())


def test_equal_texts_are_embedded_once_by_writes_backfill_and_reembed(tmp_path: Path) -> None:
    model = Detailed()
    memory = opened(tmp_path, model)
    texts = ["yes", "a long text", "yes", "a bad text", "a long text", "a bad text"]
    reports = run(memory.remember_many([Memory(text, key=str(place)) for place, text in enumerate(texts)]))
    assert model.asked == ["yes", "a long text", "a bad text"]
    assert [item.kept for item in reports] == [None, 3, None, None, 3, None]
    assert ["refused" in (item.deferred or "") for item in reports] == [False, False, False, True, False, True]
    vectors = [vector_of(memory, item.id) for item in reports]
    assert [vector is None for vector in vectors] == [False, False, False, True, False, True]
    assert np.array_equal(vectors[1], vectors[4])
    assert not np.array_equal(vectors[0], vectors[1])
    assert np.array_equal(vectors[0], run(HASHING.embed(["yes"]))[0])
    model.asked.clear()
    run(memory.remember_turn("s", [Message.user("ok"), Message.assistant("what?"), Message.user("ok")]))
    assert model.asked == ["ok", "what?", "a bad text"]  # the last one waits, in two memories
    other = Detailed("model/2")
    assert run(memory.reembed(other)).embedded == 7
    assert sorted(other.asked) == sorted(["yes", "a long text", "a bad text", "ok", "what?"])
    run(memory.close())


class Broken(Model):
    """Answers the probes, and *wrong* for what is named in *broken*."""

    wrong, broken = 0.0, ""

    async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
        vectors = (await super().embed(texts, kind)).copy()
        vectors[[place for place, text in enumerate(texts) if text not in PROBES and self.broken in text]] = self.wrong
        return vectors


@pytest.mark.parametrize("broken", ["", "Milan"])
@pytest.mark.parametrize("wrong", [0.0, float("nan")])
def test_a_space_migration_with_zero_or_nan_vectors_raises_and_does_not_switch(
    tmp_path: Path, wrong: float, broken: str
) -> None:
    memory = opened(tmp_path, Model())
    ids = [item.id for item in run(memory.remember_many(["The archive is in Turin.", "The library is in Milan."]))]
    before = [vector_of(memory, item) for item in ids]
    blank = Broken("blank/1")
    blank.wrong, blank.broken = wrong, broken
    with pytest.raises(EmbedderError, match="not finite" if wrong else f"zeros for the text of ({'|'.join(ids)})"):
        run(memory.reembed(blank))
    assert memory.store.space is not None
    assert memory.store.space.fingerprint == "model/1"
    assert [np.array_equal(vector_of(memory, item), row) for item, row in zip(ids, before, strict=True)] == [True] * 2
    assert run(memory.recall("Where is the archive?")).notes == ()
    blank.broken = "nothing of this"
    done = run(memory.reembed(blank))  # mended, the same call goes on
    assert (done.embedded, done.without, done.switched) == (2, 0, True)
    run(memory.close())


def test_reembedding_a_memory_without_vectors_raises_if_the_embedder_gives_only_zeros(tmp_path: Path) -> None:
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    run(memory.remember("The archive is in Turin."))
    with pytest.raises(EmbedderError, match=r"none of 1 texts has a vector: .*zeros"):
        run(memory.reembed(Broken("blank/1")))
    assert run(memory.pending()) == 1
    assert run(memory.recall("Where is the archive?"))[0].memory.text == "The archive is in Turin."
    run(memory.close())


def test_reembedding_a_memory_without_vectors_reports_truncated_and_refused_texts(tmp_path: Path) -> None:
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path / 'm.db'}"))
    run(memory.remember_many(["a long text", "a bad one", "short", "?!"]))
    done = run(memory.reembed(Detailed()))
    assert (done.embedded, done.truncated, done.without, done.already) == (2, 1, 2, False)
    assert (run(memory.reembed()).without, run(memory.pending())) == (1, 1)
    run(memory.close())


def test_a_zero_vector_for_a_text_with_words_is_never_stored(tmp_path: Path) -> None:
    class Empty(Model):
        async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
            rows = (await super().embed(texts, kind)).copy()
            rows[[place for place, text in enumerate(texts) if "zero" in text or text == "?!"]] = 0
            return rows

    memory = opened(tmp_path, Empty())
    zero, blank, fine = run(memory.remember_many(["a zero", "?!", "words"]))
    assert "zeros" in zero.deferred
    assert blank.deferred is None
    assert fine.deferred is None
    assert run(memory.pending()) == 1
    run(memory.close())


def test_the_embedding_service_reports_the_truncation_of_each_text() -> None:
    made = run(EmbeddingService(open_store("numpy:"), Detailed()).vectors(["short", "a long one"]))
    assert [text.truncated for text in made] == [None, Truncation(3, 9)]


def test_the_embedding_service_reports_vector_truncation_and_refusal_of_each_text() -> None:
    made = run(EmbeddingService(open_store("numpy:"), Detailed()).vectors(["a long one", "a bad one", "short"]))
    assert [text.vector is None for text in made] == [False, True, False]
    assert [text.truncated for text in made] == [Truncation(3, 9), None, None]
    assert [text.refused is not None for text in made] == [False, True, False]


def test_a_text_that_always_fails_does_not_stop_the_backfill_of_the_others(tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.db", embedder=None)
    store = memory.store
    words_only = LongTermMemory(store)
    run(words_only.remember_many([f"note {n}" for n in range(20)] + ["poison"] + [f"more {n}" for n in range(20)]))
    again = LongTermMemory(store, embedder=Model())
    assert run(again.flush()).embedded == 40
    assert run(again.pending()) == 1
    run(again.close())


def test_flush_reports_kept_and_total_tokens_of_each_truncated_text(tmp_path: Path) -> None:
    model = Detailed()
    model.fails = "down"
    memory = opened(tmp_path, model)
    short, long, other = run(memory.remember_many(["a tale", "a long tale", "a longer tale"]))
    assert long.kept is None
    model.fails = None
    done = run(memory.flush())
    assert (done.embedded, done.truncated, done.waiting) == (3, 2, ())
    assert {line.id: (line.kept, line.total) for line in done.lines} == {long.id: (3, 9), other.id: (3, 9)}
    assert str(done.lines[0]) == "stored, truncated (kept 3 of 9 tokens)"
    assert vector_of(memory, short.id) is not None
    assert run(memory.flush()) == BackfillReport()
    run(memory.close())


def test_flush_reports_the_reason_of_each_text_still_pending(tmp_path: Path) -> None:
    model = Detailed()
    model.fails = "down"
    memory = opened(tmp_path, model)
    bad, poison, _, _ = run(memory.remember_many(["a bad one", "poison itself", "one", "?!"]))
    model.fails = None
    done = run(memory.flush())
    assert (done.embedded, done.without, done.truncated) == (1, 1, 0)
    assert {line.id: line.deferred for line in done.waiting} == {
        bad.id: "the embedder refused it: not this one",
        poison.id: "the embedder failed: cannot read poison itself",
    }
    assert run(memory.pending()) == 2
    run(memory.close())


@pytest.mark.parametrize("road", ["the next write", "closing"])
def test_truncations_in_a_backfill_by_a_write_or_by_closing_are_logged(
    tmp_path: Path, road: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = Detailed()
    model.fails = "down"
    memory = opened(tmp_path, model)
    run(memory.remember_many(["a long tale of Turin", "a long tale of Milan"]))
    model.fails = None
    if road == "the next write":
        run(memory.remember("short"))
    run(memory.close(wait=60))
    assert "2 texts that waited were cut: the beginning alone is in the vector" in caplog.text
    assert "Turin" not in caplog.text


def test_flush_gives_up_after_many_texts_have_failed_one_by_one(tmp_path: Path) -> None:
    model = Model()
    model.fails = "down"
    memory = opened(tmp_path, model)
    run(memory.remember_many(["x", *(f"poison {number:03}" for number in range(100))]))
    model.fails = None
    model.asked.clear()
    assert run(memory.flush()).embedded == 1
    alone = {text for text in model.asked if model.asked.count(text) > 2}
    assert len(alone) <= 2 * 16
    assert run(memory.pending()) == 100
    run(memory.close())


def test_flush_stops_after_the_first_batch_when_the_embedder_is_down() -> None:
    model = Model()
    memory = LongTermMemory(open_store("numpy:"), embedder=model)
    model.fails = "gone"
    run(memory.remember_many([f"note {n}" for n in range(600)]))
    model.asked.clear()
    assert run(memory.flush()).embedded == 0
    assert len(model.asked) == 256 + 1
    assert "gone" in memory.embedding.problem
    model.fails = None
    assert run(memory.remember("it is back")).deferred is None  # and a batch of what waits, not all of it
    assert run(memory.pending()) == 600 - 256


def test_errors_and_refusals_of_an_embedder_are_shown_without_api_keys() -> None:
    model = Model()
    model.fails = "401 for Bearer sk-secret-0123456789"
    memory = LongTermMemory(open_store("numpy:"), embedder=model)
    deferred = run(memory.remember("one")).deferred
    assert "401" in deferred
    assert "secret" not in deferred

    class Refusing(Model):
        async def embed_detailed(self, texts: Sequence[str], kind: Any = "document") -> Embeddings:
            return Embeddings(np.zeros((len(texts), 64), np.float32), {}, {0: "400 for Bearer sk-secret-0123456789"})

    refused = run(LongTermMemory(open_store("numpy:"), embedder=Refusing()).remember("one")).deferred
    assert "400" in refused
    assert "secret" not in refused


def test_a_write_searches_nothing(tmp_path: Path) -> None:
    class WithoutSearch(WrapperStore):
        search = search_many = search_text = view = None  # type: ignore[assignment]

    memory = LongTermMemory(WithoutSearch(open_store(f"sqlite:///{tmp_path / 'm.db'}")), embedder=Model())
    assert len(run(memory.remember_many(["one", "two"]))) == 2
    run(memory.close())


# --- patience


def test_a_write_times_out_on_a_late_embedder_and_the_embedder_then_rests() -> None:
    model = Model()
    model.late = True
    now = [0.0]
    settings = EmbeddingSettings(write_patience=DEADLINE, per_text=0, rest=30)
    embedding = EmbeddingService(open_store("numpy:"), model, settings=settings, clock=lambda: now[0])
    assert "no answer within" in run(embedding.vectors(["one"]))[0].deferred
    asked = len(model.asked)
    assert "left alone" in run(embedding.vectors(["two"]))[0].deferred
    assert len(model.asked) == asked
    model.late, now[0] = False, 31.0
    assert run(embedding.vectors(["three"]))[0].deferred is None


def test_a_new_embedder_does_not_rest_for_failures_of_the_previous_embedder(tmp_path: Path) -> None:
    model = Model()
    memory = opened(tmp_path, model, write_patience=5.0)
    run(memory.remember("one"))
    memory.embedding._rests_until = float("inf")
    assert "left alone" in run(memory.remember("two")).deferred
    run(memory.reembed(Model("model/2")))
    assert run(memory.remember("three")).deferred is None
    run(memory.close())


def test_the_patience_of_a_write_includes_the_time_per_text() -> None:
    class Slow(Model):
        async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
            await asyncio.sleep(0.02)
            return await super().embed(texts, kind)

    settings = EmbeddingSettings(write_patience=0, per_text=60)
    assert run(EmbeddingService(open_store("numpy:"), Slow(), settings=settings).vectors(["one"]))[0].deferred is None


@pytest.mark.parametrize(
    ("error", "said"), [(TimeoutError("its own server is slow"), "its own server is slow"), (KeyError(), "KeyError")]
)
def test_an_error_raised_by_an_embedder_defers_the_text_without_a_rest(error: Exception, said: str) -> None:
    class Raising(Model):
        async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
            raise error

    embedding = EmbeddingService(open_store("numpy:"), Raising())
    assert run(embedding.vectors(["one"]))[0].deferred == f"the embedder failed: {said}"
    assert not embedding.resting


def test_recall_searches_by_words_alone_when_the_embedder_fails_on_the_query(tmp_path: Path) -> None:
    memory = opened(tmp_path, Model())
    run(memory.remember("The poison is in the cellar."))
    run(memory.remember("The archive is in Turin."))
    found = run(memory.recall("Where is the poison?"))
    assert found[0].memory.text == "The poison is in the cellar."
    assert any("words alone" in note and "cannot read" in note for note in found.degraded)
    run(memory.close())


def test_recall_before_the_first_vector_searches_by_words_without_calling_the_embedder(tmp_path: Path) -> None:
    model = Model()
    model.fails = "down"
    memory = opened(tmp_path, model)
    run(memory.remember("The archive is in Turin."))
    model.asked.clear()
    found = run(memory.recall("Where is the archive?"))
    assert (found[0].memory.text, model.asked) == ("The archive is in Turin.", [])
    assert "searched by words alone: nothing has a vector yet" in found.notes
    assert found.degraded == ()
    run(memory.close())


def test_recall_searches_by_words_alone_when_the_embedder_refuses_the_query(tmp_path: Path) -> None:
    memory = opened(tmp_path, Detailed())
    run(memory.remember("The archive is in Turin."))
    found = run(memory.recall("Which bad archive?"))
    assert found[0].memory.text == "The archive is in Turin."
    assert any("words alone" in note and "refused: not this one" in note for note in found.degraded)
    run(memory.close())


def test_a_hanging_function_embedder_blocks_neither_a_write_nor_closing(tmp_path: Path) -> None:
    over = threading.Event()
    returned: list[bool] = []

    def hung(texts: list[str]) -> Any:
        returned.append(over.wait(600))
        return [[1.0]] * len(texts)

    memory = opened(tmp_path, FunctionEmbedder(hung, fingerprint="hung/1"), write_patience=0.05, per_text=0.0)
    report = run(memory.remember("The archive is in Turin."))  # the loop that waited for it is closed by now
    assert (report.outcome, returned) == ("stored", [])
    assert "no answer within" in report.deferred
    run(memory.close(wait=0.05))
    assert returned == []
    over.set()


def test_recall_searches_by_words_alone_when_the_embedder_is_late_for_the_query(tmp_path: Path) -> None:
    model = Model()
    memory = opened(tmp_path, model, question_patience=DEADLINE)
    run(memory.remember("The archive is in Turin."))
    model.late = True
    found = run(memory.recall("Where is the archive?"))
    assert found[0].memory.text == "The archive is in Turin."
    assert any("words alone" in note and "no answer within 600 s" in note for note in found.degraded)
    run(memory.close())


def test_flush_waits_for_the_embedder_beyond_the_patience_of_a_write() -> None:
    model = Model()
    memory = LongTermMemory(
        open_store("numpy:"), embedder=model, embedding_settings=EmbeddingSettings(write_patience=0.02, per_text=0)
    )
    model.hangs = True
    run(memory.remember("one"))

    async def later() -> BackfillReport:
        flushing = asyncio.ensure_future(memory.flush())
        await asyncio.sleep(0.1)
        assert not flushing.done()
        model.hangs = False
        return await flushing

    assert run(later()).embedded == 1


@pytest.mark.parametrize("name", ["write_patience", "per_text", "question_patience", "rest"])
@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "1"])
def test_unusable_times_in_embedding_settings_are_argument_errors(name: str, value: Any) -> None:
    with pytest.raises(ArgumentError, match=name):
        EmbeddingSettings(**{name: value})


def test_an_unknown_mismatch_setting_is_an_argument_error() -> None:
    with pytest.raises(ArgumentError, match="mismatch"):
        EmbeddingSettings(mismatch="ignore")  # type: ignore[arg-type]


# --- closing


def test_an_embedding_begun_at_the_moment_of_closing_is_ended_at_once() -> None:
    under_way = WritesInFlight()

    class Meanwhile(threading.Condition):
        """Lets another thread end the waiting just before the embedding is noted as one that waits."""

        def __enter__(self) -> bool:
            if not under_way.closing:
                under_way.closing = True
                under_way.hurry()
            return super().__enter__()

    under_way._changed = Meanwhile()

    async def begun() -> None:
        async with under_way.embedding(DEADLINE):
            await asyncio.sleep(5)

    with pytest.raises(TimeoutError):
        run(begun())


def test_closing_stores_writes_in_flight_without_their_vectors(tmp_path: Path) -> None:
    model = Model()
    memory = opened(tmp_path, model)
    run(memory.remember("first"))
    model.hangs = True

    async def closed() -> Any:
        writing = [asyncio.ensure_future(memory.remember(Memory(f"note {n}", key=str(n)))) for n in range(3)]
        await until(lambda: len(model.asked) == 4)
        await memory.close()
        return await asyncio.gather(*writing)

    reports = run(closed())
    assert all(report.outcome == "stored" and "closed" in report.deferred for report in reports)
    model.hangs = False
    again = opened(tmp_path, model)
    assert run(again.count()) == 4
    assert run(again.flush()).embedded == 3
    run(again.close())
    with pytest.raises(StoreClosed):
        run(again.remember("too late"))


@pytest.mark.parametrize("patient", [False, True])
def test_a_text_to_embed_during_closing_is_deferred_with_the_reason(patient: bool) -> None:
    embedding = EmbeddingService(open_store("numpy:"), Model())
    embedding.in_flight.hurry()
    assert (
        run(embedding.vectors(["one"], patient=patient))[0].deferred
        == "the embedder failed: the memory is being closed"
    )


def test_closing_with_wait_finishes_the_vectors_of_writes_in_flight_and_of_pending_texts(tmp_path: Path) -> None:
    model = Model()
    memory = opened(tmp_path, model)
    run(memory.remember("first"))
    model.fails = "gone"
    run(memory.remember("pending"))
    model.fails = None
    model.hangs = True

    async def closed() -> Any:
        writing = asyncio.ensure_future(memory.remember("under way"))
        await until(lambda: "under way" in model.asked)
        closing = asyncio.ensure_future(memory.close(wait=60))
        await asyncio.sleep(0.05)
        assert not closing.done()
        model.hangs = False
        await closing
        return await writing

    assert run(closed()).deferred is None
    again = opened(tmp_path, model)
    assert run(again.pending()) == 0
    run(again.close())


def test_closing_with_wait_finishes_the_vector_of_a_write_in_flight_without_pending_texts(tmp_path: Path) -> None:
    model = Model()
    memory = opened(tmp_path, model)
    run(memory.remember("first"))
    model.hangs = True

    async def closed() -> Any:
        writing = asyncio.ensure_future(memory.remember("under way"))
        await until(lambda: "under way" in model.asked)
        closing = asyncio.ensure_future(memory.close(wait=60))
        await asyncio.sleep(0.05)
        model.hangs = False
        await closing
        return await writing

    assert run(closed()).deferred is None


def test_closing_waits_for_the_transaction_of_a_write_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model()
    memory = opened(tmp_path, model)
    run(memory.remember("first"))
    begin = memory.store.transaction  # type: ignore[attr-defined]  # a store in a file has one
    model.hangs = True

    def later(**options: Any) -> Any:
        time.sleep(0.2)  # between the embedder, which is not waited for, and the transaction, which keeps the file open
        return begin(**options)

    monkeypatch.setattr(memory.store, "transaction", later)

    async def closed() -> Any:
        writing = asyncio.ensure_future(memory.remember("under way"))
        await until(lambda: "under way" in model.asked)
        await memory.close()
        return await writing

    assert run(closed()).outcome == "stored"
    model.hangs = False
    again = opened(tmp_path, model)
    assert run(again.count()) == 2
    run(again.close())


@pytest.mark.parametrize("wait", [0, DEADLINE])
def test_closing_leaves_the_only_executor_thread_to_a_write_in_flight(tmp_path: Path, wait: float) -> None:
    model = Model()
    memory = opened(tmp_path, model)
    run(memory.remember("first"))
    model.hangs = True

    async def closed() -> Any:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        writing = asyncio.ensure_future(memory.remember("under way"))
        await until(lambda: "under way" in model.asked)
        closing = asyncio.ensure_future(memory.close(wait=wait))
        await asyncio.sleep(0.05)
        model.hangs = False
        async with asyncio.timeout(60):
            await closing
        return await writing

    assert run(closed()).outcome == "stored"


def test_closing_waits_for_a_hanging_embedder_no_longer_than_its_wait(tmp_path: Path) -> None:
    model = Model()
    memory = opened(tmp_path, model)
    run(memory.remember("first"))
    model.fails = "gone"
    run(memory.remember("pending"))
    model.fails, model.hangs = None, True
    run(memory.close(wait=0.05))
    model.hangs = False
    again = opened(tmp_path, model)
    assert run(again.pending()) == 1
    run(again.close())


def test_closing_with_a_failing_embedder_keeps_all_texts_pending_after_bounded_retries(tmp_path: Path) -> None:
    failing = Model()
    failing.fails = "down"
    memory = opened(tmp_path, failing)
    run(memory.remember_many([f"note {number}" for number in range(40)]))
    before = len(failing.asked)
    run(memory.close(wait=60))
    assert len(failing.asked) - before <= 2 * 40
    memory = opened(tmp_path, Model())
    assert run(memory.count()) == run(memory.pending()) == 40
    run(memory.close(wait=60))
    memory = opened(tmp_path, Model())
    assert run(memory.pending()) == 0
    run(memory.close())


def test_pending_texts_are_counted_and_flushed_by_namespace(tmp_path: Path) -> None:
    model = Model()
    model.fails = "down"
    memory = opened(tmp_path, model)
    for namespace, count in (("a", 2), ("b", 3)):
        run(memory.remember_many([f"note {number}" for number in range(count)], namespace=namespace))
    assert [run(memory.pending(namespace=item)) for item in ("a", "b", "c", None)] == [2, 3, 0, 5]
    assert run(memory.flush()).embedded == 0
    assert "down" in (memory.embedding.problem or "")
    model.fails = None
    assert run(memory.flush(namespace="a")).embedded == 2
    assert [run(memory.pending(namespace=item)) for item in ("a", "b", None)] == [0, 3, 3]
    assert memory.embedding.problem is None
    run(memory.close())


def test_an_embedder_that_cancels_itself_fails_no_write_and_no_recall(tmp_path: Path) -> None:
    class Cancelling(Model):
        async def embed(self, texts: Sequence[str], kind: Any = "document") -> np.ndarray:
            if self.hangs:
                raise asyncio.CancelledError
            return await super().embed(texts, kind)

    model = Cancelling()
    memory = opened(tmp_path, model)
    run(memory.remember("the first note"))
    model.hangs = True
    report = run(memory.remember("the second note"))
    assert (report.outcome, report.deferred) == ("stored", "the embedder failed: it cancelled itself")
    found = run(memory.recall("second"))
    assert found[0].memory.text == "the second note"
    assert "it cancelled itself" in " ".join(found.notes)
    run(memory.close())


@pytest.mark.parametrize("wait", [-1, float("nan"), float("inf"), True, "1"])
def test_an_unusable_wait_for_closing_is_an_argument_error(wait: Any) -> None:
    memory = LongTermMemory(open_store("numpy:"))
    with pytest.raises(ArgumentError, match="wait"):
        run(memory.close(wait=wait))


# --- sensitive memories


class Far(Model):
    remote = True


class Near(Model):
    remote = False


def test_a_sensitive_memory_is_never_sent_to_a_remote_embedder(tmp_path: Path) -> None:
    far = Far()
    memory = opened(tmp_path, far)
    open_, secret = run(memory.remember_many(["plain", Memory("the code is 4711", sensitive=True)]))
    assert open_.deferred is None
    assert "sensitive" in secret.deferred
    run(memory.correct(secret.id, "the code is 4712"))
    run(memory.flush())
    other = Far("other/1")
    run(memory.reembed(other))
    assert not any("code" in text for text in far.asked + other.asked)
    assert run(memory.recall("code"))[0].memory.text == "the code is 4712"
    near = Near("near/1")
    assert run(memory.reembed(near)).without == 0
    assert "the code is 4712" in near.asked
    assert vector_of(memory, secret.id) is not None
    away = Far("away/1")
    done = run(memory.reembed(away))  # back again: it has a vector now, and still must not be sent
    assert (done.embedded, done.without) == (1, 2)
    assert away.asked == ["plain"]
    assert vector_of(memory, secret.id) is None
    run(memory.close())


def test_reembed_gives_a_new_embedder_the_texts_that_another_embedder_refused(tmp_path: Path) -> None:
    memory = opened(tmp_path, Model())
    bad = run(memory.remember("a bad one"))
    assert run(memory.reembed(Detailed("picky/1"))).without == 1
    assert run(memory.pending()) == 0
    assert run(memory.reembed(Model("mild/1"))).without == 0
    assert vector_of(memory, bad.id) is not None
    run(memory.close())


def test_is_remote_sees_through_a_cached_embedder(tmp_path: Path) -> None:
    cache = DatabaseEmbeddingCache.at(tmp_path / "c.db")
    near, far = OllamaEmbedder("m"), OllamaEmbedder("m", base_url="https://box.example")
    assert [is_remote(item) for item in (None, HASHING, near, far, Model())] == [False, False, False, True, True]
    assert [is_remote(CachedEmbedder(item, cache)) for item in (near, far)] == [False, True]
    assert is_remote(FunctionEmbedder(len, fingerprint="f"))
    assert not is_remote(FunctionEmbedder(len, fingerprint="f", remote=False))
    cache.close()


def test_write_reports_give_kept_and_total_tokens_of_truncated_texts() -> None:
    memory = LongTermMemory(open_store("numpy:"), embedder=Detailed())
    single = run(memory.remember("a long story"))
    short, long = run(memory.remember_many(["a tale", "a long tale"]))
    stated, answered = run(memory.remember_turn("s", [Message.user("a long question"), Message.assistant("an answer")]))
    corrected = run(memory.correct(short.id, "a long correction"))
    assert [(item.kept, item.total) for item in (single, long, stated, corrected)] == [(3, 9)] * 4
    assert [(item.kept, item.total) for item in (short, answered)] == [(None, None)] * 2


def test_writes_ingest_and_reembed_report_the_truncations_of_a_function_embedder(tmp_path: Path) -> None:
    class Words:
        name, exact = "words", True

        def count(self, text: str) -> int:
            return len(text.split())

    async def hashed(texts: list[str]) -> np.ndarray:
        return await HASHING.embed(texts)

    embedder = FunctionEmbedder(hashed, fingerprint="short/1", max_tokens=5, counter=Words())
    memory = opened(tmp_path, embedder)
    long = "one two three four five six seven"
    single = run(memory.remember(long))
    stated, answered = run(memory.remember_turn("s", [Message.user(f"{long} eight"), Message.assistant("yes")]))
    both = run(memory.remember_many([f"{long} eight nine", "short"]))
    corrected = run(memory.correct(single.id, f"{long} eight nine ten"))
    items = [(item.kept, item.total) for item in (single, stated, answered, *both, corrected)]
    assert items == [(5, 7), (5, 8), (None, None), (5, 9), (None, None), (5, 10)]
    assert str(single) == "stored, truncated (kept 5 of 7 tokens)"
    (tmp_path / "notes.md").write_text("# Notes\n\n" + "word " * 40)
    (line,) = run(KnowledgeBase(memory).ingest(tmp_path / "notes.md")).lines
    assert "1 chunk is longer than the embedder reads: the beginning alone is in the vector" in line.notes
    assert run(memory.reembed(again=True)).truncated == 5
    run(memory.close())
