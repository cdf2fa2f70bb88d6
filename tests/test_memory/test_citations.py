"""Citations: the sentence that answers, word for word, with its exact place.

Inner parts, on no face: ``tellback.memory.chunking.sentences``, ``tellback.memory.documents.citations``.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.memory import Hit, Memory, Passage, RecallResult, Source
from tellback.memory.chunking.sentences import split_sentences
from tellback.memory.documents.citations import cite
from tellback.memory.internals import passages_of

NORMANS = (
    "The Normans came from the north. They gave their name to Normandy, a region in France.\n\n"
    "Their leader was Rollo. He agreed to swear fealty to King Charles III."
)


def passage(text: str, **fields) -> Passage:
    return Passage(**{"id": "c1", "text": text, "document": "a.md"} | fields)


def said(text: str) -> list[str]:
    return [text[start:end] for start, end in split_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n ", []),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "Stop." Then left.', ['He said "Stop."', "Then left."]),
        ("Dr. Smith met J. R. Ewing in the U.S. Army.", ["Dr. Smith met J. R. Ewing in the U.S. Army."]),
        ("It cost 3.5 million, i.e. a lot.", ["It cost 3.5 million, i.e. a lot."]),
        ("So did I. Then we went.", ["So did I.", "Then we went."]),
        ("# Title\nText here.\nGoes on", ["# Title", "Text here.", "Goes on"]),
        ("lead:\n- one\n- two\n1. three", ["lead:", "- one", "- two", "1. three"]),
        ("a line\nbroken in a PDF. End.", ["a line\nbroken in a PDF.", "End."]),
        ("first\n\nsecond", ["first", "second"]),
        ("これは本です。次です。", ["これは本です。", "次です。"]),
        ("| a | b |\n| c | d |", ["| a | b |", "| c | d |"]),
    ],
)
def test_split_sentences_splits_at_the_ends_of_sentences(text, expected):
    assert said(text) == expected


@given(st.text(alphabet="aA1 .!?\n#-|。\"'", max_size=80))
def test_split_sentences_covers_all_non_blank_text_once_and_in_order(text):
    spans = split_sentences(text)
    assert all(start < end and text[start:end] == text[start:end].strip() for start, end in spans)
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert "".join("".join(text[a:b].split()) for a, b in spans) == "".join(text.split())


def test_the_quote_is_the_sentence_that_answers_with_exact_offsets():
    (citation,) = cite("Who was their leader?", [passage(NORMANS, start=100)])
    document = "x" * 100 + NORMANS
    assert "Their leader was Rollo." in citation.quote
    assert document[citation.start : citation.end] == citation.quote


def test_a_neighbouring_sentence_is_quoted_when_it_adds_to_the_answer():
    text = "Filler words. The dam broke in March. Floods reached Lyon. Nothing else."
    (citation,) = cite("When did the dam break and did floods reach Lyon?", [passage(text)])
    assert citation.quote == "The dam broke in March. Floods reached Lyon."


def test_of_equal_sentences_the_first_is_quoted():
    assert cite("zebra", [passage("A zebra ran. The zebra slept.")])[0].quote == "A zebra ran."


def test_a_heading_is_quoted_only_from_a_passage_without_other_text():
    assert cite("zebra", [passage("# Zebra\n\nThey have stripes.")])[0].quote == "They have stripes."
    assert cite("zebra", [passage("# Zebra")])[0].quote == "# Zebra"


def test_a_question_without_words_quotes_the_beginning():
    (citation,) = cite("?", [passage("First here. Second here.")])
    assert citation.quote == "First here."


def test_a_passage_without_text_gives_an_empty_quote():
    assert cite("anything", [passage("  ")])[0].quote == ""


def test_the_page_of_a_citation_is_that_of_its_quote_not_of_its_passage():
    text = "On the first page. The zebra is on the second."
    (citation,) = cite("zebra", [passage(text, page=4, page_breaks=((19, 5),))])
    assert (citation.quote, citation.page) == ("The zebra is on the second.", 5)
    assert cite("first", [passage(text, page=4, page_breaks=((19, 5),))])[0].page == 4


def test_a_citation_reads_as_number_document_heading_and_page():
    passages = [passage("x"), passage("x", document="b.pdf", heading=("Part", "Chapter"), page=2)]
    assert [str(citation) for citation in cite("x", passages)] == [
        "[1] a.md",
        "[2] b.pdf § Part > Chapter, p. 2",
    ]


def test_a_quote_is_shown_on_one_line():
    assert cite("dam", [passage("The dam\nbroke.")])[0].line == "The dam broke."


@given(
    st.text(alphabet="abcd .\n", max_size=300),
    st.text(alphabet="abcd ", max_size=20),
    st.integers(min_value=1, max_value=60),
)
def test_any_quote_is_verbatim_and_within_its_limit(text, question, limit):
    (citation,) = cite(question, [passage(text)], limit=limit)
    assert 0 <= citation.start <= citation.end <= len(text)
    assert citation.quote == text[citation.start : citation.end] == citation.quote.strip()


def test_passages_of_a_recall_result_are_its_document_hits_alone():
    of_document = Memory(
        text="abc",
        id="c1",
        source=Source(document="a.pdf", title="A", page=2, heading=("H",), start=5, end=8),
        metadata={"page_breaks": [[2, 3]]},
    )
    found = RecallResult((Hit(Memory(text="said", id="t1"), 2.0), Hit(of_document, 1.0, parts={"bm25": 1.0})))
    (only,) = passages_of(found)
    assert (only.id, only.document, only.title, only.heading, only.start, only.end) == (
        "c1",
        "a.pdf",
        "A",
        ("H",),
        5,
        8,
    )
    assert [only.page_at(offset) for offset in range(3)] == [2, 2, 3]
    assert (only.score, only.parts) == (1.0, {"bm25": 1.0})


def test_fenced_code_is_quoted_only_from_a_passage_without_prose() -> None:
    text = "```text\nrestore a backup ──> done\n```\n\nThe tide comes in at noon. A backup is made at night.\n"
    assert cite("How do I restore a backup?", [Passage("c", text, "a.md")])[0].quote == "A backup is made at night."
    code = "```sh\ntellback restore backup.db\n```\n"
    assert "restore" in cite("How do I restore a backup?", [Passage("c", code, "a.md")])[0].quote
