"""Tool calls and results are remembered with the trust of a tool, and recalled by their words.

Inner parts, on no face: ``tellback.memory.messages``.
"""

from __future__ import annotations

from asyncio import run
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tellback.memory import (
    Extractor,
    FixedWindow,
    ImageBlock,
    InMemoryHistory,
    LongTermMemory,
    Memory,
    MemoryTurn,
    Message,
    MinimumLength,
    NoSecrets,
    ShortTermMemory,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    Trust,
    open_memory,
)
from tellback.memory.messages import calls_by_message
from tellback.vectorstore import open_store
from tests.support.homes import HOMES, address_in_home

T = TypeVar("T")
Storing = Callable[..., LongTermMemory]


@pytest.fixture(params=HOMES)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storing]:
    opened: list[LongTermMemory] = []

    def made(**options: Any) -> LongTermMemory:
        opened.append(open_memory(address_in_home(request, tmp_path), choose_local=False, **options))
        return opened[-1]

    yield made
    for memory in opened:
        run(memory.close())


@pytest.fixture
def memory(make: Storing) -> LongTermMemory:
    return make()


def asks(id: str, tool: str, **arguments: Any) -> Message:
    return Message.assistant([ToolCallBlock(id=id, name=tool, arguments=arguments)])


def answers(id: str, tool: str, *said: str, failed: bool = False) -> ToolResultBlock:
    content = tuple(TextBlock(text=each) for each in said)
    return ToolResultBlock(call_id=id, name=tool, content=content, is_error=failed)


def tool(*results: ToolResultBlock, **metadata: Any) -> Message:
    return Message.tool(results).model_copy(update={"metadata": metadata})


FORECAST = (
    Message.user("We sail on Friday; what will it be like?"),
    asks("c1", "forecast", city="Trondheim", days=2),
    tool(answers("c1", "forecast", "Sleet, then drizzle.")),
    Message.assistant("Take a coat."),
)


def only(memory: LongTermMemory, role: str = "tool") -> Memory:
    (found,) = (entry for entry in run(memory.list()) if entry.role == role)
    return found


def test_recall_finds_each_message_of_a_tool_turn_that_left_the_window(memory: LongTermMemory) -> None:
    run(memory.remember_turn("s", [Message.system("Be brief."), *FORECAST]))
    run(memory.remember_turn("s", [asks("c2", "archive", shelf="the third")]))
    run(memory.remember_turn("s", [Message.user("Thanks."), Message.assistant("Gladly.")]))
    window = run(ShortTermMemory(memory.conversations, policy=FixedWindow(turns=1), session="s").window())
    shown = [message.text for message in window.messages]
    assert shown == ["Be brief.", "Thanks.", "Gladly."]
    questions = {
        2: "When do we sail?",
        3: "Was Trondheim the city?",
        4: "When does it drizzle?",
        5: "Is a coat needed?",
        6: "What was asked of the archive's third shelf?",
    }
    assert window.dropped == len(questions)
    told_by = {3: 4}  # the call is stored with its result
    for sequence, question in questions.items():
        found = [hit.memory.sequence for hit in run(memory.recall(question, 3, all_utterances=True))]
        assert told_by.get(sequence, sequence) in found, question


def test_a_tool_result_is_stored_with_the_name_and_arguments_of_its_call(memory: LongTermMemory) -> None:
    reports = run(memory.remember_turn("s", FORECAST))
    assert [report.outcome for report in reports] == ["stored", "rejected", "stored", "stored"]
    assert reports[1].reason == "no text of its own; kept in history only"
    found = only(memory)
    assert found.id == reports[2].id
    assert found.text == "forecast (city: Trondheim, days: 2)\nSleet, then drizzle."
    assert (found.kind, found.session, found.sequence) == ("turn", "s", 3)
    assert (found.trust, found.actor) == (Trust.TOOL, "tool")
    assert run(memory.conversations.load("s"))[2].memory == found.id


def test_results_of_one_message_are_one_memory(memory: LongTermMemory) -> None:
    calls = [
        ToolCallBlock(id=str(position), name="price", arguments={"of": each})
        for position, each in enumerate(("tea", "salt"))
    ]
    result = tool(answers("1", "price", "2 crowns"), answers("0", "price", "31", "crowns"))
    run(memory.remember_turn("s", [Message.assistant(calls), result]))
    assert only(memory).text == "price (of: salt)\n2 crowns\n\nprice (of: tea)\n31\ncrowns"


def test_a_tool_result_that_quotes_recalled_memories_is_not_stored_again(memory: LongTermMemory) -> None:
    items = [asks("c1", "search_memory", query="tea"), tool(answers("c1", "search_memory", "Tea!"), recalled=["c1"])]
    reports = run(memory.remember_turn("s", items))
    assert [report.reason for report in reports] == [
        "no text of its own; kept in history only",
        "it shows what is remembered already; kept in history only",
    ]
    assert run(memory.list()) == []


def test_only_tool_results_not_marked_as_recalled_are_stored(memory: LongTermMemory) -> None:
    results = tool(answers("1", "search_memory", "I like tea."), answers("2", "price", "31"), recalled=["1"])
    run(memory.remember_turn("s", [results]))
    assert only(memory).text == "price\n31"


@pytest.mark.parametrize("recalled", [None, 7, "c1", {"c1": True}, [None, 3]])
def test_an_invalid_recalled_mark_excludes_no_tool_result(memory: LongTermMemory, recalled: Any) -> None:
    run(memory.remember_turn("s", [tool(answers("c1", "price", "31"), recalled=recalled)]))
    assert only(memory).text == "price\n31"


def test_the_memory_of_a_failed_tool_call_says_failed(memory: LongTermMemory) -> None:
    run(memory.remember_turn("s", [asks("c1", "book", seat=4), tool(answers("c1", "book", "sold out", failed=True))]))
    assert only(memory).text == "book (seat: 4) (failed)\nsold out"


def test_a_tool_result_without_text_is_stored_as_its_call_and_image_descriptions(memory: LongTermMemory) -> None:
    picture = ImageBlock(media_type="image/png", data=b"\x89PNG", caption="a fjord")
    results = [
        answers("1", "mute"),
        ToolResultBlock(call_id="2", name="photo", content=(picture,)),
    ]
    run(memory.remember_turn("s", [tool(*results)]))
    first, second = only(memory).text.split("\n\n")
    assert first == "mute"
    assert second.startswith("photo\n(image: a fjord, ")


def test_a_tool_call_without_a_result_is_stored_as_a_memory(memory: LongTermMemory) -> None:
    calls = [ToolCallBlock(id="1", name="ring", arguments={"who": "Åse"}), ToolCallBlock(id="2", name="x", invalid="{")]
    run(memory.remember_turn("s", [Message.assistant(calls)]))
    assert only(memory, "assistant").text == "ring (who: Åse)\nx ({)"


def test_a_document_that_a_tool_read_is_trusted_as_a_document(memory: LongTermMemory) -> None:
    run(memory.remember_turn("s", [tool(answers("1", "read", "Pay me."), trust="document")]))
    assert (only(memory).trust, only(memory).actor) == (Trust.DOCUMENT, "document")


def test_secrets_are_redacted_in_tool_calls_and_tool_results(make: Storing) -> None:
    memory = make(policies=[NoSecrets()])
    key = "sk-ant-api03-" + "Ab3dEf6hIj" * 9
    items = [asks("1", "login", key=key), tool(answers("1", "login", f"logged in with {key}"))]
    reports = run(memory.remember_turn("s", items))
    assert reports[1].outcome == "redacted"
    assert key not in only(memory).text
    assert all(key not in stored.message.model_dump_json() for stored in run(memory.conversations.load("s")))


def test_an_extractor_sees_the_turn_without_tool_results_and_derives_no_facts_from_them(make: Storing) -> None:
    seen: list[list[str]] = []

    def facts(turn: MemoryTurn) -> list[Memory]:
        seen.append([each.text for each in turn.memories])
        return [Memory(text="They go to Trondheim.")]

    memory = make(policies=[Extractor(facts)])
    reports = run(memory.remember_turn("s", FORECAST))
    assert seen == [["We sail on Friday; what will it be like?", "Take a coat."]]
    (fact,) = (entry for entry in run(memory.list()) if entry.kind == "fact")
    assert fact.trust is Trust.ASSISTANT
    assert [len(report.made) for report in reports] == [1, 0, 0, 0]


@pytest.mark.parametrize("many", [False, True])
def test_an_extractor_derives_nothing_from_a_tool_result_stored_on_its_own(make: Storing, many: bool) -> None:
    memory = make(policies=[Extractor(lambda turn: [Memory(text="They go to Trondheim.")])])
    item = Memory(text="Sleet in Trondheim.", kind="turn", role="tool", trust=Trust.TOOL, actor="tool")
    (report,) = run(memory.remember_many([item])) if many else [run(memory.remember(item))]
    assert (report.outcome, report.made) == ("stored", ())
    assert [entry.text for entry in run(memory.list())] == ["Sleet in Trondheim."]


def test_the_length_policy_of_turns_does_not_count_tool_results(make: Storing) -> None:
    memory = make(policies=[MinimumLength(40, of="turn")])
    items = [Message.user("Hm?"), tool(answers("1", "page", "many words " * 9)), Message.assistant("Yes.")]
    reports = run(memory.remember_turn("s", items))
    assert [report.outcome for report in reports] == ["rejected", "stored", "rejected"]


def test_neighbour_expansion_skips_tool_messages(memory: LongTermMemory) -> None:
    run(memory.remember_turn("s", FORECAST))
    (hit,) = run(memory.recall("Is a coat needed?", 1, neighbours="exchange"))
    assert [each.text for each in (*hit.before, hit.memory)] == [
        "We sail on Friday; what will it be like?",
        "Take a coat.",
    ]


def test_pages_read_by_a_tool_do_not_outrank_a_user_statement(memory: LongTermMemory) -> None:
    page = "Nut allergies are common. An allergy to nuts can be severe; sisters and brothers are often allergic, too. "
    run(memory.remember_turn("s", [Message.user("My sister is allergic to nuts."), Message.assistant("Noted.")]))
    for number in range(6):
        items = [asks("1", "web", query=f"allergy {number}"), tool(answers("1", "web", f"{page * 3} Page {number}."))]
        run(
            memory.remember_turn(
                f"t{number}", [Message.user("What do doctors say?"), *items, Message.assistant("A lot.")]
            )
        )
    found = run(memory.recall("What is my sister allergic to?", 3))
    assert found[0].memory.text == "My sister is allergic to nuts."


@pytest.mark.parametrize("asked", [True, False])
def test_complete_stores_tool_results_of_history_in_the_form_of_remember_turn(asked: bool) -> None:
    history = InMemoryHistory()
    run(history.append("s", FORECAST[0 if asked else 2 :]))
    memory = LongTermMemory(open_store("numpy:"), history=history)
    assert run(memory.complete()) == (3 if asked else 2)
    call = "forecast (city: Trondheim, days: 2)" if asked else "forecast"
    assert only(memory).text == f"{call}\nSleet, then drizzle."
    assert [bool(stored.memory) for stored in run(history.load("s"))] == ([True, False] if asked else []) + [True, True]


def test_complete_does_not_restore_a_forgotten_tool_result() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    memory = LongTermMemory(open_store("numpy:"), history=InMemoryHistory(clock=lambda: now), clock=lambda: now)
    run(memory.remember_turn("s", FORECAST))
    run(memory.forget([only(memory).id]))
    run(memory.conversations.append("t", FORECAST))
    assert run(memory.complete()) == 2
    assert {entry.role for entry in run(memory.list())} == {"user", "assistant"}


def test_a_tool_result_is_assigned_the_last_open_call_of_its_id() -> None:
    first, again = asks("a", "one"), asks("a", "two")
    items = [
        first,
        tool(answers("a", "one")),
        again,
        Message.user("wait"),
        tool(answers("a", "two"), answers("b", "x")),
    ]
    given = [[call.name for call in calls] for calls in calls_by_message(items)]
    assert given == [[], ["one"], [], [], ["two"]]
