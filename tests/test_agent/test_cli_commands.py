"""Each command, in process: its effect, its output, and its documented JSON keys."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from tellback.agent.assistant.cli.app import app, run_command_line
from tellback.agent.assistant.cli.plain_recall import run_plain_recall
from tellback.memory import KnowledgeBase, Memory, open_memory, run_sync
from tests.support.command_line import CommandLine


def today() -> str:
    return f"{datetime.now().astimezone():%Y-%m-%d}"


ROOT = Path(__file__).resolve().parents[2]

MEMORY_KEYS = {
    "id", "text", "kind", "role", "speaker", "session", "sequence", "tags", "key", "importance", "pinned", "trust",
    "actor", "occurred_at", "recorded_at", "retired_at", "valid_from", "valid_to", "expires_at", "source", "title",
    "page", "heading", "start", "end", "metadata", "revision", "disabled", "withdrawn", "derived_from", "replaces",
    "supersedes", "operation", "scopes", "sensitive", "caption", "utterance", "utterance_reason",
    "evidence", "repeated", "about", "about_by",
}  # fmt: skip
CITATION_KEYS = {
    "number", "id", "quote", "source", "title", "page", "line", "heading", "start", "end", "speaker", "session", "date",
    "lane", "score",
}  # fmt: skip


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "bridge.md").write_text("# Bridge\n\nIt opened in 1932. It is painted red.\n")
    (folder / "tower.md").write_text("# Tower\n\nThe tower has 291 steps.\n")
    return folder


# remember, recall


@pytest.mark.parametrize(
    "arguments",
    [
        "recall where is Miso",
        "--memory a.db recall Miso --json",
        "--json search -k 3 Miso --full",
        "recall --explain Miso --all --namespace=ana --offline",
        "--namespace bob recall Miso --namespace ana --memory b.db --language de --model none",
    ],
)
def test_the_fast_path_of_recall_parses_arguments_like_the_full_command_line(
    arguments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def note(settings: Any, question: str, k: int, **options: Any) -> None:
        options.pop("narrow", None)  # for options that are not plain
        given = {name: value for name, value in options.items() if value not in (False, None, (), {}, 0)}
        calls.append((settings, question, k, given))

    for module in ("recall", "recall_output"):
        monkeypatch.setattr(f"tellback.agent.assistant.cli.{module}.print_recall", note)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
    assert (run_plain_recall(arguments.split()), run_command_line(arguments.split())) == (0, 0)
    plain, whole = calls
    assert plain == whole


@pytest.mark.parametrize(
    "arguments",
    [
        "", "remember Miso", "recall", "recall -", "recall --help", "recall Miso -k 0", "recall Miso -k",
        "recall Miso -x", "recall Miso --tag pets", "--debug recall Miso", "recall --memory",
        "recall --namespace -x Miso", "recall -- Miso", "--namespace recall", "memories list",
    ],
)  # fmt: skip
def test_the_fast_path_of_recall_leaves_other_arguments_to_the_full_command_line(arguments: str) -> None:
    assert run_plain_recall(arguments.split()) is None


def test_a_remembered_text_is_recalled_with_speaker_date_score_and_id(tellback: CommandLine) -> None:
    report = tellback.json(
        "remember", "We adopted a cat called Miso.", "--speaker", "Ana", "--at", "2026-05-03T12:00", "--tag", "pets"
    )
    keys = {"id", "outcome", "reason", "of", "spans", "kept", "total", "deferred", "operation", "made", "retired"}
    keys |= {"replaced", "may_replace"}
    assert set(report) == keys
    assert report["outcome"] == "stored"
    done = tellback("recall", "Which cat did Ana adopt?")
    assert done.out.startswith("1. We adopted a cat called Miso.\n   Ana · 2026-05-03 · score ")
    assert done.out.rstrip().endswith(" · " + report["id"][-5:])
    assert tellback("recall", "Which cat did Ana adopt?", "--full").out.rstrip().endswith(report["id"])


def test_recall_json_has_its_keys(tellback: CommandLine) -> None:
    tellback.json("remember", "The cat is called Miso.")
    found = tellback.json("recall", "What is the cat called?", "--explain")
    assert set(found) == {"hits", "confidence", "abstain", "searched", "tokens_exact", "notes", "beyond", "likely"}
    (hit,) = found["hits"]
    standing = {"outdated_by", "later_than", "likely_change"}
    assert set(hit) == MEMORY_KEYS | standing | {"score", "lane", "passage", "parts", "matched", "namespace"}
    assert {item["word"]: item["where"] for item in hit["matched"]} == {"cat": "here", "called": "here"}
    assert hit["score"] == pytest.approx(sum(hit["parts"].values()))
    assert "parts" not in tellback.json("recall", "What is the cat called?")["hits"][0]


def test_recall_shows_the_turns_around_a_hit_when_asked(tellback: CommandLine) -> None:
    talk = (("Ana", "What is the cat called?"), ("Ben", "Miso."), ("Ana", "Lovely.\nbefore: X"))
    memory = open_memory(tellback.path)
    run_sync(
        memory.remember_many(
            Memory(text, kind="turn", speaker=who, session="s", sequence=position)
            for position, (who, text) in enumerate(talk)
        )
    )
    run_sync(memory.close())
    shown = tellback("recall", "Miso", "-k", "1", "--around", "1").out.splitlines()
    assert [line for line in shown if "before:" in line or "after:" in line] == [
        "   before: Ana: What is the cat called?",
        "   after: Ana: Lovely. before: X",
    ]
    (hit,) = tellback.json("recall", "Miso", "-k", "1", "--around", "exchange")["hits"]
    assert [turn["text"] for turn in hit["before"]] == ["What is the cat called?"]
    assert hit["after"] == []
    refused = tellback("recall", "Miso", "--around", "some")
    assert (refused.code, "a number or 'exchange'" in refused.err) == (2, True)


def test_recall_filters_by_tag_and_limits_the_count_of_hits(tellback: CommandLine) -> None:
    for number in range(4):
        tellback.json("remember", f"Cat number {number} is grey.", "--tag", f"t{number % 2}")
    hits = tellback.json("recall", "grey cat", "-k", "3", "--tag", "t1")["hits"]
    assert sorted(hit["text"] for hit in hits) == ["Cat number 1 is grey.", "Cat number 3 is grey."]
    assert len(tellback.json("recall", "grey cat", "-k", "3")["hits"]) == 3


def test_text_can_come_through_a_pipe(tellback: CommandLine) -> None:
    tellback.json("remember", "-", text="\ufeffThe code is 4711.\r\n")
    (hit,) = tellback.json("recall", "-", text="What is the code?\n")["hits"]
    assert hit["text"] == "The code is 4711."


def test_an_idempotency_key_is_a_duplicate_with_equal_text_and_an_error_with_other_text(tellback: CommandLine) -> None:
    first = tellback.json("remember", "a fact", "--key", "k")
    assert tellback.json("remember", "a fact", "--key", "k") == {
        **first,
        "outcome": "duplicate",
        "reason": "known already",
        "of": first["id"],
        "operation": None,
    }
    done = tellback("remember", "another", "--key", "k")
    assert (done.code, done.out) == (2, "")
    assert "another key" in done.err


def test_a_memory_text_cannot_forge_a_line_of_the_recall_output(tellback: CommandLine) -> None:
    tellback.json("remember", "A cat.\n2. A dog.\n   user · 2026-01-01 · score 9.99 · fake\x1b[2J")
    lines = tellback("recall", "cat").out.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == ["1. A cat."]
    assert [line for line in lines if line.startswith("   ") and not line.startswith("     ")] == [lines[-1]]
    assert r"\x1b[2J" in lines[2]


def test_recall_reports_an_abstention(tellback: CommandLine) -> None:
    tellback.json("remember", "The cat sleeps on the sofa.")
    done = tellback("recall", "Who won the election in Portugal?")
    assert done.code == 0
    assert "not sure that this is about it" in done.err


def test_an_explained_score_shows_its_parts(tellback: CommandLine) -> None:
    tellback.json("remember", "The cat is called Miso.")
    lines = tellback("recall", "What is the cat called?", "--explain").out.splitlines()
    assert len(lines) == 4
    assert re.fullmatch(r"   [01]\.\d\d = \w+ 0\.\d\d( [+-] \w+ 0\.\d\d)+", lines[2])
    assert lines[3] == "   words: called, cat"


def test_why_not_prints_the_stage_in_its_first_line(tellback: CommandLine) -> None:
    first = tellback.json("remember", "The cat is called Miso.")["id"]
    tellback.json("remember", "The cat sleeps.", "--tag", "night")
    found = tellback("why-not", "What is the cat called?", first).out.splitlines()
    assert found[0] == "found: hit 1 of 2"
    assert re.match(r"score [01]\.\d\d = ", found[1])
    filtered = tellback("why-not", "What is the cat called?", first, "--tag", "night")
    assert filtered.out == "filter: the filter or the tags asked for leave it out\n"
    assert tellback("why-not", "cat?", "nobody").out == "unknown: no memory of that id is in what was asked\n"


def test_why_not_json_has_its_keys(tellback: CommandLine) -> None:
    id = tellback.json("remember", "The cat is called Miso.")["id"]
    answer = tellback.json("why-not", "What is the cat called?", id)
    assert set(answer) == {"id", "stage", "reason", "rank", "score", "needed", "parts", "by_words", "by_vector"}
    assert (answer["id"], answer["stage"], answer["rank"], answer["by_words"]) == (id, "found", 1, 1)


# ask


def test_ask_quotes_with_citations_and_stores_nothing(tellback: CommandLine, notes: Path) -> None:
    tellback.json("ingest", notes)
    answer = tellback.json("ask", "How many steps has the tower?")
    keys = {"question", "answer", "citations", "abstain", "model", "answered_by", "ending", "tokens_exact"}
    keys |= {"warnings", "notes"}
    assert set(answer) == keys
    assert set(answer["citations"][0]) == CITATION_KEYS
    assert answer["citations"][0]["source"] == "tower.md"
    assert answer["citations"][0]["quote"] == "The tower has 291 steps."
    assert tellback.json("memories")["total"] == 0
    done = tellback("ask", "How many steps has the tower?")
    assert done.out == f"“The tower has 291 steps.” [1]\n\n[1] {notes.name}/tower.md:3 § Tower\n"


def test_ask_without_a_fitting_memory_quotes_the_nearest_with_a_doubt(tellback: CommandLine) -> None:
    towns = ("Oslo", "Graz", "Leeds", "Turin", "Lyon", "Porto", "Bergen")
    memory = open_memory(tellback.path)
    run_sync(
        memory.remember_many(f"The {animal} of {town} sleeps." for town in towns for animal in ("cat", "dog", "horse"))
    )
    run_sync(memory.close())
    answer = tellback.json("ask", "What did the parrot cost?")
    assert answer["answer"].startswith("I do not know that; the nearest is: “")
    assert (len(answer["citations"]), answer["abstain"]) == (1, "nothing")
    far = tellback.json("ask", "Who won the election?")
    assert (far["answer"], far["citations"]) == ("Nothing here is about this.", [])


def test_ask_on_a_small_memory_quotes_the_nearest_entry_with_a_doubt(tellback: CommandLine) -> None:
    tellback.json("remember", "The cat sleeps on the sofa.")
    answer = tellback.json("ask", "Who won the election in Portugal?")
    quote = r"“The cat sleeps on the sofa.” \[1\] \(\d+ \w+ \d{4}\)"
    assert re.fullmatch(rf"I do not know that; the nearest is: {quote}", answer["answer"])
    assert answer["abstain"] == "nothing"


# ingest, documents


def test_ingest_reports_the_action_for_each_file(tellback: CommandLine, notes: Path) -> None:
    done = tellback("ingest", notes)
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("2 added; 2 chunks, ")
    assert tellback("ingest", notes).out == "nothing changed: 2 unchanged; 0 chunks, 0 embedded\n"
    (notes / "tower.md").unlink()
    report = tellback.json("ingest", notes)
    assert set(report) == {"documents", "totals", "chunks", "embedded", "pending", "changed"}
    keys = {"source", "action", "reason", "chunks", "embedded", "pending", "erased", "forgotten", "notes"}
    assert all(set(item) == keys for item in report["documents"])
    assert {item["source"]: item["action"] for item in report["documents"]} == {
        "bridge.md": "unchanged",
        "tower.md": "removed",
    }


def test_documents_of_a_folder_are_forgotten_after_confirmation(tellback: CommandLine, notes: Path) -> None:
    tellback("ingest", notes)
    assert "--yes" in tellback("documents", "forget", notes).err
    assert tellback("documents", "forget", notes / "nothing", "--yes").code == 2
    assert tellback("--namespace", "ben", "documents", "forget", notes, "--yes").code == 2
    assert tellback("documents", "forget", notes, "--yes").out == f"forgot 2 documents of {notes}\n"
    assert tellback.json("documents")["total"] == 0
    assert "--again" in tellback("ingest", notes).err


def test_ingest_names_an_unreadable_file_and_ingests_the_others(tellback: CommandLine, notes: Path) -> None:
    (notes / "photo.txt").write_bytes(b"\x89PNG\x00\x00")
    done = tellback("ingest", notes)
    assert done.code == 5
    assert "photo.txt: failed, a binary file" in done.err
    assert done.out.splitlines()[-1].startswith("2 added, 1 failed")


def test_many_files_with_the_same_outcome_are_reported_in_one_line(tellback: CommandLine, notes: Path) -> None:
    for number in range(5):
        (notes / f"{number}.txt").write_text(f"Note {number}.")
        (notes / f"page{number}.numbers").write_text(f"Page {number}")
    (notes / "picture.svg").touch()
    done = tellback("ingest", notes)
    assert done.out.splitlines() == [
        "5 .txt files (0.txt, 1.txt, 2.txt, …): added, 5 chunks, 5 embedded",
        "bridge.md: added, 1 chunk, 1 embedded",
        "tower.md: added, 1 chunk, 1 embedded",
        "7 added, 1 skipped, 5 unreadable; 7 chunks, 7 embedded",
    ]
    assert sorted(done.err.splitlines()) == [
        "5 .numbers files (page0.numbers, page1.numbers, page2.numbers, …): unreadable, no loader for .numbers files",
        "next: `tellback chat` remembers what you tell it, and this answers: tellback ask QUESTION",
        "picture.svg: skipped, a picture",
    ]
    assert done.code == 0
    assert tellback("ingest", notes, "--exclude", "*.txt").code == 5  # most of the named files cannot be read


def test_a_dry_run_of_ingest_shows_the_chosen_files_and_reads_nothing(tellback: CommandLine, notes: Path) -> None:
    (notes / "big.txt").write_text("long " * 1000)
    done = tellback("ingest", "--dry-run", "--max-size", "4k", "--exclude", "tower.md", notes)
    assert done.out.splitlines() == ["bridge.md: planned", "2 skipped, 1 planned; nothing was read"]
    assert done.err.splitlines() == ["big.txt: skipped, larger than was asked for", "tower.md: skipped, excluded"]
    assert not tellback.path.exists()
    assert "is not a size" in tellback("ingest", "--max-size", "some", notes).err


def test_the_first_ingest_alone_names_the_next_step(tellback: CommandLine, notes: Path) -> None:
    assert "next: `tellback chat`" in tellback("ingest", notes).err
    assert "next" not in tellback("ingest", notes, "--again").err
    assert tellback("ask", "How many steps has the tower?").err == ""


NO_TABLES_AND_NO_NETWORK = """
import socket
import sys

looked_up = []


def note(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        if getattr(arguments[0], "family", None) == socket.AF_UNIX:
            return  # the resident process on this machine
        looked_up.append((event, arguments))


sys.addaudithook(note)
from tellback.agent.assistant.cli.app import run_command_line
from tellback.memory import LongTermMemory, open_memory, run_sync
from tellback.memory.tokens import token_tables

token_tables._LIBRARY = "a_library_that_is_not_there"
for command in (
    ["ingest", "notes"],
    ["remember", "My sister plays the cello."],
    ["remember", "The boiler was serviced by Mr Fonseca in May."],
    ["remember", "The spare key hangs behind the rain barrel."],
    ["recall", "Who plays the cello?", "--explain"],
    ["ask", "How many steps has the tower?"],
    ["chat"],
    ["doctor"],
    ["eval", "--questions", "5"],
):
    assert run_command_line(["--memory", "m.db", *command]) == 0, command
memory = open_memory("m.db")
assert run_sync(memory.recall("Who plays the cello?", token_budget=50)).tokens_exact is False
run_sync(memory.close())
assert not looked_up, looked_up
"""


@pytest.mark.slow
def test_commands_without_token_tables_make_no_network_connection(notes: Path, tmp_path: Path) -> None:
    """Inner part, on no face: ``tellback.memory.tokens.token_tables``."""
    run = subprocess.run(
        [sys.executable, "-c", NO_TABLES_AND_NO_NETWORK],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        input="We moved to Porto.\nWhere did we move?\n",
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_a_folder_without_a_readable_file_is_bad_input(tellback: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    assert tellback("ingest", folder).err.startswith("tellback: no readable document there")
    (folder / "photo.txt").write_bytes(b"\x89PNG\x00\x00")
    done = tellback("ingest", folder)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        "tellback: photo.txt: a binary file, not text (it has NUL bytes)\n",
    )
    done = tellback("ingest", "--json", folder)
    assert (done.code, json.loads(done.out)["totals"]["failed"]) == (2, 1)


def test_ingest_with_a_missing_path_creates_no_memory_file(tellback: CommandLine, notes: Path) -> None:
    done = tellback("ingest", notes, "nowhere")
    assert done.code == 2
    assert "nowhere: no such file or folder" in done.err
    assert not tellback.path.exists()


def test_a_forgotten_passage_is_ingested_again_only_with_the_again_option(tellback: CommandLine, notes: Path) -> None:
    tellback.json("ingest", notes)
    (hit, *_) = tellback.json("recall", "steps of the tower")["hits"]
    tellback.json("forget", hit["id"], "--yes")
    tellback.json("ingest", notes)
    assert "291" not in tellback("recall", "steps of the tower").out
    tellback.json("ingest", "--again", notes)
    assert "291" in tellback("recall", "steps of the tower").out


def test_quiet_ingest_prints_totals_and_failures_alone(tellback: CommandLine, notes: Path) -> None:
    (notes / "clip.mp4").write_bytes(b"\0\0")
    assert "clip.mp4" in tellback("ingest", notes).err
    done = tellback("ingest", notes, "--again", "--quiet")
    assert (len(done.out.splitlines()), done.err) == (1, "")


def test_documents_of_a_deleted_folder_are_retired_on_request(tellback: CommandLine, notes: Path) -> None:
    tellback.json("remember", "A fact.")
    other = notes.parent / "notes-of-others"
    other.mkdir()
    (other / "river.md").write_text("# River\n\nIt is long.\n")
    tellback.json("ingest", notes, other)
    shutil.rmtree(notes)
    asked = tellback("ingest", notes)
    assert asked.code == 2
    assert "2 documents came from it: bridge.md, tower.md" in asked.err
    assert "--yes" in asked.err
    report = tellback.json("ingest", notes, "--yes")
    assert [(line["source"], line["action"]) for line in report["documents"]] == [
        ("bridge.md", "removed"),
        ("tower.md", "removed"),
    ]
    assert [item["source"] for item in tellback.json("documents")["documents"]] == ["river.md"]
    assert "no such file or folder" in tellback("ingest", notes, "--yes").err


def test_an_interrupted_ingest_says_how_much_is_kept(
    tellback: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tellback.json("remember", "A fact.")
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(70):
        (folder / f"n{number:02}.md").write_text(f"# Note {number}\n\nIt rained {number} times.\n")
    real = KnowledgeBase.ingest

    async def interrupted(self: KnowledgeBase, paths: Any, **options: Any) -> Any:
        def on_progress(step: Any) -> None:
            options["on_progress"](step)
            if step.done == 64:
                raise KeyboardInterrupt

        return await real(self, paths, **{**options, "on_progress": on_progress})

    with monkeypatch.context() as patched:
        patched.setattr(KnowledgeBase, "ingest", interrupted)
        done = tellback("ingest", folder)
    assert done.code == 130
    assert "stopped after 64 of 70 files: 64 added or updated are kept; the same command goes on" in done.err
    assert tellback.json("ingest", folder)["totals"]["added"] == 6


def test_documents_are_listed(tellback: CommandLine, notes: Path) -> None:
    assert "tellback ingest" in _no_documents(tellback)
    tellback.json("ingest", notes)
    listed = tellback.json("documents")["documents"]
    assert {item["source"] for item in listed} == {"bridge.md", "tower.md"}
    assert set(listed[0]) == {"source", "title", "location", "chunks", "modified", "ingested", "collection"}
    (notes / "bridge.md").write_text("# Bridge\n\nIt was painted blue.\n")
    tellback("ingest", notes)
    done = tellback("documents")
    assert [line.split()[2] for line in done.out.splitlines()] == ["document", "bridge.md", "tower.md"]
    assert done.err == "2 documents; 2 chunks in all\n"
    by_name = tellback.json("documents", "--sort", "name", "--limit", "1")
    assert ([item["source"] for item in by_name["documents"]], by_name["total"]) == (["bridge.md"], 2)
    some = tellback("documents", "TOWER")
    assert (some.out.splitlines()[1].split()[2], some.err) == ("tower.md", "1 document; 1 chunk in all\n")
    assert tellback("documents", "--limit", "1").err == "1 of 2 documents, the rest with --limit; 2 chunks in all\n"


def _no_documents(tellback: CommandLine) -> str:
    tellback.json("remember", "A fact.")
    return tellback("documents").out


# Words of a text, global options, and texts in a pipe


def test_a_text_may_be_typed_as_several_words(tellback: CommandLine) -> None:
    id = tellback.json("remember", "We", "adopted", "a cat", "--tag", "pets", "called", "Miso.")["id"]
    assert tellback.json("memories", "show", id)["text"] == "We adopted a cat called Miso."
    assert tellback.json("recall", "the", "cat", "called")["hits"][0]["id"] == id
    assert "1" in tellback("why-not", "which", "cat", id).out
    assert "Miso" in tellback("ask", "What", "is", "the", "cat", "called?").out


def test_global_options_stand_before_or_after_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "m.db")
    assert run_command_line(["remember", "--memory", path, "A cat.", "--namespace", "ana", "--json"]) == 0
    capsys.readouterr()
    for arguments in (
        ["--json", "--memory", path, "--namespace", "ana", "memories", "list"],
        ["memories", "--json", "--namespace", "ana", "--memory", path],
        ["--namespace", "ben", "memories", "list", "--memory", path, "--namespace", "ana", "--json"],
        ["--json", "search", "cat", "--memory", path, "--namespace", "ana", "--model", "none", "--offline"],
    ):
        assert run_command_line(arguments) == 0
        answer = json.loads(capsys.readouterr().out)
        assert [found["text"] for found in answer.get("memories", answer.get("hits"))] == ["A cat."]


def test_texts_in_a_pipe_are_shortened_with_a_note_unless_full_is_given(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TELLBACK_EMBEDDER", "none")
    long = " ".join(f"word{number}" for number in range(200)) + " The cat is called Miso. " + "more " * 200
    tellback.json("remember", long)
    for command in (["memories", "list"], ["recall", "What is the cat called?"]):
        short, full = tellback(*command), tellback(*command, "--full")
        assert max(map(len, short.out.splitlines())) <= 80
        assert "texts are shortened; --full prints them whole\n" in short.err
        assert "word199" in full.out.replace("\n", " ")
        assert "--full" not in full.err
    assert "The cat is called Miso." in " ".join(tellback("recall", "What is the cat called?").out.split())


# correct, forget, memories


def test_a_correction_replaces_the_text_and_keeps_the_old_version_in_the_history(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = tellback.json("remember", "The plumber comes on Friday.")["id"]
    done = tellback("correct", id, "The", "plumber comes on Monday.")
    assert done.out.splitlines() == [
        f"corrected {id}",
        "  was: The plumber comes on Friday.",
        "  now: The plumber comes on Monday.",
    ]
    assert tellback.json("memories", "show", id)["text"] == "The plumber comes on Monday."
    lines = tellback("memories", "history", id).out.splitlines()
    assert [line.split("  ")[1] for line in lines[:3]] == [
        "The plumber comes on Monday.",
        "The plumber comes on Friday.",
        f"as {id}@1",
    ]
    assert [line.split("  ")[3] for line in lines[3:]] == ["correct by user", "remember by user"]
    assert tellback("memories", "show", f"{id}@1").out.startswith("The plumber comes on Friday.\n")
    again = tellback("correct", id, "The plumber comes on Monday.")
    assert (again.code, again.out, again.err) == (0, f"nothing to change: {id}\n", "")
    monkeypatch.setenv("TELLBACK_NEAR_DUPLICATES", "link")
    other = tellback.json("remember", "The plumber comes on Tuesday at nine.")["id"]
    reported = tellback("correct", id, "the plumber comes on Tuesday, at nine")
    assert reported.out.startswith(f"corrected {id}: near-duplicate of {other}\n")
    assert set(tellback.json("memories", "history", id)["versions"][0]) == MEMORY_KEYS


def test_forget_needs_yes_without_a_terminal(tellback: CommandLine) -> None:
    id = tellback.json("remember", "The plumber comes on Friday.")["id"]
    done = tellback("forget", id)
    assert (done.code, done.out) == (2, "")
    assert "--yes" in done.err
    assert tellback.json("memories")["total"] == 1
    assert tellback("forget", id, "--yes").out == "forgot 1 memory\n"
    assert tellback.json("memories")["total"] == 0
    assert tellback("forget", id, "--yes").out == "forgotten already, or never there\n"


def test_a_dry_run_of_forget_lists_the_affected_memories_and_changes_nothing(tellback: CommandLine) -> None:
    id = tellback.json("remember", "The plumber comes on Friday.")["id"]
    again = tellback.json("remember", "Say it again: The plumber comes on Friday. Yes.")["id"]
    done = tellback("forget", id, "--dry-run")
    assert done.out.splitlines() == [
        "would forget 1 memory, 1 other memory with the same words",
        f"  {id[-5:]}  {today()}  The plumber comes on Friday.",
        f"  with the same words: {again[-5:]}  {today()}",
    ]
    keys = {"memories", "versions", "derived", "also", "messages", "named", "pending", "dry_run"}
    assert set(tellback.json("forget", id, "--dry-run")) > keys
    assert tellback.json("memories")["total"] == 2


def test_memories_are_listed_page_by_page(tellback: CommandLine) -> None:
    ids = [tellback.json("remember", f"Fact number {number}.")["id"] for number in range(3)]
    tellback.json("remember", "A preference.", "--kind", "preference")
    newest = tellback.json("memories", "list", "--kind", "fact")["memories"]
    assert [memory["id"] for memory in newest] == ids[::-1]
    page = tellback.json("memories", "list", "--sort", "id", "--limit", "2", "--kind", "fact")
    assert set(page) == {"memories", "total", "next"}
    assert ([item["id"] for item in page["memories"]], page["total"], page["next"]) == (ids[:2], 3, ids[1])
    rest = tellback.json("memories", "list", "--sort", "id", "--limit", "2", "--kind", "fact", "--after", page["next"])
    assert ([item["id"] for item in rest["memories"]], rest["next"]) == (ids[2:], None)
    done = tellback("memories", "list", "--sort", "id", "--limit", "2")
    assert len(done.out.splitlines()) == 3
    assert f"2 of 4; go on with: tellback memories list --sort id --limit 2 --after {ids[1]}" in done.err


def test_memories_without_a_subcommand_lists_memories(tellback: CommandLine) -> None:
    tellback.json("remember", "Fact.")
    assert tellback("memories").out == tellback("memories", "list").out
    assert tellback("memories", "list", "--kind", "none").out == "Nothing of the kind none is remembered.\n"


def test_memories_show_prints_all_fields_of_a_memory(tellback: CommandLine) -> None:
    id = tellback.json("remember", "A fact.", "--tag", "a", "--tag", "b", "--scope", "project=x", "--pin")["id"]
    done = tellback("memories", "show", id)
    assert {"  scopes: project=x", "  pinned: yes"} <= set(done.out.splitlines())
    assert done.out.splitlines()[0] == "A fact."
    assert "  tags: a, b" in done.out.splitlines()
    assert set(tellback.json("memories", "show", id)) == MEMORY_KEYS


def test_an_unknown_id_is_an_error(tellback: CommandLine) -> None:
    tellback.json("remember", "A fact.")
    for command in (["memories", "show", "x"], ["memories", "history", "x"], ["correct", "x", "y"]):
        done = tellback(*command)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), command


def test_a_namespace_sees_nothing_of_another(tellback: CommandLine) -> None:
    tellback.json("--namespace", "ana", "remember", "The safe has the code 2580.")
    for command in (["recall", "safe"], ["memories"], ["ask", "What is the code of the safe?"]):
        assert "2580" in tellback("--namespace", "ana", *command).out
        assert "2580" not in tellback("--namespace", "ben", *command).out
        assert "2580" not in tellback(*command).out


# start-up


def test_help_and_version_import_nothing_of_the_library() -> None:
    code = (
        "import sys; from tellback.agent.assistant.cli.app import run_command_line as run\n"
        "code = run(['--version']) + run(['--help'])\n"
        "ours = {'tellback.memory', 'tellback.vectorstore.types'}\n"
        "heavy = (ours | {'numpy', 'pydantic', 'httpx', 'apsw', 'rich'}) & set(sys.modules)\n"
        "assert (code, heavy) == (0, set()), (code, heavy)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tellback 0.")


@pytest.mark.slow
def test_a_recall_loads_nothing_that_it_does_not_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "memory.db")
    assert run_command_line(["--memory", file, "remember", "The harbour library closes at six."]) == 0
    code = (
        "import sys; from tellback.agent.assistant.cli.app import run_command_line as run\n"
        f"code = run(['--memory', {file!r}, 'recall', 'When does the harbour library close?', '--json'])\n"
        "unused = {'numpy.ma', 'httpx', 'rich', 'tellback.memory.write.pipeline',\n"
        "    'tellback.memory.erasure.memory_eraser', 'tellback.agent.assistant.cli.memories'} & set(sys.modules)\n"
        "assert (code, unused) == (0, set()), (code, unused)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "closes at six" in done.stdout


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    root = get_command(app)
    visible = {name for name, command in root.commands.items() if not command.hidden}  # type: ignore[attr-defined]
    assert len(visible) <= 25
    run_command_line(["--help"])
    first = capsys.readouterr().out.split("Commands:\n")[1].partition("Examples:")[0].splitlines()
    assert len([line for line in first if line.strip()]) == 8
    run_command_line(["help", "--all"])
    groups = capsys.readouterr().out.partition("Talk:")[2].partition("Options, before")[0].splitlines()
    listing = [line for line in groups if line.startswith("  ")]
    commands = [line.split()[0] for line in listing]
    assert (set(commands), len(commands)) == (visible, len(visible))
    assert not any(line.endswith("...") for line in listing)
    for command in commands:
        assert run_command_line([command, "--help"]) == run_command_line(["help", command]) == 0
        assert capsys.readouterr().out.startswith(f"Usage: tellback {command} ")


# config


def test_config_shows_each_setting_with_its_origin_and_hides_secrets(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-quite-secret")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://name:password@localhost:8080/v1")
    monkeypatch.setenv("TELLBACK_LANGUAGE", "de")
    answer = tellback.json("config")
    assert set(answer) == {"path", "settings", "keys"}
    settings = answer["settings"]
    assert settings["memory"] == {"value": str(tellback.path), "from": "--memory", "variable": "TELLBACK_MEMORY"}
    assert settings["language"] == {"value": "de", "from": "TELLBACK_LANGUAGE", "variable": "TELLBACK_LANGUAGE"}
    assert (settings["api_key"]["value"], settings["base_url"]["value"]) == ("set", "http://localhost:8080/v1")
    assert (settings["window"]["value"], settings["window"]["from"]) == ("all", "default")
    shown = tellback("config").out
    assert "quite-secret" not in shown
    assert "password" not in shown
    assert not tellback.path.exists()


def test_config_changes_one_line_of_a_file(
    tellback: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "c" / "config.toml"
    monkeypatch.setenv("TELLBACK_CONFIG", str(file))
    file.parent.mkdir()
    file.write_text('# mine\nsystem = """\nBe\nbrief."""  # two lines\n\n[mcp.servers.x]\ncommand = "run"\n')
    assert tellback.json("config", "set", "token-budget", "900")["value"] == 900
    assert tellback("config", "set", "system", "Be kind.").code == 0
    assert tellback("config", "set", "offline", "yes").out == f"offline: yes ({file})\n"
    assert file.read_text() == (
        '# mine\nsystem = "Be kind."\ntoken_budget = 900\noffline = true\n\n[mcp.servers.x]\ncommand = "run"\n'
    )
    refused = [("get", "modl"), ("set", "api_key", "sk-hush"), ("set", "token_budget", "few"), ("set", "mcp", "x")]
    lines = [tellback("config", *words).err for words in refused]
    expected = ["did you mean 'model'?", "not given on the command line", "an integer of", "by hand"]
    assert [word in line and line.count("\n") == 1 for word, line in zip(expected, lines, strict=True)] == [True] * 4
    assert tellback("config", "path").out == f"{file}\n"


def test_the_language_of_a_memory_is_fixed_at_creation_and_shown_by_doctor(tellback: CommandLine) -> None:
    assert tellback("--language", "de", "remember", "Die Katze schläft.").code == 0
    assert "language: german" in tellback("doctor").out
    refused = tellback("--language", "en", "recall", "Katze")
    assert (refused.code, refused.out) == (2, "")
    assert "was begun in german" in refused.err


def test_a_line_is_given_changed_shown_and_missed(tellback: CommandLine) -> None:
    key = tellback.json("remember", "Anna has it.", "--about", "spare key: keeper")["id"]
    car = tellback.json("remember", "It is blue.")["id"]
    missing = tellback.json("memories", "about", "--missing")
    assert ([memory["id"] for memory in missing["memories"]], missing["total"]) == ([car], 1)
    assert tellback("memories", "about", "--missing").out.startswith("1 memory without a line:")
    assert tellback("memories", "about", car, "the car:", "colour").out == f"described {car}\n"
    assert "spare key: keeper" in tellback("memories", "list").out
    assert "about: the car: colour" in tellback("recall", "colour of the car", "--explain").out
    assert tellback("memories", "about", "--missing").out == "Every memory says what it is about.\n"
    assert tellback.json("memories", "stats")["lines"] == {"caller": 2}
    assert "2 of 2 memories say it (2 by a caller)" in tellback("doctor").out
    tellback("undo", "--yes")
    assert tellback.json("memories", "show", car)["about"] == ""
    assert tellback.json("correct", key, "The key is green.", "--about", "spare key: colour")["outcome"] == "stored"
    assert tellback.json("memories", "show", key)["about"] == "spare key: colour"
    assert tellback("memories", "about").code == 2
