"""Answers without a model: statements acknowledged, questions answered by quotes, nothing invented.

Inner parts, on no face: ``tellback.agent.context_items``, ``tellback.agent.quoting``,
``tellback.agent.providers.accumulator``, ``tellback.agent.providers.extractive``.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.agent import ArgumentError, Provider, QuotingProvider, Request, StopPiece
from tellback.agent.context_items import ContextItem, Grounding
from tellback.agent.providers.accumulator import Response, collect_response
from tellback.agent.providers.extractive import (
    ABOUT_TEXT,
    DOUBTFUL_TEXT,
    NO_COMMANDS_TEXT,
    NOTHING_FOUND_TEXT,
    OTHER_SPEAKER_TEXT,
    UNSURE_OF_ONE_TEXT,
    UNSURE_TEXT,
)
from tellback.agent.quoting import is_question
from tellback.memory import Message


def item(number: int, text: str, score: float = 1.0, **fields) -> ContextItem:
    return ContextItem(number, f"m{number}", text, score=score, end=len(text), **fields)


def answer(question: str, *items: ContextItem, provider: QuotingProvider | None = None, **options) -> Response:
    request = Request((Message.user(question),), grounding=Grounding(question=question, items=items, **options))
    return asyncio.run(collect_response(provider or QuotingProvider(), request))


def test_the_quoting_provider_is_a_provider() -> None:
    assert isinstance(QuotingProvider(), Provider)


def test_a_quoted_item_is_numbered_from_one_whatever_its_number_in_the_context() -> None:
    response = answer("Where do I live?", item(3, "I moved to Lisbon."))
    assert response.text == "“I moved to Lisbon.” [1]"
    assert [citation.number for citation in response.citations] == [1]
    assert [(citation.id, citation.quote, citation.span) for citation in response.citations] == [
        ("m3", "I moved to Lisbon.", (0, 18))
    ]


def test_a_statement_is_acknowledged_with_what_will_be_stored() -> None:
    response = answer("I moved to\nLisbon.", remembers=True)
    assert response.text == "Noted: “I moved to Lisbon.”"
    assert response.citations == ()


def test_a_statement_is_not_acknowledged_when_storing_is_off() -> None:
    assert answer("My home town", item(1, "I live in Porto."), remembers=False).text == "“I live in Porto.” [1]"


def test_a_question_without_recalled_items_gets_the_nothing_found_answer() -> None:
    assert answer("Where do I live?").text == NOTHING_FOUND_TEXT


def test_what_is_rather_not_the_answer_is_said_to_be_unsure_beside_the_two_next_that_ask_nothing() -> None:
    day = datetime(2026, 5, 3, tzinfo=UTC)
    texts = ("Ana keeps the key.", "Where is the key?", "The key hangs by the door.", "Tom has a key.", "No key fits.")
    keys = [item(i, text, score=1 - i / 10, role="user", date=day) for i, text in enumerate(texts, 1)]
    response = answer("Who has the spare one?", *keys, likely=False)
    assert response.text.splitlines() == [
        UNSURE_TEXT,
        "“Ana keeps the key.” [1] (you, 3 May 2026)",
        "“The key hangs by the door.” [2] (you, 3 May 2026)",
        "“Tom has a key.” [3] (you, 3 May 2026)",
    ]
    assert answer("Who has the spare one?", keys[0], likely=False).text.startswith(f"{UNSURE_OF_ONE_TEXT} “Ana")


def test_under_abstention_only_the_nearest_item_is_quoted_with_a_doubt() -> None:
    near, other = item(1, "France laid siege to Montpellier in 1622."), item(2, "The siege of Montpellier ended.")
    response = answer("When did France besiege Montpellier?", near, other, abstain="nothing")
    assert response.text == f"{DOUBTFUL_TEXT} “France laid siege to Montpellier in 1622.” [1]"


def test_a_statement_of_another_speaker_is_quoted_with_the_speaker() -> None:
    response = answer("Where do I live?", item(1, "I live in Rome.", speaker="Ben"), abstain="other")
    assert response.text.startswith(OTHER_SPEAKER_TEXT)
    assert "“I live in Rome.” [1]" in response.text


def test_a_recalled_question_is_not_quoted_as_an_answer() -> None:
    response = answer(
        "Where do I live?",
        item(1, "where do I  live", 5.0),
        item(2, "Where did I live?", 4.0),
        item(3, "In Porto.", 1.0),
    )
    assert [citation.id for citation in response.citations] == ["m3"]


def test_the_best_item_is_quoted_even_with_a_negative_score() -> None:
    assert [
        citation.id for citation in answer("Where?", item(1, "Here.", -1.0), item(2, "There.", -2.0)).citations
    ] == ["m1"]


def test_the_best_sentence_of_a_passage_is_quoted_with_its_offsets_and_place() -> None:
    text = "Rain fell all day. The bridge was opened in 1932. It is painted grey."
    passage = item(1, text, lane="documents", source="bridge.md", heading=("History",), page=4)
    passage = replace(passage, start=100)
    cited = answer("When was the bridge opened?", passage).citations[0]
    assert cited.quote == "The bridge was opened in 1932."
    assert text[cited.span[0] : cited.span[1]] == cited.quote
    assert (cited.start, cited.end) == (119, 149)
    assert cited.where == "bridge.md § History, p. 4"


def test_a_quote_names_the_page_that_it_stands_on() -> None:
    text = "Rain fell all day. The bridge was opened in 1932."
    passage = item(1, text, lane="documents", source="b.pdf", page=4, page_breaks=((10, 5),))
    assert answer("When was the bridge opened?", passage).citations[0].page == 5


def test_a_quoting_answer_is_kept_without_the_quoted_words() -> None:
    quoted = answer("Where?", item(1, "I live in Porto."))
    noted = answer("I live in Porto.", remembers=True)
    assert (quoted.kept.text, noted.kept.text) == ("", "")
    assert "Porto" not in quoted.kept.note + noted.kept.note


@given(st.text(min_size=1, max_size=2000).filter(str.strip), st.sampled_from(["conversation", "documents"]))
def test_a_quote_is_the_items_own_words(text: str, lane: str) -> None:
    response = answer("what is it?", item(1, text, lane=lane))
    for cited in response.citations:
        start, end = cited.span
        assert cited.quote == text[start:end]
        assert len(cited.quote) <= 400
        is_marked = lane == "documents" and not set("*[-+\u2022").isdisjoint(cited.quote)
        assert is_marked or " ".join(cited.quote.split()) in response.text


def test_emphasis_and_links_of_a_document_are_shown_as_their_words() -> None:
    text = "- **Is it erased?** Yes: it is *erased* ([forgetting](forgetting.md)), as `f(**k)`, *.md and 2**3 are not."
    response = answer("Is it erased?", item(1, text, lane="documents", source="faq.md"))
    assert response.citations[0].quote in text
    assert "“Is it erased? Yes: it is erased (forgetting), as `f(**k)`, *.md and 2**3 are not.”" in response.text


def test_two_sentences_that_answer_nearly_as_well_are_both_quoted() -> None:
    first = item(1, "The ferry costs 4 euros. It is blue.", 1.0, lane="documents", source="a.md")
    second = item(2, "Costs of the ferry are 5 euros.", 0.99, lane="documents", source="b.md")
    third = item(3, "The ferry is repaired in spring, and that costs a lot.", 0.9, lane="documents", source="c.md")
    repeated = replace(first, id="m4", source="d.md")
    question = "How many euros does the ferry cost?"
    assert [cited.id for cited in answer(question, first, second, third).citations] == ["m1", "m2"]
    assert [cited.id for cited in answer(question, first, third, repeated).citations] == ["m1"]


def test_a_document_is_quoted_beside_a_memory_only_where_it_says_as_much() -> None:
    note = item(1, "Lease of the flat signed in May.")
    lease = item(2, "1. Rent\n\nThe lease of the flat ends on 30 April.", 0.9, lane="documents", source="lease.pdf")
    other = replace(lease, text="The flat file is read.\n\n```\nremember('my lease ends')\n```")
    assert len(answer("When does the lease of my flat end?", note, lease).citations) == 2
    assert len(answer("When does the lease of my flat end?", note, other).citations) == 1


def test_a_row_of_a_table_is_not_quoted_beside_an_answer() -> None:
    row = item(2, "| delete everything about boats | boats |", 0.98, lane="documents", source="index.md")
    prose = item(1, "Everything about boats is deleted by `sink`.", lane="documents", source="boats.md")
    quoted = answer("How do I delete everything about boats?", prose, row)
    assert [cited.id for cited in quoted.citations] == ["m1"]


BINS = "| Bin | Day |\n|---|---|\n| Paper | Tuesday |\n| Glass | Friday |\n"
START = "Read this.\n\n1. Check the pressure.\n2. Press the button\n   of the boiler.\n3. Call Novak.\n\nIt is old."
STOCK = "item: desk; price: 180; stock: 1\nitem: chair; price: 75; stock: 12"


@pytest.mark.parametrize(
    ("question", "text", "quoted"),
    [
        ("Which bins are there?", BINS, "“Bin: Paper; Day: Tuesday\nBin: Glass; Day: Friday” [1]"),
        ("On which day is the glass bin emptied?", BINS, "“Bin: Glass; Day: Friday” [1]"),
        (
            "How do I start the boiler?",
            START,
            "“1. Check the pressure.\n2. Press the button of the boiler.\n3. Call Novak.” [1]",
        ),
        (
            "Which items are in stock?",
            STOCK,
            "“item: desk; price: 180; stock: 1\nitem: chair; price: 75; stock: 12” [1]",
        ),
        ("What do I take along?", "To be taken along:\n\n- a towel\n- soap", "“• a towel\n• soap” [1]"),
        ("How many chairs are in stock?", STOCK, "“item: chair; price: 75; stock: 12” [1]"),
        (
            "Which bins are there?",
            BINS + "| Compost | Monday |\n" * 20,
            "“Bin: Glass; Day: Friday” [1]\n“Bin: Paper; Day: Tuesday” [2]",
        ),
    ],
)
def test_a_short_list_is_quoted_whole_where_no_item_of_it_answers_more_than_the_others(
    question: str, text: str, quoted: str
) -> None:
    assert answer(question, item(1, text, lane="documents", source="house.md")).text == quoted


def test_a_long_statement_is_acknowledged_with_a_short_text() -> None:
    assert len(answer("I went for a walk. " * 100, remembers=True).text) < 250


@pytest.mark.parametrize("options", [{"quotes": 0}, {"limit": 3}, {"share": 2}])
def test_invalid_quoting_provider_options_are_refused(options: dict) -> None:
    with pytest.raises(ArgumentError):
        QuotingProvider(**options)


@pytest.mark.parametrize(
    "text",
    [
        "Where do I live?",
        "where do i live",
        "I moved. Do you know where?",
        "so, what's my dog called",
        "Tell me where I live.",
        "Remind me what the doctor said",
        "is my appointment tomorrow",
        "Summarize the meeting notes",
        "¿Dónde vivo?",
        "wo wohne ich?",
        "warum ist das so",
        "où est mon chat",
        "私はどこに住んでいますか\uff1f",
        "أين أعيش؟",
        "Που μένω\u037e",
        '"Who said that?" was my question',
    ],
)
def test_questions_are_recognised(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize(
    "text",
    [
        "I moved to Lisbon in May.",
        "When I was young, we lived in Porto.",
        "What a day!",
        "My dog is called Rex",
        "Remind me to buy milk",
        "The link is https://example.org/?q=1 and works",
        "Ich wohne in Berlin.",
        "No.",
        "",
    ],
)
def test_statements_are_recognised(text: str) -> None:
    assert not is_question(text)


def test_classifying_very_long_texts_as_questions_terminates() -> None:
    for text in ("and " * 20_000, "?" * 50_000, " " * 50_000, "when " * 20_000, "list " + "x " * 20_000):
        assert isinstance(is_question(text), bool)


def test_a_recalled_request_without_a_question_mark_is_not_quoted_as_an_answer() -> None:
    asked, reported = item(1, "Tell me about Karim", 2.0), item(2, "Karim runs marathons.", 1.5)
    assert [citation.id for citation in answer("Does Karim do sports?", asked, reported).citations] == ["m2"]


def test_a_question_gets_one_quote_and_one_about_several_things_more() -> None:
    items = (item(1, "Mum got a scarf.", 1.0), item(2, "A vase from Aunt Ida.", 0.9), item(3, "Mum got tea.", 0.6))
    assert [quoted.id for quoted in answer("What has Mum got?", *items).citations] == ["m1"]
    assert [quoted.id for quoted in answer("Which presents has Mum got?", *items).citations] == ["m1", "m2"]
    presents = [item(number, f"Mum got present {number}.") for number in range(1, 6)]
    assert len(answer("Which presents has Mum got?", *presents).citations) == len(presents)


def test_a_newer_and_an_older_statement_are_quoted_with_the_day_of_the_change() -> None:
    day = datetime(2026, 6, 3, tzinfo=UTC)
    lyon = item(1, "I live in Lyon.", 0.9, outdated_by="m2")
    grenoble = item(2, "I moved to Grenoble.", 1.0, date=day, likely_change=True)
    now = answer("Where do I live?", lyon, grenoble)
    assert now.text == "Since 3 June 2026: “I moved to Grenoble.” [1]\nBefore: “I live in Lyon.” [2]"
    then = answer("Where did I live?", replace(lyon, score=1.0), replace(grenoble, score=0.9))
    assert then.text == "Until 3 June 2026: “I live in Lyon.” [1]\nSince then: “I moved to Grenoble.” [2]"


def test_a_later_statement_that_may_have_changed_the_first_is_quoted_after_it() -> None:
    coffee = item(1, "I take my coffee black.", 1.0, date=datetime(2026, 9, 5, tzinfo=UTC))
    rooibos = item(2, "Given up coffee.", 0.9, date=datetime(2026, 9, 26, tzinfo=UTC), later_than="m1")
    first = "“I take my coffee black.” [1]"
    assert answer("How do I take my coffee?", coffee, replace(rooibos, later_than=None)).text == first
    quoted = answer("How do I take my coffee?", coffee, rooibos).text
    assert quoted == f"{first}\nLater, on 26 September 2026: “Given up coffee.” [2]"
    same_day = replace(rooibos, date=coffee.date)
    assert answer("How do I take my coffee?", coffee, same_day).text == first
    assert answer("How do I take my coffee?", coffee, rooibos, provider=QuotingProvider(quotes=1)).text == first


def test_a_question_about_a_day_quotes_all_statements_of_that_day() -> None:
    day, other = datetime(2026, 9, 22, tzinfo=UTC), datetime(2026, 9, 23, tzinfo=UTC)
    items = (item(1, "Soup at Julia's.", 1.0, date=day), item(2, "Dad rang.", 0.9, date=other))
    items += (item(3, "Skara Brae in the rain.", 0.8, date=day),)
    assert [quoted.id for quoted in answer("What did I say on 22 September?", *items).citations] == ["m1", "m3"]


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("Thanks a lot!", "You are welcome."),
        ("danke schön", "You are welcome."),
        ("hello", "Hello. Tell me what I should remember, or ask me about it."),
        ("ok", "Nothing to note; it stays in the conversation."),
        ("summarise that", NO_COMMANDS_TEXT),
        ("what can you do?", ABOUT_TEXT),
    ],
)
def test_greetings_thanks_and_commands_get_fixed_replies(text: str, reply: str) -> None:
    assert answer(text, remembers=True, abstain="nothing").text == reply

    async def stops() -> int:
        request = Request((Message.user(text),), grounding=Grounding(question=text, remembers=True))
        return sum([isinstance(delta, StopPiece) async for delta in QuotingProvider().stream(request)])

    assert asyncio.run(stops()) == 1


def test_the_sentence_that_answers_is_quoted_not_a_heading_code_or_table() -> None:
    text = (
        "webserve\n--------\n\nWhat is webserve?\n\n::\n\n    python -m webserve 9000\n\n| port | default |\n\n"
        "The server listens to port 8000 by default. It can be told another.\n"
    )
    passage = item(1, text, lane="documents", source="webserve.rst")
    quoted = answer("What is the default port of webserve?", passage).citations
    assert [citation.quote for citation in quoted] == ["The server listens to port 8000 by default."]


def test_equal_quotes_of_two_documents_are_one_quote_with_both_numbers() -> None:
    fields = {"lane": "documents", "source": "paper.docx"}
    same = [item(1, "The bridge opens at six.", **fields), item(2, "The bridge opens at six.", **fields)]
    response = answer(
        "Which times are given for the bridge and the ferry?", *same, item(3, "The ferry leaves at nine.")
    )
    assert response.text.splitlines()[0] == "“The bridge opens at six.” [1] [2]"
    assert {citation.number for citation in response.citations} >= {1, 2}


def test_a_day_told_relative_to_another_is_named_in_words_of_a_conversation() -> None:
    told = item(1, "Last Thursday Milo lost his first tooth.", date=datetime(2026, 11, 22, tzinfo=UTC))
    response = answer("When did Milo lose his first tooth?", told)
    assert response.text == "“Last Thursday (19 November) Milo lost his first tooth.” [1]"
    assert response.citations[0].quote == told.text
