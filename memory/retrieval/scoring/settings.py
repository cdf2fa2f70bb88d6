"""Settings of retrieval: weights of features, bounds of abstention, limits; measured on several kinds of data."""

from __future__ import annotations

from dataclasses import dataclass, field

from memory.errors import ArgumentError
from memory.retrieval.scoring.confidence import bound_for_size


def check_whole_number(argument: str, value: object, least: int = 0) -> None:
    """Raise unless *value* is a whole number of *least* or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ArgumentError(argument, value, f"a whole number of {least} or more is needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationWeights:
    """What each signal adds to the score of a turn; each signal is in [0, 1] or a cosine."""

    words: float = 1.0
    cosine: float = 0.45
    speaker: float = 0.3
    participant: float = 0.3
    asked: float = 0.5
    session: float = 0.4
    session_several: float = 0.25
    ends_asking: float = -0.12
    echo: float = -1.0
    """Of a question that was asked before in the same words."""
    first_person: float = 0.12
    time: float = 0.3
    time_number: float = 0.7
    place: float = 0.2
    number: float = 0.15
    date: float = 0.5
    feedback: float = 0.2
    recency: float = 0.05
    later: float = -1.0
    newest: float = 1.0
    """0: older statements do not make way for newer ones."""
    text: float = 0.15
    word_window: tuple[float, float, float, float] = (0.7, 0.5, 0.65, 0.45)
    """Part of a word that counts when it stands one turn before, one after, two before, two after."""
    cosine_window: tuple[float, float, float, float] = (0.4, 0.3, 0.2, 0.15)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentWeights:
    """What each signal adds to the score of a document's chunk."""

    passage: float = 0.7
    words: float = 0.7
    pairs: float = 0.5
    text: float = 0.5
    cosine: float = 0.6
    meaning: float = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstentionBounds:
    """Below what a recall says that nothing here may answer; each was set to refuse one in twenty wrongly.

    The first four bound how far the best candidate is about the question, with vectors and by words alone
    (``confidence.about``); they suit the local embedder. Among few memories they are lower (``confidence.among``),
    by the two *few*. *lead* bounds how far others' memories may be ahead.
    """

    conversation: float = 0.273
    conversation_words: float = 0.208
    document: float = 0.37
    document_words: float = 0.302
    few: float = 0.26
    few_documents: float = 0.1
    lead: float = -0.13

    def of_conversation(self, count: int) -> tuple[float, float]:
        """Return where doubt begins among *count* turns, with vectors and by words alone."""
        return bound_for_size(count, self.conversation, self.few), bound_for_size(
            count, self.conversation_words, self.few
        )

    def of_documents(self, count: int) -> tuple[float, float]:
        """Return where doubt begins among *count* chunks, with vectors and by words alone."""
        return bound_for_size(count, self.document, self.few_documents), bound_for_size(
            count, self.document_words, self.few_documents
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """How recall searches; the defaults are meant to be left alone.

    So many a channel (words, vectors) are scored: turns (*candidates*, with their neighbours) and chunks of
    documents (*document_candidates*).
    """

    candidates: int = 200
    document_candidates: int = 100
    conversation: ConversationWeights = field(default_factory=ConversationWeights)
    documents: DocumentWeights = field(default_factory=DocumentWeights)
    doubt: AbstentionBounds = field(default_factory=AbstentionBounds)

    def __post_init__(self) -> None:
        check_whole_number("candidates", self.candidates, 1)
        check_whole_number("document_candidates", self.document_candidates, 1)
