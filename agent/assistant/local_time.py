"""Local time: that of the user's zone where one is set, else of the machine.

The zone is a context variable, since a resident process runs commands with different settings.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Final

_ZONE: Final[ContextVar[tzinfo | None]] = ContextVar("zone", default=None)
_LOAD: Final[ContextVar[Callable[[], object] | None]] = ContextVar("load", default=None)
_MACHINE_ZONE: Final = Path("/etc/localtime")
_ZONE_FOLDER: Final = "/zoneinfo/"


def use_zone(name: str | None) -> None:
    """Use the zone *name* for local time in this command; None uses that of the machine."""
    _LOAD.set(None)
    _ZONE.set(zone_of(name))


def load_zone_by(load: Callable[[], object]) -> None:
    """Call *load*, which calls ``use_zone``, when local time is first asked for, unless ``use_zone`` comes before."""
    _LOAD.set(load)


def _zone() -> tzinfo | None:
    if (load := _LOAD.get()) is not None:
        _LOAD.set(None)
        load()
    return _ZONE.get()


def to_local(moment: datetime) -> datetime:
    """Return *moment* in the local zone; a naive one is taken to be the machine's."""
    return moment.astimezone(_zone())


def local_now() -> datetime:
    """Return the present moment in the local zone."""
    return to_local(datetime.now(UTC))


def as_local(moment: datetime) -> datetime:
    """Return *moment* with a zone: a naive one is taken as local."""
    if moment.tzinfo is not None:
        return moment
    zone = _zone()
    return moment.astimezone() if zone is None else moment.replace(tzinfo=zone)


def zone_of(name: str | None) -> tzinfo | None:
    """Return the zone *name*; None for None, and for a name that this system does not know."""
    if name is None:
        return None
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except ZoneInfoNotFoundError:
        return None


def machine_zone() -> str | None:
    """Return the name of the machine's zone, such as ``Europe/Lisbon``; None for UTC, and where it has no name."""
    name = os.environ.get("TZ", "").lstrip(":")
    if not name:
        try:
            name = os.path.realpath(_MACHINE_ZONE).partition(_ZONE_FOLDER)[2]
        except OSError:
            return None
    return name if "/" in name and not name.startswith("Etc/") and zone_of(name) is not None else None
