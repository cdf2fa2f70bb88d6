"""Write policies: each one's decision, how they go together on an item and on a turn, and what a failing one costs.

Inner parts, on no face: ``tellback.memory.write.draft``, ``tellback.memory.write.policy_runner``,
``tellback.memory.write.similar_memories``.
"""

import asyncio
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tellback.memory import (
    Action,
    ArgumentError,
    DuplicateKey,
    ExtractedFact,
    Extractor,
    Judge,
    LongTermMemory,
    Memory,
    Message,
    MinimumLength,
    NearDuplicates,
    NoSecrets,
    NotTrusted,
    PolicyDecision,
    RejectedText,
    SecretKind,
    Trust,
    TurnDecision,
    TurnPolicy,
    run_sync,
)
from tellback.memory.internals import ARCHIVE, Outcome, store_namespace
from tellback.memory.write.draft import Draft
from tellback.memory.write.policy_runner import PolicyRules, apply_policies
from tellback.memory.write.similar_memories import SimilarMemoryLookup
from tellback.vectorstore import open_store
from tests.support.embedders import LetterEmbedder
from tests.support.homes import HOMES, address_in_home

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Says:
    """A policy that always decides the same."""

    def __init__(self, action, reason="", memory=None, **more):
        self.decision = PolicyDecision(action, reason, memory, **more)

    def decide(self, memory):
        return self.decision


class Breaks:
    """A policy that fails."""

    def decide(self, memory):
        raise OSError("the model is away")


@pytest.fixture(params=HOMES)
def make(request, tmp_path):
    """Return a maker of memories, closed at the end."""
    made = []

    def memory(*policies, **options):
        url = address_in_home(request, tmp_path, str(len(made)))
        made.append(LongTermMemory(open_store(url), policies=policies, clock=lambda: NOW, **options))
        return made[-1]

    yield memory
    for item in made:
        run_sync(item.close())


class Judged:
    """A draft as the policies left it; its memory is None where it is not to be stored."""

    def __init__(self, draft):
        self.memory = draft.memory if draft.settled is None else None
        self.outcome = draft.outcome if draft.settled is None else draft.settled.outcome
        self.reason = draft.reason if draft.settled is None else draft.settled.reason
        self.spans, self.of = draft.spans, draft.of
        self.facts = [Judged(fact) for fact in draft.facts]


def judged(memory, *policies, **rules):
    (item,) = judged_turn([memory], *policies, **rules)
    return item


def judged_turn(memories, *policies, **rules):
    drafts = [Draft.new(memory, origin=place, turn=0) for place, memory in enumerate(memories)]
    return [Judged(draft) for draft in run_sync(apply_policies(drafts, PolicyRules(policies, **rules)))]


def texts(memory):
    return [item.text for item in run_sync(memory.list())]


def turn(*said):
    return [Message.user(text) if place % 2 == 0 else Message.assistant(text) for place, text in enumerate(said)]


# --- policy chain


def test_without_policies_everything_is_stored():
    assert judged(Memory("ok")).outcome is Outcome.STORED
    assert judged(Memory("ok")).memory == Memory("ok")


def test_a_text_no_longer_than_the_minimum_length_is_rejected_with_the_reason():
    short = judged(Memory("  yes  "), MinimumLength(3))
    assert (short.memory, short.outcome, short.reason) == (None, Outcome.REJECTED, "too short")
    assert judged(Memory("yes!"), MinimumLength(3)).outcome is Outcome.STORED
    assert judged(Memory("日本語だ"), MinimumLength(3)).outcome is Outcome.STORED  # characters, not bytes
    assert judged(Memory("日本語"), MinimumLength(3)).outcome is Outcome.REJECTED


def test_the_first_rejecting_policy_ends_the_policy_chain():
    assert judged(Memory("x"), Says(Action.REJECT, "first"), Says(Action.REJECT, "second")).reason == "first"


def test_each_policy_sees_the_memory_transformed_by_the_previous_policy():
    longer = Says(Action.TRANSFORM, "spelled out", Memory("a longer text"))
    found = judged(Memory("x"), longer, MinimumLength(5))
    assert (found.memory.text, found.outcome, found.reason) == ("a longer text", Outcome.STORED, "spelled out")


def test_a_redacted_memory_is_reported_as_such():
    found = judged(Memory("my key is abc"), Says(Action.REDACT, "secret", Memory("my key is ***"), spans=2))
    assert (found.memory.text, found.outcome, found.reason, found.spans) == (
        "my key is ***",
        Outcome.REDACTED,
        "secret",
        2,
    )


def test_reasons_of_several_policies_are_joined_and_a_rejection_gives_its_reason_alone():
    first = Says(Action.REDACT, "secret", Memory("my key is ***"), spans=2)
    again = Says(Action.REDACT, "name", Memory("the key is ***"))  # one that counts nothing took one at least
    found = judged(Memory("my key is abc"), first, again)
    assert (found.spans, found.reason) == (3, "secret; name")
    refused = judged(Memory("my key is abc"), first, Says(Action.REJECT), MinimumLength(1))
    assert (refused.memory, refused.reason) == (None, "rejected")


def test_a_rerouted_memory_is_stored_as_another_kind():
    found = judged(Memory("x"), Says(Action.REROUTE, "small talk", Memory("x", kind="note")))
    assert (found.memory.kind, found.outcome) == ("note", Outcome.STORED)


def test_a_policy_may_be_a_coroutine():
    class Slow:
        async def decide(self, memory):
            return PolicyDecision(Action.REJECT, "thought about it")

    assert judged(Memory("x"), Slow()).reason == "thought about it"


def test_no_policy_raises_trust_or_removes_the_sensitive_mark():
    found = judged(
        Memory("x", trust=Trust.TOOL, actor="tool", sensitive=True),
        Says(Action.TRANSFORM, "", Memory("y", trust=Trust.USER, actor="user")),
    )
    assert (found.memory.trust, found.memory.actor, found.memory.sensitive) == (Trust.TOOL, "tool", True)


def test_no_policy_changes_the_id_or_the_key_of_the_caller_so_that_repeating_is_safe(make):
    memory = make(Judge(lambda one: Memory("Dog: Rex", id="theirs", key="other")))
    first = run_sync(memory.remember(Memory("My dog is Rex.", key="dog")))
    again = run_sync(memory.remember(Memory("My dog is Rex.", key="dog")))
    assert (again.outcome, again.id, run_sync(memory.count())) == ("duplicate", first.id, 1)
    assert run_sync(memory.get([first.id]))[0].key == "dog"
    assert run_sync(memory.remember(Memory("My dog is Max.", id="mine"))).id == "mine"
    assert run_sync(memory.remember("My dog is Tom.")).id not in ("mine", "theirs")


def test_an_extracted_fact_gets_a_new_id_regardless_of_the_id_the_extractor_gave(make):
    named = Memory("Rex is a dog.", id="theirs")
    memory = make(Extractor(lambda whole: [named]), Judge(lambda one: replace(one, id="other")))
    (report,) = run_sync(memory.remember_turn("s", turn("My dog is Rex.")))
    assert report.made[0].stored
    assert {report.id, report.made[0].id}.isdisjoint({"theirs", "other", ""})


@pytest.mark.parametrize("bad", [{"characters": 0}, {"characters": 5, "of": "word"}])
def test_an_invalid_minimum_length_argument_raises(bad):
    with pytest.raises(ArgumentError, match=r"characters|of"):
        MinimumLength(**bad)


# --- failing policies


@pytest.mark.parametrize("broken", [Breaks(), Says(Action.TRANSFORM), Says(Action.TRANSFORM, "", Memory(" "))])
def test_a_failing_policy_leaves_the_memory_unchanged_and_is_named(broken):
    found = judged(Memory("x"), broken)
    assert (found.memory, found.outcome) == (Memory("x"), Outcome.STORED)
    assert type(broken).__name__ in found.reason
    assert found.reason.endswith("kept as it was")


def test_a_failing_policy_with_on_failure_reject_rejects_the_memory():
    found = judged(Memory("x"), Breaks(), on_failure="reject")
    assert (found.memory, found.outcome) == (None, Outcome.REJECTED)
    assert found.reason == "Breaks failed (the model is away); not kept"


def test_the_on_failure_of_a_policy_overrides_the_setting_of_the_memory():
    def fails(memory):
        raise OSError("away")

    assert judged(Memory("x"), Judge(fails, on_failure="reject")).memory is None
    assert judged(Memory("x"), Judge(fails, on_failure="store"), on_failure="reject").memory == Memory("x")


def test_a_failing_secret_policy_rejects_the_memory():
    def broken(value):
        raise OSError("no checksum")

    screen = NoSecrets(also=[SecretKind("badge", "BADGE-[0-9]+", check=broken)])
    found = judged(Memory("Mine is BADGE-204871."), screen)
    assert (found.memory, found.reason) == (None, "NoSecrets failed (no checksum); not kept")


def test_a_failing_judge_with_reject_still_keeps_the_messages_in_history(make):
    memory = make(Judge(lambda item: 1 / 0), on_policy_failure="reject")
    reports = run_sync(memory.remember_turn("s", turn("My dog is Rex.", "Noted.")))
    assert [report.outcome for report in reports] == ["rejected", "rejected"]
    assert all("division by zero" in report.reason for report in reports)
    assert [item.message.text for item in run_sync(memory.conversations.load("s"))] == ["My dog is Rex.", "Noted."]


@pytest.mark.parametrize("kind", ["plain", "coroutine", "awaitable"])
@pytest.mark.parametrize("made", ["judge", "judge of turns", "extractor"])
def test_a_policy_function_that_never_answers_fails_after_its_patience(make, kind, made):
    never, daemons = threading.Event(), []

    def plain(given):
        daemons.append(threading.current_thread().daemon)
        never.wait(60)

    async def coroutine(given):
        await asyncio.sleep(60)

    function = {"plain": plain, "coroutine": coroutine, "awaitable": lambda given: coroutine(given)}[kind]
    policies = {
        "judge": Judge(function, patience=0.05),
        "judge of turns": Judge(function, of="turn", patience=0.05),
        "extractor": Extractor(function, patience=0.05, keep=False),
    }
    memory = make(policies[made])
    try:
        (report,) = run_sync(memory.remember_turn("s", turn("My dog is Rex.")))
    finally:
        never.set()
    assert (report.outcome, texts(memory)) == ("stored", ["My dog is Rex."])
    assert report.reason == f"{made.split()[0].title()} failed (no answer within 0.05 seconds); kept as it was"
    assert all(daemons)  # the end of the program does not wait for it


def test_a_timeout_error_of_a_judge_function_is_reported_and_patience_none_waits():
    def away(memory):
        raise TimeoutError("the model is away")

    assert judged(Memory("x"), Judge(away)).reason.startswith("Judge failed (the model is away)")
    assert judged(Memory("x"), Judge(lambda memory: False, patience=None)).memory is None


@pytest.mark.parametrize("patience", [0, -1, True, "5", float("nan"), float("inf")])
def test_an_invalid_patience_of_a_policy_raises(patience):
    for policy in (Judge, Extractor):
        with pytest.raises(ArgumentError, match="patience"):
            policy(lambda given: True, patience=patience)


def test_an_unknown_on_policy_failure_raises():
    with pytest.raises(ArgumentError, match="on_policy_failure"):
        LongTermMemory(open_store("numpy:"), on_policy_failure="raise")


# --- judges


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (True, "My dog is Rex."),
        (False, None),
        (None, None),
        ("Dog: Rex", "Dog: Rex"),
        (Memory("Rex"), "Rex"),
        (PolicyDecision(Action.REJECT, "no"), None),
        (7, "My dog is Rex."),  # no verdict: a failure, and the words are kept
    ],
)
def test_a_judge_keeps_leaves_out_or_rewords(verdict, text):
    async def later(memory):
        return verdict

    for function in (lambda memory: verdict, later):
        found = judged(Memory("My dog is Rex."), Judge(function))
        assert (found.memory.text if found.memory else None) == text
        if text not in (None, "My dog is Rex."):
            assert (found.outcome, found.reason) == ("stored", "distilled")


@pytest.mark.parametrize(
    ("verdict", "stored"),
    [
        (True, ["My dog is Rex.", "A fine name."]),
        (False, []),
        ([True, False], ["My dog is Rex."]),
        ("The user's dog is Rex.", ["The user's dog is Rex."]),
        ([True], ["My dog is Rex.", "A fine name."]),  # too few words: a failure
        (TurnDecision((PolicyDecision(Action.REJECT), PolicyDecision(Action.ACCEPT))), ["A fine name."]),
    ],
)
def test_a_judge_of_turns_keeps_both_one_a_distilled_text_or_nothing(make, verdict, stored):
    asked = []

    def function(whole):
        asked.append(whole.text)
        return verdict

    memory = make(Judge(function, of="turn"))
    reports = run_sync(memory.remember_turn("s", turn("My dog is Rex.", "A fine name.")))
    assert asked == ["My dog is Rex.\nA fine name."]
    assert texts(memory) == stored
    assert len(reports) == 2
    assert len(run_sync(memory.conversations.load("s"))) == 2


def test_a_judge_of_turns_rewords_one_item_in_its_place(make):
    judge_of_one = Judge(lambda whole: f"Dog: {whole.memories[0].text[-4:-1]}", of="turn")
    assert run_sync(judge_of_one.decide(Memory("My dog is Rex."))).memory.text == "Dog: Rex"
    memory = make(judge_of_one)
    report = run_sync(memory.remember(Memory("My dog is Rex.", kind="note")))
    assert (report.outcome, report.reason, report.made) == ("stored", "distilled", ())
    (kept,) = run_sync(memory.get([report.id]))
    assert (kept.text, kept.kind, kept.derived_from) == ("Dog: Rex", "note", ())


def test_a_distilled_text_derives_from_both_messages_and_has_the_lower_trust(make):
    memory = make(Judge(lambda whole: "Rex is the dog.", of="turn"))
    reports = run_sync(memory.remember_turn("s", turn("My dog is Rex.", "A fine name.")))
    assert [(report.outcome, report.reason) for report in reports] == [("rejected", "distilled")] * 2
    (made,) = reports[0].made
    (distilled,) = run_sync(memory.get([made.id]))
    assert (distilled.kind, distilled.trust, distilled.session, distilled.source.sequence) == (
        "summary",
        Trust.ASSISTANT,
        "s",
        1,
    )


def test_the_length_of_a_turn_is_that_of_prompt_and_answer_together(make):
    memory = make(MinimumLength(10, of="turn"))
    assert [item.outcome for item in run_sync(memory.remember_turn("s", turn("Why?", "It rains.")))] == ["stored"] * 2
    assert [item.reason for item in run_sync(memory.remember_turn("s", turn("Why?", "Rain.")))] == ["too short"] * 2


# --- extractors


def test_facts_are_stored_beside_the_turn_each_with_its_source(make):
    memory = make(Extractor(lambda whole: [ExtractedFact("Rex is a dog.", (0,)), "They met."]))
    question, answer = run_sync(memory.remember_turn("s", turn("My dog is Rex.", "A fine name.")))
    assert [len(question.made), len(answer.made)] == [2, 0]
    own, both = run_sync(memory.get([item.id for item in question.made]))
    assert (own.derived_from, own.trust, own.actor, own.kind) == ((question.id,), Trust.USER, "user", "fact")
    assert (both.derived_from, both.trust, both.actor) == ((question.id, answer.id), Trust.ASSISTANT, "assistant")
    assert (own.session, own.source.session, own.source.sequence, own.occurred_at) == ("s", "s", 1, NOW)
    assert len({report.operation for report in (question, answer, *question.made)}) == 1


def test_a_derived_memory_takes_common_scopes_and_the_strictest_marks_of_its_sources():
    items = [
        Memory("My dog is Rex.", speaker="Ana", scopes={"user": "ann", "project": "atlas"}, occurred_at=NOW),
        Memory("Noted.", scopes={"user": "ann", "project": "borea"}, occurred_at=NOW + timedelta(hours=1)),
    ]
    items[0], items[1] = replace(items[0], sensitive=True), replace(items[1], trust=Trust.ASSISTANT, actor="assistant")
    facts = [
        ExtractedFact("own", (0,)),
        "both",
        ExtractedFact(Memory("rumour", trust=Trust.TOOL), (0,)),
        ExtractedFact("theirs", (1,)),
    ]
    policy = Extractor(lambda whole: facts, kinds=["fact"])
    made = [fact for item in judged_turn(items, policy) for fact in item.facts]
    own, both, rumour, theirs = (item.memory for item in made)
    assert (own.speaker, own.scopes, own.occurred_at) == ("Ana", items[0].scopes, NOW)
    assert (both.speaker, both.scopes, both.occurred_at) == (None, {"user": "ann"}, NOW + timedelta(hours=1))
    assert [item.sensitive for item in (own, both, rumour, theirs)] == [True, True, True, False]
    assert [item.trust for item in (own, both, rumour, theirs)] == ["user", "assistant", "tool", "assistant"]
    assert [item.actor for item in (own, both, rumour, theirs)] == ["user", "assistant", "user", "assistant"]


class Makes:
    """Third-party policy that derives *memories* from each turn and records its calls."""

    def __init__(self, *memories, places=(0,)):
        self.made = tuple((memory, places) for memory in memories)
        self.asked = []

    def decide(self, memory):
        return PolicyDecision(Action.ACCEPT)

    def decide_turn(self, whole):
        self.asked.append(whole.text)
        return TurnDecision(tuple(PolicyDecision(Action.ACCEPT) for _ in whole.memories), self.made)


def test_a_derived_memory_without_a_source_is_a_failure_and_making_false_derives_none():
    own = judged(Memory("x"), Makes(Memory("from nowhere"), places=()))
    assert (own.facts, own.memory) == ([], Memory("x"))
    assert "what is made has at least one source" in own.reason
    assert judged(Memory("x"), Makes(Memory("a fact")), making=False).facts == []
    assert [item.memory.text for item in judged(Memory("x"), Makes(Memory("a fact"))).facts] == ["a fact"]


def test_a_turn_policy_is_not_called_for_a_turn_whose_memories_were_all_rejected():
    policy = Makes()
    judged(Memory("ok"), MinimumLength(3), policy)
    assert policy.asked == []


def test_at_most_eight_memories_of_a_batch_are_judged_concurrently():
    now, most = [0], [0]

    async def count(memory):
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0)
        now[0] -= 1
        return True

    memory = LongTermMemory(open_store("numpy:"), policies=[Judge(count)])
    assert len(run_sync(memory.remember_many(f"number {i}" for i in range(40)))) == 40
    assert most == [8]


def test_forgetting_a_message_also_forgets_the_fact_extracted_from_it(make):
    memory = make(Extractor(lambda whole: [ExtractedFact("Rex is a dog.", (0,))]))
    (report,) = run_sync(memory.remember_turn("s", turn("My dog is Rex.")))
    receipt = run_sync(memory.forget([report.id]))
    assert receipt.derived == (report.made[0].id,)
    assert texts(memory) == []


def test_an_extractor_with_keep_false_stores_facts_alone_and_the_message_if_it_finds_none(make):
    memory = make(Extractor(lambda whole: ["Rex is a dog."] if "dog" in whole.text else [], keep=False))
    (report,) = run_sync(memory.remember_turn("s", turn("My dog is Rex.")))
    assert (report.outcome, report.reason, [item.outcome for item in report.made]) == (
        "rejected",
        "kept as facts",
        ["stored"],
    )
    (other,) = run_sync(memory.remember_turn("s", turn("I like tea.")))
    assert other.outcome == "stored"
    assert texts(memory) == ["Rex is a dog.", "I like tea."]


def test_an_extractor_with_keep_false_stores_a_message_that_yielded_no_fact(make):
    memory = make(Extractor(lambda whole: [ExtractedFact("Rex is a dog.", (0,))], keep=False))
    question, answer = run_sync(memory.remember_turn("s", turn("My dog is Rex.", "A fine name.")))
    assert (question.outcome, answer.outcome) == ("rejected", "stored")
    assert sorted(texts(memory)) == ["A fine name.", "Rex is a dog."]


@pytest.mark.parametrize("facts", [[5], [ExtractedFact("x", (7,))], [""], 5])
def test_an_extractor_returning_nonsense_leaves_the_memory_and_is_named_in_the_report(make, facts):
    memory = make(Extractor(lambda whole: facts, keep=False))
    (report,) = run_sync(memory.remember_turn("s", turn("My dog is Rex.")))
    assert report.outcome == "stored"
    assert "Extractor failed" in report.reason
    assert texts(memory) == ["My dog is Rex."]


@pytest.mark.parametrize("slip", ["no decision", "attribute", "name"])
def test_a_programming_error_in_a_policy_raises_and_nothing_is_stored(make, slip: str) -> None:
    class Slip:
        def decide(self, memory: Memory) -> PolicyDecision:
            if slip == "attribute":
                return PolicyDecision.reject("x")  # type: ignore[attr-defined]
            return True if slip == "no decision" else undefined  # type: ignore[name-defined, return-value]  # noqa: F821

    memory = make(Slip())
    with pytest.raises((TypeError, AttributeError, NameError)) as caught:
        run_sync(memory.remember("My dog is Rex."))
    assert "Slip" in str(caught.value) + "".join(caught.value.__notes__)
    with pytest.raises((TypeError, AttributeError, NameError)):
        run_sync(memory.remember_turn("s", turn("My dog is Rex.")))
    assert texts(memory) == []
    assert not run_sync(memory.conversations.load("s"))


def test_an_extractor_skips_memories_of_kinds_it_does_not_name(make):
    memory = make(Extractor(lambda whole: ["a fact"]))
    assert run_sync(memory.remember("My dog is Rex.")).made == ()
    memory = make(Extractor(lambda whole: ["a fact"], kinds=["fact"]))
    assert len(run_sync(memory.remember("My dog is Rex.")).made) == 1


def test_a_later_policy_sees_the_facts_as_well(make):
    memory = make(Extractor(lambda whole: ["ok", "Rex is a dog."]), MinimumLength(5))
    (report,) = run_sync(memory.remember_turn("s", turn("My dog is Rex.")))
    assert texts(memory) == ["My dog is Rex.", "Rex is a dog."]
    assert [(item.outcome, item.reason) for item in report.made] == [("rejected", "too short"), ("stored", "")]


def test_a_turn_policy_does_not_see_a_message_rejected_by_an_earlier_policy(make):
    class Counts:
        def decide(self, memory):
            return PolicyDecision(Action.ACCEPT)

        def decide_turn(self, whole):
            return TurnDecision(
                tuple(PolicyDecision(Action.ACCEPT, f"{len(whole.memories)} left") for _ in whole.memories)
            )

    assert isinstance(Counts(), TurnPolicy)
    memory = make(MinimumLength(4), Counts())
    reports = run_sync(memory.remember_turn("s", turn("ok", "A long answer.")))
    assert [item.reason for item in reports] == ["too short", "1 left"]


# --- near-duplicates


@pytest.mark.parametrize("embedder", [None, LetterEmbedder()])
def test_a_near_duplicate_is_stored_with_the_link(make, embedder):
    memory = make(NearDuplicates(), embedder=embedder)
    first = run_sync(memory.remember("The plumber comes on Friday at nine o'clock."))
    again = run_sync(memory.remember("the plumber comes on Friday, at nine o'clock"))
    assert (again.outcome, again.of, again.reason) == ("stored", first.id, "near-duplicate")
    (kept,) = run_sync(memory.get([again.id]))
    assert kept.metadata["near"] == first.id
    assert str(again).startswith(f"stored, near-duplicate of {first.id}")


@pytest.mark.parametrize(("words", "near"), [(0.5, True), (0.51, False)])
def test_a_near_duplicate_at_the_threshold_is_linked_and_keeps_its_own_metadata(make, words, near):
    memory = make(NearDuplicates(words=words))
    first = run_sync(memory.remember("The cat sat."))
    report = run_sync(memory.remember(Memory("The cat ran.", metadata={"mood": "glad"})))  # two words of four
    (kept,) = run_sync(memory.get([report.id]))
    assert kept.metadata == ({"mood": "glad", "near": first.id} if near else {"mood": "glad"})


def test_a_near_duplicate_without_new_words_is_folded_and_one_with_a_new_word_is_stored(make):
    memory = make(NearDuplicates(words=0.5, fold=True))
    first = run_sync(memory.remember("I do like green tea."))
    same = run_sync(memory.remember("Green tea I do like!"))
    assert (same.outcome, same.id, same.of, same.stored) == ("near-duplicate", first.id, first.id, False)
    other = run_sync(memory.remember("I do not like green tea."))
    assert (other.outcome, other.of) == ("stored", first.id)
    assert texts(memory) == ["I do like green tea.", "I do not like green tea."]


@pytest.mark.parametrize("name", [{"id": "tea"}, {"key": "tea"}])
def test_a_memory_is_no_near_duplicate_of_itself_by_its_id_or_key(make, name):
    memory = make(NearDuplicates(fold=True))
    first = run_sync(memory.remember(Memory("I like green tea.", **name)))
    again = run_sync(memory.remember(Memory("I like green tea.", **name)))
    assert (again.outcome, again.of) == ("duplicate", first.id)
    with pytest.raises(DuplicateKey):
        run_sync(memory.remember(Memory("Green tea I like!", **name)))
    assert run_sync(memory.remember("Green tea I like!")).outcome == "near-duplicate"


def test_of_two_equally_near_duplicates_the_first_by_id_is_linked(make):
    memory = make(NearDuplicates())
    run_sync(memory.remember(Memory("I like green tea.", id="b")))
    lines = run_sync(memory.remember_many([Memory("I like green tea.", id="a"), Memory("I like green tea.", id="c")]))
    assert [line.of for line in lines] == ["b", "a"]


def test_memories_differing_in_speaker_kind_scope_or_namespace_are_no_near_duplicates(make):
    memory = make(NearDuplicates(fold=True))
    preference = Memory("I like tea.", speaker="Ann", scopes={"project": "atlas"})
    run_sync(memory.remember(preference))
    for other in (
        replace(preference, speaker="Bob"),
        replace(preference, speaker=None),
        replace(preference, kind="preference"),
        replace(preference, scopes={"project": "borea"}),
    ):
        assert run_sync(memory.remember(other)).of is None
    assert run_sync(memory.remember(preference, namespace="another")).of is None
    assert run_sync(memory.remember(preference)).of is not None


def test_disabled_ended_or_expired_memories_are_not_matched_as_near_duplicates(make):
    memory = make(NearDuplicates(fold=True))
    run_sync(memory.remember(Memory("I like tea.", disabled=True)))
    run_sync(memory.remember(Memory("I like tea.", valid_to=NOW)))
    run_sync(memory.remember(Memory("I like tea.", expires_at=NOW)))
    assert run_sync(memory.remember("I like tea.")).of is None


@pytest.mark.parametrize("bad", [{"meaning": 0}, {"words": 1.5}, {"meaning": True}, {"words": "all"}])
def test_a_near_duplicate_threshold_out_of_range_raises(bad):
    with pytest.raises(ArgumentError, match=next(iter(bad))):
        NearDuplicates(**bad)


# --- trust


def test_a_memory_derived_from_a_document_has_document_trust(make):
    memory = make()
    page = run_sync(memory.remember(Memory("The moon is cheese.", actor="document")))
    note = run_sync(memory.remember(Memory("The moon is cheese, they say.", derived_from=(page.id, "gone"))))
    kept = run_sync(memory.get([page.id, note.id]))
    assert [item.trust for item in kept] == [Trust.DOCUMENT, Trust.DOCUMENT]


def test_a_less_trusted_actor_neither_supersedes_nor_corrects_a_memory_of_the_user(make):
    memory = make()
    original = run_sync(memory.remember("I live in Lisbon."))
    line = run_sync(memory.remember(Memory("I live in Porto.", actor="tool", supersedes=f"{original.id}@1")))
    assert (line.outcome, line.id) == ("rejected", "")
    assert "supersede by tool needs approval" in line.reason
    with pytest.raises(NotTrusted, match="correct by assistant"):
        run_sync(memory.correct(original.id, "I live in Porto.", actor="assistant"))
    assert texts(memory) == ["I live in Lisbon."]
    run_sync(memory.correct(original.id, "I live in Porto.", actor="assistant", approved_by="user"))
    (now,) = run_sync(memory.get([original.id]))
    assert (now.text, now.trust, now.actor) == ("I live in Porto.", Trust.USER, "assistant")


def test_a_tool_cannot_correct_a_memory_of_the_assistant_corrected_by_the_system(make):
    memory = make()
    noted = run_sync(memory.remember(Memory("It is 20 degrees.", actor="assistant")))
    run_sync(memory.correct(noted.id, "It is 21 degrees.", actor="system"))
    with pytest.raises(NotTrusted):
        run_sync(memory.correct(noted.id, "It is 99 degrees.", actor="tool"))


# --- corrections


def test_write_policies_judge_corrections_like_additions(make):
    memory = make(MinimumLength(3), NoSecrets())
    kept = run_sync(memory.remember("The gate is open."))
    with pytest.raises(RejectedText, match="too short"):
        run_sync(memory.correct(kept.id, "no"))
    report = run_sync(memory.correct(kept.id, "The PIN is 48213."))
    assert (report.outcome, report.spans, report.reason) == ("redacted", 1, "secret: PIN")
    assert texts(memory) == ["The PIN is [redacted: PIN]."]


def named(whole):
    """Facts of a sentence about a dog: its name, and that there is one."""
    words = whole.text.rstrip(".").split()
    return [f"Dog: {words[-1]}", "There is a dog."] if "dog" in words else []


def corrected_turn(memory, text="My dog is Max."):
    (original,) = run_sync(memory.remember_turn("s", turn("My dog is Rex.")))
    return original, run_sync(memory.correct(original.id, text))


def test_a_correction_extracts_new_facts_and_retires_those_of_the_old_text(make):
    memory = make(Extractor(named))
    original, report = corrected_turn(memory)
    assert [(version.outcome, version.reason) for version in report.made] == [
        ("stored", ""),
        ("duplicate", "known already"),
    ]
    assert report.retired == (original.made[0].id,)
    assert sorted(texts(memory)) == ["Dog: Max", "My dog is Max.", "There is a dog."]
    (fact,) = run_sync(memory.get([report.made[0].id]))
    assert (fact.derived_from, fact.trust, fact.operation) == ((original.id,), Trust.USER, report.operation)
    assert report.made[1].id == original.made[1].id  # what was found again stays the memory that it was
    assert [version.text for version in run_sync(memory.history(original.made[0].id))] == ["Dog: Rex"]


def test_undoing_a_correction_restores_the_old_facts_and_removes_the_new_ones(make):
    memory = make(Extractor(named))
    _said, report = corrected_turn(memory)
    before = ["Dog: Rex", "My dog is Rex.", "There is a dog."]
    undone = run_sync(memory.undo(report.operation))
    assert sorted(texts(memory)) == before
    run_sync(memory.undo(undone.id))
    assert sorted(texts(memory)) == ["Dog: Max", "My dog is Max.", "There is a dog."]
    run_sync(memory.undo(run_sync(memory.operations(limit=1))[0].id))
    assert sorted(texts(memory)) == before


def test_a_correction_retires_derived_memories_except_those_with_a_further_source(make):
    memory = make()
    first, second = (run_sync(memory.remember(text)).id for text in ("one", "two"))
    alone = run_sync(memory.remember(Memory("of one", derived_from=(first,)))).id
    run_sync(memory.remember(Memory("of one and two", derived_from=(first, second))))
    after = run_sync(memory.remember(Memory("of what is of one", derived_from=(alone,)))).id
    report = run_sync(memory.correct(first, "one, put right"))
    assert set(report.retired) == {alone, after}
    assert sorted(texts(memory)) == ["of one and two", "one, put right", "two"]


def test_a_correction_of_the_time_alone_leaves_the_facts(make):
    asked = []
    memory = make(Extractor(lambda whole: asked.append(1) or named(whole)))
    (original,) = run_sync(memory.remember_turn("s", turn("My dog is Rex.")))
    report = run_sync(memory.correct(original.id, "My dog is Rex.", valid_from=NOW))
    assert (report.outcome, report.made, report.retired, asked) == ("stored", (), (), [1])
    assert len(texts(memory)) == 3


def test_a_correction_by_a_tool_retires_no_derived_memory_of_the_user(make):
    memory = make()
    noted = run_sync(memory.remember(Memory("It is 20 degrees.", actor="tool", trust=Trust.TOOL)))
    leaning = run_sync(memory.remember(Memory("It is warm.", derived_from=(noted.id,)))).id
    run_sync(memory.correct(leaning, "It is pleasant."))  # by the user, whose word it is from then on
    assert run_sync(memory.correct(noted.id, "It is 2 degrees.", actor="tool")).retired == ()
    assert sorted(texts(memory)) == ["It is 2 degrees.", "It is pleasant."]
    assert run_sync(memory.correct(noted.id, "It is 1 degree.")).retired == (leaning,)


def test_facts_retired_by_a_correction_are_forgotten_with_their_source(make):
    memory = make(Extractor(named))
    original, report = corrected_turn(memory)
    receipt = run_sync(memory.forget([original.id]))
    assert set(receipt.derived) == {original.made[0].id, original.made[1].id, report.made[0].id}
    lane = store_namespace("", ARCHIVE)
    assert [entry.text for entry in memory.store.scan(namespace=lane)] == []
    assert run_sync(memory.verify_forgotten(receipt)).gone


def test_forgetting_a_new_fact_keeps_the_fact_it_superseded_in_history(make):
    memory = make(Extractor(named))
    original, report = corrected_turn(memory)
    assert run_sync(memory.forget([report.made[0].id])).derived == ()
    assert [version.text for version in run_sync(memory.history(original.made[0].id))] == ["Dog: Rex"]


def test_a_correction_is_stored_beside_its_facts_even_with_keep_false(make):
    memory = make(Extractor(lambda whole: ["Rex is a dog."] if "dog" in whole.text else [], keep=False))
    (original,) = run_sync(memory.remember_turn("s", turn("I like tea.")))
    report = run_sync(memory.correct(original.id, "I like my dog."))
    assert (report.outcome, report.reason) == ("stored", "kept beside its facts")
    assert sorted(texts(memory)) == ["I like my dog.", "Rex is a dog."]


def test_a_correction_that_repeats_another_memory_is_linked_to_it_and_never_left_out(make):
    memory = make(NearDuplicates(fold=True))
    first = run_sync(memory.remember("I live in Porto."))
    second = run_sync(memory.remember("The plumber comes."))
    report = run_sync(memory.correct(second.id, "In Porto I live!"))
    assert (report.outcome, report.of, report.reason) == ("stored", first.id, "near-duplicate")
    (kept,) = run_sync(memory.get([second.id]))
    assert kept.metadata["near"] == first.id
    report = run_sync(memory.correct(second.id, "Something else."))
    assert (report.of, run_sync(memory.get([second.id]))[0].metadata) == (None, {})


def test_a_correction_is_no_near_duplicate_of_the_memory_it_corrects(make):
    memory = make(NearDuplicates(words=0.5))
    original = run_sync(memory.remember("The plumber comes on Friday."))
    assert run_sync(memory.correct(original.id, "The plumber comes on Monday.")).of is None


# --- complete


def test_complete_applies_policies_and_skips_forgotten_texts(make):
    asked = []
    memory = make(Judge(lambda one: asked.append(one.text) or "weather" not in one.text), NoSecrets())
    (gone,) = run_sync(memory.remember_turn("s", turn("I had a cat.")))
    run_sync(memory.forget([gone.id]))
    asked.clear()
    position = NOW - timedelta(days=1)
    lost = [
        Message.user(text, at=position)
        for text in ("I had a cat.", "weather talk", "My PIN is 48213.", "My dog is Rex.")
    ]
    run_sync(memory.conversations.append("s", lost))
    assert run_sync(memory.complete()) == 2
    assert run_sync(memory.complete()) == 0
    assert asked == ["weather talk", "My PIN is 48213.", "My dog is Rex."]
    assert texts(memory) == ["My PIN is [redacted: PIN].", "My dog is Rex."]


def test_complete_with_a_failing_judge_leaves_no_message_unremembered(make):
    memory = make(Judge(lambda one: 1 / 0))
    run_sync(memory.conversations.append("s", turn("My dog is Rex.")))
    assert run_sync(memory.complete()) == 1
    assert run_sync(memory.complete()) == 0
    assert texts(memory) == ["My dog is Rex."]


@pytest.mark.parametrize("embedder", [None, LetterEmbedder()])
def test_the_near_duplicate_search_equals_comparing_with_every_memory(make, embedder):
    rng = np.random.default_rng(5)
    words = [
        "plumber",
        "friday",
        "nine",
        "tea",
        "green",
        "like",
        "live",
        "lisbon",
        "porto",
        "rain",
        "dog",
        "rex",
        "cat",
        "gate",
    ]
    items = [
        Memory(
            " ".join(rng.choice(words, 5)),
            speaker=str(rng.choice(["Ann", "Bob"])),
            disabled=bool(rng.random() < 0.1),
            valid_to=NOW if rng.random() < 0.2 else None,
        )
        for _ in range(120)
    ]
    memory = make(embedder=embedder)
    stored = SimilarMemoryLookup("", memory.store, memory.embedding, memory.clock)
    run_sync(memory.remember_many(items[:60]))
    run_sync(stored.prepare(items[60:]))
    for place, item in enumerate(items[60:]):
        stored.add(replace(item, id=f"{place:03}"))
    texts = sorted({item.text for item in items})
    vectors = dict(zip(texts, run_sync(embedder.embed(texts)), strict=True)) if embedder else {}

    def likeness(item, other):
        if vectors:
            return float(vectors[item.text] @ vectors[other.text])
        a, b = set(item.text.split()), set(other.text.split())
        return len(a & b) / len(a | b)

    for item in items[60:80]:
        every = [
            other for other in items if other.speaker == item.speaker and not other.disabled and not other.valid_to
        ]
        wanted = sorted((likeness(item, other) for other in every), reverse=True)[:5]
        assert [near.similarity for near in run_sync(stored.nearest(item))] == pytest.approx(wanted, abs=1e-6)


def test_the_near_duplicate_search_of_a_batch_makes_a_constant_number_of_store_calls(make, monkeypatch):
    memory = make(NearDuplicates(), embedder=LetterEmbedder())
    run_sync(memory.remember_many(f"letter {chr(97 + n % 26) * (n + 1)}" for n in range(50)))
    asked = []
    for name in ("search", "search_many", "search_text", "view"):
        kept = getattr(type(memory.store), name)
        monkeypatch.setattr(
            type(memory.store), name, lambda *a, name=name, kept=kept, **o: asked.append(name) or kept(*a, **o)
        )
    calls = []
    for count in (20, 100):
        run_sync(memory.remember_many([f"letter {n} of {count} {chr(97 + n % 26) * 3}" for n in range(count)]))
        calls.append(len(asked))
        asked.clear()
    assert calls[0] == calls[1] < 10
