"""Runner of the write policies, in their order; a failing policy loses nothing.

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
from dataclasses import dataclass, field, replace
from typing import Any, Final

from memory.errors import ArgumentError
from memory.messages import Message
from memory.models import Memory, Trust
from memory.results import Outcome
from memory.tables.operation_log import least_trusted_actor
from memory.validation import checked_memory
from memory.write.policies import (
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

_CONCURRENCY: Final = 8
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PolicyRules:
    """The *policies* in their order, what a failing one means, and what is different on one road.

    *making*: new memories may be made of what is judged. *in_place*: it takes the place of what was wrong, so that
    neither one that says the same nor facts found in it can stand for it: it is linked, or kept beside them.
    """

    policies: tuple[WritePolicy, ...] = ()
    on_failure: OnPolicyFailure = "store"
    making: bool = True
    in_place: bool = False

    def __post_init__(self) -> None:
        for policy in self.policies:
            if not isinstance(policy, WritePolicy):
                raise ArgumentError("policies", policy, "a write policy has a method decide(memory)")
        if self.on_failure not in ("store", "reject"):
            raise ArgumentError("on_policy_failure", self.on_failure, 'one of "store", "reject" is needed')

    @property
    def looking(self) -> bool:
        """Whether one of them must see what is stored, so that items are judged one after another."""
        return any(isinstance(policy, LookupPolicy) for policy in self.policies)


@dataclass(frozen=True, slots=True)
class PolicyResult:
    """What the policies made of a memory; *memory* is None when it is not to be stored.

    *spans* were taken out of it; *of* is what it nearly repeats. One that was made has the *places* of its sources.
    """

    memory: Memory | None
    outcome: Outcome
    reason: str = ""
    spans: int = 0
    of: str | None = None
    places: tuple[int, ...] = ()


@dataclass(slots=True)
class _PolicyItem:
    """A memory on its way through the policies."""

    first: Memory
    memory: Memory
    places: tuple[int, ...]
    in_place: bool = False
    outcome: Outcome = Outcome.STORED
    reasons: list[str] = field(default_factory=list)
    spans: int = 0
    of: str | None = None

    @property
    def going(self) -> bool:
        return self.outcome in (Outcome.STORED, Outcome.REDACTED)

    @property
    def is_answered(self) -> bool:
        return self.first.role == "tool"

    def apply(self, decision: PolicyDecision, policy: WritePolicy) -> None:
        if not isinstance(decision, PolicyDecision):
            raise ArgumentError(f"policies ({_policy_name(policy)})", decision, "a PolicyDecision is needed")
        new = self.memory
        if decision.action not in (Action.ACCEPT, Action.REJECT):
            if decision.memory is None:
                expected = f"a decision to {decision.action} needs the memory to store"
                raise ArgumentError(f"policies ({_policy_name(policy)})", decision, expected)
            new = _bounded_memory(
                checked_memory(decision.memory, argument=f"policies ({_policy_name(policy)})"), self.first
            )
        self.memory = new
        self.of = decision.of or self.of
        if decision.action is Action.REJECT and self.in_place and decision.of is not None:
            self.memory = replace(new, metadata={**new.metadata, NEAR_DUPLICATE_KEY: decision.of})
        elif decision.action is Action.REJECT:
            self.outcome = Outcome.REJECTED if decision.of is None else Outcome.NEAR_DUPLICATE
            self.reasons.append(decision.reason or "rejected")
            return
        self.reasons += [decision.reason] if decision.reason else []
        if decision.action is Action.REDACT:
            self.outcome = Outcome.REDACTED
            self.spans += max(decision.spans, 1)

    def fail(self, policy: WritePolicy, error: Exception, on_failure: OnPolicyFailure) -> None:
        chosen = getattr(policy, "on_failure", None) or on_failure
        _log.warning("a write policy failed: %s (%s)", _policy_name(policy), type(error).__name__)
        kept = "kept as it was" if chosen == "store" else "not kept"
        self.reasons.append(f"{_policy_name(policy)} failed ({str(error) or type(error).__name__}); {kept}")
        if chosen != "store":
            self.outcome = Outcome.REJECTED

    def judged(self) -> PolicyResult:
        # What was only refused tells why it was refused; what was kept, all that was done to it.
        reason = "; ".join(self.reasons) if self.going else self.reasons[-1]
        return PolicyResult(self.memory if self.going else None, self.outcome, reason, self.spans, self.of, self.places)


async def apply_policies(
    memory: Memory, rules: PolicyRules, stored: MemoryLookup | None = None
) -> tuple[PolicyResult, list[PolicyResult]]:
    """Return what becomes of *memory*, and what was made of it."""
    (judged,), made = await apply_policies_to_turn([memory], rules, stored)
    return judged, made


async def apply_policies_to_turn(
    memories: Sequence[Memory], rules: PolicyRules, stored: MemoryLookup | None = None
) -> tuple[list[PolicyResult], list[PolicyResult]]:
    """Return what becomes of each of *memories*, which were said together, and what was made of them.

    What a tool answered is nobody's word: it is judged by itself, and nothing is made of it. Without *stored*, policies
    that look at it are asked as if there were nothing.
    """
    own = [_PolicyItem(memory, memory, (place,), rules.in_place) for place, memory in enumerate(memories)]
    items = list(own)
    for policy in rules.policies:
        if isinstance(policy, TurnPolicy):
            going, makes = [one for one in items if one.going], getattr(policy, "makes", False)
            if rules.making or not makes:
                items += await _apply_turn_policy(policy, [one for one in going if not one.is_answered], rules)
            for one in going if not makes else ():
                if one.is_answered:
                    await _apply_turn_policy(policy, [one], replace(rules, making=False))
        else:
            for one in items:
                if one.going:
                    await _apply_policy(policy, one, rules, stored)
    return [one.judged() for one in own], [one.judged() for one in items[len(own) :]]


async def apply_policies_to_each(
    memories: Sequence[Memory], rules: PolicyRules
) -> list[tuple[PolicyResult, list[PolicyResult]]]:
    """Return what becomes of each of *memories*, none of which the policies see beside another; a few at once."""
    return [(own, made) for (own,), made in await apply_policies_to_turns([[memory] for memory in memories], rules)]


async def apply_policies_to_turns(
    turns: Sequence[Sequence[Memory]], rules: PolicyRules
) -> list[tuple[list[PolicyResult], list[PolicyResult]]]:
    """Return what becomes of each of *turns*, none of which the policies see beside another; a few at once."""
    free = asyncio.Semaphore(_CONCURRENCY)

    async def one(turn: Sequence[Memory]) -> tuple[list[PolicyResult], list[PolicyResult]]:
        async with free:
            return await apply_policies_to_turn(turn, rules)

    if not rules.policies:
        return [([PolicyResult(memory, Outcome.STORED) for memory in turn], []) for turn in turns]
    return list(await asyncio.gather(*map(one, turns)))


async def _apply_policy(
    policy: WritePolicy, item: _PolicyItem, rules: PolicyRules, stored: MemoryLookup | None
) -> None:
    try:
        if stored is not None and isinstance(policy, LookupPolicy):
            decision: Any = policy.decide_beside(item.memory, stored)
        else:
            decision = policy.decide(item.memory)
        item.apply(await decision if inspect.isawaitable(decision) else decision, policy)
    except Exception as error:  # a stranger's rule, a model that does not answer: what was said is not lost by it
        item.fail(policy, error, rules.on_failure)


async def _apply_turn_policy(policy: TurnPolicy, items: Sequence[_PolicyItem], rules: PolicyRules) -> list[_PolicyItem]:
    if not items:
        return []
    try:
        said: Any = policy.decide_turn(MemoryTurn(tuple(one.memory for one in items)))
        decision = await said if inspect.isawaitable(said) else said
        if not isinstance(decision, TurnDecision) or len(decision.decisions) != len(items):
            expected = f"a TurnDecision with {len(items)} decisions is needed"
            raise ArgumentError(f"policies ({_policy_name(policy)})", decision, expected)
        made = [_derived_item(memory, [items[place] for place in places], policy) for memory, places in decision.made]
        if not rules.making:
            made = []
        decision = _keep_beside_facts(decision, items)
        tried = [replace(one, reasons=list(one.reasons)) for one in items]
        for one, part in zip(tried, decision.decisions, strict=True):
            one.apply(part, policy)
        for one, part in zip(items, decision.decisions, strict=True):
            one.apply(part, policy)
        return made
    except Exception as error:  # as in _apply_policy; nothing of a decision that is wrong in part is carried out
        for one in items:
            one.fail(policy, error, rules.on_failure)
        return []


def _keep_beside_facts(decision: TurnDecision, items: Sequence[_PolicyItem]) -> TurnDecision:
    """Return *decision*, but what takes another's place is kept where it was to be left out for what was made of it."""
    used = {place for _, places in decision.made for place in places if items[place].in_place}
    kept = PolicyDecision(Action.ACCEPT, "kept beside its facts")
    return TurnDecision(
        tuple(
            kept if place in used and one.action is Action.REJECT else one
            for place, one in enumerate(decision.decisions)
        ),
        decision.made,
    )


def _derived_item(memory: Memory, sources: Sequence[_PolicyItem], policy: WritePolicy) -> _PolicyItem:
    """Return what a policy made of *sources*: theirs are its trust, who wrote it, where it comes from, and when."""
    if not sources:
        raise ArgumentError(f"policies ({_policy_name(policy)})", memory, "what is made has at least one source")
    first, last = sources[0].memory, sources[-1].memory
    speakers = {one.memory.speaker for one in sources}
    made = replace(
        checked_memory(memory, argument=f"policies ({_policy_name(policy)})"),
        id="",
        session=memory.session or first.session,
        source=memory.source or first.source,
        speaker=memory.speaker or (first.speaker if len(speakers) == 1 else None),
        scopes=memory.scopes or _shared_scopes([one.memory for one in sources]),
        occurred_at=memory.occurred_at or last.occurred_at,
        actor=least_trusted_actor(one.memory.actor for one in sources),
        trust=Trust.least([memory.trust, *(one.memory.trust for one in sources)]),
        sensitive=memory.sensitive or any(one.memory.sensitive for one in sources),
    )
    places = tuple(dict.fromkeys(place for one in sources for place in one.places))
    return _PolicyItem(made, made, places)


def _shared_scopes(memories: Sequence[Memory]) -> dict[str, str]:
    """Return the scopes that all *memories* are in."""
    first, *others = memories
    return {name: value for name, value in first.scopes.items() if all(o.scopes.get(name) == value for o in others)}


def _bounded_memory(new: Memory, first: Memory) -> Memory:
    """Return *new* with no more trust than *first* had, said by whom it was said, and sensitive if it was.

    Its id and key stay those that the caller gave: repeating would not be safe otherwise.
    """
    return replace(
        new,
        id=first.id,
        key=first.key,
        trust=Trust.least([new.trust, first.trust]),
        actor=first.actor,
        sensitive=new.sensitive or first.sensitive,
    )


def _policy_name(policy: object) -> str:
    return type(policy).__name__


_KEPT_FIELDS = frozenset({"type", "role", "media_type", "data", "signature", "redacted", "id", "call_id", "at"})
"""Fields that are not anybody's words: names of kinds, ids, bytes, and what a provider must get back unchanged."""

_FREE_FIELDS = frozenset({"metadata", "arguments"})


def redaction_policies(policies: Sequence[WritePolicy]) -> tuple[RedactionPolicy, ...]:
    """Return those of *policies* that take parts of texts away."""
    return tuple(policy for policy in policies if isinstance(policy, RedactionPolicy))


def redacted_message(message: Message, policies: Sequence[RedactionPolicy]) -> tuple[Message, int]:
    """Return *message* without what *policies* take out, and how many parts that was; the same object if none."""
    if not policies:
        return message, 0
    walk = _RedactionWalk(policies)
    kept = walk.value(message.model_dump(mode="json"))
    return (Message.model_validate(kept), walk.spans) if walk.spans else (message, 0)


class _RedactionWalk:
    """One pass through the values of a message."""

    def __init__(self, policies: Sequence[RedactionPolicy]) -> None:
        self._policies = policies
        self.spans = 0

    def value(self, value: Any, name: str = "", *, free: bool = False) -> Any:
        """Return JSON *value*, which stands under *name*, with its texts cleaned; *free* is what anybody may name."""
        if isinstance(value, str):
            return self._text(value, name)
        if isinstance(value, list):
            return [self.value(inner, name, free=free) for inner in value]
        if not isinstance(value, dict):
            return value
        if free:
            return {self._text(name): self.value(inner, name, free=True) for name, inner in value.items()}
        return {
            name: inner if name in _KEPT_FIELDS else self.value(inner, name, free=name in _FREE_FIELDS)
            for name, inner in value.items()
        }

    def _text(self, text: str, name: str = "") -> str:
        for policy in self._policies:
            text, count = policy.cleaned(text, name)
            self.spans += count
        return text
