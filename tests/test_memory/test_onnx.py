"""ONNX models: the embedder and the cross-encoder, over tiny models made here; the quality of real ones is not tested.

The face is ``tellback.memory.onnx``; a missing extra is played on the inner ``tellback.memory.onnx.model_files``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellback.memory import ArgumentError, EmbedderError, HashingEmbedder, Memory, RecallHooks, open_memory
from tellback.memory import run_sync as run
from tellback.memory.onnx import OnnxEmbedder, OnnxReranker, model_files
from tellback.memory.testing import EmbedderContract
from tellback.vectorstore import MissingExtra

pytest.importorskip("fastembed", reason="the extra `encoder` is not installed")
pytest.importorskip("onnx", reason="the extra `dev` makes the models")

from tests.support.onnx_models import TOKEN_LIMIT, byte_vectors, write_embedding_model, write_reranking_model

TEXT = "Ana keeps bees."
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_embedding_model(tmp_path_factory.mktemp("models") / "bytes")


@pytest.fixture
def own(folder: Path, tmp_path: Path) -> Path:
    """A copy of the folder that a test may change."""
    return Path(shutil.copytree(folder, tmp_path / "own"))


class TestOnnxEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self, folder: Path) -> OnnxEmbedder:
        return OnnxEmbedder(folder)


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content))


def vector_of(embedder: OnnxEmbedder, text: str = TEXT, **options: Any) -> np.ndarray:
    return np.asarray(run(embedder.embed([text, f"a longer text, so that there is padding: {text}"], **options))[0])


def test_pooling_is_the_given_else_the_recorded_else_that_of_the_model_output(own: Path, tmp_path: Path) -> None:
    tokens = byte_vectors(own, TEXT)
    pooled = {"mean": tokens.mean(axis=0), "cls": tokens[0], "last": tokens[-1]}
    unit = {name: vector / np.linalg.norm(vector) for name, vector in pooled.items()}
    for pooling, expected in unit.items():
        assert np.allclose(vector_of(OnnxEmbedder(own, pooling=pooling)), expected, atol=1e-6)
    assert np.allclose(vector_of(OnnxEmbedder(own)), unit["mean"], atol=1e-6)
    write_json(own / "1_Pooling" / "config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False})
    assert np.allclose(vector_of(OnnxEmbedder(own)), unit["cls"], atol=1e-6)
    for outputs in (["sentence_embedding"], ["last_hidden_state", "sentence_embedding"]):
        pools = write_embedding_model(tmp_path / str(len(outputs)), outputs=outputs)
        (alone,) = run(OnnxEmbedder(pools).embed([TEXT]))
        largest = tokens.max(axis=0)
        assert np.allclose(alone, largest / np.linalg.norm(largest), atol=1e-6)


def test_prefixes_are_those_given_or_those_recorded_in_the_folder(own: Path) -> None:
    plain = OnnxEmbedder(own)
    given = OnnxEmbedder(own, query_prefix="q: ", document_prefix="d: ")
    write_json(own / "config_sentence_transformers.json", {"prompts": {"query": "q: ", "document": "d: "}})
    recorded, none = OnnxEmbedder(own), OnnxEmbedder(own, query_prefix="", document_prefix="")
    for embedder in (given, recorded):
        assert np.allclose(vector_of(embedder, kind="query"), vector_of(plain, f"q: {TEXT}"), atol=1e-6)
        assert np.allclose(vector_of(embedder), vector_of(plain, f"d: {TEXT}"), atol=1e-6)
    assert np.allclose(vector_of(none, kind="query"), vector_of(plain), atol=1e-6)
    assert given.fingerprint == recorded.fingerprint != none.fingerprint == plain.fingerprint


def test_the_fingerprint_depends_on_the_files_and_not_on_the_folder_path(own: Path, tmp_path: Path) -> None:
    before = OnnxEmbedder(own).fingerprint
    assert OnnxEmbedder(own.rename(tmp_path / "moved")).fingerprint == before
    assert OnnxEmbedder(write_embedding_model(tmp_path / "other", seed=8)).fingerprint != before


def test_the_fingerprint_of_a_large_model_samples_the_whole_file(own: Path) -> None:
    weights = np.random.default_rng(1).bytes(9_000_000)
    marks = set()
    for content in (weights, b"x" + weights[1:], weights[:-1] + b"x", weights[:4_500_000] * 2, weights[:-1]):
        (own / "model.onnx").write_bytes(content)
        marks.add(OnnxEmbedder(own).fingerprint)
    assert len(marks) == 5


def test_a_text_over_the_token_limit_of_the_model_is_reported_as_truncated(folder: Path) -> None:
    answer = run(OnnxEmbedder(folder).embed_detailed(["a" * TOKEN_LIMIT, "a" * 5000, "a" * (TOKEN_LIMIT + 1)]))
    assert {index: (cut.kept, cut.of) for index, cut in answer.truncated.items()} == {
        1: (TOKEN_LIMIT, 5000),
        2: (TOKEN_LIMIT, TOKEN_LIMIT + 1),
    }


@pytest.mark.parametrize("kind", [OnnxEmbedder, OnnxReranker])
@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda folder: (folder / "model.onnx").unlink(), "model.onnx"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "tokenizer.json"),
        (lambda folder: (folder / "tokenizer_config.json").unlink(), "tokenizer_config.json"),
        (lambda folder: (folder / "tokenizer_config.json").write_text("{}"), "model_max_length"),
        (shutil.rmtree, "no such folder"),
    ],
)
def test_a_folder_without_a_usable_model_is_refused_with_the_reason(
    own: Path, kind: Any, damage: Callable[[Path], object], named: str
) -> None:
    damage(own)
    with pytest.raises(ArgumentError, match=named):
        kind(own)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"pooling": "max"}, "pooling"),
        ({"query_prefix": 1}, "query_prefix"),
        ({"threads": 0}, "threads"),
        ({"file": "other.onnx"}, "other.onnx"),
    ],
)
def test_an_invalid_option_is_refused_by_name(folder: Path, options: dict[str, Any], named: str) -> None:
    with pytest.raises(ArgumentError, match=named):
        OnnxEmbedder(folder, **options)


def test_a_damaged_model_is_an_embedder_error_and_its_text_is_pending(own: Path, tmp_path: Path) -> None:
    (own / "model.onnx").write_bytes(b"no model")
    with pytest.raises(EmbedderError, match="own"):
        run(OnnxEmbedder(own).embed(["a text"]))
    memory = open_memory(tmp_path / "m.db", embedder=OnnxEmbedder(own))
    assert "failed" in str(run(memory.remember("The archive is in Turin.")).deferred)
    run(memory.close())


def test_the_telemetry_of_the_runtime_is_disabled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    stopped: list[str] = []
    monkeypatch.setattr(onnxruntime, "disable_telemetry_events", lambda: stopped.append("events"))
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    OnnxEmbedder(folder)
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    assert stopped == ["events"]


@pytest.mark.slow
def test_a_process_that_embeds_leaves_no_device_id_and_no_queue_of_events(folder: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from tellback.memory import run_sync; from tellback.memory.onnx import OnnxEmbedder\n"
        "run_sync(OnnxEmbedder(sys.argv[1]).embed(['a text']))"
    )
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "ORT_DISABLE_TELEMETRY")}
    command = [sys.executable, "-c", program, str(folder)]
    subprocess.run(command, env=kept | {"HOME": str(tmp_path)}, cwd=ROOT, check=True, timeout=120)
    assert [path for path in tmp_path.rglob("*") if path.name in ("deviceid", "onnxruntime.db")] == []


def test_a_missing_extra_is_named_in_the_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_files, "find_spec", lambda name: None)
    for kind in (OnnxEmbedder, OnnxReranker):
        with pytest.raises(MissingExtra, match=r"pip install .*\[encoder\]"):
            kind(folder)


NAME, REPOSITORY, FILE = "BAAI/bge-small-en-v1.5", "models--Qdrant--bge-small-en-v1.5-onnx-Q", "model_optimized.onnx"


def test_a_named_model_is_taken_from_the_cache_and_fetched_only_when_asked(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELLBACK_CACHE", str(tmp_path))
    monkeypatch.delenv("FASTEMBED_CACHE_PATH", raising=False)
    with pytest.raises(EmbedderError, match=r"fetch it \(.* GB, licence mit\)"):
        OnnxEmbedder(NAME)
    repository = tmp_path / "models" / REPOSITORY
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("a1b2")
    shutil.copytree(folder, repository / "snapshots" / "a1b2")
    (repository / "snapshots" / "a1b2" / "model.onnx").rename(repository / "snapshots" / "a1b2" / FILE)
    embedder = OnnxEmbedder(NAME)
    first = byte_vectors(folder, TEXT)[0]  # this model takes the vector of the first token
    assert np.allclose(vector_of(embedder), first / np.linalg.norm(first), atol=1e-6)
    assert embedder.fingerprint.startswith(f"onnx/{NAME}/")
    assert np.allclose(
        vector_of(embedder, kind="query"),
        byte_vectors(folder, "R")[0] / np.linalg.norm(byte_vectors(folder, "R")[0]),
        atol=1e-6,
    )  # "Represent this sentence …"
    with pytest.raises(ArgumentError, match="has its own"):
        OnnxEmbedder(NAME, pooling="mean")


def test_a_memory_is_embedded_anew_with_an_onnx_model_and_sensitive_texts_too(folder: Path, tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.db", embedder=HashingEmbedder(dimension=32))
    run(memory.remember_many(["The archive is in Turin.", Memory("The library is in Milan.", sensitive=True)]))
    report = run(memory.reembed(OnnxEmbedder(folder)))
    assert (report.embedded, report.without, report.switched) == (2, 0, True)
    run(memory.close())
    memory = open_memory(tmp_path / "m.db", embedder=OnnxEmbedder(folder))
    found = run(memory.recall("Where is the archive?", explain=True))
    assert found[0].memory.text == "The archive is in Turin."
    assert found.notes == ()
    run(memory.close())


WORDS = ["bees", "honey", "mill", "sister", "kestrel", "tower"]
TEXTS = ["My sister keeps bees.", "The kestrel nests in the tower.", "Honey is sold by the mill."]


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_reranking_model(tmp_path_factory.mktemp("models") / "words", WORDS)


def test_a_reranker_scores_each_text_with_the_question_within_its_limits(cross_encoder: Path) -> None:
    reranker = OnnxReranker(cross_encoder)
    texts = ["no word", "bees and honey , honey", "honey", "", "tower " * 50 + "bees"]
    assert reranker("bees honey", texts) == [0, 3, 1, 0, 1]
    assert reranker("bees honey", []) == []
    assert OnnxReranker(cross_encoder, text_characters=8)("bees honey", texts) == [0, 1, 1, 0, 0]
    assert reranker("bees " + " " * 1000 + "honey", texts) == [0, 1, 0, 0, 1]  # of the question 1,000 characters count
    with pytest.raises(ArgumentError, match="text_characters"):
        OnnxReranker(cross_encoder, text_characters=0)


def test_recall_uses_the_onnx_reranker_and_continues_without_it_when_it_fails(
    cross_encoder: Path, tmp_path: Path
) -> None:
    memory = open_memory(tmp_path / "m.db", embedder=HashingEmbedder(dimension=64))
    run(memory.remember_many(TEXTS))
    question = "Who lives in the tower, who sells at the mill?"
    hooks = RecallHooks(rerank=lambda asked, texts: OnnxReranker(cross_encoder)("mill", texts), share=1.0)
    found = run(memory.recall(question, hooks=hooks, explain=True))
    assert found[0].memory.text == TEXTS[2]
    assert found[0].parts["rerank"] > 0
    broken = Path(shutil.copytree(cross_encoder, tmp_path / "broken"))
    (broken / "model.onnx").write_bytes(b"no model")
    found = run(memory.recall(question, hooks=RecallHooks(rerank=OnnxReranker(broken))))
    assert len(found) >= 2
    assert any(note.startswith("rerank left out:") for note in found.notes)
    run(memory.close())
