"""Embedding service: vectors for writes and questions; an embedder that fails or hangs never fails a write.

What could not be embedded is stored without a vector, found by its words, and embedded later. The space of a vector is
checked again before it is stored, so that a migration to another space, here or in another process, mixes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.batching import TextVector
from tellback.memory.embedders.cache import MAX_BYTES, CachedEmbedder, DatabaseEmbeddingCache
from tellback.memory.embedders.fingerprint import is_same_model, names_weights, probe_embedder, probe_similarity
from tellback.memory.embedders.lines import embed_with_lines, embedded_parts, passages_of
from tellback.memory.embedders.probe_pairs import PROBE_TEXTS, measured_profile
from tellback.memory.embedders.profile import UNKNOWN_PROFILE, EmbedderProfile, known_profile, profile_of_fields
from tellback.memory.embedders.protocol import (
    Embedder,
    EmbeddingKind,
    Embeddings,
    Truncation,
    checked_embedder,
    embed_detailed,
    forget_texts,
    is_space_of,
    passage_embedder,
)
from tellback.memory.entry_store import database_for, follow_recorded_space
from tellback.memory.errors import ArgumentError, EmbedderChanged, EmbedderError, EmbedderMismatch
from tellback.memory.http.redaction import redact_line
from tellback.memory.http.requests import is_remote
from tellback.memory.partitions import CONVERSATION, DOCUMENTS
from tellback.memory.tables.embedder_probes import EmbedderProbes, ProbeVectors
from tellback.memory.validation import checked_seconds
from tellback.memory.write.access_control import SENSITIVE_REASON
from tellback.vectorstore import (
    Database,
    Space,
    SpaceMismatch,
    UnsupportedError,
    Vector,
    VectorStore,
    VectorStoreError,
    lifecycle_of,
)


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """Limits in seconds. ``flush`` and ``reembed`` have none: they do nothing else, and can be cancelled.

    A write waits *write_patience* and *per_text* for each of its texts, and is then stored without vectors; a question
    waits *question_patience*, and is then answered by words alone. After such a wait the embedder is left alone for
    *rest*. *mismatch*: an embedder whose vectors are not those of the memory is refused at opening ("raise"), or
    taken and not used ("words"): everything is found by words, new things wait, and ``reembed`` mends it.
    *cache_bytes*: keep the vectors of texts in the memory's file, at most so many bytes of them, so that a text that
    comes again is not embedded again; 0 keeps none.
    """

    write_patience: float = 60.0
    per_text: float = 1.0
    question_patience: float = 10.0
    rest: float = 30.0
    cache_bytes: int = 0
    mismatch: Literal["raise", "words"] = "raise"

    def __post_init__(self) -> None:
        for name in ("write_patience", "per_text", "question_patience", "rest"):
            checked_seconds(getattr(self, name), name)
        if type(self.cache_bytes) is not int or self.cache_bytes < 0:
            raise ArgumentError("cache_bytes", self.cache_bytes, "a number of bytes, at least 0, is needed")
        if self.mismatch not in ("raise", "words"):
            raise ArgumentError("mismatch", self.mismatch, "'raise' or 'words' is needed")


def checked_embedding_settings(settings: object) -> EmbeddingSettings:
    """Return *settings* if they are ``EmbeddingSettings``; None are the usual ones."""
    if settings is not None and not isinstance(settings, EmbeddingSettings):
        raise ArgumentError("embedding_settings", settings, "EmbeddingSettings are needed, or None")
    return settings or EmbeddingSettings()


NOTHING_TO_EMBED = "nothing to embed"
ZERO_VECTOR = "it gave a vector of zeros"
NO_EMBEDDER = "no embedder is configured"
EMBEDDER_REFUSED = "the embedder refused it"
SPACE_SWITCHED = "the memory was switched to another embedder meanwhile"


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedText:
    """The *vector* of a text, or why it has none: never (*no_vector*), or not yet (*deferred*).

    *truncated*: the vector is of its beginning alone. *space* is that of the embedder's vectors, None where it did not
    answer.
    """

    vector: Vector | None = None
    no_vector: str | None = None
    deferred: str | None = None
    truncated: Truncation | None = None
    space: Space | None = None

    @property
    def refused(self) -> str | None:
        """Reason of an embedder that answered and has no vector for this text; the text alone waits."""
        return None if self.space is None else self.deferred


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddedQuery:
    """The *vectors* of a question's wordings, and a *note* where words alone must do; *failed*: because the embedder
    failed, refused them, or gave no answer in time."""

    vectors: dict[str, Vector]
    note: str | None = None
    failed: bool = False


NOT_YET_EMBEDDED = EmbeddedText()
NOT_SENT = EmbeddedText(no_vector=SENSITIVE_REASON)


def partition_embedder(embedder: Embedder, partition: str) -> Embedder:
    """Return the embedder of the texts of *partition*: that of passages for documents."""
    return passage_embedder(embedder) if partition == DOCUMENTS else embedder


def embedded_texts(answer: Embeddings, space: Space) -> list[EmbeddedText]:
    """Return an embedder's answer as it is stored."""
    embedded = []
    for place, row in enumerate(answer.vectors):
        why, filled = answer.refused.get(place), bool(row.any())
        embedded.append(
            EmbeddedText(
                row.copy() if filled else None,
                NOTHING_TO_EMBED if not filled and why is None else None,
                None if why is None else f"{EMBEDDER_REFUSED}: {redact_line(why)}",
                answer.truncated.get(place),
                space,
            )
        )
    return embedded


def checked_embeddings(answer: Embeddings, texts: Sequence[str]) -> Embeddings:
    """Return *answer* if it is a finite vector for each text; zeros for a text with letters or digits are a refusal."""
    try:
        rows = np.asarray(answer.vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        kind = type(answer.vectors).__name__
        raise EmbedderError(f"{len(texts)} texts gave {kind}, not an array of numbers") from error
    if rows.ndim != 2 or len(rows) != len(texts) or not np.isfinite(rows).all():
        raise EmbedderError(f"{len(texts)} texts gave vectors of shape {rows.shape}, or some not finite")
    zeros = np.flatnonzero(~rows.any(axis=1)).tolist()
    empty = {place: ZERO_VECTOR for place in zeros if any(map(str.isalnum, texts[place]))}
    return Embeddings(rows, answer.truncated, {**empty, **answer.refused})


_WORDS_ONLY_NOTE = "searched by words alone"
_PROFILED_MEMORIES = 20
"""Memories from which the profile of an unknown embedder is measured: it costs the embedding of 64 sentences."""

_log = logging.getLogger(__name__)


class WritesInFlight:
    """Counts writes, so that closing can wait for them, and knows the embeddings that they wait for.

    Any thread and event loop may call.
    """

    def __init__(self) -> None:
        self.closing = False
        """True when embeddings are no longer waited for."""
        self._changed = threading.Condition()
        self._writes = 0
        self._waits: dict[asyncio.Timeout, asyncio.AbstractEventLoop] = {}

    @contextmanager
    def write(self) -> Iterator[None]:
        """A block that stores something; ``wait`` waits for its end."""
        with self._changed:
            self._writes += 1
        try:
            yield
        finally:
            with self._changed:
                self._writes -= 1
                self._changed.notify_all()

    @asynccontextmanager
    async def embedding(self, patience: float | None) -> AsyncIterator[asyncio.Timeout]:
        """A block that waits for an embedder, *patience* seconds at the most, and not once ``hurry`` was called."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(patience) as limit:
            with self._changed:
                self._waits[limit] = loop
                if self.closing:
                    limit.reschedule(loop.time())
            try:
                yield limit
            finally:
                with self._changed:
                    del self._waits[limit]

    def wait(self, seconds: float) -> bool:
        """Block until no write is under way, at most *seconds*; return whether it is so. In a thread."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._writes, seconds)

    def hurry(self) -> None:
        """End the waiting for embedders, now and from now on: what is being written is stored without vectors."""
        with self._changed:
            self.closing = True
            for limit, loop in self._waits.items():
                with suppress(RuntimeError):  # a loop that was closed with the work in it
                    loop.call_soon_threadsafe(_expire_now, limit, loop)


def _expire_now(limit: asyncio.Timeout, loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):  # it has ended meanwhile
        limit.reschedule(loop.time())


class EmbeddingService:
    """An embedder (or none) for one store; sets the store's space on first use. Any task may call.

    *problem* is why the last try to embed failed, None where it did not. *in_flight* knows the writes that have begun
    and not ended.
    """

    def __init__(
        self,
        store: VectorStore,
        embedder: Embedder | None,
        *,
        database: Database | None = None,
        settings: EmbeddingSettings | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = checked_embedding_settings(settings)
        self.problem: str | None = None
        self.in_flight = WritesInFlight()
        self._store = store
        self._lasting = lifecycle_of(store)
        self._clock = clock
        self._rests_until = -1.0
        self._trusted: Space | None = None
        self._profiles: dict[str, EmbedderProfile] = {}
        self._measured: set[str] = set()
        self._counted: int | None = None
        if embedder is not None:
            checked_embedder(embedder)
            if store.space is None and self._lasting is None:
                reason = "a store without the lifecycle part needs its space when it is made"
                raise UnsupportedError("embedder", reason)
            if self.settings.mismatch == "raise":
                _check_fingerprint(store.space, embedder)
        database = database_for(store, database)
        self.probes = EmbedderProbes(database)
        limit = self.settings.cache_bytes or MAX_BYTES
        self._lasts = database.lasting
        self._cache = DatabaseEmbeddingCache(database, max_bytes=limit)
        self.embedder = embedder if embedder is None else self._kept(embedder)

    @property
    def has_passages(self) -> bool:
        """True if passages of documents have an embedder of their own."""
        return self.embedder is not None and passage_embedder(self.embedder) is not self.embedder

    @property
    def resting(self) -> bool:
        """Return whether the embedder is left alone, since it did not answer in time or nobody waits any more."""
        return self._clock() < self._rests_until or self.in_flight.closing

    async def vectors(
        self, texts: Sequence[str], *, partition: str = CONVERSATION, patient: bool = False
    ) -> list[EmbeddedText]:
        """Return the vectors of *texts* for storing in *partition*; raises nothing but cancellation.

        *patient*: without a limit of time.
        """
        if not texts:
            return []
        if self.embedder is None:
            return [EmbeddedText(deferred=NO_EMBEDDER)] * len(texts)
        patience = None if patient else self.settings.write_patience + self.settings.per_text * len(texts)
        try:
            answer, space = await self._asked(self.embedder, texts, "document", patience, partition)
        except Exception as error:  # a stranger's embedder may raise anything; what was said is kept all the same
            if not isinstance(error, EmbedderMismatch):  # which is nobody's failure, and is in the item's line
                _log.warning("embedding failed: %s", type(error).__name__)
            return [EmbeddedText(deferred=self._failed(error))] * len(texts)
        await self._measure_profile(space, len(texts))
        return embedded_texts(answer, space)

    def profile(self, name: str) -> EmbedderProfile:
        """Return the profile of the embedder of the space *name*: known, measured, or that of an unknown one."""
        found = known_profile(name) or self._profiles.get(name)
        if found is None:
            fields = self.probes.profile(name)
            if fields is None:
                return UNKNOWN_PROFILE
            found = self._profiles[name] = profile_of_fields(fields)
        return found

    async def _measure_profile(self, space: Space, added: int) -> None:
        """Measure the profile of an unknown embedder once, as soon as the memory is large enough for it to matter.

        *added* texts are about to be stored.
        An embedder that does not answer the probes in time is asked again by another process.
        """
        name, embedder = space.fingerprint, self.embedder
        if embedder is None or name in self._measured or known_profile(name) is not None:
            return
        if added < _PROFILED_MEMORIES and await asyncio.to_thread(self._is_small, added):
            return
        self._measured.add(name)
        if await asyncio.to_thread(self.probes.profile, name) is not None:
            return
        try:
            async with asyncio.timeout(self.settings.question_patience):
                half = len(PROBE_TEXTS) // 2
                questions = await embed_detailed(embedder, PROBE_TEXTS[:half], "query")
                statements = await embed_detailed(embedder, PROBE_TEXTS[half:], "document")
            profile = measured_profile(
                checked_embeddings(questions, PROBE_TEXTS[:half]).vectors,
                checked_embeddings(statements, PROBE_TEXTS[half:]).vectors,
            )
        except Exception as error:  # as in vectors(): a stranger's embedder may raise anything
            _log.warning("the profile of an embedder could not be measured: %s", type(error).__name__)
            return
        await asyncio.to_thread(self.probes.put_profile, name, asdict(profile))

    def _is_small(self, added: int) -> bool:
        if self._counted is None or self._counted + added >= _PROFILED_MEMORIES:  # a write that failed was counted
            self._counted = 0
            for namespace in self._store.namespaces():
                self._counted += self._store.count(namespace=namespace)
                if self._counted >= _PROFILED_MEMORIES:
                    break
        self._counted += added
        return self._counted < _PROFILED_MEMORIES

    async def keep_passages(self, space: Space, passages: Mapping[str, NDArray[np.float32]]) -> None:
        """Keep the vectors of the *passages* of long texts, where no cache does; they are forgotten with their text."""
        if passages and not isinstance(self.embedder, CachedEmbedder):
            kept = {text: TextVector(np.array(row, np.float32)) for text, row in passages.items()}
            try:
                await asyncio.to_thread(self._cache.put, space.fingerprint, "document", kept)
            except VectorStoreError as error:  # a recall then goes by the whole text
                _log.warning("the vectors of passages were not kept: %s", type(error).__name__)

    def passage_cosines(self, text: str, question: Vector) -> list[tuple[str, float]]:
        """Return the passages of a long *text* with their cosines to *question*, where their vectors are kept."""
        space, passages = self._store.space, passages_of(text)
        if space is None or not passages:
            return []
        try:
            kept = self._cache.get(space.fingerprint, "document", passages)
        except VectorStoreError:  # as without them
            return []
        length = float(np.linalg.norm(question))
        return [
            (passage, float(known.vector @ question) / (length * float(np.linalg.norm(known.vector))))
            for passage, known in zip(passages, kept, strict=True)
            if known is not None and known.vector.shape == question.shape and length
        ]

    async def queries(self, texts: Sequence[str], *, partition: str = CONVERSATION) -> EmbeddedQuery:
        """Return the vectors of a question's wordings in *partition*; raises nothing but cancellation."""
        if self.embedder is None:
            return EmbeddedQuery({}, f"{_WORDS_ONLY_NOTE}: {NO_EMBEDDER}")
        if not texts or self._store.space is None:
            return EmbeddedQuery({}, None if not texts else f"{_WORDS_ONLY_NOTE}: nothing has a vector yet")
        try:
            answer, _ = await self._asked(self.embedder, texts, "query", self.settings.question_patience, partition)
        except Exception as error:  # as in vectors(): a failing embedder degrades the recall and says so
            note = f"{_WORDS_ONLY_NOTE}: {self._failed(error)}"
            _log.info("a question was %s", note)
            return EmbeddedQuery({}, note, failed=True)
        found = {text: row for text, row in zip(texts, answer.vectors, strict=True) if row.any()}
        refused = next(iter(answer.refused.values()), None)
        if refused and not found:
            return EmbeddedQuery({}, f"{_WORDS_ONLY_NOTE}: the embedder refused: {redact_line(refused)}", failed=True)
        return EmbeddedQuery(found)

    async def similarities(self, question: str, texts: Sequence[str]) -> list[float] | None:
        """Return the cosine of each of *texts* with *question*; None without an embedder on this machine.

        Nothing is kept of them, and one that fails gives None.
        """
        if self.embedder is None or is_remote(self.embedder):
            return None
        try:
            asked = checked_embeddings(await embed_detailed(self.embedder, [question], "query"), [question])
            vectors = checked_embeddings(await embed_detailed(self.embedder, texts), texts).vectors
        except Exception as error:  # as in vectors(): an answer without this comparison is better than none
            _log.warning("embedding failed: %s", type(error).__name__)
            return None
        return [float(value) for value in vectors @ asked.vectors[0]]

    async def mismatch(self) -> str | None:
        """Ask the embedder for the probes; return why its vectors are not the memory's, None where they are.

        Nothing is written. One that fails raises what it raised.
        """
        embedder, space = self.embedder, self._store.space
        if embedder is None or space is None:
            return None
        try:
            _check_fingerprint(space, embedder)
            known = await asyncio.to_thread(self.probes.get, space.fingerprint)
            if known is not None:
                _check_probes(embedder, known, await probe_embedder(embedder))
        except EmbedderMismatch as error:
            return str(error)
        return None

    def follow(self) -> Space | None:
        """Return the space of the store's vectors now, whoever switched it; the store then takes those. In a thread."""
        return follow_recorded_space(self._store, self._lasting)

    def still(self, embedded: Sequence[EmbeddedText]) -> Sequence[EmbeddedText]:
        """Return *embedded* if its vectors may be stored, else as deferred; in the transaction that stores it."""
        space = next((text.space for text in embedded if text.space is not None), None)
        if space is None or self.follow() == space:
            return embedded
        return [EmbeddedText(deferred=SPACE_SWITCHED)] * len(embedded)

    def use(self, embedder: Embedder, space: Space) -> None:
        """Go on with *embedder*, whose vectors the store has now."""
        self.embedder, self._trusted, self.problem = self._kept(embedder), space, None
        self._rests_until = -1.0

    def forget(self, texts: Sequence[str], *, keeping: Iterable[str] = ()) -> None:
        """Remove what is kept of *texts*, which are to be erased; in the transaction that erases them.

        What they have in common with the texts *keeping*, such as passages that stay, is kept.
        What a file's cache holds goes whichever embedder is in use now.
        """
        staying = set(embedded_parts(keeping))
        parts = [part for part in embedded_parts(texts) if part not in staying]
        self._cache.erase(parts)
        forget_texts(self.embedder, parts)

    def kept(self) -> int:
        """Return how many bytes of vectors the file's cache holds, whether it is used now or not. In a thread."""
        return self._cache.size()

    def close(self) -> None:
        """Write down what the cache was asked for. In a thread."""
        if self._lasts and self.settings.cache_bytes:
            self._cache.close()

    def _kept(self, embedder: Embedder) -> Embedder:
        if not self._lasts or not self.settings.cache_bytes or isinstance(embedder, CachedEmbedder):
            return embedder
        return CachedEmbedder(embedder, self._cache)

    def _failed(self, error: Exception) -> str:
        self._trusted = None  # what comes back may be another model
        if isinstance(error, EmbedderMismatch):
            self.problem = str(error)
        else:
            self.problem = f"the embedder failed: {redact_line(str(error)) or type(error).__name__}"
        return self.problem

    async def _asked(
        self, embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind, patience: float | None, partition: str
    ) -> tuple[Embeddings, Space]:
        if self.in_flight.closing:
            raise EmbedderError("the memory is being closed")
        if self.resting and patience is not None:
            raise EmbedderError(f"it did not answer in time, and is left alone for {self.settings.rest:g} s")
        try:
            async with self.in_flight.embedding(patience) as limit:
                answer, space = await self._embed(embedder, texts, kind, partition)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise EmbedderError("it cancelled itself") from error
        except TimeoutError as error:
            if not limit.expired():
                raise
            if self.in_flight.closing:
                raise EmbedderError("the memory is being closed") from error
            self._rests_until = self._clock() + self.settings.rest
            raise EmbedderError(f"no answer within {patience:g} s") from error
        self.problem = None
        return answer, space

    async def _embed(
        self, embedder: Embedder, texts: Sequence[str], kind: EmbeddingKind, partition: str
    ) -> tuple[Embeddings, Space]:
        space = self._store.space
        if space is not None and not is_space_of(space, embedder):  # it may have been switched to this one elsewhere
            space = await asyncio.to_thread(self.follow)
            _check_fingerprint(space, embedder)
        trusted = space is not None and (self._trusted == space or names_weights(embedder))
        probing = None if trusted else asyncio.ensure_future(probe_embedder(embedder))
        try:
            embeddings, passages = await embed_with_lines(partition_embedder(embedder, partition), texts, kind)
            answer = checked_embeddings(embeddings, texts)
            seen = None if probing is None else await probing
        finally:
            if probing is not None:  # it does not outlive this, and fails unseen where embedding does
                probing.cancel()
                await asyncio.gather(probing, return_exceptions=True)
        if seen is not None or space is None:
            space = await asyncio.to_thread(self._settle, embedder, answer.vectors.shape[1], seen)
        else:
            _check_dimension(space, embedder, answer.vectors.shape[1])
        await self.keep_passages(space, passages)
        return answer, space

    def _settle(self, embedder: Embedder, dimension: int, seen: ProbeVectors | None) -> Space:
        """Compare the embedder's answer with the vectors of the memory; record the first answer."""
        if self._store.space is None and self._lasting is not None:
            try:
                self._lasting.set_space(Space(embedder.fingerprint, dimension))
            except SpaceMismatch as error:
                raise EmbedderMismatch(str(error.recorded), f"{embedder.fingerprint} ({dimension})") from error
        space = self._store.space
        assert space is not None
        _check_fingerprint(space, embedder)
        _check_dimension(space, embedder, dimension)
        if seen is not None:
            _check_probes(embedder, self.probes.first(space.fingerprint, seen), seen)
            self._trusted = space
        return space


def _check_fingerprint(space: Space | None, embedder: Embedder) -> None:
    if space is not None and not is_space_of(space, embedder):
        raise EmbedderMismatch(space.fingerprint, embedder.fingerprint)


def _check_dimension(space: Space, embedder: Embedder, dimension: int) -> None:
    if space.dimension != dimension:
        raise EmbedderMismatch(str(space), f"{embedder.fingerprint} ({dimension} dimensions)")


def _check_probes(embedder: Embedder, known: ProbeVectors, seen: ProbeVectors) -> None:
    if not is_same_model(known, seen):
        raise EmbedderChanged(embedder.fingerprint, probe_similarity(known, seen))
