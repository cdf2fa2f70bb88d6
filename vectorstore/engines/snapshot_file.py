"""Snapshot file of a numpy store: written whole or not at all, and checked when it is read."""

from __future__ import annotations

import os

from vectorstore.analyzer import Analyzer
from vectorstore.errors import ArgumentError
from vectorstore.index.snapshot import FRONT, StoreState, check_front, decoded, encoded
from vectorstore.sqlite.connection import system_border
from vectorstore.sqlite.files import Token, checked_path, is_missing, placed_whole
from vectorstore.sqlite.schema import Settings
from vectorstore.types import Space


def write_snapshot(
    state: StoreState, path: str | os.PathLike[str], *, replace: bool, token: Token = os.urandom
) -> None:
    """Put *state* at *path* (mode 0600, on disk); an earlier snapshot there stays as it is until the new one is whole.

    Anything but a snapshot is left untouched and refused; so is a snapshot too, unless *replace*.
    """
    target = checked_path(path)
    with system_border(target):
        if not is_missing(target):
            if not replace:
                raise _taken(path)
            with target.open("rb") as file:
                check_front(file.read(FRONT), str(target))
        try:
            with placed_whole(target, token=token, replace=replace) as private, private.open("wb") as file:
                for part in encoded(state):
                    file.write(part)
        except FileExistsError as error:
            raise _taken(path) from error


def read_snapshot(path: str | os.PathLike[str]) -> StoreState | None:
    """Return the state at *path*; None where nothing is."""
    target = checked_path(path)
    with system_border(target):
        if is_missing(target):
            return None
        data = target.read_bytes()
    return decoded(data, str(target))


def agreed(
    state: StoreState, *, space: Space | None, analyzer: Analyzer | None, fields: tuple[str, ...] | None
) -> Settings:
    """Return the settings to use when these are given for *state*; a difference raises."""
    recorded = Settings(state.space, Analyzer(state.language), state.fields, recorded=True)
    return recorded.agreed(space=space, analyzer=analyzer, fields=fields)


def _taken(path: str | os.PathLike[str]) -> ArgumentError:
    return ArgumentError("path", os.fspath(path), "a path where nothing is yet is needed")
