"""Measures: their names, units and meanings in words."""

from __future__ import annotations

SEARCH = "search"
MANY = "search_many 64"
TEXT = "text search"
BULK_TEXT = "bulk with text"
BULK = "bulk without text"
ADD = "add one"
SEEN = "add, then found here"
SEEN_ELSEWHERE = "add, then found elsewhere"
DELETE = "delete 1"
COLD = "cold, vector"
COLD_TEXT = "cold, text"
FILE = "file"
MEMORY = "memory"

FILTER_FEW = "filter 1 %"
FILTERS = {FILTER_FEW: "rare", "filter 10 %": "some", "filter 50 %": "half"}
"""Measure to the kind that passes."""

IMPORTS = "imports"
"""The store's name of the base line of a cold start."""
BESIDE_NONE, BESIDE_MANY = "guard: alone", "guard: among others"
"""Stores' names of the guard of namespaces: one namespace alone in its file, and the same among many others."""
TINY = "guard: search of a namespace of one"

UNITS = {BULK: "rows/s", BULK_TEXT: "rows/s", FILE: "MB", MEMORY: "MB"}
"""Units of measures; those not listed are in milliseconds."""

MEANING = {
    SEARCH: "the ten nearest (k=10), one query at a time, the rows returned",
    **{
        name: f"the same among the rows of a kind that {name.split(maxsplit=1)[1]} of all rows have" for name in FILTERS
    },
    MANY: "64 queries in the store's own bulk call",
    TEXT: "the ten best (k=10) for any of six words",
    BULK_TEXT: "rows a second, until all are written and every index of the store is built; more is better",
    BULK: "the same with empty texts",
    ADD: "one new row, durable when the call returns",
    SEEN: "one new row, then the search that finds it, in one process",
    SEEN_ELSEWHERE: "one new row here, then the search that finds it in another process; both calls, without the pipe",
    DELETE: "one row by its id",
    COLD: "a new process: start, imports, open, first answer; the file in the system's cache",
    COLD_TEXT: "the same for a text search",
    FILE: "all files of the store after the bulk, closed",
    MEMORY: "private memory of a process after 20 searches and 20 text searches, above what its imports take",
}


def is_rate(measure: str) -> bool:
    """Return whether more is better, as of rows a second."""
    return unit_of(measure) == "rows/s"


def unit_of(measure: str) -> str:
    """Return the unit of a measure."""
    return UNITS.get(measure, "ms")
