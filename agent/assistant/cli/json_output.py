"""JSON objects that ``--json`` prints. Their keys are stable, and listed in the manual."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.context_items import AnswerCitation
    from memory import Hit, Memory, RecallResult, Receipt, Report
    from memory.internals import (
        ConfidenceInterval,
        DocumentInfo,
        Evaluation,
        IngestReport,
        Operation,
        ReembeddingReport,
        SessionInfo,
        Stats,
        StoredMessage,
        WhyNot,
    )


def memory_json(memory: Memory) -> dict[str, Any]:
    """Return one memory."""
    source = memory.source
    return {
        "id": memory.id,
        "text": memory.text,
        "caption": memory.caption,
        "kind": memory.kind,
        "role": memory.role,
        "speaker": memory.speaker,
        "session": memory.session,
        "sequence": memory.sequence,
        "tags": list(memory.tags),
        "scopes": dict(memory.scopes),
        "key": memory.key,
        "importance": memory.importance,
        "pinned": memory.pinned,
        "disabled": memory.disabled,
        "sensitive": memory.sensitive,
        "withdrawn": memory.withdrawn,
        "trust": memory.trust.value,
        "actor": memory.actor,
        "occurred_at": memory.occurred_at,
        "recorded_at": memory.recorded_at,
        "retired_at": memory.retired_at,
        "valid_from": memory.valid_from,
        "valid_to": memory.valid_to,
        "expires_at": memory.expires_at,
        "derived_from": list(memory.derived_from),
        "supersedes": memory.supersedes,
        "operation": memory.operation,
        "source": None if source is None else source.document,
        "title": None if source is None else source.title,
        "page": None if source is None else source.page,
        "heading": [] if source is None else list(source.heading),
        "start": None if source is None else source.start,
        "end": None if source is None else source.end,
        "metadata": dict(memory.metadata),
        "revision": memory.revision,
    }


def found_json(found: RecallResult, *, explain: bool, around: bool = False) -> dict[str, Any]:
    """Return the result of a recall; *around*: with the neighbours of each hit."""
    beside = [
        {"before": _neighbors_json(hit.before), "after": _neighbors_json(hit.after)} if around else {} for hit in found
    ]
    return {
        "hits": [{**_hit_json(hit, explain=explain), **turns} for hit, turns in zip(found, beside, strict=True)],
        "confidence": found.confidence,
        "abstain": found.abstain,
        "searched": found.searched,
        "notes": list(found.notes),
    }


def _neighbors_json(turns: Sequence[Memory]) -> list[dict[str, Any]]:
    return [{"id": turn.id, "text": turn.text, "speaker": turn.speaker, "role": turn.role} for turn in turns]


def why_not_json(answer: WhyNot) -> dict[str, Any]:
    """Return the explanation why a memory was not found."""
    return {
        "id": answer.id,
        "stage": answer.stage,
        "reason": answer.reason,
        "rank": answer.rank,
        "score": answer.score,
        "needed": answer.needed,
        "parts": dict(answer.parts),
        "by_words": answer.by_words,
        "by_vector": answer.by_vector,
    }


def citation_json(citation: AnswerCitation) -> dict[str, Any]:
    """Return the citation of an answer or of a part of it."""
    return {
        "number": citation.number,
        "id": citation.id,
        "quote": citation.quote,
        "source": citation.source or None,
        "title": citation.title or None,
        "page": citation.page,
        "heading": list(citation.heading),
        "start": citation.start,
        "end": citation.end,
        "speaker": citation.speaker or None,
        "session": citation.session,
        "date": citation.date,
        "lane": citation.lane,
        "score": citation.score,
    }


def report_json(report: Report) -> dict[str, Any]:
    """Return the report of one item of a write."""
    return {
        "id": report.id,
        "outcome": report.outcome,
        "reason": report.reason,
        "of": report.of,
        "spans": report.spans,
        "kept": report.kept,
        "total": report.total,
        "deferred": report.deferred,
        "operation": report.operation,
        "made": [report_json(derived) for derived in report.made],
        "retired": list(report.retired),
    }


def operation_json(operation: Operation) -> dict[str, Any]:
    """Return one operation of the log, without the words of memories."""
    return {
        "id": operation.id,
        "kind": operation.kind,
        "actor": operation.actor,
        "at": operation.at,
        "undoes": operation.undoes,
        "undone_by": operation.undone_by,
        "changes": [
            {
                "id": change.id,
                "before": change.before,
                "gone": change.gone,
                "old": dict(change.old),
                "new": dict(change.new),
            }
            for change in operation.changes
        ],
    }


def stats_json(stats: Stats) -> dict[str, Any]:
    """Return the counts of a namespace."""
    return asdict(stats)


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt of erasure: ids, counts and keyed hashes, never words; ``read_receipt`` accepts it."""
    from memory import receipt_text

    fields: dict[str, Any] = json.loads(receipt_text(receipt))
    return fields


def ingest_json(report: IngestReport) -> dict[str, Any]:
    """Return the report of an ingest, with a line for each document."""
    return {
        "documents": [
            {
                "source": line.source,
                "action": line.action,
                "reason": line.reason,
                "chunks": line.chunks,
                "embedded": line.embedded,
                "pending": line.pending,
                "erased": line.erased,
                "forgotten": line.forgotten,
                "notes": list(line.notes),
            }
            for line in report.lines
        ],
        "totals": {action.value: count for action, count in report.totals.items()},
        "chunks": report.chunks,
        "embedded": report.embedded,
        "pending": report.pending,
        "changed": report.changed,
    }


def reembedded_json(report: ReembeddingReport) -> dict[str, Any]:
    """Return the report of a space migration."""
    return {
        "before": report.before,
        "space": report.space,
        "embedded": report.embedded,
        "without": report.without,
        "truncated": report.truncated,
        "switched": report.switched,
        "already": report.already,
    }


def document_json(document: DocumentInfo) -> dict[str, Any]:
    """Return one document that was ingested."""
    return {
        "source": document.source,
        "title": document.title,
        "location": document.location,
        "chunks": document.chunks,
        "modified": document.modified,
        "ingested": document.ingested,
    }


def session_json(info: SessionInfo) -> dict[str, Any]:
    """Return one session of the history."""
    return {
        "session": info.session,
        "messages": info.messages,
        "first_at": info.first_at,
        "last_at": info.last_at,
        "begins": info.begins,
    }


def message_json(stored: StoredMessage) -> dict[str, Any]:
    """Return one message of a conversation; media without their bytes."""
    message = stored.message
    return {
        "sequence": stored.sequence,
        "role": message.role,
        "speaker": message.name,
        "text": message.text,
        "said_at": message.at,
        "stored_at": stored.at,
        "memory": stored.memory,
        "media": [
            {
                "type": block.type,
                "media_type": block.media_type,
                "name": block.name,
                "caption": getattr(block, "caption", ""),
                "bytes": len(block.data),
            }
            for block in message.blocks
            if block.type in ("image", "document")
        ],
        "calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls],
        "results": [
            {"call": result.call_id, "name": result.name, "text": result.text, "error": result.is_error}
            for result in message.tool_results
        ],
    }


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the lines of an evaluation."""
    return {
        "memories": evaluation.memories,
        "questions": evaluation.questions,
        "k": evaluation.k,
        "seed": evaluation.seed,
        "embedders": dict(evaluation.embedders),
        "lines": [
            {
                "way": line.way,
                "kind": line.kind,
                "questions": line.questions,
                "first": line.first,
                "found": line.among,
                "mrr": line.mrr,
                "found_gain": _gain_json(line.gain),
                "mrr_gain": _gain_json(line.gain_mrr),
            }
            for line in evaluation.lines
        ],
    }


def _hit_json(hit: Hit, *, explain: bool) -> dict[str, Any]:
    answer = {**memory_json(hit.memory), "score": hit.score, "lane": hit.partition, "outdated_by": hit.outdated_by}
    if not explain:
        return answer
    matched = [
        {
            "word": match.word,
            "by": match.by,
            "similarity": match.similarity,
            "weight": match.weight,
            "where": match.where,
        }
        for match in hit.matched
    ]
    return {**answer, "parts": dict(hit.parts), "matched": matched}


def _gain_json(gain: ConfidenceInterval | None) -> dict[str, float] | None:
    return None if gain is None else {"mean": gain.mean, "low": gain.low, "high": gain.high}
