"""Guardrails: prompts refused before anything is read or kept, for their length, a likely injection or personal data.

The checks are examples of a policy: patterns, which find the obvious cases and no more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from tellback.agent.errors import ArgumentError, RequestRefused, check_count
from tellback.agent.middleware.base import RunMiddleware
from tellback.agent.tools.base import ToolContext
from tellback.memory import Message
from tellback.memory.internals import has_luhn_checksum

PromptCheck: TypeAlias = Callable[[str], str | None]
"""Function of a prompt that returns the reason to refuse it, in words for the user, or None."""

_INJECTION = re.compile(
    r"(?:ignore|disregard|forget)\s+(?:all\s+|any\s+)?(?:previous|prior|above|earlier|your)\s+"
    r"(?:instructions|rules|prompts?)|<\|(?:im_start|im_end|system|eot_id)\|?>|\[/?INST\]|reveal\s+your\s+system\s+prompt",
    re.IGNORECASE,
)
_EMAIL_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_CARD_NUMBER = re.compile(r"\d(?:[ -]?\d){12,18}")


class PromptGuardrail(RunMiddleware):
    """Refuses a run whose prompt, the words of the user alone, any of *checks* objects to."""

    def __init__(self, *checks: PromptCheck) -> None:
        if not checks or not all(callable(check) for check in checks):
            raise ArgumentError("checks", checks, "at least one check is needed")
        self._checks = checks

    async def before(self, prompt: Message, context: ToolContext) -> Message:
        """Return *prompt*; raise ``RequestRefused`` where a check objects."""
        for check in self._checks:
            if reason := check(prompt.text):
                raise RequestRefused(reason)
        return prompt


def length_check(characters: int) -> PromptCheck:
    """Refuse prompts above a number of characters."""
    check_count("characters", characters)

    def check(text: str) -> str | None:
        return f"Please keep it to {characters} characters at most." if len(text) > characters else None

    return check


def injection_check(text: str) -> str | None:
    """Refuse prompts that order a model to forget its rules, or imitate its format."""
    return "I cannot set my instructions aside." if _INJECTION.search(text) else None


def personal_data_check(text: str) -> str | None:
    """Refuse prompts with a mail address or the number of a payment card."""
    if _EMAIL_ADDRESS.search(text):
        return "Please leave mail addresses out."
    numbers = (re.sub(r"\D", "", number) for number in _CARD_NUMBER.findall(text))
    return "Please leave card numbers out." if any(map(has_luhn_checksum, numbers)) else None
