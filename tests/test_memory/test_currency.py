"""Which of several statements holds: what the classifiers tell of texts, and the features that the weights weigh.

Inner parts, on no face: ``tellback.memory.currency``, ``tellback.memory.analysis.heads``,
``tellback.memory.analysis.texts``, ``tellback.memory.embedders.e5_files``.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
import pytest

from tellback.memory import E5Encoder, LongTermMemory, Memory, run_sync
from tellback.memory.analysis.heads import head, letter_groups
from tellback.memory.analysis.texts import Trait, analyze_text
from tellback.memory.currency import FEATURES, Claim, Statements, currency_features, replaces
from tellback.memory.embedders.e5_files import e5_available
from tellback.vectorstore import open_store

needs_weights = pytest.mark.skipif(not e5_available(), reason="the package with the weights of E5 is not installed")


def features(
    topics: Sequence[AbstractSet[str]], *, trust: Sequence[int] = (), usable: Sequence[bool] = ()
) -> dict[str, list[float]]:
    """Return the features of statements that are equally relevant, the oldest first."""
    count = len(topics)
    statements = Statements(
        relevance=np.ones(count),
        times=np.arange(count),
        usable=np.array(usable or [True] * count),
        trust=np.array(trust or [0] * count),
        topics=topics,
        vectors=[None] * count,
    )
    return {name: values.tolist() for name, values in currency_features(statements).items()}


def test_a_statement_is_newer_than_another_of_its_topic_alone() -> None:
    found = features([{"spare key"}, {"car"}, {"spare key", "boiler"}, set()])
    assert tuple(found) == FEATURES
    assert (found["newer"], found["older"]) == ([0, 0, 1, 0], [1, 0, 0, 0])


def test_a_statement_replaces_none_that_is_trusted_more_and_none_if_it_does_not_hold() -> None:
    assert features([{"key"}, {"key"}], trust=[0, 2])["newer"] == [0, 0]
    assert features([{"key"}, {"key"}], trust=[2, 0])["newer"] == [0, 1]
    planned = features([{"key"}, {"key"}], usable=[True, False])
    assert (planned["newer"], planned["older"]) == ([0, 0], [0, 0])


@pytest.mark.parametrize(
    ("question", "time"),
    [
        ("Where do I live?", "now"),
        ("Where did I live before?", "past"),
        ("welches Auto hatten wir früher?", "past"),
        ("¿quién es mi dentista?", "now"),
    ],
)
def test_letters_tell_the_time_of_a_question(question: str, time: str) -> None:
    shares = head("time by letters").shares(letter_groups([question]))
    assert max(shares, key=lambda name: shares[name][0]) == time


@needs_weights
@pytest.mark.parametrize(
    ("text", "modality"),
    [
        ("The wifi password is heron-4711", "holds"),
        ("I might move to Porto next year", "plan"),
        ("Should I paint the kitchen?", "nothing"),
        ("we used to swim on tuesdays when the kids were small", "past"),
    ],
)
def test_vectors_tell_what_a_note_is(text: str, modality: str) -> None:
    shares = head("modality").shares(run_sync(E5Encoder().embed([text])))
    assert max(shares, key=lambda name: shares[name][0]) == modality


@needs_weights
def test_explain_shows_that_a_note_tells_of_a_change() -> None:
    memory = LongTermMemory(open_store("numpy:"), embedder=E5Encoder())
    run_sync(memory.remember_many([Memory("We drive a grey Skoda."), Memory("sold the skoda, we cycle now")]))
    parts = {hit.memory.text: hit.parts for hit in run_sync(memory.recall("Which car do we have?", explain=True))}
    assert parts["sold the skoda, we cycle now"]["change"] > 0.01 > parts["We drive a grey Skoda."].get("change", 0.0)


def test_a_line_that_is_repeated_as_a_whole_replaces_whoever_the_two_name_unless_one_is_a_plan() -> None:
    def said(subject: str, line: str, holds: float = 1.0) -> Claim:
        return Claim([subject, "key"], holds, 0.0, subject, frozenset({line}))

    older = said("anna", "spare key: who keeps it")
    assert replaces(older, said("bruno", "spare key: who keeps it")) == 1
    assert replaces(older, said("bruno", "spare key: who keeps it", holds=0.1)) == 0
    assert replaces(older, said("bruno", "shed key: who keeps it")) == 0


def test_german_words_for_mine_and_ours_are_of_oneself() -> None:
    for text in ("Mein Zahnarzt ist Dr. Weiss.", "Meine Wohnung ist in Graz.", "Unsere Heizung ist alt."):
        assert analyze_text(text).traits & Trait.SELF, text
