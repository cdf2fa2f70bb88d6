"""Analysis of statements: subject, modality, change, relations; in English, German and Spanish.

Inner parts, on no face: ``memory.retrieval.languages.statements``, ``memory.retrieval.index.people``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memory.retrieval.index.people import PeopleMentions
from memory.retrieval.languages.statements import StatementFeature, analyze_statement, people_of

TABLE = Path(__file__).parent / "languages" / "statements.txt"
ROWS = [
    [cell.strip() for cell in line.split("|")]
    for line in TABLE.read_text("utf-8").splitlines()
    if not line.startswith("#")
]
TOLD = (
    StatementFeature.PLAN, StatementFeature.HYPOTHESIS, StatementFeature.QUOTATION, StatementFeature.HABIT,
    StatementFeature.CHANGE,
)  # fmt: skip


@pytest.mark.parametrize(("text", "subject", "features", "relations"), ROWS, ids=[row[0] for row in ROWS])
def test_statement_has_its_subject_modality_and_relations(text, subject, features, relations):
    analysis = analyze_statement(text)
    if analysis.features & StatementFeature.ABOUT_PERSON:
        found = analysis.people[0]
    else:
        found = "self" if analysis.features & StatementFeature.ABOUT_SELF else "-"
    assert found == subject
    assert {feature.name.lower() for feature in TOLD if feature & analysis.features} == set(features.split())
    assert analysis.relations == ((tuple(relations.split()),) if relations else ())


def test_people_of_a_question_are_names_and_kin_words_in_one_form():
    assert people_of("Where does Mum's friend Rolf work, and what did Ana say to Papa?") == (
        "mother", "friend", "rolf", "ana", "father",
    )  # fmt: skip


def test_relations_lead_from_kin_to_name_and_back_but_not_from_one_sister_to_the_other():
    people = PeopleMentions()
    people.extend(["sister ana", "sister eva", "ana"], np.arange(3), np.arange(3), np.zeros(3, dtype=np.bool_))
    assert people.with_relations(["sister"]) == {"sister", "ana", "eva"}
    assert people.with_relations(["ana"]) == {"sister", "ana"}
    assert "ana" in people
    people.remove(0)
    people.remove(2)
    assert people.with_relations(["sister"]) == {"sister", "eva"}
    assert "ana" not in people
