"""All that a store in memory knows, as values that can be written down and read again: see ``snapshot``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vectorstore.types import Entry, Space, Vector


@dataclass(frozen=True, slots=True)
class Forward:
    """The terms of entries end to end: 1 stands for the first of *terms*, 0 for the end of a sentence.

    *lengths* says how many of *numbers* belong to each entry, *contexts* how many of those to its context.
    """

    terms: Sequence[str]
    numbers: NDArray[np.int32]
    lengths: NDArray[np.int64]
    contexts: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class NamespaceState:
    """One namespace; *forward* is in the order of *entries*."""

    name: str
    entries: Sequence[Entry]
    second: Mapping[str, Vector | str]
    """What entries have in the space that is being filled: a vector, or the reason for none."""
    log: Sequence[tuple[int, str]]
    pruned: int
    revision: int
    forward: Forward


@dataclass(frozen=True, slots=True)
class StoreState:
    """A store: what it was made with, and its namespaces."""

    space: Space | None
    next_space: Space | None
    language: str
    fingerprint: str
    """Of the analyzer that made the terms."""
    fields: tuple[str, ...]
    namespaces: Sequence[NamespaceState]
