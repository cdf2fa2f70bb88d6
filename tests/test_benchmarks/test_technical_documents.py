"""The questions over technical documentation: the file is whole, and an answer is judged by its words."""

from __future__ import annotations

from benchmarks.documents.technical import FOLDERS, HALVES, judge, technical_questions


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
