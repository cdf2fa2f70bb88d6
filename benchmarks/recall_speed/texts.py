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
from itertools import count
from pathlib import Path

from benchmarks.datasets import locomo
from tellback.memory import Memory

LANE = "/conversation"
"""The store's namespace of the turns."""
_LONG_WORD = re.compile(r"\b[a-z]{5,}\b")
_SYLLABLES = ("ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "zu", "dra", "ple", "sto", "gri", "fen", "lor")


def turns(data: Path, n: int, seed: int) -> Iterator[Memory]:
    """Yield *n* turns; the first are LoCoMo's own."""
    conversations = locomo(data)
    rng = random.Random(seed)
    left = n
    for again in count():
        for conversation in conversations:
            for turn in conversation.turns:
                if not left:
                    return
                left -= 1
                yield replace(_said_again(turn, again, rng) if again else turn, key=None)


def own_turns(data: Path) -> int:
    """Return how many turns LoCoMo has here."""
    return sum(len(conversation.turns) for conversation in locomo(data))


def questions(data: Path, count: int, seed: int) -> list[str]:
    """Return *count* questions of LoCoMo, drawn by *seed*."""
    asked = [question.text for conversation in locomo(data) for question in conversation.questions]
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
