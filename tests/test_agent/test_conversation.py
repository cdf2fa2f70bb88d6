"""A conversation without a terminal: what a line asks for, the events of a turn, what it kept; nothing is printed.

Inner parts, on no face: ``tellback.agent.assistant.conversation``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.conversation.conversation import Conversation, TurnEnded
from tellback.agent.assistant.wiring import open_assistant

pytestmark = pytest.mark.anyio


@pytest.fixture
async def talk(tmp_path: Path):
    assistant = open_assistant(AssistantSettings(memory=tmp_path / "m.db", embedder="none"))
    await assistant.start()
    yield Conversation(assistant, "s", lambda _: None)
    await assistant.close()


async def ended(talk: Conversation, prompt: str) -> TurnEnded:
    *events, turn = [event async for event in talk.answer(prompt)]
    assert isinstance(turn, TurnEnded)
    assert events[-1].result == turn.result
    return turn


async def test_a_turn_ends_with_what_it_kept_and_requests_in_plain_words_are_only_proposed(talk, capsys) -> None:
    first = await ended(talk, "Marek's birthday is on 14 March.")
    question = await ended(talk, "When is Marek's birthday?")
    secret = await ended(talk, "The PIN of my card is 4821.")
    assert first.kept.id is not None
    assert question.kept.id is None
    assert (len(secret.kept.secrets), talk.withheld is not None) == (1, True)
    assert "14 March" in question.result.text
    (given,) = talk.opened.memory.given.recent("")
    assert (given.client, given.session, given.prompt) == ("chat", "s", question.prompt)
    assert [memory.id for memory in given.memories] == [first.kept.id]

    forgetting = await talk.understand("Forget Marek's birthday.")
    correction = await talk.understand("No, his birthday is 15 March.")
    kinds = [
        (await talk.understand(line)).kind
        for line in ("What do you know about me?", "Undo that.", "yes", "forget that")
    ]
    assert kinds == ["profile", "undo", "answer", "forget"]
    assert first.kept.id in [memory.id for memory in forgetting.memories]
    assert correction.text == "Marek's birthday is 15 March."
    assert await talk.understand("Marek likes tea.") is None
    assert [memory.text for memory in await talk.opened.desk.get([first.kept.id])] == [first.prompt]

    await talk.correct(correction)
    kept, kinds_of_secrets = await talk.keep_withheld()
    corrected, whole = await talk.opened.desk.get([first.kept.id, kept])
    assert corrected.text == "Marek's birthday is 15 March."
    assert (whole.text, whole.sensitive, kinds_of_secrets) == (secret.prompt, True, secret.kept.secrets)
    assert capsys.readouterr() == ("", "")
