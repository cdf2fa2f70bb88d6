"""Verbatim match: entries and messages that hold forgotten texts word for word.

A text of fewer than eight letters must stand by itself: forgetting "ok" does not take "book". How many blanks or line
breaks are between two words does not count: the lines of one message are another's blocks, or stand in one line.
"""

from __future__ import annotations

from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from memory.history.codec import texts_in_json
from memory.messages import (
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from vectorstore import Entry


def message_texts(message: Message) -> Iterator[str]:
    """Yield every text of *message* that somebody wrote: blocks, arguments, metadata; not who or when.

    What was said in several blocks, thought in several, or answered in several results is one text, too: with a blank
    between them, and without one, since a provider may end a block anywhere.
    """
    yield from texts_in_json(message.metadata)
    said, thought, answered = [], [], []
    for block in message.blocks:
        if isinstance(block, TextBlock):
            said.append(block.text)
        elif isinstance(block, ThinkingBlock):
            thought.append(block.text)
        elif isinstance(block, ImageBlock):
            yield from _image_texts(block)
        elif isinstance(block, DocumentBlock):
            yield from _document_texts(block)
        elif isinstance(block, ToolCallBlock):
            yield from texts_in_json(block.arguments)
            yield block.invalid or ""
        else:
            answered += [part.text for part in block.content if isinstance(part, TextBlock)]
            yield from _result_image_texts(block)
    for texts in (said, thought, answered):
        yield from dict.fromkeys((" ".join(texts), "".join(texts)))


def _image_texts(block: ImageBlock) -> tuple[str, str]:
    return block.name, block.caption


def _document_texts(block: DocumentBlock) -> Iterator[str]:
    yield block.name
    if block.media_type == "text/plain":
        wide = block.data.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
        yield block.data.decode("utf-16" if wide else "utf-8", errors="replace")


def _result_image_texts(block: ToolResultBlock) -> Iterator[str]:
    for part in block.content:
        if isinstance(part, ImageBlock):
            yield from _image_texts(part)


_MIN_PREFIX: Final = 8
_MAX_SEPARATE_SEARCHES: Final = 24
_MAX_POSITIONS: Final = 100
_FREE_TEXT_FIELDS: Final = ("title", "heading", "tags")


class VerbatimTexts:
    """Texts to look for. However many they are, a text is gone through once."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts = frozenset(text for text in texts if text)
        self._spaced = frozenset(one for text in self.texts if (one := _normalize_spaces(text)))
        self._short: dict[int, set[str]] = {}
        self._long: dict[str, list[tuple[int, str]]] = {}
        if len(self._spaced) <= _MAX_SEPARATE_SEARCHES:
            return
        long = [text for text in self._spaced if len(text) >= _MIN_PREFIX]
        for text in self._spaced.difference(long):
            self._short.setdefault(len(text), set()).add(text)
        # each is known by its rarest piece: texts of one kind begin alike
        counts = Counter(text[at : at + _MIN_PREFIX] for text in long for at in _start_positions(text))
        for text in long:
            _, at = min((counts[text[place : place + _MIN_PREFIX]], place) for place in _start_positions(text))
            self._long.setdefault(text[at : at + _MIN_PREFIX], []).append((at, text))

    def __bool__(self) -> bool:
        return bool(self.texts)

    def held_by(self, text: str) -> bool:
        """Whether *text* holds one of them verbatim."""
        text = _normalize_spaces(text)
        if len(self._spaced) <= _MAX_SEPARATE_SEARCHES:
            return any(_contains_verbatim(text, one) for one in self._spaced)
        return self._starts_somewhere(text) or any(
            text[at : at + length] in texts and _is_whole_word(text, at, length)
            for length, texts in self._short.items()
            for at in range(len(text) - length + 1)
        )

    def in_entry(self, entry: Entry) -> bool:
        """Whether *entry* repeats them: in its text, title, headings, tags or the caller's own fields.

        Not in roles, speakers or dates: forgetting "Ann" does not take all that Ann has said.
        """
        if self.held_by(entry.text):
            return True
        own = (
            value for field, value in entry.metadata.items() if field in _FREE_TEXT_FIELDS or field.startswith("meta.")
        )
        return any(self.held_by(text) for value in own for text in texts_in_json(value))

    def in_message(self, message: Message) -> bool:
        """Whether *message* repeats them, in any text that somebody wrote."""
        return any(self.held_by(text) for text in message_texts(message))

    def longest(self) -> list[str]:
        """Return of each of them its longest word: what holds the text holds this, however it is spaced."""
        return [max(one.split(" "), key=len) for one in sorted(self._spaced)]

    def _starts_somewhere(self, text: str) -> bool:
        if not self._long:
            return False
        for at in range(len(text) - _MIN_PREFIX + 1):
            found = self._long.get(text[at : at + _MIN_PREFIX])
            if found is not None and any(before <= at and text.startswith(one, at - before) for before, one in found):
                return True
        return False


def _start_positions(text: str) -> range:
    return range(min(len(text) - _MIN_PREFIX + 1, _MAX_POSITIONS))


def holds_verbatim(text: str, words: Iterable[str]) -> bool:
    """Whether *text* holds one of *words* verbatim."""
    return VerbatimTexts(words).held_by(text)


def _contains_verbatim(text: str, words: str) -> bool:
    at = text.find(words)
    while at >= 0:
        if len(words) >= _MIN_PREFIX or _is_whole_word(text, at, len(words)):
            return True
        at = text.find(words, at + 1)
    return False


def _normalize_spaces(text: str) -> str:
    return " ".join(text.split())


def _is_whole_word(text: str, at: int, length: int) -> bool:
    return not (
        _is_word_character(text[at - 1 : at] if at else "") or _is_word_character(text[at + length : at + length + 1])
    )


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"
