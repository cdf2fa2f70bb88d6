"""Check of a model's citations against what it was shown: each item exists, each quotation stands in it word for word.

>>> items = [ContextItem(1, "m1", "The bridge opened in 1932.")]
>>> check_citations("It “opened in 1933, after a long delay” [1]; see also [4].", items)
('[4] names nothing that was shown', '“opened in 1933, after a long delay” does not stand in [1]')
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tellback.agent.context_items import ContextItem

_MARKER = re.compile(r"\[(\d{1,4})\](?!\()")
# A quotation ends where another begins: else each opening mark of a text without closing ones is read to its end.
_QUOTATION = re.compile('(?:\u201c([^\u201c\u201d]{12,})\u201d|\u00ab([^\u00ab\u00bb]{12,})\u00bb|"([^"\n]{12,})")')
_SENTENCE_END = re.compile("[.!?\u3002\uff01\uff1f\n]")
_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_WORD = re.compile(r"\w+")
_STEM_LENGTH = 5
_LEAST_WORDS = 4
"""Words that a sentence must have for its support to be judged."""
_SUPPORT_SHARE = 0.2
"""Share of a sentence's words that the items it cites must contain, in any form. A sentence may paraphrase an item, so
this finds only sentences that have nothing to do with it."""
_REACH = 80
"""Characters between a quotation and the marker that it belongs to."""


def check_citations(text: str, items: Sequence[ContextItem]) -> tuple[str, ...]:
    """Return the faults of the citations in *text*, in words: unknown numbers, quotations that are not found, sentences
    that share almost no word with the items they cite."""
    prose = _CODE.sub(lambda code: " " * len(code[0]), text)
    shown = {item.number: item for item in items}
    cited = list(dict.fromkeys(int(number) for number in _MARKER.findall(prose)))
    problems = [f"[{number}] names nothing that was shown" for number in cited if number not in shown]
    texts = {number: _plain(f"{item.text} {item.title} {item.where}") for number, item in shown.items()}
    for match in _QUOTATION.finditer(prose):
        words = next(group for group in match.groups() if group is not None)
        marker = _MARKER.search(prose, match.end(), match.end() + _REACH)
        if marker is None or int(marker[1]) not in shown:
            continue
        plain = _plain(words)
        if plain and plain not in texts[int(marker[1])]:
            problems.append(f"\u201c{' '.join(words.split())}\u201d does not stand in [{marker[1]}]")
    stems = {number: {word[:_STEM_LENGTH] for word in plain.split()} for number, plain in texts.items()}
    for sentence in _SENTENCE_END.split(prose):
        numbers = list(dict.fromkeys(int(number) for number in _MARKER.findall(sentence)))
        words = [word[:_STEM_LENGTH] for word in _plain(_MARKER.sub(" ", sentence)).split() if len(word) > 3]
        if not numbers or len(words) < _LEAST_WORDS or not all(number in shown for number in numbers):
            continue
        if sum(any(word in stems[number] for number in numbers) for word in words) < _SUPPORT_SHARE * len(words):
            problems.append(f"nothing in [{numbers[0]}] supports \u201c{' '.join(sentence.split())}\u201d")
    return tuple(problems)


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
