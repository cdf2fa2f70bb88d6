"""Citations: the sentence of each passage that answers best, word for word, with its offsets. Nothing is ranked.

>>> passage = Passage("c1", text="Rain fell. The bridge opened in 1932.", document="a.md", start=10)
>>> citation = cite("When did the bridge open?", [passage])[0]
>>> citation.quote, citation.start, str(citation)
('The bridge opened in 1932.', 21, '[1] a.md')
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tellback.memory.documents.answers import AnswerSentence, best_sentences
from tellback.memory.documents.document import Passage
from tellback.memory.documents.sentences import QUOTE_LIMIT, quotable_spans
from tellback.memory.documents.table_rows import quoted_text
from tellback.vectorstore import Analyzer

_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Citation:
    """Source of an answer: *quote* is the document's text from *start* to *end*, character for character; of the row of
    a table in Markdown, each value with the name of its column.

    *number* is the passage's place among those cited, from 1.
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
    sentences: Sequence[AnswerSentence] = (),
    *,
    analyzer: Analyzer | None = None,
    limit: int = QUOTE_LIMIT,
) -> list[Citation]:
    """Return a citation for each of *passages*, in their order: the first of the *sentences* in it, best first.

    A passage with none of these has its own best one (*analyzer* as for ``best_sentences``), of at most *limit*
    characters; the quote of a blank passage is empty.
    """
    best = {sentence.passage: sentence for sentence in reversed(sentences)}
    citations = []
    for index, passage in enumerate(passages):
        own = [best[index]] if index in best else best_sentences(question, [passage], analyzer=analyzer, limit=limit)
        begin, start, end = (own[0].start, own[0].leads_in, own[0].end) if own else (0, 0, 0)
        if not own and (spans := quotable_spans(passage.text, limit)):  # it says no more than the question
            start, end = spans[0]
            begin = start
        citations.append(
            Citation(
                number=index + 1,
                document=passage.document,
                title=passage.title,
                page=passage.page_at(begin),
                heading=passage.heading,
                start=passage.start + start,
                end=passage.start + end,
                quote=quoted_text(passage.text, start, end),
                id=passage.id,
            )
        )
    return citations
