"""Snapshot file of a numpy store: written whole or not at all, and checked when it is read."""

from __future__ import annotations

import os

from vectorstore.analyzer import Analyzer
from vectorstore.errors import ArgumentError
from vectorstore.index.snapshot import PREAMBLE_SIZE, StoreState, check_preamble, decode_snapshot, encode_snapshot
from vectorstore.sqlite.connection import translate_system_errors
from vectorstore.sqlite.files import RandomBytes, atomic_write, check_path, is_missing
from vectorstore.sqlite.schema import StoreSettings
from vectorstore.types import Space


def write_snapshot(
    state: StoreState, path: str | os.PathLike[str], *, replace: bool, token: RandomBytes = os.urandom
) -> None:
    """Put *state* at *path* (mode 0600, on disk); an earlier snapshot there stays as it is until the new one is whole.

    Anything but a snapshot is left untouched and refused; so is a snapshot too, unless *replace*.
    """
    target = check_path(path)
    with translate_system_errors(target):
        if not is_missing(target):
            if not replace:
                raise _path_taken(path)
            with target.open("rb") as file:
                check_preamble(file.read(PREAMBLE_SIZE), str(target))
        try:
            with atomic_write(target, token=token, replace=replace) as private, private.open("wb") as file:
                for part in encode_snapshot(state):
                    file.write(part)
        except FileExistsError as error:
            raise _path_taken(path) from error


def read_snapshot(path: str | os.PathLike[str]) -> StoreState | None:
    """Return the state at *path*; None where nothing is."""
    target = check_path(path)
    with translate_system_errors(target):
        if is_missing(target):
            return None
        data = target.read_bytes()
    return decode_snapshot(data, str(target))


def agree_snapshot_settings(
    state: StoreState, *, space: Space | None, analyzer: Analyzer | None, fields: tuple[str, ...] | None
) -> StoreSettings:
    """Return the settings to use when these are given for *state*; a difference raises."""
    recorded = StoreSettings(state.space, Analyzer(state.language), state.fields, recorded=True)
    return recorded.agreed(space=space, analyzer=analyzer, fields=fields)


def _path_taken(path: str | os.PathLike[str]) -> ArgumentError:
    return ArgumentError("path", os.fspath(path), "a path where nothing is yet is needed")
