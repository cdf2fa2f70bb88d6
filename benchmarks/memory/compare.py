"""Two systems, or two runs of one, question by question: what is found now and was not, and what no longer is."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.memory.figures import RANKED, Result, difference
from tellback.memory.evaluation.metrics import place_of


def compared(before: Result, after: Result, measure: str, *, show: int) -> Iterator[str]:
    """Yield the difference of every measure of *after* less *before*, then the questions that changed in *measure*."""
    for name in RANKED:
        interval = difference(after, before, name)
        yield f"{name:>9} {interval}{' *' if interval.excludes_zero else ''}"
    ours, theirs = after.values[measure], before.values[measure]
    changed = [id for id in ours if id in theirs and ours[id] != theirs[id]]
    for title, better in (("better", True), ("worse", False)):
        ids = [id for id in changed if (ours[id] > theirs[id]) is better]
        yield f"{len(ids)} {title} in {measure}"
        for id in ids[:show]:
            asked = after.data.questions[id]
            places = (place_of(result.found[id]["hits"], asked.gold) or "–" for result in (before, after))
            yield f"  {id} ({asked.kind}): {' → '.join(map(str, places))}: {asked.question.text}"
