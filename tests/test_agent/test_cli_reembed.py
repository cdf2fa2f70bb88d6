"""``tellback reembed`` and the choice of an embedder: with a server on loopback that embeds, fails and falls silent.

Inner parts, on no face: ``tellback.memory.embedders.probe_pairs``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest

from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.assistant.config import AssistantSettings, ConfigurationError
from tellback.agent.assistant.config_file import write_settings
from tellback.agent.assistant.wiring import make_embedder
from tellback.agent.testing import OllamaServer, RawReply, RecordedRequest
from tellback.memory import HashingEmbedder, OllamaEmbedder, OpenAICompatibleEmbedder, run_sync
from tellback.memory.embedders.probe_pairs import PROBE_TEXTS
from tests.support.slow import first_fast
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
TELLBACK = [sys.executable, "-c", "from tellback.agent.assistant.cli import main; main()"]
KEYS = {"before", "space", "embedded", "without", "truncated", "switched", "already"}


class EmbeddingServer(OllamaServer):
    """Embeds by hashing, each model at another length; after ``allowed`` texts it refuses or is ``silent``.

    Of a text above ``longest`` characters it reads the beginning alone, where it may.
    """

    def __init__(self) -> None:
        super().__init__(models=("one", "two"))
        self.allowed = self.longest = 10**9
        self.silent = False
        self.turned = False
        self.texts: list[str] = []
        self.asked = threading.Semaphore(0)

    def answer(self, seen: RecordedRequest) -> RawReply:
        if not seen.path.endswith("/api/embed"):
            return super().answer(seen)
        texts = seen.body["input"]
        self.asked.release()
        if len(self.texts) + len(texts) > self.allowed and len(texts) != 3:  # the probes are three
            return RawReply([600.0]) if self.silent else RawReply([b'{"error": "no more"}'], 403, "application/json")
        if not seen.body["truncate"] and any(len(text) > self.longest for text in texts):
            return RawReply([b'{"error": "the input exceeds the context length"}'], 400, "application/json")
        self.texts.extend(texts if len(texts) != 3 else [])
        rows = run_sync(HashingEmbedder(dimension=32 if seen.body["model"] == "one" else 48).embed(texts))
        answer = {"embeddings": (rows[:, ::-1] if self.turned else rows).astype(float).tolist()}
        return RawReply([json.dumps(answer).encode()], 200, "application/json")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as made:
        monkeypatch.setenv("OLLAMA_HOST", made.url)
        monkeypatch.setenv("TELLBACK_EMBEDDER", "ollama:one")
        yield made


@pytest.fixture
def tellback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def called(*arguments: str) -> SimpleNamespace:
        capsys.readouterr()
        code = run_command_line(["--memory", str(tmp_path / "m.db"), *arguments])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err, json=json.loads(out) if out.startswith("{") else None)

    return called


def remembered(tellback: Any, tmp_path: Path, count: int = 4) -> None:
    (tmp_path / "notes.txt").write_text("The archive is in Turin.")
    assert tellback("remember", "The archive is in Turin.").code == 0
    for number in range(count - 1):
        assert tellback("remember", f"Note number {number} about the harbour.").code == 0


@pytest.mark.slow
def test_an_import_reports_how_many_embedded_texts_were_truncated(server, tellback, tmp_path) -> None:
    remembered(tellback, tmp_path)
    assert tellback("remember", "A long story of the harbour. " * 20).code == 0
    assert tellback("export", str(tmp_path / "a.jsonl"), "--no-vectors").code == 0
    server.longest = 200
    took = tellback("--memory", str(tmp_path / "n.db"), "import", str(tmp_path / "a.jsonl"))
    assert "  embedded: 5, 1 of them cut\n" in took.out
    took = tellback("--memory", str(tmp_path / "o.db"), "import", str(tmp_path / "a.jsonl"), "--json").json
    assert (took["embedded"], took["truncated"]) == (5, 1)


@pytest.mark.slow
def test_reembed_migrates_all_entries_to_the_configured_embedder(server, tellback, tmp_path, monkeypatch) -> None:
    remembered(tellback, tmp_path)
    monkeypatch.setenv("TELLBACK_EMBEDDER", "ollama:two")
    found = tellback("recall", "Where is the archive?", "--json").json
    assert found["hits"][0]["text"] == "The archive is in Turin."
    assert any("words alone" in note and "re-embed the memory" in note for note in found["notes"])
    waits = tellback("remember", "The library is in Milan.", "--json").json
    assert "re-embed the memory" in waits["deferred"]
    done = tellback("reembed", "--json")
    assert done.code == 0
    assert set(done.json) == KEYS
    assert done.json["before"] == "ollama/one/full/unit"
    assert done.json["space"] == "ollama/two/full/unit"
    assert (done.json["embedded"], done.json["switched"], done.json["already"]) == (5, True, False)
    assert tellback("recall", "Where is the library?", "--json").json["notes"] == []
    again = tellback("reembed")
    assert (again.code, again.out) == (0, "nothing to do: everything has vectors of ollama/two/full/unit\n")
    assert tellback("reembed", "--again", "--json").json["embedded"] == 5


@pytest.mark.slow
def test_reembed_resumes_after_a_failed_space_migration(server, tellback, tmp_path, monkeypatch) -> None:
    remembered(tellback, tmp_path, 1)
    (tmp_path / "lines.txt").write_text("\n\n".join(f"Paragraph {n} is about boat {n}. " * 40 for n in range(400)))
    assert tellback("ingest", str(tmp_path / "lines.txt")).code == 0
    entries = len(set(server.texts)) - len(PROBE_TEXTS)
    assert entries > 300
    monkeypatch.setenv("TELLBACK_EMBEDDER", "ollama:two")
    server.texts.clear()
    server.allowed = 300
    failed = tellback("reembed")
    assert failed.code == 4
    assert "no more" in failed.err
    checks = {check["name"]: check for check in tellback("doctor", "--json").json["checks"]}
    assert checks["re-embedding"]["seen"].startswith(f"257 of {entries} ")
    assert "--abandon" in checks["re-embedding"]["remedy"]
    server.texts.clear()
    server.allowed = 10**9
    done = tellback("reembed")
    assert (done.code, done.out) == (0, f"{entries - 257} entries embedded with ollama/two/full/unit\n")
    assert len(server.texts) == entries - 257


@pytest.mark.slow
def test_reembed_abandon_drops_an_unswitched_space_migration(server, tellback, tmp_path, monkeypatch) -> None:
    remembered(tellback, tmp_path)
    assert tellback("reembed", "--abandon").out == "no re-embedding was under way\n"
    monkeypatch.setenv("TELLBACK_EMBEDDER", "ollama:two")
    kept = tellback("reembed", "--no-switch")
    assert "ollama/one/full/unit is still in use" in kept.out
    monkeypatch.setenv("TELLBACK_EMBEDDER", "ollama:one")
    assert tellback("recall", "archive", "--json").json["notes"] == []
    assert tellback("reembed", "--abandon", "--json").json == {"abandoned": True}
    assert tellback("recall", "archive", "--json").json["notes"] == []
    assert tellback("reembed", "--abandon", "--again").code == 2


@pytest.mark.slow
def test_an_interrupted_reembed_keeps_the_vectors_made_so_far(server, tellback, tmp_path, monkeypatch) -> None:
    remembered(tellback, tmp_path, 1)
    (tmp_path / "lines.txt").write_text("\n\n".join(f"Paragraph {n} is about boat {n}. " * 40 for n in range(400)))
    assert tellback("ingest", str(tmp_path / "lines.txt")).code == 0
    entries = len(set(server.texts))
    server.texts.clear()
    server.allowed, server.silent = 300, True
    while server.asked.acquire(blocking=False):
        pass
    child = subprocess.Popen(
        [*TELLBACK, "--memory", str(tmp_path / "m.db"), "reembed", "--json"],
        cwd=ROOT,
        env={**os.environ, "TELLBACK_EMBEDDER": "ollama:two"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(1 + 1 + 4 + 1):  # the probes, the note, a batch of 256 in four, and one that is never answered
        assert server.asked.acquire(timeout=300)
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=300)
    assert (child.returncode, out) == (130, "")
    assert "the same command goes on" in err
    server.allowed = 10**9
    monkeypatch.setenv("TELLBACK_EMBEDDER", "ollama:two")
    assert 0 < tellback("reembed", "--json").json["embedded"] <= entries - 257


def test_doctor_reports_an_embedder_changed_under_its_name_and_reembed_repairs_it(server, tellback, tmp_path) -> None:
    remembered(tellback, tmp_path)
    checks = {check["name"]: check for check in tellback("doctor", "--json").json["checks"]}
    assert checks["embedder in use"]["seen"] == "ollama/one/full/unit, as when the file was filled"
    server.turned = True
    doctor = tellback("doctor", "--json")
    checks = {check["name"]: check for check in doctor.json["checks"]}
    assert not checks["embedder in use"]["fine"]
    assert "changed under the same name" in checks["embedder in use"]["seen"]
    assert "tellback reembed" in checks["embedder in use"]["remedy"]
    assert doctor.code == 2
    assert tellback("reembed", "--json").json["switched"]
    assert tellback("doctor").code == 0


@pytest.mark.slow
def test_the_embedding_cache_embeds_a_repeated_text_once_and_forgets_it_with_its_memory(
    server, tellback, tmp_path, monkeypatch
) -> None:
    text = "The archive is in Turin."
    first = tellback("remember", text, "--json").json
    tellback("--namespace", "other", "remember", text)
    assert server.texts == [text, text]
    monkeypatch.setenv("TELLBACK_EMBEDDING_CACHE", "5")
    for namespace in ("a", "b", "c"):
        assert tellback("--namespace", namespace, "remember", text).code == 0
    assert server.texts == [text] * 3
    assert "embedding cache" in tellback("doctor").out
    assert " MB of vectors of at most 5.0 MB" in tellback("doctor").out
    monkeypatch.delenv("TELLBACK_EMBEDDING_CACHE")
    assert " MB of vectors of passages of long memories, and from before" in tellback("doctor").out
    kept = "SELECT COUNT(*) FROM embedding_cache WHERE kind = 'document'"
    assert apsw.Connection(str(tmp_path / "m.db")).execute(kept).get == 1
    assert tellback("forget", first["id"], "--yes").code == 0
    assert apsw.Connection(str(tmp_path / "m.db")).execute(kept).get == 0


@pytest.mark.parametrize("size", ["-1", "much", "1.5"])
def test_an_invalid_embedding_cache_size_is_a_configuration_error(tellback, monkeypatch, size: str) -> None:
    monkeypatch.setenv("TELLBACK_EMBEDDING_CACHE", size)
    done = tellback("memories", "stats")
    assert done.code == 2
    assert "embedding_cache (from TELLBACK_EMBEDDING_CACHE)" in done.err


def test_reembed_without_an_embedder_is_refused(tellback, monkeypatch) -> None:
    monkeypatch.setenv("TELLBACK_EMBEDDER", "none")
    tellback("remember", "one")
    refused = tellback("reembed")
    assert refused.code == 2
    assert "no embedder is set" in refused.err
    assert "no embedder is configured" in tellback("recall", "one", "--json").json["notes"][0]


def test_reembed_without_a_memory_file_creates_none(tellback, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TELLBACK_EMBEDDER", "none")
    assert tellback("reembed").code == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_reembed_shows_a_progress_bar_on_a_terminal(server, tellback, tmp_path) -> None:
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    remembered(tellback, tmp_path)
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [*TELLBACK, "--memory", str(tmp_path / "m.db"), "reembed"],
        cwd=ROOT,
        env={**os.environ, "TELLBACK_EMBEDDER": "ollama:two", "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # Linux ends a terminal that way
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert child.communicate(timeout=300)[0] == "4 entries embedded with ollama/two/full/unit\n"
    assert b"embedding" in shown
    assert b"4/4" in shown


@pytest.mark.parametrize(
    ("settings", "kind", "fingerprint"),
    [
        (AssistantSettings(embedder="ollama:nomic"), OllamaEmbedder, "ollama/nomic/full/unit"),
        (AssistantSettings(embedder="ollama:nomic:v1.5"), OllamaEmbedder, "ollama/nomic:v1.5/full/unit"),
        (AssistantSettings(embedder="ollama", embedding_model="e"), OllamaEmbedder, "ollama/e/full/unit"),
        (
            AssistantSettings(embedder="openai:e", api_key="sk-a"),
            OpenAICompatibleEmbedder,
            "openai-compatible/e/full/unit",
        ),
    ],
)
def test_the_embedder_setting_chooses_the_embedder_by_name(
    settings: AssistantSettings, kind: type, fingerprint: str
) -> None:
    made = make_embedder(settings, None)
    assert type(made) is kind
    assert made.fingerprint == fingerprint
    assert "sk-a" not in repr(made)


def test_an_ollama_embedder_uses_its_own_endpoint_and_no_foreign_key(server, tellback, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    assert tellback("remember", "one").code == 0
    assert {request.path for request in server.requests} == set()
    settings = AssistantSettings(embedder="ollama:e", api_key="sk-canary", embedding_base_url="http://127.0.0.1:5/v1")
    assert settings.embedding_endpoint == "http://127.0.0.1:5"
    assert settings.embedding_key is None
    assert AssistantSettings(embedder="ollama:e").embedding_endpoint == "http://127.0.0.1:11434"


def test_an_onnx_model_in_a_folder_is_an_embedder_and_its_missing_file_is_named(
    tellback, tmp_path, monkeypatch
) -> None:
    pytest.importorskip("fastembed", reason="the extra `encoder` is not installed")
    from tests.support.onnx_models import write_embedding_model

    monkeypatch.setenv("TELLBACK_EMBEDDER", "none")
    assert tellback("remember", "The archive is in Turin.").code == 0
    folder = write_embedding_model(tmp_path / "model")
    monkeypatch.setenv("TELLBACK_EMBEDDER", f"onnx:{folder}")
    assert tellback("reembed", "--json").json["space"].startswith("onnx/")
    assert "Turin" in tellback("recall", "Where is the archive?").out
    (folder / "tokenizer.json").unlink()
    failed = tellback("recall", "Where is the archive?")
    assert failed.code == 2
    assert "tokenizer.json" in failed.err


@pytest.mark.parametrize("in_background", first_fast([False, True]))
def test_an_embedder_is_chosen_by_one_command_and_left_again_by_the_same(
    tellback, tmp_path, monkeypatch, in_background
) -> None:
    pytest.importorskip("fastembed", reason="the extra `encoder` is not installed")
    from tests.support.onnx_models import write_embedding_model

    write_settings(tmp_path / "config.toml", {"embedder": "static"})
    monkeypatch.setenv("TELLBACK_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("TELLBACK_EMBEDDER", raising=False)
    assert tellback("remember", "The archive is in Turin.").code == 0
    before, folder = tellback("doctor").out, str(write_embedding_model(tmp_path / "model"))
    chosen = tellback("config", "embedder", folder)
    assert "1 entry embedded with onnx/" in chosen.out
    assert "the way back: tellback config embedder static" in chosen.err
    assert tellback("config", "get", "embedder").out == f"onnx:{folder}\n"
    assert "Turin" in tellback("recall", "Where is the archive?").out
    left = tellback("config", "embedder", "static", *(["--background"] if in_background else []))
    assert ("in the background" in left.out) is in_background
    assert wait_until(lambda: tellback("config", "get", "embedder").out == "static\n")
    assert [line for line in tellback("doctor").out.splitlines() if "embedder:" in line] == [
        line for line in before.splitlines() if "embedder:" in line
    ]


def test_a_model_that_cannot_be_used_leaves_the_memory_and_its_setting(tellback, tmp_path, monkeypatch) -> None:
    pytest.importorskip("fastembed", reason="the extra `encoder` is not installed")
    write_settings(tmp_path / "config.toml", {"embedder": "static"})
    monkeypatch.setenv("TELLBACK_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.delenv("TELLBACK_EMBEDDER", raising=False)
    assert tellback("remember", "The archive is in Turin.").code == 0
    failed = tellback("--offline", "config", "embedder", "BAAI/bge-small-en-v1.5")
    assert (failed.code, "offline" in failed.err) == (2, True)
    assert "no such folder" in tellback("config", "embedder", "nobody/knows-it").err
    assert tellback("config", "get", "embedder").out == "static\n"
    assert "Turin" in tellback("recall", "Where is the archive?").out


def test_the_list_of_stronger_embedders_names_size_licence_and_languages(tellback, monkeypatch, tmp_path) -> None:
    pytest.importorskip("fastembed", reason="the extra `encoder` is not installed")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    models = {model.pop("name"): model for model in tellback("config", "embedder", "--json").json["models"]}
    assert models["BAAI/bge-small-en-v1.5"] == {
        "gigabytes": 0.067, "licence": "mit", "languages": "English", "here": False,
    }  # fmt: skip
    assert len(models) == 7
    assert not [name for name, model in models.items() if model["licence"] not in ("mit", "apache-2.0")]


def test_a_missing_extra_of_an_embedder_prints_its_install_line(tellback, monkeypatch) -> None:
    pytest.importorskip("fastembed", reason="the extra `encoder` is not installed")
    from tellback.memory.onnx import model_files

    monkeypatch.setattr(model_files, "find_spec", lambda name: None)
    assert "encoder]" in tellback("config", "embedder").err


def test_a_configured_reranker_scores_the_hits_of_a_recall(tellback, tmp_path, monkeypatch) -> None:
    pytest.importorskip("fastembed", reason="the extra `encoder` is not installed")
    from tests.support.onnx_models import write_reranking_model

    for text in ("The mill has a wheel.", "The mill sells honey, honey and honey.", "A mill is near the church."):
        assert tellback("remember", text).code == 0
    monkeypatch.setenv("TELLBACK_RERANKER", f"onnx:{write_reranking_model(tmp_path / 'words', ['honey'])}")
    shown = tellback("recall", "What of the mill and its honey?", "--explain").out
    assert "rerank" in shown.split("\n2. ")[0]
    monkeypatch.setenv("TELLBACK_RERANKER", f"onnx:{tmp_path}")
    checked = tellback("doctor")
    assert checked.code == 2
    assert "BAD  settings: reranker onnx:" in checked.out
    monkeypatch.setenv("TELLBACK_RERANKER", "magic")
    assert "'onnx:MODEL'" in tellback("recall", "mill").err


def test_a_named_onnx_model_is_downloaded_by_reembed_alone_and_never_offline(tellback, monkeypatch) -> None:
    pytest.importorskip("fastembed", reason="the extra `encoder` is not installed")
    monkeypatch.setenv("TELLBACK_EMBEDDER", "onnx:BAAI/bge-small-en-v1.5")
    assert "`tellback reembed --download`" in tellback("remember", "one").err
    assert "offline" in tellback("--offline", "reembed", "--download").err
    monkeypatch.setenv("TELLBACK_EMBEDDER", "none")
    assert "onnx:MODEL" in tellback("reembed", "--download").err
    assert tellback("reembed", "--download", "--abandon").code == 2


@pytest.mark.parametrize("given", ["magic", "local:x", "none:x", "ollama:", "onnx:", "openai: ", ":e", ""])
def test_an_unknown_embedder_is_a_configuration_error(given: str) -> None:
    with pytest.raises(ValueError, match="'ollama:MODEL'"):
        AssistantSettings(embedder=given)


def test_an_endpoint_without_a_model_says_what_is_missing() -> None:
    with pytest.raises(ConfigurationError, match="ollama:MODEL"):
        make_embedder(AssistantSettings(embedder="ollama"), None)


def test_offline_a_remote_embedder_is_not_called_and_the_text_is_still_stored(tellback, monkeypatch) -> None:
    monkeypatch.setenv("TELLBACK_EMBEDDER", "ollama:one")
    monkeypatch.setenv("OLLAMA_HOST", "192.0.2.1")
    report = tellback("--offline", "remember", "one", "--json").json
    assert report["outcome"] == "stored"
    assert "offline" in report["deferred"]
    assert tellback("--offline", "reembed").code == 4
