"""The worker of the loaders: crafted files meet a process with limits, and the next file is read all the same.

Inner parts, on no face: ``memory.documents.loaders.base``, ``memory.documents.loaders.registry``,
``memory.documents.loaders.workers``.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pytest

from memory import LoadError
from memory.documents.loaders.base import LoadLimits
from memory.documents.loaders.registry import LoaderRegistry
from memory.documents.loaders.workers import LoaderWorker
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
    monkeypatch.setattr("memory.documents.loaders.workers._STARTING_SECONDS", 0)
    body = (
        "data == 'abort' and os.abort(); data == 'hang' and time.sleep(60); "
        "data == 'nonsense' and print('no number', flush=True)"
    )
    worker = LoaderWorker(LoadLimits(seconds=1), script=script(tmp_path, body))
    with pytest.raises(LoadError, match=reason):
        worker.load("text", crafted.encode(), "crafted.bin")
    assert worker.load("text", b"fine", "a.bin").text == "fine"
    worker.close()


def test_the_process_sees_no_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    worker = LoaderWorker(LoadLimits(), script=script(tmp_path, "data = ' '.join(sorted(os.environ))"))
    assert "PATH" in (seen := worker.load("text", b"", "a").text)
    assert "SOME_API_KEY" not in seen
    worker.close()


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits of processes are only sure on Linux")
def test_a_file_that_needs_too_much_memory_is_refused():
    loaders = LoaderRegistry(limits=LoadLimits(memory=60_000_000))
    with pytest.raises(LoadError, match=r"memory|gave up"):
        load(loaders, "a.html", b"<p>x</p>" * 100_000)
    loaders.close()
