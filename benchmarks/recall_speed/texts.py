"""Real turns, as many as are wanted: where LoCoMo has not enough, they are said again with new words, by a seed.

A repeated conversation has sessions of its own; one word in two turns is replaced by one that is nowhere else, so that
the vocabulary grows as it does in life, if more mildly.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from benchmarks.memory.data.conversations import locomo
from benchmarks.memory.systems.tellback_memory import memory_of
from tellback.memory import Memory

LANE = "/conversation"
"""The store's namespace of the turns."""
_LONG_WORD = re.compile(r"\b[a-z]{5,}\b")
_SYLLABLES = ("ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "zu", "dra", "ple", "sto", "gri", "fen", "lor")


def turns(data: Path, n: int, seed: int) -> Iterator[Memory]:
    """Yield *n* turns; the first are LoCoMo's own."""
    items = [item for corpus in locomo(data / "locomo").corpora for item in corpus.items]
    rng = random.Random(seed)
    for place in range(n):
        again, number = divmod(place, len(items))
        turn = memory_of(items[number], place)
        yield replace(_said_again(turn, again, rng) if again else turn, id="")


def require_locomo(data: Path | None) -> Path:
    """Return *data*; raise ``ValueError`` where LoCoMo is not in that folder."""
    if data is None or not (data / "locomo").is_dir():
        raise ValueError(f"no data set locomo in {data}: --data (or TELLBACK_BENCH_DATA) names the folder")
    return data


def own_turns(data: Path) -> int:
    """Return how many turns LoCoMo has here."""
    return sum(len(corpus.items) for corpus in locomo(data / "locomo").corpora)


def questions(data: Path, count: int, seed: int) -> list[str]:
    """Return *count* questions of LoCoMo, drawn by *seed*."""
    asked = [one.question.text for one in locomo(data / "locomo").questions.values() if one.gold]
    return random.Random(seed).sample(asked, min(count, len(asked)))


def _said_again(turn: Memory, again: int, rng: random.Random) -> Memory:
    words = list(_LONG_WORD.finditer(turn.text))
    text = turn.text
    if words and rng.random() < 0.5:
        old = rng.choice(words)
        text = text[: old.start()] + "".join(rng.choices(_SYLLABLES, k=4)) + text[old.end() :]
    assert turn.occurred_at is not None
    return replace(
        turn, text=text, session=f"{turn.session}~{again}", occurred_at=turn.occurred_at + timedelta(days=again)
    )
