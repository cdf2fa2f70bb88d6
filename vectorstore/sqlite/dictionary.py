"""The dictionary of one namespace: which number each of its terms has. Used inside a write transaction."""

from __future__ import annotations

from collections.abc import Set
from itertools import islice

import apsw
import numpy as np

from vectorstore.core.forward import distinct_numbers
from vectorstore.sqlite.query import as_json, each, every

_PAGE = 1000


class Dictionary:
    """Numbers terms from *next_number* on, which the caller keeps; ``numbers`` knows those that were asked for."""

    def __init__(self, connection: apsw.Connection, namespace: int, *, next_number: int) -> None:
        self._connection = connection
        self._namespace = namespace
        self.numbers: dict[str, int] = {}
        self.next_number = next_number

    def intern(self, terms: Set[str]) -> None:
        """Make sure that each of *terms* has a number."""
        wanted = sorted(terms - self.numbers.keys())
        if not wanted:
            return
        known = each(
            self._connection,
            "SELECT t.term, t.number FROM json_each(?) AS wanted"
            " CROSS JOIN terms AS t ON t.namespace = ? AND t.term = wanted.value",
            (as_json(wanted), self._namespace),
        )
        self.numbers.update(dict(known))
        fresh = [term for term in wanted if term not in self.numbers]
        for term in fresh:
            self.numbers[term] = self.next_number
            self.next_number += 1
        self._connection.executemany(
            "INSERT INTO terms (namespace, number, term) VALUES (?, ?, ?)",
            ((self._namespace, self.numbers[term], term) for term in fresh),
        )


def remove_unused(connection: apsw.Connection, namespace: int) -> None:
    """Remove the terms that no entry of the namespace uses any more, those of overwritten and deleted texts too."""
    known = every(connection, "SELECT number FROM terms WHERE namespace = ?", (namespace,))
    left = np.array([number for (number,) in known], dtype=np.int32)
    rows = each(connection, "SELECT sequence FROM forward WHERE namespace = ?", (namespace,))
    while left.size and (page := list(islice(rows, _PAGE))):
        used = distinct_numbers(np.frombuffer(blob, dtype="<i4") for (blob,) in page)
        left = np.setdiff1d(left, used, assume_unique=True)
    connection.executemany(
        "DELETE FROM terms WHERE namespace = ? AND number = ?",
        ((namespace, number) for number in left.tolist()),
    )
