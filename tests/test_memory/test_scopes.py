"""Scopes, tags and filters select alike in recall, list, count, stats, forget and export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tellback.memory import LongTermMemory, Memory, run_sync
from tellback.memory.internals import RecallStage
from tellback.vectorstore import open_store
from tests.support.homes import HOMES, address_in_home

STORED = {
    "a": Memory("the launch is in May", scopes={"user": "ann", "project": "atlas"}, tags=("work", "red"), session="s1"),
    "b": Memory("the launch is in May", scopes={"user": "ann", "project": "borea"}, tags=("home",)),
    "c": Memory("the launch is in May", scopes={"user": "bob", "session": "s1"}, tags=("work",), kind="note"),
    "d": Memory("the launch is in May", scopes={"agent": "helper"}),
    "e": Memory("the launch is in May", tags=("red", "home"), session="s2"),
}
CHOSEN: list[tuple[dict[str, Any], str]] = [
    ({"scopes": {"user": "ann"}}, "ab"),
    ({"scopes": {"user": "ann", "project": "atlas"}}, "a"),
    ({"scopes": {"project": ["atlas", "borea"]}}, "ab"),
    ({"scopes": {"session": "s1"}}, "ac"),
    ({"scopes": {"agent": "helper"}}, "d"),
    ({"tags": ["red", "home"]}, "abe"),
    ({"tags": ["work"]}, "ac"),
    ({"tags": ["work", "home"], "scopes": {"user": "ann"}}, "ab"),
    ({"where": {"kind": "note"}}, "c"),
    ({"where": {"kind": "fact"}, "tags": ["work", "home"]}, "abe"),
    ({"where": {"kind": "fact"}, "tags": ["work"], "scopes": {"user": ["ann", "bob"]}}, "a"),
    ({"scopes": {"user": "nobody"}}, ""),
    ({"tags": ["nothing"]}, ""),
]


@pytest.fixture(scope="module", params=HOMES)
def memory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LongTermMemory]:
    store = open_store(address_in_home(request, tmp_path_factory.mktemp("memory")))
    kept = LongTermMemory(store, ids=iter(STORED).__next__)
    run_sync(kept.remember_many(STORED.values()))
    yield kept
    run_sync(kept.close())


@pytest.mark.parametrize(("options", "chosen"), CHOSEN)
def test_scopes_tags_and_filters_select_the_same_memories_in_every_call(memory, tmp_path, options, chosen):
    found = run_sync(memory.recall("When is the launch?", **options))
    recalled = [hit.memory.id for hit in found] + [left.id for left in found.left_out]  # the same words are folded
    assert "".join(sorted(recalled)) == chosen
    for order in ("id", "oldest", "newest"):
        listed = [item.id for item in run_sync(memory.list(order=order, **options))]
        assert "".join(sorted(listed)) == chosen
    assert run_sync(memory.count(**options)) == len(chosen)
    stats = run_sync(memory.stats(**options))
    assert (stats.memories, stats.lanes["conversation"]) == (len(chosen), len(chosen))
    assert run_sync(memory.forget(**options, dry_run=True)).memories == tuple(chosen)
    run_sync(memory.export(tmp_path / "some.jsonl", **options))
    lines = [json.loads(line) for line in (tmp_path / "some.jsonl").read_text().splitlines()[1:]]
    assert "".join(sorted(item["id"] for item in lines if item["type"] == "memory")) == chosen
    for id in STORED:
        stage = run_sync(memory.why_not("When is the launch?", id, **options)).stage
        assert (stage is RecallStage.FILTER) == (id not in chosen)


def test_recall_over_several_namespaces_applies_the_tag_filter_to_each(memory):
    run_sync(
        memory.remember(Memory("the launch is in May", id="x", scopes={"user": "ann"}, tags=("work",)), namespace="n")
    )
    found = run_sync(memory.recall("When is the launch?", namespace=("", "n"), tags=["work"]))
    assert sorted([*(hit.memory.id for hit in found), *(item.id for item in found.left_out)]) == ["a", "c", "x"]
