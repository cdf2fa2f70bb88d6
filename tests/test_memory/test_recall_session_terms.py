"""Counts by session and BM25 of sessions against a plain version."""

from collections import Counter
from math import log

import numpy as np
import pytest

import memory.retrieval.index.session_statistics as module
from memory.retrieval.index.session_statistics import SessionBm25


def plain(texts: list[tuple[int, list[int]]], terms: list[int], sessions: int) -> list[float]:
    counts = {session: Counter(t for at, text in texts if at == session for t in text) for session, _ in texts}
    counts = {session: count for session, count in counts.items() if count}
    average = sum(count.total() for count in counts.values()) / max(len(counts), 1)
    scores = [0.0] * sessions
    for term in terms:
        df = sum(term in count for count in counts.values())
        for session, count in counts.items():
            if term in count:
                idf = log(1 + (len(counts) - df + 0.5) / (df + 0.5))
                norm = 0.9 * (0.6 + 0.4 * count.total() / average)
                scores[session] += idf * count[term] * 1.9 / (count[term] + norm)
    return scores


def add(counted: SessionBm25, session: int, text: list[int], sign: int = 1) -> None:
    counted.add(np.full(len(text), session), np.array(text, dtype=np.int64), sign)


@pytest.mark.parametrize("many", [2, 10_000])
@pytest.mark.parametrize("merge_at", [3, 10_000])
@pytest.mark.parametrize("seed", range(5))
def test_scores_equal_the_plain_version_through_writes_removals_and_merges(
    seed: int, merge_at: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    print(f"seed {seed}")
    monkeypatch.setattr(module, "_MIN_MERGE", merge_at)
    monkeypatch.setattr(module, "_BULK_SIZE", many)
    rng = np.random.default_rng(seed)
    kept: list[tuple[int, list[int]]] = []
    counted = SessionBm25()
    for _ in range(120):
        if kept and rng.random() < 0.3:
            session, text = kept.pop(int(rng.integers(len(kept))))
            add(counted, session, text, -1)
        else:
            session, text = int(rng.integers(6)), rng.integers(1, 15, int(rng.integers(0, 6))).tolist()
            kept.append((session, text))
            add(counted, session, text)
    scores = counted.scores([1, 2, 3, 14, 99])
    expected = plain(kept, [1, 2, 3, 14, 99], len(scores))
    assert any(expected)
    assert scores.tolist() == pytest.approx(expected)


def test_a_session_that_was_emptied_counts_no_more() -> None:
    counted, fresh = SessionBm25(), SessionBm25()
    for terms in (counted, fresh):
        add(terms, 0, [1, 2])
        add(terms, 1, [2, 3])
    add(counted, 2, [1, 1])
    add(counted, 2, [1, 1], -1)
    assert counted.scores([1, 2])[:2].tolist() == fresh.scores([1, 2]).tolist()


def test_nothing_counted_scores_nothing() -> None:
    assert SessionBm25().scores([1]).tolist() == []
