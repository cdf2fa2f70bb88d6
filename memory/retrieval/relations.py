"""Relations of a namespace: who is called what, as its memories say that hold now, and the memory that says so.

A view over memories, kept nowhere: corrected, exported and erased with them. A tag takes one back.
"""

from __future__ import annotations

import numpy as np

from tellback.memory.analysis.people import distinct_relations, relations_of_line
from tellback.memory.analysis.texts import analyze_text
from tellback.memory.codec import from_entry, text_without_caption
from tellback.memory.results import KnownPerson
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.index.validity import ValidityFilter
from tellback.vectorstore import Entry, Filter, View

_MOST_MEMORIES = 500
"""Memories that are read for relations, the newest."""


def relation_ids(
    index: RetrievalIndex, view: View, partition: str, validity: ValidityFilter, where: Filter | None
) -> list[str]:
    """Return the ids of the memories that say who is whose relative, oldest first: the user's own that hold."""
    rows = index.relating()
    if len(rows):
        rows = rows[index.spoken_alone(index.columns["speaker"][rows]) & ~validity.hidden(index, rows)]
    rows = rows[np.argsort(index.statement_times(rows), kind="stable")][-_MOST_MEMORIES:]
    ids = [index.ids[row] for row in rows.tolist()]
    if where is None or not ids:
        return ids
    return [ids[place] for place in np.flatnonzero(view.passing(ids, where=where, namespace=partition))]


def known_people(entry: Entry) -> list[KnownPerson]:
    """Return the relatives that *entry* tells of, without those that its tags take back."""
    memory = from_entry(entry)
    said = (*analyze_text(text_without_caption(entry)).relations, *relations_of_line(memory.about or ""))
    people = (KnownPerson(one.name, one.role, one.kin, memory) for one in distinct_relations(said))
    return [person for person in people if person.split_tag not in memory.tags]
