"""Assembly of a request's context within a token budget, as messages that every provider accepts. Pure.

System prompt, profile of pinned memories, history window, recalled memories, and the prompt exactly once: the parts
that change least come first, so that a provider's prompt cache stays valid. Recalled text is data in the user's
message, never part of the system prompt.

Roles alternate and tool calls stand beside their results, since many providers refuse a conversation otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from tellback.agent.context.budget import ContextSelection, ItemCosts, select_fitting_items, select_within_budget
from tellback.agent.context.memory_reader import NO_SEQUENCE, GatheredContext, SessionHistory
from tellback.agent.context.rendering import item_rules, item_texts, render_items, unused_mark
from tellback.agent.context_items import ContextItem, numbered_items
from tellback.agent.providers.base import ToolSpec
from tellback.agent.trust import message_trust, with_trust
from tellback.agent.turn_store import cited_numbers
from tellback.memory import (
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
from tellback.memory.internals import Block, Omitted, Window


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
    """Return whether *blocks* have any content: some providers refuse a message without."""
    return any(block.text.strip() if isinstance(block, TextBlock) else block.type != "thinking" for block in blocks)


def _is_paired(block: Block, paired: set[str]) -> bool:
    if isinstance(block, ToolCallBlock):
        return block.id in paired
    return not isinstance(block, ToolResultBlock) or block.call_id in paired


PROFILE_HEADING = "About the user:"
_DOUBTFUL_HEADINGS = {
    "nothing": "The nearest to this message, perhaps not about it:",
    "other": "Found for this message, perhaps by or about somebody else:",
}
OVER_CONTEXT_BUDGET = "over the token budget"
OVER_WINDOW_LIMIT = "the newest messages of the conversation alone are over the window's limit"
DEFAULT_PROFILE_TOKENS = 1_000


@dataclass(frozen=True, slots=True)
class ContextSources:
    """Sources of the context of a turn, before the budget: the user's *prompt*, and what was *gathered* for it.

    An item that is pinned and recalled is shown as pinned. With *rules*, the rules about recalled items go into the
    system prompt; so does the *situation*: the day and the user. *seed* is a secret that no stored text can contain;
    the mark of the items is made from it.
    """

    prompt: Message
    gathered: GatheredContext = field(default_factory=GatheredContext)
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    session: str = ""
    rules: bool = False
    situation: str = ""
    seed: str = ""


@dataclass(frozen=True, slots=True)
class AssembledContext:
    """Context that is sent: *system*, *messages*, and the *items* shown in them, between lines with the *mark*.

    *left_out* and *dropped* (messages of history) had no room, *shortened* only in part. *over_budget*: system, tools
    and prompt alone exceed the budget. *notes* tell how memory was searched and why messages of history were dropped.
    """

    system: str
    messages: tuple[Message, ...]
    items: tuple[ContextItem, ...] = ()
    left_out: tuple[Omitted, ...] = ()
    dropped: int = 0
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
    gathered, stored = sources.gathered, sources.gathered.history
    # Every text of the request that is not ours: none of it may contain the mark.
    texts = [text for message in (*stored.messages, sources.prompt) for text in _message_texts(message)]
    untrusted = [sources.system, sources.situation, *texts, *item_texts((*gathered.pinned, *gathered.recalled))]
    mark = unused_mark(untrusted, sources.seed)
    rules = item_rules(mark) if sources.rules else ""
    # The situation changes daily and comes last, so that the text before it stays in a provider's cache.
    system = "\n\n".join(part for part in (sources.system, rules, sources.situation) if part)
    view = Window(stored.messages) if window is None else window.apply(stored.messages)
    room = None
    if budget is not None:
        tools = sum(counter.count(f"{tool.name}{tool.description}{dict(tool.parameters)}") for tool in sources.tools)
        room = budget - counter.count(system) - tools - message_tokens(sources.prompt, counter)
    window_notes = (*view.notes, OVER_WINDOW_LIMIT) if view.over_budget else view.notes
    chosen = _select_context(sources, view.messages, room, profile, ItemCosts(mark, counter))
    history = from_first_user_message(chosen.history)
    shown, placed = {id(message) for message in history}, _items_in_history(sources, chosen.recalled)
    # Items that the window shows as messages are not rendered again.
    inside = [item for index, item in enumerate(chosen.recalled) if placed.get(index) in shown]
    outside = [item for index, item in enumerate(chosen.recalled) if placed.get(index) not in shown]
    numbered = numbered_items((*chosen.pinned, *outside, *inside), cited_numbers(stored.messages))
    items = {(item.lane, item.id): item for item in numbered}
    pinned, outside = numbered[: len(chosen.pinned)], numbered[len(chosen.pinned) : len(numbered) - len(inside)]
    recalled = render_items(outside, _heading_of_recalled(gathered), mark)
    messages = [*history, _prepend_text(sources.prompt, recalled)]
    first = next(index for index, message in enumerate(messages) if message.role == "user")
    messages[first] = _prepend_text(messages[first], render_items(pinned, PROFILE_HEADING, mark))
    return AssembledContext(
        system=system,
        messages=alternate_roles(messages),
        items=tuple(items[item.lane, item.id] for item in (*chosen.pinned, *chosen.recalled)),
        left_out=(*_omitted_items(gathered, chosen, profile), *gathered.left_out),
        dropped=stored.dropped + len(stored.messages) - len(history),
        shortened=chosen.shortened,
        over_budget=room is not None and room < 0,
        mark=mark,
        notes=(*dict.fromkeys((*gathered.notes, *window_notes)), *_omission_notes(stored, view.messages, history)),
    )


def _select_context(
    sources: ContextSources, history: tuple[Message, ...], room: int | None, profile: int, costs: ItemCosts
) -> ContextSelection:
    """Select pinned memories first, up to their share; recalled items and history compete for the rest."""
    gathered = sources.gathered
    left = profile if room is None else min(profile, max(room, 0))
    pinned, shortened, spent = select_fitting_items(gathered.pinned, left, PROFILE_HEADING, costs)
    shown = {(item.lane, item.id) for item in pinned}
    recalled = tuple(item for item in gathered.recalled if (item.lane, item.id) not in shown)
    if room is None:
        return ContextSelection(pinned, recalled, history, shortened)
    selection = select_within_budget(
        recalled,
        from_first_user_message(history),
        max(room, 0) - spent,
        heading=_heading_of_recalled(gathered),
        doubtful=gathered.abstain is not None,
        costs=costs,
        in_history=_items_in_history(sources, recalled),
    )
    return replace(selection, pinned=pinned, shortened=(*shortened, *selection.shortened))


def _omitted_items(gathered: GatheredContext, chosen: ContextSelection, profile: int) -> list[Omitted]:
    """Return the items that had no room, each once; one both pinned and recalled counts as recalled."""
    kept = {(item.lane, item.id) for item in (*chosen.pinned, *chosen.recalled)}
    reasons = {(item.lane, item.id): f"over the {profile} tokens for pinned memories" for item in gathered.pinned}
    reasons.update({(item.lane, item.id): OVER_CONTEXT_BUDGET for item in gathered.recalled})
    return [Omitted(key[1], reason) for key, reason in reasons.items() if key not in kept]


def _omission_notes(stored: SessionHistory, window: tuple[Message, ...], shown: Sequence[Message]) -> tuple[str, ...]:
    """Return a note why messages of history are not shown, with their numbers; none if all are."""
    whole = len(from_first_user_message(window))
    counts = {
        "outside the window": stored.dropped + len(stored.messages) - len(window),
        "before the first message of the user": len(window) - whole,
        OVER_CONTEXT_BUDGET: whole - len(shown),
    }
    reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items() if count > 0)
    return (f"messages of history left out: {reasons}",) if reasons else ()


def _items_in_history(sources: ContextSources, recalled: Sequence[ContextItem]) -> dict[int, int]:
    """Return the ``id`` of the history's message for the index of each of *recalled* that is such a message."""
    history = sources.gathered.history
    numbered = zip(history.sequences, map(id, history.messages), strict=True)
    messages = {number: message for number, message in numbered if number != NO_SEQUENCE}
    return {
        index: messages[item.sequence]
        for index, item in enumerate(recalled)
        if item.session == sources.session and item.sequence in messages
    }


def _heading_of_recalled(gathered: GatheredContext) -> str:
    """Return the line above the recalled items: a doubt about them, or "" for none."""
    return "" if gathered.abstain is None else _DOUBTFUL_HEADINGS[gathered.abstain]


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
            yield block.source.decode("latin-1")


def _prepend_text(message: Message, text: str) -> Message:
    if not text:
        return message
    return message.model_copy(update={"blocks": (TextBlock(text=text), *message.blocks)})
