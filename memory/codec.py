"""Conversion of a memory to a store entry and back: the one place that knows how fields are kept.

Text, context and vector are the entry's own; everything else is flat metadata, so that every field can be filtered
on. A caller's own fields are kept under ``meta.NAME``, scopes under ``scope.NAME``; no name of ours can collide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches
from operator import attrgetter
from typing import Any, Final

from tellback.memory.errors import ArgumentError
from tellback.memory.models import Memory, Repetition, Source, Trust
from tellback.memory.timestamps import timestamp_from_text, timestamp_to_text, utc_offset
from tellback.vectorstore import Entry, Filter, Metadata, Vector
from tellback.vectorstore.internals import filter_fields, filter_tree

DECLARED_FIELDS = (
    "kind",
    "role",
    "speaker",
    "session",
    "sequence",
    "document",
    "disabled",
    "pinned",
    "valid_from",
    "valid_to",
    "expires_at",
)
"""Fields that recall filters by: columns of the store's core."""

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_TEXT_FIELDS = (
    "kind", "role", "speaker", "session", "key", "actor", "supersedes", "operation", "caption", "utterance_reason",
    "about", "about_by",
)  # fmt: skip
_NUMBER_FIELDS = ("sequence", "importance")
_FLAG_FIELDS = ("pinned", "disabled", "sensitive", "withdrawn")
TIME_FIELDS = (
    "occurred_at",
    "valid_from",
    "valid_to",
    "expires_at",
    "recorded_at",
    "retired_at",
    "counts_from",
    "counts_to",
)
_PLAIN_FIELDS = (*_TEXT_FIELDS, *_NUMBER_FIELDS, *_FLAG_FIELDS)
_get_plain_fields, _get_times = attrgetter(*_PLAIN_FIELDS), attrgetter(*TIME_FIELDS)
_SOURCE_KEYS = {name: name for name in ("document", "title", "page", "start", "end", "heading")} | {
    "session": "source.session",
    "sequence": "source.sequence",
}
"""Metadata keys by the fields of a source; a memory has a session and a sequence of its own."""


_NAMED_FIELDS = frozenset(
    (*_PLAIN_FIELDS, *TIME_FIELDS, *(f"{name}_offset" for name in TIME_FIELDS), *_SOURCE_KEYS.values())
) | {"trust", "utterance", "evidence", "repeated", "tags", "derived_from", "replaces"}  # fmt: skip


def check_field_names(where: Filter) -> None:
    """Raise ``ArgumentError`` where a filter names a field that no memory has: it would find nothing, silently."""
    for name in sorted(filter_fields(filter_tree(where))):
        if name in _NAMED_FIELDS or name.startswith(("scope.", "meta.", "repeated.")):
            continue
        plural, _, rest = name.partition(".")
        close = [f"scope.{rest}"] if plural == "scopes" else get_close_matches(name, _NAMED_FIELDS, n=1)
        hint = f" (did you mean {close[0]!r}?)" if close else ""
        names = ", ".join([*sorted(_NAMED_FIELDS), "scope.NAME", "meta.NAME"])
        raise ArgumentError("where", name, f"a field of a memory is needed{hint}: {names}")


def to_entry(memory: Memory, *, vector: Vector | None = None, no_vector: str | None = None) -> Entry:
    """Return *memory* as an entry; its times must be aware."""
    return Entry(
        id=memory.id,
        vector=vector,
        text=entry_text(memory),
        context=entry_context(memory),
        metadata=to_metadata(memory),
        no_vector=no_vector,
    )


def to_metadata(memory: Memory) -> dict[str, Any]:
    """Return everything of *memory* but its text as flat JSON; empty fields are left out."""
    fields: dict[str, Any] = {
        name: value
        for name, value in zip(_PLAIN_FIELDS, _get_plain_fields(memory), strict=True)
        if value is not None and value is not False and value != ""
    }
    fields["trust"] = memory.trust.value
    if memory.utterance is not None:
        fields["utterance"] = memory.utterance.value
    if memory.evidence is not None:
        fields["evidence"] = memory.evidence
    if memory.repeated:
        fields["repeated"] = [repetition_to_json(repetition) for repetition in memory.repeated]
    for name, moment in zip(TIME_FIELDS, _get_times(memory), strict=True):
        if moment is not None:
            fields[name] = timestamp_to_text(moment)
            if offset := utc_offset(moment):
                fields[name + "_offset"] = offset
    if memory.tags:
        fields["tags"] = list(memory.tags)
    if memory.derived_from:
        fields["derived_from"] = list(memory.derived_from)
    if memory.replaces:
        fields["replaces"] = list(memory.replaces)
    if memory.scopes:
        fields.update({f"scope.{name}": value for name, value in memory.scopes.items()})
    if memory.metadata:
        fields.update({f"meta.{name}": value for name, value in memory.metadata.items()})
    if memory.source is not None:
        fields.update(_source_to_fields(memory.source))
    return fields


def with_metadata(entry: Entry, metadata: Metadata) -> Entry:
    """Return the *entry* of a memory with other *metadata*, and what is indexed of it.

    Where something else is embedded of it then, it waits for its vector.
    """
    changed = replace(entry, metadata=metadata)
    return without_stale_vector(replace(changed, context=entry_context(from_entry(changed))), entry)


def without_stale_vector(changed: Entry, before: Entry) -> Entry:
    """Return *changed*, which has the vector of *before*, without it where something else is embedded of it."""
    same = entry_embedding_text(changed) == entry_embedding_text(before)
    return changed if same else replace(changed, vector=None, no_vector=None)


def from_entry(entry: Entry) -> Memory:
    """Return the memory that *entry* keeps."""
    fields = entry.metadata
    plain: dict[str, Any] = {name: fields[name] for name in _PLAIN_FIELDS if name in fields}
    for name in TIME_FIELDS:
        if name in fields:
            plain[name] = timestamp_from_text(fields[name], fields.get(name + "_offset"))
    scopes, metadata = dict[str, Any](), dict[str, Any]()
    for name, value in fields.items():
        if name.startswith("scope."):
            scopes[name[6:]] = value
        elif name.startswith("meta."):
            metadata[name[5:]] = value
    return Memory(
        text=text_without_caption(entry),
        id=entry.id,
        revision=entry.revision,
        source=_source_from_fields(fields),
        tags=tuple(fields.get("tags", ())),
        derived_from=tuple(fields.get("derived_from", ())),
        replaces=tuple(fields.get("replaces", ())),
        scopes=scopes,
        metadata=metadata,
        trust=Trust(fields.get("trust", Trust.USER)),
        utterance=fields.get("utterance"),
        evidence=fields.get("evidence"),
        repeated=tuple(map(_repetition_from_json, fields.get("repeated", ()))),
        **plain,
    )


def repetition_to_json(repetition: Repetition) -> dict[str, Any]:
    """Return *repetition* as a JSON object."""
    fields = {"at": timestamp_to_text(repetition.at), "session": repetition.session, "actor": repetition.actor}
    return {name: value for name, value in fields.items() if value is not None}


def _repetition_from_json(fields: Any) -> Repetition:
    return Repetition(timestamp_from_text(fields["at"]), fields.get("session"), fields.get("actor", "user"))


def text_without_caption(entry: Entry) -> str:
    """Return the text of *entry* without what stands for its image."""
    caption = entry.metadata.get("caption", "")
    return entry.text.removesuffix(_caption_suffix(caption)) if caption else entry.text


def entry_text(memory: Memory) -> str:
    """Return the text of the entry: the memory's words, and the caption of its images."""
    return memory.text + _caption_suffix(memory.caption)


def embedding_text(memory: Memory) -> str:
    """Return what is embedded of *memory*: the text of its entry, behind the line that says what it is about."""
    return _with_line(memory.about, entry_text(memory))


def entry_embedding_text(entry: Entry) -> str:
    """As ``embedding_text``, for a memory as it is stored."""
    return _with_line(entry.metadata.get("about", ""), entry.text)


LINE_END: Final = "\x1f"
"""Unit separator, which no line has: it stands between a line and the text that are embedded together."""


def _with_line(line: str, text: str) -> str:
    return f"{line}{LINE_END}{text}" if line else text


def erased_texts(entries: Iterable[Entry]) -> frozenset[str]:
    """Return the texts of *entries*, and what is embedded of them."""
    return frozenset(text for entry in entries for text in (entry.text, entry_embedding_text(entry)))


def entry_context(memory: Memory) -> str:
    """Return what is indexed with the text and is not part of it: date, speaker and tags, or title and headings; then
    the line that says what it is about.
    """
    parts: list[str] = []
    if memory.source is not None and memory.source.document is not None:
        parts = [memory.source.title or "", *memory.source.heading]
    else:
        if memory.occurred_at is not None:
            moment = memory.occurred_at
            parts.append(f"{moment.day} {_MONTHS[moment.month - 1]}, {moment.year}")
        parts += [memory.speaker or "", ", ".join(memory.tags)]
    parts.append(memory.about)
    return "\n".join([part for part in parts if part])


def _caption_suffix(caption: str) -> str:
    return f" [image: {caption}]" if caption else ""


def _source_to_fields(source: Source) -> dict[str, Any]:
    values = {key: getattr(source, name) for name, key in _SOURCE_KEYS.items()}
    values["heading"] = list(source.heading) or None
    return {key: value for key, value in values.items() if value is not None}


def _source_from_fields(fields: Any) -> Source | None:
    values = {name: fields[key] for name, key in _SOURCE_KEYS.items() if key in fields}
    if "heading" in values:
        values["heading"] = tuple(values["heading"])
    return Source(**values) if values else None
