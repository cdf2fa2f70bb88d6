"""Context items, grounding and citations: recalled memories and passages as data, and references into them.

Values only. Their text for a model is ``context.rendering``, their selection ``context.budget``.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime, tzinfo
from itertools import count
from typing import TYPE_CHECKING, Literal

from tellback.memory import Hit, Passage
from tellback.memory.internals import passages_of, quoted_text, to_zone

if TYPE_CHECKING:
    from tellback.vectorstore import Analyzer

MODEL_SOURCES = "model"
"""Lane of citations that a model made itself, of documents it was given or pages that its server found."""
_CITATION_MARKER = re.compile(r"\[(\d{1,4})\]")


@dataclass(frozen=True, slots=True)
class Sourced:
    """A memory or a passage by its *number* in this turn and its *id*, with its source.

    *page*, *line* (both from 1) and *anchor* are where it begins in its file, as far as the file has them.
    """

    number: int
    id: str
    _: KW_ONLY
    lane: str = "conversation"
    source: str = ""
    title: str = ""
    page: int | None = None
    line: int | None = None
    anchor: str = ""
    heading: tuple[str, ...] = ()
    role: str = ""
    speaker: str = ""
    session: str | None = None
    date: datetime | None = None
    score: float = 0.0

    @property
    def where(self) -> str:
        """Source in words: ``file.md:12 § Heading``, ``file.pdf § Heading, p. 2``, ``Ana, 3 May 2026``, ``you, …``."""
        if self.source:
            return self.source + self.place
        day = f"{self.date.day} {self.date:%B %Y}" if self.date is not None else ""
        who = self.speaker or self.role
        return ", ".join(part for part in ("you" if who == "user" else who, day) if part) or "memory"

    @property
    def place(self) -> str:
        """Place in the document, in words: ``:12 § Heading, p. 2``, as far as it is known."""
        line = f":{self.line}" if self.line is not None else ""
        section = f" § {' > '.join(self.heading)}" if self.heading else ""
        return f"{line}{section}{f', p. {self.page}' if self.page is not None else ''}"


@dataclass(frozen=True, slots=True)
class ContextItem(Sourced):
    """A memory or a passage that was found for this turn; an answer cites it by its *number*.

    *start* and *end* are its offsets in its document (a memory's own text starts at 0). *page_breaks* are pairs
    (offset in *text*, number of the page that begins there). *outdated_by*, *later_than* and *likely_change* as of a
    ``Hit``; *standing* says in words what they mean beside the other items ("current", "until 3 Jun"), *day* its date.
    """

    text: str
    start: int = 0
    end: int = 0
    page_breaks: tuple[tuple[int, int], ...] = ()
    sequence: int | None = None
    trust: str = "user"
    outdated_by: str | None = None
    later_than: str | None = None
    likely_change: bool = False
    day: str = ""
    standing: str = ""

    def page_at(self, offset: int) -> int | None:
        """Return the page of *offset* in ``text``."""
        begun = [number for start, number in self.page_breaks if start <= offset]
        return begun[-1] if begun else self.page

    def line_at(self, offset: int) -> int | None:
        """Return the line of the file that holds *offset* of ``text``; None where lines are not known."""
        return None if self.line is None else self.line + self.text.count("\n", 0, offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounding:
    """Ground of an answer, as data: the prompt alone (*question*), and the recalled *items*.

    - *abstain* is the reason to doubt the items: they are not about the question ("nothing"), or by or about somebody
      else ("other"). *likely*: the best item rather answers than not.
    - *now* is the time at the user's, None where it is not told.
    - *remembers*: this turn will be stored. *redact* returns a text as it would be stored.
    - *analyzer* makes words comparable in the memory's language. *similarities* compares texts with a question by
      meaning; it returns None where it cannot.
    """

    question: str = ""
    items: tuple[ContextItem, ...] = ()
    abstain: Literal["nothing", "other"] | None = None
    likely: bool = True
    now: datetime | None = None
    remembers: bool = False
    analyzer: Analyzer | None = None
    redact: Callable[[str], str] | None = None
    similarities: Callable[[str, Sequence[str]], Awaitable[Sequence[float] | None]] | None = None


@dataclass(frozen=True, slots=True)
class AnswerCitation(Sourced):
    """Citation of an item by an answer: *quote* is the item's own words, character for character; of the row of a
    table in Markdown, each value with the name of its column.

    One that the model made itself has the number 0, the lane "model" and the address or title of its source.
    *start* and *end* are offsets in the document (in the memory's text, where there is none); *span* are the same
    offsets within the item's text.
    """

    quote: str
    start: int
    end: int
    span: tuple[int, int]


def cite_item(item: ContextItem, start: int = 0, end: int | None = None) -> AnswerCitation:
    """Return a citation of *item*, from *start* to *end* of its text (None: to its end)."""
    end = len(item.text) if end is None else end
    return AnswerCitation(
        number=item.number,
        id=item.id,
        quote=quoted_text(item.text, start, end),
        start=item.start + start,
        end=item.start + end,
        span=(start, end),
        lane=item.lane,
        source=item.source,
        title=item.title,
        page=item.page_at(start),
        line=item.line_at(start),
        anchor=item.anchor,
        heading=item.heading,
        speaker=item.speaker or item.role,
        session=item.session,
        date=item.date,
        score=item.score,
    )


def citations_in(text: str, items: Sequence[ContextItem]) -> tuple[AnswerCitation, ...]:
    """Return the items that *text* cites as [N], each once, in the order of the text."""
    numbered = {item.number: item for item in items}
    numbers = dict.fromkeys(int(mark) for mark in _CITATION_MARKER.findall(text))
    return tuple(cite_item(numbered[number]) for number in numbers if number in numbered)


def item_from_hit(hit: Hit, number: int) -> ContextItem:
    """Return a recalled memory as an item."""
    passages = passages_of([hit])
    if passages:
        trust = hit.memory.trust.value
        return replace(item_from_passage(passages[0]), number=number, score=hit.score, trust=trust)
    memory = hit.memory
    return ContextItem(
        number=number,
        id=memory.id,
        text=memory.text,
        lane=hit.partition,
        end=len(memory.text),
        role=memory.role or "",
        speaker=memory.speaker or "",
        session=memory.session,
        sequence=memory.sequence,
        date=memory.occurred_at or memory.recorded_at,
        trust=memory.trust.value,
        score=hit.score,
        outdated_by=hit.outdated_by,
        later_than=hit.later_than,
        likely_change=hit.likely_change,
    )


def with_standing(
    items: Sequence[ContextItem], zone: tzinfo | None = None, *, today: datetime | None = None
) -> list[ContextItem]:
    """Return *items*, dated in *zone* (None: that of the machine), with their standing.

    It says which of a subject is current, and until when the others held. Days of the year of *today* lack the year.
    """
    dated = [item if item.date is None else replace(item, date=to_zone(item.date, zone)) for item in items]
    days = {item.id: _day_in_words(item.date, today) for item in dated if item.date is not None}
    newest = {item.outdated_by for item in dated}
    standings = []
    for item in dated:
        standing = "current" if item.id in newest else ""
        if item.outdated_by is not None:
            standing = f"until {days[item.outdated_by]}" if item.outdated_by in days else "outdated"
        standings.append(replace(item, day="" if item.source else days.get(item.id, ""), standing=standing))
    return standings


def _day_in_words(date: datetime, today: datetime | None) -> str:
    return f"{date.day} {date:%b}" + ("" if today is not None and date.year == today.year else f" {date.year}")


def numbered_items(items: Sequence[ContextItem], cited: Mapping[str, int]) -> list[ContextItem]:
    """Return *items* with numbers: one that was *cited* before, by its id, keeps its own; the others get free ones."""
    free = (number for number in count(1) if number not in cited.values())
    return [replace(item, number=cited[item.id] if item.id in cited else next(free)) for item in items]


def item_from_passage(passage: Passage) -> ContextItem:
    """Return a passage of a document as an item."""
    return ContextItem(
        number=0,
        id=passage.id,
        text=passage.text,
        lane="documents",
        source=passage.document,
        title=passage.title,
        page=passage.page,
        line=passage.line,
        anchor=passage.anchor,
        heading=passage.heading,
        start=passage.start,
        end=passage.end,
        page_breaks=passage.page_breaks,
        trust="document",
        score=passage.score,
    )
