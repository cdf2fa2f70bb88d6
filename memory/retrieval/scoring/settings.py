"""Settings of retrieval: weights of features, bounds of abstention, limits; measured on several kinds of data."""

from __future__ import annotations

from dataclasses import dataclass, field

from tellback.memory.validation import checked_int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationWeights:
    """Weights of the features of a turn; each feature is in [0, 1] or a cosine."""

    words: float = 1.0
    cosine: float | None = None
    """None: what the profile of the embedder says, for turns and for notes."""
    speaker: float = 0.3
    participant: float = 0.3
    asked: float = 0.5
    session: float = 0.4
    session_several: float = 0.25
    """Weight of the session, for a question that asks for several things."""
    ends_asking: float = -0.12
    echo: float = -1.0
    """Weight of an earlier question in the same words."""
    first_person: float = 0.12
    time: float = 0.3
    time_number: float = 0.7
    place: float = 0.2
    number: float = 0.15
    date: float = 0.5
    feedback: float = 0.2
    spread: float = 1.0
    """0: where several things are asked for, the best hits may all be of one session."""
    recency: float = 0.05
    importance: float = 0.2
    """Share of a memory's score that lies between the importance 0 and 1; 0.5 leaves the score as it is."""
    later: float = -1.0
    excluded: float = -0.5
    """Share of the best score that a memory loses which has what the question sets aside ("besides Rome")."""
    text: float = 0.15
    word_window: tuple[float, float, float, float] = (0.7, 0.5, 0.65, 0.45)
    """Share of a word match that counts one turn before, one after, two before, two after."""
    cosine_window: tuple[float, float, float, float] = (0.4, 0.3, 0.2, 0.15)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentWeights:
    """Weights of the features of a document's chunk."""

    passage: float = 0.7
    words: float = 0.7
    pairs: float = 0.5
    text: float = 0.5
    cosine: float = 0.6
    meaning: float = 0.4


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstentionBounds:
    """Bounds below which a recall abstains; each was set to refuse one answerable question in twenty.

    The first four bound how far the best candidate is about the question, with vectors and by words alone
    (``confidence.topic_confidence``); they suit the local embedder. Among few memories they are lower
    (``confidence.bounds_for_size``), by the two *few*, and among many chunks of documents higher, by *many_documents*:
    chosen on questions of ``python -m benchmarks documents``, each asked of all four documentations. *lead* bounds how
    far the memories of other speakers may be ahead.
    """

    conversation: float = 0.273
    conversation_words: float = 0.208
    document: float = 0.37
    document_words: float = 0.302
    few: float = 0.26
    few_documents: float = 0.1
    many_documents: float = 0.05
    lead: float = -0.13


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """Settings of a memory's recall; the defaults are meant to be left alone.

    *candidates* and *document_candidates*: turns and chunks of documents that each search (text, vector) names for
    scoring; turns are scored with their neighbours.
    """

    candidates: int = 200
    document_candidates: int = 100
    conversation: ConversationWeights = field(default_factory=ConversationWeights)
    documents: DocumentWeights = field(default_factory=DocumentWeights)
    abstention: AbstentionBounds = field(default_factory=AbstentionBounds)

    def __post_init__(self) -> None:
        checked_int(self.candidates, "candidates", 1)
        checked_int(self.document_candidates, "document_candidates", 1)
