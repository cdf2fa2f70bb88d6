"""Normalization of vectors to length 1, with a check of everything that a server or function returned; of layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tellback.memory.errors import EmbedderError


def normalize_rows(values: Sequence[Any], *, expected: int, who: str) -> NDArray[np.float32]:
    """Return *values*, one vector a text, as rows of length 1, shape (len(values), d), float32.

    *expected* is the length of each, 0 where it is not known yet: then all must be as long as the first. A vector that
    is no list of finite numbers, of another length, or of zeros, raises ``EmbedderError``, which names *who* answered.
    """
    rows = [normalize_row(value, who=who) for value in values]
    length = expected or (len(rows[0]) if rows else 0)
    wrong = next((len(row) for row in rows if len(row) != length), None)
    if wrong is not None:
        raise invalid_answer(who, f"vectors of {wrong} numbers where {length} were expected")
    return np.stack(rows) if rows else np.zeros((0, length), np.float32)


def normalize_row(values: Any, *, who: str) -> NDArray[np.float32]:
    """Return one vector of length 1; raise ``EmbedderError`` when it is none."""
    row = _parse_numbers(values, who)
    largest = float(np.max(np.abs(row)))
    if not np.isfinite(largest):
        raise invalid_answer(who, "numbers that are not finite")
    if largest == 0:
        raise invalid_answer(who, "a vector of zeros for a text that is not blank")
    row = row / largest  # first, so that squares of very large or small numbers stay in range
    unit: NDArray[np.float32] = (row / np.linalg.norm(row)).astype(np.float32)
    return unit


def invalid_answer(who: str, what: str) -> EmbedderError:
    """Return the error for an answer that cannot be used."""
    return EmbedderError(f"{who} answered {what}")


def normalize_layer(
    values: NDArray[np.float32], gain: NDArray[np.float32], offset: NDArray[np.float32], *, epsilon: float
) -> NDArray[np.float32]:
    """Return *values* with mean 0 and deviation 1 in each row, times *gain* plus *offset*: a network's layer norm."""
    centred = values - values.mean(axis=1, keepdims=True)
    deviation = np.sqrt(np.einsum("ij,ij->i", centred, centred) / values.shape[1] + epsilon)
    return np.asarray(centred / deviation[:, None] * gain + offset, np.float32)


def _parse_numbers(values: Any, who: str) -> NDArray[np.float64]:
    if isinstance(values, np.ndarray):
        if values.ndim != 1 or not len(values) or values.dtype.kind not in "fiu":
            raise invalid_answer(who, f"an array of {values.dtype}, shape {values.shape}, instead of one vector a text")
        return values.astype(np.float64)
    if not isinstance(values, (list, tuple)) or not values:
        raise invalid_answer(who, "an embedding that is not a list of numbers")
    if isinstance(values[0], (list, tuple)):
        raise invalid_answer(who, "a vector for each token instead of one for the text; turn its pooling on")
    kinds = (int, float, np.integer, np.floating)
    if not all(isinstance(value, kinds) and type(value) is not bool for value in values):
        raise invalid_answer(who, "an embedding that is not a list of numbers")
    try:
        return np.array(values, np.float64)
    except OverflowError as error:
        raise invalid_answer(who, "numbers that are not finite") from error
