"""Whether the vectors of a file are those of the model in use here: of its space, and near its own answers to probes.

A model that was changed under its name has the same space on paper. The file brings the answers that its vectors'
model gave to the probes; a memory that had none takes them over, so that its embedder is held against them later.
"""

from __future__ import annotations

import asyncio

from memory.embedders.probe import agree, probe
from memory.portable.course import Course
from vectorstore import Metric, Space


async def check_model(course: Course) -> None:
    """Note whether the file's vectors may be taken where their space is the one in use."""
    manifest, embedding = course.checked.manifest, course.context.embedding
    theirs, space = manifest.probe_rows(), manifest.space
    course.comparable = manifest.vectors and space is not None
    if not course.comparable or theirs is None or space is None:
        return
    known = await asyncio.to_thread(embedding.probes.get, space.fingerprint)
    if known is None and embedding.embedder is not None and embedding.embedder.fingerprint == space.fingerprint:
        try:
            known = await probe(embedding.embedder)
        except Exception:  # a stranger's embedder may raise anything; it is held against them when it answers
            known = None
    if known is not None and not agree(known, theirs):
        course.comparable = False
        course.notes.append(
            f"its vectors were made by another model of the name {space.fingerprint}: they are made anew"
        )
    elif known is not None or course.believed:
        course.probes = theirs


def take_space(course: Course) -> bool:
    """Return whether the file's vectors are taken; a memory without a space takes that of its embedder.

    Inside the transaction that writes them.
    """
    theirs, store = course.checked.manifest.space, course.context.lifecycle("import")
    if theirs is None or not course.comparable:
        return False
    if store.space is None and _own(course, theirs):
        if not course.dry_run:
            store.set_space(theirs)
    elif store.space != theirs:
        return False
    if course.probes is not None and not course.dry_run:
        course.context.embedding.probes.first(theirs.fingerprint, course.probes)
        course.probes = None
    return True


def _own(course: Course, theirs: Space) -> bool:
    """Whether *theirs* is the space of the embedder here; where it does not know its dimension yet, the owner does."""
    embedder = course.context.embedding.embedder
    if embedder is None or theirs.metric is not Metric.COSINE or theirs.fingerprint != embedder.fingerprint:
        return False
    return embedder.dimension == theirs.dimension or (embedder.dimension < 1 and course.believed)
