"""The questions over technical documentation: the file is whole, and an answer is judged by its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.documents.technical import FIGURES, FOLDERS, HALVES, judge, technical_questions


def test_the_questions_are_sixty_over_four_documentations_in_halves():
    questions = technical_questions()
    assert len(questions) == 60
    assert {question.documentation for question in questions} == set(FOLDERS)
    assert [sum(question.half == half for question in questions) for half in HALVES] == [30, 30]
    assert all(question.answers and all(answer for answer in question.answers) for question in questions)


def test_an_answer_is_judged_by_words_whatever_stands_between_them():
    question = next(question for question in technical_questions() if "http.server" in question.text)
    right = "The server *listens* to\n port `8000` by default."
    figures = judge(question, ["other", right], [right])
    assert tuple(figures.values()) == (True, True, False, True, True)
    assert not any(judge(question, ["The port is 18000 by default."], []).values())


def test_the_picture_of_the_figures_is_small_and_has_colours_for_light_and_dark(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from benchmarks.documents.plot import draw

    figures = dict.fromkeys(FIGURES, 0.5)
    draw([{"documentation": name, **dict.fromkeys(HALVES, figures)} for name in ("", *FOLDERS)], tmp_path / "p.svg")
    picture = (tmp_path / "p.svg").read_text()
    assert "prefers-color-scheme:dark" in picture
    assert ">postgresql<" in picture
    assert len(picture) < 60_000
