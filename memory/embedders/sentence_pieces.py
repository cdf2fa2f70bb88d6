"""Unigram tokenizer over a vocabulary on disk: a process loads only the groups of pieces that its texts begin with.

The segmentation with the best sum of piece scores is found by Viterbi's algorithm (Kudo 2018, arXiv 1804.10959). Pieces
are grouped by their first letter, so that the first text costs a few small dictionaries and not one of 128,000 pieces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.array_files import map_arrays, write_arrays

SPACE: Final = "\u2581"
"""Mark of a blank at the beginning of a piece."""
_UNKNOWN_PENALTY = 10.0
_INVISIBLE = re.compile("[\u200b\u200e\u200f\ufeff\ufffd]")
"""Characters without a shape that separate words, as the vocabulary was made."""
_FOLDER = "pieces"


class SpecialPieces(NamedTuple):
    """Ids of the pieces without text: around each text, and for a letter that no piece has."""

    begin: int = 1
    end: int = 2
    unknown: int = 0


class PieceGroup(NamedTuple):
    """Pieces with one first letter: the place of each in the vocabulary, and the length of the *longest* in letters."""

    pieces: dict[str, int]
    longest: int


_EMPTY = PieceGroup({}, 0)
_SPECIAL: Final = SpecialPieces()


def normalize(text: str) -> str:
    """Return *text* in compatibility form (NFKC), its runs of blanks as one ``SPACE``, with one before it."""
    letters = _INVISIBLE.sub(" ", unicodedata.normalize("NFKC", text))
    return "".join(SPACE + word for word in letters.split())


class SentencePieces:
    """Tokenizer of the vocabulary that ``write_pieces`` put into *folder*; any thread may call.

    *normalize* makes of a text the letters that are segmented, blanks as ``SPACE``.
    """

    def __init__(
        self,
        folder: Path,
        normalize: Callable[[str], str] = normalize,
        special: SpecialPieces = _SPECIAL,
    ) -> None:
        self._normalize, self._special = normalize, special
        arrays = map_arrays(folder / _FOLDER)
        self._text, self._ids, self._scores = arrays["text"], arrays["ids"], arrays["scores"]
        self._keys, self._firsts, self._offsets = arrays["keys"], arrays["firsts"], arrays["offsets"]
        self._unknown_score = float(self._scores[-1]) - _UNKNOWN_PENALTY  # the lowest score stands behind the last
        self._groups: dict[int, PieceGroup] = {}

    def ids(self, text: str) -> list[int]:
        """Return the ids of the pieces of *text*, between those of its beginning and end."""
        letters = self._normalize(text)
        begin, end, unknown = self._special
        return [begin, *(self._segment(letters) if letters else [unknown]), end]

    def _segment(self, letters: str) -> list[int]:
        size = len(letters)
        best = [0.0] + [-np.inf] * size
        unknown = self._special.unknown
        begins, chosen = [0] * (size + 1), [unknown] * (size + 1)
        for begin in range(size):
            matched = False
            for group in self._groups_of(letters, begin):
                for end in range(begin + 1, min(begin + group.longest, size) + 1):
                    piece = group.pieces.get(letters[begin:end])
                    if piece is None:
                        continue
                    matched = matched or end == begin + 1
                    score = best[begin] + self._scores.item(piece)
                    if score > best[end]:
                        best[end], begins[end], chosen[end] = score, begin, self._ids.item(piece)
            score = best[begin] + self._unknown_score
            if not matched and score > best[begin + 1]:
                best[begin + 1], begins[begin + 1], chosen[begin + 1] = score, begin, unknown
        pieces = []
        end = size
        while end > 0:
            pieces.append(chosen[end])
            end = begins[end]
        return pieces[::-1]

    def _groups_of(self, letters: str, begin: int) -> Iterator[PieceGroup]:
        yield self._group(_key(letters[begin]))
        if letters[begin] == SPACE and begin + 1 < len(letters):
            yield self._group(_key(letters[begin : begin + 2]))

    def _group(self, key: int) -> PieceGroup:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = self._read_group(key)
        return group

    def _read_group(self, key: int) -> PieceGroup:
        place = int(np.searchsorted(self._keys, key))
        if place == len(self._keys) or self._keys[place] != key:
            return _EMPTY
        first, last = self._firsts[place : place + 2].tolist()
        begin, end = self._offsets[place : place + 2].tolist()
        pieces = self._text[begin:end].tobytes().decode().split("\n")[:-1]
        return PieceGroup(dict(zip(pieces, range(first, last), strict=True)), max(map(len, pieces)))


def write_pieces(folder: Path, pieces: Sequence[str], scores: Sequence[float]) -> None:
    """Write a vocabulary, *pieces* in the order of their ids, to a file in *folder* that can be mapped."""
    usable = (number for number, piece in enumerate(pieces) if piece and "\n" not in piece)
    order = sorted(usable, key=lambda number: _key(pieces[number]))
    keys = np.array([_key(pieces[number]) for number in order], np.int64)
    firsts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1], [True]]))
    lines = [(pieces[number] + "\n").encode() for number in order]
    ends = np.concatenate([[0], np.cumsum([len(line) for line in lines])])
    arrays: dict[str, NDArray[Any]] = {
        "text": np.frombuffer(b"".join(lines), np.uint8),
        "ids": np.array(order, np.int32),
        "scores": np.array([*(scores[number] for number in order), min(scores)], np.float32),
        "keys": keys[firsts[:-1]],
        "firsts": firsts.astype(np.int64),
        "offsets": ends[firsts].astype(np.int64),
    }
    write_arrays(folder / _FOLDER, arrays)


def _key(piece: str) -> int:
    """Return the number of the group of *piece*: that of its first letter behind a ``SPACE``, and without."""
    if piece[0] == SPACE and len(piece) > 1:
        return (1 << 32) | ord(piece[1])
    return ord(piece[0])
