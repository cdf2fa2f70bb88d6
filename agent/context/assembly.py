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

from agent.context.budget import ContextSelection, ItemCosts, select_fitting_items, select_within_budget
from agent.context.rendering import item_rules, item_texts, render_items, unused_mark
from agent.context_items import ContextItem
from agent.providers.base import ToolSpec
from agent.trust import message_trust, with_trust
from memory import (
    DocumentBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    TokenCounter,
    ToolCallBlock,
    ToolResultBlock,
    WindowPolicy,
    message_tokens,
)
from memory.internals import Block, Omitted, Window


def from_first_user_message(history: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return *history* from its first user message on: an answer without its question misleads, and some models
    refuse a conversation that they begin."""
    system = tuple(message for message in history if message.role == "system")
    rest = [message for message in history if message.role != "system"]
    start = next(
        (place for place, one in enumerate(rest) if one.role == "user" and _has_content(one.blocks)), len(rest)
    )
    return (*system, *rest[start:])


def alternate_roles(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return *messages* with neighbours of one role joined, and no call without its results or result without its
    call: many models want the roles to alternate and calls to be answered, and refuse a conversation otherwise."""
    joined: list[Message] = []
    for message in _without_unpaired_calls(messages):
        last = joined[-1] if joined else None
        if last is not None and message.role == last.role:
            whole = last.model_copy(update={"blocks": (*last.blocks, *message.blocks)})
            joined[-1] = with_trust(whole, message_trust(message))
        else:
            joined.append(message)
    return tuple(joined)


def _without_unpaired_calls(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield *messages* with only those calls and results that belong together; one that is empty then is left out."""
    paired: set[str] = set()
    for place, message in enumerate(messages):
        if message.role != "tool":
            results = takewhile(lambda one: one.role == "tool", messages[place + 1 :]) if message.tool_calls else ()
            answered = {result.call_id for one in results for result in one.tool_results}
            paired = {call.id for call in message.tool_calls} & answered
        blocks = tuple(block for block in message.blocks if _is_paired(block, paired))
        paired = paired - {block.call_id for block in blocks if isinstance(block, ToolResultBlock)}  # answered once
        if _has_content(blocks):
            yield message if len(blocks) == len(message.blocks) else message.model_copy(update={"blocks": blocks})


def _has_content(blocks: Sequence[Block]) -> bool:
    """Whether *blocks* say anything: a message without words is refused by some providers."""
    return any(block.text.strip() if isinstance(block, TextBlock) else block.type != "thinking" for block in blocks)


def _is_paired(block: Block, paired: set[str]) -> bool:
    if isinstance(block, ToolCallBlock):
        return block.id in paired
    return not isinstance(block, ToolResultBlock) or block.call_id in paired


PROFILE_HEADING = "Pinned memories"
RECALLED_HEADING = "Memories and passages found for this message"
OVER_CONTEXT_BUDGET = "over the token budget"
OVER_WINDOW_LIMIT = "the newest messages of the conversation alone are over the window's limit"
DEFAULT_PROFILE_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class ContextSources:
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
    left_out: tuple[Omitted, ...] = ()
    rules: bool = False
    doubtful: bool = False
    other: bool = False
    seed: str = ""


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """What is sent: *system*, *messages*, and the *items* shown in them, between lines with the *mark*.

    *left_out* and *dropped* (messages of history, with *reasons*) had no room, *shortened* only in part;
    *over_budget* says that system, tools and prompt alone exceed it, *notes* what the window did otherwise than asked.
    """

    system: str
    messages: tuple[Message, ...]
    items: tuple[ContextItem, ...] = ()
    left_out: tuple[Omitted, ...] = ()
    dropped: int = 0
    reasons: tuple[str, ...] = ()
    shortened: tuple[Omitted, ...] = ()
    over_budget: bool = False
    mark: str = ""
    notes: tuple[str, ...] = ()


def assemble_context(
    given: ContextSources,
    *,
    budget: int | None = None,
    profile: int = DEFAULT_PROFILE_TOKENS,
    counter: TokenCounter,
    window: WindowPolicy | None = None,
) -> AssembledContext:
    """Put the context together within *budget* tokens, *profile* of them for pinned memories at most; *window*
    chooses from history first."""
    mark = unused_mark(_untrusted_texts(given), given.seed)
    system = "\n\n".join(part for part in (given.system, item_rules(mark) if given.rules else "") if part)
    seen = Window(given.history) if window is None else window.apply(given.history)
    history = seen.messages
    weighing = ItemCosts(mark, counter)
    room = None
    if budget is not None:
        fixed = counter.count(system) + sum(_tool_spec_tokens(tool, counter) for tool in given.tools)
        room = budget - fixed - message_tokens(given.prompt, counter)
    chosen = _select_context(given, history, room, profile, weighing)
    made = _compose_messages(
        given, system, mark, history, chosen, _ContextLimits(profile, over_budget=room is not None and room < 0)
    )
    return replace(made, notes=(*seen.notes, OVER_WINDOW_LIMIT) if seen.over_budget else seen.notes)


@dataclass(frozen=True, slots=True)
class _ContextLimits:
    profile: int
    over_budget: bool


def _select_context(
    given: ContextSources, history: tuple[Message, ...], room: int | None, profile: int, weighing: ItemCosts
) -> ContextSelection:
    """Pinned memories first, up to their share; what was recalled and history compete for the rest."""
    left = profile if room is None else min(profile, max(room, 0))
    pinned, shortened, spent = select_fitting_items(given.pinned, left, PROFILE_HEADING, weighing)
    shown = {(item.lane, item.id) for item in pinned}
    recalled = tuple(item for item in given.recalled if (item.lane, item.id) not in shown)
    if room is None:
        return ContextSelection(pinned, recalled, history, shortened)
    found = select_within_budget(
        recalled,
        from_first_user_message(history),
        max(room, 0) - spent,
        heading=_heading_of_recalled(given),
        doubtful=given.doubtful,
        weighing=weighing,
        said_in=_items_in_history(given, recalled),
    )
    return replace(found, pinned=pinned, shortened=(*shortened, *found.shortened))


def _compose_messages(
    given: ContextSources,
    system: str,
    mark: str,
    window: tuple[Message, ...],
    chosen: ContextSelection,
    limits: _ContextLimits,
) -> AssembledContext:
    history = from_first_user_message(chosen.history)
    recalled = render_items(_items_outside_history(given, chosen, history), _heading_of_recalled(given), mark)
    messages = [*history, _prepend_text(given.prompt, recalled)]
    first = next(place for place, message in enumerate(messages) if message.role == "user")
    messages[first] = _prepend_text(messages[first], render_items(chosen.pinned, PROFILE_HEADING, mark))
    return AssembledContext(
        system=system,
        messages=alternate_roles(messages),
        items=(*chosen.pinned, *chosen.recalled),
        left_out=(*_omitted_items(given, chosen, limits), *given.left_out),
        dropped=given.dropped + len(given.history) - len(history),
        reasons=_omission_reasons(given, window, history),
        shortened=chosen.shortened,
        over_budget=limits.over_budget,
        mark=mark,
    )


def _omitted_items(given: ContextSources, chosen: ContextSelection, limits: _ContextLimits) -> list[Omitted]:
    """Return what had no room, each item once: a pinned one that was recalled, too, had two chances."""
    kept = {(item.lane, item.id) for item in (*chosen.pinned, *chosen.recalled)}
    unpinned = f"over the {limits.profile} tokens for pinned memories"
    reasons = {(item.lane, item.id): (item.id, unpinned) for item in given.pinned}
    reasons.update({(item.lane, item.id): (item.id, OVER_CONTEXT_BUDGET) for item in given.recalled})
    return [Omitted(id, reason) for key, (id, reason) in reasons.items() if key not in kept]


def _omission_reasons(given: ContextSources, window: Sequence[Message], shown: Sequence[Message]) -> tuple[str, ...]:
    """Say why messages of history are not shown, with how many each reason concerns."""
    whole = len(from_first_user_message(tuple(window)))
    counts = {
        "outside the window": given.dropped + len(given.history) - len(window),
        "before the first message of the user": len(window) - whole,
        OVER_CONTEXT_BUDGET: whole - len(shown),
    }
    return tuple(f"{count} {reason}" for reason, count in counts.items() if count > 0)


def _items_outside_history(
    given: ContextSources, chosen: ContextSelection, history: tuple[Message, ...]
) -> tuple[ContextItem, ...]:
    """Return the recalled items that the window does not show anyway; all keep their numbers."""
    places = {id(message): place for message, place in zip(given.history, given.sequences, strict=True)}
    shown = {(given.session, places[id(message)]) for message in history if id(message) in places}
    return tuple(item for item in chosen.recalled if (item.session, item.sequence) not in shown)


def _items_in_history(given: ContextSources, recalled: Sequence[ContextItem]) -> dict[int, int]:
    """Return which message of history (``id``) each of *recalled* is, by its place."""
    messages = {at: id(message) for message, at in zip(given.history, given.sequences, strict=True) if at >= 0}
    return {
        place: messages[item.sequence]
        for place, item in enumerate(recalled)
        if item.session == given.session and item.sequence in messages
    }


def _heading_of_recalled(given: ContextSources) -> str:
    if given.other:
        return f"{RECALLED_HEADING}; they may be by or about somebody else than it names"
    return f"{RECALLED_HEADING}; none of them may be about it" if given.doubtful else RECALLED_HEADING


def _untrusted_texts(given: ContextSources) -> list[str]:
    """Return every text of the request that is not ours: none of it may contain the mark."""
    said = [text for message in (*given.history, given.prompt) for text in _message_texts(message)]
    return [given.system, *said, *item_texts((*given.pinned, *given.recalled))]


def _message_texts(message: Message) -> Iterator[str]:
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


def _prepend_text(message: Message, text: str) -> Message:
    if not text:
        return message
    return message.model_copy(update={"blocks": (TextBlock(text=text), *message.blocks)})


def _tool_spec_tokens(tool: ToolSpec, counter: TokenCounter) -> int:
    return counter.count(f"{tool.name}{tool.description}{dict(tool.parameters)}")
