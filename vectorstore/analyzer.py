"""Text analysis: the terms of a text, pure, and the same for stored texts and for questions.

- Case and width are folded. Accents go from Latin and Greek letters; elsewhere a mark may make another letter
  (Cyrillic й, Japanese が, the vowels of Hindi), so it stays.
- Words are letters, marks, digits and underscores; stop words are dropped, the rest is stemmed, as the language says.
- German compounds with a common last part give their parts and then the whole (``languages``).
- Scripts that are written without spaces (Chinese, Japanese, Korean by habit, Thai, Lao, Khmer, Burmese) become
  overlapping pairs of characters. In the language "chinese" a run is cut at particles and question words first, and
  gives its single characters too, since a question often shares but one with what was said; what is written in Latin
  letters there is taken for English.
- What is joined without spaces (``snake_case``, ``camelCase``, ``dotted.name``, ``sqlite-vec``, ``a/path.md``, an
  e-mail address, ``3.52``) gives its parts and then the whole, lower-case and not stemmed. Digits in groups
  (``1,000``) are one number.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Final, TypeAlias, TypeVar, cast

import Stemmer

from tellback.vectorstore.errors import ArgumentError
from tellback.vectorstore.languages import CHINESE_PARTICLES, GermanCompounds, stop_words
from tellback.vectorstore.persisted_names import ANALYZER_FINGERPRINT

NO_LANGUAGE: Final = "none"
CHINESE: Final = "chinese"
GERMAN: Final = "german"
LONGEST_TERM: Final = 64
_MOST_PARTS: Final = 16
"""Parts of a joined token up to which the whole is a term, too."""
_CACHE_SIZE: Final = 50_000

_SPACELESS_SCRIPTS = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3038-\u303b\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa"
    "\u30fc-\u30ff\u3105-\u312f\u3131-\u318e\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff\U00016fe0-\U00018cff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ecd\u0edc-\u0edf\u1000-\u103f\u1050-\u109d\u1780-\u17d3"
)
_ASCII_TOKEN = re.compile(r"\w+(?:(?:[-._@:/\\+']|(?<=\d),(?=\d))\w+)*(?:\+\+|#)?", re.ASCII)
_GROUPED_DIGITS = re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_OUTER_SEPARATOR = re.compile(r"[/\\@:]")
_INNER_SEPARATOR = re.compile(r"[-._+]+")
_CAMEL_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]{2})")
_INVISIBLE = re.compile("[\u00ad\u200c\u200d\u2060\ufeff]")
_APOSTROPHE = re.compile("[\u2018\u2019\u02bc]")
_WRAPPED_LINE_LENGTH: Final = 50
"""A line of as many characters was broken to fit a page, so that its sentence goes on in the next one."""
_SENTENCE_BREAK = re.compile(
    "(?:(?<=[.!?\u2026\u061f\u0964])|(?<=[.!?\u2026\u061f\u0964][\"'\u201d\u2019\u00bb)\\]]))\\s+"
    "|(?<=[\u3002\uff01\uff1f])|\\r?\\n\\s*\\n|[\\v\\f\\x85\u2028\u2029]+"
    rf"|(?<![^\n]{{{_WRAPPED_LINE_LENGTH}}})\r?\n(?![a-z])|\r?\n(?=[ \t]|[-*+#>|\u2022]|\d{{1,3}}[.)][ \t])|\r(?!\n)"
)
_SPACELESS_BREAK = re.compile("[\n\r\v\f\x85\u2028\u2029\u3002\uff01\uff1f]")
# The same where none of these is: it begins with the space, which is found much faster.
_SENTENCE_BREAK_IN_LINE = re.compile(
    "\\s(?:(?<=[.!?\u2026\u061f\u0964]\\s)|(?<=[.!?\u2026\u061f\u0964][\"'\u201d\u2019\u00bb)\\]]\\s))\\s*"
)
_QUESTION_MARK_AT_END = re.compile("[?\u061f\uff1f][^\\w\\s]*\\s*$")
_ASCII_SENTENCE_ENDS = tuple(mark + after for mark in ".!?" for after in ("", '"', "'", ")", "]"))
"""Characters with which the last word of a sentence ends."""
_Word: TypeAlias = tuple[tuple[str, ...], bool]
"""The terms of the characters between two spaces, and whether a sentence ends there."""
T = TypeVar("T")
_PLAIN_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ħ": "h", "\u0131": "i", "æ": "ae", "œ": "oe", "ð": "d", "þ": "th"}
)


# Compiled when a text needs them: in most processes all are plain ASCII.


@cache
def _spaceless_run() -> re.Pattern[str]:
    return re.compile(f"[{_SPACELESS_SCRIPTS}]+")


@cache
def _token() -> re.Pattern[str]:
    blocks = (range(0x300, 0xE00), range(0xF00, 0x1000), range(0x1700, 0x1C00), range(0x1DC0, 0x1E00))
    codes = map(chr, chain.from_iterable(blocks))
    marks = "".join(letter for letter in codes if unicodedata.category(letter).startswith("M"))
    return re.compile(rf"[\w{marks}]+(?:(?:[-._@:/\\+']|(?<=\d),(?=\d))[\w{marks}]+)*(?:\+\+|#)?")


@dataclass(frozen=True, slots=True)
class Analyzer:
    """Makes terms in one *language* (a Snowball name such as "english", or "chinese"; "none": no stems, no stop words).

    >>> Analyzer().terms("The cats of user_name")
    ['cat', 'user', 'name', 'user_name']
    """

    language: str = "english"
    _vocabulary: _TokenTerms = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = sorted({NO_LANGUAGE, CHINESE, *Stemmer.algorithms()})
        if self.language not in known:
            raise ArgumentError("language", self.language, f"one of {', '.join(known)} is needed")
        object.__setattr__(self, "_vocabulary", _TokenTerms(self.language))

    def __reduce__(self) -> tuple[type[Analyzer], tuple[str]]:
        return Analyzer, (self.language,)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the analysis: terms are comparable where it is equal."""
        return ANALYZER_FINGERPRINT.format(version=2 if self.language == GERMAN else 1, language=self.language)

    def terms(self, text: str) -> list[str]:
        """Return the terms of *text* in order, with repeats; none for a text of stop words only."""
        if text.isascii():
            return list(chain.from_iterable([terms for terms, _ in self._vocabulary.words(text)]))
        return self._vocabulary.terms(_tokenize(text))

    def sentences(self, text: str) -> list[list[str]]:
        """Return the terms of each sentence of *text*; sentences without a term are left out.

        A sentence ends at a stop, question or exclamation mark before a space (Chinese and Japanese ones need
        none), at an empty line, and at the end of a line, unless the next one goes on: it begins with a small
        letter, or the line was long enough to be broken to fit a page.
        """
        if text.isascii() and not _SPACELESS_BREAK.search(text):
            return self._vocabulary.sentences(text)
        return [terms for terms in map(self.terms, _split_sentences(text)) if terms]

    def asking(self, text: str) -> list[bool]:
        """Return for each of ``sentences`` whether it ends with a question mark."""
        return [
            _QUESTION_MARK_AT_END.search(sentence) is not None
            for sentence in _split_sentences(text)
            if self.terms(sentence)
        ]


def _split_sentences(text: str) -> list[str]:
    pattern = _SENTENCE_BREAK if _SPACELESS_BREAK.search(text) else _SENTENCE_BREAK_IN_LINE
    return pattern.split(text)


@cache
def _folded_stop_words(language: str) -> frozenset[str]:
    words = stop_words(language)
    return words | {fold_text(word) for word in words}


class _TokenTerms:
    """The terms of each token in one language, remembered within bounds. Any thread may ask."""

    def __init__(self, language: str) -> None:
        self._chinese = language == CHINESE
        language = "english" if self._chinese else language
        self._stems = None if language == NO_LANGUAGE else Stemmer.Stemmer(language)
        self._parts = GermanCompounds(self._stems.stemWord) if language == GERMAN and self._stems is not None else None
        self._fold_first = language in (NO_LANGUAGE, "english", "porter")  # others' stems depend on accents
        self._stop_words = _folded_stop_words(language)
        self._remembered: dict[str, tuple[str, ...]] = {}
        self._words: dict[str, _Word] = {}
        self._lock = threading.Lock()  # a stemmer is for one thread at a time

    def terms(self, tokens: Iterable[str]) -> list[str]:
        """Return the terms of *tokens*, one after the other."""
        term_lists = _looked_up(self._remembered, list(tokens), self._learn)
        return list(chain.from_iterable(term_lists))

    def words(self, text: str) -> list[_Word]:
        """Return the words of ASCII *text*: no token goes over a space there, so that each is known by itself."""
        return _looked_up(self._words, text.split(), self._learn_word)

    def sentences(self, text: str) -> list[list[str]]:
        """Return the terms of each sentence of ASCII *text* on one line; those without a term are left out."""
        sentences: list[list[str]] = []
        sentence: list[str] = []
        for terms, ends in self.words(text):
            sentence += terms
            if ends and sentence:
                sentences.append(sentence)
                sentence = []
        return [*sentences, sentence] if sentence else sentences

    def _learn_word(self, word: str) -> _Word:
        terms = tuple(self.terms(_ASCII_TOKEN.findall(word)))
        return _remember(self._words, word, (terms, word.endswith(_ASCII_SENTENCE_ENDS)))

    def _learn(self, token: str) -> tuple[str, ...]:
        with self._lock:
            return _remember(self._remembered, token, tuple(self._analysed(token)))

    def _analysed(self, token: str) -> Iterator[str]:
        if not token.isascii() and _spaceless_run().match(token):
            yield from _chinese_terms(fold_text(token)) if self._chinese else _character_pairs(fold_text(token))
        elif "'" not in token or token.casefold() not in self._stop_words:
            for piece in token.split("'"):
                yield from self._joined(piece)

    def _joined(self, token: str) -> Iterator[str]:
        bare = token.rstrip("+#")
        if bare != token and len(bare) == 1:  # C++, C#
            yield token.casefold()
            return
        if _GROUPED_DIGITS.fullmatch(bare):
            bare = bare.replace(",", "")
        for piece in bare.split(","):
            yield from self._identifier(piece)

    def _identifier(self, token: str) -> Iterator[str]:
        """The parts of what is joined, each inner whole after its parts, and the whole at the end."""
        if token.isalnum() and not _CAMEL_HUMP.search(token):
            yield from self._word(token)
            return
        has_number, parts = False, 0
        pieces = _OUTER_SEPARATOR.split(token)
        for piece in pieces:
            words = [word for part in _INNER_SEPARATOR.split(piece) if part for word in _CAMEL_HUMP.split(part)]
            terms = [term for word in words for term in self._word(word)]
            yield from terms
            parts += len(words)
            has_number = has_number or bool(terms)
            if terms and 1 < len(words) <= _MOST_PARTS and len(pieces) > 1:
                yield from self._whole(piece)
        if has_number and 1 < parts <= _MOST_PARTS:
            yield from self._whole(token)

    def _whole(self, token: str) -> Iterator[str]:
        name = token.strip("_")
        if len(name) > LONGEST_TERM:
            return
        if name.isalnum():  # camelCase is also written as one word
            yield from self._word(name)
        else:
            yield fold_text(name)

    def _word(self, word: str) -> Iterator[str]:
        folded = fold_text(word) if self._fold_first else unicodedata.normalize("NFC", word.casefold())
        if folded in self._stop_words or not folded:
            return
        folded = folded[:LONGEST_TERM]
        stemmed = [folded]
        if self._stems is not None and (folded.isalpha() or not any(map(str.isdigit, folded))):
            stemmed = [self._stems.stemWord(folded) or folded] if self._parts is None else [*self._parts.terms(folded)]
        yield from stemmed if self._fold_first else map(fold_text, stemmed)


def _looked_up(cache: dict[str, T], keys: list[str], learn: Callable[[str], T]) -> list[T]:
    """Return the value of each of *keys*, learnt where it is not remembered."""
    values = list(map(cache.get, keys))
    if None in values:
        values = [learn(key) if value is None else value for key, value in zip(keys, values, strict=True)]
    return cast("list[T]", values)


def _remember(cache: dict[str, T], key: str, value: T) -> T:
    """Return *value*, which is kept within bounds."""
    if len(key) <= LONGEST_TERM:
        if len(cache) >= _CACHE_SIZE:
            cache.clear()
        cache[key] = value
    return value


def fold_text(text: str) -> str:
    """Return *text* without differences of case and width and, in Latin and Greek, of accents."""
    if text.isascii():
        return text.lower()
    letters: list[str] = []
    droppable = False
    for character in unicodedata.normalize("NFKD", text.casefold()):
        if unicodedata.category(character).startswith("M"):
            if droppable:
                continue
        else:
            droppable = character < "\u0400" or "\u1e00" <= character <= "\u1fff"
        letters.append(character)
    return unicodedata.normalize("NFC", "".join(letters)).casefold().translate(_PLAIN_LETTERS)


def _tokenize(text: str) -> list[str]:
    """Split *text* at what belongs to no word; runs without spaces stand alone."""
    if text.isascii():
        return _ASCII_TOKEN.findall(text)
    plain = unicodedata.normalize("NFKC", _INVISIBLE.sub("", text))
    return _token().findall(_spaceless_run().sub(r" \g<0> ", _APOSTROPHE.sub("'", plain)))


def _chinese_terms(run: str) -> Iterator[str]:
    for piece in re.split(CHINESE_PARTICLES, run):
        yield from piece
        if len(piece) > 1:
            yield from _character_pairs(piece)


def _character_pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    else:
        yield from (run[i : i + 2] for i in range(len(run) - 1))
