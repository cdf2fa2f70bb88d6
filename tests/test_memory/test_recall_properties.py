"""Properties of recall: the same answers after any order of writes, with other ids, and after a restart; seeded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from tellback.memory import HashingEmbedder, LongTermMemory, Memory, RecallResult
from tellback.memory import run_sync as run
from tellback.memory.internals import to_entry
from tellback.vectorstore import open_store
from tests.support.slow import first_fast

START = datetime(2026, 1, 5, 9, tzinfo=UTC)


NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


_COMMON = "lake cello puppy sofa market walnut candle bridge winter letter engine forest apple river stone cloud music"


WORDS = _COMMON.split()


QUESTIONS = (
    "Who saw the cello by the lake?",
    "What did Anna say of the puppy last week?",
    "Which things does Bela like?",
    "Where is my garden?",
    "And when was that?",
    "Which tax form covers depreciation?",
)


COLD = """
import json, sys

from tellback.memory import run_sync

sys.path.insert(0, sys.argv[2])
from test_recall_properties import QUESTIONS, answers, opened

memory = opened("sqlite:///" + sys.argv[1])
print(json.dumps(answers(memory)))
run_sync(memory.close())
"""


def opened(url: str) -> LongTermMemory:
    return LongTermMemory(open_store(url), embedder=HashingEmbedder(dimension=64), clock=lambda: NOW)


def drawn(rng: np.random.Generator, count: int) -> list[Memory]:
    """Turns and notes with stable keys and ids in their words, so that ties are broken alike in every order."""
    memories = []
    for position in range(count):
        text = " ".join(rng.choice(WORDS, rng.integers(2, 8))) + str(rng.choice([".", "?", "!"]))
        who = str(rng.choice(["Anna", "Bela", ""])) or None
        talk = bool(rng.integers(3))
        memories.append(
            Memory(
                f"{'I saw the ' if rng.integers(2) else 'The '}{text}",
                id=f"m{position:03}",
                speaker=who,
                session=f"s{rng.integers(4)}" if talk else None,
                sequence=position if talk else None,
                occurred_at=START + timedelta(days=int(rng.integers(60))),
            )
        )
    return memories


def answers(memory: LongTermMemory, namespace: str = "") -> list[object]:
    found: list[RecallResult] = [run(memory.recall(text, 8, namespace=namespace, explain=True)) for text in QUESTIONS]
    return [
        [
            item.confidence,
            item.abstain,
            [[hit.memory.id, hit.score, sorted(hit.parts.items()), [m.by for m in hit.matched]] for hit in item],
            [[left.id, left.into] for left in item.left_out],
        ]
        for item in found
    ]  # fmt: skip


def shuffled(memories: list[Memory], rng: np.random.Generator) -> list[Memory]:
    return [memories[position] for position in rng.permutation(len(memories))]


def put(memory: LongTermMemory, memories: list[Memory], namespace: str = "") -> None:
    """Write memories with the ids they have, as an import would."""
    embedded = run(memory.embedding.vectors([item.text for item in memories]))
    entries = [to_entry(item, vector=text.vector) for item, text in zip(memories, embedded, strict=True)]
    memory.store.upsert(entries, namespace=f"{namespace}/conversation")


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(range(4)))
def test_equal_memories_give_equal_answers_in_any_order_of_writes(tmp_path: Path, seed: int):
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    memories = drawn(rng, 70)
    others = [Memory(item.text + " Later.", id=item.id, speaker="Zoe") for item in memories[:20]]
    items = []
    for number, url in enumerate(("numpy:", f"sqlite:///{tmp_path}/a.db", "numpy:", f"sqlite:///{tmp_path}/b.db")):
        memory = opened(url)
        if number % 2:  # through states that are gone at the end
            put(memory, shuffled(others, rng))
            answers(memory)
            memory.store.delete([item.id for item in others[:10]], namespace="/conversation")
        order = shuffled(memories, rng)
        for start in range(0, len(order), 13):
            put(memory, order[start : start + 13])
            if rng.integers(2):
                answers(memory)
        items.append(answers(memory))
        run(memory.close())
    assert items[0] == items[1] == items[2] == items[3]


@pytest.mark.slow
@pytest.mark.parametrize("seed", first_fast(range(2)))
def test_a_cold_process_answers_like_a_warm_one(tmp_path: Path, seed: int):
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    path = tmp_path / "m.db"
    memory = opened(f"sqlite:///{path}")
    run(memory.remember("The lake froze."))  # sets the space
    for _ in range(4):
        put(memory, drawn(rng, 40))
        answers(memory)
    memory.store.delete(["m003", "m011", "m030"], namespace="/conversation")
    warm = answers(memory)
    done = subprocess.run(
        [sys.executable, "-c", COLD, str(path), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(json.dumps(warm))
    run(memory.close())


@pytest.mark.parametrize("seed", first_fast(range(3)))
def test_operations_in_one_namespace_change_no_recall_answer_in_another(tmp_path: Path, seed: int):
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    memory = opened(f"sqlite:///{tmp_path}/m.db")
    run(memory.remember_many(["The lake froze."], namespace="ana"))
    put(memory, drawn(rng, 50), "ana")
    before = answers(memory, "ana")
    doings: list[Callable[[], object]] = [
        lambda: put(memory, drawn(rng, 60), "bob"),
        lambda: put(memory, [Memory("cello " * 40, id=f"c{position}") for position in range(50)], ""),
        lambda: memory.store.delete([f"m{position:03}" for position in range(30)], namespace="bob/conversation"),
        lambda: memory.store.upsert([], namespace="ana/documents/shelf"),
        lambda: answers(memory, "bob"),
        lambda: run(memory.remember_many([f"Anna of ana {position}" for position in range(30)], namespace="ana/x")),
    ]
    for position in rng.permutation(len(doings)).tolist():
        doings[position]()
        assert answers(memory, "ana") == before, position
    run(memory.close())


SAID = datetime(2026, 2, 1, 9, tzinfo=UTC)
