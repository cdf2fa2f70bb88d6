"""Memories of one topic: of those whose lines have a part in common, the newest leads a question about now.

The same rule on cosines of the texts harms direct questions; lines make it safe. Plans, hypotheses, quotations and past
habits neither lead nor are outdated. A memory that is trusted less leads none that is trusted more: it is marked as one
that may have changed it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record import NEVER, to_microseconds
from tellback.memory.retrieval.languages.statements import NOT_FACTUAL
from tellback.memory.retrieval.scoring.features import NamespaceQuery
from tellback.memory.retrieval.scoring.scores import ScoredCandidates, top_positions

_COMPARED: Final = 5
"""Candidates among which the newest is looked for: further ones are seldom about the question."""
_STEP: Final = 1e-6
"""Step by which the newest leads, so that ids do not decide."""


def lead_with_newest(candidates: ScoredCandidates, query: NamespaceQuery, rows: NDArray[np.int64]) -> ScoredCandidates:
    """Return *candidates*, those of *rows*, with the newest of the first one's topic in front of the best.

    A topic is a part of a line. The older ones are outdated by it. Nothing changes where the question asks for another
    time than now, or for several things.
    """
    question, totals = query.question, candidates.totals()
    best = top_positions(candidates.ids, totals, _COMPARED)
    if not question.asks_now or question.asks_several or not best:
        return candidates
    columns = query.index.fields(rows[best])
    occurred_at, trust = columns["occurred_at"], columns["trust"]
    times = np.where(occurred_at == NEVER, columns["recorded_at"], occurred_at)
    moment = to_microseconds(query.validity.as_of or query.validity.now)
    is_stated = ((columns["statement_features"] & int(NOT_FACTUAL)) == 0) & (times <= moment)
    topics = [query.index.topics(int(rows[i])) for i in best]
    same = np.flatnonzero(np.array([not topics[0].isdisjoint(other) for other in topics]) & is_stated)
    if len(same) < 2 or same[0] != 0:
        return candidates
    trusted = same[trust[same] <= trust[0]]
    newest = int(trusted[np.argmax(times[trusted])])  # of equal times the one that is nearer to the question
    older = [best[i] for i in same if times[i] < times[newest]]
    later = [best[i] for i in same if times[i] > times[newest]]
    change, leader = np.zeros(len(rows)), best[newest]
    if newest:
        change[leader] = totals[best[0]] + _STEP - totals[leader]
    newer = {position: by for position, by in candidates.newer.items() if position != leader}
    return replace(
        candidates,
        parts={**candidates.parts, "topic": change},
        newer={**newer, **dict.fromkeys(older, leader)},
        later={**candidates.later, **dict.fromkeys(later, leader)},
    )
