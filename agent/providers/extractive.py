"""Extractive answers without a model: a question is answered by a quote of a recalled item, a statement is noted.

The provider reads recalled items as data (``Request.grounding``) and says beside the quote only how sure it is, and
when it held. It calls no tools and never quotes the present turn. What is quoted is chosen in ``quoting``.

    >>> from tellback.agent import Request
    >>> from tellback.agent.context_items import ContextItem, Grounding
    >>> from tellback.agent.providers.accumulator import collect_response
    >>> from tellback.memory import Message, run_sync
    >>> item = ContextItem(1, "m1", "I moved to Lisbon in May.", speaker="Ana")
    >>> request = Request((Message.user("Where do I live?"),), grounding=Grounding(items=(item,)))
    >>> print(run_sync(collect_response(QuotingProvider(), request)).text)
    “I moved to Lisbon in May.” [1]
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from dataclasses import replace

from tellback.agent.context_items import AnswerCitation, Grounding
from tellback.agent.providers.base import CitationPiece, Delta, Request, StopPiece, StoredReply, TextPiece
from tellback.agent.quoting import QuoteSelector, is_question
from tellback.agent.results import StopReason
from tellback.memory.internals import QUOTE_LIMIT, UtteranceKind, analyze_text, with_days

NOTHING_TO_NOTE_TEXT = "Nothing to note; it stays in the conversation."
NO_COMMANDS_TEXT = "That takes a model. Without one, I keep what you tell me and answer questions with quotes of it."
ABOUT_TEXT = "I keep what you tell me, and answer questions with quotes of it. With a model, I can do more."
THANKED_TEXT = "You are welcome."
GREETING_TEXT = "Hello. Tell me what I should remember, or ask me about it."
_THANKS = re.compile(
    r"\W*(?:many )?(?:thanks|thank you|thx|ta|cheers|danke|vielen dank|(?:muchas )?gracias|merci)\b", re.I
)
_ABOUT_ASSISTANT = re.compile(
    r"\W*(?:(?:hi|hello|hey|so|and),? )?(?:what (?:can|could|do) (?:you|u) (?:do|know how to do)|(?:who|what) are you"
    r"|help|how (?:does this|do you) work|how (?:do|can) i use (?:you|this)|was kannst du|wer bist du|hilfe"
    r"|qué puedes hacer|quién eres)\b(?: for me| exactly| here)?\W*",
    re.IGNORECASE,
)
_ASKS_DAY = re.compile(
    r"\W*(?:what(?:'s| is)? (?:the )?(?:day|date|time)(?: is it| is today)?(?: today| now)?|welcher tag ist heute"
    r"|wie spät ist es|qué (?:día|hora) es(?: hoy)?|quel jour on est|quelle heure est-il)\W*",
    re.IGNORECASE,
)
_GREETING = re.compile(
    r"\W*(?:hi|hiya|hello|hey|good (?:morning|day|afternoon|evening)|morning|hallo|moin|servus"
    r"|guten (?:morgen|tag|abend)|hola|buen[oa]s (?:días|tardes|noches)|bonjour|salut)\b",
    re.IGNORECASE,
)
NOTHING_FOUND_TEXT = "Nothing here is about this."
DOUBTFUL_TEXT = "I do not know that; the nearest is:"
UNSURE_TEXT = "I am not sure; it may be one of these:"
UNSURE_OF_ONE_TEXT = "I am not sure; perhaps:"
OTHER_SPEAKER_TEXT = "Something like it was said, but by or about someone else:"
_ECHO_LENGTH = 200
_STRONG = re.compile(r"(?<![*\w`])\*\*(?=\S)([^*\n]+)(?<=\S)\*\*(?![*\w`])")
_EMPHASIS = re.compile(r"(?<![*\w`])\*(\w(?:[\w -]*\w)?)\*(?![*\w`])")
_BULLET = re.compile(r"^[-*+\u2022]\s+")
_LISTED = re.compile(r"\n(?=[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]|[^:;\n]{1,80}: [^;\n]*; )")
_LINK = re.compile(r"(?<![!`])\[([^\[\]\n]+)\]\([^()\s]+\)(?!`)")


class QuotingProvider:
    """Provider that answers by quotes: no key, no download, no server.

    A question gets one quote: the memory, or the sentence of a passage, that answers it best; the three nearest where
    the best is rather not the answer. There are two where a
    newer and an older statement of the same thing are known, where a memory and a document both fit, or where two
    sentences of documents fit nearly as well; where the question asks for several things, at most *quotes*. Each has at
    most *limit* characters, and beside the first only those are given that score at least *share* of it. Words are
    compared as ``Grounding.analyzer`` does, else as English.
    """

    remote = False

    def __init__(self, *, quotes: int = 6, limit: int = QUOTE_LIMIT, share: float = 0.5) -> None:
        self._selector = QuoteSelector(quotes=quotes, limit=limit, share=share)

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Answer *request* with quotes, or acknowledge a statement."""
        grounding = request.grounding or Grounding()
        users = [message.text for message in request.messages if message.role == "user"]
        question = (grounding.question or "".join(users[-1:])).strip()
        if grounding.now is not None and _ASKS_DAY.fullmatch(question):
            yield TextPiece(f"It is {grounding.now:%A}, {grounding.now.day} {grounding.now:%B %Y, %H:%M}.")
            yield StoredReply(note="nothing to note")
        elif grounding.remembers and _ABOUT_ASSISTANT.fullmatch(question):
            yield TextPiece(ABOUT_TEXT)
            yield StoredReply(note="nothing to note")
        elif (grounding.remembers and not is_question(question)) or _chats(question):
            text, note = _acknowledgement(question, grounding)
            yield TextPiece(text)
            yield StoredReply(note=note)
        else:
            async for delta in self._quote(question, grounding):
                yield delta
        yield StopPiece(StopReason.STOP)

    async def _quote(self, question: str, grounding: Grounding) -> AsyncGenerator[Delta, None]:
        quotes = await self._selector.choose(question, grounding)
        asks_to_do = analyze_text(question).utterance.kind == UtteranceKind.COMMAND
        if asks_to_do and not self._selector.is_about(quotes, grounding):
            yield TextPiece(NO_COMMANDS_TEXT)
            quotes = []
        elif not quotes:
            yield TextPiece(NOTHING_FOUND_TEXT)
        elif grounding.abstain is not None:
            yield TextPiece(_doubt_in_words(grounding) + " ")
        elif not grounding.likely:
            yield TextPiece(f"{UNSURE_TEXT}\n" if len(quotes) > 1 else f"{UNSURE_OF_ONE_TEXT} ")
        # Numbered as they are shown: a reader of the answer sees no other numbers.
        cited = [replace(quote.citation, number=number) for number, quote in enumerate(quotes, start=1)]
        language = grounding.analyzer.language if grounding.analyzer is not None else "english"
        shown = [_shown_quote(citation, language) for citation in cited]
        for number, (quote, words) in enumerate(zip(quotes, shown, strict=True)):
            if words in shown[:number]:  # two files say the same: one quote names both
                continue
            same = [citation for citation, other in zip(cited, shown, strict=True) if other == words]
            marks = " ".join(f"[{citation.number}]" for citation in same)
            is_sure = grounding.abstain is None and grounding.likely
            doubted = not is_sure and quote.citation.date is not None
            origin = f" ({quote.citation.where})" if doubted else ""
            yield TextPiece(("\n" if number else "") + f"{quote.lead}“{words}” {marks}{origin}")
            for citation in same:
                yield CitationPiece(citation)
        yield StoredReply(note="quoted" if quotes else "nothing found")


def _chats(text: str) -> bool:
    return analyze_text(text).utterance.kind == UtteranceKind.SMALL_TALK


def _shown_quote(citation: AnswerCitation, language: str) -> str:
    """Return the quote on one line, but for a block of code in it, which keeps its lines, and a line an item of a list.

    A bullet, emphasis and links of a document in Markdown are shown as their words. In words of a conversation, a day
    that is relative to the day they were said is named.
    """
    prose, fence, code = citation.quote.partition("\n```")
    if citation.lane == "conversation" and citation.date is not None:
        prose = with_days(prose, language, citation.date.date())
    if citation.lane == "documents":
        for marked in (_LINK, _STRONG, _EMPHASIS):
            prose = marked.sub(r"\1", prose)
    lines = [" ".join(line.split()) for line in _LISTED.split(prose)]
    if citation.lane == "documents":
        lines = [_BULLET.sub("• " if len(lines) > 1 else "", line) for line in lines]
    return "\n".join(lines) + ("\n" + (fence + code).strip("\n") + "\n" if fence else "")


def _acknowledgement(text: str, grounding: Grounding) -> tuple[str, str]:
    """Return the reply to *text*, which is no question, and the note that history keeps in its place."""
    kind = analyze_text(text).utterance.kind
    if kind.is_evidence:
        kept = text if grounding.redact is None else grounding.redact(text)
        words = " ".join(kept.split())
        shown = words if len(words) <= _ECHO_LENGTH else words[: _ECHO_LENGTH - 1].rstrip() + "…"
        return f"Noted: “{shown}”", "acknowledged"
    if kind == UtteranceKind.COMMAND:
        reply = NO_COMMANDS_TEXT
    elif _THANKS.match(text):
        reply = THANKED_TEXT
    else:
        reply = GREETING_TEXT if _GREETING.match(text) else NOTHING_TO_NOTE_TEXT
    return reply, "nothing to note"


def _doubt_in_words(grounding: Grounding) -> str:
    return OTHER_SPEAKER_TEXT if grounding.abstain == "other" else DOUBTFUL_TEXT
