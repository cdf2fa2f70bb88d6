"""The internal face of the memory layer: names that the agent layer and the benchmarks need and users seldom do.

Helpers that may change without notice, and types of values that a program receives but does not construct, for
annotations. What a program calls, constructs, implements or catches stands in ``memory``.
"""

from __future__ import annotations

from typing import Final

from vectorstore.lazy_face import LazyFace as _LazyFace

_EXPORTS: Final = {
    "memory.backup_files": "backup_folder is_backup_due was_tried",
    "memory.backups": (
        "BackupFile DEFAULT_MAX_BYTES RestoreReport known_backups make_daily_backup remove_backup thin_out"
    ),
    "memory.codec": "DECLARED_FIELDS from_entry to_entry",
    "memory.documents.answers": "MAX_COMPARED AnswerSentence best_sentences with_meaning",
    "memory.documents.citations": "QUOTE_LIMIT Citation",
    "memory.documents.discovery": "FileSelection plan_ingest report_unreadable",
    "memory.documents.document": "Document Passages passages_of",
    "memory.documents.folder_watch": "WatchStep",
    "memory.open": "restore_memory",
    "memory.documents.ingest_report": "IngestAction IngestLine IngestProgress IngestReport",
    "memory.documents.knowledge_base": "DocumentInfo",
    "memory.documents.loaders.registry": "load_document",
    "memory.documents.loaders.workers": "MEMORY_LIMITED",
    "memory.embedders.cache": "EmbeddingCache",
    "memory.embedders.fingerprint": "PROBES",
    "memory.embedders.probe_pairs": "PROBE_TEXTS",
    "memory.embedders.profile": "PROBE_QUESTIONS EmbedderProfile known_profile",
    "memory.embedders.local": "LocalWordVectors local_available",
    "memory.embedders.sentence_encoder": "encoder_available",
    "memory.embedders.protocol": (
        "DetailedEmbedder EmbeddingKind Embeddings Truncation WordVectors embed_detailed embedder_space"
    ),
    "memory.evaluation.bootstrap": "ConfidenceInterval bootstrap",
    "memory.evaluation.evaluation": "Evaluation EvaluationLine",
    "memory.export_import.report": "ExportReport ImportLine ImportReport",
    "memory.history.protocol": "Conversation HistoryRow SessionInfo StoredMessage Summary SummaryStorage",
    "memory.history.summary_window": "Summarizer",
    "memory.history.windows": "ConversationWindowPolicy Window window_of",
    "memory.http.requests": "is_loopback is_remote",
    "memory.messages": "Block MODEL OpaqueBlock QUOTES RECALLED Role SCOPES TITLE TRUST USED",
    "memory.models": "Actor MemoryChange ORIGIN Operation Repetition Utterance UtteranceKind",
    "memory.retrieval.languages.utterances": "classify_utterance with_utterance",
    "memory.partitions": "ARCHIVE CONVERSATION DOCUMENTS archived_id lane_counts parse_store_namespace store_namespace",
    "memory.results": (
        "Conflict ErasureVerification ExternalCopy MemoryHistory MemoryPage Omitted Outcome Profile ProfileEntry "
        "ProfileTopic RecallStage Remnant Stats TermMatch WhyNot"
    ),
    "memory.retrieval.languages.lexicon": "analyzer_language lexicon_for",
    "memory.runtime": "run_in_thread",
    "memory.scopes": "Scopes",
    "memory.secrets.checks": "has_luhn_checksum",
    "memory.secrets.scanner": "REDACTION_OPENING SecretSpan find_secrets redact_secrets redaction_mark",
    "memory.timestamps": "Clock system_clock timestamp_to_text to_aware to_zone",
    "memory.tokens.counter": "counter_for_model default_counter message_tokens",
    "memory.tokens.token_tables": "TABLE_HASHES keep_table table_url",
    "memory.write.access_control": "may_change",
    "memory.write.embedding_backfill": "BackfillReport",
    "memory.write.policies.base": "MemoryLookup ReplacementCandidates",
    "memory.write.policies.callbacks": "ReplacementJudge",
    "memory.write.reembed": "ReembeddingProgress ReembeddingReport",
    "memory.write.undo": "FORGET_KIND irreversible_reason",
}
"""The names by the module that defines them; the stub beside this file lists the same for type checkers."""
_FACE: Final = _LazyFace(__name__, _EXPORTS, hints=False)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
