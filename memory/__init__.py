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
    from memory.estimating_counter import EstimatingCounter
    from memory.evaluating.evaluate import Evaluation, EvaluationLine, evaluate
    from memory.evaluating.intervals import Interval, bootstrap
    from memory.listed import History, Page, Stats
    from memory.long_term import LongTermMemory
    from memory.message_metadata import QUOTES, RECALLED, TRUST, USED
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
    from memory.secret_checks import luhn
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
    from memory.write.pending import Flushed
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

__all__ = [  # noqa: RUF022 - in plain order, capitals too
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
    "FilterError",
    "FixedWindow",
    "Flushed",
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
    "QUOTES",
    "RECALLED",
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
    "StoreError",
    "Stored",
    "StoredMessage",
    "Summarise",
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
    "Turn",
    "TurnDecision",
    "TurnPolicy",
    "USED",
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
    "luhn",
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

_NAMES: Final = {
    "memory.chunking.markdown": "MarkdownChunker",
    "memory.chunking.protocol": "Chunk Chunker",
    "memory.chunking.text": "TextChunker",
    "memory.embedders.cache": "EmbeddingCache",
    "memory.embedders.cache_tables": "SqliteEmbeddingCache",
    "memory.embedders.cached": "CachedEmbedder",
    "memory.embedders.details": "DetailedEmbedder Embeddings Truncation embed_detailed",
    "memory.embedders.fallback": "FallbackEmbedder",
    "memory.embedders.function": "FunctionEmbedder",
    "memory.embedders.hashing": "HashingEmbedder",
    "memory.embedders.local": "LocalEmbedder",
    "memory.embedders.ollama": "OllamaEmbedder",
    "memory.embedders.openai_compatible": "OpenAICompatibleEmbedder",
    "memory.embedders.protocol": "Embedder EmbeddingKind WordVectors",
    "memory.embedders.remote": "is_remote",
    "memory.embedders.space": "embedder_space",
    "memory.embedders.static_table": "local_available",
    "memory.embedders.word_vectors": "LocalWordVectors",
    "memory.errors": (
        "ArgumentError CannotUndo DuplicateKey EmbedderChanged EmbedderError EmbedderMismatch "
        "FilterError HttpConnectError HttpError HttpStatusError HttpTimeout LoadError MemoryLayerError NoSuchMemory "
        "NotTrusted RejectedText StoreError TokenizerUnavailable UnreadableExport"
    ),
    "memory.estimating_counter": "EstimatingCounter",
    "memory.evaluating.evaluate": "Evaluation EvaluationLine evaluate",
    "memory.evaluating.intervals": "Interval bootstrap",
    "memory.listed": "History Page Stats",
    "memory.long_term": "LongTermMemory",
    "memory.message_metadata": "QUOTES RECALLED TRUST USED",
    "memory.messages": (
        "Block DocumentBlock ImageBlock Message Role TextBlock ThinkingBlock ToolCallBlock ToolResultBlock"
    ),
    "memory.opening": "open_memory",
    "memory.policies.chain": "Chain",
    "memory.policies.fixed_window": "FixedWindow",
    "memory.policies.keep_all": "KeepAll",
    "memory.policies.protocol": "ConversationPolicy ReadPolicy Window window_of",
    "memory.policies.summary": "Summarise SummaryWindow",
    "memory.policies.token_window": "TokenWindow",
    "memory.portable.report": "ExportReport ImportLine ImportReport",
    "memory.rag.cite": "Citation cite",
    "memory.rag.documents": "Document",
    "memory.rag.knowledge_base": "DocumentInfo KnowledgeBase",
    "memory.rag.loaders.protocol": "Loaded Loader",
    "memory.rag.passages": "Passage Passages passages_of",
    "memory.rag.report": "IngestAction IngestLine IngestProgress IngestReport",
    "memory.rag.trial": "unreadable",
    "memory.recall.hooks": "RecallHooks",
    "memory.recall.settings": "RecallSettings",
    "memory.receipts": "read_receipt receipt_text",
    "memory.records": (
        "Actor Change Forgotten Found Hit Left LeftOut Matched Memory Operation Outcome Report Source Stage "
        "Trust Unreached Verified WhyNot"
    ),
    "memory.requests": "is_loopback",
    "memory.runtime": "run_sync",
    "memory.scopes": "Scopes",
    "memory.secret_checks": "luhn",
    "memory.secret_finding": "SecretSpan secret_spans without_secrets",
    "memory.secret_kinds": "SecretKind",
    "memory.short_term": "ShortTermMemory",
    "memory.storage.conversation": "Conversation",
    "memory.storage.in_memory": "InMemoryHistory",
    "memory.storage.protocol": "HistoryStorage SessionInfo StoredMessage",
    "memory.storage.retention": "Retention",
    "memory.storage.sqlite": "SqliteHistory",
    "memory.storage.summaries": "Summary SummaryStorage",
    "memory.threads": "in_thread",
    "memory.tiktoken_counter": "TiktokenCounter",
    "memory.times": "Clock system_clock",
    "memory.tokens": "TokenCounter default_counter message_tokens",
    "memory.write.embedding_settings": "EmbeddingSettings",
    "memory.write.pending": "Flushed",
    "memory.write.policies": (
        "Action Decision Extractor Fact Judge LookingPolicy MinimumLength Near NearDuplicates NoSecrets "
        "StoreAlways Stored Turn TurnDecision TurnPolicy WritePolicy"
    ),
    "memory.write.reembedding": "Reembedded ReembeddingProgress",
    "memory.write.trust": "may_change",
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
