"""``tellback export`` and ``tellback import``: moving memories from one file to another.

Inner parts, on no face: ``tellback.memory.documents.loaders.markdown``.
"""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tellback.agent.assistant.cli.app import run_command_line
from tellback.memory.documents.loaders.markdown import read_markdown

Tellback = Callable[..., tuple[int, str, str]]


@pytest.fixture
def tellback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Tellback:
    def called(*arguments: object, memory: str = "m.db") -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_command_line(["--memory", str(tmp_path / memory), "--offline", *map(str, arguments)])
        output = capsys.readouterr()
        return code, output.out, output.err

    return called


def texts(tellback: Tellback, memory: str) -> list[str]:
    return [entry["text"] for entry in json.loads(tellback("memories", "--json", memory=memory)[1])["memories"]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_memory_moves_from_one_file_to_another(
    tellback: Tellback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("I live in Lisbon.", "The roof leaks."):
        assert tellback("remember", text)[0] == 0
    file = tmp_path / "all.jsonl"
    code, out, _ = tellback("export", file)
    assert (code, out.splitlines()[0]) == (0, f"wrote 4 items to {file}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    for arguments in (["--mine"], ["--trust", "user"]):
        code, _, err = tellback("import", file, *arguments, memory="n.db")
        assert (code, "terminal" in err) == (2, True)
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    assert tellback("import", file, "--mine", memory="n.db")[0] == 1
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    code, out, err = tellback("import", file, "--mine", memory="n.db")
    assert (code, out.splitlines()[:2]) == (0, ["imported memories and passages: 2 stored", "  operation: 2"])
    assert "Did you make this file yourself?" in err
    assert texts(tellback, "n.db") == texts(tellback, "m.db")
    _, out, err = tellback("import", file, memory="n.db")
    assert out.splitlines()[0] == "imported memories and passages: 2 duplicate"
    assert "known already" in err


def test_notes_in_markdown_come_back_with_text_tags_and_fields(tellback: Tellback, tmp_path: Path) -> None:
    tellback(
        "remember", "The roof leaks: call Ana.\n\nSoon!", "--tag", "house", "--tag", "to do: roof", "--at", "2026-05-01"
    )
    tellback("remember", "The roof leaks: call Ana.\n\nSoon again!", "--kind", "note")
    folder = tmp_path / "vault"
    assert tellback("export", folder, "--markdown")[:2] == (0, f"wrote 2 notes to {folder}\n")
    notes = sorted(folder.iterdir())
    assert (len(notes), {stat.S_IMODE(note.stat().st_mode) for note in notes}) == (2, {0o600})
    loaded = read_markdown(notes[0].read_bytes(), notes[0].name)
    assert loaded.text[loaded.body or 0 :].strip() == "The roof leaks: call Ana.\n\nSoon!"
    assert (loaded.tags, loaded.notes) == (("house", "to do: roof"), ())
    assert (loaded.metadata["kind"], str(loaded.metadata["occurred_at"])[:10]) == ("fact", "2026-05-01")
    assert tellback("import", folder, "--from", "obsidian", "--yes", memory="n.db")[0] == 0
    assert "call Ana" in tellback("recall", "Who is called about the roof?", memory="n.db")[1]
    assert tellback("export", folder, "--markdown")[0] == 2
    assert str(folder) in tellback("forget", "--everything", "--dry-run", "--json")[1]


def test_an_export_on_standard_output_is_the_file_and_nothing_else(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    run_command_line(["--memory", str(tmp_path / "m.db"), "remember", "I live in Lisbon."])
    capfdbinary.readouterr()
    assert run_command_line(["--memory", str(tmp_path / "m.db"), "export", "-"]) == 0
    written = capfdbinary.readouterr()
    assert b"wrote 2 items to standard output" in written.err
    (tmp_path / "piped.jsonl").write_bytes(written.out)
    assert run_command_line(["--memory", str(tmp_path / "n.db"), "import", str(tmp_path / "piped.jsonl")]) == 0
    capfdbinary.readouterr()
    assert run_command_line(["--memory", str(tmp_path / "m.db"), "export", "-", "--json"]) == 2
    assert not Path("-").exists()
    run_command_line(["--memory", str(tmp_path / "m.db"), "forget", "--everything", "--dry-run", "--json"])
    (copy,) = json.loads(capfdbinary.readouterr().out)["unreached"]
    assert (copy["path"], copy["note"]) == ("-", "written to a stream; it is not known here where that went")


def test_export_json_has_a_line_for_each_item(tellback: Tellback, tmp_path: Path) -> None:
    tellback("remember", "I live in Lisbon.")
    wrote = json.loads(tellback("export", tmp_path / "a.jsonl", "--json", "--no-vectors")[1])
    assert set(wrote) == {"path", "counts", "hash", "vectors", "operation", "damaged"}
    assert wrote["operation"] == json.loads(tellback("memories", "operations", "--json")[1])["operations"][0]["id"]
    assert (wrote["counts"]["memory"], wrote["vectors"]) == (1, False)
    took = json.loads(tellback("import", tmp_path / "a.jsonl", "--json", memory="n.db")[1])
    keys = {"lines", "taken", "left", "trusted", "embedded", "truncated", "dry_run", "operation", "notes"}
    assert set(took) == keys
    assert [item["outcome"] for item in took["lines"]] == ["stored"]
    assert took["trusted"] is False


def test_a_tag_selects_the_memories_to_export(tellback: Tellback, tmp_path: Path) -> None:
    tellback("remember", "Of the house.", "--tag", "house")
    tellback("remember", "Of the garden.")
    tellback("export", tmp_path / "a.jsonl", "--tag", "house")
    tellback("import", tmp_path / "a.jsonl", memory="n.db")
    assert texts(tellback, "n.db") == ["Of the house."]


def test_an_import_without_vectors_is_embedded_at_once(tellback: Tellback, tmp_path: Path) -> None:
    tellback("remember", "I live in Lisbon.")
    tellback("export", tmp_path / "a.jsonl", "--no-vectors")
    took = json.loads(tellback("import", tmp_path / "a.jsonl", "--json", memory="n.db")[1])
    assert (took["lines"][0]["pending"], took["embedded"]) == (True, 1)
    assert json.loads(tellback("memories", "stats", "--json", memory="n.db")[1])["pending"] == 0


def test_a_scope_and_a_filter_choose_what_is_exported(tellback: Tellback, tmp_path: Path) -> None:
    tellback("remember", "Of the house.", "--scope", "project=house")
    tellback("remember", "Of the garden.", "--scope", "project=garden", "--kind", "event")
    for number, option in enumerate((["--scope", "project=house"], ["--where", '{"kind": "fact"}'])):
        tellback("export", tmp_path / f"{number}.jsonl", *option)
        tellback("import", tmp_path / f"{number}.jsonl", memory=f"{number}.db")
        assert texts(tellback, f"{number}.db") == ["Of the house."]


def test_a_truncated_import_file_is_one_line_on_standard_error(tellback: Tellback, tmp_path: Path) -> None:
    tellback("remember", "Here.")
    tellback("export", tmp_path / "a.jsonl")
    data = (tmp_path / "a.jsonl").read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(data[:-30])
    code, out, err = tellback("import", tmp_path / "cut.jsonl", memory="n.db")
    assert (code, out) == (2, "")
    assert "ends in the middle of the line" in err
    assert len(err.splitlines()) == 1
    assert tellback("export", tmp_path / "a.jsonl")[0] == 2
    assert tellback("import", tmp_path / "nothing.jsonl", memory="n.db")[0] == 2


@pytest.mark.parametrize("options", [[], ["--mode", "upsert"], ["--mode", "other"]])
def test_an_import_that_cannot_begin_creates_no_memory_file(
    tellback: Tellback, tmp_path: Path, options: list[str]
) -> None:
    tellback("remember", "Here.")
    tellback("export", tmp_path / "a.jsonl")
    refused = "other" in options
    code, out, err = tellback("import", tmp_path / ("a" if refused else "nothing.jsonl"), *options, memory="new.db")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    if refused:
        code, _, err = tellback("import", tmp_path / "a.jsonl", *options, memory="new.db")
        assert (code, len(err.splitlines()), "Value error" in err) == (2, 1, False)
    assert not (tmp_path / "new.db").exists()


def test_a_dry_run_of_import_creates_no_memory_file(tellback: Tellback, tmp_path: Path) -> None:
    tellback("remember", "Here.")
    tellback("export", tmp_path / "a.jsonl")
    assert tellback("import", tmp_path / "a.jsonl", "--dry-run", memory="new.db")[0] == 3
    assert not (tmp_path / "new.db").exists()
