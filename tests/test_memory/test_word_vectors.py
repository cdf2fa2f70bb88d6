"""Vectors of single words.

Inner parts, on no face: ``tellback.memory.embedders.local``,
``tellback.memory.embedders.protocol``, ``tellback.memory.embedders``.
"""

from __future__ import annotations

import numpy as np
import pytest

from tellback.memory import ArgumentError
from tellback.memory.embedders import local
from tellback.memory.embedders.local import LocalWordVectors, installed_table
from tellback.memory.embedders.protocol import WordVectors
from tellback.memory.internals import local_available
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


def test_without_the_extra_the_install_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    installed_table.cache_clear()
    with pytest.raises(MissingExtra, match="local"):
        LocalWordVectors()
