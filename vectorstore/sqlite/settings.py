"""What a file records of its store on first use: the space, the analyzer's language, the declared fields."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import apsw

from vectorstore.analysis import Analyzer
from vectorstore.errors import DamageError, SettingMismatch, SpaceMismatch
from vectorstore.sqlite.query import each, first
from vectorstore.types import Finding, Metric, Space

SPACE: Final = "space"
NEXT_SPACE: Final = "next_space"
"""How the file names the space in use, and the one that is being filled."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a store; *recorded* says whether a file has them."""

    space: Space | None = None
    analyzer: Analyzer = Analyzer()  # noqa: RUF009 - frozen, so one default serves all
    fields: tuple[str, ...] = ()
    recorded: bool = False

    def agreed(self, *, space: Space | None, analyzer: Analyzer | None, fields: Sequence[str] | None) -> Settings:
        """Return the settings to use when these are recorded and those are given; a difference raises."""
        if self.space is not None and space is not None and space != self.space:
            raise SpaceMismatch(self.space, space)
        if self.recorded and analyzer is not None and analyzer != self.analyzer:
            raise SettingMismatch("analyzer", self.analyzer.language, analyzer.language)
        if self.recorded and fields is not None and tuple(fields) != self.fields:
            raise SettingMismatch("fields", self.fields, tuple(fields))
        return Settings(
            space=self.space or space,
            analyzer=self.analyzer if self.recorded or analyzer is None else analyzer,
            fields=self.fields if self.recorded or fields is None else tuple(fields),
            recorded=True,
        )


def read_settings(connection: apsw.Connection) -> Settings:
    """Return what the file has recorded."""
    facts: dict[str, str] = dict(
        each(connection, "SELECT name, value FROM store_facts WHERE name IN ('space', 'analyser', 'fields')")
    )
    if not facts:
        return Settings()
    try:
        return Settings(
            space=_space(facts[SPACE]) if SPACE in facts else None,
            analyzer=Analyzer(**json.loads(facts["analyser"])),
            fields=tuple(json.loads(facts["fields"])),
            recorded=True,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamageError([Finding("store_facts", "the settings are not what was written")]) from error


def record_settings(connection: apsw.Connection, settings: Settings) -> None:
    """Record *settings*."""
    _put(connection, "analyser", {"language": settings.analyzer.language})
    record_fields(connection, settings.fields)
    if settings.space is not None:
        record_space(connection, settings.space)


def record_fields(connection: apsw.Connection, fields: Sequence[str]) -> None:
    """Record the declared fields."""
    _put(connection, "fields", list(fields))


def read_space(connection: apsw.Connection, name: str = SPACE) -> Space | None:
    """Return the space in use, or the one being filled."""
    row = first(connection, "SELECT value FROM store_facts WHERE name = ?", (name,))
    return None if row is None else _space(row[0])


def put_space(connection: apsw.Connection, space: Space | None, name: str = SPACE) -> None:
    """Record a space, or that there is none."""
    if space is None:
        connection.execute("DELETE FROM store_facts WHERE name = ?", (name,))
        return
    facts = {"fingerprint": space.fingerprint, "dimension": space.dimension, "metric": space.metric.value}
    _put(connection, name, facts)


def record_space(connection: apsw.Connection, space: Space) -> None:
    """Record the space of a file that has none; another one raises."""
    known = read_space(connection)
    if known is not None and known != space:
        raise SpaceMismatch(known, space)
    put_space(connection, space)


@lru_cache(maxsize=4)
def _space(text: str) -> Space:
    """The space of a recorded text; every call that searches asks."""
    facts = json.loads(text)
    return Space(facts["fingerprint"], facts["dimension"], Metric(facts["metric"]))


def _put(connection: apsw.Connection, name: str, value: object) -> None:
    connection.execute(
        "INSERT INTO store_facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        (name, json.dumps(value, sort_keys=True)),
    )
