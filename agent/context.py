"""The context of a request: what stands in it, in which order, and what has no room. Pure.

System prompt, profile of pinned memories, history window, recalled memories, and the prompt exactly once: what
changes least comes first, so that a provider's cache of the beginning stays good. Recalled text goes to the model as
data in the user's message, never as the system's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.items import ContextItem
from agent.providers.protocol import ToolSpec
from agent.rendering import RULES, rendered
from memory import LeftOut, Message, ReadPolicy, TextBlock, TokenCounter, TokenWindow, message_tokens

PROFILE = "Pinned memories"
RECALLED = "Memories and passages found for this message"
OVER_BUDGET = "over the token budget"
_PROFILE_SHARE = 4
"""Pinned memories may take a quarter of the room that is left, recalled ones half before history is placed."""
_RECALLED_SHARE = 2


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What there is for a turn, before the budget.

    *prompt* is the user's message; *pinned* and *recalled* come best first; *sequences* are the places of the
    *history*'s messages in *session*. *doubtful*: what was recalled may not be about the prompt.
    """

    prompt: Message
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    session: str = ""
    history: tuple[Message, ...] = ()
    sequences: tuple[int, ...] = ()
    pinned: tuple[ContextItem, ...] = ()
    recalled: tuple[ContextItem, ...] = ()
    rules: bool = False
    doubtful: bool = False


@dataclass(frozen=True, slots=True)
class Assembled:
    """What is sent: *system*, *messages*, and the *items* shown in them. *left_out* and *dropped* (messages of
    history) had no room; *over_budget* says that system, tools and prompt alone exceed it."""

    system: str
    messages: tuple[Message, ...]
    items: tuple[ContextItem, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    dropped: int = 0
    over_budget: bool = False


def assemble(
    given: Ingredients,
    *,
    budget: int | None = None,
    counter: TokenCounter,
    window: ReadPolicy | None = None,
) -> Assembled:
    """Put the context together within *budget* tokens; *window* chooses from history first."""
    system = "\n\n".join(part for part in (given.system, RULES if given.rules else "") if part)
    history = given.history if window is None else window.apply(given.history).messages
    if budget is None:
        chosen = _Chosen(given.pinned, given.recalled, history)
        return _joined(given, system, chosen)
    fixed = counter.count(system) + sum(_tool_cost(tool, counter) for tool in given.tools)
    fixed += message_tokens(given.prompt, counter)
    room = budget - fixed
    chosen = _Chosen(*_fitted(given, history, max(room, 0), counter))
    return replace(_joined(given, system, chosen), over_budget=room < 0)


@dataclass(frozen=True, slots=True)
class _Chosen:
    pinned: tuple[ContextItem, ...]
    recalled: tuple[ContextItem, ...]
    history: tuple[Message, ...]


def _fitted(
    given: Ingredients, history: tuple[Message, ...], room: int, counter: TokenCounter
) -> tuple[tuple[ContextItem, ...], tuple[ContextItem, ...], tuple[Message, ...]]:
    pinned, spent = _first_fitting(given.pinned, room // _PROFILE_SHARE, PROFILE, counter)
    room -= spent
    recalled, spent = _first_fitting(given.recalled, room // _RECALLED_SHARE, RECALLED, counter)
    told = _suffix(given.prompt, history, room - spent, counter)
    if len(told) == len(history):  # history left room; more of what was recalled may have it
        used = sum(message_tokens(message, counter) for message in told)
        recalled, _ = _first_fitting(given.recalled, room - used, RECALLED, counter)
    return pinned, recalled, told


def _first_fitting(
    items: Sequence[ContextItem], room: int, heading: str, counter: TokenCounter
) -> tuple[tuple[ContextItem, ...], int]:
    """Return the items that fit, in their order (a long one is passed over), and what they cost."""
    kept: list[ContextItem] = []
    spent = 0
    overhead = counter.count(f"{heading} (mark {'0' * 16}):\n")
    for item in items:
        # One by one costs a little more than together, so the sum never exceeds the room.
        cost = counter.count(rendered([item], "")) + (0 if kept else overhead)
        if spent + cost <= room:
            kept.append(item)
            spent += cost
    return tuple(kept), spent


def _suffix(prompt: Message, history: tuple[Message, ...], room: int, counter: TokenCounter) -> tuple[Message, ...]:
    """Return the newest whole groups of *history* that fit beside the prompt."""
    if room <= 0 or not history:
        return ()
    budget = room + message_tokens(prompt, counter)
    return TokenWindow(budget, counter).apply((*history, prompt)).messages[:-1]


def _joined(given: Ingredients, system: str, chosen: _Chosen) -> Assembled:
    history = _from_user(chosen.history)
    messages = [*history, _headed(given.prompt, rendered(_unseen(given, chosen, history), _heading(given)))]
    first = next(place for place, message in enumerate(messages) if message.role == "user")
    messages[first] = _headed(messages[first], rendered(chosen.pinned, PROFILE))
    kept = {(item.lane, item.id) for item in (*chosen.pinned, *chosen.recalled)}
    lost = [item for item in (*given.pinned, *given.recalled) if (item.lane, item.id) not in kept]
    return Assembled(
        system=system,
        messages=_alternating(messages),
        items=(*chosen.pinned, *chosen.recalled),
        left_out=tuple(LeftOut(item.id, OVER_BUDGET) for item in lost),
        dropped=len(given.history) - len(history),
    )


def _unseen(given: Ingredients, chosen: _Chosen, history: tuple[Message, ...]) -> tuple[ContextItem, ...]:
    """Return the recalled items that the window does not show anyway; all keep their numbers."""
    places = {id(message): place for message, place in zip(given.history, given.sequences, strict=True)}
    shown = {(given.session, places[id(message)]) for message in history if id(message) in places}
    return tuple(item for item in chosen.recalled if (item.session, item.sequence) not in shown)


def _heading(given: Ingredients) -> str:
    return f"{RECALLED}; none of them may be about it" if given.doubtful else RECALLED


def _from_user(history: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return *history* from its first user message on: an answer without its question misleads, and some models
    refuse a conversation that they begin."""
    system = tuple(message for message in history if message.role == "system")
    rest = [message for message in history if message.role != "system"]
    start = next((place for place, message in enumerate(rest) if message.role == "user"), len(rest))
    return (*system, *rest[start:])


def _headed(message: Message, text: str) -> Message:
    if not text:
        return message
    return message.model_copy(update={"blocks": (TextBlock(text=text), *message.blocks)})


def _alternating(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return *messages* with neighbouring ones of the user joined: many models want the roles to alternate."""
    joined: list[Message] = []
    for message in messages:
        if joined and message.role == "user" and joined[-1].role == "user":
            joined[-1] = joined[-1].model_copy(update={"blocks": (*joined[-1].blocks, *message.blocks)})
        else:
            joined.append(message)
    return tuple(joined)


def _tool_cost(tool: ToolSpec, counter: TokenCounter) -> int:
    return counter.count(f"{tool.name}{tool.description}{dict(tool.parameters)}")
