"""The faster mode of our engines (sign bits, rescored): the one place that knows how it is asked for."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

from benchmarks.stores.adapter import NotAvailable
from benchmarks.stores.adapters.tellback import FIELDS, TellbackNumpy, TellbackSqlite
from tellback.vectorstore import LifecycleStore, Space, open_store


class TellbackSqliteFaster(TellbackSqlite):
    """The same file as the exact engine's, searched by sign bits first."""

    def _open(self, folder: Path, space: Space, rows: int) -> LifecycleStore:
        return _faster(f"sqlite:///{folder / 'rows.db'}", space)


class TellbackNumpyFaster(TellbackNumpy):
    """The same snapshot, searched by sign bits first."""

    def _open(self, folder: Path, space: Space, rows: int) -> LifecycleStore:
        return _faster(f"numpy:///{folder / 'rows.snapshot'}", space)


def _faster(url: str, space: Space) -> LifecycleStore:
    if "search" not in inspect.signature(open_store).parameters:
        raise NotAvailable("this version has no faster mode")
    options: dict[str, Any] = {"search": "fast"}
    return open_store(url, space=space, fields=FIELDS, **options)
