"""The codec of memories: every field survives the round trip through an entry of the store.

Inner parts, on no face: ``tellback.memory.codec``, ``tellback.memory.models``.
"""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from tellback.memory import Memory, Source, Trust
from tellback.memory.codec import DECLARED_FIELDS, entry_context, from_entry
from tellback.memory.internals import UtteranceKind, to_entry
from tellback.memory.models import Repetition
from tellback.vectorstore import Entry

WORDS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)
OPTIONAL = st.none() | WORDS
MOMENTS = st.none() | st.datetimes(
    min_value=datetime.fromisoformat("0001-01-02T00:00"),
    max_value=datetime.fromisoformat("9999-12-30T00:00"),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))]),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | WORDS,
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
)
SOURCES = st.none() | st.builds(
    Source,
    session=WORDS,
    sequence=st.none() | st.integers(0, 9),
    document=OPTIONAL,
    title=OPTIONAL,
    page=st.none() | st.integers(1, 9),
    heading=st.lists(WORDS, max_size=3).map(tuple),
    start=st.none() | st.integers(0, 9),
    end=st.none() | st.integers(0, 9),
)
REPETITIONS = st.builds(
    Repetition, MOMENTS.filter(bool), session=OPTIONAL, actor=st.sampled_from(["user", "assistant"])
)
FIELDS = {
    "text": WORDS,
    "id": WORDS,
    "kind": WORDS,
    "role": OPTIONAL,
    "speaker": OPTIONAL,
    "session": OPTIONAL,
    "sequence": st.none() | st.integers(0, 1000),
    "source": SOURCES,
    "tags": st.lists(WORDS, max_size=3).map(tuple),
    "scopes": st.dictionaries(WORDS, WORDS, max_size=2),
    "key": OPTIONAL,
    "importance": st.none() | st.floats(0, 1),
    "pinned": st.booleans(),
    "disabled": st.booleans(),
    "sensitive": st.booleans(),
    "trust": st.sampled_from(Trust),
    "actor": st.sampled_from(["user", "assistant", "tool", "document", "system"]),
    "occurred_at": MOMENTS,
    "valid_from": MOMENTS,
    "valid_to": MOMENTS,
    "expires_at": MOMENTS,
    "recorded_at": MOMENTS,
    "retired_at": MOMENTS,
    "counts_from": MOMENTS,
    "counts_to": MOMENTS,
    "withdrawn": st.booleans(),
    "derived_from": st.lists(WORDS, max_size=3).map(tuple),
    "replaces": st.lists(WORDS, max_size=3).map(tuple),
    "supersedes": OPTIONAL,
    "operation": OPTIONAL,
    "caption": st.just("") | WORDS,
    "about": st.just("") | WORDS,
    "about_by": st.sampled_from(["", "caller", "model", "head"]),
    "utterance": st.none() | st.sampled_from(UtteranceKind),
    "utterance_reason": st.just("") | WORDS,
    "evidence": st.none() | st.booleans(),
    "repeated": st.lists(REPETITIONS, max_size=2).map(tuple),
    "metadata": st.dictionaries(WORDS, JSON, max_size=3),
}
MEMORIES = st.builds(Memory, **FIELDS)


@given(MEMORIES)
def test_a_memory_survives_the_round_trip_through_its_entry(memory):
    assert from_entry(to_entry(memory)) == memory


def test_the_round_trip_test_draws_every_field_of_a_memory():
    assert {field.name for field in fields(Memory)} - {"revision"} == set(FIELDS)


def test_metadata_and_scopes_of_the_caller_cannot_overwrite_reserved_fields():
    memory = Memory("x", id="a", kind="note", metadata={"kind": "forged", "text": "t"}, scopes={"trust": "user"})
    entry = to_entry(replace(memory, trust=Trust.DOCUMENT))
    assert entry.metadata["kind"] == "note"
    assert entry.metadata["trust"] == "document"
    assert entry.metadata["meta.kind"] == "forged"
    assert entry.metadata["scope.trust"] == "user"


def test_times_are_stored_as_sortable_text_beside_their_offset():
    moment = datetime(2026, 5, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    metadata = to_entry(Memory("x", id="a", valid_from=moment)).metadata
    assert metadata["valid_from"] == "2026-05-01T00:00:00.000000Z"
    assert metadata["valid_from_offset"] == 7200


def test_date_and_speaker_are_the_context_of_a_memory():
    memory = Memory("I moved.", id="a", speaker="Ann", occurred_at=datetime(2023, 5, 7, tzinfo=UTC))
    assert to_entry(memory).text == "I moved."
    assert entry_context(memory) == "7 May, 2023\nAnn"


def test_title_and_headings_are_the_context_of_a_passage():
    source = Source(document="a.md", title="Guide", heading=("Install", "Linux"))
    assert entry_context(Memory("x", id="a", source=source)) == "Guide\nInstall\nLinux"


def test_a_caption_is_in_the_text_of_the_entry_and_not_in_the_text_of_the_memory():
    entry = to_entry(Memory("Look!", id="a", caption="a cat"))
    assert entry.text == "Look! [image: a cat]"
    assert from_entry(entry).text == "Look!"


def test_declared_fields_exist_in_the_metadata_of_entries():
    everything = Memory(
        "x",
        id="a",
        role="user",
        speaker="Ann",
        session="s",
        sequence=1,
        source=Source(document="d"),
        disabled=True,
        pinned=True,
        valid_from=datetime(2020, 1, 1, tzinfo=UTC),
        valid_to=datetime(2021, 1, 1, tzinfo=UTC),
        expires_at=datetime(2022, 1, 1, tzinfo=UTC),
    )
    assert set(DECLARED_FIELDS) <= set(to_entry(everything).metadata)


def test_an_entry_written_by_another_program_still_reads():
    memory = from_entry(Entry("a", text="plain", metadata={"unknown": 1}))
    assert (memory.text, memory.kind, memory.trust) == ("plain", "fact", Trust.USER)
