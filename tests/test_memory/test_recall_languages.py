"""Recall in German, Spanish and Chinese: what is found in a talk of sixty memories, and the cues of each language.

Inner parts, on no face: ``tellback.memory.retrieval.index.record``, ``tellback.memory.retrieval.languages.dates``,
``tellback.memory.retrieval.languages.lexicon``, ``tellback.memory.retrieval.query``,
``tellback.memory.retrieval.query_analysis``, ``tellback.memory.embedders.local``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path

import pytest

from tellback.memory import ArgumentError, LocalEmbedder, LongTermMemory, Memory, RecallResult, open_memory
from tellback.memory import run_sync as run
from tellback.memory.embedders.local import LocalWordVectors
from tellback.memory.internals import local_available
from tellback.memory.retrieval.index.record import TextFeature, text_features
from tellback.memory.retrieval.languages.dates import DateSpan, PartialDate, find_dates
from tellback.memory.retrieval.languages.lexicon import analyzer_language, lexicon_for
from tellback.memory.retrieval.query import Query
from tellback.memory.retrieval.query_analysis import is_follow_up
from tellback.vectorstore import Analyzer, SettingMismatch, open_store
from tests.support.slow import first_fast

FOLDER = Path(__file__).parent / "languages"
LANGUAGES = ["german", "spanish", "chinese"]
NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
TODAY = NOW.date()
ELSEWHERE = {
    "german": "Welche Quantenzahl beschreibt den Elektronenspin?",
    "spanish": "¿Qué número cuántico describe el espín electrónico?",
    "chinese": "量子数描述电子自旋",
}
with_vectors = pytest.mark.skipif(not local_available(), reason="needs the extra local")


@dataclass(frozen=True)
class Talk:
    memories: list[Memory]
    questions: list[tuple[str, set[str]]]


def talk(language: str) -> Talk:
    memories: list[Memory] = []
    questions: list[tuple[str, set[str]]] = []
    session, occurred_at = None, None
    for line in (FOLDER / f"{language}.txt").read_text("utf-8").splitlines():
        if match := re.match(r"# (s\d+) (\S+)$", line):
            session, occurred_at = match[1], datetime.fromisoformat(match[2]).replace(tzinfo=UTC)
        elif line.startswith("#"):
            session = occurred_at = None
        elif line.startswith("?"):
            question, _, keys = line[1:].rpartition("=")
            questions.append((question.strip(), set(keys.split())))
        else:
            number, who, text = re.match(r"(\d+) (\w*) ?: (.*)", line).groups()  # type: ignore[union-attr]
            kind = "turn" if session else "note"
            memories.append(
                Memory(
                    text,
                    kind=kind,
                    speaker=who or None,
                    session=session,
                    sequence=int(number) if session else None,
                    occurred_at=occurred_at,
                    key=number,
                )
            )
    return Talk(memories, questions)


def filled(memories: list[Memory], language: str, *, vectors: bool) -> LongTermMemory:
    memory = LongTermMemory(
        open_store("numpy:", analyzer=Analyzer(language)),
        embedder=LocalEmbedder() if vectors else None,
        word_vectors=LocalWordVectors() if vectors else None,
        clock=lambda: NOW,
    )
    run(memory.remember_many(memories))
    return memory


def found_share(memory: LongTermMemory, questions: list[tuple[str, set[str]]], k: int = 10) -> float:
    return share({question: run(memory.recall(question, k)) for question, _ in questions}, questions)


def share(answers: dict[str, RecallResult], questions: list[tuple[str, set[str]]]) -> float:
    missed = [question for question, wanted in questions if not wanted <= {hit.memory.key for hit in answers[question]}]
    print("missed:", missed)
    return 1 - len(missed) / len(questions)


@cache
def answers_by_words(language: str) -> dict[str, RecallResult]:
    """The answers to all questions of a talk and to one from elsewhere."""
    given = talk(language)
    memory = filled(given.memories, language, vectors=False)
    return {question: run(memory.recall(question)) for question in (*dict(given.questions), ELSEWHERE[language])}


@pytest.mark.parametrize("language", LANGUAGES)
def test_eight_of_ten_answers_are_among_the_first_ten_hits_by_words_alone(language: str):
    given = talk(language)
    assert (len(given.memories) >= 60, len(given.questions) >= 30) == (True, True)
    assert share(answers_by_words(language), given.questions) >= 0.8


@with_vectors
@pytest.mark.parametrize("language", first_fast(LANGUAGES))
def test_nine_of_ten_answers_are_among_the_first_ten_hits_with_vectors(language: str):
    given = talk(language)
    memory = filled(given.memories, language, vectors=True)
    assert found_share(memory, given.questions) >= 0.9
    run(memory.close())


@pytest.mark.slow
@pytest.mark.parametrize("vectors", [False, pytest.param(True, marks=with_vectors)])
def test_recall_over_several_languages_in_one_memory_finds_three_quarters_of_the_answers(vectors: bool):
    talks = [talk(language) for language in LANGUAGES]
    memories = [
        Memory(item.text, kind=item.kind, speaker=item.speaker, session=f"{position}{item.session}",
               sequence=item.sequence, occurred_at=item.occurred_at, key=f"{position}-{item.key}")
        for position, given in enumerate(talks)
        for item in given.memories
    ]  # fmt: skip
    questions = [
        (text, {f"{position}-{key}" for key in keys})
        for position, given in enumerate(talks)
        for text, keys in given.questions
    ]
    memory = filled(memories, "english", vectors=vectors)
    assert found_share(memory, questions) >= 0.75
    run(memory.close())


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_unrelated_query_abstains_in_each_language_and_most_others_do_not(language: str):
    answers = answers_by_words(language)
    refused = [question for question, answer in answers.items() if answer.abstain is not None]
    print("refused:", refused)
    assert answers[ELSEWHERE[language]].abstain == "nothing"
    assert len(refused) - 1 <= 0.3 * (len(answers) - 1)


@pytest.mark.parametrize(
    ("language", "text", "cue"),
    [
        ("german", "Ich habe das Haus gesehen.", TextFeature.FIRST_PERSON),
        ("german", "Letzte Woche war es kalt.", TextFeature.TIME),
        ("german", "Es waren zwölf Leute da.", TextFeature.NUMBER),
        ("spanish", "Mi casa es azul.", TextFeature.FIRST_PERSON),
        ("spanish", "La semana pasada hizo frío.", TextFeature.TIME),
        ("spanish", "Vinieron doce personas.", TextFeature.NUMBER),
        ("chinese", "我看见了那座房子。", TextFeature.FIRST_PERSON),
        ("chinese", "上周很冷。", TextFeature.TIME),
        ("chinese", "来了十二位客人。", TextFeature.NUMBER),
        ("chinese", "你去哪里\uff1f", TextFeature.ENDS_ASKING),
    ],
)
def test_text_features_see_the_cues_of_each_language(language: str, text: str, cue: TextFeature):
    assert text_features(text, lexicon_for(language)) & cue


@pytest.mark.parametrize(
    ("language", "text", "seen"),
    [
        ("german", "Wann war das Konzert?", {"asks_time"}),
        ("german", "Wie oft wart ihr dort?", {"asks_number"}),
        ("spanish", "¿Cuándo fue el concierto?", {"asks_time"}),
        ("spanish", "¿Cuánto pesaba?", {"asks_number"}),
        ("chinese", "音乐会什么时候开始?", {"asks_time"}),
        ("chinese", "包裹多重?", {"asks_number"}),
    ],
)
def test_the_lexicon_of_each_language_sees_questions_for_a_time_or_a_number(language: str, text: str, seen: set[str]):
    lexicon = lexicon_for(language)
    kinds = ("asks_time", "asks_number")
    assert {kind for kind in kinds if getattr(lexicon, kind).search(text)} == seen


@pytest.mark.parametrize(
    ("language", "text", "dates"),
    [
        ("german", "Was war am 8. Mai 2025 los?", (PartialDate(2025, 5, 8),)),
        ("german", "Was geschah am 3.6.2025?", (PartialDate(2025, 6, 3),)),
        ("german", "Was haben wir im März gemacht?", (PartialDate(None, 3),)),
        ("german", "Was habe ich gestern gesagt?", (PartialDate(2026, 3, 3),)),
        ("german", "vor zwei Monaten", (DateSpan(date(2026, 1, 1), date(2026, 1, 31)),)),
        ("german", "letzten Montag", (PartialDate(2026, 3, 2),)),
        ("german", "letzte Woche", (DateSpan(date(2026, 2, 23), date(2026, 3, 1)),)),
        ("spanish", "¿Qué pasó el 8 de mayo de 2025?", (PartialDate(2025, 5, 8),)),
        ("spanish", "en marzo de 2024", (PartialDate(2024, 3),)),
        ("spanish", "¿Qué dije ayer?", (PartialDate(2026, 3, 3),)),
        ("spanish", "hace dos meses", (DateSpan(date(2026, 1, 1), date(2026, 1, 31)),)),
        ("spanish", "el lunes pasado", (PartialDate(2026, 3, 2),)),
        ("spanish", "la semana pasada", (DateSpan(date(2026, 2, 23), date(2026, 3, 1)),)),
        ("chinese", "2025年5月8日发生了什么?", (PartialDate(2025, 5, 8),)),
        ("chinese", "五月8号", (PartialDate(None, 5, 8),)),
        ("chinese", "2024年3月", (PartialDate(2024, 3),)),
        ("chinese", "我昨天说了什么?", (PartialDate(2026, 3, 3),)),
        ("chinese", "两个月前", (DateSpan(date(2026, 1, 1), date(2026, 1, 31)),)),
        ("chinese", "上周一", (PartialDate(2026, 3, 2),)),
        ("chinese", "上周", (DateSpan(date(2026, 2, 23), date(2026, 3, 1)),)),
        ("chinese", "去年", (DateSpan(date(2025, 1, 1), date(2025, 12, 31)),)),
    ],
)
def test_find_dates_reads_dates_of_each_language(language: str, text: str, dates: tuple[object, ...]):
    assert find_dates(text, lexicon_for(language), TODAY) == dates


@pytest.mark.parametrize(
    ("language", "leaning", "whole"),
    [
        ("german", "Und wann war das?", "Wann hat meine Schwester das Haus verkauft?"),
        ("spanish", "¿Y cuándo fue eso?", "¿Cuándo vendió mi hermana la casa del pueblo?"),
        ("chinese", "那是什么时候呢?", "我妹妹什么时候卖掉了老房子?"),
    ],
)
def test_follow_up_questions_of_each_language_are_distinguished_from_complete_ones(
    language: str, leaning: str, whole: str
):
    terms = Analyzer(language).terms
    assert is_follow_up(leaning, lexicon_for(language), terms)
    assert not is_follow_up(whole, lexicon_for(language), terms)


def _text_to_embed(memory: LongTermMemory, question: str) -> str:
    query = Query(text=question, now=datetime.now(UTC), partitions=("conversation",))
    (text,) = memory._retriever.texts_to_embed(query)
    return text


@pytest.mark.parametrize(
    ("language", "question"),
    [("german", "Was mag Annas Bruder?"), ("spanish", "¿Qué le gusta al hermano de Anna?")],
)
def test_participant_names_are_recognized_with_the_affixes_of_each_language(language: str, question: str):
    store = open_store("numpy:", analyzer=Analyzer(language))
    memory = LongTermMemory(store)
    run(memory.remember_many([Memory("Ja.", speaker="Anna", session="s", sequence=1), Memory("Si.", speaker="Bela")]))
    assert "Anna" not in _text_to_embed(memory, question)


def test_a_chinese_name_is_known_inside_a_run():
    memory = LongTermMemory(open_store("numpy:", analyzer=Analyzer("chinese")))
    run(memory.remember_many([Memory("好。", speaker="小雨", session="s", sequence=1), Memory("行。", speaker="大伟")]))
    assert _text_to_embed(memory, "小雨喜欢什么?") == "喜欢什么?"


def test_the_language_is_kept_in_the_file_and_another_one_is_refused(tmp_path: Path):
    path = tmp_path / "m.db"
    run(open_memory(path, language="de").close())
    memory = open_memory(path)
    assert memory.store.analyzer.language == "german"  # type: ignore[attr-defined]
    run(memory.close())
    with pytest.raises(SettingMismatch):
        open_memory(path, language="es")
    run(open_memory(path, language="german").close())


@pytest.mark.parametrize(
    ("given", "name"), [("de", "german"), ("de-AT", "german"), ("ZH_cn", "chinese"), ("Dutch", "dutch")]
)
def test_a_language_is_named_by_a_code_or_by_its_name(given: str, name: str):
    assert analyzer_language(given) == name
    Analyzer(name)


@pytest.mark.parametrize("given", ["", None, 7])
def test_analyzer_language_refuses_an_invalid_language(given: object):
    with pytest.raises(ArgumentError, match="language"):
        analyzer_language(given)  # type: ignore[arg-type]


def test_an_unknown_language_is_refused_and_leaves_no_file(tmp_path: Path):
    with pytest.raises(Exception, match="klingon"):
        open_memory(tmp_path / "m.db", language="klingon")
    assert not (tmp_path / "m.db").exists()
