"""The memory layer of Tellback: what is said and read is kept, found again, corrected and forgotten.

>>> from memory import open_memory, run_sync
>>> memory = open_memory("assistant.db")
>>> report = run_sync(memory.remember("I moved to Lisbon."))
>>> run_sync(memory.recall("Where do I live?"))[0].memory.text
'I moved to Lisbon.'

Longer than other files, since every public name stands here twice: for type checkers and in ``__all__``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from memory.chunking.markdown import MarkdownChunker
    from memory.chunking.protocol import Chunk, Chunker
    from memory.chunking.text import TextChunker
    from memory.documents.citations import Citation, cite
    from memory.documents.discovery import report_unreadable
    from memory.documents.document import Document, Passage, Passages, passages_of
    from memory.documents.ingest_report import IngestAction, IngestLine, IngestProgress, IngestReport
    from memory.documents.knowledge_base import DocumentInfo, KnowledgeBase
    from memory.documents.loaders.base import LoadedDocument, Loader
    from memory.embedders.cache import CachedEmbedder, EmbeddingCache
    from memory.embedders.cache_sqlite import SqliteEmbeddingCache
    from memory.embedders.fallback import FallbackEmbedder
    from memory.embedders.fingerprint import embedder_space
    from memory.embedders.function import FunctionEmbedder
    from memory.embedders.hashing import HashingEmbedder
    from memory.embedders.local import LocalEmbedder, LocalWordVectors, local_available
    from memory.embedders.ollama import OllamaEmbedder
    from memory.embedders.openai_compatible import OpenAICompatibleEmbedder
    from memory.embedders.protocol import (
        DetailedEmbedder,
        Embedder,
        EmbeddingKind,
        Embeddings,
        Truncation,
        WordVectors,
        embed_detailed,
    )
    from memory.erasure.receipt import read_receipt, receipt_text
    from memory.errors import (
        ArgumentError,
        CannotUndo,
        DuplicateKey,
        EmbedderChanged,
        EmbedderError,
        EmbedderMismatch,
        FilterError,
        HttpConnectError,
        HttpError,
        HttpStatusError,
        HttpTimeout,
        LoadError,
        MemoryLayerError,
        NoSuchMemory,
        NotTrusted,
        RejectedText,
        StoreError,
        TokenizerUnavailable,
        UnreadableExport,
    )
    from memory.evaluation.bootstrap import ConfidenceInterval, bootstrap
    from memory.evaluation.evaluation import Evaluation, EvaluationLine, evaluate
    from memory.export_import.report import ExportReport, ImportLine, ImportReport
    from memory.history.protocol import (
        Conversation,
        HistoryStorage,
        SessionInfo,
        StoredMessage,
        Summary,
        SummaryStorage,
    )
    from memory.history.retention import Retention
    from memory.history.short_term import ShortTermMemory
    from memory.history.sqlite import SqliteHistory
    from memory.history.summary_window import Summarizer, SummaryWindow
    from memory.history.sync_history import InMemoryHistory
    from memory.history.windows import (
        ChainedWindow,
        ConversationWindowPolicy,
        FixedWindow,
        FullWindow,
        TokenWindow,
        Window,
        WindowPolicy,
        window_of,
    )
    from memory.http.requests import is_loopback, is_remote
    from memory.long_term import LongTermMemory
    from memory.messages import (
        QUOTES,
        RECALLED,
        TRUST,
        USED,
        Block,
        DocumentBlock,
        ImageBlock,
        Message,
        Role,
        TextBlock,
        ThinkingBlock,
        ToolCallBlock,
        ToolResultBlock,
    )
    from memory.models import Actor, Memory, MemoryChange, Operation, Source, Trust
    from memory.open import open_memory
    from memory.results import (
        ErasureVerification,
        ExternalCopy,
        Hit,
        MemoryHistory,
        MemoryPage,
        Omitted,
        Outcome,
        RecallResult,
        RecallStage,
        Receipt,
        Remnant,
        Report,
        Stats,
        TermMatch,
        WhyNot,
    )
    from memory.retrieval.hooks import RecallHooks
    from memory.retrieval.scoring.settings import RecallSettings
    from memory.runtime import run_in_thread, run_sync
    from memory.scopes import Scopes
    from memory.secrets.checks import has_luhn_checksum
    from memory.secrets.patterns import SecretKind
    from memory.secrets.scanner import SecretSpan, find_secrets, redact_secrets
    from memory.timestamps import Clock, system_clock
    from memory.tokens.counter import TokenCounter, default_counter, message_tokens
    from memory.tokens.estimating_counter import EstimatingCounter
    from memory.tokens.tiktoken_counter import TiktokenCounter
    from memory.write.access_control import may_change
    from memory.write.embedding_backfill import BackfillReport
    from memory.write.embedding_service import EmbeddingSettings
    from memory.write.policies import (
        Action,
        ExtractedFact,
        Extractor,
        Judge,
        LookupPolicy,
        MemoryLookup,
        MemoryTurn,
        MinimumLength,
        NearDuplicates,
        NoSecrets,
        PolicyDecision,
        SimilarMemory,
        StoreAlways,
        TurnDecision,
        TurnPolicy,
        WritePolicy,
    )
    from memory.write.reembed import ReembeddingProgress, ReembeddingReport

__all__ = [  # noqa: RUF022 - in plain order, capitals too
    "Action",
    "Actor",
    "ArgumentError",
    "Block",
    "CachedEmbedder",
    "CannotUndo",
    "ChainedWindow",
    "MemoryChange",
    "Chunk",
    "Chunker",
    "Citation",
    "Clock",
    "Conversation",
    "ConversationWindowPolicy",
    "PolicyDecision",
    "DetailedEmbedder",
    "Document",
    "DocumentBlock",
    "DocumentInfo",
    "DuplicateKey",
    "Embedder",
    "EmbedderChanged",
    "EmbedderError",
    "EmbedderMismatch",
    "EmbeddingCache",
    "EmbeddingKind",
    "EmbeddingSettings",
    "Embeddings",
    "EstimatingCounter",
    "Evaluation",
    "EvaluationLine",
    "ExportReport",
    "Extractor",
    "ExtractedFact",
    "FallbackEmbedder",
    "FilterError",
    "FixedWindow",
    "BackfillReport",
    "Receipt",
    "RecallResult",
    "FunctionEmbedder",
    "HashingEmbedder",
    "MemoryHistory",
    "HistoryStorage",
    "Hit",
    "HttpConnectError",
    "HttpError",
    "HttpStatusError",
    "HttpTimeout",
    "ImageBlock",
    "ImportLine",
    "ImportReport",
    "InMemoryHistory",
    "IngestAction",
    "IngestLine",
    "IngestProgress",
    "IngestReport",
    "ConfidenceInterval",
    "Judge",
    "FullWindow",
    "KnowledgeBase",
    "Remnant",
    "Omitted",
    "LoadError",
    "LoadedDocument",
    "Loader",
    "LocalEmbedder",
    "LocalWordVectors",
    "LongTermMemory",
    "LookupPolicy",
    "MarkdownChunker",
    "TermMatch",
    "Memory",
    "MemoryLayerError",
    "Message",
    "MinimumLength",
    "SimilarMemory",
    "NearDuplicates",
    "NoSecrets",
    "NoSuchMemory",
    "NotTrusted",
    "OllamaEmbedder",
    "OpenAICompatibleEmbedder",
    "Operation",
    "Outcome",
    "MemoryPage",
    "Passage",
    "Passages",
    "QUOTES",
    "RECALLED",
    "WindowPolicy",
    "RecallHooks",
    "RecallSettings",
    "ReembeddingReport",
    "ReembeddingProgress",
    "RejectedText",
    "Report",
    "Retention",
    "Role",
    "Scopes",
    "SecretKind",
    "SecretSpan",
    "SessionInfo",
    "ShortTermMemory",
    "Source",
    "SqliteEmbeddingCache",
    "SqliteHistory",
    "RecallStage",
    "Stats",
    "StoreAlways",
    "StoreError",
    "MemoryLookup",
    "StoredMessage",
    "Summarizer",
    "Summary",
    "SummaryStorage",
    "SummaryWindow",
    "TRUST",
    "TextBlock",
    "TextChunker",
    "ThinkingBlock",
    "TiktokenCounter",
    "TokenCounter",
    "TokenWindow",
    "TokenizerUnavailable",
    "ToolCallBlock",
    "ToolResultBlock",
    "Truncation",
    "Trust",
    "MemoryTurn",
    "TurnDecision",
    "TurnPolicy",
    "USED",
    "ExternalCopy",
    "UnreadableExport",
    "ErasureVerification",
    "WhyNot",
    "Window",
    "WordVectors",
    "WritePolicy",
    "bootstrap",
    "cite",
    "default_counter",
    "embed_detailed",
    "embedder_space",
    "evaluate",
    "run_in_thread",
    "is_loopback",
    "is_remote",
    "local_available",
    "has_luhn_checksum",
    "may_change",
    "message_tokens",
    "open_memory",
    "passages_of",
    "read_receipt",
    "receipt_text",
    "run_sync",
    "find_secrets",
    "system_clock",
    "report_unreadable",
    "window_of",
    "redact_secrets",
]

_NAMES: Final = {
    "memory.chunking.markdown": "MarkdownChunker",
    "memory.chunking.protocol": "Chunk Chunker",
    "memory.chunking.text": "TextChunker",
    "memory.documents.citations": "Citation cite",
    "memory.documents.discovery": "report_unreadable",
    "memory.documents.document": "Document Passage Passages passages_of",
    "memory.documents.ingest_report": "IngestAction IngestLine IngestProgress IngestReport",
    "memory.documents.knowledge_base": "DocumentInfo KnowledgeBase",
    "memory.documents.loaders.base": "LoadedDocument Loader",
    "memory.embedders.cache": "CachedEmbedder EmbeddingCache",
    "memory.embedders.cache_sqlite": "SqliteEmbeddingCache",
    "memory.embedders.fallback": "FallbackEmbedder",
    "memory.embedders.fingerprint": "embedder_space",
    "memory.embedders.function": "FunctionEmbedder",
    "memory.embedders.hashing": "HashingEmbedder",
    "memory.embedders.local": "LocalEmbedder LocalWordVectors local_available",
    "memory.embedders.ollama": "OllamaEmbedder",
    "memory.embedders.openai_compatible": "OpenAICompatibleEmbedder",
    "memory.embedders.protocol": (
        "DetailedEmbedder Embedder EmbeddingKind Embeddings Truncation WordVectors embed_detailed"
    ),
    "memory.erasure.receipt": "read_receipt receipt_text",
    "memory.errors": (
        "ArgumentError CannotUndo DuplicateKey EmbedderChanged EmbedderError EmbedderMismatch FilterError "
        "HttpConnectError HttpError HttpStatusError HttpTimeout LoadError MemoryLayerError NoSuchMemory "
        "NotTrusted RejectedText StoreError TokenizerUnavailable UnreadableExport"
    ),
    "memory.evaluation.bootstrap": "ConfidenceInterval bootstrap",
    "memory.evaluation.evaluation": "Evaluation EvaluationLine evaluate",
    "memory.export_import.report": "ExportReport ImportLine ImportReport",
    "memory.history.protocol": "Conversation HistoryStorage SessionInfo StoredMessage Summary SummaryStorage",
    "memory.history.retention": "Retention",
    "memory.history.short_term": "ShortTermMemory",
    "memory.history.sqlite": "SqliteHistory",
    "memory.history.summary_window": "Summarizer SummaryWindow",
    "memory.history.sync_history": "InMemoryHistory",
    "memory.history.windows": (
        "ChainedWindow ConversationWindowPolicy FixedWindow FullWindow TokenWindow Window WindowPolicy window_of"
    ),
    "memory.http.requests": "is_loopback is_remote",
    "memory.long_term": "LongTermMemory",
    "memory.messages": (
        "Block DocumentBlock ImageBlock Message QUOTES RECALLED Role TRUST TextBlock ThinkingBlock ToolCallBlock "
        "ToolResultBlock USED"
    ),
    "memory.models": "Actor Memory MemoryChange Operation Source Trust",
    "memory.open": "open_memory",
    "memory.results": (
        "ErasureVerification ExternalCopy Hit MemoryHistory MemoryPage Omitted Outcome RecallResult RecallStage "
        "Receipt Remnant Report Stats TermMatch WhyNot"
    ),
    "memory.retrieval.hooks": "RecallHooks",
    "memory.retrieval.scoring.settings": "RecallSettings",
    "memory.runtime": "run_in_thread run_sync",
    "memory.scopes": "Scopes",
    "memory.secrets.checks": "has_luhn_checksum",
    "memory.secrets.patterns": "SecretKind",
    "memory.secrets.scanner": "SecretSpan find_secrets redact_secrets",
    "memory.timestamps": "Clock system_clock",
    "memory.tokens.counter": "TokenCounter default_counter message_tokens",
    "memory.tokens.estimating_counter": "EstimatingCounter",
    "memory.tokens.tiktoken_counter": "TiktokenCounter",
    "memory.write.access_control": "may_change",
    "memory.write.embedding_backfill": "BackfillReport",
    "memory.write.embedding_service": "EmbeddingSettings",
    "memory.write.policies": (
        "Action ExtractedFact Extractor Judge LookupPolicy MemoryLookup MemoryTurn MinimumLength NearDuplicates "
        "NoSecrets PolicyDecision SimilarMemory StoreAlways TurnDecision TurnPolicy WritePolicy"
    ),
    "memory.write.reembed": "ReembeddingProgress ReembeddingReport",
}
"""The public names, by where they are."""
_WHERE: Final = {name: part for part, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import what is asked for: a program that only recalls starts without clients, loaders and evaluation."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
