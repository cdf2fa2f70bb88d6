"""The memory layer of Tellback: what is said and read is kept, found again, corrected and forgotten.

>>> from memory import open_memory, run_sync
>>> memory = open_memory("assistant.db")
>>> report = run_sync(memory.remember("I moved to Lisbon."))
>>> run_sync(memory.recall("Where do I live?"))[0].memory.text
'I moved to Lisbon.'
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Final

if sys.version_info < (3, 11):  # noqa: UP036  # a checkout on Python's path is not held back by pip
    raise ImportError(f"Tellback needs Python 3.11 or newer; this is {sys.version.split()[0]} ({sys.executable})")

_EXPORTS: Final = {
    "memory.chunking.markdown": "MarkdownChunker",
    "memory.chunking.protocol": "Chunk Chunker",
    "memory.chunking.text": "TextChunker",
    "memory.documents.citations": "cite",
    "memory.documents.document": "Passage",
    "memory.documents.knowledge_base": "KnowledgeBase",
    "memory.documents.loaders.base": "LoadedDocument Loader",
    "memory.embedders.cache": "CachedEmbedder SqliteEmbeddingCache",
    "memory.embedders.fallback": "FallbackEmbedder",
    "memory.embedders.function": "FunctionEmbedder",
    "memory.embedders.hashing": "HashingEmbedder",
    "memory.embedders.local": "LocalEmbedder",
    "memory.embedders.sentence_encoder": "SentenceEncoder",
    "memory.embedders.ollama": "OllamaEmbedder",
    "memory.embedders.openai_compatible": "OpenAICompatibleEmbedder",
    "memory.embedders.protocol": "Embedder",
    "memory.erasure.receipt": "read_receipt receipt_text",
    "memory.errors": (
        "ArgumentError CannotUndo DuplicateKey EmbedderChanged EmbedderError EmbedderMismatch FilterError "
        "LoadError MemoryLayerError NoSuchMemory NotTrusted RejectedText StoreError TokenizerUnavailable "
        "UnreadableExport"
    ),
    "memory.evaluation.evaluation": "evaluate",
    "memory.history.protocol": "HistoryStorage",
    "memory.history.retention": "Retention",
    "memory.history.short_term": "ShortTermMemory",
    "memory.history.sqlite": "InMemoryHistory SqliteHistory",
    "memory.history.summary_window": "SummaryWindow",
    "memory.history.windows": "ChainedWindow FixedWindow FullWindow TokenWindow WindowPolicy",
    "memory.long_term": "LongTermMemory",
    "memory.messages": "DocumentBlock ImageBlock Message TextBlock ThinkingBlock ToolCallBlock ToolResultBlock",
    "memory.models": "Memory Source Trust",
    "memory.open": "local_embedder open_memory salvage_memory",
    "memory.results": "Hit RecallResult Receipt Report",
    "memory.retrieval.hooks": "RecallHooks",
    "memory.retrieval.query": "RecallOptions",
    "memory.retrieval.scoring.settings": "RecallSettings",
    "memory.runtime": "run_sync",
    "memory.secrets.patterns": "SecretKind",
    "memory.tokens.counter": "TokenCounter",
    "memory.tokens.estimating_counter": "EstimatingCounter",
    "memory.tokens.tiktoken_counter": "TiktokenCounter",
    "memory.write.embedding_service": "EmbeddingSettings",
    "memory.write.policies.base": (
        "Action LookupPolicy MemoryTurn PolicyDecision SimilarMemory TurnDecision TurnPolicy WritePolicy"
    ),
    "memory.write.policies.builtin": "MinimumLength NearDuplicates StoreAlways",
    "memory.write.policies.callbacks": "ExtractedFact Extractor Judge",
    "memory.write.policies.no_secrets": "NoSecrets",
}
"""The public names by the module that defines them; the stub beside this file lists the same for type checkers."""


def _refuse_foreign(name: str) -> None:
    """Raise ``ImportError`` if Python finds another module in the place of our package *name*.

    A program's own ``memory.py`` or another distribution's package comes first where its folder does on the path.
    """
    spec = find_spec(name)
    origin = spec.origin if spec is not None else None
    ours = __file__.replace("\\", "/").rsplit("/", 2)[0]
    if origin is not None and origin.replace("\\", "/").rsplit("/", 2)[:2] != [ours, name]:
        raise ImportError(
            f"Python finds {origin} in the place of Tellback's package {name!r}: "
            "rename it, or take its folder from the path",
            name=name,
            path=origin,
        )


_refuse_foreign("vectorstore")

from vectorstore.lazy_face import LazyFace as _LazyFace  # noqa: E402  # behind the refusal of another vectorstore

_FACE: Final = _LazyFace(__name__, _EXPORTS)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
