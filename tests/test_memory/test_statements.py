"""Analysis of statements: subject, modality, change, relations; in English, German and Spanish.

Inner parts, on no face: ``tellback.memory.retrieval.languages.statements``,
``tellback.memory.retrieval.languages.statement_patterns``, ``tellback.memory.retrieval.languages.prefilter``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.memory.retrieval.languages.prefilter import PatternPrefilter, small_letters
from tellback.memory.retrieval.languages.statement_patterns import statement_pattern
from tellback.memory.retrieval.languages.statements import StatementFeature, analyze_statement

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


def test_the_prefilter_misses_no_match_of_any_statement_pattern():
    names = (
        "kin", "marker", "self", "change", "plan", "completed", "hypothesis", "reporting", "habit", "several",
        "tells_name", "tells_home", "tells_work", "tells_their_home", "tells_their_work", "verb",
    )  # fmt: skip
    prefilter = PatternPrefilter({name: statement_pattern(name).pattern for name in names}, unread_texts=0)
    more = [
        "Meine  Frau ist da",
        "(\u0130n) I'LL go",
        "no\nlonger",
        "我现在住在柏林",
        "ex-wife's, any more?",
        "He said_so",
    ]
    found = 0
    for text in [*(row[0] for row in ROWS), *more]:
        possible = prefilter.possible(small_letters(text))
        for name in names:
            if statement_pattern(name).search(text):
                assert possible & prefilter.bits[name], (name, text)
                found += 1
    assert found > len(ROWS)


@pytest.mark.parametrize(
    ("pattern", "text", "possible"),
    [
        (r"any ?more|took .{1,9} away", "anymore", True),
        (r"any ?more|took .{1,9} away", "took it away", True),
        (r"any ?more|took .{1,9} away", "it is taken away", False),
        (r"(?:i|we)(?: \w+){0,2}? moved", "we moved", True),
        (r"(?:i|we)(?: \w+){0,2}? moved", "went", False),
        (r"(?<!how )old(?! is)", "how old", True),
        (r"(?i)[A-Z]+ly|\(x\|y\)", "(x|y) only", True),
        (r"[^a]b|\Wc|\d{2,}", "nothing", True),
        (r"\d{2,}(?P<unit>km|m)", "7m", False),
    ],
)
def test_the_prefilter_reads_patterns_of_any_form(pattern, text, possible):
    prefilter = PatternPrefilter({"it": pattern}, unread_texts=1)
    assert prefilter.possible("any text before the pattern is read")
    assert bool(prefilter.possible(small_letters(text))) == possible
