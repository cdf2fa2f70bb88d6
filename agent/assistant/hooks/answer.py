"""Answer of a hook: what is known about a prompt, as context for the model. It reads only; ``capture`` writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from agent.assistant.clients.client import HookClient, HookEvent, HookMoment
from agent.assistant.clients.project import PROJECT_SCOPE, Project, project_of
from agent.assistant.clients.registry import hook_client
from agent.assistant.clients.typed_text import split_pasted
from agent.assistant.hooks.context_block import context_block
from agent.assistant.hooks.hook_call import HookCall, HookReply
from agent.context.memory_reader import DEFAULT_RELEVANCE_FLOOR, NOT_SENSITIVE_FILTER, above_floor
from agent.context_items import item_from_hit
from memory import LongTermMemory
from memory.internals import UtteranceKind, classify_utterance, default_counter

_NO_REPLY: Final = HookReply("")
_CONTEXT_TURNS: Final = 3
_QUESTION_CHARACTERS: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """Settings of hooks: the *namespace*, the *tokens* and the number (*k*) of memories added to a prompt.

    *share_sensitive*: memories marked sensitive are shown, too; the model of a client is taken for a remote one.
    """

    namespace: str = ""
    tokens: int = 1_000
    k: int = 8
    share_sensitive: bool = False


async def answer_hook(call: HookCall, *, memory: LongTermMemory, settings: HookSettings) -> HookReply:
    """Return the reply to *call*: what *memory* knows of the prompt. An unknown client raises ``ArgumentError``."""
    client = hook_client(call.client)
    event = client.read_hook(call.event, call.payload, call.folder)
    if event is None:
        return _NO_REPLY
    if event.moment is HookMoment.PROMPT:
        return await _answer_prompt(client, event, call, memory, settings)
    return _NO_REPLY


def session_name(client: HookClient, session: str) -> str:
    """Return the name of a client's *session* in the history of conversations."""
    return f"{client.name}:{session}"


def project_filter(project: Project | None) -> dict[str, Any] | None:
    """Return the filter of the memories that *project* sees: its own, and those without a project."""
    path = f"scope.{PROJECT_SCOPE}"
    names = [] if project is None else list(project.names)
    return {"$or": [{path: {"$exists": False}}, {path: {"$in": names}}]} if names else {path: {"$exists": False}}


async def _answer_prompt(
    client: HookClient, event: HookEvent, call: HookCall, memory: LongTermMemory, settings: HookSettings
) -> HookReply:
    words = split_pasted(event.prompt)
    question = (words.own or words.pasted)[:_QUESTION_CHARACTERS]
    project = project_of(event.folder)
    if not question or (project is not None and project.is_off):
        return _NO_REPLY
    if classify_utterance(question).kind is UtteranceKind.SMALL_TALK:
        return _NO_REPLY
    session = session_name(client, event.session)
    earlier = await memory.conversations.load(
        session, namespace=settings.namespace, limit=_CONTEXT_TURNS, roles=["user"]
    )
    where: dict[str, Any] | None = project_filter(project)
    if not settings.share_sensitive:
        where = NOT_SENSITIVE_FILTER if where is None else {"$and": [where, NOT_SENSITIVE_FILTER]}
    found = await memory.recall(
        question,
        settings.k,
        context=[stored.message.text for stored in earlier],
        namespace=settings.namespace,
        where=where,
    )
    items, _ = above_floor(
        [item_from_hit(hit, 0) for hit in found], found, share=DEFAULT_RELEVANCE_FLOOR, searched=found.searched
    )
    block, shown = context_block(items, tokens=settings.tokens, count=default_counter().count)
    return HookReply(client.hook_output(call.event, block), shown=tuple(item.id for item in shown))
