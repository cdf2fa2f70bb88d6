"""Recall over a store: what is found, filtered, kept fresh and explained. No model; words and made-up vectors.

Inner parts, on no face: ``tellback.memory.retrieval.query``, ``tellback.memory.retrieval.retriever``,
``tellback.memory.retrieval.scoring.settings``, ``tellback.memory.write.embedding_service``,
``tellback.memory.codec``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from numpy.typing import NDArray

from tellback.memory import (
    ArgumentError,
    HashingEmbedder,
    LongTermMemory,
    Memory,
    RecallOptions,
    RecallResult,
    RecallSettings,
    SentenceEncoder,
    Source,
    run_sync,
)
from tellback.memory.codec import DECLARED_FIELDS
from tellback.memory.internals import to_entry
from tellback.memory.retrieval.query import Query
from tellback.memory.retrieval.retriever import Retriever
from tellback.memory.write.embedding_service import EmbeddingService
from tellback.vectorstore import LifecycleStore, Space, Vector, VectorStore, open_store
from tests.support.data_only_store import DataOnlyStore
from tests.support.homes import HOMES, address_in_home

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
EMBEDDER = HashingEmbedder(dimension=64)


@pytest.fixture(params=HOMES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LifecycleStore]:
    opened = open_store(address_in_home(request, tmp_path), fields=DECLARED_FIELDS)
    opened.set_space(Space(EMBEDDER.fingerprint, EMBEDDER.dimension))
    yield opened
    opened.close()


def vectors(texts: Sequence[str]) -> dict[str, Vector]:
    rows: NDArray[np.float32] = run_sync(EMBEDDER.embed(texts))
    return {text: row for text, row in zip(texts, rows, strict=True) if row.any()}


def put(
    store: LifecycleStore, memories: Iterable[Memory], namespace: str = "/conversation", *, embed: bool = True
) -> None:
    kept = list(memories)
    by_text = vectors([memory.text for memory in kept]) if embed else {}
    store.upsert([to_entry(memory, vector=by_text.get(memory.text)) for memory in kept], namespace=namespace)


def retriever_of(store: VectorStore, *, settings: RecallSettings | None = None) -> Retriever:
    return Retriever(store, EmbeddingService(store, None), settings=settings)


def query_of(text: str, *, now: datetime = NOW, k: int = 10, **options: object) -> Query:
    chosen: RecallOptions = {"partitions": ("conversation",), **options}  # type: ignore[typeddict-item]
    return Query.of(text, k, chosen, now=now, zone=None, counter=len)


def ask(retriever: Retriever, text: str, *, embed: bool = True, **options: object) -> RecallResult:
    query = query_of(text, **options)  # type: ignore[arg-type]
    texts = retriever.texts_to_embed(query)
    return retriever.search(replace(query, vectors=vectors(texts) if embed else {}))


def ids(found: RecallResult) -> list[str]:
    return [hit.memory.id for hit in found]


def turn(at: int, speaker: str, text: str, session: str = "s1", days: int = 0) -> Memory:
    return Memory(
        text,
        id=f"{session}-{at}",
        kind="turn",
        speaker=speaker,
        session=session,
        sequence=at,
        occurred_at=NOW - timedelta(days=100 - days),
    )


TALK = [
    turn(0, "Anna", "Hey Bela, how was your week?"),
    turn(1, "Bela", "Busy! What did you name the new puppy?"),
    turn(2, "Anna", "Biscuit, after the old one."),
    turn(3, "Bela", "I am learning the cello since March."),
    turn(4, "Anna", "My sister plays the violin."),
    turn(0, "Bela", "The mountain hike was wonderful.", "s2", 30),
    turn(1, "Anna", "I would rather swim in the lake.", "s2", 30),
    turn(2, "Bela", "Did you see the eclipse?", "s2", 30),
    turn(3, "Anna", "Clouds all day, sadly.", "s2", 30),
]
FACTS = [
    Memory("Anna was born in Lisbon.", id="f1", kind="fact"),
    Memory("The cello belongs to uncle Tomas.", id="f2", kind="fact"),
]


def test_the_turn_with_the_words_of_the_question_comes_first(store: LifecycleStore) -> None:
    put(store, TALK)
    assert ids(ask(retriever_of(store), "Who is learning the cello?"))[0] == "s1-3"


def test_an_answer_is_found_by_the_words_of_its_question(store: LifecycleStore) -> None:
    put(store, TALK)
    found = ids(ask(retriever_of(store), "What is the name of Anna's puppy?"))
    assert found[0] == "s1-2"


def test_the_asked_part_lifts_answers_of_the_named_person_to_a_similar_earlier_question(store: LifecycleStore) -> None:
    talk = [
        turn(0, "Bela", "So much snow. Which winter sport do you like most? Tell me."),
        turn(1, "Anna", "Skating."),
        turn(2, "Bela", "Did the winter sport magazine come?"),
        turn(3, "Anna", "Yesterday."),
        turn(4, "Anna", "Which winter sport do you like most?"),
        turn(5, "Bela", "Curling."),
        turn(6, "Anna", "I like the winter sport channel."),
    ]
    put(store, talk)
    question = "Which winter sport does Anna like most?"
    without = RecallSettings(dialogue={**RecallSettings().dialogue, "asked": 0.0})
    parts = {hit.memory.id: hit.parts.get("asked", 0.0) for hit in ask(retriever_of(store), question, explain=True)}
    assert parts["s1-1"] > parts["s1-3"] > 0
    assert parts["s1-5"] == parts["s1-6"] == 0, "Bela is not asked about, and nothing was asked before"
    assert not any("asked" in hit.parts for hit in ask(retriever_of(store, settings=without), question, explain=True))
    assert ids(ask(retriever_of(store), question))[0] == "s1-1"


def test_a_turn_of_the_named_person_ranks_before_the_same_words_of_another(store: LifecycleStore) -> None:
    put(store, [turn(0, "Anna", "I love chess."), turn(1, "Bela", "I love chess."), turn(2, "Anna", "Hm.")])
    retriever = retriever_of(store)
    assert ids(ask(retriever, "Does Anna love chess?"))[0] == "s1-0"
    assert ids(ask(retriever, "Does Bela love chess?"))[0] == "s1-1"


def test_a_date_in_the_query_finds_the_turn_of_that_day(store: LifecycleStore) -> None:
    early = turn(0, "Anna", "We went to the lake.", "s1", 0)
    late = turn(0, "Anna", "We went to the lake again.", "s2", 60)
    put(store, [early, late])
    retriever = retriever_of(store)
    for memory in (early, late):
        assert memory.occurred_at is not None
        day = memory.occurred_at.date().isoformat()
        assert ids(ask(retriever, f"Where did she go on {day}?"))[0] == memory.id


def test_the_embedded_query_omits_names_for_conversations_and_keeps_them_for_documents(store: LifecycleStore) -> None:
    put(store, TALK)
    retriever = retriever_of(store)
    text = "What did Anna name the puppy?"
    bare = "What did name the puppy?"
    assert retriever.texts_to_embed(query_of(text, partitions=("conversation", "documents"))) == (text, bare)
    assert retriever.texts_to_embed(query_of(text)) == (bare,)
    assert retriever.texts_to_embed(query_of(text, partitions=("documents",))) == (text,)
    assert retriever.texts_to_embed(query_of("the puppy?", partitions=("conversation", "documents"))) == ("the puppy?",)


def test_facts_without_a_session_are_found_beside_turns(store: LifecycleStore) -> None:
    put(store, [*TALK, *FACTS])
    retriever = retriever_of(store)
    assert ids(ask(retriever, "Where was Anna born?"))[0] == "f1"
    assert set(ids(ask(retriever, "Whose is the cello?", k=2))) == {"f2", "s1-3"}


def test_a_user_and_an_assistant_without_names_work(store: LifecycleStore) -> None:
    talk = [
        Memory("I moved to Porto.", id="u1", role="user", session="s", sequence=0),
        Memory("Porto is lovely. I moved your meeting.", id="a1", role="assistant", session="s", sequence=1),
        Memory("My cat is called Miso.", id="u2", role="user", session="s", sequence=2),
        Memory("I suggested the blue sofa.", id="a2", role="assistant", session="s", sequence=3),
    ]
    put(store, talk)
    retriever = retriever_of(store)
    assert ids(ask(retriever, "Where did I move?"))[0] == "u1"
    assert ids(ask(retriever, "What is my cat called?"))[0] == "u2"
    assert ids(ask(retriever, "Which sofa did you suggest?"))[0] == "a2"
    assert retriever.texts_to_embed(query_of("What does the user want?")) == ("What does the user want?",)


def test_one_memory_alone_is_found(store: LifecycleStore) -> None:
    put(store, [Memory("The key is under the mat.", id="only")])
    found = ask(retriever_of(store), "Where is the key?")
    assert ids(found) == ["only"]
    assert found.abstain is None


def test_recall_from_an_empty_memory_abstains_with_reason_nothing(store: LifecycleStore) -> None:
    found = ask(retriever_of(store), "Where is the key?")
    assert (ids(found), found.confidence, found.abstain) == ([], 0.0, "nothing")


def test_an_unrelated_query_abstains_with_reason_nothing(store: LifecycleStore) -> None:
    put(store, TALK)
    retriever = retriever_of(store)
    assert ask(retriever, "Which tax form covers depreciation?", embed=False).abstain == "nothing"
    assert ask(retriever, "Who is learning the cello?", embed=False).abstain is None


def test_a_query_about_another_speakers_statement_abstains_with_reason_other(store: LifecycleStore) -> None:
    put(store, TALK)
    retriever = retriever_of(store)
    assert ask(retriever, "Since when does Anna play the cello?", embed=False).abstain == "other"
    assert ask(retriever, "Since when does Bela play the cello?", embed=False).abstain is None


@pytest.mark.parametrize("text", ["?", "the of and", "😀", "a" * 5000, "' OR 1=1 --", "名前は何ですか", "\u202e"])
def test_recall_accepts_any_text_as_a_query(store: LifecycleStore, text: str) -> None:
    put(store, TALK)
    retriever = retriever_of(store)
    assert len(ask(retriever, text)) <= 10
    assert len(ask(retriever, text, embed=False)) <= 10


def test_recall_filters_by_speaker_and_session(store: LifecycleStore) -> None:
    put(store, TALK)
    retriever = retriever_of(store)
    found = ask(retriever, "What is the name of the puppy?", where={"speaker": "Bela"})
    assert {hit.memory.speaker for hit in found} == {"Bela"}
    assert ids(ask(retriever, "puppy", where={"session": "s2"})) != []
    assert all(hit.memory.session == "s2" for hit in ask(retriever, "puppy", where={"session": "s2"}))


def test_recall_by_tags_needs_any_one_of_them(store: LifecycleStore) -> None:
    put(
        store,
        [
            Memory("tea is green", id="a", tags=("home", "work")),
            Memory("tea is black", id="b", tags=("home",)),
            Memory("tea is red", id="c"),
        ],
    )
    retriever = retriever_of(store)
    assert sorted(ids(ask(retriever, "tea", tags=("home",)))) == ["a", "b"]
    assert ids(ask(retriever, "tea", tags=("work", "garden"))) == ["a"]
    assert sorted(ids(ask(retriever, "tea", tags=("home", "work")))) == ["a", "b"]


def test_a_tag_is_a_word_of_its_memory_while_it_has_it(store: LifecycleStore) -> None:
    memory = LongTermMemory(store, clock=lambda: NOW)
    texts = "Nuts make her throat swell.", "The roof leaks.", "My brother lives in Porto."
    tags = [("allergies",), (), ()]
    ids = [run_sync(memory.remember(Memory(text, tags=tag))).id for text, tag in zip(texts, tags, strict=True)]

    def found(question: str) -> list[str]:
        result = run_sync(memory.recall(question, explain=True))
        assert all(match.word in question for hit in result for match in hit.matched)
        return [] if result.abstain else [hit.memory.id for hit in result]

    assert found("any allergies?")[:1] == ids[:1]
    operation = run_sync(memory.untag(ids[:1], ["allergies"]))
    assert found("any allergies?") == []
    run_sync(memory.undo(operation.id if operation else ""))
    assert found("any allergies?")[:1] == ids[:1]
    corrected = run_sync(memory.correct(ids[0], "Nuts are bad for Mia."))
    run_sync(memory.tag(ids[1:2], ["house"]))
    assert (found("the house")[:1], found("any allergies?")[:1]) == (ids[1:2], ids[:1])
    run_sync(memory.undo(str(corrected.operation)))
    assert found("any allergies?")[:1] == ids[:1]


def test_a_result_below_the_confidence_asked_for_shows_no_hits_and_names_them(store: LifecycleStore) -> None:
    memory = LongTermMemory(store, clock=lambda: NOW)
    id = run_sync(memory.remember("The roof leaks.")).id
    sure = run_sync(memory.recall("Does the roof leak?"))
    above = min(1.0, sure.confidence + 0.01)
    unsure = run_sync(memory.recall("Does the roof leak?", min_confidence=above))
    assert (unsure.hits, unsure.confidence, [left.id for left in unsure.left_out]) == ((), sure.confidence, [id])
    assert len(run_sync(memory.recall("Does the roof leak?", min_confidence=sure.confidence))) == 1
    assert run_sync(memory.why_not("Does the roof leak?", id, min_confidence=above)).stage == "confidence"


@pytest.mark.parametrize(
    ("name", "meant"), [("scopes.project", "scope.project"), ("speakr", "speaker"), ("nosuchfield", "meta.NAME")]
)
def test_a_filter_on_a_field_that_no_memory_has_is_refused_with_those_it_has(name: str, meant: str) -> None:
    memory = LongTermMemory(open_store("numpy:"))
    where = {name: "x"}
    for call in (memory.recall("ferry", where=where), memory.list(where=where), memory.forget(where=where)):
        with pytest.raises(ArgumentError, match=meant):
            run_sync(call)


def test_disabled_expired_and_not_yet_valid_memories_stay_hidden(store: LifecycleStore) -> None:
    hour = timedelta(hours=1)
    put(
        store,
        [
            Memory("tea one", id="plain"),
            Memory("tea two", id="disabled", disabled=True),
            Memory("tea three", id="expired", expires_at=NOW),
            Memory("tea four", id="early", valid_from=NOW + hour),
            Memory("tea five", id="over", valid_to=NOW),
            Memory("tea six", id="current", valid_from=NOW, valid_to=NOW + hour, expires_at=NOW + hour),
        ],
    )
    retriever = retriever_of(store)
    assert sorted(ids(ask(retriever, "tea"))) == ["current", "plain"]
    assert sorted(ids(ask(retriever, "tea", as_of=NOW - hour))) == ["over", "plain"]
    assert sorted(ids(ask(retriever, "tea", as_of=NOW + hour))) == ["early", "plain"]


def test_a_hidden_neighbour_does_not_help_a_turn(store: LifecycleStore) -> None:
    question = Memory("What is the secret word?", id="q", speaker="A", session="s", sequence=0, disabled=True)
    answer = Memory("Marmalade.", id="a", speaker="B", session="s", sequence=1)
    put(store, [question, answer], embed=False)
    assert ids(ask(retriever_of(store), "secret word", embed=False)) == []


def test_recall_with_as_of_or_known_at_gives_the_version_of_that_time(store: LifecycleStore) -> None:
    first, second = NOW - timedelta(days=20), NOW - timedelta(days=10)
    old = Memory("Lives in Lisbon.", id="m@1", recorded_at=first, retired_at=second)
    new = Memory("Lives in Porto.", id="m", recorded_at=second, supersedes="m@1")
    put(store, [new])
    put(store, [old], "/archive")
    retriever = retriever_of(store)
    then = NOW - timedelta(days=15)
    assert ids(ask(retriever, "lives")) == ["m"]
    assert ids(ask(retriever, "lives", as_of=then)) == ["m@1"]
    assert ids(ask(retriever, "lives", known_at=then)) == ["m@1"]
    assert ids(ask(retriever, "lives", known_at=first - timedelta(days=1))) == []
    assert ids(ask(retriever, "lives", as_of=NOW)) == ["m"]


def test_recall_searches_only_the_namespaces_of_the_query(store: LifecycleStore) -> None:
    put(store, [Memory("tea with Anna", id="mine", speaker="Zoltan")], "me/conversation")
    put(store, [Memory("tea with Bela", id="yours", speaker="Anna")], "you/conversation")
    retriever = retriever_of(store)
    assert ids(ask(retriever, "tea", namespace=("me",))) == ["mine"]
    assert retriever.texts_to_embed(query_of("What did Anna say?", namespace="me")) == ("What did Anna say?",)
    assert sorted(ids(ask(retriever, "tea", namespace=("me", "you")))) == ["mine", "yours"]
    assert ids(ask(retriever, "tea", namespace=("unknown",))) == []
    hits = ask(retriever, "tea", namespace=("me", "you", "me"))
    assert sorted((hit.namespace, hit.memory.id) for hit in hits) == [("me", "mine"), ("you", "yours")]


def test_documents_and_conversations_are_merged_and_collections_chosen(store: LifecycleStore) -> None:
    put(store, TALK)
    for name, text in (("a", "The warranty lasts two years. Keep the receipt."), ("b", "Warranty claims go by mail.")):
        chunk = Memory(text, id=f"doc-{name}", kind="document", source=Source(document=f"{name}.md", title=name))
        put(store, [chunk], f"/documents/{name}")
    retriever = retriever_of(store)
    both = ("conversation", "documents")
    assert ids(ask(retriever, "How long does the warranty last?", partitions=both))[0] == "doc-a"
    assert ids(ask(retriever, "Who is learning the cello?", partitions=both))[0] == "s1-3"
    assert ids(ask(retriever, "warranty", partitions=("documents",), collections=("b",))) == ["doc-b"]
    assert sorted(ids(ask(retriever, "warranty", partitions=("documents",)))) == ["doc-a", "doc-b"]
    assert {hit.partition for hit in ask(retriever, "warranty", partitions=("documents",))} == {"documents"}


def test_one_partition_collection_or_namespace_may_be_given_as_a_string() -> None:
    memory = LongTermMemory(open_store("numpy:"))
    run_sync(memory.remember("The warranty lasts two years.", namespace="ana"))
    assert len(run_sync(memory.recall("warranty", namespace="ana", partitions="conversation"))) == 1
    assert len(run_sync(memory.recall("warranty", namespace="ana", partitions="documents", collections="b"))) == 0
    with pytest.raises(ArgumentError, match="attic"):
        run_sync(memory.recall("warranty", partitions="attic"))


def test_the_chunk_with_all_the_words_in_one_sentence_comes_first(store: LifecycleStore) -> None:
    scattered = "The red fox slept. A barn stood there. It was winter. Nobody built anything."
    together = "Long ago it rained. They built the red barn in winter. Nobody came."
    for name, text in (("scattered", scattered), ("together", together)):
        put(store, [Memory(text, id=name, kind="document", source=Source(document=name))], "/documents/d")
    found = ask(retriever_of(store), "When was the red barn built in winter?", partitions=("documents",), embed=False)
    assert ids(found) == ["together", "scattered"]


@pytest.mark.parametrize("data_only", [False, True])
def test_importance_orders_memories_of_equal_similarity_to_the_query(data_only: bool) -> None:
    store = open_store("numpy:")
    memory = LongTermMemory(DataOnlyStore(store) if data_only else store)  # type: ignore[arg-type]
    for name, importance in (("minor", 0.0), ("plain", None), ("vital", 1.0)):
        run_sync(
            memory.remember(Memory(f"The ferry to the {name} island leaves at nine.", key=name, importance=importance))
        )
    run_sync(memory.remember(Memory("A kestrel nests in the belfry.", key="other", importance=1.0)))

    def found() -> list[tuple[str | None, float]]:
        hits = run_sync(memory.recall("ferries to an island", explain=True))
        return [
            (hit.memory.key, hit.parts.get("importance", 0.0) / hit.score) for hit in hits if hit.memory.key != "other"
        ]

    ranked = found()
    assert [key for key, _ in ranked] == ["vital", "plain", "minor"]
    assert [share for _, share in ranked] == pytest.approx([0.1 / 1.1, 0.0, -0.1 / 0.9], abs=0.02)
    minor = run_sync(memory.list(where={"key": "minor"}))[0].id
    if not data_only:
        run_sync(memory.set_importance([minor], 1.0))
        assert dict(found())["minor"] == pytest.approx(0.1 / 1.1, abs=0.02)  # level with vital: the id decides
        run_sync(memory.set_importance([minor], None))
        assert {key for key, _ in found()[1:]} == {"plain", "minor"}


def test_the_default_importance_changes_no_score() -> None:
    def scores(importance: float | None) -> list[float]:
        memory = LongTermMemory(open_store("numpy:"))
        for text in ("The ferry leaves at nine.", "The ferry is blue.", "A kestrel nests in the belfry."):
            run_sync(memory.remember(Memory(text, importance=importance)))
        return [hit.score for hit in run_sync(memory.recall("When does the ferry leave?"))]

    assert scores(0.5) == scores(None)


def test_score_parts_add_up_to_the_score(store: LifecycleStore) -> None:
    put(store, TALK)
    for hit in ask(retriever_of(store), "When did Bela start learning the cello?", explain=True):
        assert sum(hit.parts.values()) == pytest.approx(hit.score, abs=1e-12)
        assert hit.parts
    assert all(not hit.parts for hit in ask(retriever_of(store), "cello"))


def test_a_warm_recaller_answers_like_a_cold_one_after_any_writes(store: LifecycleStore) -> None:
    seed = 7
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    warm = retriever_of(store)
    pool = [*TALK, *FACTS]
    for step in range(12):
        chosen = [pool[position] for position in rng.choice(len(pool), 4, replace=False)]
        if step % 3 == 2:
            store.delete([memory.id for memory in chosen], namespace="/conversation")
        else:
            put(store, chosen, embed=bool(rng.integers(2)))
        for text in ("What did Anna name her puppy?", "Which instruments are there?", "Where was the lake in March?"):
            first, second = ask(warm, text, explain=True), ask(retriever_of(store), text, explain=True)
            assert [(hit.memory, hit.score, hit.parts) for hit in first] == [
                (hit.memory, hit.score, hit.parts) for hit in second
            ]
            assert (first.confidence, first.abstain) == (second.confidence, second.abstain)


def test_the_order_of_writing_moves_no_score(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    answers = []
    for _ in range(3):
        store = open_store("numpy:", space=Space(EMBEDDER.fingerprint, EMBEDDER.dimension), fields=DECLARED_FIELDS)
        for position in rng.permutation(len(TALK)):
            put(store, [TALK[position]])
        found = ask(retriever_of(store), "What did Anna name her puppy?")
        answers.append([(hit.memory.id, hit.score) for hit in found])
    assert answers[0] == answers[1] == answers[2]


def test_a_warm_retriever_sees_later_writes_deletes_and_patches(store: LifecycleStore) -> None:
    put(store, TALK)
    retriever = retriever_of(store)
    ask(retriever, "cello")
    put(store, [Memory("The cello was sold.", id="new")])
    assert "new" in ids(ask(retriever, "cello"))
    store.delete(["new", "s1-3"], namespace="/conversation")
    assert not {"new", "s1-3"} & set(ids(ask(retriever, "cello")))
    store.patch({"s1-4": {"disabled": True}}, namespace="/conversation")
    assert "s1-4" not in ids(ask(retriever, "violin"))


def test_recall_finds_writes_of_another_process(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/m.db"
    mine, theirs = open_store(address, fields=DECLARED_FIELDS), open_store(address)
    try:
        put(mine, TALK, embed=False)
        retriever = retriever_of(mine)
        ask(retriever, "cello", embed=False)
        put(theirs, [Memory("The cello was sold.", id="new")], embed=False)
        theirs.delete(["s1-3"], namespace="/conversation")
        found = ids(ask(retriever, "cello", embed=False))
        assert "new" in found
        assert "s1-3" not in found
    finally:
        mine.close()
        theirs.close()


def test_threads_may_recall_and_write_concurrently(store: LifecycleStore) -> None:
    put(store, TALK)
    retriever = retriever_of(store)
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(8):
                put(store, [Memory(f"cello number {number} of {name}", id=f"{name}{number}")])
                assert f"{name}{number}" in ids(ask(retriever, f"cello number {number} of {name}"))
        except BaseException as error:  # handed to the test's own thread
            failures.append(error)

    threads = [Thread(target=work, args=(name,)) for name in ("x", "y", "z")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_hits_stay_within_the_token_budget(store: LifecycleStore) -> None:
    put(store, TALK)
    found = ask(retriever_of(store), "cello", token_budget=60, counter=len)
    assert 0 < sum(len(hit.memory.text) for hit in found) <= 60
    assert found.left_out


def test_a_data_only_store_is_searched_without_the_index_with_a_note(store: LifecycleStore) -> None:
    put(store, [*TALK, Memory("cello, hidden", id="hidden", disabled=True)])
    retriever = retriever_of(DataOnlyStore(store))  # type: ignore[arg-type]
    assert retriever.texts_to_embed(query_of("Is Anna here?")) == ("Is Anna here?",)
    found = ask(retriever, "Who is learning the cello?", explain=True)
    assert ids(found)[0] == "s1-3"
    assert "hidden" not in ids(found)
    assert found.notes
    assert sum(found[0].parts.values()) == pytest.approx(found[0].score)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"text": "  "}, "question"),
        ({"k": -1}, "k"),
        ({"k": True}, "k"),
        ({"namespaces": ()}, "namespace"),
        ({"partitions": ("attic",)}, "partitions"),
        ({"partitions": ()}, "partitions"),
        ({"now": datetime(2025, 1, 1)}, "now"),  # noqa: DTZ001 - naive on purpose
        ({"as_of": "yesterday"}, "as_of"),
        ({"token_budget": -1, "counter": len}, "token_budget"),
        ({"token_budget": 5}, "counter"),
    ],
)
def test_a_bad_query_names_its_argument(options: dict[str, object], argument: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        Query(**{"text": "what?", "now": NOW, **options})  # type: ignore[arg-type]
    assert caught.value.argument == argument


def test_recall_settings_refuse_zero_candidates() -> None:
    with pytest.raises(ArgumentError):
        RecallSettings(candidates=0)


def test_the_cosine_weight_of_notes_is_that_of_the_embedder_profile_unless_set() -> None:
    embedder = SentenceEncoder()

    def cosine_part(**settings: RecallSettings) -> float:
        memory = LongTermMemory(open_store("numpy:"), embedder=embedder, clock=lambda: NOW, **settings)
        run_sync(memory.remember_many(["The surgery opens at eight.", "The ferry to Skye was cancelled."]))
        (first, *_) = run_sync(memory.recall("When does the surgery start work?", explain=True))
        assert first.memory.text.startswith("The surgery")
        parts = dict(first.parts)
        return parts["cosine"] / sum(parts.values())

    by_setting = RecallSettings(told={**RecallSettings().told, "cosine": 0.1})
    assert cosine_part() > 0.4 > 0.1 > cosine_part(recall_settings=by_setting)
