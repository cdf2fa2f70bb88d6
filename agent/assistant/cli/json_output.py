"""JSON objects that ``--json`` prints. Their keys are stable, and listed in the manual."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tellback.agent.context_items import AnswerCitation
    from tellback.memory import RecallResult, Receipt
    from tellback.memory.internals import Evaluation, IngestReport, StoredMessage

_KEYS: Final = {
    "BackupFile": "path at bytes automatic note",
    "DoctorCheck": "name fine seen remedy",
    "ErasureVerification": "gone left rows files texts notes",
    "ExportReport": "path counts hash vectors operation damaged",
    "Finding": "part what subject",
    "ImportLine": "line id outcome reason of spans pending made",
    "ImportReport": "lines taken left trusted dry_run operation notes",
    "IngestLine": "source action reason chunks embedded pending erased forgotten notes",
    "ReembeddingReport": "before space embedded without truncated switched already",
    "Remnant": "where what",
    "RestoreReport": "path source entries kept",
    "SalvageReport": "path whole tables findings",
    "SalvagedTable": "table saved lost reasons",
}
"""Keys of a value by the name of its class, where they are the names of its fields."""


def json_object(value: Any) -> Any:
    """Return a value of the library as an object; the values in it are left as they are. ``json.dumps`` calls it."""
    name = type(value).__name__
    if name in _KEYS:
        return _fields(value, _KEYS[name])
    if name in _ENCODERS:
        return _ENCODERS[name](value)
    from tellback.agent.desk.results import RESULTS

    if name in RESULTS:
        return RESULTS[name].of(value).model_dump(by_alias=True)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{name} has no JSON form")


def _fields(value: object, keys: str) -> dict[str, Any]:
    return {key: getattr(value, key) for key in keys.split()}


def fields_left_out(*, explain: bool, around: bool) -> set[str]:
    """Return the fields of a hit that are printed only where they were asked for."""
    return {*(() if explain else ("parts", "matched")), *(() if around else ("before", "after"))}


def found_json(result: RecallResult, *, explain: bool, around: bool) -> dict[str, Any]:
    """Return the result of a recall; *explain*: with the parts of each score, *around*: with each hit's neighbours."""
    from tellback.agent.desk.results import FoundMemories

    left_out = fields_left_out(explain=explain, around=around)
    return FoundMemories.of(result).model_dump(exclude={"hits": {"__all__": left_out}})


def _citation_json(citation: AnswerCitation) -> dict[str, Any]:
    fields = _fields(
        citation, "number id quote source title page line heading start end speaker session date lane score"
    )
    return {**fields, **{name: fields[name] or None for name in ("source", "title", "speaker")}}


def _receipt_json(receipt: Receipt) -> Any:
    from tellback.agent.desk.results import receipt_object

    return receipt_object(receipt)


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
    answers = [
        {**_fields(answer, "question kind wanted place"), "places": dict(answer.places)}
        for answer in evaluation.answers
    ]
    return {**_fields(evaluation, "memories questions k seed embedders"), "lines": lines, "answers": answers}


_ENCODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "AnswerCitation": _citation_json,
    "Evaluation": _evaluation_json,
    "IngestReport": _ingest_json,
    "Receipt": _receipt_json,
    "Stats": asdict,
    "StoredMessage": _message_json,
    "datetime": datetime.isoformat,
}
"""Functions that encode the other values, by the name of their class."""
