"""The figures that the recall benchmark prints, and its loaders on small texts."""

from math import log2
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.datasets import cranfield
from benchmarks.metrics import Answer, all_at, mrr, ndcg_at, recall_at

ANSWERS = [
    Answer("a", ("x", "y", "z"), {"y": 1, "q": 1}),
    Answer("a", ("x", "y", "z"), {"x": 1}),
    Answer("b", ("x", "y", "z"), {"q": 1}),
]


def test_recall_is_the_mean_share_of_evidence() -> None:
    assert recall_at(ANSWERS, 1) == pytest.approx((0 + 1 + 0) / 3)
    assert recall_at(ANSWERS, 2) == pytest.approx((0.5 + 1 + 0) / 3)
    assert recall_at([], 2) == 0.0


def test_all_at_k_is_the_share_of_questions_with_all_evidence_found() -> None:
    assert all_at(ANSWERS, 3) == pytest.approx(1 / 3)


def test_mrr_uses_the_rank_of_the_first_evidence() -> None:
    assert mrr(ANSWERS) == pytest.approx((1 / 2 + 1 + 0) / 3)


def test_ndcg_uses_the_grades() -> None:
    graded = [Answer("a", ("low", "none", "high"), {"high": 4, "low": 1})]
    assert ndcg_at(graded, 10) == pytest.approx((1 + 4 / log2(4)) / (4 + 1 / log2(3)))
    assert ndcg_at([Answer("a", ("high", "low"), {"high": 4, "low": 1})], 1) == 1.0


def test_cranfield_judgements_belong_to_the_queries_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "cranfield"
    folder.mkdir()
    (folder / "cran.all.1400").write_text(".I 1\n.T\nwings\n.A\nx\n.W\nof lift\n.I 2\n.T\n\n.W\n\n.I 3\n.W\nheat\n")
    (folder / "cran.qry").write_text(".I 001\n.W\nwhat lifts\n.I 004\n.W\nwhat heats\nup\n")
    (folder / "cranqrel").write_text("1 1 2\n1 2 1\n1 3 -1\n2 3 4\n")
    library = cranfield(tmp_path)
    assert library.documents == {"1": "wings\nof lift", "3": "heat"}
    assert [(question.text, question.evidence) for question in library.questions] == [
        ("what lifts", {"1": 3}),
        ("what heats up", {"3": 1}),
    ]


def test_a_missing_data_set_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["recall", "--data", str(tmp_path), "--sets", "locomo"])
    assert "locomo" in capsys.readouterr().err
