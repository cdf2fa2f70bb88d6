"""The worker of the loaders: crafted files meet a process with limits, and the next file is read all the same.

Inner parts, on no face: ``tellback.memory.documents.loaders.base``, ``tellback.memory.documents.loaders.registry``,
``tellback.memory.documents.loaders.workers``.
"""

from __future__ import annotations

import asyncio
import gzip
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tellback.memory import KnowledgeBase, LoadError, open_memory
from tellback.memory.documents.loaders.base import LoadLimits
from tellback.memory.documents.loaders.registry import LoaderRegistry
from tellback.memory.documents.loaders.workers import LoaderWorker
from tellback.memory.internals import IngestAction
from tests.support.pdf import make_pdf


@pytest.fixture(scope="module")
def loaders():
    registry = LoaderRegistry(limits=LoadLimits(unpacked=1_000_000))
    yield registry
    registry.close()


def load(loaders, name, data):
    return loaders.for_content(loaders.choose(name), data, name).load(data, name)


def test_one_process_reads_all_files_in_turn(loaders):
    assert load(loaders, "a.html", b"<h1 id=t>Trees").anchors == ((0, "t"),)
    first = loaders._workers._idle[-1]._process.pid
    assert load(loaders, "a.pdf", make_pdf("First.", "Second.")).pages == ((0, 6), (8, 15))
    assert load(loaders, "a.md.gz", gzip.compress(b"---\ntags: [a]\n---\n# Trees\n")).tags == ("a",)
    assert loaders._workers._idle[-1]._process.pid == first


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("bomb.txt.gz", gzip.compress(bytes(5_000_000)), "unpacks to more than 1 MB"),
        ("cut.txt.gz", gzip.compress(b"some text", mtime=0)[:-9], "ends in the middle"),
        ("not.txt.gz", b"\x1f\x8b\x08broken", "gzip"),
        ("cut.pdf", make_pdf("x")[:300], "not a readable PDF"),
    ],
)
def test_a_crafted_file_is_refused_by_name_and_reason(loaders, name, data, reason):
    with pytest.raises(LoadError, match=reason) as caught:
        load(loaders, name, data)
    assert caught.value.source == name


KILLED = """
import sys
from tellback.memory import KnowledgeBase, open_memory, run_sync

def say(step):
    if step.done == 150:
        print(150, flush=True)
        sys.stdin.read()  # it goes no further than this

async def ingest():
    async with open_memory(sys.argv[1], embedder=None) as memory:
        await KnowledgeBase(memory).ingest(sys.argv[2], on_progress=say)

run_sync(ingest())
"""


def kill_at_first_line(command: list[str]) -> None:
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"150"
        process.kill()


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_huge_word_file_is_reported_and_the_others_are_ingested(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "a.md").write_text("Apples are red.")
    with (
        zipfile.ZipFile(folder / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("word/document.xml", "w", force_zip64=True) as member,
    ):
        for _ in range(500):
            member.write(b"<w:p/>" * 200_000)  # 600 MB in 1 MB
    async with open_memory(tmp_path / "m.db", embedder=None) as memory:
        report = await KnowledgeBase(memory).ingest(folder)
    lines = {line.source: (str(line.action), line.reason) for line in report.lines}
    assert lines == {"a.md": ("added", ""), "bomb.docx": ("failed", "unpacks to more than 300 MB")}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.anyio
async def test_an_ingest_repeated_after_a_kill_reads_the_remaining_files(tmp_path):
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(400):
        (folder / f"n{number:03}.html").write_text(f"<p>Number {number} is here.</p>")
    command = [sys.executable, "-c", KILLED, str(tmp_path / "m.db"), str(folder)]
    await asyncio.to_thread(kill_at_first_line, command)
    async with open_memory(tmp_path / "m.db", embedder=None) as memory:
        kept = {info.source for info in await KnowledgeBase(memory).documents()}
        assert 0 < len(kept) < 400
        report = await KnowledgeBase(memory).ingest(folder)
        assert {line.source for line in report.lines if line.action == "unchanged"} == kept
        assert report.totals[IngestAction.ADDED] == 400 - len(kept)
        documents = await KnowledgeBase(memory).documents()
        assert [info.chunks for info in documents] == [1] * 400


def script(folder: Path, body: str) -> Path:
    """Stands for the process of a worker in which a crafted file does what *body* says."""
    path = folder / "process.py"
    path.write_text(
        "import json, os, sys, time\n"
        "while line := sys.stdin.buffer.readline():\n"
        "    request = json.loads(line); data = sys.stdin.buffer.read(request['size']).decode()\n"
        f"    {body}\n"
        "    answer = json.dumps({'document': {'text': data}}); print(len(answer)); print(answer, end='', flush=True)\n"
    )
    return path


@pytest.mark.parametrize(
    ("crafted", "reason"),
    [
        ("abort", "gave up"),
        ("nonsense", "gave up"),
        pytest.param("hang", "more than 1 seconds", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_dies_or_hangs_is_replaced(tmp_path, monkeypatch, crafted, reason):
    if crafted == "hang":
        monkeypatch.setattr("tellback.memory.documents.loaders.workers._STARTING_SECONDS", 0)
    body = (
        "data == 'abort' and os.abort(); data == 'hang' and time.sleep(60); "
        "data == 'nonsense' and print('no number', flush=True)"
    )
    worker = LoaderWorker(LoadLimits(seconds=1), script=script(tmp_path, body))
    with pytest.raises(LoadError, match=reason):
        worker.load("text", crafted.encode(), "crafted.bin")
    monkeypatch.undo()  # the next process may take its time to start
    assert worker.load("text", b"fine", "a.bin").text == "fine"
    worker.close()


def test_the_loader_process_environment_has_no_api_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    worker = LoaderWorker(LoadLimits(), script=script(tmp_path, "data = ' '.join(sorted(os.environ))"))
    assert "PATH" in (seen := worker.load("text", b"", "a").text)
    assert "SOME_API_KEY" not in seen
    worker.close()


TESSERACT = """#!/bin/sh
if [ "$1" = --list-langs ]; then echo "List of available languages in /x/ (1):"; echo eng; exit; fi
head -c 2 | grep -q P5 && echo "The harbour closes" && echo "at nine." || sleep 20
"""


def stand_in(folder: Path, monkeypatch) -> None:
    """Put a program that knows one page, and takes long for all others, in the place of tesseract."""
    program = folder / "tesseract"
    program.write_text(TESSERACT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.defpath}")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the program stands in as a shell script")
def test_a_picture_that_takes_too_long_is_refused(tmp_path, monkeypatch):
    stand_in(tmp_path, monkeypatch)
    loaders = LoaderRegistry(limits=LoadLimits(scan_seconds=2))
    with pytest.raises(LoadError, match="took more than 2 seconds"):
        loaders.choose("scan.png", by_name=True).load(b"\x89PNG...", "scan.png")
    loaders.close()


@pytest.mark.skipif(sys.platform == "win32", reason="the program stands in as a shell script")
def test_a_scanned_page_is_recognised_where_tesseract_is_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))  # empty so far: the machine may have tesseract in any other folder
    loaders = LoaderRegistry(limits=LoadLimits())
    with pytest.raises(LoadError, match="where tesseract is installed"):
        load(loaders, "scan.pdf", make_pdf(""))
    loaders.close()
    stand_in(tmp_path, monkeypatch)
    scan = load(loaders, "scan.pdf", make_pdf("First.", ""))
    assert scan.text == "First.\n\nThe harbour closes\nat nine."
    assert scan.notes == ("pages recognised by tesseract: 1",)
    loaders.close()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract is not installed")
def test_the_installed_tesseract_reads_a_picture_of_text(loaders):
    pypdfium2 = pytest.importorskip("pypdfium2", reason="the extra 'docs' is not installed")
    with pypdfium2.PdfDocument(make_pdf("The harbour closes at nine.")) as document:
        bitmap = document[0].render(scale=4, grayscale=True)
        picture = b"P5 %d %d 255\n" % (bitmap.stride, bitmap.height) + bytes(bitmap.buffer)
    loaded = loaders.choose("scan.png", by_name=True).load(picture, "scan.png")
    assert loaded.text == "The harbour closes at nine."


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits of processes are only sure on Linux")
def test_a_file_that_needs_too_much_memory_is_refused():
    loaders = LoaderRegistry(limits=LoadLimits(memory=30_000_000))
    assert load(loaders, "a.html", b"<p>x</p>").text == "x"
    with pytest.raises(LoadError, match=r"memory|gave up"):
        load(loaders, "a.html", b"<p>x</p>" * 100_000)
    loaders.close()
