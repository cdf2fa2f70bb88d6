"""JSON objects that ``--json`` prints. Their keys are stable, and listed in the manual."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tellback.agent.context_items import AnswerCitation
    from tellback.memory import Hit, Memory, RecallResult, Receipt
    from tellback.memory.internals import Evaluation, IngestReport, StoredMessage

_KEYS: Final = {
    "BackupFile": "path at bytes automatic note",
    "Conflict": "ids memories",
    "DoctorCheck": "name fine seen remedy",
    "DocumentInfo": "source title location chunks modified ingested collection",
    "ErasureVerification": "gone left rows files texts notes",
    "ExportReport": "path counts hash vectors operation damaged",
    "Finding": "part what subject",
    "ImportLine": "line id outcome reason of spans pending made",
    "ImportReport": "lines taken left trusted dry_run operation notes",
    "IngestLine": "source action reason chunks embedded pending erased forgotten notes",
    "MemoryChange": "id before gone old new",
    "Operation": "id kind actor at undoes undone_by changes",
    "ReembeddingReport": "before space embedded without truncated switched already",
    "Remnant": "where what",
    "Repetition": "at session actor",
    "Report": "id outcome reason of spans kept total deferred operation made retired replaced may_replace",
    "RestoreReport": "path source entries kept",
    "SalvageReport": "path whole tables findings",
    "SalvagedTable": "table saved lost reasons",
    "SessionInfo": "session messages first_at last_at begins",
    "TermMatch": "word by similarity weight where",
    "WhyNot": "id stage reason rank score needed parts by_words by_vector",
}
"""Keys of a value by the name of its class, where they are the names of its fields."""
_MEMORY_KEYS: Final = (
    "id text caption kind role speaker session sequence tags scopes key importance pinned disabled sensitive withdrawn "
    "trust actor occurred_at recorded_at retired_at valid_from valid_to expires_at derived_from replaces supersedes "
    "operation about about_by utterance utterance_reason evidence repeated"
)


def json_object(value: Any) -> Any:
    """Return a value of the library as an object; the values in it are left as they are. ``json.dumps`` calls it."""
    name = type(value).__name__
    if name in _KEYS:
        return _fields(value, _KEYS[name])
    if name in _ENCODERS:
        return _ENCODERS[name](value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{name} has no JSON form")


def _fields(value: object, keys: str) -> dict[str, Any]:
    return {key: getattr(value, key) for key in keys.split()}


def _memory_json(memory: Memory) -> dict[str, Any]:
    """Return one memory, its source among its own fields."""
    from tellback.memory import Source

    source = memory.source or Source()
    place = {"source": source.document, **_fields(source, "title page heading start end")}
    return {**_fields(memory, _MEMORY_KEYS), **place, "metadata": memory.metadata, "revision": memory.revision}


def found_json(result: RecallResult, *, explain: bool, around: bool) -> dict[str, Any]:
    """Return the result of a recall; *explain*: with the parts of each score, *around*: with each hit's neighbours."""
    hits = [_hit_json(hit, explain=explain, around=around) for hit in result]
    return {"hits": hits, **_fields(result, "confidence abstain searched tokens_exact notes beyond")}


def _hit_json(hit: Hit, *, explain: bool, around: bool) -> dict[str, Any]:
    answer = {
        **_memory_json(hit.memory),
        "lane": hit.partition,
        **_fields(hit, "score outdated_by later_than likely_change"),
    }
    if explain:
        answer |= {"parts": hit.parts, "matched": hit.matched}
    if around:
        answer |= {"before": _neighbors_json(hit.before), "after": _neighbors_json(hit.after)}
    return answer


def _neighbors_json(turns: Sequence[Memory]) -> list[dict[str, Any]]:
    return [_fields(turn, "id text speaker role") for turn in turns]


def _citation_json(citation: AnswerCitation) -> dict[str, Any]:
    fields = _fields(
        citation, "number id quote source title page line heading start end speaker session date lane score"
    )
    return {**fields, **{name: fields[name] or None for name in ("source", "title", "speaker")}}


def _receipt_json(receipt: Receipt) -> Any:
    """Return a receipt of erasure: ids, counts and keyed hashes, never words; ``read_receipt`` accepts it."""
    from tellback.memory import receipt_text

    return json.loads(receipt_text(receipt))


def _ingest_json(report: IngestReport) -> dict[str, Any]:
    return {"documents": report.lines, "totals": report.totals, **_fields(report, "chunks embedded pending changed")}


def _message_json(stored: StoredMessage) -> dict[str, Any]:
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
                **_fields(block, "type media_type name"),
                "caption": getattr(block, "caption", ""),
                "bytes": len(block.data),
            }
            for block in message.blocks
            if block.type in ("image", "document")
        ],
        "calls": [_fields(call, "id name arguments") for call in message.tool_calls],
        "results": [
            {"call": result.call_id, "name": result.name, "text": result.text, "error": result.is_error}
            for result in message.tool_results
        ],
    }


def _evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    lines = [
        {
            **_fields(line, "way kind questions first"),
            "found": line.among,
            "mrr": line.mrr,
            "found_gain": line.gain and line.gain._asdict(),
            "mrr_gain": line.gain_mrr and line.gain_mrr._asdict(),
        }
        for line in evaluation.lines
    ]
    return {**_fields(evaluation, "memories questions k seed embedders"), "lines": lines}


_ENCODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "AnswerCitation": _citation_json,
    "Evaluation": _evaluation_json,
    "IngestReport": _ingest_json,
    "Memory": _memory_json,
    "Receipt": _receipt_json,
    "Stats": asdict,
    "StoredMessage": _message_json,
    "datetime": datetime.isoformat,
}
"""Functions that encode the other values, by the name of their class."""
