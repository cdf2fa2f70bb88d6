"""Answer of a hook: memories as context for the model. It reads only; ``capture`` writes.

At a prompt, the memories that bear on it are added. At the start of a session a briefing is added: pinned memories, the
newest statements of the project, and after a compaction the last prompts of the session.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from tellback.agent.agent_memory import NOT_SENSITIVE_FILTER
from tellback.agent.assistant.clients.client import HookClient
from tellback.agent.assistant.clients.hook_payload import ClientEvent, HookMoment
from tellback.agent.assistant.clients.project import PROJECT_SCOPE, Project, project_of
from tellback.agent.assistant.clients.registry import hook_client
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.hooks.capture import CHECKPOINT, SHOWN, session_name
from tellback.agent.assistant.hooks.context_block import BRIEFING_HEADING, PROMPT_HEADING, context_block
from tellback.agent.assistant.hooks.hook_call import HookCall, HookReply
from tellback.agent.assistant.hooks.prompt_recall import recall_for_prompt, scores_of
from tellback.agent.context_items import ContextItem, item_from_hit
from tellback.memory import Hit, LongTermMemory, Memory, default_counter
from tellback.memory.internals import StoredMessage, UtteranceKind
from tellback.vectorstore import Filter

_NO_REPLY: Final = HookReply("")
_SESSION_MESSAGES: Final = 200
"""Newest messages of a session that are searched for memories shown already; older ones have left the context."""
_CALLED_AGAIN_WITHIN: Final = timedelta(minutes=1)
_BRIEFING_MEMORIES: Final = 8
_BRIEFING_SCANNED: Final = 100
_BRIEFING_PROMPTS: Final = 5


async def answer_hook(call: HookCall, *, memory: LongTermMemory, settings: AssistantSettings) -> HookReply:
    """Return the reply to *call*, with the memories for its moment. An unknown client raises ``ArgumentError``."""
    client = hook_client(call.client)
    event = client.read_hook(call.event, call.payload, call.folder)
    if event is None:
        return _NO_REPLY
    project = project_of(event.folder)
    if project is not None and project.is_off:
        return _NO_REPLY
    answer = _HookAnswer(memory, settings, client, event, project, call.received)
    before: Sequence[str] = ()
    match event.moment:
        case HookMoment.PROMPT:
            heading, (items, before) = PROMPT_HEADING, await answer.recalled()
        case HookMoment.SESSION_START:
            heading, items = BRIEFING_HEADING, await answer.briefing()
        case _:
            return _NO_REPLY
    block, shown = context_block(items, heading=heading, tokens=settings.hook_tokens, count=default_counter().count)
    output = client.hook_output(call.event, block)
    given = scores_of(shown) if event.moment is HookMoment.PROMPT else {}
    return HookReply(output, shown=tuple(item.id for item in shown), shown_before=tuple(before), given=given)


def project_filter(project: Project | None) -> Filter:
    """Return the filter of the memories that *project* sees: its own, and those without a project."""
    path = f"scope.{PROJECT_SCOPE}"
    general: Filter = {path: {"$exists": False}}
    return general if project is None else {"$or": [general, {path: {"$in": list(project.names)}}]}


class _HookAnswer:
    def __init__(
        self,
        memory: LongTermMemory,
        settings: AssistantSettings,
        client: HookClient,
        event: ClientEvent,
        project: Project | None,
        received: datetime,
    ) -> None:
        self.memory, self.settings, self.event, self.project = memory, settings, event, project
        self.received = received
        self.session = session_name(client.name, event.session)
        hidden = [] if settings.share_sensitive else [NOT_SENSITIVE_FILTER]
        self.where: dict[str, Any] = {"$and": [project_filter(project), *hidden]}

    async def recalled(self) -> tuple[Sequence[ContextItem], Sequence[str]]:
        """Return the memories that bear on the prompt, best first, and the ids of those already in the context."""
        stored = await self._session_messages()
        prompts = [item.message.text for item in stored if item.message.role == "user"]
        found = await recall_for_prompt(
            self.memory, self.event.prompt, earlier=prompts, namespace=self.settings.namespace, where=self.where
        )
        known = _in_context(stored, self.received)
        new = [item for item in found.items if item.id not in known or found.written[item.id] > known[item.id]]
        return new, [item.id for item in found.items if item not in new]

    async def briefing(self) -> Sequence[ContextItem]:
        """Return pinned memories, after a compaction the last prompts, and the newest statements of the project."""
        memory, namespace = self.memory, self.settings.namespace
        names = () if self.project is None else self.project.names
        pinned = [
            item
            for item in await memory.pinned(namespace=namespace)
            if item.scopes.get(PROJECT_SCOPE) in (None, *names)
            and (self.settings.share_sensitive or not item.sensitive)
        ]
        page = await memory.list(
            order="newest",
            limit=_BRIEFING_SCANNED,
            namespace=namespace,
            disabled=False,
            expired=False,
            trust=["user"],
            where=self.where,
        )
        statements = [item for item in page if _is_statement(item) and item.valid_to is None and not item.pinned]
        own = [item for item in statements if item.scopes.get(PROJECT_SCOPE) in names]
        chosen: list[Memory] = [*pinned]
        if self.event.after_compaction:
            prompts = [item for item in page if item.session == self.session and item.role == "user"]
            chosen += prompts[:_BRIEFING_PROMPTS]
        chosen += [*own, *(item for item in statements if item not in own)][:_BRIEFING_MEMORIES]
        unique = {item.id: item for item in chosen}
        return [item_from_hit(Hit(item, 0.0), 0) for item in unique.values()]

    async def _session_messages(self) -> list[StoredMessage]:
        return await self.memory.conversations.load(
            self.session, namespace=self.settings.namespace, limit=_SESSION_MESSAGES
        )


def _is_statement(memory: Memory) -> bool:
    """Return whether *memory* is a statement without a question; a briefing has no questions."""
    return memory.is_evidence and memory.utterance != UtteranceKind.STATING_QUESTION


def _in_context(stored: Sequence[StoredMessage], received: datetime) -> dict[str, datetime]:
    """Return the ids of the memories shown or said in the client's context since a compaction, each with its time.

    Memories shown with an unanswered prompt of the last minute do not count: a client repeats the call of a slow hook,
    as *received* now, and the repeated call must return the same memories.
    """
    times: dict[str, datetime] = {}
    answered = max((index for index, item in enumerate(stored) if item.message.role != "user"), default=-1)
    for index, item in enumerate(stored):
        if item.message.metadata.get(CHECKPOINT):
            times.clear()
            continue
        time = item.message.at
        is_repeated = index > answered and time is not None and time >= received - _CALLED_AGAIN_WITHIN
        shown = None if is_repeated else item.message.metadata.get(SHOWN)
        ids = [id for id in shown if isinstance(id, str)] if isinstance(shown, list) else []
        times.update(dict.fromkeys([*ids, *filter(None, [item.memory])], item.at))
    return times
