"""Real conversations, remembered turn by turn into a file; who opens it later finds what was said."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.memory.data.conversations import locomo
from benchmarks.memory.systems.tellback_memory import memory_of
from tellback.memory import Memory, open_memory, run_sync

TURNS = 100
ASK = """
import sys
from tellback.memory import open_memory, run_sync
memory = open_memory(sys.argv[1])
print(*(hit.memory.id for hit in run_sync(memory.recall(sys.argv[2]))))
run_sync(memory.close())
"""


@pytest.fixture(scope="module")
def turns(data_dir: Path) -> list[Memory]:
    conversation = locomo(data_dir / "locomo").corpora[0]
    return [memory_of(item, place) for place, item in enumerate(conversation.items)]


@pytest.fixture(scope="module")
def file(turns: list[Memory], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("locomo") / "memory.db"
    memory = open_memory(path)
    reports = run_sync(memory.remember_many(turns[:TURNS]))
    assert len(reports) == TURNS
    run_sync(memory.close())
    return path


def test_recall_after_opening_the_file_again_finds_a_stored_turn(file: Path) -> None:
    memory = open_memory(file)
    found = run_sync(memory.recall("When did Caroline go to the LGBTQ support group?"))
    assert "conv-26/D1:3" in [hit.memory.id for hit in found]
    run_sync(memory.close())


@pytest.mark.slow
def test_recall_in_a_new_process_finds_a_stored_turn(file: Path) -> None:
    question = "When did Caroline go to the LGBTQ support group?"
    answer = subprocess.run(
        [sys.executable, "-c", ASK, str(file), question], capture_output=True, text=True, check=True, timeout=300
    )
    assert "conv-26/D1:3" in answer.stdout.split()


def test_recalled_turns_have_the_text_and_fields_of_the_stored_turns(turns: list[Memory], file: Path) -> None:
    memory = open_memory(file)
    found = run_sync(memory.recall("When did Melanie paint a sunrise?", k=10))
    by_id = {turn.id: turn for turn in turns}
    for hit in found:
        stated, kept = by_id[hit.memory.id], hit.memory
        assert isinstance(kept, Memory)
        assert (kept.text, kept.speaker, kept.session, kept.sequence, kept.occurred_at, kept.caption) == (
            stated.text,
            stated.speaker,
            stated.session,
            stated.sequence,
            stated.occurred_at,
            stated.caption,
        )
    run_sync(memory.close())
