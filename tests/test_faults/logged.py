"""Consistency of the operation log with the contents of a memory.

Inner parts, on no face: ``tellback.memory.partitions``.
"""

from __future__ import annotations

from tellback.memory import LongTermMemory, run_sync
from tellback.memory.internals import DOCUMENTS
from tellback.memory.partitions import parse_store_namespace


def wrongly_logged(memory: LongTermMemory) -> list[str]:
    """Return logged operations without effect, and contents written by no operation."""
    lanes = memory.store.namespaces()
    found = []
    for namespace in sorted({parse_store_namespace(lane)[0] for lane in lanes} | {""}):
        log = run_sync(memory.operations(limit=100_000, namespace=namespace))
        known = {item.id for item in log}
        present = {change.id for item in log if item.kind == "forget" for change in item.changes} | {""}
        for lane in lanes:
            if parse_store_namespace(lane)[0] != namespace:
                continue
            for entry in memory.store.scan(namespace=lane):
                present.add(entry.id.partition("@")[0])
                if entry.metadata.get("operation") not in known and parse_store_namespace(lane)[1] != DOCUMENTS:
                    found.append(f"{entry.id}: written by no operation")
        for item in log:
            found += [
                f"{item.kind} of {change.id}: logged, not done" for change in item.changes if change.id not in present
            ]
    return found
