"""The desk that all doors of a memory share: what is seen there, and whose consent a change needs.

Inner parts, on no face: ``tellback.agent.desk.consent``, ``tellback.agent.desk.desk``.
"""

from __future__ import annotations

from contextlib import suppress

import pytest

from tellback.agent import ToolFailed
from tellback.agent.desk.consent import ClientProgram, Person, Question, RunModel
from tellback.agent.desk.desk import MemoryDesk
from tellback.memory import KnowledgeBase, Memory, Trust

pytestmark = pytest.mark.anyio


async def test_no_call_of_a_desk_shows_what_is_hidden_there(memory) -> None:
    seen = (await memory.remember(Memory("My bicycle is red.", scopes={"project": "atlas"}, pinned=True))).id
    hidden = [
        await memory.remember(Memory("My bicycle lock has the code 4711.", sensitive=True, pinned=True, **scope))
        for scope in ({"scopes": {"project": "atlas"}}, {})
    ]
    hidden.append(await memory.remember("My bicycle of the bridge is blue.", namespace="other"))
    desk = MemoryDesk(memory=memory, within={"scope.project": "atlas"})
    overview = await desk.overview()
    shown = {hit.memory.id for hit in await desk.recall("bicycle lock code", 10)}
    shown |= {found.id for found in (*await desk.page(), *overview.pinned, *overview.recent)}
    shown |= {entry.memory.id for entry in (*overview.known, *await desk.profile())}
    shown |= {memory.id for memory in await desk.topics("bicycle", "", own="")}
    assert shown == {seen}
    assert await desk.count() == 1
    assert await desk.get([report.id for report in hidden]) == [None] * 3
    assert not await desk.documents()


@pytest.mark.parametrize("by", [ClientProgram(), RunModel(trust=Trust.ASSISTANT), RunModel(trust=Trust.TOOL)])
async def test_no_model_changes_or_removes_the_users_words_by_itself(memory, by) -> None:
    mine, desk = (await memory.remember("I like tea.")).id, MemoryDesk(memory=memory)
    changes = (
        lambda: desk.remember(by, Memory("I like rum."), replaces=[mine]),
        lambda: desk.correct(by, mine, "I like rum.", confirm="9999999999-" + "0" * 24),
        lambda: desk.forget(by, [mine], confirm="9999999999-" + "0" * 24),
    )
    for change in changes:
        with suppress(ToolFailed):
            assert not getattr(await change(), "done", True)
    (kept,) = await memory.list()
    assert (kept.text, kept.trust, kept.valid_to) == ("I like tea.", Trust.USER, None)


async def test_a_person_is_shown_all_that_a_forgetting_takes_along(memory, tmp_path) -> None:
    (tmp_path / "note.md").write_text("My safe word is heron.")
    await KnowledgeBase(memory).ingest(tmp_path)
    first = (await memory.remember("My safe word is heron.")).id
    questions: list[Question] = []

    async def decline(question: Question) -> bool:
        questions.append(question)
        return False

    change = await MemoryDesk(memory=memory, sensitive=True).forget(Person(decline), [first])
    assert (change.done, change.declined) == (False, True)
    assert [concerned.text for concerned in questions[0].memories] == ["My safe word is heron."] * 2
    assert await memory.count() == 1


async def test_forgetting_everything_takes_no_token_of_something_else(memory) -> None:
    first, desk = (await memory.remember("I like tea.")).id, MemoryDesk(memory=memory, sensitive=True)
    token = (await desk.forget(Person(), [first])).token
    await memory.remember("I like rum.")
    assert not (await desk.forget(Person(), everything=True, confirm=token)).done
    assert not (await desk.forget(Person(), session="s", confirm=token)).done
    assert (await desk.forget(Person(), [first], confirm=token)).done
    assert [memory.text for memory in await memory.list()] == ["I like rum."]
