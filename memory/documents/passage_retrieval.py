"""Retrieval of passages: a question in, passages of documents with their offsets out. The ranking is that of recall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from memory.codec import from_entry
from memory.documents.collection import DocumentCollection
from memory.documents.document import Passage, Passages, passage_of, passages_of
from memory.partitions import DOCUMENTS
from memory.validation import checked_int
from vectorstore import Filter


async def retrieve_passages(
    collection: DocumentCollection,
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
    """As ``KnowledgeBase.retrieve``."""
    checked_int(neighbours, "neighbours")
    found = await collection.memory.recall(
        question,
        k,
        namespace=collection.namespace,
        where=where,
        tags=tags,
        as_of=as_of,
        token_budget=token_budget,
        counter=counter,
        explain=explain,
        partitions=(DOCUMENTS,),
        collections=(collection.name,),
    )
    passages = passages_of(found)
    if neighbours and passages:
        passages = await asyncio.to_thread(_add_neighbours, collection, passages, neighbours)
    return Passages(passages, found.confidence, found.abstain, found.left_out, found.notes)


def _add_neighbours(collection: DocumentCollection, passages: Sequence[Passage], count: int) -> tuple[Passage, ...]:
    widened = []
    for passage in passages:
        record = collection.manifest.get(passage.document)
        if record is None or passage.id not in record.chunks:  # replaced since it was found
            widened.append(passage)
            continue
        place = record.chunks.index(passage.id)
        before = _load_passages(collection, record.chunks[max(0, place - count) : place])
        after = _load_passages(collection, record.chunks[place + 1 : place + 1 + count])
        widened.append(
            replace(
                passage,
                before=_join_passages(before, until=passage.start) if before else "",
                after=_join_passages(after, since=passage.end) if after else "",
            )
        )
    return tuple(widened)


def _load_passages(collection: DocumentCollection, ids: Sequence[str]) -> list[Passage]:
    entries = collection.memory.store.get(ids, namespace=collection.lane)
    loaded = [passage_of(from_entry(entry)) for entry in entries if entry is not None]
    return [passage for passage in loaded if passage is not None]


def _join_passages(pieces: Sequence[Passage], *, since: int | None = None, until: int | None = None) -> str:
    """Return the text of *pieces*, in order, from *since* or up to *until*, with what overlaps only once.

    Between two chunks the document has only blanks: one is given as a space, more as an empty line.
    """
    text = ""
    reached = pieces[0].start if since is None else since
    for piece in pieces:
        text += _gap_text(reached, piece.start) + piece.text[max(0, reached - piece.start) :]
        reached = max(reached, piece.end)
    if until is None:
        return text
    return text[: len(text) - (reached - until)] if reached > until else text + _gap_text(reached, until)


def _gap_text(start: int, end: int) -> str:
    if start >= end:
        return ""
    return " " if end - start == 1 else "\n\n"
