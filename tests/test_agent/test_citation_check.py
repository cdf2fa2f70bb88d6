"""Citations of a model are checked: numbers, quotations, support."""

from __future__ import annotations

import pytest

from tellback.agent import Agent, knowledge_tools
from tellback.agent.testing import Reply, ScriptedProvider, call
from tellback.memory import KnowledgeBase

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("answer", "problems"),
    [
        ("It opened in 1932 [1].", []),
        ("It opened in 1932 [7].", ["[7] names nothing that was shown"]),
        ("“The bridge was opened in 1933 by the king” [1]", ["does not stand in [1]"]),
        ("“The bridge was opened in 1932” [1]", []),
        ("Cats sleep sixteen hours daily during winter [1].", ["nothing in [1] supports"]),
        ("See `array[7]`.", []),
        ("Cats sleep sixteen hours daily\u3002It was opened in 1932 by the mayor [1]\u3002", []),
        ("It opened in 1932\uff01Cats sleep sixteen hours daily during winter [1]\uff1f", ["nothing in [1]"]),
        (f"{'word ' * 39_000}, and it opened in 1932 [1].", ["nothing in [1] supports"]),
        ("\u201c" * 190_000, []),
    ],
)
async def test_a_citation_that_cannot_be_confirmed_gives_a_warning(memory, tmp_path, answer, problems) -> None:
    (tmp_path / "bridge.md").write_text("# The bridge\n\nThe bridge was opened in 1932 by the mayor.\n")
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(tmp_path)
    search = Reply(calls=(call("search_documents", query="When was the bridge opened?"),))
    with ScriptedProvider(search, Reply(answer)) as provider:
        result = await Agent(provider, tools=knowledge_tools(knowledge)).run("When?")
    warned = [warning for warning in result.warnings if "citation" in warning]
    assert len(warned) == len(problems)
    assert all(problem in warning for problem, warning in zip(problems, warned, strict=True))
    if "[1]" in answer:
        assert [citation.source for citation in result.citations] == ["bridge.md"]
