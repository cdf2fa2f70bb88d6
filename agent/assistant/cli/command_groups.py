"""The commands by name, and their classes: loaded when asked for, global options anywhere, help in groups, hints.

The classes change as little of Typer's own as that needs. Typer keeps the type of its contexts in a private module,
hence ``Any``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from agent.assistant.cli.command_context import GlobalOptions

COMMANDS: Final[Mapping[str, Mapping[str, str]]] = {
    "tellback": {
        "chat": "conversation.chat:chat",
        "ask": "conversation.ask:ask",
        "ingest": "documents:ingest",
        "remember": "remember:remember",
        "recall": "recall:recall",
        "why-not": "recall:why_not",
        "correct": "edit:correct",
        "forget": "forget:forget",
        "undo": "edit:undo",
        "watch": "watch:watch",
        "documents": "app:documents_app",
        "show": "citations:show",
        "export": "export_import:export",
        "import": "imports:import_files",
        "backup": "backup:backup",
        "restore": "backup:restore",
        "init": "init:init",
        "install": "install:install",
        "mcp": "mcp:mcp",
        "pause": "hook:pause",
        "resume": "hook:resume",
        "reembed": "reembed:reembed",
        "doctor": "doctor:doctor",
        "eval": "recall:evaluate_memory",
        "help": "app:show_help",
        "list": "memories:list_memories",
        "search": "recall:recall",
        "hook": "hook:hook",
        "memories": "app:memories_app",
        "sessions": "app:sessions_app",
        "config": "app:config_app",
        "hooks": "app:hooks_app",
        "resident": "app:resident_app",
    },
    "memories": {
        "list": "memories:list_memories",
        "profile": "profile:profile",
        **{name: f"memories:{name}" for name in ("show", "history")},
        "operations": "edit:operations",
        **{name: f"memories:{name}" for name in ("stats", "namespaces")},
        **{name: f"edit:{name}" for name in ("pin", "unpin", "disable", "enable", "promote", "demote")},
        **{name: f"edit:{name}" for name in ("tag", "untag", "importance", "expire", "end", "merge")},
        "conflicts": "conflicts:conflicts",
        "settle": "conflicts:settle",
        "eval": "recall:evaluate_memory",
    },
    "documents": {"list": "documents:documents", "forget": "documents:forget_folder"},
    "sessions": {"list": "sessions:list_sessions", "show": "sessions:show_session"},
    "config": {
        "list": "config:list_settings",
        **{name: f"config:{name}_setting" for name in ("get", "set", "unset")},
        "path": "config:show_path",
        "models": "config:list_models",
    },
    "hooks": {"pause": "hook:pause", "resume": "hook:resume"},
    "resident": {"status": "resident:status", "stop": "resident:stop"},
}
"""The commands of each group: module of this package and function, or group."""
HIDDEN_COMMANDS: Final = frozenset({"list", "search", "hook", "hooks", "pause", "resume", "eval", "help"})
"""Commands of the root that no help lists: entry points of clients, second names, commands of another help."""
FIRST_COMMANDS: Final = ("chat", "ask", "remember", "recall", "ingest", "memories", "correct", "forget")
"""Commands of the first help."""

COMMAND_GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Talk": ("chat", "ask"),
    "Memory": ("remember", "recall", "why-not", "correct", "forget", "undo", "memories", "sessions"),
    "Documents": ("ingest", "watch", "documents", "show"),
    "Connect": ("init", "install", "mcp", "config"),
    "Care": ("backup", "restore", "doctor", "reembed", "export", "import"),
}
"""Visible commands by group, as ``tellback help --all`` shows them."""

_EXAMPLES: Final = """\
  tellback ingest ~/notes
  tellback ask "When does the library close?"
  tellback remember My sister Ana lives in Porto.
  tellback recall "Where does Ana live?"
"""
_OTHER_NAMES: Final = {
    "add": "remember",
    "configure": "init",
    "delete": "forget",
    "edit": "correct",
    "find": "recall",
    "log": "memories operations",
    "ls": "memories list",
    "query": "recall",
    "remove": "forget",
    "rm": "forget",
    "save": "remember",
    "settings": "config",
    "setup": "init",
    "update": "correct",
    "version": "--version",
}
"""Names that people try, and ours for the same."""


def _with_inherited(context: Any, own: list[Any]) -> list[Any]:
    """Return a command's *own* options, and those of the root that it does not redefine, hidden."""
    root = context.find_root().command
    if root is context.command:
        return own
    taken = {name for option in own for name in option.opts} | {option.name for option in own}
    inherited = []
    for option in root.params:
        if option.name != "version" and option.name not in taken and not taken.intersection(option.opts):
            inherited.append(copy.copy(option))
            inherited[-1].hidden = True
    return [*own, *inherited]


def _take_inherited(context: Any, own: list[Any]) -> None:
    """Move the values of inherited options from a command's parameters to the global options."""
    root = context.find_root().command
    if root is context.command:
        return
    before = context.find_object(GlobalOptions) or GlobalOptions()
    names = {option.name for option in own}
    inherited = {
        option.name: context.params.pop(option.name)
        for option in root.params
        if option.name not in names and option.name in context.params
    }
    flags = {name: value for name, value in inherited.items() if name in before.flags and value is not None}
    context.obj = replace(
        before,
        flags={**before.flags, **flags},
        debug=before.debug or bool(inherited.get("debug")),
        json=before.json or bool(inherited.get("json")) or bool(context.params.get("json")),
    )
    if context.obj.json and "json" in context.params:
        context.params["json"] = True


class Command(TyperCommand):
    """Command that takes the global options too, and ``--json`` from before it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its own parameters and the inherited ones."""
        return _with_inherited(ctx, super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse *args*; global options among them become those of the context."""
        rest = super().parse_args(ctx, args)
        _take_inherited(ctx, super().get_params(ctx))
        return rest


def load_command(place: str) -> Any:
    """Return the function, or the group, at *place*: module of this package, colon, name."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"agent.assistant.cli.{module}"), name)


class CommandTable(MutableMapping[str, Any]):
    """Commands of the group *name*, each built when it is asked for: most processes run one of them."""

    def __init__(self, name: str) -> None:
        self._hidden = HIDDEN_COMMANDS if name == "tellback" else frozenset()
        self._places = dict(COMMANDS[name])
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._load(name, load_command(self._places[name]))
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._places.setdefault(name, "")
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._loaded.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _load(self, name: str, command: typer.Typer | Callable[..., None]) -> Any:
        if not isinstance(command, typer.Typer):
            single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
            single.command(name, cls=Command, hidden=name in self._hidden)(command)
            return typer.main.get_command(single)
        return typer.main.get_group(command)


class Group(TyperGroup):
    """Group of commands that takes the global options too."""

    def __init__(self, *, name: str, **options: Any) -> None:
        super().__init__(name=name, **options)
        self.commands = CommandTable(name)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its own parameters and the inherited ones."""
        return _with_inherited(ctx, super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse *args* up to the command; global options among them become those of the context."""
        rest = super().parse_args(ctx, args)
        _take_inherited(ctx, super().get_params(ctx))
        return rest


class ListingGroup(Group):
    """Group whose command ``list`` is meant where none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse *args*, with ``list`` before them where they begin with no command."""
        if not args or (args[0] not in self.commands and args[0] != "--help"):
            args = ["list", *args]
        return super().parse_args(ctx, args)


class RootGroup(Group):
    """Root of the commands: its first help is short, and an unknown name gets a suggestion."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the first commands, examples, and the global options."""
        self._write_commands(ctx, formatter, "Commands", FIRST_COMMANDS)
        formatter.write(f"\nExamples:\n{_EXAMPLES}\n")
        formatter.write("  tellback COMMAND --help   options of a command\n")
        formatter.write("  tellback help --all       all commands\n")
        self._write_global_options(ctx, formatter)

    def all_commands_help(self, ctx: Any) -> str:
        """Return the help of all visible commands in groups."""
        formatter = ctx.make_formatter()
        self.format_usage(ctx, formatter)
        for heading, names in COMMAND_GROUPS.items():
            self._write_commands(ctx, formatter, heading, names)
        self._write_global_options(ctx, formatter)
        return str(formatter.getvalue()).rstrip("\n")

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that *args* begin with; an unknown name fails with the command that may be meant."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-") and not ctx.resilient_parsing:
            meant = _OTHER_NAMES.get(name) or next(
                (
                    f"{group} {name}"
                    for group, command in self.commands.items()
                    if isinstance(command, TyperGroup) and name in command.commands
                ),
                None,
            )
            if meant is not None:
                ctx.fail(f"No such command '{name}'. Did you mean 'tellback {meant}'?")
        return super().resolve_command(ctx, args)

    def _write_commands(self, ctx: Any, formatter: Any, heading: str, names: tuple[str, ...]) -> None:
        width = max(map(len, self.commands)) + 2
        commands = [(name, self.get_command(ctx, name)) for name in names]
        with formatter.section(heading):
            formatter.write_dl(
                [
                    (name.ljust(width - 2), command.get_short_help_str(200))
                    for name, command in commands
                    if command is not None
                ]
            )

    def _write_global_options(self, ctx: Any, formatter: Any) -> None:
        records = [record for option in self.get_params(ctx) if (record := option.get_help_record(ctx)) is not None]
        with formatter.section("Options, before or after a command"):
            formatter.write_dl(records)
