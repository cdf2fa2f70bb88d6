"""Descriptions: lines that say what memories are about, set on memories that are there, in one operation for all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tellback.memory.codec import entry_embedding_text, with_metadata
from tellback.memory.entry_store import patched_metadata
from tellback.memory.errors import ArgumentError
from tellback.memory.models import MAX_ABOUT_LENGTH, AboutAuthor, is_worse_author
from tellback.memory.results import Outcome, Report
from tellback.memory.validation import checked_about, checked_about_author, checked_label
from tellback.memory.write.access_control import Caller, may_embed_entry
from tellback.memory.write.attributes import AttributeFields, Attributes
from tellback.memory.write.policy_runner import PolicyRules, redacted_text, redaction_policies
from tellback.vectorstore import Entry


@dataclass(frozen=True, slots=True)
class Descriptions:
    """Sets lines through *attributes*, without what *rules* take out."""

    attributes: Attributes
    rules: PolicyRules

    async def describe(self, lines: Mapping[str, str], by: AboutAuthor, caller: Caller) -> list[Report]:
        """Set *lines* by id, made *by* an author; see ``LongTermMemory.describe``."""
        if not isinstance(lines, Mapping) or not lines:
            raise ArgumentError("lines", lines, "a mapping of ids to lines is needed")
        if not checked_about_author(by, "by"):
            raise ArgumentError("by", by, "an author is needed")
        policies = redaction_policies(self.rules.policies)
        checked = {checked_label(id, "lines"): checked_about(line, f"lines[{id!r}]") for id, line in lines.items()}
        cleaned = {id: redacted_text(line, policies) for id, line in checked.items()}

        def new(entry: Entry) -> AttributeFields:
            if is_worse_author(by, entry.metadata.get("about_by", "")):
                return {}
            line = cleaned[entry.id][0][:MAX_ABOUT_LENGTH]
            return {"about": line or None, "about_by": by}

        embedding = self.attributes.embedding
        with embedding.in_flight.write():
            entries = await asyncio.to_thread(self._entries, list(checked), caller)
            changed = {
                entry.id: with_metadata(entry, patched_metadata(entry.metadata, new(entry)))
                for entry in entries
                if may_embed_entry(entry, embedding.embedder)
            }
            texts = dict.fromkeys(entry_embedding_text(entry) for entry in changed.values() if entry.vector is None)
            embedded = dict(zip(texts, await embedding.vectors(list(texts)), strict=True))
            operation = await asyncio.to_thread(self.attributes.set, "describe", list(checked), new, caller, embedded)
        written = set() if operation is None else {change.id for change in operation.changes}
        kept = {entry.id for entry in entries if is_worse_author(by, entry.metadata.get("about_by", ""))}

        def report(id: str) -> Report:
            if operation is not None and id in written:
                spans, entry = cleaned[id][1], changed.get(id)
                answer = None if entry is None else embedded.get(entry_embedding_text(entry))
                deferred = None if answer is None else answer.deferred
                outcome = Outcome.REDACTED if spans else Outcome.STORED
                return Report(outcome, id, deferred=deferred, operation=operation.id, spans=spans)
            if id in kept:
                return Report(Outcome.REJECTED, id, f"its line is by a better author than a {by}, and stays")
            return Report(Outcome.DUPLICATE, id, "nothing differs", of=id)

        return [report(id) for id in checked]

    def _entries(self, ids: Sequence[str], caller: Caller) -> list[Entry]:
        return [self.attributes.entries.live(id, caller.namespace) for id in ids]
