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
        (index for index, message in enumerate(rest) if message.role == "user" and _has_content(message.blocks)),
        len(rest),
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
    """Yield *messages* with only paired calls and results; a message that is empty then is left out."""
    paired: set[str] = set()
    for index, message in enumerate(messages):
        if message.role != "tool":
            after = messages[index + 1 :] if message.tool_calls else ()
            results = takewhile(lambda later: later.role == "tool", after)
            answered = {result.call_id for reply in results for result in reply.tool_results}
            paired = {call.id for call in message.tool_calls} & answered
        blocks = tuple(block for block in message.blocks if _is_paired(block, paired))
        paired = paired - {block.call_id for block in blocks if isinstance(block, ToolResultBlock)}  # answered once
        if _has_content(blocks):
            yield message if len(blocks) == len(message.blocks) else message.model_copy(update={"blocks": blocks})


def _has_content(blocks: Sequence[Block]) -> bool:
    """Whether *blocks* have any content: some providers refuse a message without."""
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
    """Sources of the context of a turn, before the budget.

    *prompt* is the user's message; *pinned* and *recalled* come best first, and an item in both is shown as pinned.
    *sequences* are the numbers of the *history*'s messages in *session*; *dropped* messages before them are left out
    already. *doubtful*: the recalled items may not be about the prompt; *other*: they are about it, but by or of
    somebody else than the prompt names. *left_out* was found and is not to be shown. *seed* is a secret that no stored
    text can hold: the mark of the items is made from it.
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
    """Context that is sent: *system*, *messages*, and the *items* shown in them, between lines with the *mark*.

    *left_out* and *dropped* (messages of history, with *reasons*) had no room, *shortened* only in part.
    *over_budget*: system, tools and prompt alone exceed the budget. *notes* are those of the window.
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
    sources: ContextSources,
    *,
    budget: int | None = None,
    profile: int = DEFAULT_PROFILE_TOKENS,
    counter: TokenCounter,
    window: WindowPolicy | None = None,
) -> AssembledContext:
    """Assemble the context within *budget* tokens, at most *profile* of them for pinned memories; *window* chooses from
    history first."""
    mark = unused_mark(_untrusted_texts(sources), sources.seed)
    system = "\n\n".join(part for part in (sources.system, item_rules(mark) if sources.rules else "") if part)
    view = Window(sources.history) if window is None else window.apply(sources.history)
    history = view.messages
    costs = ItemCosts(mark, counter)
    room = None
    if budget is not None:
        fixed = counter.count(system) + sum(_tool_spec_tokens(tool, counter) for tool in sources.tools)
        room = budget - fixed - message_tokens(sources.prompt, counter)
    chosen = _select_context(sources, history, room, profile, costs)
    assembled = _compose_messages(
        sources, system, mark, history, chosen, _ContextLimits(profile, over_budget=room is not None and room < 0)
    )
    return replace(assembled, notes=(*view.notes, OVER_WINDOW_LIMIT) if view.over_budget else view.notes)


@dataclass(frozen=True, slots=True)
class _ContextLimits:
    profile: int
    over_budget: bool


def _select_context(
    sources: ContextSources, history: tuple[Message, ...], room: int | None, profile: int, costs: ItemCosts
) -> ContextSelection:
    """Select pinned memories first, up to their share; recalled items and history compete for the rest."""
    left = profile if room is None else min(profile, max(room, 0))
    pinned, shortened, spent = select_fitting_items(sources.pinned, left, PROFILE_HEADING, costs)
    shown = {(item.lane, item.id) for item in pinned}
    recalled = tuple(item for item in sources.recalled if (item.lane, item.id) not in shown)
    if room is None:
        return ContextSelection(pinned, recalled, history, shortened)
    selection = select_within_budget(
        recalled,
        from_first_user_message(history),
        max(room, 0) - spent,
        heading=_heading_of_recalled(sources),
        doubtful=sources.doubtful,
        costs=costs,
        in_history=_items_in_history(sources, recalled),
    )
    return replace(selection, pinned=pinned, shortened=(*shortened, *selection.shortened))


def _compose_messages(
    sources: ContextSources,
    system: str,
    mark: str,
    window: tuple[Message, ...],
    chosen: ContextSelection,
    limits: _ContextLimits,
) -> AssembledContext:
    history = from_first_user_message(chosen.history)
    recalled = render_items(_items_outside_history(sources, chosen, history), _heading_of_recalled(sources), mark)
    messages = [*history, _prepend_text(sources.prompt, recalled)]
    first = next(index for index, message in enumerate(messages) if message.role == "user")
    messages[first] = _prepend_text(messages[first], render_items(chosen.pinned, PROFILE_HEADING, mark))
    return AssembledContext(
        system=system,
        messages=alternate_roles(messages),
        items=(*chosen.pinned, *chosen.recalled),
        left_out=(*_omitted_items(sources, chosen, limits), *sources.left_out),
        dropped=sources.dropped + len(sources.history) - len(history),
        reasons=_omission_reasons(sources, window, history),
        shortened=chosen.shortened,
        over_budget=limits.over_budget,
        mark=mark,
    )


def _omitted_items(sources: ContextSources, chosen: ContextSelection, limits: _ContextLimits) -> list[Omitted]:
    """Return the items that had no room, each once: a pinned one that was recalled, too, had two chances."""
    kept = {(item.lane, item.id) for item in (*chosen.pinned, *chosen.recalled)}
    unpinned = f"over the {limits.profile} tokens for pinned memories"
    reasons = {(item.lane, item.id): (item.id, unpinned) for item in sources.pinned}
    reasons.update({(item.lane, item.id): (item.id, OVER_CONTEXT_BUDGET) for item in sources.recalled})
    return [Omitted(id, reason) for key, (id, reason) in reasons.items() if key not in kept]


def _omission_reasons(sources: ContextSources, window: Sequence[Message], shown: Sequence[Message]) -> tuple[str, ...]:
    """Return the reasons why messages of history are not shown, with their numbers."""
    whole = len(from_first_user_message(tuple(window)))
    counts = {
        "outside the window": sources.dropped + len(sources.history) - len(window),
        "before the first message of the user": len(window) - whole,
        OVER_CONTEXT_BUDGET: whole - len(shown),
    }
    return tuple(f"{count} {reason}" for reason, count in counts.items() if count > 0)


def _items_outside_history(
    sources: ContextSources, chosen: ContextSelection, history: tuple[Message, ...]
) -> tuple[ContextItem, ...]:
    """Return the recalled items that the window does not show anyway; all keep their numbers."""
    sequences = {id(message): number for message, number in zip(sources.history, sources.sequences, strict=True)}
    shown = {(sources.session, sequences[id(message)]) for message in history if id(message) in sequences}
    return tuple(item for item in chosen.recalled if (item.session, item.sequence) not in shown)


def _items_in_history(sources: ContextSources, recalled: Sequence[ContextItem]) -> dict[int, int]:
    """Return the message of history (``id``) that each of *recalled* is, by its index."""
    numbered = zip(sources.history, sources.sequences, strict=True)
    messages = {number: id(message) for message, number in numbered if number >= 0}
    return {
        index: messages[item.sequence]
        for index, item in enumerate(recalled)
        if item.session == sources.session and item.sequence in messages
    }


def _heading_of_recalled(sources: ContextSources) -> str:
    if sources.other:
        return f"{RECALLED_HEADING}; they may be by or about somebody else than it names"
    return f"{RECALLED_HEADING}; none of them may be about it" if sources.doubtful else RECALLED_HEADING


def _untrusted_texts(sources: ContextSources) -> list[str]:
    """Return every text of the request that is not ours: none of it may contain the mark."""
    texts = [text for message in (*sources.history, sources.prompt) for text in _message_texts(message)]
    return [sources.system, *texts, *item_texts((*sources.pinned, *sources.recalled))]


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
