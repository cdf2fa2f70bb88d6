"""Verbatim match: entries and messages that hold forgotten texts word for word.

A text of fewer than eight letters must stand as a word of its own: forgetting "ok" does not take "book". Runs of blanks
and line breaks count as one blank: the same words may be the lines of one message and the blocks of another.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from tellback.memory.history.codec import texts_in_json
from tellback.memory.messages import (
    DocumentBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from tellback.vectorstore import Entry


def message_texts(message: Message) -> Iterator[str]:
    """Yield every text of *message* that somebody wrote: blocks, arguments, metadata; not names and dates.

    Text blocks are one text together, and so are thinking blocks and tool results: joined with a blank, and without
    one, since a provider may end a block within a word.
    """
    yield from texts_in_json(message.metadata)
    text_blocks: list[str] = []
    thinking_blocks: list[str] = []
    results: list[str] = []
    for block in message.blocks:
        for part in block.content if isinstance(block, ToolResultBlock) else (block,):
            if isinstance(part, TextBlock):
                (text_blocks if part is block else results).append(part.text)
            elif isinstance(part, ThinkingBlock):
                thinking_blocks.append(part.text)
            elif isinstance(part, ImageBlock):
                yield from (part.name, part.caption)
            elif isinstance(part, DocumentBlock):
                yield part.name
                if part.media_type == "text/plain":
                    wide = part.data.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
                    yield part.data.decode("utf-16" if wide else "utf-8", errors="replace")
            elif isinstance(part, OpaqueBlock):
                yield from texts_in_json(part.data)
            else:
                yield from texts_in_json(part.arguments)
                yield part.invalid or ""
    for texts in (text_blocks, thinking_blocks, results):
        yield from dict.fromkeys((" ".join(texts), "".join(texts)))


_MIN_PREFIX: Final = 8
_MAX_SEPARATE_SEARCHES: Final = 24
_MAX_POSITIONS: Final = 100
_FREE_TEXT_FIELDS: Final = ("title", "heading", "tags", "about")


class VerbatimTexts:
    """A set of texts to search for. A content is read once, however many texts there are."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = frozenset(text for text in texts if text)
        self._normalized = frozenset(normal for text in self.texts if (normal := _normalize_spaces(text)))
        self._short: dict[int, set[str]] = {}
        """Texts too short for the index, by length."""
        self._index: dict[str, list[tuple[int, str]]] = {}
        """By a piece of ``_MIN_PREFIX`` letters: where it is in a text, and the text."""
        if len(self._normalized) <= _MAX_SEPARATE_SEARCHES:
            return
        long = [text for text in self._normalized if len(text) >= _MIN_PREFIX]
        for text in self._normalized.difference(long):
            self._short.setdefault(len(text), set()).add(text)
        # a text is indexed by its rarest piece, since texts of one kind begin alike
        counts = Counter(text[start : start + _MIN_PREFIX] for text in long for start in _start_positions(text))
        for text in long:
            _, start = min((counts[text[start : start + _MIN_PREFIX]], start) for start in _start_positions(text))
            self._index.setdefault(text[start : start + _MIN_PREFIX], []).append((start, text))

    def __bool__(self) -> bool:
        return bool(self.texts)

    def held_by(self, content: str) -> bool:
        """Return whether *content* holds one of the texts verbatim."""
        content = _normalize_spaces(content)
        if len(self._normalized) <= _MAX_SEPARATE_SEARCHES:
            return any(_contains_verbatim(content, text) for text in self._normalized)
        return any(
            before <= start and content.startswith(text, start - before)
            for start in range(len(content) - _MIN_PREFIX + 1 if self._index else 0)
            for before, text in self._index.get(content[start : start + _MIN_PREFIX], ())
        ) or any(
            content[start : start + length] in texts and _is_whole_word(content, start, length)
            for length, texts in self._short.items()
            for start in range(len(content) - length + 1)
        )

    def in_entry(self, entry: Entry) -> bool:
        """Return whether *entry* repeats one of the texts: in text, title, headings, tags, line or caller's own fields.

        Roles, speakers and dates are not searched: forgetting "Ann" does not take all that Ann has said.
        """
        return self.held_by(entry.text) or any(
            self.held_by(text)
            for field, value in entry.metadata.items()
            if field in _FREE_TEXT_FIELDS or field.startswith("meta.")
            for text in texts_in_json(value)
        )

    def in_message(self, message: Message) -> bool:
        """Return whether *message* repeats one of the texts, in anything that somebody wrote."""
        return any(self.held_by(text) for text in message_texts(message))

    def longest_words(self) -> list[str]:
        """Return the longest word of each text: a content that holds the text holds it, however it is spaced."""
        return [max(text.split(" "), key=len) for text in sorted(self._normalized)]


def _start_positions(text: str) -> range:
    return range(min(len(text) - _MIN_PREFIX + 1, _MAX_POSITIONS))


def _contains_verbatim(content: str, text: str) -> bool:
    if len(text) >= _MIN_PREFIX or text not in content:
        return text in content
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", content) is not None


def _normalize_spaces(text: str) -> str:
    return " ".join(text.split())


def _is_whole_word(content: str, start: int, length: int) -> bool:
    around = content[max(start - 1, 0) : start] + content[start + length : start + length + 1]
    return not any(character.isalnum() or character == "_" for character in around)
