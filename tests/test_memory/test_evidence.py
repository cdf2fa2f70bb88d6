"""Evidence: kinds of utterances, what recall leaves out by default, promotion, and repetitions."""

from datetime import UTC, datetime

import pytest

from tellback.memory import LongTermMemory, Memory, Message, run_sync
from tellback.memory.internals import Outcome, RecallStage, UtteranceKind, analyze_text
from tellback.vectorstore import open_store

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
KINDS = {
    UtteranceKind.STATEMENT: (
        "I moved to Lisbon in May.",
        "Thanks! The interview went well",
        "Remember my friend Solveig? She opened a bakery",
        "When I was young, we lived in Porto.",
        "show jumping is her sport",
        "Got the job!",
        "Well, I moved to Lisbon",
        "Der Bericht ist am 12. Mai fällig",
        "para mi cumpleaños quiero un perro",
        "\u6211\u4f4f\u5728\u4e0a\u6d77",
        "Pizza",
    ),
    UtteranceKind.STATING_QUESTION: (
        "Is my sister's dog Rex allowed on trains?",
        "What should I get Ana, who loves tea?",
        "since I take candesartan, may I eat grapefruit?",
        "Darf der Hund meiner Schwester, Rex, in den Zug?",
    ),
    UtteranceKind.STATING_COMMAND: (
        "remind me to water Petra's tomatoes on Wednesday",
        "call me Al",
        "Recuérdame comprar pan",
    ),
    UtteranceKind.QUESTION: (
        "Tabs or spaces, which do I use?",
        "In which town is Ana these days?",
        "when is my shift?",
        "what's my locker code again?",
        "how far is Lisbon from Faro?",
        "tell me what Ana said",
        "Wann ist meine Schicht?",
        "¿Cuándo empieza mi turno?",
        "\u660e\u5929\u5929\u6c14\u600e\u4e48\u6837\uff1f",
    ),
    UtteranceKind.COMMAND: ("tell me a joke", "shorter please"),
    UtteranceKind.SMALL_TALK: ("Thanks!", "ok", "haha good one", "Danke dir!", "hola, buenos días", "\u8c22\u8c22"),
}


@pytest.fixture
def memory() -> LongTermMemory:
    return LongTermMemory(open_store("numpy:"), clock=lambda: NOW)


def told(memory: LongTermMemory, *texts: str) -> list[str]:
    """Remember *texts* as turns of the user; return their ids."""
    return [report.id for report in run_sync(memory.remember_turn("s", [Message.user(text) for text in texts]))]


def found(memory: LongTermMemory, question: str, **options: bool) -> list[str]:
    return [hit.memory.text for hit in run_sync(memory.recall(question, **options))]


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in KINDS.items() for text in texts])
def test_rules_determine_the_kind_of_an_utterance(kind: UtteranceKind, text: str) -> None:
    assert analyze_text(text).utterance.kind == kind


def test_a_question_is_not_recalled_but_its_words_find_the_answer(memory):
    talk = [Message.user("Where did I hide the spare key?"), Message.assistant("Under the blue pot.")]
    asked, answer = (report.id for report in run_sync(memory.remember_turn("s", talk)))
    told(memory, "The garden needs water.", "ok")
    assert found(memory, "Where is the spare key?")[0] == "Under the blue pot."
    assert "Where did I hide the spare key?" not in found(memory, "Where is the spare key?")
    assert "Where did I hide the spare key?" in found(memory, "Where is the spare key?", all_utterances=True)
    why = run_sync(memory.why_not("Where is the spare key?", asked))
    assert (why.stage, "question" in why.reason) == (RecallStage.EVIDENCE, True)
    kept = run_sync(memory.get([asked, answer]))
    assert [each.utterance for each in kept] == [UtteranceKind.QUESTION, None]
    assert len(run_sync(memory.conversations.load("s"))) == 4


def test_a_demoted_memory_is_promoted_and_demoted_again_by_one_call_and_undone(memory):
    (asked,) = told(memory, "Where did I hide the spare key?")
    promotion = run_sync(memory.promote(asked))
    assert found(memory, "spare key") == ["Where did I hide the spare key?"]
    run_sync(memory.demote(asked))
    assert found(memory, "spare key") == []
    run_sync(memory.promote(asked))
    assert run_sync(memory.promote(asked)) is None
    run_sync(memory.correct(asked, "The spare key is under the pot."))
    assert run_sync(memory.get([asked]))[0].utterance == UtteranceKind.STATEMENT
    assert promotion is not None


def test_memories_of_older_files_are_classified_when_indexed(memory):
    told(memory, "Where did I hide the spare key?")
    (namespace,) = memory.store.namespaces()
    (entry,) = memory.store.scan(namespace=namespace)
    plain = {name: value for name, value in entry.metadata.items() if not name.startswith("utterance")}
    memory.store.upsert([type(entry)("old", text=entry.text, metadata=plain)], namespace=namespace)
    assert found(memory, "spare key") == []


def test_questions_in_notes_and_in_conversations_between_people_are_recalled(memory):
    run_sync(memory.remember("Which glue holds porcelain?"))
    assert found(memory, "porcelain glue") == ["Which glue holds porcelain?"]
    for place, (speaker, text) in enumerate([("Ana", "Did you buy the canoe?"), ("Ben", "I did, a red one.")]):
        turn = Memory(text, kind="turn", role="user", speaker=speaker, session="talk", sequence=place)
        run_sync(memory.remember(turn))
    assert "Did you buy the canoe?" in found(memory, "Who bought a canoe?")


def test_a_note_remembered_twice_is_one_memory_with_both_times(memory):
    first = run_sync(memory.remember(Memory("The spare key is at Dora's.", occurred_at=NOW)))
    again = Memory("the spare key is  at Dora's", occurred_at=NOW.replace(month=7), session="chat")
    report = run_sync(memory.remember(again))
    assert (report.outcome, report.of, report.id) == (Outcome.DUPLICATE, first.id, first.id)
    (kept,) = run_sync(memory.list())
    assert [(each.at, each.session) for each in kept.repeated] == [(NOW.replace(month=7), "chat")]
    assert run_sync(memory.remember(again)).outcome == Outcome.DUPLICATE
    assert run_sync(memory.get([first.id]))[0].repeated == kept.repeated
    run_sync(memory.undo(str(report.operation)))
    assert run_sync(memory.get([first.id]))[0].repeated == ()


def test_equal_notes_of_one_batch_are_folded_and_different_ones_are_not(memory):
    texts = ["Ana has a cat.", "Ana has a cat.", "Ana has a dog.", Memory("Ana has a cat.", scopes={"project": "x"})]
    reports = run_sync(memory.remember_many(texts))
    assert [report.outcome for report in reports] == ["stored", "duplicate", "stored", "stored"]
    assert (reports[1].of, run_sync(memory.count())) == (reports[0].id, 3)


@pytest.mark.parametrize("change", ["correct", "end", "disable", "forget"])
def test_a_repeated_note_is_stored_anew_if_the_first_is_no_longer_valid(memory, change):
    id = run_sync(memory.remember("I live in Lisbon.")).id
    if change == "correct":
        run_sync(memory.correct(id, "I live in Porto."))
    elif change == "end":
        run_sync(memory.end(id, NOW))
    elif change == "disable":
        run_sync(memory.disable(id))
    else:
        run_sync(memory.forget([id]))
    report = run_sync(memory.remember("I live in Lisbon."))
    assert (report.outcome, report.id != id) == (Outcome.STORED, True)


def test_a_user_statement_is_not_folded_into_a_note_of_the_assistant(memory):
    note = Memory("The user likes tea.", trust="assistant", actor="assistant")
    run_sync(memory.remember(note))
    assert run_sync(memory.remember("The user likes tea.")).outcome == Outcome.STORED
    assert run_sync(memory.remember(note)).outcome == Outcome.DUPLICATE


def test_a_fact_stated_again_after_a_change_ranks_first(memory):
    for month, text in enumerate(("I live in Lisbon.", "I live in Porto.", "I live in Lisbon."), start=1):
        run_sync(memory.remember(Memory(text, occurred_at=NOW.replace(month=month))))
    assert found(memory, "Where do I live?")[0] == "I live in Lisbon."


def test_an_answer_that_only_repeats_recalled_memories_is_no_evidence(memory):
    (told_id,) = told(memory, "I moved to Lisbon in May with my sister Ana.")
    question = Message.user("Where did I move?")
    reports = []
    for answer in ("You moved to Lisbon in May.", "You moved to Lisbon, and the trams there run until 1 am."):
        turn = [question, Message.assistant(answer)]
        reports.append(run_sync(memory.remember_turn("s2", turn, used=[told_id]))[1])
    kinds = [kept.utterance for kept in run_sync(memory.get([report.id for report in reports]))]
    assert kinds == [UtteranceKind.REPETITION, None]
    assert reports[0].of == told_id
    assert "You moved to Lisbon in May." not in found(memory, "Where did I move?")


def test_a_models_note_that_repeats_a_memory_is_stored_and_not_recalled(memory):
    told(memory, "I moved to Lisbon in May with my sister Ana.")
    note = Memory("Moved to Lisbon in May.", kind="note", trust="assistant", actor="assistant")
    report = run_sync(memory.remember(note))
    assert (report.stored, report.of is not None) == (True, True)
    assert "Moved to Lisbon in May." not in found(memory, "Lisbon in May")
    run_sync(memory.promote(report.id))
    assert "Moved to Lisbon in May." in found(memory, "Lisbon in May")
