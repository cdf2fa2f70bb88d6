"""Recall against the plain truth, the rows of a race, and summaries of samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.stores import clustered
from benchmarks.stores.data import KINDS, About, Data, id_of, write
from benchmarks.stores.measurement import measured
from benchmarks.stores.truth import Truth


@pytest.fixture
def line(tmp_path: Path) -> Data:
    """Ten rows on a quarter of a circle, the first the nearest to the query; rows 3 and 4 are one point."""
    angles = np.linspace(0, np.pi / 2, 10)
    angles[4] = angles[3]
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    write(
        tmp_path,
        About("line", 10, 2, 1, "by hand"),
        vectors=vectors,
        queries=vectors[:1],
        texts=[f"tëxt {number}" for number in range(10)],
        questions=["text"],
    )
    return Data(tmp_path)


def test_the_recall_of_a_search_is_the_share_of_the_true_nearest_rows(line: Data) -> None:
    truth = Truth(line, 1)
    assert truth.recall([[id_of(position) for position in (0, 1, 2)]], 3) == 1.0
    assert truth.recall([[id_of(position) for position in (0, 1, 9)]], 3) == pytest.approx(2 / 3)
    assert truth.recall([[]], 3) == 0.0
    assert truth.recall([[id_of(0)] * 3], 3) == pytest.approx(1 / 3)


def test_a_row_tied_with_the_last_true_neighbour_counts_as_found(line: Data) -> None:
    assert Truth(line, 1).recall([[id_of(position) for position in (0, 1, 2, 4)]], 4) == 1.0


def test_a_row_of_another_kind_is_no_answer_to_a_filter(line: Data) -> None:
    truth = Truth(line, 1)
    (rare,) = np.flatnonzero(line.kinds == KINDS.index("rare"))
    assert truth.recall([[id_of(int(rare))]], 10, "rare") == 1.0
    assert truth.recall([[id_of(int(rare) ^ 1)]], 10, "rare") == 0.0


def test_benchmark_rows_round_trip_through_their_files(line: Data) -> None:
    assert line.row(3).text == "tëxt 3"
    assert line.row(0).text == "tëxt 0"
    assert line.row(3, text=False).text == ""
    assert [len(batch) for batch in line.batches(4)] == [4, 4, 2]


@pytest.mark.slow
def test_made_up_rows_are_the_same_for_one_seed(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        clustered.make(tmp_path / name, n=60, d=16, seed=seed, queries=3)
    a, b, c = (Data(tmp_path / name) for name in "abc")
    assert np.array_equal(a.vectors, b.vectors)
    assert a.questions == b.questions
    assert not np.array_equal(a.vectors, c.vectors)
    assert np.allclose(np.linalg.norm(a.vectors, axis=1), 1, atol=1e-5)


@pytest.mark.slow
def test_real_benchmark_rows_have_distinct_texts_and_name_repeated_words(data_dir: Path, tmp_path: Path) -> None:
    from benchmarks.stores import real

    real.make(tmp_path, data_dir, n=500, seed=4, queries=8)
    rows = Data(tmp_path)
    texts = [rows.texts[number] for number in range(500)]
    assert len(set(texts)) == 500
    assert all(len(question.split()) == 6 for question in rows.questions)
    assert "no words repeated" in rows.about.made
    assert rows.queries.shape == (8, rows.about.d)


def test_a_measurement_has_the_median_of_each_round() -> None:
    given = measured("bare", "search", [[0.001, 0.002, 0.003], [0.010], []])
    assert (given.p50, given.rounds, given.count) == (2.5, (2.0, 10.0), 4)
    with pytest.raises(ValueError, match="needs a sample"):
        measured("bare", "search", [[]])
