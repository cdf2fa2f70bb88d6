"""``tellback forget``: selection, receipts, soft delete with its grace, and verification."""

from __future__ import annotations

import json
import stat
from datetime import datetime
from pathlib import Path

import pytest

from tellback.agent.assistant.cli.app import run_command_line

SECRET = "The locker code is 44173921-zebra."


class Tellback:
    """The command line on one memory file."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.file, self._capsys = folder / "m.db", capsys

    def __call__(self, *arguments: object) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = run_command_line(["--memory", str(self.file), "--offline", *map(str, arguments)])
        output = self._capsys.readouterr()
        return code, output.out, output.err

    def json(self, *arguments: object) -> dict[str, object]:
        code, out, err = self(*arguments, "--json")
        assert code == 0, err
        answer: dict[str, object] = json.loads(out)
        return answer

    def texts(self) -> list[str]:
        listed = self.json("memories")["memories"]
        assert isinstance(listed, list)
        return [item["text"] for item in listed]


@pytest.fixture
def tellback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tellback:
    return Tellback(tmp_path, capsys)


def test_forget_selects_by_tag_filter_and_age(tellback: Tellback) -> None:
    tellback.json("remember", "Of the house.", "--tag", "house")
    tellback.json("remember", "An event.", "--kind", "event")
    tellback.json("remember", "Long ago.", "--at", "2001-01-01")
    tellback.json("remember", "Kept.")
    assert tellback("forget", "--tag", "house", "--yes")[1] == "forgot 1 memory\n"
    assert tellback("forget", "--where", '{"kind": "event"}', "--yes")[1] == "forgot 1 memory\n"
    assert tellback("forget", "--older-than", "2002-01-01", "--yes")[1] == "forgot 1 memory\n"
    assert tellback("forget", "--older-than", "30d", "--yes")[1] == "forgotten already, or never there\n"
    assert tellback.texts() == ["Kept."]


WRONG_ARGUMENTS = [
    ([], "ID"),
    (["--where", "{"], "--where"),
    (["--where", "[]"], "--where"),
    (["--older-than", "soon"], "--older-than"),
    (["--scope", "project"], "--scope"),
    (["x", "--grace", "forever"], "--grace"),
    (["x", "--everything", "--yes"], "do not go together"),
    (["--text", "x", "--tag", "a"], "--text"),
    (["--query", "house", "--yes"], "--query"),
    (["--query", "house"], "--yes"),
    (["--verify", "nothing.json"], "--verify"),
]


def test_wrong_forget_arguments_are_refused_and_forget_nothing(tellback: Tellback) -> None:
    tellback.json("remember", "Kept.")
    for arguments, hint in WRONG_ARGUMENTS:
        code, out, err = tellback("forget", *arguments)
        assert (code, out) == (2, ""), arguments
        assert hint in err, arguments
    assert tellback.texts() == ["Kept."]


def test_forget_by_query_lists_the_found_memories_in_a_dry_run(tellback: Tellback) -> None:
    dog = tellback.json("remember", "Rex the dog barks.")["id"]
    tellback.json("remember", "The roof leaks.")
    code, out, _ = tellback("forget", "--query", "barking dog", "-k", 1, "--dry-run")
    assert (code, out.splitlines()) == (
        0,
        ["would forget 1 memory", f"  {dog[-5:]}  {datetime.now().astimezone():%Y-%m-%d}  Rex the dog barks."],
    )
    assert len(tellback.texts()) == 2


def test_a_forgetting_receipt_is_written_and_verified(tellback: Tellback, tmp_path: Path) -> None:
    id, receipt = tellback.json("remember", SECRET)["id"], tmp_path / "receipt.json"
    tellback("forget", id, "--dry-run", "--receipt", receipt)
    assert not receipt.exists()
    code, _, err = tellback("forget", id, "--yes", "--receipt", tmp_path / "missing" / "receipt.json")
    assert (code, "missing: no such folder" in err) == (2, True)
    assert tellback.json("memories", "list")["total"] == 1
    tellback("forget", id, "--yes", "--receipt", receipt)
    assert stat.S_IMODE(receipt.stat().st_mode) == 0o600
    assert "zebra" not in receipt.read_text()
    code, out, _ = tellback("forget", "--verify", receipt, "--text", SECRET)
    assert (code, out.split(":")[0]) == (0, "gone")
    proof = tellback.json("forget", "--verify", receipt)
    assert (proof["gone"], proof["left"]) == (True, [])
    code, _, err = tellback("forget", id, "--yes", "--receipt", receipt)
    assert (code, "is there already" in err) == (2, True)


def test_the_json_of_a_forgetting_is_a_receipt(tellback: Tellback, tmp_path: Path) -> None:
    id, receipt = tellback.json("remember", SECRET)["id"], tmp_path / "receipt.json"
    receipt.write_text(json.dumps(tellback.json("forget", id, "--yes")))
    assert tellback("forget", "--verify", receipt)[0] == 0


def test_a_soft_deleted_memory_is_restored_within_its_grace_and_verified_as_held(
    tellback: Tellback, tmp_path: Path
) -> None:
    id, receipt = tellback.json("remember", SECRET)["id"], tmp_path / "receipt.json"
    _, _, err = tellback("forget", id, "--yes", "--grace", "30d", "--receipt", receipt)
    assert "can be taken back until" in err
    assert tellback.texts() == []
    code, out, _ = tellback("forget", "--verify", receipt)
    assert code == 1
    assert "held: its time of grace is not over" in out
    operation = json.loads(receipt.read_text())["operation"]
    assert tellback("forget", "--take-back", operation)[1] == "brought back 1 memory\n"
    assert tellback.texts() == [SECRET]
    assert tellback("forget", "--take-back", operation)[0] == 2


def test_forget_everything_clears_only_its_own_namespace(tellback: Tellback) -> None:
    tellback.json("remember", "Mine.")
    tellback("--namespace", "other", "remember", "Theirs.")
    assert tellback("forget", "--everything")[0] == 2
    assert tellback("forget", "--everything", "--yes")[1] == "forgot 1 memory\n"
    assert tellback.texts() == []
    assert "Theirs." in tellback("--namespace", "other", "memories")[1]
