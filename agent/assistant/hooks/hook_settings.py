"""Settings of hooks: what they add to a prompt, and what they keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tellback.agent.assistant.clients.hook_payload import HookMoment
from tellback.agent.assistant.config import AssistantSettings

HOOK_SECONDS: Final[Mapping[HookMoment, int]] = {
    HookMoment.SESSION_START: 10,
    HookMoment.PROMPT: 10,
    HookMoment.TURN_END: 20,
    HookMoment.COMPACTION: 20,
}
"""Seconds after which a client goes on without a hook, as it is registered: nobody waits for the end of a turn."""
KeptWords: TypeAlias = Literal["all", "prompts", "nothing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSettings:
    """Settings of hooks: the *namespace*, the *tokens* and the number (*k*) of memories added to a prompt.

    *keep*: prompts and answers ("all"), the user's prompts alone, or nothing. *share_sensitive*: memories marked
    sensitive are shown, too; the model of a client counts as remote.
    """

    namespace: str = ""
    tokens: int = 600
    k: int = 8
    keep: KeptWords = "all"
    share_sensitive: bool = False

    @classmethod
    def of(cls, settings: AssistantSettings) -> HookSettings:
        """Return the settings of hooks among those of the assistant."""
        return cls(
            namespace=settings.namespace,
            tokens=settings.hook_tokens,
            keep=settings.hook_keep,
            share_sensitive=settings.share_sensitive,
        )
