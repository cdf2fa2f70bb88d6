"""Knowledge base: the documents of one collection in a memory; ingest, listing, retrieval, citation, removal.

knowledge = KnowledgeBase(memory)
report = await knowledge.ingest("docs")
passages = await knowledge.retrieve("How do I restore a backup?")
for citation in await knowledge.cite("How do I restore a backup?", passages):
    print(citation, citation.line)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from memory.chunking.markdown import MarkdownChunker
from memory.chunking.protocol import Chunker
from memory.chunking.text import TextChunker
from memory.codec import from_entry
from memory.documents.citations import Citation, cite
from memory.documents.collection import DocumentCollection, open_collection
from memory.documents.discovery import Paths
from memory.documents.document import Passage, Passages, passage_of, passages_of
from memory.documents.document_writer import erase_document
from memory.documents.ingest import IngestRun
from memory.documents.ingest_report import IngestReport, OnIngestProgress
from memory.documents.loaders.base import SIZE_LIMIT, Loader
from memory.documents.loaders.registry import LoaderRegistry
from memory.documents.manifest import DocumentRecord
from memory.errors import ArgumentError, translating
from memory.long_term import LongTermMemory
from memory.partitions import DOCUMENTS
from memory.validation import checked_int, checked_label
from vectorstore import Filter, lifecycle_of
from vectorstore.internals import idf


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """Document of the collection; *chunks* counts the stored ones, not those that were forgotten."""

    source: str
    title: str
    location: str
    chunks: int
    modified: datetime | None = None
    ingested: datetime | None = None


@translating
class KnowledgeBase:
    """The documents of *collection* in the user's *namespace* of *memory*. Any task may call.

    *chunker* cuts every document (None: Markdown by its structure, all else by paragraphs and sentences);
    *loaders* maps file endings to further loaders.
    """

    def __init__(
        self,
        memory: LongTermMemory,
        *,
        collection: str = "default",
        namespace: str = "",
        chunker: Chunker | None = None,
        loaders: Mapping[str, Loader] | None = None,
        size_limit: int = SIZE_LIMIT,
    ) -> None:
        self._collection = open_collection(memory, checked_label(collection, "collection"), namespace)
        self._chunker_for = _chunker_by_media_type(chunker)
        self._loaders = LoaderRegistry(loaders or {})
        self._size_limit = size_limit

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
        on_progress: OnIngestProgress | None = None,
    ) -> IngestReport:
        """Make the collection hold the present state of the files and folders *paths*; say what became of each.

        A path that does not exist raises before anything is done; a file that cannot be read is a line and
        keeps its earlier state. Documents whose files are gone from a given folder are erased. *again* reads
        what has not changed anew, and brings back what was removed or forgotten. *retire_missing*: a path that does
        not exist is a folder or file that is gone, and the documents from it are erased. *on_progress* is called
        after each document has been written; what it raises ends the ingest there, and the next one goes on.
        """
        run = IngestRun(
            self._collection, self._chunker_for, self._loaders, self._size_limit, again, retire_missing, on_progress
        )
        return await run.run(paths)

    async def documents(self) -> list[DocumentInfo]:
        """Return what the collection holds, in order of source."""
        return await asyncio.to_thread(lambda: [self._info(record) for record in self._collection.manifest.all()])

    async def remove(self, document: str) -> int:
        """Erase a document, by its source; return how many chunks it had. An ingest does not bring it back by itself.

        Other memories that hold its words stay; ``LongTermMemory.forget`` of its passages reaches those.
        """
        return await asyncio.to_thread(self._remove, document)

    async def retrieve(
        self,
        question: str,
        k: int = 5,
        *,
        neighbours: int = 0,
        where: Filter | None = None,
        tags: Sequence[str] = (),
        as_of: datetime | None = None,
        token_budget: int | None = None,
        counter: Callable[[str], int] | None = None,
        explain: bool = False,
    ) -> Passages:
        """Return the *k* passages that are most about *question*, best first.

        *neighbours*: how many chunks before and after each to give with it. The rest is as for ``recall``.
        """
        checked_int(neighbours, "neighbours")
        found = await self._collection.memory.recall(
            question,
            k,
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
        passages = passages_of(found)
        if neighbours and passages:
            passages = await asyncio.to_thread(_add_neighbours, self._collection, passages, neighbours)
        return Passages(
            passages, found.confidence, found.abstain, found.left_out, found.notes, found.degraded, found.near
        )

    async def cite(self, question: str, passages: Sequence[Passage]) -> list[Citation]:
        """Return the best quote of each passage; a word counts by how rare it is in the collection."""
        return await asyncio.to_thread(self._cite, question, passages)

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
        )

    def _remove(self, document: str) -> int:
        while True:
            record = self._collection.manifest.get(document)
            if record is None:
                raise ArgumentError("document", document, "a document of this collection is needed")
            erased = erase_document(self._collection, record, ban=True)
            if erased is not None:
                return erased

    def _cite(self, question: str, passages: Sequence[Passage]) -> list[Citation]:
        store, partition = lifecycle_of(self._collection.memory.store), self._collection.partition
        if store is None:
            return cite(question, passages)
        analyzer = store.analyzer
        terms = list(dict.fromkeys(analyzer.terms(question)))
        with store.view([partition]) as view:
            count, frequencies = view.count(namespace=partition), view.df(terms, namespace=partition)
        weights = {term: idf(count, df) for term, df in zip(terms, frequencies, strict=True)}
        return cite(question, passages, terms=analyzer.terms, weights=weights)


def _chunker_by_media_type(chunker: Chunker | None) -> Callable[[str], Chunker]:
    if chunker is not None:
        return lambda media_type: chunker
    markdown, text = MarkdownChunker(), TextChunker()
    return lambda media_type: markdown if media_type == "text/markdown" else text


def _add_neighbours(collection: DocumentCollection, passages: Sequence[Passage], count: int) -> tuple[Passage, ...]:
    widened = []
    for passage in passages:
        record = collection.manifest.get(passage.document)
        if record is None or passage.id not in record.chunks:  # replaced since it was found
            widened.append(passage)
            continue
        index = record.chunks.index(passage.id)
        before = _load_passages(collection, record.chunks[max(0, index - count) : index])
        after = _load_passages(collection, record.chunks[index + 1 : index + 1 + count])
        reached, whole = _join_passages([*before, passage]), _join_passages([*before, passage, *after])
        begin, end = len(reached) - len(passage.text), len(reached)
        widened.append(replace(passage, before=whole[:begin], after=whole[end:]))
    return tuple(widened)


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
