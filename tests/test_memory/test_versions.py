"""The archived versions of many memories are what asking for each gives, whatever ids lie between them.

Inner parts, on no face: ``tellback.memory.partitions``.
"""

from __future__ import annotations

import random

import pytest

from tellback.memory import LongTermMemory, entry_store
from tellback.memory.internals import ARCHIVE, store_namespace
from tellback.memory.partitions import archived_id
from tellback.vectorstore import Entry, open_store
from tests.support.slow import first_fast

IDS = ("a", "a@", "a@!", "a@!b", "a@1", "a@b", "aa", "b", "b!", "b@a", "c", "é", "日")


def expected(owners: dict[str, tuple[str, str, str]], ids: list[str]) -> list[str]:
    """Every row looked at, in the order of memory and revision."""
    wanted = [(owner, int(revision), id) for id, (owner, _, revision) in owners.items() if owner in ids]
    return [id for _, _, id in sorted(wanted)]


@pytest.mark.parametrize("between", [0, 1, 3, 256])
@pytest.mark.parametrize("seed", first_fast(range(5)))
def test_archived_versions_read_for_many_ids_equal_those_read_for_each_id(
    monkeypatch: pytest.MonkeyPatch, between: int, seed: int
) -> None:
    monkeypatch.setattr(entry_store, "_MAX_SKIPPED", between)
    rng = random.Random(seed)
    memory = LongTermMemory(open_store("numpy:"))
    rows = [Entry(archived_id(id, rng.randint(1, 12)), None, "old words") for id in IDS for _ in range(6)]
    memory.store.upsert({row.id: row for row in rows}.values(), namespace=store_namespace("", ARCHIVE))
    owners = {row.id: row.id.rpartition("@") for row in rows}
    some = [[rng.choice(IDS) for _ in range(size)] for size in (0, 2, 2, 5, len(IDS))]
    for ids in (*([id] for id in IDS), *some, ["nobody", "a@!b@9", *some[-1]]):
        found = memory.entries.versions(ids, "")
        assert [hit.id for hit in found] == expected(owners, ids), ids
