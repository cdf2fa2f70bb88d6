"""Worker beside a chat: the model is asked for the facts of turns, and for lines that say what memories are about.

It works in a thread of its own, so that the chat does not wait, and writes lines only while no turn is answered. The
lines that a chat leaves are written beside the next one, with those of hooks and imports.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias

from tellback.agent.assistant.conversation.facts import KeptFacts, keep_facts
from tellback.agent.assistant.line_process import allowed_tokens, note_tokens
from tellback.agent.assistant.wiring import (
    make_http_client,
    make_line_writer,
    make_model_settings,
    make_provider,
    user_zone,
    writes_lines,
)
from tellback.agent.configuration import AgentSettings
from tellback.agent.context.line_writer import LineProgress

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory

_TOKENS_AFTER_A_TURN: Final = 20_000
"""Tokens for lines after one turn: what an import brought is described in the course of several."""


@dataclass(frozen=True, slots=True)
class LinesFailed:
    """Lines are written no more, since the model or the disk failed: *problem*."""

    problem: str


Announcement: TypeAlias = KeptFacts | LineProgress | LinesFailed


@dataclass(frozen=True, slots=True)
class _Running:
    """Work under way in the *loop* of the worker's thread, which *drops_for_turns* or goes on beside them."""

    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[None]
    drops_for_turns: bool

    def cancel(self) -> None:
        """Cancel the work; any thread may call."""
        with suppress(RuntimeError):  # the loop has just ended
            self.loop.call_soon_threadsafe(self.task.cancel)


class BackgroundWorker:
    """Works on one turn after the other; *announce* gets what came of it, in the worker's thread."""

    def __init__(self, announce: Callable[[Announcement], None]) -> None:
        self._announce = announce
        self._jobs: SimpleQueue[tuple[OpenedMemory, str | None] | None] = SimpleQueue()
        self._submitted = 0  # written by the submitting thread alone
        self._done = 0  # written by the worker's thread alone
        self._running: _Running | None = None
        self._paused = False
        self._gave_up = False
        self._closing = False
        self._thread: threading.Thread | None = None

    def submit(self, opened: OpenedMemory, turn: str | None) -> None:
        """Queue the facts of the memory with the id *turn* (None: no facts), and then lines for what has none."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="tellback-background", daemon=True)
            self._thread.start()
        self._submitted += turn is not None
        self._paused = False
        self._jobs.put((opened, turn))

    def pause(self) -> None:
        """Write no lines until the next turn is submitted; the call to the model that is under way is dropped."""
        self._paused = True
        if (running := self._running) is not None and running.drops_for_turns:
            running.cancel()

    @property
    def is_busy(self) -> bool:
        """Return whether facts of a turn are waited for."""
        return self._done < self._submitted

    def close(self, *, patience: float) -> bool:
        """Finish the waiting turns within *patience* seconds, drop the rest; return whether all facts were found."""
        if self._thread is None:
            return True
        self._jobs.put(None)
        self._thread.join(patience)
        self._closing = True
        if (running := self._running) is not None:
            running.cancel()
        self._thread.join()
        return not self.is_busy

    def _work(self) -> None:
        while not self._closing and (job := self._jobs.get()) is not None:
            opened, turn = job
            if turn is not None:
                self._run(self._keep(opened, turn), drops_for_turns=False)
            if writes_lines(opened.settings) and not self._gave_up:
                self._run(self._write(opened), drops_for_turns=True)

    def _run(self, work: Coroutine[None, None, None], *, drops_for_turns: bool) -> None:
        async def run() -> None:
            task = asyncio.current_task()
            assert task is not None
            self._running = _Running(asyncio.get_running_loop(), task, drops_for_turns)
            await work

        with suppress(asyncio.CancelledError):
            asyncio.run(run())
        self._running = None

    async def _keep(self, opened: OpenedMemory, id: str) -> None:
        """Keep the facts of the turn *id*; a failing model or disk is announced, and the chat goes on."""
        if self._closing:
            return
        try:
            kept = await _facts_of_turn(opened, id)
        except Exception as error:
            kept = KeptFacts(problem=str(error))
        self._done += 1
        self._announce(kept)

    async def _write(self, opened: OpenedMemory) -> None:
        """Write lines until a turn waits; a failure is announced, and none are written any more."""
        if self._closing or self._paused:
            return
        client, progress = make_http_client(opened.settings), LineProgress()
        try:
            writer = make_line_writer(opened.settings, client)
            allowed = allowed_tokens(opened.settings)
            most = _TOKENS_AFTER_A_TURN if allowed is None else min(_TOKENS_AFTER_A_TURN, allowed)
            if not most:
                return
            written = writer.write(opened.memory, namespace=opened.namespace, most_tokens=most)
            async for step in written:
                note_tokens(opened.settings, step.tokens - progress.tokens)
                progress = step
                if self._paused or not self._jobs.empty():
                    break
        except Exception as error:
            self._gave_up = True
            self._announce(LinesFailed(str(error)))
        finally:
            if progress.written:
                self._announce(progress)
            await client.aclose()


async def _facts_of_turn(opened: OpenedMemory, id: str) -> KeptFacts:
    settings = opened.settings
    async with make_http_client(settings) as client:
        (turn,) = await opened.memory.get([id], namespace=opened.namespace)
        if turn is None:  # forgotten meanwhile
            return KeptFacts()
        return await keep_facts(
            make_provider(settings, client),
            opened.memory,
            turn,
            AgentSettings(
                model_settings=make_model_settings(settings), user=settings.name or "", zone=user_zone(settings)
            ),
            namespace=opened.namespace,
            share_sensitive=settings.share_sensitive,
        )
