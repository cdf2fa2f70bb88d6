"""Contract suite of chunkers: subclass it, make a chunker, say how it measures, run it.

class TestMyChunker(ChunkerContract):
    def make_chunker(self, size, overlap):
        return MyChunker(size, overlap=overlap)
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from itertools import pairwise

import pytest

from tellback.memory.chunking.protocol import Chunk, Chunker

PLAIN = "The first sentence is here. The second one follows it! Is there a third?\n\nA new paragraph begins. " * 6
HARD_TEXTS = {
    "no white space": "x" * 500,
    "one word a line": "word\n" * 200,
    "a long tail": PLAIN + "\n\nEnd.",
    "accents, CJK and emoji": "Grüße aus Köln. 記憶は大切です。覚えています。 👩‍👩‍👧 🇩🇪 naïve café! " * 12,
    "combining marks": "e\u0301" * 300,
    "windows line ends": "One line.\r\nAnother line.\r\n\r\nA paragraph.\r\n" * 15,
    "headings": "# One\n\n## Two\n\nSome words here.\n\n### Three\n#### Four\n\nMore words here.\n" * 8,
    "code": "Intro.\n\n```python\n# not a heading\ndef f():\n    return 1\n```\n\n    indented\n" * 8,
    "a list and a table": "- item one\n- item two\n  - inner\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n\n" * 8,
    "surrounding space": "\n \t\n  words in the middle  \n\n\t ",
    "separators": "a\x1cb\x85c\u2028d\u200be\x0bf\x0cg\x00h " * 40,
    "an unclosed fence": "text\n\n```\n" + "code line\n" * 80,
    "only rules": "---\n\n***\n\n" * 40,
}
BLANK_TEXTS = ("", " ", "\n", "\t\r\n \u2003\u00a0", "\x1c\x1f")
SIZES = ((1000, 0), (120, 0), (120, 30), (60, 30), (40, 1))
_ALPHABET = (
    *("word", "a", "Ünï", "記憶", "🙂", "\n", "\n\n", " ", "# ", "\n## ", "```\n", "- ", "1. ", ". ", "|", "\t", "---"),
)


class ChunkerContract(ABC):
    """One behaviour a test, over texts that have broken chunkers before."""

    @abstractmethod
    def make_chunker(self, size: int, overlap: int) -> Chunker:
        """Return a chunker whose chunks measure at most *size*, of which *overlap* may be said again."""

    def length(self, text: str) -> int:
        """Return how large *text* is in the unit of ``make_chunker``; characters unless overridden."""
        return len(text)

    def broken_rules(self, text: str, chunks: list[Chunk], size: int) -> list[str]:
        """Return the rules that the *chunks* of *text* break."""
        ends = [0, *(chunk.end for chunk in chunks)]
        rules = {
            "a text that is not blank has chunks": bool(chunks) or not text.strip(),
            "the offsets rebuild each chunk": all(text[chunk.start : chunk.end] == chunk.text for chunk in chunks),
            "no chunk is larger than the size": all(self.length(chunk.text) <= size for chunk in chunks),
            "every word is in a chunk": uncovered(text, chunks) == "",
            "each chunk says something new": all(
                text[max(reached, chunk.start) : chunk.end].strip()
                for reached, chunk in zip(ends, chunks, strict=False)
            ),
            "chunks come in the order of the text": all(
                first.start < second.start and first.end < second.end for first, second in pairwise(chunks)
            ),
        }
        return [rule for rule, kept in rules.items() if not kept]

    @pytest.mark.parametrize(("size", "overlap"), SIZES)
    @pytest.mark.parametrize("name", HARD_TEXTS)
    def test_hard_texts_keep_every_rule(self, name: str, size: int, overlap: int) -> None:
        text = HARD_TEXTS[name]
        assert self.broken_rules(text, self.make_chunker(size, overlap).chunk(text), size) == []

    @pytest.mark.parametrize("seed", range(20))
    def test_random_texts_keep_every_rule(self, seed: int) -> None:
        rng = random.Random(seed)  # noqa: S311 -- a test wants the same texts again
        text = "".join(rng.choices(_ALPHABET, k=rng.randrange(1, 200)))
        size = rng.choice((40, 60, 200))
        chunks = self.make_chunker(size, rng.choice((0, size // 4))).chunk(text)
        assert self.broken_rules(text, chunks, size) == [], seed

    @pytest.mark.parametrize("blank", BLANK_TEXTS)
    def test_a_blank_text_has_no_chunks(self, blank: str) -> None:
        assert self.make_chunker(100, 0).chunk(blank) == []

    def test_a_small_text_is_one_chunk(self) -> None:
        (chunk,) = self.make_chunker(1000, 0).chunk("Just a few words.")
        assert (chunk.text, chunk.start, chunk.end) == ("Just a few words.", 0, 17)

    def test_without_overlap_chunks_do_not_share_text(self) -> None:
        for name, text in HARD_TEXTS.items():
            chunks = self.make_chunker(100, 0).chunk(text)
            assert all(a.end <= b.start for a, b in pairwise(chunks)), name

    def test_with_overlap_most_chunks_begin_in_the_chunk_before(self) -> None:
        chunks = self.make_chunker(200, 80).chunk(PLAIN * 10)
        shared = [b.start < a.end for a, b in pairwise(chunks)]
        assert sum(shared) > len(shared) / 2

    def test_the_same_text_gives_the_same_chunks(self) -> None:
        first, second = self.make_chunker(90, 20), self.make_chunker(90, 20)
        assert first.fingerprint == second.fingerprint
        for name, text in HARD_TEXTS.items():
            assert first.chunk(text) == second.chunk(text), name

    def test_another_setting_has_another_fingerprint(self) -> None:
        fingerprints = [self.make_chunker(*settings).fingerprint for settings in ((90, 20), (91, 20), (90, 21))]
        assert len(set(fingerprints)) == 3


def uncovered(text: str, chunks: list[Chunk]) -> str:
    """Return what of *text* is in none of *chunks*, white space left out."""
    missing, position = [], 0
    for chunk in chunks:
        missing.append(text[position : max(chunk.start, position)])
        position = max(position, chunk.end)
    return "".join("".join([*missing, text[position:]]).split())
