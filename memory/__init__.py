"""The memory layer of Mneme: what is said and read is kept, found again, corrected and forgotten.

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
    from memory.embedders.cache import EmbeddingCache
    from memory.embedders.cache_tables import SqliteEmbeddingCache
    from memory.embedders.cached import CachedEmbedder
    from memory.embedders.details import DetailedEmbedder, Embeddings, Truncation, embed_detailed
    from memory.embedders.fallback import FallbackEmbedder
    from memory.embedders.function import FunctionEmbedder
    from memory.embedders.hashing import HashingEmbedder
    from memory.embedders.local import LocalEmbedder
    from memory.embedders.ollama import OllamaEmbedder
    from memory.embedders.openai_compatible import OpenAICompatibleEmbedder
    from memory.embedders.protocol import Embedder, EmbeddingKind, WordVectors
    from memory.embedders.remote import is_remote
    from memory.embedders.space import embedder_space
    from memory.embedders.static_table import local_available
    from memory.embedders.word_vectors import LocalWordVectors
    from memory.errors import (
        ArgumentError,
        CannotUndo,
        DuplicateKey,
        EmbedderChanged,
        EmbedderError,
        EmbedderMismatch,
        HttpConnectError,
        HttpError,
        HttpStatusError,
        HttpTimeout,
        LoadError,
        MemoryLayerError,
        NoSuchMemory,
        NotTrusted,
        RejectedText,
        TokenizerUnavailable,
        UnreadableExport,
    )
    from memory.estimating_counter import EstimatingCounter
    from memory.evaluating.evaluate import Evaluation, EvaluationLine, evaluate
    from memory.evaluating.intervals import Interval, bootstrap
    from memory.listed import History, Page, Stats
    from memory.long_term import LongTermMemory
    from memory.messages import (
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
    from memory.opening import open_memory
    from memory.policies.chain import Chain
    from memory.policies.fixed_window import FixedWindow
    from memory.policies.keep_all import KeepAll
    from memory.policies.protocol import ConversationPolicy, ReadPolicy, Window, window_of
    from memory.policies.summary import Summarise, SummaryWindow
    from memory.policies.token_window import TokenWindow
    from memory.portable.report import ExportReport, ImportLine, ImportReport
    from memory.rag.cite import Citation, cite
    from memory.rag.documents import Document
    from memory.rag.knowledge_base import DocumentInfo, KnowledgeBase
    from memory.rag.loaders.protocol import Loaded, Loader
    from memory.rag.passages import Passage, Passages, passages_of
    from memory.rag.report import IngestAction, IngestLine, IngestProgress, IngestReport
    from memory.rag.trial import unreadable
    from memory.recall.hooks import RecallHooks
    from memory.recall.settings import RecallSettings
    from memory.receipts import read_receipt, receipt_text
    from memory.records import (
        Actor,
        Change,
        Forgotten,
        Found,
        Hit,
        Left,
        LeftOut,
        Matched,
        Memory,
        Operation,
        Outcome,
        Report,
        Source,
        Stage,
        Trust,
        Unreached,
        Verified,
        WhyNot,
    )
    from memory.requests import is_loopback
    from memory.runtime import run_sync
    from memory.scopes import Scopes
    from memory.secret_finding import SecretSpan, secret_spans, without_secrets
    from memory.secret_kinds import SecretKind
    from memory.short_term import ShortTermMemory
    from memory.storage.conversation import Conversation
    from memory.storage.in_memory import InMemoryHistory
    from memory.storage.protocol import HistoryStorage, SessionInfo, StoredMessage
    from memory.storage.retention import Retention
    from memory.storage.sqlite import SqliteHistory
    from memory.storage.summaries import Summary, SummaryStorage
    from memory.threads import in_thread
    from memory.tiktoken_counter import TiktokenCounter
    from memory.times import Clock, system_clock
    from memory.tokens import TokenCounter, default_counter, message_tokens
    from memory.write.embedding_settings import EmbeddingSettings
    from memory.write.policies import (
        Action,
        Decision,
        Extractor,
        Fact,
        Judge,
        LookingPolicy,
        MinimumLength,
        Near,
        NearDuplicates,
        NoSecrets,
        StoreAlways,
        Stored,
        Turn,
        TurnDecision,
        TurnPolicy,
        WritePolicy,
    )
    from memory.write.reembedding import Reembedded, ReembeddingProgress
    from memory.write.trust import may_change

__all__ = [
    "Action",
    "Actor",
    "ArgumentError",
    "Block",
    "CachedEmbedder",
    "CannotUndo",
    "Chain",
    "Change",
    "Chunk",
    "Chunker",
    "Citation",
    "Clock",
    "Conversation",
    "ConversationPolicy",
    "Decision",
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
    "Fact",
    "FallbackEmbedder",
    "FixedWindow",
    "Forgotten",
    "Found",
    "FunctionEmbedder",
    "HashingEmbedder",
    "History",
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
    "Interval",
    "Judge",
    "KeepAll",
    "KnowledgeBase",
    "Left",
    "LeftOut",
    "LoadError",
    "Loaded",
    "Loader",
    "LocalEmbedder",
    "LocalWordVectors",
    "LongTermMemory",
    "LookingPolicy",
    "MarkdownChunker",
    "Matched",
    "Memory",
    "MemoryLayerError",
    "Message",
    "MinimumLength",
    "Near",
    "NearDuplicates",
    "NoSecrets",
    "NoSuchMemory",
    "NotTrusted",
    "OllamaEmbedder",
    "OpenAICompatibleEmbedder",
    "Operation",
    "Outcome",
    "Page",
    "Passage",
    "Passages",
    "ReadPolicy",
    "RecallHooks",
    "RecallSettings",
    "Reembedded",
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
    "Stage",
    "Stats",
    "StoreAlways",
    "Stored",
    "StoredMessage",
    "Summarise",
    "Summary",
    "SummaryStorage",
    "SummaryWindow",
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
    "Turn",
    "TurnDecision",
    "TurnPolicy",
    "Unreached",
    "UnreadableExport",
    "Verified",
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
    "in_thread",
    "is_loopback",
    "is_remote",
    "local_available",
    "may_change",
    "message_tokens",
    "open_memory",
    "passages_of",
    "read_receipt",
    "receipt_text",
    "run_sync",
    "secret_spans",
    "system_clock",
    "unreadable",
    "window_of",
    "without_secrets",
]

_PARTS: Final = (
    "memory.records",
    "memory.errors",
    "memory.times",
    "memory.runtime",
    "memory.messages",
    "memory.scopes",
    "memory.listed",
    "memory.embedders.cache",
    "memory.embedders.cache_tables",
    "memory.embedders.cached",
    "memory.embedders.details",
    "memory.embedders.hashing",
    "memory.embedders.local",
    "memory.embedders.protocol",
    "memory.embedders.remote",
    "memory.embedders.space",
    "memory.embedders.static_table",
    "memory.embedders.word_vectors",
    "memory.estimating_counter",
    "memory.policies.chain",
    "memory.policies.fixed_window",
    "memory.policies.keep_all",
    "memory.policies.protocol",
    "memory.policies.summary",
    "memory.policies.token_window",
    "memory.portable.report",
    "memory.recall.hooks",
    "memory.recall.settings",
    "memory.receipts",
    "memory.requests",
    "memory.secret_finding",
    "memory.secret_kinds",
    "memory.short_term",
    "memory.storage.conversation",
    "memory.storage.in_memory",
    "memory.storage.protocol",
    "memory.storage.retention",
    "memory.storage.sqlite",
    "memory.storage.summaries",
    "memory.threads",
    "memory.tiktoken_counter",
    "memory.tokens",
    "memory.write.embedding_settings",
    "memory.write.policies",
    "memory.write.reembedding",
    "memory.write.trust",
    "memory.long_term",
    "memory.opening",
    "memory.chunking.markdown",
    "memory.chunking.protocol",
    "memory.chunking.text",
    "memory.embedders.fallback",
    "memory.embedders.function",
    "memory.embedders.ollama",
    "memory.embedders.openai_compatible",
    "memory.evaluating.evaluate",
    "memory.evaluating.intervals",
    "memory.rag.cite",
    "memory.rag.documents",
    "memory.rag.knowledge_base",
    "memory.rag.loaders.protocol",
    "memory.rag.passages",
    "memory.rag.report",
    "memory.rag.trial",
)
"""Where the public names are, what is light and often asked for first."""


def __getattr__(name: str) -> object:
    """Import what is asked for: a program that only recalls starts without clients, loaders and evaluation."""
    if name in __all__:
        for part in map(import_module, _PARTS):
            if hasattr(part, name):
                value: object = getattr(part, name)
                globals()[name] = value
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
