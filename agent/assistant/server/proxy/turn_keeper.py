"""Keeper of the turns that pass: the user's words and the answer, after the reply, each once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from tellback.agent.assistant.clients.transcript import TranscriptEntry
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.hooks.capture import Capture
from tellback.agent.assistant.hooks.prompt_recall import scores_of
from tellback.agent.context_items import ContextItem
from tellback.memory import LongTermMemory

BROKEN_OFF: Final = "… (the reply broke off here)"
_TURNS: Final = 1_000
_SECONDS: Final = 3_600.0
"""Time in which a client asks again for the same turn: with the result of a tool, or for another answer."""
_SECONDS_TO_SETTLE: Final = 2.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Turn:
    """Turn of a conversation: what its *hash* stands for was said in *session* of *client* in *namespace*.

    *block*, with *items* of these *revisions* (by id), was added to the *prompt*. *kept*: the user's words are.
    """

    client: str
    namespace: str
    session: str
    hash: str
    prompt: str
    at: datetime
    block: str = ""
    items: tuple[ContextItem, ...] = ()
    revisions: Mapping[str, int] = field(default_factory=dict)
    kept: bool = False

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Key by which it is known again."""
        return self.client, self.namespace, self.session, self.hash


class TurnKeeper:
    """Keeps turns in tasks of their own, which the end of a connection does not break off; ``finish`` awaits them."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str, str, str], tuple[Turn, float]] = OrderedDict()
        self._tasks: dict[asyncio.Task[None], str] = {}

    def known(self, turn: Turn) -> Turn | None:
        """Return *turn* as it was seen within the last hour, None where it was not."""
        seen = self._known.get(turn.key)
        return seen[0] if seen is not None and time.monotonic() - seen[1] < _SECONDS else None

    def note(self, turn: Turn) -> None:
        """Note what was added to *turn*, and whether its words are kept."""
        self._known.pop(turn.key, None)
        self._known[turn.key] = turn, time.monotonic()
        while len(self._known) > _TURNS:
            self._known.popitem(last=False)

    def keep(
        self, memory: LongTermMemory, settings: AssistantSettings, turn: Turn, answer: str, *, complete: bool
    ) -> asyncio.Task[None]:
        """Begin to keep the words of *turn*, unless they are kept already, and its *answer* ("": none to be kept).

        An answer that is not *complete* says so itself.
        """
        if answer and not complete:
            answer = f"{answer} {BROKEN_OFF}"
        said = "" if turn.kept else turn.prompt
        self.note(replace(turn, kept=True))
        task = asyncio.ensure_future(_keep(memory, settings, turn, said, answer))
        self._tasks[task] = turn.namespace
        task.add_done_callback(self._tasks.pop)
        return task

    async def settle(self, namespace: str) -> None:
        """Wait, for two seconds at most, for what is being kept in *namespace*: the next prompt may ask for it."""
        if tasks := [task for task, owner in self._tasks.items() if owner == namespace]:
            await asyncio.wait(tasks, timeout=_SECONDS_TO_SETTLE)

    async def finish(self) -> None:
        """Wait for what is being kept."""
        while self._tasks:
            await asyncio.wait(self._tasks)


async def _keep(memory: LongTermMemory, settings: AssistantSettings, turn: Turn, said: str, answer: str) -> None:
    now = datetime.now(UTC)
    entries = [TranscriptEntry("user", said, turn.session, turn.at)] if said else []
    entries += [TranscriptEntry("assistant", answer, turn.session, now)] if answer else []
    capture = Capture(memory, turn.client, settings)
    try:
        if said:
            await capture.log_given(entries[0], scores_of(turn.items))
        await capture.keep_turn(entries, shown=[item.id for item in turn.items])
    except Exception as error:  # nobody waits for it; the next turn is kept on its own
        _log.error("a turn could not be kept (%s)", type(error).__name__)
