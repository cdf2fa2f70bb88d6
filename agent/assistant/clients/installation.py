"""Installation in a client: the changes of its files that connect it to the memory, or disconnect it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from tellback.agent.assistant.clients.client import Client
from tellback.agent.assistant.clients.config_files import FileChange, earlier_texts, file_change
from tellback.agent.assistant.clients.json_edit import has_value
from tellback.agent.assistant.clients.registration import Launch

_Edit: TypeAlias = Callable[[str], str]


def planned_changes(client: Client, launch: Launch | None, *, hooks: bool = True) -> list[FileChange]:
    """Return the file changes that connect *client* by *launch*; without it, those that remove our entries.

    Without *hooks* the server alone is added. A file that cannot be parsed, or has another server of our name, raises
    ``ArgumentError``.
    """
    server, hook_file = client.server_file, client.hook_file if hooks else None
    additions: dict[Path, list[_Edit]] = {}
    removals: dict[Path, list[Callable[[str, str], str]]] = {}
    additions[server.path] = [partial(server.with_ours, launch)] if launch else []
    removals[server.path] = [server.without_ours]
    if hook_file is not None:
        path = hook_file.path
        additions.setdefault(path, []).extend([partial(hook_file.with_ours, client.name, launch)] if launch else [])
        removals.setdefault(path, []).append(partial(hook_file.without_ours, client.name))
    changes = [
        file_change(path, partial(_added, additions[path]) if launch else partial(_removed, path, removals[path]))
        for path in removals
    ]
    for path, content in client.skills.items() if hooks else ():
        change = file_change(path, partial(_whole_file, content if launch else None))
        changes.append(replace(change, is_ours=change.before == content))
    return changes


def _whole_file(content: str | None, text: str) -> str | None:
    return content


def _added(edits: Sequence[_Edit], text: str) -> str:
    for edit in edits:
        text = edit(text)
    return text


def _removed(path: Path, edits: Sequence[Callable[[str, str], str]], text: str) -> str | None:
    """Return *text* without our entries; None for a file of ours alone.

    A file is ours alone where no backup beside it is without our entries, for installing makes a backup of a file that
    was there. That backup also tells which objects were empty before.
    """

    def removed(text: str, original: str) -> str:
        return _added([partial(edit, original) for edit in edits], text)

    def is_without_ours(backup: str) -> bool:
        try:
            return removed(backup, backup) == backup
        except ValueError:
            return False

    original = next(filter(is_without_ours, (backup.replace("\r\n", "\n") for backup in earlier_texts(path))), None)
    after = removed(text, original or "")
    if after == text:
        return text
    is_blank = after.strip() in ("", "{}")
    if original is None:
        return None if is_blank and not path.is_symlink() else after
    held_no_value = after.rstrip().endswith("{}") and not has_value(original)
    return after.rstrip().removesuffix("{}") if held_no_value else after
