"""Quotes that answer a question without a model: chosen from recalled items, character for character. Pure but for the
comparison by meaning, which the grounding brings.

A wrong guess at what is a question costs little: a question taken for a statement is stored and acknowledged, a
statement taken for a question is stored and answered with quotes about it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tellback.agent.context_items import AnswerCitation, ContextItem, Grounding, Sourced, cite_item
from tellback.agent.errors import ArgumentError
from tellback.memory import Passage
from tellback.memory.internals import (
    QUOTE_LIMIT,
    AnswerSentence,
    analyze_text,
    best_sentences,
    lexicon_for,
    whole_list,
    with_meaning,
)
from tellback.vectorstore import Analyzer

_ASKS_WHAT_WAS_SAID = re.compile(
    r"\b(?:what did (?:i|we) (?:say|tell|note|write|do)|was (?:habe ich|haben wir)"
    r"|qué (?:dije|hice|dijimos|hicimos))\b",
    re.IGNORECASE,
)
_NAMING = "name named call called"
"""Words that ask for a name and are no topic."""


def is_question(text: str) -> bool:
    """Return whether *text* asks something, or tells to do something, rather than that it states something."""
    return analyze_text(text).asks


_WHOLE_LENGTH = 240
"""Characters up to which a memory is quoted whole; of a longer one, only the sentence that answers."""
_CERTAIN_SCORE_SHARE = 0.8
"""Share of the best score from which an item of another source is quoted beside the best; and another memory,
where several things are asked for."""
_COMPARED_PASSAGES = 5
"""Best passages whose sentences compete for the quote."""
_NEARLY_AS_GOOD = 0.05
"""How far the score of a second sentence may be below the first, for both to be quoted."""
_NEAREST = 3
"""Memories quoted where the first is rather not the answer: as many as confidence looks at."""
_LISTED_PASSAGES = 3
"""Passages of documents quoted where several things are asked for: each of them is a list by itself."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A quoted part of an item, and the words that go before it."""

    citation: AnswerCitation
    lead: str = ""


class QuoteSelector:
    """Chooses at most *quotes* quotes, each of at most *limit* characters; beside the first only those of items that
    score at least *share* of it. Words are compared as ``Grounding.analyzer`` does, else as English."""

    def __init__(self, *, quotes: int = 6, limit: int = QUOTE_LIMIT, share: float = 0.5) -> None:
        if type(quotes) is not int or quotes < 1:
            raise ArgumentError("quotes", quotes, "at least 1 is needed")
        if type(limit) is not int or limit < 40:
            raise ArgumentError("limit", limit, "at least 40 characters are needed")
        if not 0 <= share <= 1:
            raise ArgumentError("share", share, "a number in [0, 1] is needed")
        self._quotes = quotes
        self._limit = limit
        self._share = share
        self._analyzer = Analyzer()

    def is_about(self, quotes: Sequence[Quote], grounding: Grounding) -> bool:
        """Return whether *quotes* answer a request ("show me the boats"): not doubted, and with a word in common."""
        terms = (grounding.analyzer or self._analyzer).terms
        asked = set(terms(grounding.question))
        return grounding.abstain is None and any(asked.intersection(terms(quote.citation.quote)) for quote in quotes)

    async def choose(self, question: str, grounding: Grounding) -> list[Quote]:
        """Return the quotes, best first; in doubt only the nearest."""
        question_text = _comparable_text(question)
        items = [item for item in grounding.items if _comparable_text(item.text) != question_text]
        candidates = sorted(
            [item for item in items if not _is_stored_question(item)] or items, key=lambda item: -item.score
        )
        if not candidates:
            return []
        best = candidates[0]
        second: AnswerCitation | None = None
        if best.lane == "documents":
            first, second = await self._best_of_documents(question, candidates, grounding)
        else:
            first = self._quote(question, best, grounding)
        if grounding.abstain is not None:
            return [Quote(first)] if first.quote else []
        pair = _pair_in_time(best, candidates)
        if pair is not None:
            return self._quotes_in_time(question, best, pair, grounding)
        change = next((item for item in candidates if item.later_than == best.id), None)
        if change is not None and self._quotes > 1 and _day(change) != _day(best):
            later = f"Later, on {_day(change)}: " if _day(change) else "Later: "
            return [Quote(first), Quote(self._quote(question, change, grounding), later)]
        others = [
            self._quote(question, item, grounding) for item in self._beside(question, first, candidates, grounding)
        ]
        others = [other for other in others if self._says_as_much(other, first, question, grounding)]
        if not grounding.likely and len(others) < _NEAREST - 1:
            near = [item for item in candidates[1:] if item.score >= best.score * self._share and not _asks(item)]
            most = min(self._quotes, _NEAREST)
            others = [self._quote(question, item, grounding) for item in near[: most - 1]]
        if not others and second is not None and self._quotes > 1:
            others = [second]
        return [Quote(citation) for citation in (first, *others) if citation.quote]

    def _says_as_much(self, other: AnswerCitation, first: AnswerCitation, question: str, grounding: Grounding) -> bool:
        """Return whether *other* may be quoted beside *first*, where one of them is from a document.

        Beside a document, it must hold half of the words of the question that *first* holds; beside a memory, two words
        and more than half of all: what merely shares a word with a question about oneself is not about it.
        """
        if "documents" not in (first.lane, other.lane):
            return True
        if other.quote.startswith("|"):  # the row of a table alone says little beside an answer
            return False
        terms = (grounding.analyzer or self._analyzer).terms
        asked, held = set(terms(question)), set(terms(other.quote))
        if first.lane == "documents":
            answered = asked.intersection(terms(first.quote))
            return 2 * len(answered & held) >= len(answered)
        return len(asked & held) >= 2 and 2 * len(asked & held) > len(asked)

    async def _best_of_documents(
        self, question: str, candidates: Sequence[ContextItem], grounding: Grounding
    ) -> tuple[AnswerCitation, AnswerCitation | None]:
        """Return the sentence that answers best among those of the best passages, and another that does nearly so."""
        floor = candidates[0].score * self._share
        items = [item for item in candidates if item.lane == "documents" and item.score >= floor][:_COMPARED_PASSAGES]
        sentences = self._sentences(question, items or candidates[:1], grounding)
        if grounding.similarities is not None and len(sentences) > 1:
            sentences = await with_meaning(question, [item.text for item in items], sentences, grounding.similarities)
        if not sentences:
            return cite_item(candidates[0], 0, 0), None
        text = items[sentences[0].passage].text
        analyzer = grounding.analyzer or self._analyzer
        whole = whole_list(question, text, sentences[0], analyzer=analyzer, limit=self._limit)
        if grounding.abstain is None and whole is not sentences[0]:
            return _cite_sentence(items, whole), None
        first = _cite_sentence(items, sentences[0])
        near = [sentence for sentence in sentences[1:] if sentence.score >= sentences[0].score - _NEARLY_AS_GOOD]
        quotes = (_cite_sentence(items, sentence) for sentence in near)
        return first, next((quote for quote in quotes if not _overlap(first, quote)), None)

    def _beside(
        self, question: str, first: AnswerCitation, candidates: Sequence[ContextItem], grounding: Grounding
    ) -> list[ContextItem]:
        """Return the items to quote after *first*: several where the question asks for several, else one of another
        source that fits as well."""
        analyzer = grounding.analyzer or self._analyzer
        terms = set(analyzer.terms(question))
        best = candidates[0]
        if best.score <= 0:
            return []
        near = [item for item in candidates if item.id != first.id and item.score >= best.score * self._share]
        if _ASKS_WHAT_WAS_SAID.search(question):
            return [item for item in near if _day(item) == _day(best)][: self._quotes - 1]
        lexicon = lexicon_for(analyzer.language)
        light = " ".join(lexicon.light_verb.findall(question))
        terms -= set(analyzer.terms(f"{_NAMING} {light}"))
        others = [item for item in near if terms.intersection(analyzer.terms(item.text))]
        counts = first.lane == "documents" and lexicon.asks_number.search(question)
        certain = best.score * _CERTAIN_SCORE_SHARE
        if first.lane == "documents":  # where something is listed there, one place has the list
            others = [item for item in others if item.score >= certain]
        if lexicon.asks_several.search(question) and not counts:
            if first.lane == "documents":
                return others[: min(self._quotes, _LISTED_PASSAGES) - 1]
            return [item for item in near if item.score >= certain][: self._quotes - 1]
        return [item for item in others if item.lane != first.lane and item.score >= certain][
            : min(1, self._quotes - 1)
        ]

    def _quotes_in_time(
        self, question: str, best: ContextItem, pair: tuple[ContextItem, ContextItem], grounding: Grounding
    ) -> list[Quote]:
        """Return the newer and the older statement of *pair*, the *best* one first."""
        newer, older = (self._quote(question, item, grounding) for item in pair)
        day = f" {_day(newer)}" if _day(newer) != _day(older) else ""
        if self._quotes == 1:
            return [Quote(newer if best is pair[0] else older)]
        if best is pair[0]:
            return [Quote(newer, f"Since{day}: " if day else "Now: "), Quote(older, "Before: ")]
        return [Quote(older, f"Until{day}: " if day else "Before: "), Quote(newer, "Since then: ")]

    def _quote(self, question: str, item: ContextItem, grounding: Grounding) -> AnswerCitation:
        """Return the part of *item* that is about *question*; a short memory whole."""
        if item.lane == "conversation" and len(item.text) <= min(_WHOLE_LENGTH, self._limit):
            return cite_item(item)
        sentences = self._sentences(question, [item], grounding)
        return _cite_sentence([item], sentences[0]) if sentences else cite_item(item, 0, 0)

    def _sentences(self, question: str, items: Sequence[ContextItem], grounding: Grounding) -> list[AnswerSentence]:
        passages = [
            Passage(
                id=item.id,
                text=item.text,
                document=item.source,
                title=item.title,
                heading=item.heading,
                score=item.score,
            )
            for item in items
        ]
        return best_sentences(question, passages, analyzer=grounding.analyzer or self._analyzer, limit=self._limit)


def _cite_sentence(items: Sequence[ContextItem], sentence: AnswerSentence) -> AnswerCitation:
    return cite_item(items[sentence.passage], sentence.leads_in, sentence.end)


def _overlap(first: AnswerCitation, second: AnswerCitation) -> bool:
    """Return whether two quotes share a part of a passage, or one says no more than the other."""
    if first.id == second.id and first.span[0] < second.span[1] and second.span[0] < first.span[1]:
        return True
    texts = [_comparable_text(quote.quote) for quote in (first, second)]
    return min(texts, key=len) in max(texts, key=len)


def _pair_in_time(best: ContextItem, candidates: Sequence[ContextItem]) -> tuple[ContextItem, ContextItem] | None:
    """Return (newer, older) where *best* and another candidate state the same at different times."""
    for item in candidates:
        if best.outdated_by == item.id and item.likely_change:
            return item, best
    return next(((best, item) for item in candidates if item.outdated_by == best.id and best.likely_change), None)


def _day(item: Sourced) -> str:
    """Return the day of an item in words, empty where it has none."""
    return "" if item.date is None else f"{item.date.day} {item.date:%B %Y}"


def _asks(item: ContextItem) -> bool:
    return item.lane == "conversation" and analyze_text(item.text).asks


def _is_stored_question(item: ContextItem) -> bool:
    """Return whether *item* is a question of an earlier conversation, which answers nothing."""
    return item.lane == "conversation" and not analyze_text(item.text).utterance.kind.is_evidence


def _comparable_text(text: str) -> str:
    return " ".join("".join(character if character.isalnum() else " " for character in text.casefold()).split())
