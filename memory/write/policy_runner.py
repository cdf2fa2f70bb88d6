"""Runner of the write policies, in their order; a policy whose model or rule fails loses nothing, one that fails as a
program raises.

The same for one item, for a batch, for a turn, for a correction and for what is imported. The trust of a memory never
rises on the way, its id and key stay, and a memory made of several is trusted as the least of them.

Messages are redacted by the same policies, so that history does not keep what memory must not. Bytes of images and
documents stay as they are; all texts of a message are read, tool calls and results included.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from tellback.memory.errors import ArgumentError
from tellback.memory.models import Memory, Trust
from tellback.memory.results import Outcome
from tellback.memory.tables.operation_log import least_trusted_actor
from tellback.memory.validation import checked_memory
from tellback.memory.write.draft import Draft, drafts_by_turn, with_facts
from tellback.memory.write.policies.base import (
    NEAR_DUPLICATE_KEY,
    Action,
    LookupPolicy,
    MemoryLookup,
    MemoryTurn,
    OnPolicyFailure,
    PolicyDecision,
    RedactionPolicy,
    TurnDecision,
    TurnPolicy,
    WritePolicy,
)

if TYPE_CHECKING:
    from tellback.memory.messages import Message

_CONCURRENCY: Final = 8
_PROGRAMMING_ERRORS: Final = (TypeError, AttributeError, NameError)
"""Errors of a policy as a program. They are raised: a guard that fails open would keep what it was to leave out."""
_log = logging.getLogger(__name__)


def _noted(error: Exception, policy: WritePolicy) -> Exception:
    """Return *error* with the policy that raised it."""
    error.add_note(f"raised by the write policy {type(policy).__name__}; nothing of this call was stored")
    return error


@dataclass(frozen=True, slots=True)
class PolicyRules:
    """The *policies* in their order, what a failing one means (*on_failure*), and whether they make new memories.

    *making*: new memories, such as facts, may be made of what is judged.
    """

    policies: tuple[WritePolicy, ...] = ()
    on_failure: OnPolicyFailure = "store"
    making: bool = True

    def __post_init__(self) -> None:
        for policy in self.policies:
            if not isinstance(policy, WritePolicy):
                raise ArgumentError("policies", policy, "a write policy has a method decide(memory)")
        if self.on_failure not in ("store", "reject"):
            raise ArgumentError("on_policy_failure", self.on_failure, 'one of "store", "reject" is needed')

    @property
    def looking(self) -> bool:
        """Return whether one of them must see what is stored, so that items are judged one after another."""
        return any(isinstance(policy, LookupPolicy) for policy in self.policies)


async def apply_policies(
    drafts: Sequence[Draft], rules: PolicyRules, stored: MemoryLookup | None = None
) -> list[Draft]:
    """Return *drafts*, which came together, as the policies leave them, each with the facts that were made of it.

    What a tool answered is nobody's word: it is judged by itself, and nothing is made of it. Without *stored*, policies
    that look at it are asked as if there were nothing. What is settled already is no policy's to see.
    """
    items = list(drafts)
    for policy in rules.policies:
        if isinstance(policy, TurnPolicy):
            items = await _apply_turn_policy(policy, items, rules)
        else:
            items = [
                item if item.settled is not None else await _apply_policy(policy, item, rules, stored) for item in items
            ]
    return with_facts(items[: len(drafts)], items[len(drafts) :])


async def apply_policies_apart(drafts: Sequence[Draft], rules: PolicyRules) -> list[Draft]:
    """Return *drafts* as the policies leave them: those of one turn together, none beside another turn's.

    A few turns are judged at once.
    """
    if not rules.policies:
        return list(drafts)
    free = asyncio.Semaphore(_CONCURRENCY)

    async def judge(turn: Sequence[Draft]) -> list[Draft]:
        async with free:
            return await apply_policies(turn, rules)

    judged = await asyncio.gather(*map(judge, drafts_by_turn(drafts)))
    return [draft for turn in judged for draft in turn]


async def _apply_policy(policy: WritePolicy, draft: Draft, rules: PolicyRules, stored: MemoryLookup | None) -> Draft:
    try:
        if stored is not None and isinstance(policy, LookupPolicy):
            decision: Any = policy.decide_beside(draft.memory, stored)
        else:
            decision = policy.decide(draft.memory)
        return _decided(draft, await decision if inspect.isawaitable(decision) else decision, policy)
    except _PROGRAMMING_ERRORS as error:
        raise _noted(error, policy) from None
    except Exception as error:  # a stranger's rule, a model that does not answer: what was said is not lost by it
        return _failed(draft, policy, error, rules)


async def _apply_turn_policy(policy: TurnPolicy, drafts: Sequence[Draft], rules: PolicyRules) -> list[Draft]:
    """Return *drafts* as *policy* leaves them, and behind them what it made."""
    items, facts = list(drafts), list[Draft]()
    going = [index for index, draft in enumerate(drafts) if draft.settled is None]
    makes = getattr(policy, "makes", False)
    turns: list[list[int]] = []
    if rules.making or not makes:
        turns.append([index for index in going if not _is_tool_answer(drafts[index])])
    if not makes:
        turns += [[index] for index in going if _is_tool_answer(drafts[index])]
    for turn in filter(None, turns):
        making = rules.making and not _is_tool_answer(drafts[turn[0]])
        decided = await _decided_turn(policy, [drafts[index] for index in turn], rules, making=making)
        for place, index in enumerate(turn):
            items[index] = decided[place]
        facts += decided[len(turn) :]
    return items + facts


async def _decided_turn(
    policy: TurnPolicy, drafts: Sequence[Draft], rules: PolicyRules, *, making: bool
) -> list[Draft]:
    """Return *drafts* as *policy* decides on them together, and behind them what it made of them."""
    try:
        answer: Any = policy.decide_turn(MemoryTurn(tuple(draft.memory for draft in drafts)))
        decision = await answer if inspect.isawaitable(answer) else answer
        if not isinstance(decision, TurnDecision) or len(decision.decisions) != len(drafts):
            raise TypeError(
                f"{_argument(policy)}: a TurnDecision with {len(drafts)} decisions is needed, got {decision!r}"
            )
        facts = [_made_draft(memory, [drafts[place] for place in places], policy) for memory, places in decision.made]
        decisions = _keep_beside_facts(decision, drafts)
        decided = [_decided(draft, decisions[place], policy) for place, draft in enumerate(drafts)]
        return decided + (facts if making else [])
    except _PROGRAMMING_ERRORS as error:
        raise _noted(error, policy) from None
    except Exception as error:  # as in _apply_policy; nothing of a decision that is wrong in part is carried out
        return [_failed(draft, policy, error, rules) for draft in drafts]


def _decided(draft: Draft, decision: PolicyDecision, policy: WritePolicy) -> Draft:
    """Return *draft* as *decision* leaves it; a decision that is none raises."""
    if not isinstance(decision, PolicyDecision):
        raise TypeError(f"{_argument(policy)}: a PolicyDecision is needed, got {decision!r}")
    memory = draft.memory
    if decision.action not in (Action.ACCEPT, Action.REJECT):
        if decision.memory is None:
            expected = f"a decision to {decision.action} needs the memory to store"
            raise ArgumentError(_argument(policy), decision, expected)
        memory = _bounded_memory(checked_memory(decision.memory, argument=_argument(policy)), draft.given)
    draft = replace(
        draft,
        memory=memory,
        of=decision.of or draft.of,
        may_replace=decision.may_replace or draft.may_replace,
    )
    if decision.action == Action.REJECT:
        if decision.of is None or not draft.in_place:
            outcome = Outcome.REJECTED if decision.of is None else Outcome.NEAR_DUPLICATE
            return draft.reject(outcome, decision.reason or "rejected")
        near = replace(memory, metadata={**memory.metadata, NEAR_DUPLICATE_KEY: decision.of})
        draft = replace(draft, memory=near)
    if decision.reason:
        draft = replace(draft, reasons=(*draft.reasons, decision.reason))
    if decision.action != Action.REDACT:
        return draft
    return replace(draft, outcome=Outcome.REDACTED, spans=draft.spans + max(decision.spans, 1))


def _failed(draft: Draft, policy: WritePolicy, error: Exception, rules: PolicyRules) -> Draft:
    """Return *draft* as it is to be treated after *policy* failed on it."""
    chosen, name = getattr(policy, "on_failure", None) or rules.on_failure, type(policy).__name__
    _log.warning("a write policy failed: %s (%s)", name, type(error).__name__)
    kept = "kept as it was" if chosen == "store" else "not kept"
    reason = f"{name} failed ({str(error) or type(error).__name__}); {kept}"
    if chosen != "store":
        return draft.reject(Outcome.REJECTED, reason)
    return replace(draft, reasons=(*draft.reasons, reason))


def _is_tool_answer(draft: Draft) -> bool:
    return draft.given.role == "tool"


def _keep_beside_facts(decision: TurnDecision, drafts: Sequence[Draft]) -> list[PolicyDecision]:
    """Return the decisions on *drafts*: one that replaces a memory is kept where its facts were to stand for it."""
    used = {place for _, places in decision.made for place in places if drafts[place].in_place}
    kept = PolicyDecision(Action.ACCEPT, "kept beside its facts")
    return [
        kept if place in used and part.action == Action.REJECT else part
        for place, part in enumerate(decision.decisions)
    ]


def _made_draft(memory: Memory, sources: Sequence[Draft], policy: WritePolicy) -> Draft:
    """Return what a policy made of *sources*: theirs are its trust, who wrote it, where it comes from, and when."""
    if not sources:
        raise ArgumentError(_argument(policy), memory, "what is made has at least one source")
    first, last = sources[0].memory, sources[-1].memory
    speakers = {source.memory.speaker for source in sources}
    shared = {
        name: value
        for name, value in first.scopes.items()
        if all(source.memory.scopes.get(name) == value for source in sources)
    }
    fact = replace(
        checked_memory(memory, argument=_argument(policy)),
        id="",
        session=memory.session or first.session,
        source=memory.source or first.source,
        speaker=memory.speaker or (first.speaker if len(speakers) == 1 else None),
        scopes=memory.scopes or shared,
        occurred_at=memory.occurred_at or last.occurred_at,
        actor=least_trusted_actor(source.memory.actor for source in sources),
        trust=Trust.least([memory.trust, *(source.memory.trust for source in sources)]),
        sensitive=memory.sensitive or any(source.memory.sensitive for source in sources),
    )
    origins = tuple(dict.fromkeys(origin for source in sources for origin in source.origins))
    return Draft(fact, fact, origins, sources[0].turn)


def _bounded_memory(new: Memory, first: Memory) -> Memory:
    """Return *new* with no more trust than *first* had, said by whom it was said, and sensitive if it was.

    Its id and key stay those that the caller gave: repeating would not be safe otherwise; and it replaces what the
    caller named, at least.
    """
    return replace(
        new,
        id=first.id,
        key=first.key,
        trust=Trust.least([new.trust, first.trust]),
        actor=first.actor,
        sensitive=new.sensitive or first.sensitive,
        replaces=tuple(dict.fromkeys((*first.replaces, *new.replaces))),
    )


def _argument(policy: object) -> str:
    """Return the name that *policy* has in errors."""
    return f"policies ({type(policy).__name__})"


_KEPT_FIELDS = frozenset({"type", "role", "media_type", "data", "signature", "redacted", "id", "call_id", "at"})
"""Fields that are not anybody's words: names of kinds, ids, bytes, and what a provider must get back unchanged."""

_FREE_FIELDS = frozenset({"metadata", "arguments"})


def redaction_policies(policies: Sequence[WritePolicy]) -> tuple[RedactionPolicy, ...]:
    """Return those of *policies* that take parts of texts away."""
    return tuple(policy for policy in policies if isinstance(policy, RedactionPolicy))


def redacted_text(text: str, policies: Sequence[RedactionPolicy], name: str = "") -> tuple[str, int]:
    """Return *text*, which stands under *name*, without what *policies* take out, and how many parts that was."""
    spans = 0
    for policy in policies:
        text, count = policy.cleaned(text, name)
        spans += count
    return text, spans


def redacted_message(message: Message, policies: Sequence[RedactionPolicy]) -> tuple[Message, int]:
    """Return *message* without what *policies* take out, and how many parts that was; the same object if none."""
    spans = 0

    def cleaned(text: str, name: str = "") -> str:
        nonlocal spans
        text, count = redacted_text(text, policies, name)
        spans += count
        return text

    def kept(value: Any, name: str = "", *, free: bool = False) -> Any:
        """Return JSON *value*, which stands under *name*, with its texts cleaned; *free* is what anybody may name."""
        if isinstance(value, str):
            return cleaned(value, name)
        if isinstance(value, list):
            return [kept(inner, name, free=free) for inner in value]
        if not isinstance(value, dict):
            return value
        if free:
            return {cleaned(name): kept(inner, name, free=True) for name, inner in value.items()}
        return {
            name: inner if name in _KEPT_FIELDS else kept(inner, name, free=name in _FREE_FIELDS)
            for name, inner in value.items()
        }

    fields = kept(message.model_dump(mode="json")) if policies else {}
    from tellback.memory.messages import Message

    return (Message.model_validate(fields), spans) if spans else (message, 0)
