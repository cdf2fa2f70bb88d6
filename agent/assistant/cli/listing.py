"""Numbers of the last listing: ``#2`` or ``2`` in place of an id, for the terminal on which the list was shown.

A small private file (0600) in the folder of states holds the ids of a terminal's last lists, never a word of a memory.
The numbers hold for an hour. A command that changes a memory takes only numbers of the last ten minutes, and only while
the memory has not changed since it was listed.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tellback.agent.assistant.resident.wire import terminal_name

if TYPE_CHECKING:
    import typer

    from tellback.agent.assistant.config import AssistantSettings
    from tellback.memory import Memory

ListingKind: TypeAlias = Literal["memories", "operations", "sessions", "citations"]

_SECONDS_TO_READ: Final = 3600
_SECONDS_TO_CHANGE: Final = 600
_NUMBER: Final = re.compile(r"#(\d{1,6})|(\d{1,3})")
_COMMANDS: Final = {
    "memories": "memories list",
    "operations": "memories operations",
    "sessions": "sessions",
    "citations": "ask QUESTION",
}


def listing_number(word: str) -> int | None:
    """Return the number that *word* writes as ``#2`` or ``2``; None for any other word."""
    match = _NUMBER.fullmatch(word)
    return None if match is None else int(match[1] or match[2])


def keep_memories(settings: AssistantSettings, memories: Sequence[Memory]) -> None:
    """Keep the ids of *memories*, as they were printed."""
    keep_listing("memories", settings, [memory.id for memory in memories], [memory.revision for memory in memories])


def keep_listing(
    kind: ListingKind, settings: AssistantSettings, ids: Sequence[str], revisions: Sequence[int] = ()
) -> None:
    """Keep the *ids* and *revisions* of a printed list for its numbers; without a terminal nothing is kept."""
    path = _listing_path()
    if path is None:
        return
    listing = {**_place(settings), "at": time.time(), "ids": list(ids), "revisions": list(revisions)}
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_old_files(path.parent)
        new = path.with_suffix(f".{os.getpid()}")
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            json.dump({**_read(path), kind: listing}, file)
        new.replace(path)


def listed_id(kind: ListingKind, settings: AssistantSettings, word: str, *, changes: bool) -> tuple[str, int | None]:
    """Return the id that the number *word* stands for, and the revision that was listed.

    *changes*: the command changes or removes it, so the list must be recent.
    """
    command = f"tellback {_COMMANDS[kind]}"
    path, number = _listing_path(), listing_number(word)
    if path is None:
        raise _refusal(word, "numbers are of lists on a terminal; give the id")
    listing = _read(path).get(kind, {})
    if not listing or {name: listing.get(name) for name in _place(settings)} != _place(settings):
        raise _refusal(word, f"nothing was listed on this terminal; `{command}` gives numbers")
    age = time.time() - listing["at"]
    if not 0 <= age <= (_SECONDS_TO_CHANGE if changes else _SECONDS_TO_READ):
        raise _refusal(word, f"the list is {age / 60:.0f} minutes old; list again with `{command}`, or give the id")
    ids = listing["ids"]
    if number is None or not 1 <= number <= len(ids):
        raise _refusal(word, f"the last list has the numbers 1 to {len(ids)}")
    revisions = listing["revisions"]
    return ids[number - 1], revisions[number - 1] if revisions else None


def changed_since_listed(word: str) -> typer.BadParameter:
    """Return the refusal of a number whose memory has changed since it was listed."""
    return _refusal(word, "it was changed or removed since it was listed; list again")


def _refusal(word: str, problem: str) -> typer.BadParameter:
    import typer

    return typer.BadParameter(problem, param_hint=f"#{word.removeprefix('#')}")


def _place(settings: AssistantSettings) -> dict[str, str]:
    return {
        "memory": str(settings.file.absolute() if settings.file else settings.memory),
        "namespace": settings.namespace,
    }


def _listing_path() -> Path | None:
    """Return the file of this terminal's lists; None without a terminal."""
    terminal = terminal_name()
    if terminal is None:
        return None
    import platformdirs

    folder = platformdirs.user_state_path("tellback") / "listings"
    return folder / f"{sha256(terminal.encode()).hexdigest()[:16]}.json"


def _read(path: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        lists = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(lists, dict):
            return lists
    return {}


def _remove_old_files(folder: Path) -> None:
    for path in folder.iterdir():
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _SECONDS_TO_READ:
                path.unlink()
