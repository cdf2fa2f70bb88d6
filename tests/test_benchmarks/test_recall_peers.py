"""Other memories in processes of their own: their answers, and the report of one that cannot run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.recall.peers import asking, environment
from benchmarks.recall.peers.asking import Peer
from benchmarks.recall.results import read_results
from benchmarks.recall.system import NotAvailable, Options
from benchmarks.recall.task import Asked, Corpus
from tellback.memory import Memory

SCRIPTS = Path(asking.__file__).parent / "scripts"
CORPUS = Corpus("c", (Memory("The cello is old.", id="a"), Memory("It rained.", id="b")), ())
QUESTION = Asked("q", "cello", "all", {"a": 1})
SCRIPT = """
import sys
sys.path.insert(0, {scripts!r})
from serving import Unavailable, serve

class Memory:
    def __init__(self, folder):
        {opening}
    def fill(self, lines):
        self.lines = lines
        print("this stands among no answers")
    def ask(self, question, k):
        {asking}
        return [(id, 1.0) for id, text in self.lines if question in text][:k]

serve(Memory)
"""


def peer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, opening: str = "pass", asking_line: str = "pass"
) -> type[Peer]:
    monkeypatch.setattr(asking, "python_with", lambda package: Path(sys.executable))
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(scripts=str(SCRIPTS), opening=opening, asking=asking_line))
    return type("Own", (Peer,), {"package": "own==1", "script": str(path)})


def test_a_peer_is_filled_and_asked_in_its_own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = peer(tmp_path, monkeypatch)(tmp_path, Options())
    system.fill(CORPUS)
    assert system.ask(QUESTION, 5).hits == (("a", 1.0),)
    system.close()


@pytest.mark.parametrize(
    ("opening", "why"),
    [
        ("raise Unavailable('it needs a model')", "it needs a model"),
        ("sys.exit('gone')", "its process ended: gone"),
    ],
)
def test_a_peer_that_cannot_be_opened_is_not_available_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opening: str, why: str
) -> None:
    with pytest.raises(NotAvailable, match=why):
        peer(tmp_path, monkeypatch, opening=opening)(tmp_path, Options())


def test_a_question_that_a_peer_fails_at_is_an_error_and_the_next_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = peer(tmp_path, monkeypatch, asking_line="assert question != 'bad', 'it broke'")
    system = made(tmp_path, Options())
    system.fill(CORPUS)
    with pytest.raises(RuntimeError, match="AssertionError: it broke"):
        system.ask(Asked("q", "bad", "all", {}), 5)
    assert len(system.ask(QUESTION, 5).hits) == 1
    system.close()


def test_a_package_that_pip_cannot_find_is_not_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.platformdirs, "user_cache_path", lambda name: tmp_path)
    monkeypatch.setattr(
        environment.subprocess,
        "run",
        lambda words, **options: subprocess.CompletedProcess(words, int("pip" in words), "", "ERROR: No matching one"),
    )
    with pytest.raises(NotAvailable, match=r"peer==9 cannot be installed here: ERROR: No matching one"):
        environment.python_with("peer==9")
    assert not list(tmp_path.rglob("installed"))


@pytest.mark.slow
def test_a_peer_system_that_was_not_run_is_named_with_the_reason_and_has_no_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "memories.jsonl").write_text('{"id": "a", "text": "The cello is old."}\n')
    (tmp_path / "questions.jsonl").write_text('{"question": "Which cello?", "evidence": ["a"]}\n')
    out = tmp_path / "run.jsonl"
    words = ["--sets", "", "--folder", str(tmp_path), "--systems", "grep", "--peers", "basic-memory", "--no-footprint"]
    assert main(["recall", *words, "--out", str(out)]) == 0
    header = read_results(out).header
    assert list(header.systems) == ["grep"]
    assert list(header.not_run) == ["basic-memory"]
    assert "basic-memory: not run: basic-memory 0.24.1 needs Python 3.12" in capsys.readouterr().out
