"""The context of a request: what stands in it, in which order, and what has no room. Pure.

System prompt, profile of pinned memories, history window, recalled memories, and the prompt exactly once: what
changes least comes first, so that a provider's cache of the beginning stays good. Recalled text goes to the model as
data in the user's message, never as the system's words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent.choosing import Chosen, competing, first_fitting
from agent.items import ContextItem
from agent.providers.protocol import ToolSpec
from agent.rendering import RULES, rendered
from memory import LeftOut, Message, ReadPolicy, TextBlock, TokenCounter, message_tokens

PROFILE = "Pinned memories"
RECALLED = "Memories and passages found for this message"
OVER_BUDGET = "over the token budget"
_PROFILE_SHARE = 4
"""Pinned memories may take a quarter of the room that system, tools and prompt leave."""


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What there is for a turn, before the budget.

    *prompt* is the user's message; *pinned* and *recalled* come best first; *sequences* are the places of the
    *history*'s messages in *session*. *doubtful*: what was recalled may not be about the prompt;
    *other*: it is about it, but by or of somebody else than the prompt names.
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
    other: bool = False


@dataclass(frozen=True, slots=True)
class Assembled:
    """What is sent: *system*, *messages*, and the *items* shown in them. *left_out* and *dropped* (messages of
    history) had no room, *shortened* only in part; *over_budget* says that system, tools and prompt alone exceed it."""

    system: str
    messages: tuple[Message, ...]
    items: tuple[ContextItem, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    dropped: int = 0
    shortened: tuple[LeftOut, ...] = ()
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
        return _joined(given, system, Chosen(given.pinned, given.recalled, history))
    fixed = counter.count(system) + sum(_tool_cost(tool, counter) for tool in given.tools)
    fixed += message_tokens(given.prompt, counter)
    room = budget - fixed
    return replace(_joined(given, system, _fitted(given, history, max(room, 0), counter)), over_budget=room < 0)


def _fitted(given: Ingredients, history: tuple[Message, ...], room: int, counter: TokenCounter) -> Chosen:
    """Pinned memories first, up to their share; what was recalled and history compete for the rest."""
    pinned, spent = first_fitting(given.pinned, room // _PROFILE_SHARE, PROFILE, counter)
    heading = _heading(given)
    found = competing(
        given.recalled,
        _from_user(history),
        room - spent,
        heading=heading,
        doubtful=given.doubtful,
        counter=counter,
    )
    return replace(found, pinned=pinned)


def _joined(given: Ingredients, system: str, chosen: Chosen) -> Assembled:
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
        shortened=chosen.shortened,
    )


def _unseen(given: Ingredients, chosen: Chosen, history: tuple[Message, ...]) -> tuple[ContextItem, ...]:
    """Return the recalled items that the window does not show anyway; all keep their numbers."""
    places = {id(message): place for message, place in zip(given.history, given.sequences, strict=True)}
    shown = {(given.session, places[id(message)]) for message in history if id(message) in places}
    return tuple(item for item in chosen.recalled if (item.session, item.sequence) not in shown)


def _heading(given: Ingredients) -> str:
    if given.other:
        return f"{RECALLED}; they may be by or about somebody else than it names"
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
