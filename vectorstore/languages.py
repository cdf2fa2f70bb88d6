"""Language data of text analysis: stop words, Chinese particles, German compounds.

The lists of words are in ``word_lists/``, read when they are first needed. Stop words: fragments that an apostrophe
leaves (``don`` ``t``) stand with them; where a fragment is a word of its own (``won't``), the whole does. Each includes
its form without accents. A language without a list keeps all its words.

German beyond its stemmer: compounds are taken apart at common last parts, and verbs lose their -t. The list is small,
no dictionary: a compound whose last part is not in it stays whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

_WORD_LISTS: Final = Path(__file__).with_name("word_lists")
_STOP_WORD_LANGUAGES: Final = {"dutch", "english", "french", "german", "italian", "portuguese", "spanish"}
CHINESE_PARTICLES: Final = (
    "为什么|什么|怎么样|怎么|怎样|哪里|哪儿|哪些|哪个|多少|谁|吗|呢|吧|啊|呀|嘛|的|了|着|们|我|你|您|他|她|它|这|那|是|在|和|与|也|都|就|很"
    "|為什麼|什麼|怎麼|哪裡|嗎|們|這|與"
)
"""Chinese words and particles, as a pattern: a run of characters is cut where they stand."""

_SHORTEST_FIRST_PART: Final = 3
_SHORTEST_COMPOUND: Final = 7
_SHORTEST_VERB: Final = 5
_VOWELS: Final = frozenset("aeiouyäöü")


def stop_words(language: str) -> frozenset[str]:
    """Return the stop words of a language; none where it has no list."""
    return _read_words(f"{language}_stop_words") if language in _STOP_WORD_LANGUAGES else frozenset()


@lru_cache
def _read_words(name: str) -> frozenset[str]:
    return frozenset((_WORD_LISTS / f"{name}.txt").read_text(encoding="utf-8").split())


class GermanCompounds:
    """Takes German words apart with a *stem* function; heads are known by their stems."""

    def __init__(self, stem: Callable[[str], str]) -> None:
        self._stem = stem
        heads = {self.short(stem(head)) for head in _read_words("german_compound_heads")}
        self._heads = {head: head for head in heads} | {head[:-1]: head for head in heads if _ends_like_verb(head)}
        self._lengths = sorted({len(head) for head in self._heads}, reverse=True)

    def short(self, stemmed: str) -> str:
        """Return a stem without the -t of a verb's third person ("wohnt", as "wohne"); nouns lose theirs alike."""
        return stemmed[:-1] if len(stemmed) >= _SHORTEST_VERB and _ends_like_verb(stemmed) else stemmed

    def terms(self, word: str) -> Iterator[str]:
        """Yield the stems of the parts of a compound, and then that of the whole *word*."""
        whole = self.short(self._stem(word))
        if len(whole) >= _SHORTEST_COMPOUND:
            for length in self._lengths:
                head, first = whole[-length:], whole[:-length]
                if len(first) >= _SHORTEST_FIRST_PART and head in self._heads:
                    yield self.short(self._stem(_without_linking_s(first)))
                    yield self._heads[head]
                    break
        yield whole


def _ends_like_verb(stemmed: str) -> bool:
    return stemmed[-1] == "t" and stemmed[-2] != "t" and stemmed[-2] not in _VOWELS


def _without_linking_s(first: str) -> str:
    """Return the first part of a compound without the -s that joins it ("Geburtstags-")."""
    return first[:-1] if len(first) > _SHORTEST_FIRST_PART + 1 and first[-1] == "s" != first[-2] else first
