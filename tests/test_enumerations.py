"""Enumerations: the text of a member is accepted wherever the member is; an unknown text is named in the error.

Inner parts, on no face: ``tellback.agent.approval``, ``tellback.agent.providers.accumulator``,
``tellback.agent.tools.base``, ``tellback.memory.export_import.report``, ``tellback.memory.models``,
``tellback.memory.results``.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from tellback import agent, memory, vectorstore
from tellback.agent import RunResult
from tellback.agent.approval import ApprovalDecision, ApprovalStatus
from tellback.agent.providers.accumulator import Response
from tellback.agent.testing import Reply
from tellback.agent.tools.base import ToolAnnotations
from tellback.memory import LongTermMemory, Memory, Message, Report, run_sync
from tellback.memory.export_import.report import ImportLine
from tellback.memory.internals import (
    IngestAction,
    IngestLine,
    Outcome,
    RecallStage,
    UtteranceKind,
)
from tellback.memory.models import Utterance
from tellback.memory.results import WhyNot
from tellback.vectorstore import Entry, Metric, Space, open_store

FACES = ("tellback.vectorstore", "tellback.memory", "tellback.memory.internals", "tellback.agent")


def public() -> Iterator[tuple[str, Any]]:
    for face in FACES:
        module = importlib.import_module(face)
        for name in module.__all__:
            yield f"{face}.{name}", getattr(module, name)


ENUMERATIONS = {value for _, value in public() if isinstance(value, type) and issubclass(value, Enum)}


def remembered(trust: Any) -> Any:
    kept = LongTermMemory(open_store("numpy:"))
    id = run_sync(kept.remember(Memory("tea", trust=trust))).id
    (found,) = run_sync(kept.get([id]))
    assert found is not None
    (listed,) = run_sync(kept.list(trust=[trust]))
    assert listed.id == id
    return found.trust


def begun(metric: Any) -> Any:
    store = open_store("numpy:", space=Space("first", 3))
    store.begin_space(Space("second", 2, metric))
    filling = store.filling()
    assert filling is not None
    return filling.space.metric


def recorded(metric: Any) -> Any:
    store = open_store("numpy:")
    store.set_space(Space("toy", 2, metric))
    space = store.recorded_space()
    assert space is not None
    return space.metric


def tool_trust(trust: Any) -> Any:
    @agent.tool(trust=trust)
    def read() -> str:
        """Read."""
        return ""

    return read.annotations.trust


MEMBERS: dict[type[Enum], list[Callable[[Any], Any]]] = {
    vectorstore.Metric: [
        lambda metric: open_store("numpy:", space=Space("toy", 2, metric)).space.metric,
        begun,
        recorded,
    ],
    vectorstore.SearchMode: [lambda mode: open_store("numpy:", search=mode).search_mode],
    memory.Trust: [
        remembered,
        tool_trust,
        lambda trust: ToolAnnotations(trust=trust).trust,
        lambda trust: ToolAnnotations(approval_below=trust).approval_below,
        lambda trust: agent.ToolContext(trust=trust).trust,
        lambda trust: RunResult(agent.Ending.FINAL, "", "s", trust=trust).trust,
    ],
    Outcome: [
        lambda outcome: Report(outcome, "id").outcome,
        lambda outcome: ImportLine(1, "id", outcome).outcome,
    ],
    UtteranceKind: [lambda kind: Utterance(kind).kind],
    RecallStage: [lambda stage: WhyNot("id", stage, "").stage],
    IngestAction: [lambda action: IngestLine("a.md", action).action],
    memory.Action: [lambda action: memory.PolicyDecision(action).action],
    ApprovalStatus: [lambda status: ApprovalDecision(status).status],
    agent.Ending: [lambda ending: RunResult(ending, "", "s").ending],
    agent.StopReason: [
        lambda reason: agent.StopPiece(reason).reason,
        lambda reason: Reply("yes", stop=reason).reason,
        lambda reason: Response(Message.assistant("yes"), reason).stop,
    ],
}
"""For each public enumeration, the ways by which a caller's value comes in."""


def test_every_public_enumeration_is_covered_here() -> None:
    assert set(MEMBERS) == ENUMERATIONS | {ApprovalStatus}


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: kind.__name__)
def test_an_enumeration_accepts_the_text_of_a_member_as_the_member(kind: type[Enum]) -> None:
    for accepted in MEMBERS[kind]:
        for member in kind:
            assert accepted(member) is member
            assert accepted(member.value) is member


@pytest.mark.parametrize("kind", MEMBERS, ids=lambda kind: kind.__name__)
def test_an_unknown_enumeration_value_raises_naming_the_value(kind: type[Enum]) -> None:
    for accepted in MEMBERS[kind]:
        for value in ("nothing-such", "", 7):
            with pytest.raises(ValueError, match=repr(value)):
                accepted(value)


def test_every_public_value_that_holds_a_member_converts_its_text() -> None:
    """No public value is left that keeps a text where it says that it holds a member."""
    holding = {}
    for name, value in public():
        if isinstance(value, type) and dataclasses.is_dataclass(value):
            known = vars(importlib.import_module(value.__module__))
            for field in dataclasses.fields(value):
                named = [known.get(word) for word in re.findall(r"\w+", str(field.type))]
                kinds = [kind for kind in named if isinstance(kind, type) and kind in ENUMERATIONS]
                if kinds and field.init:
                    holding[f"{name}.{field.name}"] = (value, field.name, kinds.pop())
    assert len(holding) > 8
    for name, (value, field, kind) in holding.items():
        plain = object.__new__(value)
        for each in dataclasses.fields(value):
            object.__setattr__(plain, each.name, None)
        for each in dataclasses.fields(value):
            if each.default is not dataclasses.MISSING:
                object.__setattr__(plain, each.name, each.default)
            for other in holding.values():
                if (other[0], other[1]) == (value, each.name):
                    object.__setattr__(plain, each.name, next(iter(other[2])))
        member = list(kind)[-1]
        object.__setattr__(plain, field, member.value)
        plain.__post_init__()
        assert getattr(plain, field) is member, name


# What it is for.


@pytest.mark.parametrize("limit", [None, 0])
@pytest.mark.parametrize("metric", Metric)
def test_a_space_with_its_metric_as_text_ranks_by_it(metric: Metric, limit: int | None, tmp_path: Path) -> None:
    entries = [Entry("near", [1, 0.1]), Entry("long", [9, 9]), Entry("far", [-1, 0])]
    answers = []
    for number, given in enumerate((metric, metric.value)):
        path = f"sqlite:///{tmp_path / f'{number}.db'}"
        for store in (
            open_store("numpy:", space=Space("toy", 2, given)),
            open_store(path, space=Space("toy", 2, given), matrix_limit=limit),
        ):
            store.upsert(entries)
            answers.append([(match.entry.id, match.score) for match in store.search([1, 0])])
            store.close()
    assert answers == answers[:1] * 4


def test_a_policy_decision_with_the_text_reject_stores_nothing() -> None:
    class Rejecting:
        def decide(self, item: Memory) -> memory.PolicyDecision:
            return memory.PolicyDecision("reject", "not wanted")

    kept = LongTermMemory(open_store("numpy:"), policies=[Rejecting()])
    report = run_sync(kept.remember("tea"))
    assert report.outcome is Outcome.REJECTED
    assert run_sync(kept.count()) == 0
