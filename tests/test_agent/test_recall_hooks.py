"""Recall hooks made from a provider: query expansion, a hypothetical answer, a reranker."""

from __future__ import annotations

import pytest

from tellback.agent import ArgumentError
from tellback.agent.callables import recall_hooks
from tellback.agent.testing import Reply, ScriptedProvider

pytestmark = pytest.mark.anyio


async def test_expansions_widen_a_recall_and_a_reranker_orders_it(memory) -> None:
    for text in ("The vessel sails at dawn.", "The boat is red.", "The cat sleeps."):
        await memory.remember(text)
    with ScriptedProvider(Reply("1. When does the vessel sail?\n- departure of the vessel")) as provider:
        found = await memory.recall("When does the ferry leave?", hooks=recall_hooks(provider, expand=True, most=2))
    assert found[0].memory.text == "The vessel sails at dawn."
    with ScriptedProvider(Reply("Scores: [1, 10, 0]")) as provider:
        scores = recall_hooks(provider, rerank=True).rerank
        assert scores is not None
        assert list(await scores("Which boat?", ["a", "b", "c"])) == [0.1, 1.0, 0.0]
    with ScriptedProvider(Reply("It sails at dawn.\n")) as provider:
        imagine = recall_hooks(provider, imagine=True).imagine
        assert imagine is not None
        assert await imagine("When does the ferry leave?") == "It sails at dawn."


async def test_a_recall_goes_on_without_a_reranker_whose_model_fails(memory) -> None:
    for text in ("The boat is red.", "The red door is old."):
        await memory.remember(text)
    with ScriptedProvider(Reply("I cannot judge that.")) as provider:
        found = await memory.recall("Is the boat red?", hooks=recall_hooks(provider, rerank=True))
    assert found[0].memory.text == "The boat is red."
    assert any("rerank" in note for note in (*found.notes, *found.degraded))


def test_recall_hooks_without_any_hook_are_refused() -> None:
    with pytest.raises(ArgumentError, match="expand"):
        recall_hooks(ScriptedProvider())
