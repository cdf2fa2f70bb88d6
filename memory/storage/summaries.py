"""A summary of the older part of a session, kept beside its messages; never instead of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from memory.errors import ArgumentError
from memory.storage.serialise import check_name, check_sequences


@dataclass(frozen=True, slots=True)
class Summary:
    """What the session's messages up to the number *through* say, in *text*; made of *messages* of them.

    *name* tells the summaries of one maker from those of another; *at* is when it was kept, given by the storage.
    """

    name: str
    text: str
    through: int
    messages: int
    at: datetime | None = None


@runtime_checkable
class SummaryStorage(Protocol):
    """Summaries by session and name, within a namespace; a history that can keep them.

    A summary lasts as long as the messages it was made of: when one of those is deleted, replaced, cleared or
    forgotten, the session's summaries that reach as far go in the same transaction. (What leaves a history by its
    ``Retention`` is still summed up: that is not forgetting; but a session that is over loses its summaries.)
    """

    async def summary(self, session: str, name: str, *, namespace: str = "") -> Summary | None:
        """Return the summary of that name, if there is one."""
        ...

    async def keep_summary(
        self,
        session: str,
        summary: Summary,
        *,
        before: Summary | None,
        made_of: Sequence[int],
        namespace: str = "",
    ) -> bool:
        """Keep *summary*, which continues *before* by the messages numbered *made_of*; say whether it was kept.

        It is not, and nothing changes, where *before* is not the summary that is there, or one of those messages
        is not: it may then hold what was just forgotten, and must not be used.
        """
        ...


def check_summary(summary: object, before: Summary | None, made_of: Sequence[int]) -> tuple[Summary, list[int]]:
    """Return *summary* and *made_of* if they fit each other and *before*."""
    if not isinstance(summary, Summary):
        raise ArgumentError("summary", summary, "a Summary is needed")
    check_name(summary.name, "summary.name")
    if not isinstance(summary.text, str) or not summary.text.strip():
        raise ArgumentError("summary.text", summary.text, "a text that is not blank is needed")
    try:
        summary.text.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError("summary.text", summary.text, "must not contain lone surrogates") from error
    for name in ("through", "messages"):
        value = getattr(summary, name)
        if type(value) is not int or value < 1:
            raise ArgumentError(f"summary.{name}", value, "a whole number of at least 1 is needed")
    if before is not None and not isinstance(before, Summary):
        raise ArgumentError("before", before, "the Summary that was there is needed, or None where there was none")
    numbers = check_sequences(made_of, "made_of")
    earlier = 0 if before is None else before.through
    if before is not None and before.name != summary.name:
        raise ArgumentError("before", before, "must have the name of the summary that continues it")
    if not numbers or min(numbers) <= earlier or max(numbers) != summary.through:
        expected = f"the numbers of messages after {earlier}, the last of them {summary.through}, are needed"
        raise ArgumentError("made_of", numbers, expected)
    return summary, numbers


def same(found: Summary | None, before: Summary | None) -> bool:
    """Whether *found* is the summary that was read as *before*."""
    if found is None or before is None:
        return found is before
    return (found.through, found.messages, found.text) == (before.through, before.messages, before.text)
