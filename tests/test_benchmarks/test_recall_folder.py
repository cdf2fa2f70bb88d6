"""A user's data folder as a task: the contents of its two files, and the errors for invalid ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks.recall.folder_tasks import FolderError, folder_task, read_folder

MEMORIES = [
    {"id": "a", "text": "I moved to Lisbon.", "speaker": "Ana", "session": "s1", "sequence": 0},
    {"id": "b", "text": "The cat is grey.", "occurred_at": "2026-03-01T10:00:00Z"},
    {"id": "a", "text": "Another memory.", "corpus": "second"},
]
QUESTIONS = [
    {"question": "Where does Ana live?", "evidence": ["a"]},
    {
        "question": "Which colour has the cat?",
        "evidence": {"b": 3},
        "group": "colours",
        "id": "q",
        "context": ["A cat?"],
    },
    {"question": "What of the dog?", "evidence": [], "group": "absent", "corpus": "second"},
]


def written(folder: Path, memories: object = MEMORIES, questions: object = QUESTIONS) -> Path:
    for name, rows in (("memories.jsonl", memories), ("questions.jsonl", questions)):
        lines = rows if isinstance(rows, str) else "".join(json.dumps(row) + "\n" for row in rows)  # type: ignore[attr-defined]
        (folder / name).write_text(lines, "utf-8")
    return folder


def test_each_corpus_is_a_memory_of_its_own_with_its_questions(tmp_path: Path) -> None:
    first, second = read_folder(written(tmp_path))
    assert [item.id for item in first.items] == ["a", "b"]
    assert first.items[1].occurred_at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert [(asked.id, dict(asked.evidence)) for asked in first.questions] == [("/q0", {"a": 1}), ("q", {"b": 3})]
    assert first.questions[1].context == ("A cat?",)
    assert (second.name, second.questions[0].needs) == ("second", {"refuses"})


def test_a_folder_task_is_marked_as_the_data_of_the_user_and_has_a_session_variant(tmp_path: Path) -> None:
    task = folder_task(written(tmp_path))
    assert (task.status, task.headline) == ("yours", ("all", "colours"))
    assert task.sessions == f"{tmp_path.name}, sessions"
    assert len(task.data) == 12


@pytest.mark.parametrize(
    ("memories", "questions", "complaint"),
    [
        ("", QUESTIONS, r"memories\.jsonl: no line in it"),
        ('{"id": "a", "text": "x"}\nnot json\n', QUESTIONS, r"memories\.jsonl, line 2: not JSON"),
        ("[1]\n", QUESTIONS, r"memories\.jsonl, line 1: an object is needed, not \[1\]"),
        ([{"id": "a"}], QUESTIONS, r"memories\.jsonl, line 1: text: Field required"),
        ([{"id": "a", "text": "x", "spaeker": "y"}], QUESTIONS, r"line 1: spaeker: Extra inputs"),
        ([{"id": "a", "text": "x", "sequence": 1}], QUESTIONS, r"line 1: .*needs the session"),
        ([{"id": "a", "text": "x", "occurred_at": "soon"}], QUESTIONS, r"line 1: occurred_at"),
        ([*MEMORIES, MEMORIES[0]], QUESTIONS, r"memories\.jsonl, line 4: the id 'a' stands there twice"),
        (MEMORIES, [{"question": "x", "evidence": ["z"]}], r"questions\.jsonl, line 1: evidence 'z' is the id of no"),
        (MEMORIES, [{"question": "x", "evidence": {"a": 0}}], r"questions\.jsonl, line 1: evidence"),
        (MEMORIES, [{"question": "x", "evidence": ["b"], "corpus": "second"}], r"line 1: evidence 'b'"),
        (MEMORIES, [{"question": "x", "evidence": [], "corpus": "third"}], r"line 1: there is no memory of the corpus"),
        (MEMORIES, [QUESTIONS[1], QUESTIONS[1]], r"questions\.jsonl, line 2: the id 'q' stands there twice"),
    ],
)
def test_an_error_in_a_data_folder_is_reported_with_file_and_line(
    tmp_path: Path, memories: object, questions: object, complaint: str
) -> None:
    with pytest.raises(FolderError, match=complaint):
        read_folder(written(tmp_path, memories, questions))


def test_a_missing_file_of_a_data_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match=r"memories\.jsonl: there is no such file"):
        read_folder(tmp_path)
