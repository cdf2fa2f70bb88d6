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

from memory.chunking.sentences import TextSpan, split_sentences, strip_span
from memory.documents.document import Passage
from memory.documents.sentences import stating_sentences
from memory.documents.table_rows import quoted_text

QUOTE_LIMIT = 400
"""Characters that a quote may have."""
_MIN_QUOTE_GAIN = 0.15
"""A neighbouring sentence joins the quote when it covers this share of the question anew."""
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s+")
_STEM_LENGTH = 5


@dataclass(frozen=True, slots=True)
class Citation:
    """Source of an answer: *quote* is the document's text from *start* to *end*, character for character; of the row of
    a table in Markdown, each value with the name of its column.

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
                quote=quoted_text(passage.text, start, end),
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
    first. Headings, code and tables are quoted only when there is nothing else.
    """
    total = sum(term_weights.values())
    prose = quotable_spans(text, limit)
    if not prose:
        return 0, 0, 0.0
    found_terms = [frozenset(terms(quoted_text(text, *span))) & term_weights.keys() for span in prose]
    scores = [sum(term_weights[term] for term in covered_terms) for covered_terms in found_terms]
    first = last = max(range(len(prose)), key=lambda index: (scores[index], -index))
    covered = set(found_terms[first])

    def gain(index: int) -> float:
        """Return the weight of the terms that the span at *index* adds; 0 if it may not or need not be added."""
        if not 0 <= index < len(prose) or text.startswith("|", prose[min(first, index)][0]):  # a row stands alone
            return 0.0
        length = prose[max(last, index)][1] - prose[min(first, index)][0]
        added = sum(term_weights[term] for term in found_terms[index] - covered)
        return added if length <= limit and added >= _MIN_QUOTE_GAIN * total else 0.0

    while gain(index := max(last + 1, first - 1, key=gain)) > 0:
        covered |= found_terms[index]
        first, last = min(first, index), max(last, index)
    coverage = sum(term_weights[term] for term in covered) / total if total else 0.0
    return prose[first][0], prose[last][1], coverage


def quotable_spans(text: str, limit: int) -> list[TextSpan]:
    """Return the sentences of *text* that state something, else all, cut into pieces of at most *limit* characters."""
    return stating_spans(text, limit) or [
        piece for span in split_sentences(text) for piece in _split_span(text, span, limit)
    ]


def stating_spans(text: str, limit: int) -> list[TextSpan]:
    """Return the sentences of *text* that state something, cut into pieces of at most *limit* characters."""
    return [piece for span in stating_sentences(text) for piece in _split_span(text, span, limit)]


def plain_terms(text: str) -> list[str]:
    """Return the words of *text* in small letters, long ones cut to their beginning; for any language."""
    return [word[:_STEM_LENGTH] for word in _WORD.findall(text.casefold()) if len(word) > 2]


def _split_span(text: str, span: TextSpan, limit: int) -> list[TextSpan]:
    """Return *span* cut at blanks into pieces of at most *limit* characters."""
    start, end = span
    pieces = []
    while end - start > limit:
        cut = max(text.rfind(" ", start + 1, start + limit + 1), text.rfind("\n", start + 1, start + limit + 1))
        stop = cut if cut > start else start + limit
        pieces.append((start, strip_span(text, start, stop)[1]))
        start = strip_span(text, stop, end)[0]
    if end > start:
        pieces.append((start, end))
    return pieces
