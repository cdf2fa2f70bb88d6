"""Assembly of a request's context within a token budget, as messages that every provider accepts. Pure.

System prompt, profile of pinned memories, history window, recalled memories, and the prompt exactly once: the parts
that change least come first, so that a provider's prompt cache stays valid. Recalled text is data in the user's
message, never part of the system prompt.

Roles alternate and tool calls stand beside their results, since many providers refuse a conversation otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from agent.context.budget import Chosen, Weighing, competing, first_fitting
from agent.context.rendering import mark_apart, rendered, rules, texts_of
from agent.context_items import ContextItem
from agent.providers.base import ToolSpec
from agent.trust import marked, trust_of
from memory import (
    Block,
    DocumentBlock,
    LeftOut,
    Message,
    ReadPolicy,
    TextBlock,
    ThinkingBlock,
    TokenCounter,
    ToolCallBlock,
    ToolResultBlock,
    Window,
    message_tokens,
)


def from_user(history: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return *history* from its first user message on: an answer without its question misleads, and some models
    refuse a conversation that they begin."""
    system = tuple(message for message in history if message.role == "system")
    rest = [message for message in history if message.role != "system"]
    start = next((place for place, one in enumerate(rest) if one.role == "user" and _says(one.blocks)), len(rest))
    return (*system, *rest[start:])


def alternating(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return *messages* with neighbours of one role joined, and no call without its results or result without its
    call: many models want the roles to alternate and calls to be answered, and refuse a conversation otherwise."""
    joined: list[Message] = []
    for message in _paired(messages):
        last = joined[-1] if joined else None
        if last is not None and message.role == last.role:
            whole = last.model_copy(update={"blocks": (*last.blocks, *message.blocks)})
            joined[-1] = marked(whole, trust_of(message))
        else:
            joined.append(message)
    return tuple(joined)


def _paired(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield *messages* with only those calls and results that belong together; one that is empty then is left out."""
    paired: set[str] = set()
    for place, message in enumerate(messages):
        if message.role != "tool":
            results = takewhile(lambda one: one.role == "tool", messages[place + 1 :]) if message.tool_calls else ()
            answered = {result.call_id for one in results for result in one.tool_results}
            paired = {call.id for call in message.tool_calls} & answered
        blocks = tuple(block for block in message.blocks if _belongs(block, paired))
        paired = paired - {block.call_id for block in blocks if isinstance(block, ToolResultBlock)}  # answered once
        if _says(blocks):
            yield message if len(blocks) == len(message.blocks) else message.model_copy(update={"blocks": blocks})


def _says(blocks: Sequence[Block]) -> bool:
    """Whether *blocks* say anything: a message without words is refused by some providers."""
    return any(block.text.strip() if isinstance(block, TextBlock) else block.type != "thinking" for block in blocks)


def _belongs(block: Block, paired: set[str]) -> bool:
    if isinstance(block, ToolCallBlock):
        return block.id in paired
    return not isinstance(block, ToolResultBlock) or block.call_id in paired


PROFILE = "Pinned memories"
RECALLED = "Memories and passages found for this message"
OVER_BUDGET = "over the token budget"
OVER_WINDOW = "the newest messages of the conversation alone are over the window's limit"
PROFILE_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class Ingredients:
    """What there is for a turn, before the budget.

    *prompt* is the user's message; *pinned* and *recalled* come best first, and what is in both is shown as pinned;
    *sequences* are the places of the *history*'s messages in *session*, before which *dropped* ones are left out
    already. *doubtful*: what was recalled may not be about the prompt; *other*: it is about it, but by or of somebody
    else than the prompt names. *left_out* was found and is not to be shown. *seed* is what no stored text can know: the
    mark of the items is made from it.
    """

    prompt: Message
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    session: str = ""
    history: tuple[Message, ...] = ()
    sequences: tuple[int, ...] = ()
    dropped: int = 0
    pinned: tuple[ContextItem, ...] = ()
    recalled: tuple[ContextItem, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    rules: bool = False
    doubtful: bool = False
    other: bool = False
    seed: str = ""


@dataclass(frozen=True, slots=True)
class Assembled:
    """What is sent: *system*, *messages*, and the *items* shown in them, between lines with the *mark*.

    *left_out* and *dropped* (messages of history, with *reasons*) had no room, *shortened* only in part;
    *over_budget* says that system, tools and prompt alone exceed it, *notes* what the window did otherwise than asked.
    """

    system: str
    messages: tuple[Message, ...]
    items: tuple[ContextItem, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    dropped: int = 0
    reasons: tuple[str, ...] = ()
    shortened: tuple[LeftOut, ...] = ()
    over_budget: bool = False
    mark: str = ""
    notes: tuple[str, ...] = ()


def assemble(
    given: Ingredients,
    *,
    budget: int | None = None,
    profile: int = PROFILE_TOKENS,
    counter: TokenCounter,
    window: ReadPolicy | None = None,
) -> Assembled:
    """Put the context together within *budget* tokens, *profile* of them for pinned memories at most; *window*
    chooses from history first."""
    mark = mark_apart(_words(given), given.seed)
    system = "\n\n".join(part for part in (given.system, rules(mark) if given.rules else "") if part)
    seen = Window(given.history) if window is None else window.apply(given.history)
    history = seen.messages
    weighing = Weighing(mark, counter)
    room = None
    if budget is not None:
        fixed = counter.count(system) + sum(_tool_cost(tool, counter) for tool in given.tools)
        room = budget - fixed - message_tokens(given.prompt, counter)
    chosen = _chosen(given, history, room, profile, weighing)
    made = _joined(given, system, mark, history, chosen, _Limits(profile, over_budget=room is not None and room < 0))
    return replace(made, notes=(*seen.notes, OVER_WINDOW) if seen.over_budget else seen.notes)


@dataclass(frozen=True, slots=True)
class _Limits:
    profile: int
    over_budget: bool


def _chosen(
    given: Ingredients, history: tuple[Message, ...], room: int | None, profile: int, weighing: Weighing
) -> Chosen:
    """Pinned memories first, up to their share; what was recalled and history compete for the rest."""
    left = profile if room is None else min(profile, max(room, 0))
    pinned, shortened, spent = first_fitting(given.pinned, left, PROFILE, weighing)
    shown = {(item.lane, item.id) for item in pinned}
    recalled = tuple(item for item in given.recalled if (item.lane, item.id) not in shown)
    if room is None:
        return Chosen(pinned, recalled, history, shortened)
    found = competing(
        recalled,
        from_user(history),
        max(room, 0) - spent,
        heading=_heading(given),
        doubtful=given.doubtful,
        weighing=weighing,
        said_in=_said_in(given, recalled),
    )
    return replace(found, pinned=pinned, shortened=(*shortened, *found.shortened))


def _joined(
    given: Ingredients,
    system: str,
    mark: str,
    window: tuple[Message, ...],
    chosen: Chosen,
    limits: _Limits,
) -> Assembled:
    history = from_user(chosen.history)
    recalled = rendered(_unseen(given, chosen, history), _heading(given), mark)
    messages = [*history, _headed(given.prompt, recalled)]
    first = next(place for place, message in enumerate(messages) if message.role == "user")
    messages[first] = _headed(messages[first], rendered(chosen.pinned, PROFILE, mark))
    return Assembled(
        system=system,
        messages=alternating(messages),
        items=(*chosen.pinned, *chosen.recalled),
        left_out=(*_lost(given, chosen, limits), *given.left_out),
        dropped=given.dropped + len(given.history) - len(history),
        reasons=_reasons(given, window, history),
        shortened=chosen.shortened,
        over_budget=limits.over_budget,
        mark=mark,
    )


def _lost(given: Ingredients, chosen: Chosen, limits: _Limits) -> list[LeftOut]:
    """Return what had no room, each item once: a pinned one that was recalled, too, had two chances."""
    kept = {(item.lane, item.id) for item in (*chosen.pinned, *chosen.recalled)}
    unpinned = f"over the {limits.profile} tokens for pinned memories"
    reasons = {(item.lane, item.id): (item.id, unpinned) for item in given.pinned}
    reasons.update({(item.lane, item.id): (item.id, OVER_BUDGET) for item in given.recalled})
    return [LeftOut(id, reason) for key, (id, reason) in reasons.items() if key not in kept]


def _reasons(given: Ingredients, window: Sequence[Message], shown: Sequence[Message]) -> tuple[str, ...]:
    """Say why messages of history are not shown, with how many each reason concerns."""
    whole = len(from_user(tuple(window)))
    counts = {
        "outside the window": given.dropped + len(given.history) - len(window),
        "before the first message of the user": len(window) - whole,
        OVER_BUDGET: whole - len(shown),
    }
    return tuple(f"{count} {reason}" for reason, count in counts.items() if count > 0)


def _unseen(given: Ingredients, chosen: Chosen, history: tuple[Message, ...]) -> tuple[ContextItem, ...]:
    """Return the recalled items that the window does not show anyway; all keep their numbers."""
    places = {id(message): place for message, place in zip(given.history, given.sequences, strict=True)}
    shown = {(given.session, places[id(message)]) for message in history if id(message) in places}
    return tuple(item for item in chosen.recalled if (item.session, item.sequence) not in shown)


def _said_in(given: Ingredients, recalled: Sequence[ContextItem]) -> dict[int, int]:
    """Return which message of history (``id``) each of *recalled* is, by its place."""
    messages = {at: id(message) for message, at in zip(given.history, given.sequences, strict=True) if at >= 0}
    return {
        place: messages[item.sequence]
        for place, item in enumerate(recalled)
        if item.session == given.session and item.sequence in messages
    }


def _heading(given: Ingredients) -> str:
    if given.other:
        return f"{RECALLED}; they may be by or about somebody else than it names"
    return f"{RECALLED}; none of them may be about it" if given.doubtful else RECALLED


def _words(given: Ingredients) -> list[str]:
    """Return every text of the request that is not ours: none of it may contain the mark."""
    said = [text for message in (*given.history, given.prompt) for text in _said(message)]
    return [given.system, *said, *texts_of((*given.pinned, *given.recalled))]


def _said(message: Message) -> Iterator[str]:
    """Yield every text in *message* that a model may be shown."""
    yield message.name or ""
    for block in message.blocks:
        if isinstance(block, (TextBlock, ThinkingBlock, ToolResultBlock)):
            yield block.text
        elif isinstance(block, ToolCallBlock):
            yield str(block.arguments)
        elif isinstance(block, DocumentBlock):
            yield block.name or ""
            yield block.data.decode("latin-1")


def _headed(message: Message, text: str) -> Message:
    if not text:
        return message
    return message.model_copy(update={"blocks": (TextBlock(text=text), *message.blocks)})


def _tool_cost(tool: ToolSpec, counter: TokenCounter) -> int:
    return counter.count(f"{tool.name}{tool.description}{dict(tool.parameters)}")
