"""Citations: the sentence of each passage that answers best, word for word, with its offsets. Nothing is ranked.

>>> passage = Passage("c1", text="Rain fell. The bridge opened in 1932.", document="a.md", start=10)
>>> citation = cite("When did the bridge open?", [passage])[0]
>>> citation.quote, citation.start, str(citation)
('The bridge opened in 1932.', 21, '[1] a.md')
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from memory.documents.document import Passage

QUOTE_LIMIT = 400
"""Characters that a quote may have."""
_MIN_QUOTE_GAIN = 0.15
"""A neighbouring sentence joins the quote when it covers this share of the question anew."""
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")
_FENCED = re.compile(r"^(```|~~~).*?(?:^\1\s*$|\Z)", re.MULTILINE | re.DOTALL)
_CODE_WEIGHT = 0.4
"""What a word counts in fenced code: a sentence that says it is the better quote."""
_STEM_LENGTH = 5


@dataclass(frozen=True, slots=True)
class Citation:
    """Source of an answer: *quote* is the document's text from *start* to *end*, character for character.

    *number* is the passage's place among those cited, from 1. *coverage* is the share of the question's words
    that the quote holds, weighed by how telling they are.
    """

    number: int
    document: str
    title: str
    page: int | None
    heading: tuple[str, ...]
    start: int
    end: int
    quote: str
    id: str = ""
    coverage: float = 0.0

    def __str__(self) -> str:
        heading = f" § {' > '.join(self.heading)}" if self.heading else ""
        page = f", p. {self.page}" if self.page is not None else ""
        return f"[{self.number}] {self.document}{heading}{page}"

    @property
    def line(self) -> str:
        """The quote on one line, for showing."""
        return _SPACE.sub(" ", self.quote)


def cite(
    question: str,
    passages: Sequence[Passage],
    *,
    terms: Callable[[str], Sequence[str]] | None = None,
    weights: Mapping[str, float] | None = None,
    limit: int = QUOTE_LIMIT,
) -> list[Citation]:
    """Return a citation for each of *passages*, in their order.

    *terms* gives the terms of a text (None: its words, cut to their beginnings); *weights* say how telling a
    term of the question is (None, or one that is missing: 1).
    """
    analyse = terms or plain_terms
    term_weights = {term: (weights or {}).get(term, 1.0) for term in analyse(question)}
    citations = []
    for number, passage in enumerate(passages, start=1):
        start, end, coverage = best_quote(passage.text, term_weights, analyse, limit=limit)
        citations.append(
            Citation(
                number=number,
                document=passage.document,
                title=passage.title,
                page=passage.page_at(start),
                heading=passage.heading,
                start=passage.start + start,
                end=passage.start + end,
                quote=passage.text[start:end],
                id=passage.id,
                coverage=coverage,
            )
        )
    return citations


def best_quote(
    text: str, term_weights: Mapping[str, float], terms: Callable[[str], Sequence[str]], *, limit: int = QUOTE_LIMIT
) -> tuple[int, int, float]:
    """Return (start, end, coverage) of the quote of *text* that covers the terms of *term_weights* best.

    It is one sentence, with its neighbours when they add to it, of at most *limit* characters. Of equal ones it is the
    first. Headings are quoted only when there is nothing else; what is fenced as code counts less than prose.
    """
    total = sum(term_weights.values())
    spans = [piece for span in split_sentences(text) for piece in _split_span(text, span, limit)]
    if not spans:
        return 0, 0, 0.0
    fences = [match.span() for match in _FENCED.finditer(text)]
    prose = [span for span in spans if not text.startswith("#", span[0])] or spans
    found_terms = [frozenset(terms(text[start:end])) & term_weights.keys() for start, end in prose]
    scores = []
    for (start, end), found in zip(prose, found_terms, strict=True):
        in_code = any(start < fence_end and fence_start < end for fence_start, fence_end in fences)
        scores.append((_CODE_WEIGHT if in_code else 1.0) * sum(term_weights[term] for term in found))
    first = last = max(range(len(prose)), key=lambda index: (scores[index], -index))
    covered = set(found_terms[first])

    def gain(index: int) -> float:
        """Return the weight of the terms that the span at *index* adds; 0 if it may not or need not be added."""
        if not 0 <= index < len(prose):
            return 0.0
        length = prose[max(last, index)][1] - prose[min(first, index)][0]
        added = sum(term_weights[term] for term in found_terms[index] - covered)
        return added if length <= limit and added >= _MIN_QUOTE_GAIN * total else 0.0

    while gain(index := max(last + 1, first - 1, key=gain)) > 0:
        covered |= found_terms[index]
        first, last = min(first, index), max(last, index)
    coverage = sum(term_weights[term] for term in covered) / total if total else 0.0
    return prose[first][0], prose[last][1], coverage


def plain_terms(text: str) -> list[str]:
    """Return the words of *text* in small letters, long ones cut to their beginning; for any language."""
    return [word[:_STEM_LENGTH] for word in _WORD.findall(text.casefold()) if len(word) > 2]


def _split_span(text: str, span: tuple[int, int], limit: int) -> list[tuple[int, int]]:
    """Return *span* cut at blanks into pieces of at most *limit* characters."""
    start, end = span
    pieces = []
    while end - start > limit:
        cut = max(text.rfind(" ", start + 1, start + limit + 1), text.rfind("\n", start + 1, start + limit + 1))
        stop = cut if cut > start else start + limit
        pieces.append((start, _strip_span(text, start, stop)[1]))
        start = _strip_span(text, stop, end)[0]
    if end > start:
        pieces.append((start, end))
    return pieces


_SENTENCE_BREAK = re.compile(
    r"""
      (?P<stop> [.!?\u2026]+ ["'\u201d\u2019)\]]* (?=\s) )
    | (?P<wide> [\u3002\uff01\uff1f]+ [\u300d\u300f\u201d\uff09]? )
    | (?P<gap> \n [ \t]* \n )
    | (?P<line> \n (?= [ \t]{0,8} (?: [-*+\u2022][ \t] | \d{1,3}[.)][ \t] | [#>|] ) ) )
    | (?P<head> ^\# [^\n]* \n )
    """,
    re.VERBOSE | re.MULTILINE,
)
_WORD_BEFORE = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*\Z")
_ABBREVIATION_TEXT = (
    "al approx bzw ca cf ch co corp dept dr eq eqs etc fig figs inc jr ltd mr mrs ms no nos pp prof sec sr "
    "st vol vs apr aug dec feb jan jul jun mar nov oct sep sept a.m d.h e.g i.e p.m ph.d u.k u.s z.b"
)
_ABBREVIATIONS = frozenset(_ABBREVIATION_TEXT.split())


def split_sentences(text: str) -> list[tuple[int, int]]:
    """Return (start, end) of each sentence in order, blanks at the ends left out; none is empty.

    Rules, not a model: a sentence ends at . ! ? … and their wide forms before a blank, at a blank line, and at a line
    that begins a list item, heading, quote or table row. A full stop after an initial or an abbreviation, or before a
    small letter, ends nothing.
    """
    breaks = _SENTENCE_BREAK.finditer(text)
    ends = [match.end() for match in breaks if not match["stop"] or _ends_sentence(text, match)]
    spans = (_strip_span(text, start, end) for start, end in pairwise((0, *ends, len(text))))
    return [(start, end) for start, end in spans if start < end]


def _ends_sentence(text: str, stop: re.Match[str]) -> bool:
    if stop[0][0] != ".":
        return True
    following = text[stop.end() : stop.end() + 80].lstrip()
    if following[:1].islower():
        return False
    before = _WORD_BEFORE.search(text, max(0, stop.start() - 40), stop.start())
    if before is None or len(stop[0]) > 1:
        return True
    word = before[0]
    initial = len(word) == 1 and word.isupper() and word != "I"
    return not (initial or word.lower() in _ABBREVIATIONS)


def _strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without the blanks at its ends; start and end do not ascend if nothing is left."""
    piece = text[start:end]
    return end - len(piece.lstrip()), start + len(piece.rstrip())
