"""Analysis of texts: kind of utterance, modality, change, topic, people; in several languages.

Inner parts, on no face: ``tellback.memory.analysis.texts``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.memory.analysis.texts import NOT_FACTUAL, AnalyzedText, Trait, analyze_text

TABLE = Path(__file__).parent / "languages" / "statements.txt"
ROWS = [
    [cell.strip() for cell in line.split("|")]
    for line in TABLE.read_text("utf-8").splitlines()
    if not line.startswith("#")
]
TOLD = NOT_FACTUAL | Trait.CHANGE


@pytest.mark.parametrize(("text", "subject", "traits", "relations"), ROWS, ids=[row[0] for row in ROWS])
def test_a_statement_has_its_subject_modality_and_relations(text, subject, traits, relations):
    analysis = analyze_text(text)
    found = {"": "self", None: "-"}.get(analysis.subject, analysis.subject)
    assert found == subject
    assert {trait.name.lower() for trait in TOLD & analysis.traits} == set(traits.split())
    assert " ".join(f"{each.kin} {each.name.lower()}" for each in analysis.relations) == relations


@pytest.mark.parametrize("text", ["", " ", "?", "\n\n", "a" * 50_000, "\ud83d", "\u0130n", "word " * 9_000])
def test_any_text_has_an_analysis(text: str) -> None:
    assert isinstance(analyze_text(text), AnalyzedText)
