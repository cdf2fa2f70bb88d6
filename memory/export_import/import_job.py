"""State of one import: what it is about, how far it is, its report so far, and whether the file's vectors fit.

A model that was changed under its name has the same space on paper. The file brings the answers that its vectors'
model gave to the probes; a memory that had none takes them over, so that its embedder is compared with them later.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from memory.embedders.fingerprint import is_same_model, probe_embedder
from memory.export_import.reader import CheckedExport
from memory.export_import.report import ImportLine, ImportMode
from memory.models import Actor, Memory, MemoryChange, Trust
from memory.partitions import CONVERSATION, DOCUMENTS, store_namespace
from memory.tables.embedder_probes import ProbeVectors
from memory.tables.operation_log import IMPORT_KIND
from memory.write.context import WriteContext
from memory.write.policies import NEAR_DUPLICATE_KEY
from vectorstore import Entry, Metric, Space

_TRUST_ORDER: Final = tuple(Trust)


@dataclass(slots=True)
class ImportJob:
    """*ceiling* is the most trust that anything in the file can have, None: its own word, for it is this memory's."""

    context: WriteContext
    namespace: str
    mode: ImportMode
    checked: CheckedExport
    ceiling: Trust | None
    dry_run: bool
    actor: Actor
    operation: str
    comparable: bool = False
    """Whether the file has vectors, and nothing is known against their model."""
    probes: ProbeVectors | None = None
    """The file's answers to the probes, to be recorded with the first of its vectors."""
    vectors: bool = False
    """Whether the file's vectors are taken."""
    lines: list[ImportLine] = field(default_factory=list)
    taken: Counter[str] = field(default_factory=Counter)
    left: Counter[str] = field(default_factory=Counter)
    removed: int = 0
    notes: list[str] = field(default_factory=list)
    changes: list[MemoryChange] = field(default_factory=list)
    """What is not in the log yet."""
    logged: bool = False
    added: set[str] = field(default_factory=set)
    here: dict[str, str] = field(default_factory=dict)
    """By the file's id, under which id the same key is here."""
    settled: set[tuple[str, str]] = field(default_factory=set)
    """Collection and id of passages whose document is not taken."""

    @property
    def believed(self) -> bool:
        """Whether the file's own word is taken for what was said, done and forgotten."""
        return self.ceiling in (None, Trust.USER)

    def read(self, memory: Memory) -> Memory:
        """Return *memory* as far as the file is believed, and with the ids that are used here.

        What was trusted more is not pinned any more either, and a stranger's key is no caller's key here.
        """
        if not self.believed and memory.key is not None:
            memory = replace(memory, key=None)
        if self.here and not self.here.keys().isdisjoint(memory.derived_from):
            memory = replace(memory, derived_from=tuple(self.here.get(one, one) for one in memory.derived_from))
        if self.ceiling is None or _TRUST_ORDER.index(memory.trust) >= _TRUST_ORDER.index(self.ceiling):
            return memory
        return replace(memory, trust=self.ceiling, pinned=False)

    def lane(self, collection: str | None) -> str:
        """Return the lane of a memory, or of the passages of a *collection*."""
        return store_namespace(self.namespace, CONVERSATION if collection is None else DOCUMENTS, collection)

    def there(self, lane: str, ids: Sequence[str]) -> dict[str, Entry]:
        """Return, by the file's id, what is here of that id, or of the key that it stands for."""
        if self.mode == "replace":  # what was here went, or would go
            return {}
        wanted = [self.here.get(one, one) for one in ids]
        found = zip(ids, self.context.store.get(wanted, namespace=lane), strict=True)
        return {id: entry for id, entry in found if entry is not None}

    def is_forgotten(self, lane: str, id: str | None) -> bool:
        """Whether *id* was forgotten in a lane."""
        return bool(id) and id in self.context.tombstones.which(lane, [id or ""])

    def log(self) -> None:
        """Put what was done since the last time into the log, in the transaction that did it: as one operation."""
        changes, self.changes = self.changes, []
        if self.dry_run or not changes:
            return
        if self.logged:
            self.context.operations.extend(self.namespace, self.operation, changes)
        else:
            self.context.log(self.namespace, self.operation, IMPORT_KIND, self.actor, changes)
            self.logged = True


def comparable_content(memory: Memory) -> tuple[object, ...]:
    """Return that of *memory* in which two of one id must agree to be the same."""
    return (
        memory.text,
        memory.caption,
        memory.kind,
        memory.tags,
        memory.valid_from,
        memory.valid_to,
        {name: value for name, value in memory.metadata.items() if name != NEAR_DUPLICATE_KEY},
        memory.importance,
        memory.expires_at,
    )


async def check_vector_model(course: ImportJob) -> None:
    """Note whether the file's vectors may be taken where their space is the one in use."""
    manifest, embedding = course.checked.manifest, course.context.embedding
    theirs, space = manifest.probe_rows(), manifest.space
    course.comparable = manifest.vectors and space is not None
    if not course.comparable or theirs is None or space is None:
        return
    known = await asyncio.to_thread(embedding.probes.get, space.fingerprint)
    if known is None and embedding.embedder is not None and embedding.embedder.fingerprint == space.fingerprint:
        try:
            known = await probe_embedder(embedding.embedder)
        except Exception:  # a stranger's embedder may raise anything; it is held against them when it answers
            known = None
    if known is not None and not is_same_model(known, theirs):
        course.comparable = False
        course.notes.append(
            f"its vectors were made by another model of the name {space.fingerprint}: they are made anew"
        )
    elif known is not None or course.believed:
        course.probes = theirs


def adopt_space(course: ImportJob) -> bool:
    """Return whether the file's vectors are taken; a memory without a space takes that of its embedder.

    Inside the transaction that writes them.
    """
    theirs, store = course.checked.manifest.space, course.context.lifecycle("import")
    if theirs is None or not course.comparable:
        return False
    if store.space is None and _is_own_space(course, theirs):
        if not course.dry_run:
            store.set_space(theirs)
    elif store.space != theirs:
        return False
    if course.probes is not None and not course.dry_run:
        course.context.embedding.probes.first(theirs.fingerprint, course.probes)
        course.probes = None
    return True


def _is_own_space(course: ImportJob, theirs: Space) -> bool:
    """Whether *theirs* is the space of the embedder here; where it does not know its dimension yet, the owner does."""
    embedder = course.context.embedding.embedder
    if embedder is None or theirs.metric is not Metric.COSINE or theirs.fingerprint != embedder.fingerprint:
        return False
    return embedder.dimension == theirs.dimension or (embedder.dimension < 1 and course.believed)
