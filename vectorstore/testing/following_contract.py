"""The contract of what another object writes into the same store: seen at the next call, and in the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vectorstore.errors import RevisionConflict
from vectorstore.protocol import VectorStore
from vectorstore.testing.suite import StoreContract, entry, everything, ids_of, one, scored


def answers(store: VectorStore) -> dict[str, object]:
    """Return what each road to the entries says."""
    told: dict[str, object] = {"names": store.namespaces(), "entries": everything(store, ["", "other"])}
    for name in ("", "other"):
        told[f"near {name}"] = scored(store.search([0.9, 0.2, 0.1], 99, namespace=name))
        told[f"many {name}"] = [scored(found) for found in store.search_many([[0, 1, 1]] * 2, 5, namespace=name)]
        told[f"text {name}"] = scored(store.search_text("zorb quil vexa", 99, namespace=name))
        for field in ("declared", "other"):
            told[f"{field} {name}"] = ids_of(store.search([1, 0, 0], 99, where={field: 1}, namespace=name))
            told[f"count {field} {name}"] = store.count(where={field: 1}, namespace=name)
    return told


def writes(store: VectorStore, n: int) -> list[Callable[[], object]]:
    """Return the *n*-th round of writes, each of which changes an answer."""
    return [
        lambda: store.upsert([entry(f"new{n}", [n, 0, 1], "quil", declared=1, other=1)]),
        lambda: store.upsert([entry("e1", [0, n, 1], "vexa " * n, declared=0, other=1)]),
        lambda: store.patch({"e2": {"declared": n % 2, "other": 1}}),
        lambda: store.put_vectors({"e3": [1, n, n]}),
        lambda: store.delete([f"new{n}", f"e{n + 3}"]),
        lambda: store.upsert([entry("x", [n, 1, 1], "zorb")], namespace="other"),
        lambda: store.delete(["x"], namespace="other"),
    ]


class FollowingContract(StoreContract):
    """Objects that have the same store open, of stores that *share*."""

    def test_what_another_writes_is_seen_at_the_next_call(self) -> None:
        store = self.open(fields=("declared",))
        store.upsert(entry(f"e{i}", [i, 1, 0], "zorb " * i, declared=i % 2, other=i % 2) for i in range(7))
        other = self.beside(store)
        assert answers(other) == answers(store)
        seen = [answers(store)]
        for n, (writer, reader) in enumerate(((other, store), (store, other), (other, store)), start=1):
            for write in writes(writer, n):
                write()
                assert answers(reader) == answers(writer)
                assert answers(reader) != seen[-1]
                found = [match.entry for match in reader.search([0.9, 0.2, 0.1], 99)]
                assert found == reader.get([one.id for one in found])
                seen.append(answers(reader))

    def test_what_another_deleted_and_wrote_again_is_not_mixed_up(self) -> None:
        store = self.open()
        store.upsert(entry(f"e{i}", [i, 1, 0], "zorb") for i in range(5))
        other = self.beside(store)
        assert answers(other) == answers(store)
        other.delete([f"e{i}" for i in range(5)])
        other.upsert(entry(f"e{i}", [1, i, 0], "quil") for i in (4, 0, 2))
        assert store.search_text("zorb") == []
        assert ids_of(store.search([0, 1, 0], 9)) == ["e4", "e2", "e0"]
        assert answers(store) == answers(other)

    def test_a_revision_that_another_wrote_is_in_the_way(self) -> None:
        store = self.open()
        store.upsert([entry("a", text="first")])
        other = self.beside(store)
        revision = one(store, "a").revision
        other.upsert([entry("a", text="second")])
        with pytest.raises(RevisionConflict) as caught:
            store.upsert([entry("a", text="lost")], expect={"a": revision})
        assert caught.value.actual == one(other, "a").revision
        store.upsert([entry("b")])
        other.upsert([entry("c")])
        revisions = [kept.revision for kept in store.scan()]
        assert len(set(revisions)) == 3
        assert one(other, "c").revision == max(revisions)
