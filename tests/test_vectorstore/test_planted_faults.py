"""The suite catches what it is there for: a store for each broken promise of the data part, and the test that tells.

Each is the plain model with one fault. The lifecycle's faults are in ``test_planted_lifecycle_faults``. The file is
long because it is one list.

Inner parts, on no face: ``tellback.vectorstore.testing.multi_handle_contract``,
``tellback.vectorstore.testing.namespace_contract``, ``tellback.vectorstore.testing.search_contract``,
``tellback.vectorstore.testing.suite``, ``tellback.vectorstore.testing.validation_contract``,
``tellback.vectorstore.testing.write_contract``.
"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tellback.vectorstore import (
    ArgumentError,
    Entry,
    Match,
    NumpyStore,
    RevisionConflict,
    Space,
    Vector,
    VectorStore,
    WrapperStore,
)
from tellback.vectorstore.testing import FilterContract, ModelStore, StoreContract
from tellback.vectorstore.testing.multi_handle_contract import ReopenContract
from tellback.vectorstore.testing.namespace_contract import NamespaceContract
from tellback.vectorstore.testing.search_contract import SearchContract, TextContract
from tellback.vectorstore.testing.validation_contract import ValidationContract
from tellback.vectorstore.testing.write_contract import DeleteContract, UpdateContract, WriteContract
from tests.support.failing_tests import contract_tests, failing_tests

pytestmark = pytest.mark.slow

LACKS = {
    "test_threads_share_a_store": "the model is for one thread",
    "test_a_reader_sees_whole_batches_and_each_answer_is_of_one_state": "the model is for one thread",
    "test_a_scan_ends_with_its_store": "a scan of the model is a snapshot",
}
FAULTS: list[tuple[type, type[StoreContract], str]] = []


def caught_by(contract: type[StoreContract], test: str) -> Callable[[type], type]:
    """Declare the contract test that must fail for the store below."""

    def plant(store: type) -> type:
        FAULTS.append((store, contract, test))
        return store

    return plant


def suite_of(contract: type[StoreContract], make: Callable[..., VectorStore]) -> type[StoreContract]:
    """Return the contract as a test class of the stores that *make* returns."""

    class Suite(contract):  # type: ignore[misc, valid-type]
        lacks = LACKS

        def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> VectorStore:
            return make(space=space, fields=fields)

    return Suite


class Plain(ModelStore):
    """The model without a fault; those below change one thing of it."""

    def held(self, namespace: str) -> dict[str, Entry]:
        return self._entries_of(namespace)


# Search.


@caught_by(SearchContract, "test_a_selective_filter_still_fills_k")
class FilterAfterTopK(Plain):
    def search(self, vector: Any, k: int = 10, *, where: Any = None, **options: Any) -> list[Match]:
        passing = {match.entry.id for match in super().search(vector, 10**9, where=where, **options)}
        return [match for match in super().search(vector, k, **options) if match.entry.id in passing]


@caught_by(SearchContract, "test_the_filter_comes_before_the_threshold")
class FilterAfterTopKWhereAThresholdIsGiven(Plain):
    def search(self, vector: Any, k: int = 10, *, where: Any = None, min_score: Any = None, **options: Any) -> Any:
        if min_score is None:
            return super().search(vector, k, where=where, **options)
        passing = {match.entry.id for match in super().search(vector, 10**9, where=where, **options)}
        best = super().search(vector, k, min_score=min_score, **options)
        return [match for match in best if match.entry.id in passing]


@caught_by(SearchContract, "test_the_filter_comes_before_the_threshold")
class ThresholdLostWhereAFilterIsGiven(Plain):
    def search(self, vector: Any, k: int = 10, *, where: Any = None, min_score: Any = None, **options: Any) -> Any:
        return super().search(vector, k, where=where, min_score=None if where else min_score, **options)


@caught_by(SearchContract, "test_a_score_equal_to_the_threshold_stays")
class ThresholdExcludesEquality(Plain):
    def search(self, vector: Any, k: int = 10, *, min_score: Any = None, **options: Any) -> list[Match]:
        above = math.nextafter(min_score, math.inf) if isinstance(min_score, float) else min_score
        return super().search(vector, k, min_score=above, **options)


@caught_by(SearchContract, "test_equal_vectors_tie_by_id_in_order_of_code_points")
class UnstableTies(Plain):
    def search(self, vector: Any, k: int = 10, **options: Any) -> list[Match]:
        super().search(vector, k, **options)
        found = super().search(vector, 10**9, **options)
        order = list(self.held(options.get("namespace", "")))
        return sorted(found, key=lambda match: (-match.score, order.index(match.entry.id)))[:k]


@caught_by(SearchContract, "test_equal_vectors_tie_by_id_in_order_of_code_points")
class TiesCutByCount(Plain):
    """The right order, of the wrong ones: what is cut off at k is chosen before ties are ordered."""

    def search(self, vector: Any, k: int = 10, **options: Any) -> list[Match]:
        super().search(vector, k, **options)
        found = super().search(vector, 10**9, **options)
        chosen = sorted(found, key=lambda match: -match.score) if k else []
        chosen = sorted(chosen, key=lambda match: (match.score, match.entry.id), reverse=True)[:k]
        return sorted(chosen, key=lambda match: (-match.score, match.entry.id))


@caught_by(ValidationContract, "test_a_bad_argument_is_refused_by_every_call_and_nothing_is_written")
class NegativeKAccepted(Plain):
    def search(self, vector: Any, k: int = 10, **options: Any) -> list[Match]:
        return super().search(vector, max(k, 0) if type(k) is int else k, **options)


@caught_by(ValidationContract, "test_a_bad_argument_is_refused_by_every_call_and_nothing_is_written")
class TrueIsOneMatch(Plain):
    def search_text(self, query: str, k: int = 10, **options: Any) -> list[Match]:
        return super().search_text(query, int(k) if isinstance(k, bool) else k, **options)


@caught_by(SearchContract, "test_the_score_of_an_entry_depends_on_no_other_entry_or_option")
class BulkScoresAreRounded(Plain):
    def search_many(self, vectors: Any, k: int = 10, **options: Any) -> list[list[Match]]:
        found = super().search_many(vectors, k, **options)
        return [[Match(match.entry, float(np.float32(match.score))) for match in matches] for matches in found]


@caught_by(SearchContract, "test_a_question_of_any_form_is_answered_and_left_as_it_was")
class TheQuestionIsNormalisedInPlace(Plain):
    def search(self, vector: Any, k: int = 10, **options: Any) -> list[Match]:
        found = super().search(vector, k, **options)
        if isinstance(vector, np.ndarray) and vector.dtype.kind == "f" and vector.flags.writeable:
            vector /= np.linalg.norm(vector)
        return found


@caught_by(WriteContract, "test_an_upsert_replaces_the_whole_entry")
class TheOldVectorStays(Plain):
    def upsert(self, entries: Any, **options: Any) -> int:
        before = dict(self.held(options.get("namespace", "")))
        written = super().upsert(entries, **options)
        held = self.held(options.get("namespace", ""))
        for name, was in before.items():
            if name in held and held[name].vector is None and was.vector is not None:
                held[name] = replace(held[name], vector=was.vector)
        return written


@caught_by(SearchContract, "test_a_cosine_never_leaves_its_range")
class ScoresAreDistances(Plain):
    def search(self, vector: Any, k: int = 10, *, min_score: Any = None, **options: Any) -> list[Match]:
        found = super().search(vector, k, min_score=min_score, **options)
        return [Match(match.entry, 1 - match.score) for match in found]


# Writing.


@caught_by(WriteContract, "test_changing_an_argument_afterwards_changes_no_entry")
class AliasingInByVector(Plain):
    def upsert(self, entries: Any, **options: Any) -> int:
        given = list(entries)
        written = super().upsert(given, **options)
        for entry in given:
            if isinstance(entry.vector, np.ndarray) and entry.vector.dtype == np.float32:
                held = self.held(options.get("namespace", ""))
                held[entry.id] = replace(held[entry.id], vector=entry.vector)
        return written


@caught_by(WriteContract, "test_changing_an_argument_afterwards_changes_no_entry")
class AliasingInByMetadata(Plain):
    def patch(self, metadata: Any, **options: Any) -> int:
        written = super().patch(metadata, **options)
        held = self.held(options.get("namespace", ""))
        for name in metadata.keys() & held.keys():
            held[name] = replace(held[name], metadata=metadata[name])
        return written


@caught_by(WriteContract, "test_changing_a_returned_entry_changes_no_stored_one")
class AliasingOut(Plain):
    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        super().get(ids, namespace=namespace)
        return [self.held(namespace).get(name) for name in ids]


@caught_by(WriteContract, "test_a_long_iterator_commits_every_thousand_and_says_so")
class ProgressIsNotTold(Plain):
    def upsert(self, entries: Any, *, on_progress: Any = None, **options: Any) -> int:
        return super().upsert(entries, **options)


@caught_by(WriteContract, "test_a_long_iterator_commits_every_thousand_and_says_so")
class TheWholeIteratorIsDrawnFirst(Plain):
    def upsert(self, entries: Any, **options: Any) -> int:
        return super().upsert(list(entries), **options)


@caught_by(WriteContract, "test_any_iterable_is_a_batch_and_so_is_nothing")
class AGeneratorIsConsumedTwice(Plain):
    def upsert(self, entries: Any, **options: Any) -> int:
        for entry in entries:
            if not isinstance(entry, Entry):
                raise ArgumentError("entries", entry, "an Entry is needed")
        return super().upsert(entries, **options)


@caught_by(WriteContract, "test_an_id_is_compared_exactly")
class IdsAreCaseFolded(Plain):
    def upsert(self, entries: Any, **options: Any) -> int:
        return super().upsert((replace(entry, id=entry.id.lower()) for entry in entries), **options)

    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        return super().get([name.lower() for name in ids], namespace=namespace)


@caught_by(WriteContract, "test_of_an_id_repeated_in_a_batch_the_last_wins")
class TheFirstOfARepeatedIdWins(Plain):
    def upsert(self, entries: Any, **options: Any) -> int:
        return super().upsert({entry.id: entry for entry in reversed(list(entries))}.values(), **options)


@caught_by(WriteContract, "test_get_answers_in_the_order_of_its_ids_with_none_for_the_missing")
class TheMissingAreLeftOut(Plain):
    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        return [entry for entry in super().get(ids, namespace=namespace) if entry is not None]


@caught_by(WriteContract, "test_an_entry_is_read_back_as_it_was_written")
class TrueComesBackAsOne(Plain):
    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        found = super().get(ids, namespace=namespace)
        return [
            entry
            and replace(entry, metadata={name: 1 if value is True else value for name, value in entry.metadata.items()})
            for entry in found
        ]


@caught_by(WriteContract, "test_an_entry_is_read_back_as_it_was_written")
class VectorsComeBackNormalised(Plain):
    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        found = super().get(ids, namespace=namespace)
        return [
            entry
            if entry is None or entry.vector is None
            else replace(entry, vector=entry.vector / np.linalg.norm(entry.vector))
            for entry in found
        ]


@caught_by(WriteContract, "test_of_an_id_repeated_in_a_batch_the_last_wins")
class ARepeatedIdIsCountedTwice(Plain):
    def upsert(self, entries: Any, **options: Any) -> int:
        given = entries if isinstance(entries, Entry) or not isinstance(entries, Iterable) else list(entries)
        super().upsert(given, **options)
        return len(given)


# Refusing.


@caught_by(ValidationContract, "test_a_bad_entry_is_refused_and_nothing_of_its_batch_written")
class PartialBatch(Plain):
    def upsert(self, entries: Any, **options: Any) -> int:
        if isinstance(entries, Entry | str) or not isinstance(entries, Iterable):
            return super().upsert(entries, **options)
        return sum(super(PartialBatch, self).upsert([entry], **options) for entry in entries)


@caught_by(ValidationContract, "test_a_bad_entry_spoils_its_own_batch_only")
class EverythingIsOneBatch(Plain):
    def upsert(self, entries: Any, **options: Any) -> int:
        with self.transaction():
            return super().upsert(entries, **options)


@caught_by(ValidationContract, "test_a_bad_vector_is_refused_by_every_call_and_nothing_is_written")
class NaNIsAccepted(Plain):
    def search(self, vector: Any, *arguments: Any, **options: Any) -> Any:
        with suppress(TypeError, ValueError):
            if np.isnan(np.asarray(vector, dtype=np.float32)).any():
                return []
        return super().search(vector, *arguments, **options)


@caught_by(ValidationContract, "test_a_bad_entry_is_refused_and_nothing_of_its_batch_written")
class BadEntriesAreLeftOut(Plain):
    def upsert(self, entries: Any, **options: Any) -> int:
        written = 0
        for entry in list(entries):
            with suppress(ArgumentError):
                written += super().upsert([entry], **options)
        return written


# Updating.


@caught_by(UpdateContract, "test_an_unexpected_revision_stops_the_whole_write")
class LostConflict(Plain):
    def put_vectors(self, vectors: Any, *, namespace: str = "", expect: Any = None) -> int:
        return super().put_vectors(vectors, namespace=namespace)


@caught_by(UpdateContract, "test_an_unexpected_revision_stops_the_whole_write")
class AConflictStopsOnlyItsEntry(Plain):
    def patch(self, metadata: Any, *, namespace: str = "", expect: Any = None) -> int:
        free = {name: value for name, value in metadata.items() if name not in (expect or {})}
        super().patch(free, namespace=namespace)
        return super().patch(metadata, namespace=namespace, expect=expect)


@caught_by(UpdateContract, "test_an_unexpected_revision_stops_the_whole_write")
class ZeroMeansAnything(Plain):
    def upsert(self, entries: Any, *, expect: Any = None, **options: Any) -> int:
        if isinstance(expect, Mapping):
            expect = {name: revision for name, revision in expect.items() if revision or type(revision) is not int}
        return super().upsert(entries, expect=expect, **options)


@caught_by(UpdateContract, "test_a_revision_is_never_used_again")
class RevisionsBeginAnewAfterDeletion(Plain):
    def delete(self, ids: Any = (), **options: Any) -> int:
        gone = super().delete(ids, **options)
        for stored in self._namespaces.values():
            stored.writes = max((entry.revision for entry in stored.entries.values()), default=0)
        return gone


@caught_by(UpdateContract, "test_a_revision_rises_with_text_and_metadata_and_not_with_vectors")
class PutVectorsMovesTheRevision(Plain):
    def put_vectors(self, vectors: Any, **options: Any) -> int:
        written = super().put_vectors(vectors, **options)
        held = self.held(options.get("namespace", ""))
        for name in vectors.keys() & held.keys():
            self._write(options.get("namespace", ""), held[name])
        return written


@caught_by(UpdateContract, "test_a_patch_replaces_metadata_and_leaves_the_rest")
class PatchMerges(Plain):
    def patch(self, metadata: Any, **options: Any) -> int:
        held = self.held(options.get("namespace", ""))
        merged = {
            name: {**held[name].metadata, **value} if name in held and isinstance(value, Mapping) else value
            for name, value in metadata.items()
        }
        return super().patch(merged, **options)


@caught_by(UpdateContract, "test_a_patch_replaces_metadata_and_leaves_the_rest")
class PatchTouchesTheText(Plain):
    def patch(self, metadata: Any, **options: Any) -> int:
        written = super().patch(metadata, **options)
        held = self.held(options.get("namespace", ""))
        for name in metadata.keys() & held.keys():
            held[name] = replace(held[name], context="")
        return written


@caught_by(UpdateContract, "test_a_pending_entry_gets_its_vector_later_and_another_one_again")
class TheReasonStaysBesideTheVector(Plain):
    def put_vectors(self, vectors: Any, **options: Any) -> int:
        reasons = {name: entry.no_vector for name, entry in self.held(options.get("namespace", "")).items()}
        written = super().put_vectors(vectors, **options)
        held = self.held(options.get("namespace", ""))
        for name in vectors.keys() & held.keys():
            held[name] = replace(held[name], no_vector=reasons[name])
        return written


@caught_by(UpdateContract, "test_a_long_write_meets_each_expectation_once")
class AnExpectationIsAskedAgainOfEachBatch(Plain):
    def upsert(self, entries: Any, *, expect: Any = None, on_progress: Any = None, **options: Any) -> int:
        def again(done: int) -> None:
            if on_progress is not None:
                on_progress(done)
            self._expect(options.get("namespace", ""), expect or {})

        return super().upsert(entries, expect=expect, on_progress=again, **options)


# Text.


@caught_by(TextContract, "test_a_filter_chooses_before_k_and_moves_no_score")
class TextIsFilteredAfterTopK(Plain):
    def search_text(self, query: str, k: int = 10, *, where: Any = None, **options: Any) -> list[Match]:
        passing = {match.entry.id for match in super().search_text(query, 10**9, where=where, **options)}
        return [match for match in super().search_text(query, k, **options) if match.entry.id in passing]


@caught_by(TextContract, "test_equal_scores_tie_by_id")
class EqualTextsTieByWriting(Plain):
    def search_text(self, query: str, k: int = 10, **options: Any) -> list[Match]:
        super().search_text(query, k, **options)
        order = list(self.held(options.get("namespace", "")))
        found = super().search_text(query, 10**9, **options)
        return sorted(found, key=lambda match: (-match.score, order.index(match.entry.id)))[:k]


@caught_by(TextContract, "test_scores_are_bm25_of_text_and_context_and_the_best_come_first")
class TheContextIsNotIndexed(Plain):
    def _terms(self, entry: Entry) -> list[str]:
        return super()._terms(replace(entry, context=""))


@caught_by(TextContract, "test_deleted_and_replaced_texts_leave_no_trace_in_the_statistics")
class TheDeletedStillCount(Plain):
    def search_text(self, query: str, k: int = 10, **options: Any) -> list[Match]:
        found = super().search_text(query, k, **options)
        stored = self._namespaces.get(options.get("namespace", ""))
        stale = 0 if stored is None else stored.writes - len(stored.entries)
        return [Match(match.entry, match.score / (1 + stale)) for match in found]


@caught_by(TextContract, "test_any_string_is_a_safe_question_and_a_safe_text")
class TheQuestionIsALanguage(Plain):
    def search_text(self, query: str, k: int = 10, **options: Any) -> list[Match]:
        if isinstance(query, str) and query.count('"') % 2:
            raise ValueError("unterminated string")
        return super().search_text(query, k, **options)


# Deleting.


@caught_by(DeleteContract, "test_deleting_without_ids_or_a_condition_is_refused")
class NothingNamedEmptiesTheStore(Plain):
    def delete(self, ids: Any = (), *, where: Any = None, namespace: str = "") -> int:
        try:
            return super().delete(ids, where=where, namespace=namespace)
        except ArgumentError:
            if isinstance(ids, Iterable) and not list(ids) and not where:
                return super().delete(list(self.held(namespace)), namespace=namespace)
            raise


@caught_by(DeleteContract, "test_delete_counts_each_existing_entry_once")
class TheMissingAreCounted(Plain):
    def delete(self, ids: Any = (), **options: Any) -> int:
        named = ids if isinstance(ids, str | bytes) or not isinstance(ids, Iterable) else list(ids)
        gone = super().delete(named, **options)
        return gone if options.get("where") else len(set(named))


@caught_by(DeleteContract, "test_ids_and_a_filter_mean_both")
class IdsOrAFilter(Plain):
    def delete(self, ids: Any = (), *, where: Any = None, **options: Any) -> int:
        named = ids if isinstance(ids, str | bytes) or not isinstance(ids, Iterable) else list(ids)
        gone = super().delete(named, where=where if not named else None, **options)
        return gone + (super().delete(where=where, **options) if named and where else 0)


@caught_by(DeleteContract, "test_a_scan_is_in_order_of_id")
class ScanIsInOrderOfWriting(Plain):
    def scan(self, **options: Any) -> Iterator[Entry]:
        found = {entry.id: entry for entry in super().scan(**options)}
        return iter([found[name] for name in self.held(options.get("namespace", "")) if name in found])


@caught_by(DeleteContract, "test_a_scan_goes_on_after_an_id")
class ScanForgetsWhereItWas(Plain):
    def scan(self, *, after: Any = None, **options: Any) -> Iterator[Entry]:
        super().scan(after=after, **options)
        return super().scan(**options)


@caught_by(DeleteContract, "test_a_scan_tells_embedded_from_pending")
class AReasonIsTakenForPending(Plain):
    def scan(self, *, embedded: Any = None, **options: Any) -> Iterator[Entry]:
        if embedded is not False:
            return super().scan(embedded=embedded, **options)
        return iter([entry for entry in super().scan(**options) if entry.vector is None])


# Namespaces.


@caught_by(NamespaceContract, "test_names_are_compared_exactly_and_listed_in_order")
class NamespaceLeaksByPrefix(Plain):
    def scan(self, *, namespace: str = "", **options: Any) -> Iterator[Entry]:
        own = list(super().scan(namespace=namespace, **options))
        below = [name for name in self.namespaces() if namespace and name != namespace and name.startswith(namespace)]
        return iter(own + [entry for name in below for entry in super(Plain, self).scan(namespace=name, **options)])


@caught_by(NamespaceContract, "test_names_are_compared_exactly_and_listed_in_order")
class NamespacesAreCaseFolded(Plain):
    def _name(self, namespace: str) -> str:
        return super()._name(namespace).lower()


@caught_by(NamespaceContract, "test_text_statistics_are_of_one_namespace_alone")
class NamespaceLeaksByStatistics(Plain):
    def search_text(self, query: str, k: int = 10, **options: Any) -> list[Match]:
        found = super().search_text(query, k, **options)
        everybody = sum(len(stored.entries) for stored in self._namespaces.values())
        return [Match(match.entry, match.score * math.log(1 + everybody)) for match in found]


@caught_by(NamespaceContract, "test_a_change_in_one_leaves_the_others_as_they_were")
class ADeletionReachesTheOthers(Plain):
    def delete(self, ids: Any = (), *, where: Any = None, namespace: str = "") -> int:
        gone = super().delete(ids, where=where, namespace=namespace)
        if where:
            for name in self.namespaces():
                super().delete(where=where, namespace=name)
        return gone


@caught_by(NamespaceContract, "test_a_change_in_one_leaves_the_others_as_they_were")
class EmptiedNamespacesAreListed(Plain):
    def namespaces(self, *, prefix: str = "") -> list[str]:
        super().namespaces()
        return sorted(name for name in self._namespaces if name.startswith(prefix))


# Bits and states.


@caught_by(WriteContract, "test_a_vector_keeps_every_bit_of_float32")
class VectorsLoseHalfTheirBits(Plain):
    def get(self, ids: Sequence[str], *, namespace: str = "") -> list[Entry | None]:
        found = super().get(ids, namespace=namespace)
        return [entry if entry is None or entry.vector is None else halved(entry, entry.vector) for entry in found]


def halved(entry: Entry, vector: Vector) -> Entry:
    return replace(entry, vector=vector.astype(np.float16).astype(np.float32))


class ABatchOfManyCommits(NumpyStore):
    def upsert(self, entries: Iterable[Entry], **options: Any) -> int:
        return sum(super(ABatchOfManyCommits, self).upsert([entry], **options) for entry in entries)


class ASearchThatReadsTwice(NumpyStore):
    def search(self, vector: Any, k: int = 10, **options: Any) -> list[Match]:
        found = super().search(vector, k, **options)
        time.sleep(0.01)  # another thread writes meanwhile
        again = self.get([match.entry.id for match in found], namespace=options.get("namespace", ""))
        return [Match(entry, match.score) for entry, match in zip(again, found, strict=True) if entry is not None]


@pytest.mark.parametrize("store", [ABatchOfManyCommits, ASearchThatReadsTwice])
def test_a_store_that_shows_half_a_batch_or_two_states_fails_its_contract_test(
    store: type[NumpyStore], tmp_path: Path
) -> None:
    class Suite(ReopenContract):
        def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> VectorStore:
            return store(space=space, fields=fields)

    assert list(failing_tests(Suite, tmp_path)) == ["test_a_reader_sees_whole_batches_and_each_answer_is_of_one_state"]


# Filters.


@caught_by(FilterContract, "test_each_filter_case_matches_in_every_call")
class AMissingFieldIsNull(Plain):
    def count(self, *, where: Any = None, namespace: str = "") -> int:
        found = super().count(where=where, namespace=namespace)
        if isinstance(where, Mapping) and None in where.values():
            missing = [entry for entry in self.held(namespace).values() if not where.keys() <= entry.metadata.keys()]
            found += len(missing)
        return found


@caught_by(FilterContract, "test_each_filter_case_matches_in_every_call")
class APathBeforeAKeyOfItsName(Plain):
    def count(self, *, where: Any = None, namespace: str = "") -> int:
        if where != {"a.b": 1}:
            return super().count(where=where, namespace=namespace)
        paths = [entry.metadata.get("a") for entry in self.held(namespace).values()]
        return sum(isinstance(inner, Mapping) and inner.get("b") == 1 for inner in paths)


@caught_by(FilterContract, "test_an_invalid_filter_is_refused_by_every_call")
class AnUnknownOperatorIsIgnored(Plain):
    def scan(self, *, where: Any = None, **options: Any) -> Iterator[Entry]:
        try:
            return super().scan(where=where, **options)
        except ArgumentError:
            return super().scan(**options)


# Time.


@caught_by(ReopenContract, "test_a_closed_store_refuses_every_method_of_the_data_part")
class ClosedAndStillAnswering(Plain):
    def namespaces(self, *, prefix: str = "") -> list[str]:
        return sorted(name for name, stored in self._namespaces.items() if stored.entries and name.startswith(prefix))


# A wrapper that loses something on the way.


@caught_by(SearchContract, "test_a_score_equal_to_the_threshold_stays")
class AWrapperThatLosesTheThreshold(WrapperStore):
    def search_many(self, vectors: Any, k: int = 10, *, min_score: Any = None, **options: Any) -> Any:
        return super().search_many(vectors, k, **options)


@caught_by(DeleteContract, "test_a_filter_alone_counts_and_deletes_its_matches")
class AWrapperThatLosesAFilter(WrapperStore):
    def count(self, *, where: Any = None, namespace: str = "") -> int:
        return super().count(namespace=namespace)


@caught_by(UpdateContract, "test_an_unexpected_revision_stops_the_whole_write")
class AWrapperThatSwallowsAnError(WrapperStore):
    def patch(self, metadata: Any, **options: Any) -> int:
        try:
            return super().patch(metadata, **options)
        except RevisionConflict:
            return 0


@caught_by(ValidationContract, "test_a_text_of_ten_million_letters_is_kept_whole_and_found")
class AWrapperThatCutsALongText(WrapperStore):
    def upsert(self, entries: Any, **options: Any) -> int:
        cut = (
            [replace(entry, text=entry.text[:1_000_000]) for entry in entries] if isinstance(entries, list) else entries
        )
        return super().upsert(cut, **options)


@caught_by(ValidationContract, "test_a_refusal_says_which_entry_which_field_and_what_is_right")
class AWrapperThatSaysOnlyThatSomethingIsWrong(WrapperStore):
    def upsert(self, entries: Any, **options: Any) -> int:
        try:
            return super().upsert(entries, **options)
        except ArgumentError as error:
            raise ArgumentError("entries", "…", "something else is needed") from error


# Each is caught.


def maker(store: type) -> Callable[..., VectorStore]:
    if issubclass(store, WrapperStore):
        return lambda **options: store(Plain(**options))
    return store


def passes(suite: type[StoreContract], test: str, folder: Path) -> bool:
    (own := folder / test).mkdir()
    return not failing_tests(suite, own, only={test})


@pytest.mark.parametrize(("store", "contract", "test"), FAULTS, ids=[store.__name__ for store, *_ in FAULTS])
def test_a_store_with_a_planted_fault_fails_its_contract_test(
    store: type, contract: type[StoreContract], test: str, tmp_path: Path
) -> None:
    suite = suite_of(contract, maker(store))
    assert not passes(suite, test, tmp_path)
    others = contract_tests(suite).keys() - LACKS.keys() - {test}
    assert any(passes(suite, other, tmp_path) for other in sorted(others)), "broken altogether, not by one fault"


@pytest.mark.parametrize("contract", sorted({contract for _, contract, _ in FAULTS}, key=lambda kind: kind.__name__))
def test_the_same_store_without_a_fault_passes_the_contract(contract: type[StoreContract], tmp_path: Path) -> None:
    for number, make in enumerate((Plain, lambda **options: WrapperStore(Plain(**options)))):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert failing_tests(suite_of(contract, make), folder) == {}
