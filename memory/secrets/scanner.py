"""The scanner for secrets: their spans in a text, and the text with each of them redacted.

``redact_secrets("my PIN is 4821, please")`` returns ``('my PIN is [redacted: PIN], please', 1)``.
"""

from __future__ import annotations

import re
import string
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from tellback.memory.secrets.checks import count_kind_changes
from tellback.memory.secrets.patterns import SECRET_KINDS, SecretKind

REDACTION_OPENING: Final = "[redacted: "
_QUOTES: Final = "\"'`"
_CLOSING_SIGNS: Final = ",;.)]}>"
_TOKEN_CHARACTERS: Final = f"{string.ascii_letters}{string.digits}+/=_-"
_PART_CHANGES: Final = 3
_RUN: Final = re.compile(r"[A-Za-z0-9+/=_\-]{8,}")


@dataclass(frozen=True, slots=True)
class SecretSpan:
    """Position of a secret of *kind* in a text, from *start* to *end* (characters); never the secret itself."""

    kind: str
    start: int
    end: int


def find_secrets(text: str, kinds: Sequence[SecretKind] = SECRET_KINDS) -> tuple[SecretSpan, ...]:
    """Return where secrets stand in *text*, in order; those that overlap are one, named by the first of *kinds*."""
    spans = _found(text, kinds)
    if breaks := _token_breaks(text, {end for _, end, _ in spans}):
        spans += _found_across(text, breaks, kinds)
    return tuple(SecretSpan(kinds[rank].name, start, end) for start, end, rank in _merge_overlapping(spans))


def _found(text: str, kinds: Sequence[SecretKind]) -> list[tuple[int, int, int]]:
    """Return start and end of each secret of *text*, and the place of its kind among *kinds*."""
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
    return spans


def _token_breaks(text: str, found_ends: Collection[int]) -> list[tuple[int, int]]:
    """Return the line breaks of *text*, with the blanks around them, at which a terminal or a mail may cut a token.

    Both sides look drawn at random, as hardly any prose does. Where a secret was found up to the break, the line below
    is nothing but the rest: else it would be one of its own.
    """
    breaks, position, cut, before = [], 0, 0, ""
    for line in text.split("\n") if "\n" in text else ():
        first, last = line.split(None, 1), line.rsplit(None, 1)[-1:]
        parts = bool(first) and _is_part(before) and _is_part(first[0].rstrip(_QUOTES + _CLOSING_SIGNS))
        if parts and (cut not in found_ends or len(first) == 1):
            breaks.append((cut, position + line.index(first[0])))
        before = last[0][len(last[0].rstrip(_TOKEN_CHARACTERS)) :] if last else ""
        cut = position + len(line.rstrip())
        position += len(line) + 1
    return breaks


def _is_part(word: str) -> bool:
    return _RUN.fullmatch(word) is not None and count_kind_changes(word) >= _PART_CHANGES


def _found_across(
    text: str, breaks: Sequence[tuple[int, int]], kinds: Sequence[SecretKind]
) -> list[tuple[int, int, int]]:
    """Return the secrets of *text* that one of *breaks* cuts, as ``_found`` does."""
    pieces = list(pairwise((0, *(edge for cut in breaks for edge in cut), len(text))))[::2]
    offsets = [0, *accumulate(end - start for start, end in pieces)]  # of each piece in the joined text
    spans = []
    for start, end, rank in _found("".join(text[slice(*piece)] for piece in pieces), kinds):
        first, last = bisect_right(offsets, start) - 1, bisect_left(offsets, end) - 1
        if first != last:
            spans.append((pieces[first][0] + start - offsets[first], pieces[last][0] + end - offsets[last], rank))
    return spans


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
