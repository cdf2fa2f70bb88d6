"""List questions: what belongs together is found together, one hit an episode first.

The answer to "which presents has Mum had?" lies in several memories. A session mostly says one of the things: each
further hit of it, and a turn beside a better hit, comes a little later. The question may ask for one thing all the same
("what are the new shoes for?"): so three of the first ten places are spread, and the best hits keep theirs among them.
``relevance_feedback`` asks again with the words of what the first round found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tellback.memory.retrieval.index.record_batch import NO_SESSION
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.scoring.scores import top_positions

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
_TIE_STEP = 1e-6
_SPREAD_HITS = 60
"""Best hits that are spread over the sessions."""
_KEPT_HITS, _FIRST_PLACES = 7, 10
"""The best hits that stay among the first ones."""
_SESSION_LOSS = 0.03
_NEIGHBOUR_LOSS = 0.1
"""Shares of the best score that a hit loses for each better one of its session, and for one right beside it."""


def spread_scores(index: RetrievalIndex, rows: Rows, ids: Sequence[str], totals: Floats) -> Floats:
    """Return what is taken off the scores *totals* so that the best hits come from several sessions."""
    change = np.zeros(len(rows))
    best = max(float(totals.max(initial=0.0)), 0.0)
    sessions, beside = Counter[int](), set[int]()
    best_first = top_positions(ids, totals, _SPREAD_HITS)
    for i in best_first:
        row, session = int(rows[i]), int(index.columns["session"][rows[i]])
        if session == NO_SESSION:
            continue
        change[i] = -best * (_SESSION_LOSS * sessions[session] + _NEIGHBOUR_LOSS * (row in beside))
        sessions[session] += 1
        beside.update((int(index.links.before.rows[row]), int(index.links.after.rows[row])))
    others = sorted((totals + change)[best_first[_KEPT_HITS:]].tolist(), reverse=True)
    if len(others) > _FIRST_PLACES - _KEPT_HITS:
        lowest = others[_FIRST_PLACES - _KEPT_HITS]
        for place, i in enumerate(best_first[:_KEPT_HITS]):
            change[i] = max(change[i], lowest + (_KEPT_HITS - place) * _TIE_STEP - totals[i])
    return change
