"""Knowledge base: the documents of one collection in a memory; ingest, listing, retrieval, citation, removal.

knowledge = KnowledgeBase(memory)
report = await knowledge.ingest("docs")
passages = await knowledge.retrieve("How do I restore a backup?")
for citation in await knowledge.cite("How do I restore a backup?", passages):
    print(citation, citation.line)
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import date, datetime
from fnmatch import fnmatchcase
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from tellback.memory.chunking import Chunker, CodeChunker, FunctionChunker, MarkdownChunker, TextChunker
from tellback.memory.chunking.function import ChunkFunction
from tellback.memory.codec import entry_embedding_text, from_entry, with_metadata
from tellback.memory.documents.answers import AnswerSentence, best_sentences, with_meaning
from tellback.memory.documents.citations import Citation, cite
from tellback.memory.documents.collection import DocumentCollection, open_collection
from tellback.memory.documents.discovery import EVERY_FILE, FileSelection, GivenDocument, Paths, check_paths
from tellback.memory.documents.document import Passage, Passages, passage_of, passages_of
from tellback.memory.documents.document_writer import erase_document
from tellback.memory.documents.folder_watch import WatchStep, watch_folders
from tellback.memory.documents.ingest import IngestRun
from tellback.memory.documents.ingest_report import IngestAction, IngestLine, IngestReport, OnIngestProgress
from tellback.memory.documents.loaders.base import Loader, checked_limits
from tellback.memory.documents.loaders.content import known_content
from tellback.memory.documents.loaders.registry import LoaderRegistry, type_names
from tellback.memory.documents.manifest import DocumentRecord
from tellback.memory.entry_store import patched_metadata
from tellback.memory.errors import ArgumentError, LoadError, translating
from tellback.memory.long_term import LongTermMemory
from tellback.memory.models import AboutAuthor, is_worse_author
from tellback.memory.partitions import DOCUMENTS, parse_store_namespace
from tellback.memory.timestamps import to_aware
from tellback.memory.validation import (
    checked_about,
    checked_about_author,
    checked_int,
    checked_label,
    checked_labels,
    checked_text,
)
from tellback.memory.write.embedding_service import NOT_YET_EMBEDDED
from tellback.vectorstore import Analyzer, Entry, Filter, lifecycle_of

_SECTION: Final = "section"
_COMPARED = 5
"""Best passages whose sentences are compared with the question."""
_COMPARED_SHARE = 0.5
"""Share of the best score from which a passage is compared."""
_DOCUMENT_FACTOR = 4
"""Factor of passages that are fetched where only a few of each document are wanted."""


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """Document of a *collection*; *chunks* counts the stored ones, not those that were forgotten."""

    source: str
    title: str
    location: str
    chunks: int
    modified: datetime | None = None
    ingested: datetime | None = None
    collection: str = "default"


@translating
class KnowledgeBase:
    """The documents of *collection* in the user's *namespace* of *memory*. Any task may call.

    *chunker* cuts every document (None: Markdown by its structure, all else by paragraphs and sentences);
    *loaders* maps file endings to further loaders; *limits* bound what is read of a file: its ``size`` and what it
    holds ``unpacked`` in bytes, ``characters`` of text, ``seconds`` and ``memory`` (bytes) of a parser.
    """

    def __init__(
        self,
        memory: LongTermMemory,
        *,
        collection: str = "default",
        namespace: str = "",
        chunker: Chunker | ChunkFunction | None = None,
        loaders: Mapping[str, Loader] | None = None,
        limits: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._collection = open_collection(memory, checked_label(collection, "collection"), namespace)
        self._chunker_for = _chunker_by_media_type(chunker)
        self._loaders = LoaderRegistry(loaders or {}, limits=checked_limits(limits))

    @property
    def collection(self) -> str:
        """The collection's name."""
        return self._collection.name

    async def ingest(
        self,
        paths: Paths,
        *,
        again: bool = False,
        retire_missing: bool = False,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        max_size: int | None = None,
        ignore_files: bool = True,
        on_progress: OnIngestProgress | None = None,
    ) -> IngestReport:
        """Bring the collection to the present state of the files and folders *paths*; return the outcome of each.

        A path that does not exist raises before anything is done; a file that cannot be read is a line and
        keeps its earlier state. Documents whose files are gone from a given folder are erased. *again* reads
        what has not changed anew, and brings back what was removed or forgotten. *retire_missing*: a path that does
        not exist is a folder or file that is gone, and the documents from it are erased.

        Of a folder, only files that *include* names are read, if given, and none that *exclude* names (patterns as in
        ``.gitignore``), that are larger than *max_size* bytes, or that an ignore file (``.gitignore``, ``.ignore``)
        names, unless *ignore_files* is False; what an earlier ingest read of them stays.

        *on_progress* is called after each document has been written; what it raises ends the ingest there, and the next
        one goes on.
        """
        selection = FileSelection(include, exclude, max_size, ignore_files)
        return await self._run(selection, again, retire_missing, on_progress).run(paths)

    def watch(
        self,
        folders: Paths,
        *,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        max_size: int | None = None,
        ignore_files: bool = True,
        on_progress: OnIngestProgress | None = None,
    ) -> AsyncGenerator[WatchStep, None]:
        """Ingest *folders*, and again whenever something changes below them; yield a step for each, without end.

        A step has the ``report`` of an ingest, or None where its ``folders`` are gone: their documents stay, and they
        are read again when they are back. The options are those of ``ingest``. Needs the extra ``watch``.
        """
        selection = FileSelection(include, exclude, max_size, ignore_files)
        return watch_folders(folders, lambda changed: self._run(selection, on_progress=on_progress).run(changed))

    async def ingest_text(
        self,
        content: str | bytes | Mapping[str, Any] | Sequence[Any],
        *,
        source: str,
        title: str = "",
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] = MappingProxyType({}),
        again: bool = False,
    ) -> IngestReport:
        """Ingest a document given as a value, called *source*; a later call with that name replaces it.

        A text is Markdown unless the ending of *source* says otherwise, bytes are as a file of that name, and any other
        value is JSON, a record for each item of a list. *title*, *tags* and *metadata* add to what is found in it.
        """
        name = checked_label(source, "source")
        loader: Loader | None
        if isinstance(content, bytes | str):
            data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
            loader = self._loaders.choose_by_type(name, "")
            if loader is None and isinstance(content, str) and not known_content(data):
                loader = self._loaders.choose_by_type(name, "text/markdown")
        else:
            loader, data = self._loaders.choose_by_type(name, "application/json"), _encoded_value(content)
        document = GivenDocument(
            location=f"text:{name}",
            source=name,
            content=data,
            loader=loader,
            title=checked_text(title, "title"),
            tags=checked_labels(tags, "tags"),
            metadata=dict(metadata),
        )
        return await self._run(EVERY_FILE, again).run_given(document)

    async def ingest_url(self, url: str, *, allowed_hosts: Sequence[str] = (), again: bool = False) -> IngestReport:
        """Fetch the page at *url* and ingest it; a later call replaces it if the page has changed.

        Only http and https, and only public addresses, those of *allowed_hosts* excepted; each redirect is under the
        same rules. Another form of address raises ``ArgumentError``; a page that cannot be fetched is a failed line.
        """
        from tellback.memory.http.web_page import checked_page_url, fetch_page

        name, limits = checked_page_url(url), self._loaders.limits
        try:
            page = await fetch_page(name, allowed_hosts=allowed_hosts, size=limits.size, seconds=limits.seconds)
        except LoadError as error:
            return IngestReport((IngestLine(name, IngestAction.FAILED, error.reason),))
        loader = self._loaders.choose_by_type(page.name, page.media_type)
        document = GivenDocument(name, name, page.content, loader, page.modified)
        return await self._run(EVERY_FILE, again).run_given(document)

    async def collections(self) -> tuple[str, ...]:
        """Return the names of all collections of this namespace that hold a document, in order."""
        names = await asyncio.to_thread(self._collection.memory.store.namespaces)
        own = (self._collection.namespace, DOCUMENTS)
        lanes = [parse_store_namespace(name) for name in names]
        return tuple(sorted(name for *place, name in lanes if tuple(place) == own and name is not None))

    async def documents(self) -> list[DocumentInfo]:
        """Return what the collection holds, in order of source."""
        return await asyncio.to_thread(lambda: [self._info(record) for record in self._collection.manifest.all()])

    async def locate(self, document: str) -> str | None:
        """Return where a document was read (an absolute path, or its URI), by its source; None for an unknown one."""
        record = await asyncio.to_thread(self._collection.manifest.get, document)
        return None if record is None else record.location

    async def passage(self, id: str, *, neighbours: int | Literal["section"] = 0) -> Passage | None:
        """Return the passage with this *id*, with the text of its *neighbours*; None for an unknown id."""
        _check_neighbours(neighbours)
        passages = await asyncio.to_thread(_load_passages, self._collection, [id])
        if neighbours and passages:
            passages = list(await asyncio.to_thread(_add_neighbours, self._collection, passages, neighbours))
        return passages[0] if passages else None

    async def passages(self, document: str, *, location: str = "") -> list[Passage]:
        """Return the passages of a document in order, by its source or its *location*; none for an unknown one."""

        def load() -> list[Passage]:
            manifest = self._collection.manifest
            record = (manifest.at(location) if location else None) or manifest.get(document)
            return [] if record is None else _load_passages(self._collection, record.chunks)

        return await asyncio.to_thread(load)

    async def undescribed(self) -> list[Passage]:
        """Return the passages that nobody has given a line, in the order of their documents (``describe``)."""

        def load() -> list[Passage]:
            collection = self._collection
            entries = collection.memory.store.scan(namespace=collection.partition)
            described = {entry.id for entry in entries if entry.metadata.get("about_by")}
            chunks = [id for record in collection.manifest.all() for id in record.chunks if id not in described]
            return _load_passages(collection, chunks)

        return await asyncio.to_thread(load)

    async def describe(self, lines: Mapping[str, str], *, by: AboutAuthor = "caller") -> int:
        """Set the *lines* by the ids of passages: the question that each answers; return how many were set.

        A line is searched and embedded with its passage, and never quoted. It stays while the passage keeps its words,
        and is erased with it. An empty one says that there is none to write. A line of a better author stays; an
        unknown id is no error, since its document may have changed meanwhile.
        """
        checked = {checked_label(id, "lines"): checked_about(line, f"lines[{id!r}]") for id, line in lines.items()}
        if not checked_about_author(by, "by"):
            raise ArgumentError("by", by, "an author is needed")
        collection = self._collection
        store, embedding = collection.memory.store, collection.memory.embedding

        def changed() -> list[Entry]:
            entries = store.get(list(checked), namespace=collection.partition)
            return [
                with_metadata(
                    entry, patched_metadata(entry.metadata, {"about": checked[entry.id] or None, "about_by": by})
                )
                for entry in entries
                if entry is not None and not is_worse_author(by, entry.metadata.get("about_by", ""))
            ]

        with embedding.in_flight.write():
            entries = await asyncio.to_thread(changed)
            texts = dict.fromkeys(entry_embedding_text(entry) for entry in entries if entry.vector is None)
            vectors = await embedding.vectors(list(texts), partition=DOCUMENTS)
            embedded = dict(zip(texts, vectors, strict=True))

            def write() -> int:
                now = [
                    entry for entry in changed() if entry.vector is not None or entry_embedding_text(entry) in embedded
                ]
                vectors = embedding.still(
                    [embedded.get(entry_embedding_text(entry), NOT_YET_EMBEDDED) for entry in now]
                )
                renewed = [
                    entry if entry.vector is not None else replace(entry, vector=answer.vector)
                    for entry, answer in zip(now, vectors, strict=True)
                ]
                expect = {entry.id: entry.revision for entry in now}
                store.upsert(renewed, namespace=collection.partition, expect=expect)
                return len(renewed)

            return await asyncio.to_thread(write)

    async def remove(self, document: str) -> int:
        """Erase a document, by its source; return how many chunks it had. An ingest does not bring it back by itself.

        Other memories that hold its words stay; ``LongTermMemory.forget`` of its passages reaches those.
        """
        return await asyncio.to_thread(self._remove, document)

    async def document_filter(
        self,
        *,
        sources: Sequence[str] = (),
        types: Sequence[str] = (),
        modified_since: datetime | None = None,
        modified_until: datetime | None = None,
    ) -> Filter:
        """Return the filter of the documents that these choose, for *where* of ``retrieve``, ``recall`` or ``forget``.

        *sources* are names of files or folders, or patterns such as "guides/*.md"; *types* are endings, names of
        formats or media types ("pdf", "markdown", "text/html"). *modified_since* and *modified_until* bound when the
        file was changed (naive times are taken in the memory's zone); they leave out what has no such time.
        """
        zone = self._collection.memory.zone
        since, until = (
            None if moment is None else to_aware(moment, zone, argument=name)
            for name, moment in (("modified_since", modified_since), ("modified_until", modified_until))
        )
        patterns = checked_labels(sources, "sources")
        type_words = {name.casefold().removeprefix(".") for name in checked_labels(types, "types")}
        records = await asyncio.to_thread(self._collection.manifest.all)
        chosen = [
            record.source
            for record in records
            if (not patterns or any(_is_named(record, pattern) for pattern in patterns))
            and (not type_words or not type_words.isdisjoint(type_names(record.source)))
            and (since is None or (record.modified is not None and since <= record.modified))
            and (until is None or (record.modified is not None and record.modified <= until))
        ]
        return {"document": {"$in": chosen}}

    async def remove_folder(self, folder: str | os.PathLike[str]) -> tuple[str, ...]:
        """Erase all documents that were read below *folder*, also where it is gone; return their sources.

        As with ``remove``, an ingest does not bring them back by itself.
        """
        (path,) = check_paths(folder, missing_allowed=True)
        return await asyncio.to_thread(self._remove_folder, path.resolve())

    async def retrieve(
        self,
        question: str,
        k: int = 5,
        *,
        neighbours: int | Literal["section"] = 0,
        where: Filter | None = None,
        tags: Sequence[str] = (),
        as_of: datetime | None = None,
        token_budget: int | None = None,
        counter: Callable[[str], int] | None = None,
        explain: bool = False,
        per_document: int | None = None,
    ) -> Passages:
        """Return the *k* passages that answer *question* best, best first.

        The first few are in the order of the sentences in them that answer best; scores are those of ``recall``, as are
        the options that are not named here. *neighbours*: how many chunks before and after each to give with it, or
        "section" for all of the section that it stands in, with what is below its heading.
        *per_document*: how many passages of one document at most (None: any). Which documents: *where* filters by
        ``document`` (the source), ``title`` or fields of the metadata.
        """
        _check_neighbours(neighbours)
        checked_int(k, "k")
        if per_document is not None:
            checked_int(per_document, "per_document", 1)
        found = await self._collection.memory.recall(
            question,
            min(k, 1) * max(k, _COMPARED) * (1 if per_document is None else _DOCUMENT_FACTOR),
            namespace=self._collection.namespace,
            where=where,
            tags=tags,
            as_of=as_of,
            token_budget=token_budget,
            counter=counter,
            explain=explain,
            partitions=(DOCUMENTS,),
            collections=(self._collection.name,),
        )
        passages = await self._by_answer(question, _at_most(passages_of(found), per_document))
        passages = passages[:k]
        if neighbours and passages:
            passages = await asyncio.to_thread(_add_neighbours, self._collection, passages, neighbours)
        return Passages(
            passages, found.confidence, found.abstain, found.left_out, found.notes, found.degraded, found.near
        )

    async def _by_answer(self, question: str, passages: Sequence[Passage]) -> tuple[Passage, ...]:
        """Return *passages* where those that could come first are in the order of their best sentences."""
        count = sum(passage.score >= _COMPARED_SHARE * passages[0].score for passage in passages[:_COMPARED])
        if count < 2:
            return tuple(passages)
        sentences = await self._best_sentences(question, passages[:count])
        order = dict.fromkeys([*(found.passage for found in sentences), *range(count)])
        return (*(passages[index] for index in order), *passages[count:])

    async def _best_sentences(self, question: str, passages: Sequence[Passage]) -> list[AnswerSentence]:
        """Return the sentences of *passages* that answer, best first, the first ones compared by meaning, too."""
        sentences = await asyncio.to_thread(best_sentences, question, passages, analyzer=self._analyzer)
        texts = [passage.text for passage in passages]
        return await with_meaning(question, texts, sentences, self._collection.memory.similarities)

    @property
    def _analyzer(self) -> Analyzer | None:
        store = lifecycle_of(self._collection.memory.store)
        return None if store is None else store.analyzer

    async def cite(self, question: str, passages: Sequence[Passage]) -> list[Citation]:
        """Return the best quote of each passage."""
        sentences = await self._best_sentences(question, passages)
        return await asyncio.to_thread(cite, question, passages, sentences, analyzer=self._analyzer)

    def _run(
        self,
        selection: FileSelection,
        again: bool = False,
        retire_missing: bool = False,
        on_progress: OnIngestProgress | None = None,
    ) -> IngestRun:
        return IngestRun(
            self._collection, self._chunker_for, self._loaders, selection, again, retire_missing, on_progress
        )

    def _info(self, record: DocumentRecord) -> DocumentInfo:
        entries = self._collection.memory.store.get(record.chunks, namespace=self._collection.partition)
        stored = [entry for entry in entries if entry is not None]
        source = from_entry(stored[0]).source if stored else None
        return DocumentInfo(
            source=record.source,
            title=source.title or "" if source is not None else "",
            location=record.location,
            chunks=len(stored),
            modified=record.modified,
            ingested=record.ingested,
            collection=self._collection.name,
        )

    def _remove(self, document: str) -> int:
        while True:
            record = self._collection.manifest.get(document)
            if record is None:
                raise ArgumentError("document", document, "a document of this collection is needed")
            erased = erase_document(self._collection, record, ban=True)
            if erased is not None:
                return erased

    def _remove_folder(self, folder: Path) -> tuple[str, ...]:
        store = lifecycle_of(self._collection.memory.store)
        with nullcontext() if store is None else store.transaction(lock=self._collection.partition):
            below = [
                record.source
                for record in self._collection.manifest.all()
                if record.location and Path(record.location).is_relative_to(folder)
            ]
            for source in below:
                self._remove(source)
        return tuple(below)


def _is_named(record: DocumentRecord, pattern: str) -> bool:
    """Return whether *pattern* names a document by its source, or by a file or folder of the path where it was read."""
    location, name = record.location.replace("\\", "/"), pattern.replace("\\", "/").rstrip("/")
    matches = fnmatchcase(record.source, name) or fnmatchcase(location, f"*/{name.lstrip('./')}")
    return matches or f"/{name.lstrip('./')}/" in f"/{location}/" or record.source.startswith(f"{name}/")


def _date_text(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(type(value).__name__)


def _encoded_value(value: object) -> bytes:
    try:
        return json.dumps(value, ensure_ascii=False, default=_date_text).encode("utf-8", "replace")
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError("content", type(value), "a text, bytes, or a value that JSON can hold is needed") from error


def _chunker_by_media_type(chunker: Chunker | ChunkFunction | None) -> Callable[[str], Chunker]:
    if chunker is not None:
        chosen = chunker if isinstance(chunker, Chunker) else FunctionChunker(chunker)
        return lambda media_type: chosen
    text = TextChunker()
    chunkers: dict[str, Chunker] = {"text/markdown": MarkdownChunker(), "text/x-code": CodeChunker()}
    return lambda media_type: chunkers.get(media_type, text)


def _at_most(passages: Sequence[Passage], count: int | None) -> Sequence[Passage]:
    """Return at most *count* of the passages of each document, in their order."""
    if count is None:
        return passages
    seen: Counter[str] = Counter()
    kept = []
    for passage in passages:
        seen[passage.document] += 1
        if seen[passage.document] <= count:
            kept.append(passage)
    return kept


def _check_neighbours(neighbours: object) -> None:
    if neighbours != _SECTION:
        checked_int(neighbours, "neighbours")


def _add_neighbours(
    collection: DocumentCollection, passages: Sequence[Passage], neighbours: int | Literal["section"]
) -> tuple[Passage, ...]:
    widened = []
    for passage in passages:
        record = collection.manifest.get(passage.document)
        if record is None or passage.id not in record.chunks:  # replaced since it was found
            widened.append(passage)
            continue
        index = record.chunks.index(passage.id)
        count = len(record.chunks) if neighbours == _SECTION else neighbours
        before = _load_passages(collection, record.chunks[max(0, index - count) : index])
        after = _load_passages(collection, record.chunks[index + 1 : index + 1 + count])
        if neighbours == _SECTION:
            before = [*takewhile(partial(_is_in_section, passage.heading), reversed(before))][::-1]
            after = [*takewhile(partial(_is_in_section, passage.heading), after)]
        reached, whole = _join_passages([*before, passage]), _join_passages([*before, passage, *after])
        begin, end = len(reached) - len(passage.text), len(reached)
        widened.append(replace(passage, before=whole[:begin], after=whole[end:]))
    return tuple(widened)


def _is_in_section(heading: tuple[str, ...], passage: Passage) -> bool:
    return passage.heading[: len(heading)] == heading


def _load_passages(collection: DocumentCollection, ids: Sequence[str]) -> list[Passage]:
    entries = collection.memory.store.get(ids, namespace=collection.partition)
    loaded = [passage_of(from_entry(entry)) for entry in entries if entry is not None]
    return [passage for passage in loaded if passage is not None]


def _join_passages(pieces: Sequence[Passage]) -> str:
    """Return the text of *pieces*, in order, with what overlaps only once.

    Between two chunks the document has only blanks: one is given as a space, more as an empty line.
    """
    text, reached = "", pieces[0].start
    for piece in pieces:
        gap = piece.start - reached
        text += ("\n\n" if gap > 1 else " " * gap) + piece.text[max(0, -gap) :]
        reached = max(reached, piece.end)
    return text
