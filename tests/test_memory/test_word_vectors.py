"""Vectors of single words.

Inner parts, on no face: ``tellback.memory.embedders.byte_pairs``, ``tellback.memory.embedders.local``,
``tellback.memory.embedders.protocol``, ``tellback.memory.embedders``.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tellback.memory import ArgumentError
from tellback.memory.embedders import local
from tellback.memory.embedders.byte_pairs import BytePairs, write_byte_pairs
from tellback.memory.embedders.local import TokenVectorTable, installed_table
from tellback.memory.embedders.protocol import WordVectors
from tellback.memory.internals import LocalWordVectors, local_available
from tellback.vectorstore import MissingExtra

needs_local = pytest.mark.skipif(not local_available(), reason="the extra 'local' is not installed")


@needs_local
def test_local_word_vectors_implement_the_word_vectors_protocol() -> None:
    vectors = LocalWordVectors()
    assert isinstance(vectors, WordVectors)
    assert vectors.words([]).shape == (0, vectors.dimension)
    assert vectors.words(["a"]).dtype == np.float32


@needs_local
def test_each_word_has_a_unit_vector_and_a_blank_has_none() -> None:
    rows = LocalWordVectors().words(["harbour", "Lisbon", "記憶", "", " ", "x" * 500])
    assert np.allclose(np.linalg.norm(rows, axis=1), [1, 1, 1, 0, 0, 1], atol=1e-5)


@needs_local
def test_related_words_are_nearer_than_unrelated_words() -> None:
    rows = LocalWordVectors().words(["dog", "puppy", "interest"])
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


@needs_local
def test_a_word_has_the_vector_of_the_text_with_a_space_before_it() -> None:
    assert np.array_equal(LocalWordVectors().words(["harbour"]), installed_table().means([" harbour"]))


@needs_local
def test_words_and_texts_share_one_table_and_have_different_fingerprints() -> None:
    from tellback.memory import LocalEmbedder

    assert LocalWordVectors()._table is LocalEmbedder()._table
    assert LocalWordVectors().fingerprint != LocalEmbedder().fingerprint


@needs_local
def test_word_vectors_of_an_invalid_word_raise() -> None:
    with pytest.raises(ArgumentError, match=r"words\[1\]"):
        LocalWordVectors().words(["fine", "\udfff"])


def table_files() -> tuple[Path, Path]:
    folder = local._wordllama_folder()
    assert folder is not None
    return folder / local._WEIGHTS_FILE, folder / local._TOKENIZER_FILE


def texts_of_many_scripts(count: int) -> list[str]:
    rng = random.Random(7)
    blocks = [(32, 126), (0xA0, 0x17F), (0x370, 0x4FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF), (0x1F300, 0x1FAFF), (9, 10)]
    letters = [chr(rng.randint(*rng.choice(blocks))) for _ in range(4_000)] + list("eeaaiioutnrsl   \u2581")
    texts = ["".join(rng.choices(letters, k=rng.randint(1, 40))) for _ in range(count // 2)]
    return texts + ["".join(rng.choices("eeaaiiouttnnrsldmc' ", k=rng.randint(1, 60))) for _ in range(count // 2)]


@needs_local
def test_short_texts_get_the_tokens_that_the_library_gives_them(tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    texts = texts_of_many_scripts(2_000)
    tokenizer = table_files()[1]
    write_byte_pairs(tmp_path, tokenizer)
    encodings = Tokenizer.from_file(str(tokenizer)).encode_batch(texts, add_special_tokens=False)
    assert BytePairs(tmp_path).encode(texts) == [encoding.ids for encoding in encodings]


@needs_local
def test_words_have_the_same_vectors_without_a_cache_and_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["Lisbon", "harbour", "<s>", "記憶", "x" * 500, "two words"]
    (tmp_path / "file").write_text("no folder can be made here")
    monkeypatch.setenv("TELLBACK_CACHE", str(tmp_path / "file"))
    by_library = LocalWordVectors(table=TokenVectorTable(*table_files())).words(words)
    monkeypatch.setenv("TELLBACK_CACHE", str(tmp_path / "cache"))
    kept = LocalWordVectors(table=TokenVectorTable(*table_files()))
    assert np.array_equal(np.concatenate([kept.words([word]) for word in words]), by_library)
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_without_the_extra_the_install_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    installed_table.cache_clear()
    with pytest.raises(MissingExtra, match="local"):
        LocalWordVectors()
