"""Real conversations, remembered turn by turn into a file; a later start of the program finds what was said."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.datasets import Conversation, locomo
from tellback.memory import Memory, open_memory, run_sync

TURNS = 100

ASK = """
import json, sys
from tellback.memory import open_memory, run_sync
memory = open_memory(sys.argv[1])
found = run_sync(memory.recall(sys.argv[2]))
print(json.dumps([hit.memory.key for hit in found]))
run_sync(memory.close())
"""


@pytest.fixture(scope="module")
def conversation(data_dir: Path) -> Conversation:
    return locomo(data_dir)[0]


@pytest.fixture(scope="module")
def file(conversation: Conversation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("locomo") / "memory.db"
    memory = open_memory(path)
    reports = run_sync(memory.remember_many(conversation.turns[:TURNS]))
    assert len(reports) == TURNS
    run_sync(memory.close())
    return path


def test_recall_in_a_new_process_finds_a_stored_turn(conversation: Conversation, file: Path) -> None:
    question = "When did Caroline go to the LGBTQ support group?"
    answer = subprocess.run(
        [sys.executable, "-c", ASK, str(file), question], capture_output=True, text=True, check=True, timeout=300
    )
    assert '"conv-26/D1:3"' in answer.stdout


def test_recalled_turns_have_the_text_and_fields_of_the_stored_turns(conversation: Conversation, file: Path) -> None:
    memory = open_memory(file)
    found = run_sync(memory.recall("When did Melanie paint a sunrise?", k=10))
    by_key = {turn.key: turn for turn in conversation.turns}
    for hit in found:
        stated, kept = by_key[hit.memory.key], hit.memory
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
