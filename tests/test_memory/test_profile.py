"""Profile of the user: its statements by topic and subject, with their end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tellback.memory import E5Encoder, LongTermMemory, Memory, Trust
from tellback.vectorstore import open_store

pytestmark = pytest.mark.anyio
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


async def profile_of(*said: str | Memory, **options) -> list[tuple[str, str, str, str]]:
    """Return subject, topic, text and end of each entry, the statements being a day apart."""
    memory = LongTermMemory(open_store("numpy:"), clock=lambda: FIRST + timedelta(days=100))
    for day, item in enumerate(said):
        turn = Memory(item, kind="turn", role="user", occurred_at=FIRST + timedelta(days=day))
        await memory.remember(turn if isinstance(item, str) else item)
    found = await memory.profile(**options)
    return [
        (entry.subject, entry.topic.value, entry.memory.text, "" if entry.until is None else f"{entry.until:%-d %b}")
        for entry in found
    ]


@pytest.mark.parametrize(
    ("text", "subject", "topics"),
    [
        ("Hi, I'm Clara and I live in Lyon.", "", ["name", "home"]),
        ("Ich heiße Clara und wohne in Graz.", "", ["name", "home"]),
        ("我叫王芳", "", ["name"]),
        ("I work as a structural engineer.", "", ["work"]),
        ("We have two kids.", "", ["family"]),
        ("I'm allergic to penicillin.", "", ["health"]),
        ("Soy alérgica a la penicilina.", "", ["health"]),
        ("I don't like cilantro.", "", ["preferences"]),
        ("我喜欢喝茶", "", ["preferences"]),
        ("Our car is a green Skoda.", "", ["possessions"]),
        ("I play the violin every Wednesday.", "", ["routines"]),
        ("I'll visit Porto next week.", "", ["plans"]),
        ("My sister Ana lives in Ghent.", "sister Ana", ["home"]),
        ("My mum is allergic to nuts.", "mother", ["health"]),
        ("My daughter Eva started school.", "daughter Eva", ["other"]),
        ("Where do I live?", "", []),
        ("I used to live in Rome.", "", []),
        ("If I lived in Rome, I would be happy.", "", []),
        ("The wifi in the office is slow.", "", []),
        ("Thanks!", "", []),
    ],
)
async def test_a_statement_is_listed_under_its_subject_and_topics(text: str, subject: str, topics: list[str]) -> None:
    assert await profile_of(text) == [(subject, topic, text, "") for topic in topics]


async def test_what_the_judge_says_is_replaced_stays_with_its_end_behind_what_replaced_it() -> None:
    assert await profile_of("I go swimming on Mondays.", "I go swimming on Thursdays now.") == [
        ("", "routines", "I go swimming on Thursdays now.", ""),
        ("", "routines", "I go swimming on Mondays.", "2 Jan"),
    ]
    assert [until for *_, until in await profile_of("I like tea.", "I like coffee.")] == ["", ""]


async def test_the_newest_home_comes_first_and_the_older_one_ended_when_it_began() -> None:
    profile = await profile_of("I live in Lyon.", "I like tea.", "I moved to Grenoble.")
    assert profile == [
        ("", "home", "I moved to Grenoble.", ""),
        ("", "home", "I live in Lyon.", "3 Jan"),
        ("", "preferences", "I like tea.", ""),
    ]


async def test_a_replaced_home_is_listed_after_its_replacement_whenever_it_was_ended() -> None:
    memory = LongTermMemory(open_store("numpy:"))
    lyon = (await memory.remember("I live in Lyon.")).id
    await memory.remember(Memory("I live in Grenoble.", replaces=(lyon,)))
    assert [entry.memory.text for entry in await memory.profile()] == ["I live in Grenoble.", "I live in Lyon."]


async def test_a_relative_named_by_name_or_by_kin_word_is_one_subject() -> None:
    profile = await profile_of(
        "My husband is called Marek.", "Marek is allergic to nuts.", "My husband likes tea.", "Bob naps."
    )
    assert {subject for subject, *_ in profile} == {"husband Marek"}
    assert len(profile) == 3


async def test_the_profile_omits_documents_and_ended_statements_and_merges_wordings() -> None:
    page = Memory("I like coffee.", trust=Trust.DOCUMENT, actor="document")
    gone = Memory("I like milk.", expires_at=FIRST + timedelta(days=1))
    off = Memory("I like water.", disabled=True)
    over = Memory("I like mate.", valid_to=FIRST + timedelta(days=1))
    profile = await profile_of("I like tea.", "i like tea", page, gone, off, over)
    assert profile == [("", "preferences", "i like tea", "")]


async def test_topics_are_limited_and_attributes_and_a_filter_narrow_them() -> None:
    items = ["My name is Clara.", *(f"I like tea number {number}." for number in range(7))]
    assert [text for *_, text, _ in await profile_of(*items, limit=2)] == [items[0], items[7], items[6]]
    assert [text for *_, text, _ in await profile_of(*items, attributes=True)] == [items[0]]
    assert await profile_of(*items, where={"role": "assistant"}) == []
    assert await profile_of() == []


async def test_what_is_taken_back_ends_and_the_correction_is_of_its_topic() -> None:
    memory = LongTermMemory(open_store("numpy:"), embedder=E5Encoder(), clock=lambda: FIRST + timedelta(days=100))
    texts = ["My doctor is Dr Shah.", "I have three cats", "No, my doctor is Dr Klein."]
    days = [FIRST + timedelta(days=day) for day in range(3)]
    await memory.remember_many(Memory(text, occurred_at=day) for text, day in zip(texts, days, strict=True))
    health = [entry for entry in await memory.profile() if entry.topic == "health"]
    assert [(entry.memory.text, entry.until) for entry in health] == [(texts[2], None), (texts[0], days[2])]
