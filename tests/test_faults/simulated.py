"""A disk after a power loss: what was made durable is there; of the rest any part may be, torn and in any order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

_SECTOR = 512


class SimulatedDisk:
    """Contents that a folder may have if the power goes now; ``happen`` follows the events of a ``Recorder``."""

    def __init__(self) -> None:
        self._durable: dict[int, bytearray] = {}
        self._pending: dict[int, list[tuple[Any, ...]]] = {}
        self._names: dict[str, int] = {}
        self._present: dict[str, int] = {}
        self._naming: list[tuple[Any, ...]] = []

    def happen(self, event: tuple[Any, ...]) -> None:
        """Follow one event."""
        match event:
            case ("create", name, file):
                self._durable[file], self._pending[file] = bytearray(), []
                self._naming.append(("put", name, file))
                self._present[name] = file
            case ("link" | "rename" as what, old, new):
                file = self._present[old]
                self._present[new] = file
                self._naming.append(("put", new, file))
                if what == "rename":
                    del self._present[old]
                    self._naming[-1] = ("move", old, new, file)
            case ("unlink", name):
                self._present.pop(name, None)
                self._naming.append(("remove", name))
            case ("write" | "truncate", file, *_):
                self._pending[file].append(event)
            case ("sync", file):
                for item in self._pending[file]:
                    _apply(self._durable[file], item)
                self._pending[file].clear()
            case ("sync folder",):
                for item in self._naming:
                    _rename(self._names, item)
                self._naming.clear()

    def crashed_into(self, folder: Path, rng: random.Random, way: str) -> None:
        """Write into *folder* what is left; *way*: "dropped", "kept", "subset", "torn" or "first" of what was not."""
        names = dict(self._names)
        for item in _chosen(self._naming, rng, way):
            _rename(names, item)
        for name, file in names.items():
            content = bytearray(self._durable[file])
            for item in _chosen(self._pending[file], rng, way):
                _apply(content, item, rng if way == "torn" else None)
            (folder / name).write_bytes(content)


def _chosen(pending: list[tuple[Any, ...]], rng: random.Random, way: str) -> list[tuple[Any, ...]]:
    if way == "dropped":
        return []
    if way == "kept":
        return pending
    if way == "first":
        return pending[: rng.randint(0, len(pending))]
    share = rng.random()
    return [item for item in pending if rng.random() < share]  # what is left out may come before what is kept


def _apply(content: bytearray, event: tuple[Any, ...], torn_by: random.Random | None = None) -> None:
    if event[0] == "truncate":
        size = event[2]
        content[size:] = bytes(max(0, size - len(content)))
        return
    _, _, offset, data = event
    pieces = [(0, data)]
    if torn_by is not None and torn_by.random() < 0.5:
        cuts = range(0, len(data), _SECTOR)
        pieces = [(cut, data[cut : cut + _SECTOR]) for cut in cuts if torn_by.random() < 0.5]
    for cut, piece in pieces:
        start = offset + cut
        if len(content) < start:
            content.extend(bytes(start - len(content)))
        content[start : start + len(piece)] = piece


def _rename(names: dict[str, int], event: tuple[Any, ...]) -> None:
    match event:
        case ("put", name, file):
            names[name] = file
        case ("move", old, new, file):
            names.pop(old, None)
            names[new] = file
        case ("remove", name):
            names.pop(name, None)
