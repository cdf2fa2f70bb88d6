"""Guardrails: prompts refused before a model is asked, for their length, a likely injection or personal data.

The checks are examples of a policy: patterns, which find the obvious cases and no more.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

from agent.errors import ArgumentError, Refused
from agent.middleware.base import Stream
from agent.providers.accumulator import closing
from agent.providers.base import Delta, Request
from agent.tools.base import ToolContext
from memory import luhn

Check: TypeAlias = Callable[[str], str | None]
"""Returns why a prompt is refused, in words for the user; None where it is not."""

_INJECTIONS = re.compile(
    r"(?:ignore|disregard|forget)\s+(?:all\s+|any\s+)?(?:previous|prior|above|earlier|your)\s+"
    r"(?:instructions|rules|prompts?)|<\|(?:im_start|im_end|system|eot_id)\|?>|\[/?INST\]|reveal\s+your\s+system\s+prompt",
    re.IGNORECASE,
)
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_DIGITS = re.compile(r"\d(?:[ -]?\d){12,18}")


class Refusing:
    """Refuses a run whose prompt, the words of the user alone, any of *checks* objects to."""

    def __init__(self, *checks: Check) -> None:
        if not checks or not all(callable(check) for check in checks):
            raise ArgumentError("checks", checks, "at least one check is needed")
        self._checks = checks

    async def __call__(self, request: Request, context: ToolContext, proceed: Stream) -> AsyncGenerator[Delta, None]:
        """As the protocol says."""
        for check in self._checks:
            if reason := check(request.question):
                raise Refused(reason)
        async with closing(proceed(request)) as reply:
            async for delta in reply:
                yield delta


def too_long(characters: int) -> Check:
    """Refuse prompts above a number of characters."""
    if type(characters) is not int or characters < 1:
        raise ArgumentError("characters", characters, "at least 1 is needed")

    def check(text: str) -> str | None:
        return f"Please keep it below {characters} characters." if len(text) > characters else None

    return check


def injection(text: str) -> str | None:
    """Refuse prompts that order a model to forget its rules, or imitate its format."""
    return "I cannot set my instructions aside." if _INJECTIONS.search(text) else None


def personal_data(text: str) -> str | None:
    """Refuse prompts with a mail address or the number of a payment card."""
    if _MAIL.search(text):
        return "Please leave mail addresses out."
    numbers = (re.sub(r"\D", "", found) for found in _DIGITS.findall(text))
    return "Please leave card numbers out." if any(map(luhn, numbers)) else None
