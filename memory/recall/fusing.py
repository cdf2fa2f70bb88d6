"""Several wordings of one question, each with its own ranking, as one ranking on the fixed scale.

The weighted mean of their graded scores (CombSUM, Fox and Shaw, TREC-2, 1994): the scale is fixed, so scores of
different wordings compare, and how sure each of them is counts, which fusing by ranks alone would lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from memory.recall.scored import Scored


def fused(wordings: Sequence[tuple[Scored, float, bool]]) -> Scored:
    """Return one ``Scored`` of one namespace for (graded, weight, sure) of each wording; the question's own is first.

    What a wording does not find, it gives 0. The best of the result has the topic of the wording that is most about
    something here; one that is not *sure* (an imagined answer) ranks, and says nothing of that.
    """
    own = wordings[0][0]
    if len(wordings) == 1:
        return own
    ids = tuple(dict.fromkeys(id for scored, _, _ in wordings for id in scored.ids))
    place = {id: at for at, id in enumerate(ids)}
    whole = sum(weight for _, weight, _ in wordings)
    parts = {name: np.zeros(len(ids)) for scored, _, _ in wordings for name in scored.parts}
    for scored, weight, _ in wordings:
        at = np.array([place[id] for id in scored.ids], dtype=np.int64)
        for name, values in scored.parts.items():
            parts[name][at] += values * (weight / whole)
    topic = max(scored.topic for scored, _, sure in wordings if sure)
    return replace(own, ids=ids, parts=parts, topic=topic).graded()
