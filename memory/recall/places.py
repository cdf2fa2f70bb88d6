"""Which store namespaces a query is about: lanes and collections of the user's namespaces."""

from __future__ import annotations

from dataclasses import dataclass

from memory.lanes import ARCHIVE, CONVERSATION, DOCUMENTS, prefix_of, store_namespace
from memory.recall.query import Query
from vectorstore import VectorStore


@dataclass(frozen=True, slots=True)
class Place:
    """A store namespace and the lane it is."""

    name: str
    lane: str


def places_of(store: VectorStore, query: Query) -> list[Place]:
    """Return where to look, each once; the archive too where another time than now is asked for."""
    lanes = dict.fromkeys(query.lanes)
    if CONVERSATION in lanes and (query.as_of is not None or query.known_at is not None):
        lanes[ARCHIVE] = None
    places: dict[Place, None] = {}
    every = store.namespaces() if DOCUMENTS in lanes and query.collections is None else []
    for namespace in dict.fromkeys(query.namespaces):
        for lane in lanes:
            if lane != DOCUMENTS:
                places[Place(store_namespace(namespace, lane), lane)] = None
            elif query.collections is None:
                start = prefix_of(namespace) + DOCUMENTS + "/"
                places.update({Place(name, lane): None for name in every if name.startswith(start)})
            else:
                names = (store_namespace(namespace, lane, collection) for collection in query.collections)
                places.update({Place(name, lane): None for name in names})
    return list(places)
