"""Extractive answers without a model: a question is answered by quotes of recalled items, a statement is noted.

The provider reads recalled items as data (``Request.context``) and adds no words of its own about them. It calls no
tools and never quotes the present turn. Questions are recognized by rules for a few languages; a wrong guess
costs little: a question taken for a statement is stored and acknowledged, a statement taken for a question is stored
and answered with quotes about it.

    >>> from agent import Request
    >>> from agent.context_items import ContextItem
    >>> from agent.providers.accumulator import collect_response
    >>> from memory import Message, run_sync
    >>> item = ContextItem(1, "m1", "I moved to Lisbon in May.", speaker="Ana")
    >>> request = Request((Message.user("Where do I live?"),), context=(item,))
    >>> print(run_sync(collect_response(QuotingProvider(), request)).text)
    “I moved to Lisbon in May.” [1]
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from agent.context_items import AnswerCitation, ContextItem, cite_item
from agent.errors import ArgumentError
from agent.providers.base import CitationPiece, Delta, Request, StopPiece, StoredReply, TextPiece
from agent.results import StopReason
from memory import Passage, cite
from memory.internals import classify_utterance
from vectorstore import Analyzer

# Question marks: Latin, full width, Arabic, doubled, Greek.
_QUESTION_MARK = re.compile("[?\uff1f\u061f\u2047\u037e](?=[\\s\"'\u201d\u2019\u00bb)\\]]|$)")
_LEADING_WORDS = re.compile(
    r"(?:[\W_]+|(?:and|but|so|then|ok|okay|well|hey|hi|hello|please|now|also|tellback)\b(?!'))*", re.IGNORECASE
)
_QUESTION_SUBJECTS = (
    r"i|you|he|she|it|we|they|there|this|that|these|those|the|my|your|our|his|her|their|any\w*|some\w*|every\w*|all"
)
_QUESTION_START = re.compile(
    r"(?:who|whom|whose|what|when|where|why|which|how)(?:'s|'re|'d|'ll)?\b"
    rf"|(?:do|does|did|is|are|was|were|am|can|could|will|would|should|shall|has|have|had)\s+(?:{_QUESTION_SUBJECTS})\b"
    r"|(?:tell|remind|show)\s+me\b(?!\s+to\b)|(?:list|find|search|summari[sz]e|explain|describe|quote)\s"
    r"|(?:wer|wen|wem|wessen|wann|wohin|woher|warum|wieso|weshalb|welche[rsnm]?)\b"
    r"|(?:qui|quoi|quand|où|pourquoi|combien|quels?|quelles?|est-ce)\b"
    r"|(?:quién|quiénes|qué|cuándo|dónde|cómo|cuánto|cuál|cuáles)\b"
    r"|(?:quando|dove|perché|quanto|quale|quali|quem|onde|qual|quais)\b",
    re.IGNORECASE,
)
_STATEMENT = re.compile(r"(?:when|where|how|what)\b.*,|(?:list|find|quote)\s.*\b(?:is|was|are|were)\b", re.IGNORECASE)


def is_question(text: str) -> bool:
    """Return whether *text* asks something: a question mark that ends a sentence, or words that begin a question."""
    bare = text.strip()
    if _QUESTION_MARK.search(bare):
        return True
    opening = bare[len(_LEADING_WORDS.match(bare)[0]) :]  # type: ignore[index]  # it matches the empty text too
    # "When I was young, we lived in Porto." and "What a day!" begin like questions and state something.
    return bool(_QUESTION_START.match(opening)) and not opening.endswith("!") and not _STATEMENT.match(opening)


NOTHING_TO_NOTE_TEXT = "Nothing to note; it stays in the conversation."
NOTHING_FOUND_TEXT = "Nothing here is about this."
DOUBTFUL_TEXT = "Nothing here seems to be about this; the nearest is:"
OTHER_SPEAKER_TEXT = "Something like it was said, but by or about someone else:"
_ECHO_LENGTH = 200
_CERTAIN_SCORE_SHARE = 0.8
"""Share of the best score from which a memory is quoted, too, without a term of the question."""
_NEAREST_TERM_SHARE = 1 / 3
"""Share of the question's terms that a memory must hold to be shown as the nearest, in doubt."""
_SMALL_MEMORY = 20
"""Memories up to which the nearest is always shown, in doubt: reading it costs less than missing it."""
_QUESTION_MARKS = ("?", "\uff1f", "\u061f")
TermFunction: TypeAlias = Callable[[str], Sequence[str]]


class QuotingProvider:
    """Provider that answers by quotes: no key, no download, no server.

    At most *quotes* memories or passages are quoted, each with at most *limit* characters; those that scored less
    than *share* of the best one are left out, and those below four fifths of it that share no term with the question.
    Words are compared as ``Request.analyzer`` does, else as English.
    """

    remote = False

    def __init__(self, *, quotes: int = 3, limit: int = 400, share: float = 0.5) -> None:
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

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Answer *request* with quotes, or acknowledge a statement."""
        users = [message.text for message in request.messages if message.role == "user"]
        question = (request.question or "".join(users[-1:])).strip()
        if request.remembers and not is_question(question):
            utterance = classify_utterance(question)
            if not utterance.kind.is_evidence:
                yield TextPiece(NOTHING_TO_NOTE_TEXT)
                yield StoredReply(note="nothing to note")
                yield StopPiece(StopReason.STOP)
                return
            kept = question if request.redact is None else request.redact(question)
            words = " ".join(kept.split())
            shown = words if len(words) <= _ECHO_LENGTH else words[: _ECHO_LENGTH - 1].rstrip() + "…"
            yield TextPiece(f"Noted: “{shown}”")
            yield StoredReply(note="acknowledged")
        else:
            quotes = self._choose(question, request)
            if quotes and request.abstain is not None:
                yield TextPiece((OTHER_SPEAKER_TEXT if request.abstain == "other" else DOUBTFUL_TEXT) + "\n")
            for index, quote in enumerate(quotes):
                # on one line, with its number, and its speaker where that is not clear
                words = " ".join(quote.quote.split())
                where = f" ({quote.where})" if request.abstain == "other" and quote.speaker else ""
                yield TextPiece(("\n" if index else "") + f"“{words}” [{quote.number}]{where}")
                yield CitationPiece(quote)
            if not quotes:
                yield TextPiece(NOTHING_FOUND_TEXT)
            yield StoredReply(note="quoted" if quotes else "nothing found")
        yield StopPiece(StopReason.STOP)

    def _choose(self, question: str, request: Request) -> list[AnswerCitation]:
        """Return the quotes, best first; in doubt only the best, and only if it may be about the question."""
        terms = (request.analyzer or self._analyzer).terms
        question_text, question_terms = _comparable_text(question), set(terms(question))
        items = [item for item in request.context if _comparable_text(item.text) != question_text]
        candidates = [item for item in items if not _is_stored_question(item)] or items
        if not candidates:
            return []
        if request.abstain == "nothing":
            few = request.searched is not None and request.searched <= _SMALL_MEMORY
            shared = len(_shared_terms(question_terms, candidates[0], terms))
            candidates = candidates[:1] if few or shared >= _NEAREST_TERM_SHARE * max(len(question_terms), 1) else []
        top = max((item.score for item in candidates), default=0.0)
        floor = top * self._share if top > 0 else top
        certain = top * _CERTAIN_SCORE_SHARE if top > 0 else top
        # An item that shares no term with the question and scored well below the best is only the next best guess.
        likely = [
            item
            for item in candidates
            if item.score >= floor
            and (item.score >= certain or not question_terms or _shared_terms(question_terms, item, terms))
        ]
        chosen = sorted(likely, key=lambda item: -item.score)[: self._quotes]
        quotes = [quote for item in chosen if (quote := self._quote(question, item, terms)).quote]
        # Numbered as they are shown: a reader of the answer sees no other numbers.
        return [replace(quote, number=number) for number, quote in enumerate(quotes, start=1)]

    def _quote(self, question: str, item: ContextItem, terms: TermFunction) -> AnswerCitation:
        """Return the part of *item* that is about *question*; a short memory whole."""
        if item.lane == "conversation" and len(item.text) <= self._limit:
            return cite_item(item)
        passage = Passage(id=item.id, text=item.text, document=item.source)
        citation = cite(question, [passage], terms=terms, limit=self._limit)[0]
        return cite_item(item, citation.start, citation.end)


def _is_stored_question(item: ContextItem) -> bool:
    """Return whether *item* is a question of an earlier conversation, which answers nothing."""
    if item.lane != "conversation":
        return False
    marked = any(mark in item.text for mark in _QUESTION_MARKS)
    return item.text.rstrip().endswith(_QUESTION_MARKS) if marked else is_question(item.text)


def _shared_terms(question_terms: set[str], item: ContextItem, terms: TermFunction) -> set[str]:
    """Return the terms of the question that *item* holds."""
    return question_terms.intersection(terms(item.text))


def _comparable_text(text: str) -> str:
    return " ".join("".join(character if character.isalnum() else " " for character in text.casefold()).split())
