"""Earlier prompts for the arrow keys and Ctrl-R: those of this run, and those of the memory's own conversations.

There is no file beside the memory: a prompt that was forgotten is gone from here too, and a secret that was redacted
does not come back. A prompt with a secret is not kept for this run either.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Final

from prompt_toolkit.history import History

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory

_SESSIONS: Final = 30
_PROMPTS_A_SESSION: Final = 100


class PromptHistory(History):
    """Prompts, newest first; *opened* None: only those of this run."""

    def __init__(self, opened: OpenedMemory | None) -> None:
        super().__init__()
        self._opened = opened
        self._typed: list[str] = []

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield the prompts as they are kept now, without those forgotten since."""
        for prompt in reversed(self._typed):
            yield prompt
        typed = set(self._typed)
        for prompt in await self._kept():
            if prompt not in typed:
                yield prompt

    def append_string(self, string: str) -> None:
        """Keep what was just typed, unless it holds a secret."""
        from tellback.memory.internals import find_secrets

        if string.strip() and not find_secrets(string):
            self._typed = [prompt for prompt in self._typed if prompt != string] + [string]

    def forget_typed(self) -> None:
        """Drop the prompts of this run: a memory was forgotten, and a prompt may hold its words."""
        self._typed.clear()

    def load_history_strings(self) -> Iterable[str]:
        """Return nothing: ``load`` reads the memory itself."""
        return ()

    def store_string(self, string: str) -> None:
        """Store nothing: the memory keeps the turn."""

    async def _kept(self) -> list[str]:
        """Return the user's prompts of the last conversations, newest first, without those of other clients."""
        from tellback.memory.internals import ORIGIN, REDACTION_OPENING

        if self._opened is None:
            return []
        history, namespace = self._opened.memory.conversations, self._opened.namespace
        prompts: dict[str, None] = {}
        for info in await history.sessions(namespace=namespace, limit=_SESSIONS):
            stored = await history.load(info.session, namespace=namespace, limit=_PROMPTS_A_SESSION, roles=["user"])
            for kept in reversed(stored):
                text = kept.message.text.strip()
                if text and REDACTION_OPENING not in text and ORIGIN not in kept.message.metadata:
                    prompts.setdefault(text)
        return list(prompts)
