"""The command line, in processes where it says so: documents, a chat over several runs, two processes, bad input."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import apsw
import pytest

from tests.support.command_line import CommandLine

ROOT = Path(__file__).resolve().parents[2]
TELLBACK = [sys.executable, "-c", "from tellback.agent.assistant.cli import main; main()"]

FILES = 320


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **more}


def tellback(path: Path, *arguments: object, text: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run one command in a process of its own, on the memory file *path*."""
    return subprocess.run(
        [*TELLBACK, "--memory", str(path), *map(str, arguments)],
        cwd=path.parent,
        env=environment(**more),
        input=text,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def answered(path: Path, *arguments: object, text: str = "") -> dict:
    """Run a command that must succeed, and return the JSON object that it prints."""
    done = tellback(path, *arguments, "--json", text=text)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def chatted(commands: CommandLine, *lines: str) -> list[dict]:
    """Say *lines* in one run of ``chat``, and return its answers."""
    done = commands("chat", "--json", text="".join(line + "\n" for line in lines))
    assert done.code == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def traces(folder: Path, word: str) -> list[str]:
    """Return the files of *folder* in whose bytes *word* stands."""
    forms = [word.encode(), word.encode("utf-16-le"), word.encode("utf-16-be")]
    return [path.name for path in folder.iterdir() if any(form in path.read_bytes() for form in forms)]


# Documents


def paragraphs(folder: Path, data: Path) -> list[tuple[str, str]]:
    """Write one Markdown file a paragraph; return (question, its file) of the answerable questions."""
    articles = json.loads((data / "squad" / "squad_dev_half.json").read_text(encoding="utf-8"))["data"]
    questions = []
    for article in articles:
        title = article["title"].replace("_", " ")
        for number, paragraph in enumerate(article["paragraphs"]):
            name = f"{article['title'].lower()}-{number:02}.md"
            (folder / name).write_text(f"# {title}\n\n{paragraph['context']}\n", encoding="utf-8")
            questions += [(item["question"], name) for item in paragraph["qas"] if not item["is_impossible"]]
    return questions


def abstracts(folder: Path, data: Path, count: int) -> None:
    """Write *count* abstracts of another subject beside them, since the paragraphs are somewhat too few."""
    records = (data / "cranfield" / "cran.all.1400").read_text(encoding="latin-1").split("\n.W\n")[1 : count + 1]
    for number, record in enumerate(records):
        (folder / f"abstract-{number:02}.md").write_text(record.split("\n.I ")[0], encoding="utf-8")


@pytest.mark.slow
def test_the_command_line_ingests_a_folder_answers_from_it_and_follows_its_changes(
    tmp_path: Path, data_dir: Path
) -> None:
    folder, path = tmp_path / "paragraphs", tmp_path / "memory.db"
    folder.mkdir()
    questions = paragraphs(folder, data_dir)
    abstracts(folder, data_dir, FILES - len(list(folder.iterdir())))

    first = answered(path, "ingest", folder)
    assert first["totals"]["added"] == FILES
    assert first["embedded"] + first["pending"] == first["chunks"] >= FILES

    asked = questions[:: len(questions) // 10][:10]  # spread evenly over the articles
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda item: answered(path, "ask", item[0]), asked))
    wrong = [
        (question, name, answer["answer"])
        for (question, name), answer in zip(asked, answers, strict=True)
        if not answer["citations"] or answer["citations"][0]["source"] != name
    ]
    assert len(wrong) <= 2, wrong
    for citation in (citation for answer in answers for citation in answer["citations"]):
        text = (folder / citation["source"]).read_text(encoding="utf-8")
        assert text[citation["start"] : citation["end"]] == citation["quote"]

    again = tellback(path, "ingest", folder)
    assert again.stdout == f"nothing changed: {FILES} unchanged; 0 chunks, 0 embedded\n"

    changed, deleted, *_ = sorted(folder.glob("normans-*.md"))
    changed.write_text(changed.read_text(encoding="utf-8") + "\nThe zeppelin landed at noon.\n", encoding="utf-8")
    deleted.unlink()
    report = answered(path, "ingest", folder)
    fates = {item["source"]: item for item in report["documents"] if item["action"] != "unchanged"}
    assert {name: item["action"] for name, item in fates.items()} == {changed.name: "updated", deleted.name: "removed"}
    assert 0 < report["embedded"] + report["pending"] <= fates[changed.name]["chunks"]
    assert answered(path, "ask", "When did the zeppelin land?")["citations"][0]["source"] == changed.name
    listed = {item["source"]: item["chunks"] for item in answered(path, "documents")["documents"]}
    assert len(listed) == FILES - 1
    assert deleted.name not in listed
    assert all(chunks > 0 for chunks in listed.values())


# A chat over several runs


def test_a_statement_in_one_chat_run_is_recalled_in_a_later_one_then_corrected_and_forgotten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = CommandLine(tmp_path / "memory.db", capsys, monkeypatch)
    given, _ = chatted(
        commands, "My locker at the gym has the number Zanzibar-4417.", "My sister Clara plays the cello."
    )
    assert given["answer"] == "Noted: “My locker at the gym has the number Zanzibar-4417.”"
    assert given["citations"] == []
    (id,) = given["stored"][:1]

    chatted(commands, "The weather is fine today.")

    asked, once_more = chatted(commands, *["What is the number of my locker at the gym?"] * 2)
    for answer in (asked, once_more):
        assert "Zanzibar-4417" in answer["answer"]
        assert answer["citations"][0]["id"] == id
        assert answer["citations"][0]["session"] == given["session"] != answer["session"]
        assert all("?" not in citation["quote"] for citation in answer["citations"])

    assert commands.json("correct", id, "My locker at the gym has the number Quebec-5528.")["id"] == id
    assert "Quebec-5528" in commands.json("ask", "What is the number of my locker at the gym?")["answer"]
    versions = commands.json("memories", "history", id)["versions"]
    assert [version["text"].split()[-1] for version in versions] == ["Quebec-5528.", "Zanzibar-4417."]

    plan = commands.json("forget", id, "--dry-run")
    assert (plan["memories"], plan["versions"], plan["dry_run"]) == ([id], 1, True)
    receipt = commands.json("forget", id, "--yes")
    only_done = {"dry_run", "operation", "at", "salt", "hashes", "parts"}
    assert {name: plan[name] for name in plan.keys() - only_done} == {
        name: receipt[name] for name in receipt.keys() - only_done
    }
    assert receipt["operation"]
    assert receipt["parts"] == {"given": 2}
    assert len(receipt["hashes"]) == 2
    assert traces(tmp_path, "Zanzibar") == traces(tmp_path, "Quebec") == []
    hits = commands.json("recall", "What is the number of my locker at the gym?")["hits"]
    assert not any("has the number" in hit["text"] for hit in hits)
    (after,) = chatted(commands, "What is the number of my locker at the gym?")
    assert "Quebec" not in after["answer"]
    assert traces(tmp_path, "Zanzibar") == traces(tmp_path, "Quebec") == []
    assert "cello" in commands.json("ask", "What does Clara play?")["answer"]


# Two processes on one file


def lines_of(stream) -> Queue[str]:
    """Return a queue that fills with the lines of *stream* as they come."""
    lines: Queue[str] = Queue()
    threading.Thread(target=lambda: [lines.put(line) for line in stream], daemon=True).start()
    return lines


@pytest.mark.slow
def test_an_open_chat_and_an_ingesting_process_see_the_writes_of_each_other(tmp_path: Path) -> None:
    path, folder = tmp_path / "memory.db", tmp_path / "notes"
    folder.mkdir()
    for number in range(60):
        (folder / f"note-{number:02}.md").write_text(f"# Note {number}\n\nNothing of interest, {number} times.\n")
    (folder / "harbour.md").write_text("# Harbour\n\nThe lighthouse keeper of Peniche is called Baltasar.\n")
    talk = subprocess.Popen(
        [*TELLBACK, "--memory", str(path), "chat", "--json"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with talk:
        try:
            assert talk.stdin is not None
            answers = lines_of(talk.stdout)

            def said(line: str) -> dict:
                talk.stdin.write(line + "\n")
                talk.stdin.flush()
                return json.loads(answers.get(timeout=300))

            assert said("My boat is called Andorinha.")["error"] is None
            ingested: Queue[dict] = Queue()
            worker = threading.Thread(target=lambda: ingested.put(answered(path, "ingest", folder)))
            worker.start()
            for number in range(5):
                assert said(f"Remark {number}: the wind turned at {number} o'clock.")["error"] is None
            worker.join()
            assert ingested.get()["totals"]["added"] == 61

            keeper = said("Who is the lighthouse keeper of Peniche?")
            assert keeper["citations"][0]["source"] == "harbour.md"
            boat = answered(path, "ask", "What is the name of my boat?")
            assert "Andorinha" in boat["answer"]
            answered(path, "remember", "The spare key of the boat hangs in the kitchen.")
            assert "kitchen" in said("Where does the spare key of the boat hang?")["answer"]
        finally:
            _, problems = talk.communicate(timeout=300)
    assert (talk.returncode, problems) == (0, "")
    assert answered(path, "doctor")["fine"]


# Bad input


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def kept(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line on a file that the first test fills and that bad input must leave as it is, in its folder."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TELLBACK_EMBEDDER", "none")
    commands = CommandLine(folder / "memory.db", capsys, monkeypatch)
    if not (folder / "memory.db").exists():
        commands.json("remember", "The key is under the stone.")
        (folder / "empty").mkdir()
        (folder / "photo.txt").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR")
        (folder / "garden.md").write_text("# Garden\n\nThe roses are cut in March.\n")
        commands.json("ingest", "garden.md")
        (folder / "notes.db").write_text("Milk, bread, eggs.\n" * 100)
        commands.json("remember", "From the future.", "--memory", "newer.db")
        connection = apsw.Connection(str(folder / "newer.db"))
        connection.pragma("user_version", 99)
        connection.close()
    return commands


def state(folder: Path) -> dict[str, str]:
    """Return what every file of *folder* holds; SQLite's own files beside a memory are no part of it."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.name.endswith(("-wal", "-shm"))
    }


CLOSED = "http://127.0.0.1:9/v1"
MODEL = {"TELLBACK_MODEL": "any-model"}
BAD: dict[str, tuple[Sequence[str], dict[str, str], int, str]] = {
    "an empty question": (["ask", " "], {}, 2, "a question is needed"),
    "a missing file": (["ingest", "nowhere.md"], {}, 2, "nowhere.md: no such file"),
    "a folder without readable files": (["ingest", "empty"], {}, 2, "no readable document"),
    "a binary that is called .txt": (["ingest", "photo.txt"], {}, 2, "photo.txt: a binary file"),
    "the same for a memory to be": (["--memory", "none.db", "ingest", "photo.txt"], {}, 2, "photo.txt: a binary file"),
    "an unwritable path": (["--memory", "photo.txt/m.db", "remember", "x"], {}, 3, "photo.txt"),
    "a file that is no memory": (["--memory", "notes.db", "recall", "milk"], {}, 3, "not a memory file"),
    "a file of a newer version": (["--memory", "newer.db", "recall", "x"], {}, 3, "upgrade"),
    "a memory that is not there": (["--memory", "none.db", "recall", "x"], {}, 3, "no memory is here yet"),
    "an endpoint that refuses": (["ask", "Where?"], {**MODEL, "OPENAI_BASE_URL": CLOSED}, 4, "is the server running"),
    "an unset key": (["ask", "Where is the key?"], MODEL, 2, "OPENAI_API_KEY"),
    "an unknown id": (["forget", "nobody", "--yes"], {}, 2, "memories"),
    "an unknown option": (["recall", "x", "--frob"], {}, 2, "--help"),
}


@pytest.mark.parametrize(("arguments", "more", "code", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_one_clear_line_and_changes_nothing(
    kept: CommandLine,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: Sequence[str],
    more: dict[str, str],
    code: int,
    words: str,
) -> None:
    before = state(folder)
    for name, value in more.items():
        monkeypatch.setenv(name, value)
    done = kept(*arguments)
    assert (done.code, done.out) == (code, "")
    (line,) = done.err.splitlines()
    assert line.startswith("tellback: ")
    assert words in line
    assert state(folder) == before


@pytest.mark.slow
def test_bad_input_of_a_process_is_one_line_and_its_exit_code(tmp_path: Path) -> None:
    done = tellback(tmp_path / "none.db", "recall", "x")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert "no memory is here yet" in done.stderr


def test_text_in_another_encoding_is_read_and_the_guess_is_named(kept: CommandLine, folder: Path) -> None:
    (folder / "latin.txt").write_bytes("Der Fluss ist hier 40 m breit; Größe des Boots: 4 m².".encode("cp1252"))
    done = kept("--memory", "encodings.db", "ingest", "latin.txt")
    assert done.code == 0
    assert "not UTF-8" in done.out
    assert "Größe" in kept("--memory", "encodings.db", "ask", "Größe des Boots?").out


def test_an_unknown_namespace_is_empty(kept: CommandLine, folder: Path) -> None:
    for _ in range(2):  # completes work that earlier writes left to the next opening
        kept("memories")
    before = state(folder)
    for arguments, answer in (
        (["recall", "key"], "Nothing is remembered about that.\n"),
        (["memories"], "Nothing is remembered yet.\n"),
        (["documents"], "No document was ingested yet; `tellback ingest PATH` reads some.\n"),
        (["ask", "Where is the key?"], "Nothing here is about this.\n"),
    ):
        done = kept("--namespace", "nobody", *arguments)
        assert (done.code, done.out) == (0, answer)
    assert state(folder) == before
