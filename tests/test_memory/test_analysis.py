"""Analysis of texts: kind of utterance, modality, change, topic, people; in several languages.

Inner parts, on no face: ``tellback.memory.analysis.texts``, ``tellback.memory.analysis.designations``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.memory.analysis.designations import contradicts
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


@pytest.mark.parametrize(
    ("question", "text", "is_another"),
    [
        ("What is the code of locker 70?", "The code of locker 7 is 4417.", True),
        ("What is the code of locker 7?", "Locker 7 has the code 4417.", False),
        ("Was ist in Karton Nr. 651?", "Karton 1517: Winterm\u00e4ntel", True),
        ("\u00bfQu\u00e9 hay en el casillero n\u00famero 7?", "casillero 70: botas", True),
        ("Le casier n\u00b0 7, c'est quel code ?", "le casier 70 s'ouvre avec 1234", True),
        ("What does the PX-1200 need?", "The PX-1300 needs toner A.", True),
        ("Wer wohnt in Zimmer 12a?", "Zimmer 12b hat Frau Klein.", True),
        ("Where is the key of room 12?", "The keys of room 12 and room 13 hang here.", False),
        ("Where was I in spring 2023?", "In spring 2024 I was in Rome.", False),
        ("Is the meeting at 9:30?", "The meeting is at 10:30.", False),
        ("What did the 3 planks cost?", "The planks cost 40 euros.", False),
    ],
)
def test_a_number_that_says_which_of_several_is_told_from_that_of_another(question, text, is_another) -> None:
    assert contradicts(question, text) == is_another


@pytest.mark.parametrize("text", ["", " ", "?", "\n\n", "a" * 50_000, "\ud83d", "\u0130n", "word " * 9_000])
def test_any_text_has_an_analysis(text: str) -> None:
    assert isinstance(analyze_text(text), AnalyzedText)
