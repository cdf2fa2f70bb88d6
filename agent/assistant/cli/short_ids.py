"""Ids as they are typed: whole, the beginning or the end of one, or a number of the last listing.

The ids of one hour begin alike, with the time, and end at random. So lists show the last five characters, and four
characters that only one id begins or ends with are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from tellback.agent.assistant.cli.command_context import run
from tellback.agent.assistant.cli.listing import changed_since_listed, listed_id, listing_number
from tellback.agent.assistant.cli.output import fit_line, one_line, print_note
from tellback.agent.short_ids import MADE_BY_US

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory

_LEAST_LENGTH: Final = 4
_SHOWN_CANDIDATES: Final = 5
_OPERATIONS_SEARCHED: Final = 10_000


def resolve_ids(opened: OpenedMemory, words: Sequence[str], *, changes: bool = False) -> list[str]:
    """Return the ids of the memories that *words* name; a word that names none is returned as it is.

    *changes*: the command changes or removes them; the memory behind a number is printed, and must not have changed
    since it was listed.
    """
    unique = list(dict.fromkeys(words))
    bare = [word for word in unique if not word.startswith("#") and word.strip()]
    memories = run(opened.memory.get(bare, namespace=opened.namespace)) if bare else []
    known = {word for word, memory in zip(bare, memories, strict=True) if memory is not None}
    return [word if word in known else _resolve_id(opened, word, changes=changes) for word in words]


def resolve_id(opened: OpenedMemory, word: str, *, changes: bool = False) -> str:
    """Return the id of the memory that *word* names, as ``resolve_ids`` does."""
    return resolve_ids(opened, [word], changes=changes)[0]


def _resolve_id(opened: OpenedMemory, word: str, *, changes: bool) -> str:
    base, separator, version = word.partition("@")
    if listing_number(base) is not None:
        id, revision = listed_id("memories", opened.settings, base, changes=changes)
        if changes:
            (memory,) = run(opened.memory.get([id], namespace=opened.namespace))
            if memory is None or memory.revision != revision:
                raise changed_since_listed(base)
            print_note(fit_line(f"#{base.removeprefix('#')} is {id}: {one_line(memory.text)}"))
    else:
        id = _only_match(base, lambda part: run(opened.memory.find_ids(part, namespace=opened.namespace)))
    return id + separator + version


def resolve_session(opened: OpenedMemory, word: str) -> str:
    """Return the id of the session that *word* names: whole, by beginning or end, title, or number in the last list."""
    listed = run(opened.memory.conversations.sessions(namespace=opened.namespace))
    sessions = [info.session for info in listed]
    if word in sessions:
        return word
    titled = [info.session for info in listed if info.title.casefold() == word.casefold()]
    if word.strip() and len(titled) == 1:
        return titled[0]
    if listing_number(word) is not None:
        return listed_id("sessions", opened.settings, word, changes=False)[0]
    return _only_match(word, lambda part: _beginning_or_ending(sessions, part))


def resolve_operation(opened: OpenedMemory, word: str) -> str:
    """Return the id of the operation that *word* names: whole, by beginning or end, or number in the last list.

    Only the newest ten thousand are searched.
    """

    def matches(part: str) -> Iterable[str]:
        log = opened.memory.operations(limit=_OPERATIONS_SEARCHED, namespace=opened.namespace)
        return _beginning_or_ending((operation.id for operation in run(log)), part)

    if listing_number(word) is not None:
        return listed_id("operations", opened.settings, word, changes=True)[0]
    return word if MADE_BY_US.fullmatch(word) else _only_match(word, matches)


def _beginning_or_ending(ids: Iterable[str], part: str) -> Iterable[str]:
    program, colon, end = part.rpartition(":")
    return (id for id in ids if id.startswith(part) or (id.startswith(program + colon) and id.endswith(end)))


def _only_match(word: str, matches: Callable[[str], Iterable[str]]) -> str:
    """Return the only id that *matches* gives for *word*; *word* itself if it is too short, or none fits."""
    if len(word) < _LEAST_LENGTH:
        return word
    ids = list(islice(matches(word), _SHOWN_CANDIDATES + 1))
    if len(ids) <= 1:
        return ids[0] if ids else word
    shown = ", ".join(ids[:_SHOWN_CANDIDATES]) + (", …" if len(ids) > _SHOWN_CANDIDATES else "")
    import typer

    raise typer.BadParameter(f"several ids begin or end like this: {shown}", param_hint=word)
