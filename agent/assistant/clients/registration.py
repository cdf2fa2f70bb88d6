"""Registration in a client's files: the memory server, hooks, and skills, as edits of the texts of those files.

Other programs' entries stay. Ours are recognised by their command: ``tellback`` with the arguments ``hook CLIENT``.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from tellback.agent.assistant.clients.hook_payload import HookMoment
from tellback.agent.assistant.clients.json_edit import NEW_ITEM, parse_json, remove_member, set_member
from tellback.agent.assistant.clients.toml_edit import remove_table, set_table
from tellback.memory import ArgumentError

SERVER_NAME: Final = "tellback"
"""Name of the memory server in the files of clients."""
_SECONDS_TO_START: Final = 60
"""Seconds that a start may take: the first one after an installation compiles every module."""
_PROGRAM_NAMES: Final = (SERVER_NAME, f"{SERVER_NAME}.exe")
FORMER_MODULE: Final = "agent.assistant.cli"
"""Module that was the command before the packages were one; a registration of it is ours, and starts nothing."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Command line by which a client starts Tellback: the *program*, an absolute path, and global *options*.

    *hook_seconds* is the time, by moment, after which the client goes on without a hook.
    """

    program: Path
    options: tuple[str, ...] = ()
    hook_seconds: Mapping[HookMoment, int] = field(default_factory=dict)

    def hook_command(self, client: str, event: str) -> str:
        """Return the command of a hook, for a shell."""
        words = ["hook", client, event, *self.options]
        if os.name == "nt":  # both of the shells that clients use there take forward slashes, and quotes round spaces
            return " ".join(f'"{word}"' if " " in word else word for word in (self.program.as_posix(), *words))
        return shlex.join([str(self.program), *words])

    @property
    def server_arguments(self) -> list[str]:
        """Arguments that start the memory server."""
        return ["mcp", *self.options]


@dataclass(frozen=True, slots=True)
class ServerFile:
    """Configuration of MCP servers: the file *path*, the *key* of the servers in it, and the *fields* of an entry
    beside command and arguments. *merged_command*: command and arguments are one list."""

    path: Path
    key: str = "mcpServers"
    form: Literal["json", "toml"] = "json"
    fields: Mapping[str, Any] = field(default_factory=dict)
    merged_command: bool = False

    def entry(self, launch: Launch) -> dict[str, Any]:
        """Return the entry of our server."""
        program, arguments = str(launch.program), launch.server_arguments
        if self.merged_command:
            return {**self.fields, "command": [program, *arguments]}
        return {**self.fields, "command": program, "args": arguments}

    def registered(self) -> list[str]:
        """Return the command of our server in the file; empty where it has none, or cannot be read."""
        try:
            entry = self._entry_in(self.path.read_text(encoding="utf-8")) if self.path.is_file() else None
        except (OSError, ValueError):
            return []
        return _command_of(entry) if _runs_ours(entry) else []

    def with_ours(self, launch: Launch, text: str) -> str:
        """Return *text* with our server, started by *launch*; ``ValueError`` where another has its name."""
        entry = self._entry_in(text)
        if entry is not None and not _runs_ours(entry):
            raise ValueError(f"it has a server '{SERVER_NAME}' that is not this program: rename or remove that first")
        edit = set_table if self.form == "toml" else set_member
        return edit(text, (self.key, SERVER_NAME), self.entry(launch))

    def without_ours(self, original: str, text: str) -> str:
        """Return *text* without our server; *original* is the text before it was added."""
        if not _runs_ours(self._entry_in(text)):
            return text
        path, values = (self.key, SERVER_NAME), self._values(original)
        if self.form == "toml":
            return remove_table(text, path, kept=self.key in values)
        return remove_member(text, path, kept=values)

    def _values(self, text: str) -> dict[str, Any]:
        return tomllib.loads(text) if self.form == "toml" else _object(text)

    def _entry_in(self, text: str) -> Any:
        servers = self._values(text).get(self.key)
        return servers.get(SERVER_NAME) if isinstance(servers, dict) else None


@dataclass(frozen=True, slots=True)
class HookFile:
    """Configuration of hooks: the file *path*, and the moments of the *events* that it has an entry for.

    *head* are the members that a file for hooks alone must have, *fields* are those of each handler beside command and
    time-out, which is in seconds or *in_milliseconds*. *grouped* handlers stand in a group with a matcher;
    *start_matcher* limits the starts of a session at which the client calls.
    """

    path: Path
    events: Mapping[str, HookMoment]
    head: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    in_milliseconds: bool = False
    grouped: bool = True
    start_matcher: str = ""

    def entry(self, client: str, event: str, launch: Launch) -> dict[str, Any]:
        """Return our entry of *event*."""
        seconds = launch.hook_seconds[self.events[event]]
        timeout, command = seconds * (1_000 if self.in_milliseconds else 1), launch.hook_command(client, event)
        if not self.grouped:
            return {"command": command, **self.fields, "timeout": timeout}
        is_matched = self.start_matcher and self.events[event] is HookMoment.SESSION_START
        return {
            "hooks": [{"type": "command", "command": command, **self.fields, "timeout": timeout}],
            **({"matcher": self.start_matcher} if is_matched else {}),
        }

    def registered(self, client: str) -> dict[str, str]:
        """Return the command of our hook of *client* for each event that has one; ``ValueError`` for no JSON."""
        hooks = _hooks_of(self.path.read_text(encoding="utf-8")) if self.path.is_file() else {}
        commands = {event: [*_our_commands(items, client)] for event, items in hooks.items()}
        return {event: ours[-1] for event, ours in commands.items() if ours}

    def with_ours(self, client: str, launch: Launch, text: str) -> str:
        """Return *text* with our hooks of *client*, which run the commands of *launch*."""
        entries = {event: self.entry(client, event, launch) for event in self.events}
        for name, value in self.head.items():
            if name not in _object(text):
                text = set_member(text, (name,), value)
        for event in dict.fromkeys([*_hooks_of(text), *entries]):
            entry = entries.get(event)
            items = _hooks_of(text).get(event, [])
            if items.count(entry) != 1 or len(_our_places(items, client)) != 1:
                text = _without_event(client, event, text)
                if entry is not None:
                    text = set_member(text, ("hooks", event, NEW_ITEM), entry)
        return text

    def without_ours(self, client: str, original: str, text: str) -> str:
        """Return *text* without our hooks of *client*; *original* is the text before they were added."""
        before = _object(original)
        had_ours = {event for event, items in _hooks_of(text).items() if _our_places(items, client)}
        for event in had_ours:
            text = _without_event(client, event, text, kept=before)
        for name, value in self.head.items() if had_ours else ():
            left = _object(text)
            if left.get(name) == value and name not in before and (original or {*left} <= {*self.head}):
                text = remove_member(text, (name,))
        return text


def start_failure(command: Sequence[str]) -> str:
    """Return why the memory server cannot be started by *command*, in one line; "" where it can."""
    try:
        done = subprocess.run(  # noqa: S603 - the command that a client is about to run, or runs
            [*command, "--check"], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS_TO_START, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it does not start within {_SECONDS_TO_START} seconds"
    except OSError as error:
        return f"{command[0]} cannot be started ({error.strerror or error})"
    if not done.returncode:
        return ""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("tellback: ") if lines else f"it ends with exit code {done.returncode}"


def own_program() -> Path:
    """Return the absolute path of the command ``tellback`` that runs; ``ArgumentError`` where there is none."""
    name = f"{SERVER_NAME}.exe" if os.name == "nt" else SERVER_NAME
    beside = Path(sys.executable).parent / name  # not resolved: an environment's Python is a link to another place
    if beside.is_file():
        return beside.absolute()
    installed = shutil.which(SERVER_NAME)
    if installed is None:
        raise ArgumentError("client", name, "the command is not installed on the path; install Tellback with pip")
    return Path(installed).absolute()


def program_of(command: str) -> Path:
    """Return the program that a hook's *command* starts."""
    words = shlex.split(command, posix=os.name != "nt")
    return Path(words[0].strip('"')) if words else Path()


def _command_of(entry: Any) -> list[str]:
    """Return the program and arguments of a server's *entry*; empty for one that starts no program."""
    if not isinstance(entry, dict):
        return []
    program, arguments = entry.get("command"), entry.get("args")
    words = [
        *(program if isinstance(program, list) else [program]),
        *(arguments if isinstance(arguments, list) else []),
    ]
    return words if all(isinstance(word, str) for word in words) else []


def _runs_ours(entry: Any) -> bool:
    words = _command_of(entry)
    return "mcp" in words and any(
        re.split(r"[\\/]", word)[-1] in _PROGRAM_NAMES or word.startswith(FORMER_MODULE) for word in words
    )


def _object(text: str) -> dict[str, Any]:
    value = parse_json(text)
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _hooks_of(text: str) -> dict[str, Any]:
    hooks = _object(text).get("hooks", {})
    if not isinstance(hooks, dict):
        raise ValueError("its hooks are no JSON object")
    for event, items in hooks.items():
        if not isinstance(items, list):
            raise ValueError(f"its hooks of {event} are no array")
    return hooks


def _without_event(client: str, event: str, text: str, *, kept: Any = None) -> str:
    """Return *text* without our handlers of *event*; a group that others share stays without ours.

    Objects and arrays that become empty stay where *kept* has them.
    """
    places = _our_places(_hooks_of(text).get(event, []), client)
    for place in reversed(places):
        text = remove_member(text, ("hooks", event, *place), kept=kept)
    return text


def _our_places(items: Sequence[Any], client: str) -> list[tuple[str, ...]]:
    """Return where our handlers are among *items*: the index, or that of the group, "hooks", and the index in it."""
    places: list[tuple[str, ...]] = []
    for index, item in enumerate(items):
        handlers = item.get("hooks") if isinstance(item, dict) else None
        if not isinstance(handlers, list):
            places += [(str(index),)] if _is_ours(item, client) else []
        elif handlers and all(_is_ours(handler, client) for handler in handlers):
            places.append((str(index),))
        else:
            places += [
                (str(index), "hooks", str(inner)) for inner, handler in enumerate(handlers) if _is_ours(handler, client)
            ]
    return places


def _our_commands(items: Any, client: str) -> Iterator[str]:
    for item in items if isinstance(items, list) else ():
        handlers = item.get("hooks") if isinstance(item, dict) else None
        for handler in handlers if isinstance(handlers, list) else (item,):
            if _is_ours(handler, client):
                yield handler["command"]


def _is_ours(handler: Any, client: str) -> bool:
    command = handler.get("command") if isinstance(handler, dict) else None
    pattern = rf"(?:{SERVER_NAME}(?:\.exe)?|{re.escape(FORMER_MODULE)}\S*)[\"']?\s+hook\s+{re.escape(client)}\b"
    return isinstance(command, str) and re.search(pattern, command) is not None
