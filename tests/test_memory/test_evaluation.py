"""Evaluating somebody's own memory: questions by rule, ways to search on copies, intervals, and nothing changed.

Inner parts, on no face: ``tellback.memory.evaluation.questions``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tellback.memory import (
    ArgumentError,
    EmbedderError,
    HashingEmbedder,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    RecallSettings,
    evaluate,
    open_memory,
    run_sync,
)
from tellback.memory.evaluation.questions import make_questions
from tellback.vectorstore import Analyzer, open_store

SAID = datetime(2026, 2, 1, 9, tzinfo=UTC)
THINGS = ("cello", "harbour", "walnut", "tractor", "umbrella", "lighthouse", "plumber", "violet", "marble", "kettle")
COLOURS = ("blue", "grey", "yellow", "purple", "orange", "black", "white", "pink", "brown", "green")
PLACES = ("Lisbon", "Oslo", "Graz", "Ghent", "Leeds", "Turin", "Porto", "Lyon", "Vienna", "Bergen")


def talk() -> list[Memory]:
    """Ten exchanges: Ben asks, Ana answers; and ten notes of two sentences."""
    turns = []
    for position, (thing, place, colour) in enumerate(zip(THINGS, PLACES, COLOURS, strict=True)):
        texts = (("Ben", f"Where did you see that {thing} again?"), ("Ana", f"A {thing} merchant in {place} sold it."))
        for step, (who, text) in enumerate(texts):
            turns.append(
                Memory(
                    text,
                    kind="turn",
                    speaker=who,
                    session="s",
                    sequence=2 * position + step,
                    occurred_at=SAID + timedelta(days=position),
                )
            )
        turns.append(Memory(f"The {place} station closed early on Friday. Nobody told us about the {colour} {thing}."))
    return turns


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    path = tmp_path_factory.mktemp("talk") / "m.db"
    opened = LongTermMemory(open_store(f"sqlite:///{path}"), clock=lambda: SAID + timedelta(days=40))
    run_sync(opened.remember_many(talk()))
    yield opened
    run_sync(opened.close())


@pytest.fixture(scope="module", autouse=True)
def entries(memory):
    """The entries of the memory before the first evaluation."""
    return list(memory.store.scan(namespace="/conversation"))


@pytest.fixture(scope="module")
def evaluation(memory, entries):
    return run_sync(evaluate(memory, embedder=HashingEmbedder(), settings=RecallSettings(candidates=1)))


def probes(memories: list[Memory], **options: int):
    named = [Memory(**{**as_fields(item), "id": f"m{position:02}"}) for position, item in enumerate(memories)]
    return named, make_questions(named, Analyzer().terms, count=options.get("count", 60), seed=options.get("seed", 0))


def as_fields(memory: Memory) -> dict:
    return {name: getattr(memory, name) for name in Memory.__dataclass_fields__}


def test_evaluation_questions_are_of_every_kind_and_equal_for_equal_seeds():
    _, first = probes(talk())
    _, again = probes(talk())
    _, other = probes(talk(), seed=1)
    assert first == again != other
    assert {probe.kind for probe in first} == {"words", "speaker", "date", "sentence", "answer"}


def test_no_memory_is_wanted_or_set_aside_by_two_evaluation_questions():
    _, found = probes(talk())
    wanted = [probe.wanted for probe in found]
    aside = [probe.aside for probe in found if probe.aside is not None]
    assert len(set(wanted) | set(aside)) == len(wanted) + len(aside)


def test_a_sentence_used_as_a_question_is_taken_out_of_its_memory():
    memories, found = probes(talk())
    texts = {memory.id: memory.text for memory in memories}
    taken = [probe for probe in found if probe.kind == "sentence"]
    assert taken
    for probe in taken:
        assert probe.left
        assert probe.question not in probe.left
        assert set(f"{probe.question} {probe.left}".split()) == set(texts[probe.wanted].split())


def test_a_question_of_kind_answer_is_the_preceding_question_of_another_speaker():
    memories, found = probes(talk())
    by_id = {memory.id: memory for memory in memories}
    for probe in (probe for probe in found if probe.kind == "answer"):
        assert probe.question == by_id[probe.aside].text
        assert (by_id[probe.aside].speaker, by_id[probe.wanted].speaker) == ("Ben", "Ana")
        assert by_id[probe.aside].sequence + 1 == by_id[probe.wanted].sequence


def test_a_text_of_several_memories_is_not_wanted_by_an_evaluation_question():
    _, found = probes(
        [*talk(), Memory("My kettle whistles in the kitchen."), Memory("My kettle whistles in the kitchen.")]
    )
    assert {"m30", "m31"}.isdisjoint(probe.wanted for probe in found)


def test_every_way_of_an_evaluation_has_the_same_questions_and_the_baseline_has_no_gain(evaluation):
    lines = {line.way: line for line in evaluation.lines if line.kind == "all"}
    assert set(lines) == {"text alone", "as it is", "other embedder", "other settings"}
    assert len({line.questions for line in lines.values()}) == 1
    assert lines["as it is"].gain is None
    assert lines["text alone"].gain == (0.0, 0.0, 0.0)  # this memory has no embedder
    assert evaluation.embedders["other embedder"].startswith("hashing")
    assert all(line.first <= line.mrr <= line.among for line in evaluation.lines)


def test_evaluation_lines_by_kind_add_up_to_the_line_of_all_questions(evaluation):
    for way in ("text alone", "as it is", "other embedder"):
        whole, *kinds = [line for line in evaluation.lines if line.way == way]
        assert whole.kind == "all"
        assert sum(line.questions for line in kinds) == whole.questions
        assert sum(line.among * line.questions for line in kinds) == pytest.approx(whole.among * whole.questions)


class Useless:
    """Every text has the same vector."""

    fingerprint, dimension = "useless/1", 4

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.questions: list[str] = []

    async def embed(self, texts, kind="document"):
        (self.texts if kind == "document" else self.questions).extend(texts)
        return np.tile(np.float32([1, 0, 0, 0]), (len(texts), 1))


def test_evaluate_reuses_stored_vectors(tmp_path):
    embedder = Useless()
    kept = LongTermMemory(open_store(f"sqlite:///{tmp_path}/m.db"), embedder=embedder)
    run_sync(kept.remember_many(talk()))
    before = len(embedder.texts)
    evaluation = run_sync(evaluate(kept))
    run_sync(kept.close())
    made = embedder.texts[before:]
    assert {memory.text for memory in talk()}.isdisjoint(made)
    cut = sum(line.questions for line in evaluation.lines if (line.way, line.kind) == ("as it is", "sentence"))
    assert sum("station" in text or "Nobody" in text for text in made) == cut > 0
    assert evaluation.embedders == {"text alone": "", "as it is": "useless/1"}


class Remote(Useless):
    """Embedder with ``is_remote`` true."""

    remote = True


def test_evaluate_gives_a_remote_embedder_no_sensitive_memory(tmp_path):
    embedder = Remote()
    kept = LongTermMemory(open_store(f"sqlite:///{tmp_path}/m.db"))
    secret = [
        Memory(f"The {colour} safe opens with a {thing} key.", sensitive=True)
        for colour, thing in zip(COLOURS, THINGS, strict=True)
    ]
    run_sync(kept.remember_many([*talk(), *secret]))
    evaluation = run_sync(evaluate(kept, questions=20, embedder=embedder))
    run_sync(kept.close())
    assert evaluation.memories == 40
    assert embedder.texts
    assert not any("safe" in text for text in (*embedder.texts, *embedder.questions))


def test_evaluate_changes_nothing_in_the_memory(memory, entries, evaluation):
    assert list(memory.store.scan(namespace="/conversation")) == entries
    assert memory.store.space is None


def test_evaluate_uses_memories_of_its_namespace_alone(memory):
    with pytest.raises(ArgumentError, match=r"too few to ask about.* and 0 do; remember or ingest more, got 0"):
        run_sync(evaluate(memory, namespace="ana"))


def test_evaluate_reports_the_progress_of_a_way(memory):
    seen: list[tuple[str, int, int]] = []
    run_sync(evaluate(memory, questions=9, on_progress=lambda *step: seen.append(step)))
    assert [step for step in seen if step[0] == "asking, as it is"][-1] == ("asking, as it is", 9, 9)


@pytest.mark.parametrize("options", [{"questions": 0}, {"k": 0}, {"k": True}, {"questions": 2.5}])
def test_evaluate_refuses_unusable_numbers(memory, options):
    with pytest.raises(ArgumentError, match="whole number of at least 1"):
        run_sync(evaluate(memory, **options))


@pytest.fixture
def library(tmp_path):
    """A memory without an embedder that holds ten documents of one passage each."""
    for thing, place, colour in zip(THINGS, PLACES, COLOURS, strict=True):
        given = f"The {colour} {thing} came from {place}. Its {colour} lid shows the old canal of {place}."
        (tmp_path / f"{thing}.txt").write_text(given)
    opened = open_memory(tmp_path / "m.db", choose_local=False)
    run_sync(KnowledgeBase(opened).ingest([tmp_path / f"{thing}.txt" for thing in THINGS]))
    yield opened
    run_sync(opened.close())


def test_evaluate_includes_passages_of_documents(library):
    assert run_sync(evaluate(library, questions=3)).memories == 10


def test_evaluate_gives_passages_of_documents_to_the_embedder_of_passages(library):
    embedder = Useless()
    embedder.passages = Useless()
    run_sync(evaluate(library, embedder=embedder))
    parts = ("came from", "old canal")  # of each passage, one or both: the other is the question
    assert sum(any(part in text for part in parts) for text in embedder.passages.texts) == 10
    assert not any(part in text for part in parts for text in embedder.texts)


def test_evaluate_raises_where_the_other_embedder_fails(memory):
    class Failing(Useless):
        async def embed(self, texts, kind="document"):
            raise RuntimeError("no such model")

    with pytest.raises((RuntimeError, EmbedderError), match="no such model"):
        run_sync(evaluate(memory, questions=3, embedder=Failing()))
