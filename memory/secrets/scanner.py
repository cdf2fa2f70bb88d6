"""The scanner for secrets: their spans in a text, and the text with each of them redacted.

``redact_secrets("my PIN is 4821, please")`` returns ``('my PIN is [redacted: PIN], please', 1)``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from memory.secrets.patterns import SECRET_KINDS, SecretKind
from vectorstore.value_class import dataclass

REDACTION_OPENING: Final = "[redacted: "
_QUOTES: Final = "\"'`"
_CLOSING_SIGNS: Final = ",;.)]}>"


@dataclass(frozen=True, slots=True)
class SecretSpan:
    """Position of a secret of *kind* in a text, from *start* to *end* (characters); never the secret itself."""

    kind: str
    start: int
    end: int


def find_secrets(text: str, kinds: Sequence[SecretKind] = SECRET_KINDS) -> tuple[SecretSpan, ...]:
    """Return where secrets stand in *text*, in order; those that overlap are one, named by the first of *kinds*."""
    lowered = text.lower()
    spans: list[tuple[int, int, int]] = []
    for rank, kind in enumerate(kinds) if text else ():
        for hint in kind.hints:  # a loop of its own, since most texts end here for most kinds
            if hint in lowered:
                break
        else:
            if kind.hints:
                continue
        pattern = kind.compiled
        group = "secret" if "secret" in pattern.groupindex else 0
        for match in pattern.finditer(text):
            if kind.check is None or kind.check(match[group]):
                spans.append((*_secret_bounds(match, group), rank))
    return tuple(SecretSpan(kinds[rank].name, start, end) for start, end, rank in _merge_overlapping(spans))


def redact_secrets(text: str, kinds: Sequence[SecretKind] = SECRET_KINDS) -> tuple[str, int]:
    """Return *text* with each secret replaced by a mark that names its kind, and how many there were."""
    spans = find_secrets(text, kinds)
    return redact_spans(text, spans), len(spans)


def redact_spans(text: str, spans: Sequence[SecretSpan]) -> str:
    """Return *text* with a mark in the place of each of *spans*, which are in order."""
    for span in reversed(spans):
        text = f"{text[: span.start]}{redaction_mark(span.kind)}{text[span.end :]}"
    return text


def redaction_mark(kind: str) -> str:
    """Return the mark that stands in the place of a secret of this *kind*."""
    return f"{REDACTION_OPENING}{kind}]"


def _secret_bounds(match: re.Match[str], group: str | int) -> tuple[int, int]:
    """Return where the secret itself stands: without the quotes around it and the signs after it."""
    start, end = match.span(group)
    if group:
        words = match[group]
        start += len(words) - len(words.lstrip(_QUOTES))
        end -= len(words) - len(words.rstrip(_QUOTES + _CLOSING_SIGNS))
    return start, end


def _merge_overlapping(found: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    joined: list[tuple[int, int, int]] = []
    for start, end, rank in sorted(found):
        if joined and start < joined[-1][1]:
            before = joined[-1]
            joined[-1] = (before[0], max(before[1], end), min(before[2], rank))
        else:
            joined.append((start, end, rank))
    return joined
