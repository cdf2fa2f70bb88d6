"""Prefilter of patterns: which of many regular expressions may match a text, by its words alone.

A match begins in a word. So for each pattern the beginnings of its matches are kept, up to where a blank may come, and
for each word which patterns have a match that may begin in it. A text then costs a look-up a word, and only the few
patterns are searched for that it may match. No match is ever missed; a pattern that may match need not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_FEW_TEXTS = 32
"""Texts for which it does not pay to read the patterns: they take as long as some hundred short searches."""
_KEPT_WORDS = 1 << 15
"""Words whose patterns are remembered: more than a large collection of notes has, some 5 MB."""
_TOKEN = re.compile(
    r"(?P<lookaround>\(\?<?[=!])|(?P<flags>\(\?[a-z]+\))|(?P<group>\((?:\?(?:P<\w+>|[a-z-]*:))?)|(?P<close>\))"
    r"|(?P<bar>\|)|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<anchor>\\[AZ]|[\^$])|(?P<escape>\\.)|(?P<literal>.)",
    re.DOTALL,
)
_QUANTIFIER = re.compile(r"(?:[*+?]|\{\d*,?\d*\})\??|")
_OPTIONAL = ("*", "?", "{0", "{,")
_WITH_BLANKS = re.compile(r"\.|\[\^.*|.*(?:\s|\\[sWD]).*", re.DOTALL)
"""Single elements of a pattern that may match a blank."""


def small_letters(text: str) -> str:
    """Return *text* in small letters, each at the place that it has in *text*."""
    return text.replace("\u0130", "i").lower()  # the only letter whose small form has two characters


class PatternPrefilter:
    """Prefilter of *patterns*, their sources by name. ``bits`` has the bit of each in what ``possible`` returns.

    The patterns are read when more than *unread_texts* texts were asked for; until then any may match.
    """

    def __init__(self, patterns: Mapping[str, str], *, unread_texts: int = _FEW_TEXTS) -> None:
        self.bits = {name: 1 << i for i, name in enumerate(patterns)}
        self._patterns = patterns
        self._unread_texts = unread_texts
        self._of_words: _WordBits | None = None

    def possible(self, text: str) -> int:
        """Return the bits of the patterns that may match a text which has *text* as its small letters."""
        of_words = self._of_words
        if of_words is None:
            self._unread_texts -= 1
            if self._unread_texts >= 0:
                return (1 << len(self.bits)) - 1
            beginnings = {self.bits[name]: match_beginnings(source) for name, source in self._patterns.items()}
            of_words = self._of_words = _WordBits({bit: re.compile(found) for bit, found in beginnings.items()})
        found = 0
        for word in text.split():
            found |= of_words[word]
        return found


class _WordBits(dict[str, int]):
    """The bits of the patterns with a match that may begin in a word, by the word."""

    def __init__(self, beginnings: Mapping[int, re.Pattern[str]]) -> None:
        super().__init__()
        self._beginnings = beginnings

    def __missing__(self, word: str) -> int:
        if len(self) >= _KEPT_WORDS:
            self.clear()
        bits = sum(bit for bit, beginning in self._beginnings.items() if beginning.search(word))
        self[word] = bits
        return bits


def match_beginnings(pattern: str) -> str:
    """Return a pattern, in small letters, of the beginnings of the matches of *pattern* up to where a blank may come.

    >>> match_beginnings("no longer|(?:I|we) .* moved|start(?:ed|s)?")
    'no(?!\\\\S)|(?:i|we)(?!\\\\S)|start(?:ed|s)?'
    """
    return _PatternReader(pattern).alternatives()[0]


class _PatternReader:
    """Reader of the source of a pattern, from its beginning."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._position = 0

    def alternatives(self) -> tuple[str, bool]:
        """Read alternatives to the end of their group; return their beginnings, and whether any of them is cut."""
        found, is_cut = [self._sequence()], False
        while self._position < len(self._source) and self._source[self._position - 1] == "|":
            found.append(self._sequence())
        is_cut = any(cut for _, cut in found)
        return "|".join(beginning for beginning, _ in found), is_cut

    def _sequence(self) -> tuple[str, bool]:
        """Read one alternative and the bar or bracket behind it."""
        parts, skipped, is_cut = list[str](), 0, False
        while (token := _TOKEN.match(self._source, self._position)) is not None:
            self._position = token.end()
            if token.lastgroup in ("bar", "close"):
                break
            element, ends = self._element(token)
            quantifier = _QUANTIFIER.match(self._source, self._position)
            assert quantifier is not None
            self._position = quantifier.end()
            if is_cut or not element:
                continue
            if not ends:
                parts.append(element + quantifier[0])
            elif quantifier[0].startswith(_OPTIONAL):  # the match goes on behind it, too
                parts.append(f"(?:{element}|")
                skipped += 1
            else:
                parts.append(element)
                is_cut = True
        return "".join(parts) + ")" * skipped, is_cut or skipped > 0

    def _element(self, token: re.Match[str]) -> tuple[str, bool]:
        """Return the beginning of the element that *token* opens, and whether it is cut; "" for one without width."""
        match token.lastgroup:
            case "lookaround":
                self.alternatives()
                return "", False
            case "flags" | "anchor":
                return "", False
            case "group":
                inner, is_cut = self.alternatives()
                return f"(?:{inner})", is_cut
            case "escape" if not _WITH_BLANKS.fullmatch(token[0]):
                return token[0], False
        if token[0].isspace():
            return r"(?!\S)", True
        if _WITH_BLANKS.fullmatch(token[0]):
            return "(?:)", True
        return re.sub(r"\\.|.", lambda part: part[0] if len(part[0]) > 1 else part[0].lower(), token[0]), False
