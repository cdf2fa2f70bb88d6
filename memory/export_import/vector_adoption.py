"""Vector adoption: whether an import takes the vectors of its file, and the space they set.

A model that was changed under its name has the same space on paper. The file brings the answers that its vectors' model
gave to the probes; a memory without recorded answers takes them over, so that its embedder is compared with them later.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tellback.memory.embedders.fingerprint import is_same_model, probe_embedder
from tellback.memory.embedders.protocol import Embedder
from tellback.memory.export_import.import_job import ImportJob
from tellback.memory.write.embedding_service import EmbeddingService
from tellback.vectorstore import Metric, Space


async def check_model(job: ImportJob, embedding: EmbeddingService) -> None:
    """Note in *job* whether the file's vectors may be taken where their space is the one in use."""
    manifest, embedder = job.checked.manifest, embedding.embedder
    theirs, space = manifest.probe_rows(), manifest.space
    job.comparable = manifest.vectors and space is not None
    if not job.comparable or theirs is None or space is None:
        return
    recorded = await asyncio.to_thread(embedding.probes.get, space.fingerprint)
    if recorded is None and embedder is not None and embedder.fingerprint == space.fingerprint:
        with suppress(Exception):  # a stranger's embedder may raise anything; it is compared when it answers again
            recorded = await probe_embedder(embedder)
    if recorded is not None and not is_same_model(recorded, theirs):
        job.comparable = False
        job.notes.append(f"its vectors were made by another model of the name {space.fingerprint}: they are made anew")
    elif recorded is not None or job.is_trusted:
        job.probes = theirs


def adopt_vectors(job: ImportJob, embedding: EmbeddingService) -> None:
    """Note in *job* whether the file's vectors are taken; a memory without a space takes that of its embedder.

    Inside the transaction that writes them.
    """
    theirs, store = job.checked.manifest.space, job.entries.lifecycle("import")
    job.vectors = False
    if theirs is None or not job.comparable:
        return
    if store.space is None and _is_own_space(job, embedding.embedder, theirs):
        if not job.dry_run:
            store.set_space(theirs)
    elif store.space != theirs:
        return
    if job.probes is not None and not job.dry_run:
        embedding.probes.first(theirs.fingerprint, job.probes)
        job.probes = None
    job.vectors = True


def _is_own_space(job: ImportJob, embedder: Embedder | None, theirs: Space) -> bool:
    """Return whether *theirs* is the space of the *embedder*; a trusted file may say a dimension that is unknown."""
    if embedder is None or theirs.metric != Metric.COSINE or theirs.fingerprint != embedder.fingerprint:
        return False
    return embedder.dimension == theirs.dimension or (embedder.dimension < 1 and job.is_trusted)
