"""Byte pair encoding of many short texts at once, by arrays on disk: nothing is loaded before the first word.

As the library ``tokenizers`` does (Sennrich et al. 2016, arXiv 1508.07909): the neighbouring pieces that were merged
first when the vocabulary was made are merged first, the leftmost of equal ones, until none can be. The library builds
its tables anew in each process, which takes longer than a question; here, all texts take their next merge together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.array_files import map_arrays, write_arrays

MAX_LETTERS: Final = 200
"""Letters of a text that is encoded here: a longer one has so many merges that the library is faster."""
_FILE = "pairs.bin"
_SPACE = "\u2581"
_NEVER: Final = np.iinfo(np.int32).max
_PAIR_BITS: Final = 32

Ints = NDArray[np.int64]


class BytePairs:
    """Encoder of the vocabulary that ``write_byte_pairs`` put into *folder*; any thread may call."""

    def __init__(self, folder: Path) -> None:
        arrays = map_arrays(folder / _FILE)
        self._letters, self._letter_ids, self._byte_ids = arrays["letters"], arrays["letter_ids"], arrays["byte_ids"]
        self._pairs, self._merged, self._ranks = arrays["pairs"], arrays["merged"], arrays["ranks"]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of the pieces of each of *texts*, none of them empty or longer than ``MAX_LETTERS``.

        Texts with one of ``SPECIAL_PIECES`` are not for this.
        """
        normal = [_SPACE + text.replace(" ", _SPACE) for text in texts]
        codes = np.frombuffer("".join(normal).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
        owners = np.repeat(np.arange(len(normal)), [len(text) for text in normal])
        ids, owners = self._letter_pieces(codes, owners)
        lengths = np.bincount(owners, minlength=len(normal))
        pieces = np.full((len(normal), int(lengths.max(initial=0)) + 1), -1, dtype=np.int64)
        pieces[owners, np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)] = ids
        self._merge(pieces)
        ends = (pieces >= 0).sum(axis=1)
        return [row[:end] for row, end in zip(pieces.tolist(), ends.tolist(), strict=True)]

    def _letter_pieces(self, codes: Ints, owners: Ints) -> tuple[Ints, Ints]:
        """Return a piece for each letter, or one for each byte of a letter that has none, and whose text each is of."""
        places = np.minimum(np.searchsorted(self._letters, codes), len(self._letters) - 1)
        ids = self._letter_ids[places].astype(np.int64)
        unknown = np.flatnonzero(self._letters[places] != codes)
        if len(unknown):
            spelled = [chr(code).encode("utf-8", "surrogatepass") for code in codes[unknown].tolist()]
            counts = np.ones(len(codes), dtype=np.int64)
            counts[unknown] = [len(letter) for letter in spelled]
            is_byte = np.repeat(np.isin(np.arange(len(codes)), unknown), counts)
            ids, owners = np.repeat(ids, counts), np.repeat(owners, counts)
            ids[is_byte] = self._byte_ids[np.frombuffer(b"".join(spelled), dtype=np.uint8)]
        return ids, owners

    def _merge(self, pieces: Ints) -> None:
        """Merge the *pieces* of each row, -1 behind the last, in place, until no neighbours are a pair."""
        merges = self._find(pieces[:, :-1], pieces[:, 1:])
        active = np.arange(len(pieces))
        while len(active):
            ranks = np.where(merges[active] < 0, _NEVER, self._ranks[merges[active]])
            best = ranks.argmin(axis=1)  # the leftmost of equal ones
            is_pair = ranks[np.arange(len(active)), best] < _NEVER
            active, best = active[is_pair], best[is_pair]
            if not len(active):
                return
            width = pieces.shape[1]
            merged = self._merged[merges[active, best]]
            columns = np.arange(width - 1)
            shifted = columns + (columns > best[:, None])  # the right half goes, what is behind it moves up
            pieces[active, best] = merged
            rows = np.take_along_axis(pieces[active], shifted, axis=1)
            pieces[active, : width - 1] = rows
            pieces[active, width - 1] = -1
            unmerged = merges[active]
            columns = np.arange(width - 2)
            moved = np.take_along_axis(unmerged, columns + (columns > best[:, None]), axis=1)
            merges[active, : width - 2] = moved
            merges[active, width - 2] = -1
            merges[active, best] = self._find(pieces[active, best], pieces[active, best + 1])
            left = best > 0
            before = best[left] - 1
            merges[active[left], before] = self._find(pieces[active[left], before], pieces[active[left], before + 1])

    def _find(self, lefts: Ints, rights: Ints) -> Ints:
        """Return the place of each pair among those that are merged, -1 for none."""
        pairs = (lefts << _PAIR_BITS) | rights
        places = np.minimum(np.searchsorted(self._pairs, pairs.ravel()), len(self._pairs) - 1).reshape(pairs.shape)
        return np.where((self._pairs[places] == pairs) & (rights >= 0) & (lefts >= 0), places, -1)


def write_byte_pairs(folder: Path, tokenizer: Path) -> None:
    """Write the vocabulary of *tokenizer*, a file of the library, as arrays into *folder*.

    Raises ``ValueError`` for one that does not work as ``BytePairs`` does.
    """
    contents = json.loads(tokenizer.read_text("utf-8"))
    model = contents["model"]
    if _settings(contents) != _EXPECTED:
        raise ValueError(f"{tokenizer}: another kind of tokenizer")
    vocabulary: Mapping[str, int] = model["vocab"]
    letters = sorted((ord(piece), number) for piece, number in vocabulary.items() if len(piece) == 1)
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
    ranks = {}
    for rank, (left, right) in enumerate(merges):
        pair = (vocabulary[left] << _PAIR_BITS) | vocabulary[right]
        ranks[pair] = (vocabulary[left + right], rank)  # of one named twice, the library keeps the last
    pairs = sorted(ranks)
    arrays: dict[str, NDArray[Any]] = {
        "letters": np.array([code for code, _ in letters], np.int64),
        "letter_ids": np.array([number for _, number in letters], np.int32),
        "byte_ids": np.array([vocabulary[f"<0x{byte:02X}>"] for byte in range(256)], np.int32),
        "pairs": np.array(pairs, np.int64),
        "merged": np.array([ranks[pair][0] for pair in pairs], np.int32),
        "ranks": np.array([ranks[pair][1] for pair in pairs], np.int32),
    }
    write_arrays(folder / _FILE, arrays)


SPECIAL_PIECES: Final = frozenset({"<unk>", "<s>", "</s>"})
"""Pieces that the library finds in a text before all others."""
_EXPECTED: Final[Mapping[str, Any]] = {
    "added_tokens": SPECIAL_PIECES,
    "normalizers": [
        {"type": "Prepend", "prepend": _SPACE},
        {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE},
    ],
    "pre_tokenizer": None,
    "type": "BPE",
    "dropout": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "byte_fallback": True,
    "ignore_merges": False,
}


def _settings(contents: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what in a file of the library decides how a text is encoded, the vocabulary apart."""
    settings = {**contents["model"], "pre_tokenizer": contents["pre_tokenizer"]}
    settings["normalizers"] = (contents["normalizer"] or {}).get("normalizers")
    settings["added_tokens"] = {token["content"] for token in contents["added_tokens"]}
    return {name: settings.get(name) for name in _EXPECTED}
