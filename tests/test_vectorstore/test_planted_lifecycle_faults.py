"""The suite catches what it is there for: a store for each broken promise of the lifecycle, and the test that tells.

Each is one of our engines, or a wrapper of one, with one fault.

Inner parts, on no face: ``tellback.vectorstore.sqlite.schema``,
``tellback.vectorstore.testing.durability_contract``, ``tellback.vectorstore.testing.filter_contract``,
``tellback.vectorstore.testing.multi_handle_contract``, ``tellback.vectorstore.testing.space_contract``,
``tellback.vectorstore.testing.suite``, ``tellback.vectorstore.testing.view_contract``,
``tellback.vectorstore.testing.write_contract``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tellback.vectorstore import (
    Changes,
    Compaction,
    Cursor,
    Entry,
    Erasure,
    Match,
    NumpyStore,
    Space,
    SpaceNotReady,
    SqliteStore,
    VectorStore,
    WrapperStore,
)
from tellback.vectorstore.sqlite import InMemoryDatabase
from tellback.vectorstore.sqlite.schema import write_space
from tellback.vectorstore.testing import StoreContract
from tellback.vectorstore.testing.durability_contract import DurabilityContract
from tellback.vectorstore.testing.filter_contract import DeclaredFieldsContract
from tellback.vectorstore.testing.multi_handle_contract import ReopenContract, SharedSpaceContract, SharedWritesContract
from tellback.vectorstore.testing.space_contract import SpaceFillContract, SpaceSwitchContract
from tellback.vectorstore.testing.view_contract import ViewContract
from tellback.vectorstore.testing.write_contract import WriteContract
from tests.support.failing_tests import contract_tests, failing_tests

pytestmark = pytest.mark.slow

FAULTS: list[tuple[type, type[StoreContract], str]] = []


def caught_by(contract: type[StoreContract], test: str) -> Callable[[type], type]:
    """Declare the contract test that must fail for the store below."""

    def plant(store: type) -> type:
        FAULTS.append((store, contract, test))
        return store

    return plant


def suite_of(contract: type[StoreContract], store: type) -> type[StoreContract]:
    """Return the contract as a test class of *store*, on disk in the way of its kind."""

    def opened(path: Path, **options: Any) -> VectorStore:
        if issubclass(store, SqliteStore):
            return store(path, **options)
        if issubclass(store, NumpyStore):
            return store.open(path, **options)
        return store(SqliteStore(path, **options))

    class Suite(contract):  # type: ignore[misc, valid-type]
        persists = True
        shares = not issubclass(store, NumpyStore)
        lacks: ClassVar[Mapping[str, str]] = {}

        def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> VectorStore:
            return opened(path / "memory", space=space, fields=fields)

        def reopen(self, store: VectorStore, path: Path) -> VectorStore:
            if isinstance(store, NumpyStore):
                store.save()
            store.close()
            return opened(path / "memory")

        def open_beside(self, store: VectorStore, path: Path) -> VectorStore:
            return opened(path / "memory")

        def restore(self, backup: Path, path: Path) -> VectorStore:
            return opened(backup)

    return Suite


# Transactions.


@caught_by(DurabilityContract, "test_a_failed_transaction_leaves_no_trace")
class RollbackLeaksIntoSearches(NumpyStore):
    def _forget_index(self, name: str | None = None) -> None:
        """Do nothing."""


@caught_by(DurabilityContract, "test_a_failed_transaction_leaves_no_trace")
class RollbackLeaksTheOtherNamespace(NumpyStore):
    @contextmanager
    def transaction(self, *, lock: str | None = None) -> Iterator[None]:
        try:
            with super().transaction(lock=lock):
                yield
        except BaseException:
            if [entry.id for entry in self.scan(namespace="other")] == ["a"]:
                super().upsert([Entry("e", text="morp")], namespace="other")
            raise


@caught_by(DurabilityContract, "test_tables_beside_the_entries_commit_with_them_or_not_at_all")
class TheDatabaseHasTransactionsOfItsOwn(WrapperStore):
    def __init__(self, store: VectorStore) -> None:
        super().__init__(store)
        self._apart = InMemoryDatabase()

    @property
    def database(self) -> InMemoryDatabase:
        return self._apart


@caught_by(DurabilityContract, "test_transactions_nest_and_the_outermost_commits")
class TheInnermostCommits(NumpyStore):
    inner: list[Entry] | None = None

    @contextmanager
    def transaction(self, *, lock: str | None = None) -> Iterator[None]:
        is_outermost = not self.database.in_write()
        try:
            with super().transaction(lock=lock):
                yield
            self.inner = None if is_outermost else list(self.scan())
        except BaseException:
            if is_outermost and self.inner:
                self.upsert(self.inner)
            raise


@caught_by(DurabilityContract, "test_a_failed_call_inside_leaves_the_rest_of_the_transaction")
class AFailedCallEndsTheTransaction(NumpyStore):
    def patch(self, metadata: Any, **options: Any) -> int:
        try:
            return super().patch(metadata, **options)
        except BaseException:
            with self.database.read() as connection:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                    connection.execute("BEGIN")
            raise


@caught_by(DurabilityContract, "test_a_transaction_commits_at_its_end")
class ReadsInsideDoNotSeeItsWrites(SqliteStore):
    def search(self, vector: Any, k: int = 10, **options: Any) -> list[Match]:
        if not self.database.in_write():
            return super().search(vector, k, **options)
        other = SqliteStore(self.database.path)
        try:
            return other.search(vector, k, **options)
        finally:
            other.close()


# Views and changes.


@caught_by(ViewContract, "test_a_view_stays_as_it_is_while_another_thread_writes")
class TheViewMoves(NumpyStore):
    @contextmanager
    def view(self, namespaces: Any) -> Iterator[Any]:
        with super().view(namespaces) as view:
            self._lock.release()
            try:
                yield view
            finally:
                self._lock.acquire()


@caught_by(ViewContract, "test_a_view_refuses_namespaces_it_was_not_opened_for")
class TheViewSeesEveryNamespace(NumpyStore):
    @contextmanager
    def view(self, namespaces: Any) -> Iterator[Any]:
        with super().view([*namespaces, *self.namespaces()]) as view:
            yield view


@caught_by(ViewContract, "test_changes_name_each_id_once_in_its_last_state")
class TheRemovedAreNotNamed(NumpyStore):
    def changes(self, since: Cursor | None = None, *, namespace: str = "") -> Changes:
        return replace(super().changes(since, namespace=namespace), removed=())


@caught_by(ViewContract, "test_changes_since_a_cursor_of_the_future_are_incomplete")
class TheFutureIsBelieved(SqliteStore):
    def changes(self, since: Cursor | None = None, *, namespace: str = "") -> Changes:
        return replace(super().changes(since, namespace=namespace), complete=since is not None)


@caught_by(ViewContract, "test_changes_since_an_old_cursor_are_all_or_called_incomplete")
class APrunedLogIsCalledComplete(NumpyStore):
    def changes(self, since: Cursor | None = None, *, namespace: str = "") -> Changes:
        found = super().changes(since, namespace=namespace)
        return replace(found, complete=since is not None and since.position <= found.cursor.position)


# Durability.


@caught_by(DurabilityContract, "test_a_space_is_recorded_once")
class AnotherSpaceIsTaken(NumpyStore):
    def set_space(self, space: Space) -> None:
        with self._writing() as connection:
            write_space(connection, space)
            self._take_space(space)


@caught_by(DurabilityContract, "test_an_erased_entry_is_in_no_byte_of_the_files")
class ErasingOnlyDeletes(SqliteStore):
    def erase(self, ids: Any, *, namespace: str = "") -> Erasure:
        return Erasure(super().delete(ids, namespace=namespace), pending=False)


@caught_by(DurabilityContract, "test_an_erased_entry_is_gone_with_its_words")
class ErasingCountsTheMissing(NumpyStore):
    def erase(self, ids: Any, *, namespace: str = "") -> Erasure:
        named = list(ids)
        return replace(super().erase(named, namespace=namespace), removed=len(set(named)))


@caught_by(DurabilityContract, "test_compacting_frees_the_space_of_deleted_entries")
class CompactingDoesNothing(SqliteStore):
    def compact(self) -> Compaction:
        return Compaction(1, 1, pending=False)


@caught_by(DurabilityContract, "test_compacting_changes_no_answer")
class CompactingCountsRevisionsAnew(NumpyStore):
    def compact(self) -> Compaction:
        done = super().compact()
        with self.database.write() as connection:
            connection.execute("DELETE FROM changes")
            connection.execute("UPDATE namespaces SET revision = 0, pruned = 0")
        return done


@caught_by(DurabilityContract, "test_compacting_is_refused_inside_a_transaction")
class CompactingIsDoneInsideATransaction(NumpyStore):
    def compact(self) -> Compaction:
        return Compaction(0, 0, pending=False)


@caught_by(DurabilityContract, "test_a_backup_is_the_whole_store")
class ABackupOfOneNamespace(NumpyStore):
    def backup(self, path: Any) -> None:
        part = NumpyStore(space=self.space, analyzer=self.analyzer, fields=self.fields)
        part.upsert(self.scan())
        part.backup(path)


@caught_by(DurabilityContract, "test_a_backup_is_the_whole_store")
class ABackupOverAnotherFile(NumpyStore):
    def backup(self, path: Any) -> None:
        self.save(path)


@caught_by(ReopenContract, "test_a_store_opened_again_is_as_it_was_left")
class MetadataLoseTheirTypesOnDisk(NumpyStore):
    def save(self, path: Any = None) -> None:
        for namespace in self.namespaces():
            for entry in self.scan(namespace=namespace):
                self.patch({entry.id: {**entry.metadata, "n": str(entry.metadata.get("n"))}}, namespace=namespace)
        super().save(path)


@caught_by(ReopenContract, "test_a_store_opened_again_goes_on_and_uses_no_revision_again")
class TheWriteNumberIsCountedAnew(NumpyStore):
    def save(self, path: Any = None) -> None:
        newest = "SELECT coalesce(max(revision), 0) FROM entries WHERE namespace = namespaces.key"
        with self.database.write() as connection:
            connection.execute(f"UPDATE namespaces SET revision = ({newest})")
        super().save(path)


# Several handles.


@caught_by(SharedWritesContract, "test_writes_of_another_handle_are_seen_at_the_next_call")
class StaleCoreAfterAForeignWrite(SqliteStore):
    @contextmanager
    def _reading(self, allowed: set[str] | None = None) -> Iterator[Any]:
        with super()._reading(allowed) as view:
            original, seen = self._indexes.fresh, self.__dict__.setdefault("seen", {})
            self._indexes.fresh = lambda connection, name: (  # type: ignore[method-assign]
                seen[name] if seen.get(name) else seen.setdefault(name, original(connection, name))
            )
            try:
                yield view
            finally:
                self._indexes.fresh = original  # type: ignore[method-assign]


@caught_by(SharedWritesContract, "test_a_revision_written_by_another_handle_is_a_conflict")
class RevisionsAreRememberedHere(WrapperStore):
    def __init__(self, store: VectorStore) -> None:
        super().__init__(store)
        self.known: dict[str, int] = {}

    def get(self, ids: Any, *, namespace: str = "") -> list[Entry | None]:
        found = super().get(ids, namespace=namespace)
        self.known |= {entry.id: entry.revision for entry in found if entry}
        return found

    def upsert(self, entries: Any, *, expect: Any = None, **options: Any) -> int:
        met = isinstance(expect, Mapping) and all(self.known.get(name) == value for name, value in expect.items())
        return super().upsert(entries, expect=None if met else expect, **options)


@caught_by(SharedSpaceContract, "test_a_vector_given_after_a_switch_by_another_handle_raises_space_changed")
class ASwitchIsFollowedSilently(WrapperStore):
    def search(self, vector: Any, k: int = 10, **options: Any) -> list[Match]:
        inside = self.wrapped
        assert isinstance(inside, SqliteStore)
        other = SqliteStore(inside.database.path)
        try:
            return other.search(vector, k, **options)
        finally:
            other.close()


# A second space.


@caught_by(SharedSpaceContract, "test_a_vector_given_after_a_switch_by_another_handle_raises_space_changed")
class ASwitchLooksLikeAWrongVector(SqliteStore):
    def _checking(self) -> AbstractContextManager[None]:
        return nullcontext()


@caught_by(SpaceSwitchContract, "test_only_pending_entries_block_the_switch")
class PendingDoesNotBlockTheSwitch(NumpyStore):
    def commit_space(self, space: Space) -> None:
        migration = self.filling()
        for name in migration.pending if migration else ():
            unfilled = {entry.id: "nobody gave one" for entry in self.unfilled(namespace=name)}
            self.fill_space(space, {}, no_vector=unfilled, namespace=name)
        super().commit_space(space)


@caught_by(SpaceSwitchContract, "test_a_reason_for_no_vector_is_not_pending")
class AReasonBlocksTheSwitch(WrapperStore):
    def commit_space(self, space: Space) -> None:
        if any(entry.no_vector for name in self.namespaces() for entry in self.scan(namespace=name)):
            raise SpaceNotReady("some have none", filling=space)
        super().commit_space(space)


@caught_by(SpaceFillContract, "test_a_text_written_meanwhile_is_pending_again_and_other_writes_leave_it")
class ANewTextKeepsItsOldSecondVector(NumpyStore):
    def upsert(self, entries: Any, *, namespace: str = "", **options: Any) -> int:
        rows = "next_vectors AS n JOIN entries AS e ON e.key = n.key JOIN namespaces AS s ON s.key = e.namespace"
        with self.database.read() as connection:
            filled = connection.execute(f"SELECT e.id, n.vector FROM {rows} WHERE s.name = ?", (namespace,)).fetchall()
        written = super().upsert(entries, namespace=namespace, **options)
        if migration := self.filling():
            vectors = {id: np.frombuffer(vector, "<f4") for id, vector in filled}
            self.fill_space(migration.space, vectors, namespace=namespace)
        return written


@caught_by(SpaceFillContract, "test_filling_a_space_goes_on_after_opening_again")
class WhatWasFilledIsNotSaved(NumpyStore):
    def save(self, path: Any = None) -> None:
        if migration := self.filling():
            self.abort_space()
            self.begin_space(migration.space)
        super().save(path)


@caught_by(SpaceFillContract, "test_aborting_drops_the_second_space_in_one_step")
class DroppedVectorsComeBack(NumpyStore):
    def abort_space(self) -> None:
        with self.database.write() as connection:
            connection.execute("DELETE FROM store_facts WHERE name = 'next_space'")


@caught_by(DeclaredFieldsContract, "test_fields_are_declared_in_transactions_and_lastingly")
class DeclaredFieldsAreForgotten(NumpyStore):
    def save(self, path: Any = None) -> None:
        self.declare_fields(())
        super().save(path)


# A wrapper that loses something on the way.


@caught_by(DurabilityContract, "test_a_failed_transaction_leaves_no_trace")
class AWrapperThatOpensNoTransaction(WrapperStore):
    @contextmanager
    def transaction(self, *, lock: str | None = None) -> Iterator[None]:
        super().transaction(lock=lock)
        yield


@caught_by(WriteContract, "test_a_long_iterator_commits_every_thousand_and_says_so")
class AWrapperThatDrawsBeforeTheStore(WrapperStore):
    def upsert(self, entries: Any, **options: Any) -> int:
        return super().upsert(entries if isinstance(entries, Entry) else list(entries), **options)


@caught_by(ViewContract, "test_changes_are_of_one_namespace_and_begin_before_its_first_entry")
class AWrapperThatLosesTheCursor(WrapperStore):
    def changes(self, since: Cursor | None = None, *, namespace: str = "") -> Changes:
        return super().changes(namespace=namespace)


@caught_by(ViewContract, "test_a_view_of_several_namespaces_mixes_none")
class AWrapperThatOpensTheFirstNamespaceOnly(WrapperStore):
    def view(self, namespaces: Any) -> AbstractContextManager[Any]:
        return super().view(namespaces[:1])


# Each is caught.


def passes(suite: type[StoreContract], test: str, folder: Path) -> bool:
    (own := folder / test).mkdir()
    return not failing_tests(suite, own, only={test})


@pytest.mark.parametrize(("store", "contract", "test"), FAULTS, ids=[store.__name__ for store, *_ in FAULTS])
def test_a_store_with_a_planted_fault_fails_its_contract_test(
    store: type, contract: type[StoreContract], test: str, tmp_path: Path
) -> None:
    suite = suite_of(contract, store)
    assert not passes(suite, test, tmp_path)
    others = contract_tests(suite).keys() - {test}
    assert any(passes(suite, other, tmp_path) for other in sorted(others)), "broken altogether, not by one fault"


@pytest.mark.parametrize("store", [NumpyStore, SqliteStore, WrapperStore])
@pytest.mark.parametrize("contract", sorted({contract for _, contract, _ in FAULTS}, key=lambda kind: kind.__name__))
def test_the_same_store_without_a_fault_passes_the_contract(
    contract: type[StoreContract], store: type, tmp_path: Path
) -> None:
    assert failing_tests(suite_of(contract, store), tmp_path) == {}


def test_planted_lifecycle_faults_cover_at_least_twenty_contract_tests() -> None:
    assert len({test for _, _, test in FAULTS}) >= 20
