"""From ranked candidates to hits: order, repeats, budget, parts, doubt.

Inner parts, on no face: ``tellback.memory.retrieval.scoring.scores``, ``tellback.memory.retrieval.token_budget``.
"""

import numpy as np
import pytest

from tellback.memory import Hit, Memory, Source
from tellback.memory.internals import Omitted, to_entry
from tellback.memory.retrieval.scoring.scores import RankedCandidate, ScoredCandidates, merge_ranked, top_positions
from tellback.memory.retrieval.token_budget import OVER_BUDGET, fetch_hits, pack_hits
from tellback.vectorstore import Entry

PLACE = "/conversation"


def scored(
    scores: dict[str, float], namespace: str = PLACE, partition: str = "conversation", topic: float = 1.0
) -> ScoredCandidates:
    values = np.array(list(scores.values()))
    return ScoredCandidates(
        namespace, partition, tuple(scores), {"words": values * 0.75, "cosine": values * 0.25}, topic
    )


def packed(
    memories: list[Memory],
    k: int = 10,
    *,
    source: ScoredCandidates | None = None,
    explain: bool = False,
    **options: object,
) -> tuple[tuple[Hit, ...], tuple[Omitted, ...]]:
    source = source or scored({memory.id: 1 - position / 10 for position, memory in enumerate(memories)})
    held = {memory.id: to_entry(memory) for memory in memories}

    def fetch(page: object) -> list[Entry | None]:
        return [held.get(item.id) for item in page]  # type: ignore[attr-defined]

    hits = fetch_hits(merge_ranked([source], 100), k, fetch, explain=explain)
    return pack_hits(hits, k=k, **options)  # type: ignore[arg-type]


def ids(hits: tuple[Hit, ...]) -> list[str]:
    return [hit.memory.id for hit in hits]


def test_hits_come_best_first_and_no_more_than_k() -> None:
    hits, left = packed([Memory("one", id="a"), Memory("two", id="b"), Memory("three", id="c")], 2)
    assert (ids(hits), left) == (["a", "b"], ())
    assert hits[0].namespace == ""
    assert hits[0].partition == "conversation"


def test_k_of_zero_gives_no_hits() -> None:
    assert packed([Memory("one", id="a")], 0) == ((), ())


def test_equal_scores_are_ordered_by_id_regardless_of_input_order() -> None:
    source = scored({"c": 0.5, "a": 0.5, "b": 0.5, "d": 0.9})
    assert [item.id for item in merge_ranked([source], 3)] == ["d", "a", "b"]
    assert top_positions(("c", "a", "b"), np.array([1.0, 1.0, 1.0]), 2) == [1, 2]


def test_equal_texts_of_one_speaker_are_folded_and_listed_as_omitted() -> None:
    hits, left = packed(
        [
            Memory("I like tea.", id="a", speaker="Anna"),
            Memory("I  like TEA.", id="b", speaker="Anna"),
            Memory("I like tea.", id="c", speaker="Bela"),
            Memory("I like tea too.", id="d", speaker="Anna"),
        ]
    )
    assert ids(hits) == ["a", "c", "d"]
    assert left == (Omitted("b", "says the same as a", "a"),)


def test_the_same_words_in_two_documents_are_both_cited() -> None:
    documents = [Memory("Tea.", id=name, source=Source(document=name)) for name in ("a", "b")]
    assert ids(packed(documents)[0]) == ["a", "b"]


def test_folding_still_fills_k() -> None:
    memories = [Memory("same", id=f"a{number}") for number in range(8)] + [
        Memory(f"other {number}", id=f"b{number}") for number in range(9)
    ]
    hits, _ = packed(memories, 5)
    assert ids(hits) == ["a0", "b0", "b1", "b2", "b3"]


def test_versions_of_one_memory_are_folded_into_the_better() -> None:
    live = scored({"a": 0.9})
    old = scored({"a@3": 0.8}, "/archive", "archive")
    memories = {"a": to_entry(Memory("new", id="a")), "a@3": to_entry(Memory("old", id="a@3"))}

    fetched = fetch_hits(merge_ranked([live, old], 9), 5, lambda page: [memories[item.id] for item in page])
    hits, left = pack_hits(fetched, k=5)
    assert (ids(hits), [item.id for item in left]) == (["a"], ["a@3"])


def test_the_token_budget_skips_texts_that_do_not_fit_and_lists_them_as_omitted() -> None:
    memories = [Memory("x" * 6, id="a"), Memory("y" * 6, id="b"), Memory("z" * 4, id="c")]
    hits, left = packed(memories, token_budget=10, counter=len)
    assert (ids(hits), left) == (["a", "c"], (Omitted("b", OVER_BUDGET),))
    assert packed(memories, token_budget=0, counter=len)[0] == ()


def test_candidates_deleted_before_the_fetch_are_skipped() -> None:
    hits, left = packed([Memory("one", id="a")], source=scored({"gone": 1.0, "a": 0.5}))
    assert (ids(hits), left) == (["a"], ())


def test_hit_parts_add_up_to_the_score_and_are_given_only_with_explain() -> None:
    (hit,), _ = packed([Memory("one", id="a")], source=scored({"a": 0.7}), explain=True)
    assert sum(hit.parts.values()) == hit.score
    assert set(hit.parts) == {"words", "cosine"}
    assert packed([Memory("one", id="a")])[0][0].parts == {}


def test_calibrated_partitions_are_merged_by_their_topic_confidence() -> None:
    weak = scored({"a": 3.0, "b": 1.5}, topic=0.4).calibrated()
    strong = scored({"c": 0.5, "d": 0.1}, "/documents/d", "documents", topic=0.8).calibrated()
    ranked = merge_ranked([weak, strong], 9)
    assert [item.id for item in ranked] == ["c", "a", "b", "d"]
    assert [round(item.score, 6) for item in ranked] == [0.8, 0.4, 0.2, 0.16]
    assert isinstance(ranked[0], RankedCandidate)


LONG = (
    " ".join(f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz")
    + " and then it went on for quite a while about "
    + ("the boat, the harbour, the wind and the old captain who knew them all")
)


@pytest.mark.parametrize(
    ("one", "other", "folded"),
    [
        ("I like tea.", "I like tea!", True),
        ("I like tea.", "“I like tea”", True),
        ("I like tea.", "I don't like tea.", False),
        ("My shift begins at six.", "My shift begins at seven.", False),
        ("🎉", "😀", False),
        (LONG, LONG.replace("harbour", "port"), True),
        (f"{LONG} in 1931", f"{LONG} in 1932", False),
        (LONG, " ".join(reversed(LONG.split())), False),
    ],
)
def test_near_duplicates_are_folded_and_texts_differing_in_substance_are_not(
    one: str, other: str, folded: bool
) -> None:
    hits, left = packed([Memory(one, id="a", speaker="Anna"), Memory(other, id="b", speaker="Anna")])
    assert (ids(hits), [out.into for out in left]) == ((["a"], ["a"]) if folded else (["a", "b"], []))


def test_no_candidate_is_folded_into_one_omitted_by_the_token_budget() -> None:
    hits, left = packed(
        [Memory("I like tea !!!!!!!!!!!", id="a"), Memory("I like tea", id="b")], token_budget=12, counter=len
    )
    assert (ids(hits), left) == (["b"], (Omitted("a", OVER_BUDGET),))


@pytest.mark.parametrize("seed", range(5))
def test_every_candidate_before_the_last_hit_is_a_hit_or_omitted_and_the_budget_holds(seed: int) -> None:
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    memories = [
        Memory(" ".join(rng.choice(list("abcd"), rng.integers(1, 6))), id=f"m{number:02}") for number in range(40)
    ]
    hits, left = packed(memories, 8, token_budget=40, counter=len)
    kept, out = ids(hits), [item.id for item in left]
    assert sum(len(hit.memory.text) for hit in hits) <= 40
    assert kept == sorted(kept)
    assert not set(kept) & set(out)
    until = int(kept[-1][1:]) if len(kept) == 8 else len(memories) - 1
    assert sorted([*kept, *out])[: until + 1] == [f"m{number:02}" for number in range(until + 1)]
    assert (hits, left) == packed(memories, 8, token_budget=40, counter=len)
