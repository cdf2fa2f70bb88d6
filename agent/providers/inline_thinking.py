"""Splitter of reasoning that a model writes into its answer, between tags such as ``<think>`` and ``</think>``.

Servers that do not parse a model's format pass its tags on. Reasoning stands at the beginning of a reply; a tag later
on, in a sentence or in code, is a word of the answer. Where the model's template has written the opening tag into the
prompt, the closing one comes alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tellback.agent.providers.base import Delta, TextPiece, TextWasThinking, ThinkingPiece

_CLOSING_TAGS: Final = {
    "<think>": "</think>",  # DeepSeek, Qwen and most others
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",  # Gemma
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",  # Magistral
    "◁think▷": "◁/think▷",  # Kimi-VL
}
_CLOSINGS: Final = tuple(_CLOSING_TAGS.values())
_LONGEST: Final = max(map(len, _CLOSINGS))
_MOST_MENTIONS: Final = 20
"""Closing tags in a text after which it counts as an answer about tags, whatever follows."""
_FENCE: Final = re.compile(r"^ {0,3}(?:```|~~~)", re.MULTILINE)
_QUOTING: Final = "`'\"\u2018\u201c«([{"
_FOLLOWING: Final = "`'\u2019\u201d»)].,;"


class InlineThinkingSplitter:
    """Splits the text of one reply, fed in pieces that may be cut anywhere.

    *opened*: the model is known to begin within its reasoning. After the reply, ``opened`` is whether it did.
    """

    def __init__(self, *, opened: bool = False) -> None:
        self.opened = opened
        self._closings = _CLOSINGS if opened else ()
        """Tags that end the reasoning that is being read; none in the answer."""
        self._deciding = True
        self._watches = True
        self._after_tag = False
        """Blank lines between the tag that ended the reasoning and the answer belong to neither."""
        self._assumed = opened
        self._pending = ""
        self._passed: list[str] = []
        self._mentions = 0

    def feed(self, text: str) -> Iterator[Delta]:
        """Yield the deltas that are certain after *text*."""
        self._pending += text
        while self._pending and (step := self._step(last=False)) is not None:
            yield from step

    def flush(self) -> Iterator[Delta]:
        """Yield all pending text, before another kind of delta follows."""
        while self._pending and (step := self._step(last=True)) is not None:
            yield from step

    def finish(self, *, cut: bool) -> Iterator[Delta]:
        """Yield the rest of a reply that has ended, or was *cut* off."""
        yield from self.flush()
        if self._assumed and not cut:  # no end came, so that all of it was the answer
            self.opened = False
            if text := "".join(self._passed).strip():
                yield TextPiece(text)

    def reasoning_is_separate(self) -> None:
        """Note that the server sends reasoning separately: only a leftover closing tag is still taken out."""
        self._watches = self._assumed = self.opened = False
        self._closings = ()

    def _step(self, *, last: bool) -> list[Delta] | None:
        """Return the deltas of the next part of the pending text; None where more of it is needed."""
        if self._deciding:
            return self._begin(last=last)
        return self._think(last=last) if self._closings else self._answer(last=last)

    def _begin(self, *, last: bool) -> list[Delta] | None:
        """Decide whether reasoning or the answer begins here."""
        start = self._pending.lstrip()
        for opening, closing in _CLOSING_TAGS.items():
            if start.startswith(opening):
                self._pending, self._closings = start[len(opening) :], (closing,)
                self._deciding = self._assumed = self.opened = False
                return []
            if start.startswith(closing):
                self._pending, self._closings = start[len(closing) :], ()
                self._watches = self._assumed = False
                self._after_tag = True
                return []
        if not last and any(tag.startswith(start) for tag in (*_CLOSING_TAGS, *_CLOSINGS)):
            return None
        if self._after_tag:
            self._pending = start
        self._deciding = False
        return []

    def _think(self, *, last: bool) -> list[Delta] | None:
        first_tag = min(
            ((place, tag) for tag in self._closings if (place := self._pending.find(tag)) >= 0), default=None
        )
        if first_tag is None:
            kept = "" if last else _unfinished_tag(self._pending, self._closings)
            thought = self._pending[: len(self._pending) - len(kept)]
            thought = thought if last else thought.rstrip()  # space before the end is no part of it
            self._pending = self._pending[len(thought) :]
            return self._thought(thought) or None
        place, tag = first_tag
        thought, self._pending = self._pending[:place].rstrip(), self._pending[place + len(tag) :]
        self._deciding, self._watches, self._assumed, self._closings = True, False, False, ()
        self._after_tag = True
        return self._thought(thought)

    def _thought(self, text: str) -> list[Delta]:
        text = text if self._passed else text.lstrip()
        if not text:
            return []
        self._passed.append(text)
        return [ThinkingPiece(text)]

    def _answer(self, *, last: bool) -> list[Delta] | None:
        """Pass the answer on, unless a closing tag shows that it was reasoning."""
        if not self._watches:
            text, self._pending = self._pending, ""
            return [TextPiece(text)]
        first_tag = min(((place, tag) for tag in _CLOSINGS if (place := self._pending.find(tag)) >= 0), default=None)
        if first_tag is None:
            kept = "" if last else _unfinished_tag(self._pending, _CLOSINGS)
            text = self._pending[: len(self._pending) - len(kept)]
            self._pending = kept
        else:
            place, tag = first_tag
            before, after = self._pending[:place], self._pending[place + len(tag) :]
            if not after and not last:
                return None
            if _ends_reasoning("".join(self._passed) + before, after):
                self._pending, self._deciding, self._watches, self.opened = after, True, False, True
                self._after_tag = True
                return [*([TextPiece(before)] if before else []), TextWasThinking()]
            text, self._pending = before + tag, after
            self._mentions += 1
            self._watches = self._mentions < _MOST_MENTIONS
        self._passed.append(text)
        return [TextPiece(text)] if text else None


def _unfinished_tag(text: str, tags: tuple[str, ...]) -> str:
    """Return the end of *text* that may be the beginning of one of *tags*."""
    for length in range(min(len(text), _LONGEST - 1), 0, -1):
        if any(tag.startswith(text[-length:]) for tag in tags):
            return text[-length:]
    return ""


def _ends_reasoning(before: str, after: str) -> bool:
    """Return whether a closing tag between *before* and *after* ends reasoning without an opening tag, rather than
    being a word of a text about tags."""
    line = before.rpartition("\n")[2]
    spoken_of = line.strip() and (line[-1].isspace() or line[-1] in _QUOTING or line.count("`") % 2)
    if spoken_of or after.startswith(tuple(_FOLLOWING)) or any(tag in before for tag in _CLOSING_TAGS):
        return False
    return len(_FENCE.findall(before)) % 2 == 0
