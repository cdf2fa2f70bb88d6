"""A memory file of an earlier version opens, verifies, lists, exports and recalls as when it was written.

Everything but recall must hold for every later version. Answers of recall are recorded apart, and recorded anew
after a deliberate change of ranking: see ``tests/fixtures/stored_memory.py``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tellback.agent.assistant.cli import main
from tellback.memory import LongTermMemory, Memory, open_memory, run_sync
from tellback.memory.internals import local_available
from tests.fixtures import stored_memory as stored

RECORD = json.loads(stored.RECORD.read_text("utf-8"))
ANSWERS = json.loads(stored.RECALL_RECORD.read_text("utf-8"))
PARTS = sorted(RECORD["namespaces"][""])
RUNNING_OUT = "The surprise party for Teresa is on 3 May."


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return stored.copied(tmp_path)


@pytest.fixture
def memory(path: Path) -> Iterator[LongTermMemory]:
    memory = stored.opened(path)
    yield memory
    run_sync(memory.close())


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the contents of a copy of the file that need no question."""
    folder = tmp_path_factory.mktemp("stored")
    memory = stored.opened(stored.copied(folder))
    try:
        return stored.as_json(stored.recorded(memory, folder))
    finally:
        run_sync(memory.close())


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    memory = stored.opened(stored.copied(tmp_path_factory.mktemp("stored")))
    try:
        return stored.as_json(stored.answers(memory))
    finally:
        run_sync(memory.close())


def operation_of(kind: str, of: str) -> str:
    """Return the id of the newest operation of that kind on the memory *of*."""
    operations = RECORD["namespaces"][""]["operations"]
    return next(
        operation["id"] for operation in operations if operation["kind"] == kind and operation["changes"][0][0] == of
    )


def text_of(memory: LongTermMemory, id: str) -> str | None:
    (kept,) = run_sync(memory.get([id]))
    return None if kept is None else kept.text


def test_the_stored_file_and_its_records_contain_no_path_of_a_machine() -> None:
    assert stored.marks_in([stored.FILE, stored.RECORD, stored.RECALL_RECORD]) == []


def test_the_stored_file_verifies_with_its_recorded_space_and_pending_count(found: dict[str, Any]) -> None:
    assert found["findings"] == []
    assert (found["space"], found["pending"]) == (RECORD["space"], RECORD["pending"])


@pytest.mark.parametrize("namespace", stored.NAMESPACES)
@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_stored_file_equals_its_record(found: dict[str, Any], namespace: str, part: str) -> None:
    assert found["namespaces"][namespace][part] == RECORD["namespaces"][namespace][part]


@pytest.mark.parametrize("question", sorted(ANSWERS["recall"]))
def test_recall_answers_as_recorded(answers: dict[str, Any], question: str) -> None:
    assert_alike(answers["recall"][question], ANSWERS["recall"][question])


@pytest.mark.parametrize("part", sorted(set(ANSWERS) - {"recall"}))
def test_retrieval_and_explanations_on_the_stored_file_are_as_recorded(answers: dict[str, Any], part: str) -> None:
    assert_alike(answers[part], ANSWERS[part])


def test_the_record_covers_every_query_and_namespace_of_the_stored_file(
    answers: dict[str, Any], found: dict[str, Any]
) -> None:
    assert answers["recall"].keys() == ANSWERS["recall"].keys()
    assert found["namespaces"].keys() == RECORD["namespaces"].keys()


@pytest.mark.slow
def test_reopening_the_stored_file_and_recalling_again_change_nothing(path: Path, tmp_path: Path) -> None:
    for _ in range(2):
        memory = stored.opened(path)
        assert_alike(stored.as_json(stored.answers(memory)), ANSWERS)
        run_sync(memory.close())
    memory = stored.opened(path)
    assert stored.as_json(stored.recorded(memory, tmp_path)) == RECORD
    run_sync(memory.close())


def test_an_export_of_the_stored_file_imports_into_another_memory(memory: LongTermMemory, tmp_path: Path) -> None:
    run_sync(memory.export(tmp_path / "all.jsonl"))
    other = stored.opened(tmp_path / "other.db")
    try:
        run_sync(other.import_(tmp_path / "all.jsonl", trust="user"))
        imported = {kept.id: kept.text for kept in run_sync(other.list(limit=1000))}
        assert imported == {kept["id"]: kept["text"] for kept in RECORD["namespaces"][""]["memories"]}
        assert other.store.verify() == []
    finally:
        run_sync(other.close())


def test_a_correction_in_the_stored_file_can_be_undone(memory: LongTermMemory) -> None:
    id = "m032"
    run_sync(memory.undo(operation_of("correct", id)))
    assert text_of(memory, id) == "The car's inspection is due in October 2026."


def test_an_idempotency_key_in_the_stored_file_still_finds_its_duplicate(memory: LongTermMemory) -> None:
    tram = Memory("The tram 28 passes our house.", key="tram")
    assert run_sync(memory.remember(tram, namespace="ana")).outcome == "duplicate"
    assert run_sync(memory.remember(tram)).outcome == "stored"


def test_a_soft_delete_in_the_stored_file_can_be_restored(memory: LongTermMemory) -> None:
    forgetting = [item for item in RECORD["namespaces"][""]["operations"] if item["kind"] == "forget"]
    run_sync(memory.restore_forgotten(forgetting[1]["id"]))
    assert RUNNING_OUT in [kept.text for kept in run_sync(memory.list(limit=1000))]


def test_a_soft_delete_in_the_stored_file_is_erased_when_its_grace_is_over(path: Path) -> None:
    assert RUNNING_OUT.encode() in path.read_bytes()
    memory = stored.opened(path, stored.NOW + stored.GRACE)
    run_sync(memory.close())
    assert RUNNING_OUT.encode() not in path.read_bytes()


def test_forgotten_text_is_not_in_the_bytes_of_the_stored_file() -> None:
    data = stored.FILE.read_bytes()
    for words in (b"90210", b"green tea", b"favourite colour", b"painted green", b"service is due in October"):
        assert words not in data


def test_the_stored_file_opens_without_its_embedder_and_recalls_by_words(path: Path) -> None:
    memory = open_memory(path, choose_local=False, clock=lambda: stored.NOW)
    try:
        answer = run_sync(memory.recall("What is the frame number of my bicycle?"))
        assert answer.notes
        assert "m008" in [hit.memory.id for hit in answer]
    finally:
        run_sync(memory.close())


def test_the_command_line_reads_the_stored_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answered(*arguments: str, code: int = 0) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["command", "--memory", str(path), "--offline", *arguments, "--json"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == code or (ended.value.code is None and not code)
        answer: dict[str, Any] = json.loads(capsys.readouterr().out)
        return answer

    # No command makes vectors of the toy embedder: with the local one installed, doctor reports that.
    checks = answered("doctor", code=2 * local_available())["checks"]
    assert {check["name"] for check in checks if not check["fine"]} <= {"embedder in use"}
    seen = {check["name"]: check["seen"] for check in checks}
    assert seen["content"] == "every row is as it was written"
    assert seen["memories"] == f"{len(RECORD['namespaces']['']['memories'])} in this namespace"
    sessions = [session["session"] for session in answered("sessions")["sessions"]]
    assert sessions == [session["session"] for session in RECORD["namespaces"][""]["sessions"]]
    documents = {document["source"] for document in answered("documents")["documents"]}
    assert documents == {document[0] for document in RECORD["namespaces"][""]["documents"]}


def test_the_stored_file_accepts_another_turn(memory: LongTermMemory) -> None:
    user = stored.Message.user("I sold the bicycle.", at=stored.NOW + timedelta(days=1))
    (report,) = run_sync(memory.remember_turn("tuesday", [user]))
    messages = run_sync(memory.conversations.load("tuesday"))
    assert (report.outcome, messages[-1].message.text, messages[-1].sequence) == ("stored", "I sold the bicycle.", 6)


def assert_alike(found: Any, recorded: Any, place: str = "answer") -> None:
    """Assert that two JSON values are equal, fractions to the sixth digit (another machine adds in another order)."""
    if isinstance(recorded, dict):
        assert list(found) == list(recorded), place
        for name in recorded:
            assert_alike(found[name], recorded[name], f"{place}.{name}")
    elif isinstance(recorded, list):
        assert len(found) == len(recorded), place
        for position, (left, right) in enumerate(zip(found, recorded, strict=True)):
            assert_alike(left, right, f"{place}[{position}]")
    elif isinstance(recorded, float):
        assert found == pytest.approx(recorded, abs=1e-6), place
    else:
        assert found == recorded, place
