"""The commands by name, and their classes: loaded when asked for, global options anywhere, help in groups, hints.

The classes change as little of Typer's own as that needs. Typer keeps the type of its contexts in a private module,
hence ``Any``. Its panels are not used: rich takes longer to import than all else that a help needs, and at 60 columns
they cut the names of options.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from tellback.agent.assistant.cli.command_context import GlobalOptions
from tellback.agent.assistant.cli.errors import error_report

_HIDDEN: Final = ""
"""Group of the commands that no help lists: entry points of clients, second names, commands of another help."""
ROOT_COMMANDS: Final[Mapping[str, Mapping[str, str]]] = {
    "Talk": {"chat": "conversation.chat:chat", "ask": "conversation.ask:ask"},
    "Memory": {
        "remember": "remember:remember",
        "recall": "recall:recall",
        "why-not": "recall:why_not",
        "correct": "edit:correct",
        "forget": "forget:forget",
        "undo": "edit:undo",
        "memories": "app:memories_app",
        "sessions": "app:sessions_app",
    },
    "Documents": {
        "ingest": "documents:ingest",
        "watch": "watch:watch",
        "documents": "app:documents_app",
        "show": "citations:show",
    },
    "Connect": {
        "init": "init:init",
        "install": "install:install",
        "mcp": "mcp:mcp",
        "serve": "serve:serve",
        "config": "app:config_app",
    },
    "Care": {
        "backup": "backup:backup",
        "restore": "backup:restore",
        "doctor": "doctor:doctor",
        "reembed": "reembed:reembed",
        "export": "export:export",
        "import": "imports:import_files",
    },
    _HIDDEN: {
        "eval": "recall:evaluate_memory",
        "help": "app:show_help",
        "hook": "hook:hook",
        "hooks": "app:hooks_app",
        "index": "app:index_app",
        "list": "memories:list_memories",
        "migrate": "backup:migrate",
        "pause": "hook:pause",
        "resident": "app:resident_app",
        "resume": "hook:resume",
        "search": "recall:recall",
    },
}
"""Commands of the root by group, as ``tellback help --all`` shows them: the place of each in this package."""
COMMANDS: Final[Mapping[str, Mapping[str, str]]] = {
    "tellback": {name: place for group in ROOT_COMMANDS.values() for name, place in group.items()},
    "memories": {
        "list": "memories:list_memories",
        "profile": "profile:profile",
        **{name: f"memories:{name}" for name in ("show", "history")},
        "operations": "edit:operations",
        **{name: f"memories:{name}" for name in ("stats", "namespaces")},
        **{name: f"edit:{name}" for name in ("pin", "unpin", "disable", "enable", "promote", "demote")},
        **{name: f"edit:{name}" for name in ("tag", "untag", "importance", "expire", "end", "merge")},
        "about": "about:about",
        "given": "given:given",
        "conflicts": "conflicts:conflicts",
        "settle": "conflicts:settle",
        "people": "app:people_app",
        "migrate": "backup:migrate",
        "eval": "recall:evaluate_memory",
    },
    "memories people": {"list": "people:list_people", "add": "people:add_person", "split": "people:split_person"},
    "documents": {"list": "documents:documents", "forget": "documents:forget_folder"},
    "sessions": {"list": "sessions:list_sessions", "show": "sessions:show_session"},
    "config": {
        "list": "config:list_settings",
        **{name: f"config:{name}_setting" for name in ("get", "set", "unset")},
        "path": "config:show_path",
        "models": "config:list_models",
        "embedder": "embedder:choose_embedder",
        "rights": "rights:grant",
        "users": "app:users_app",
    },
    "config users": {
        "list": "users:list_users",
        "add": "users:add_user",
        "token": "users:renew_token",
        "share": "users:share_namespace",
        "quota": "users:set_quota",
        "remove": "users:remove_user",
    },
    "hooks": {"pause": "hook:pause", "resume": "hook:resume"},
    "index": {"build": "index:build", "drop": "index:drop", "list": "index:list_indexes"},
    "resident": {"status": "resident:status", "stop": "resident:stop"},
}
"""The commands of each group, the root's among them."""
FIRST_COMMANDS: Final = ("chat", "ask", "remember", "recall", "ingest", "memories", "correct", "forget")
"""Commands of the first help."""

_EXAMPLES: Final = """\
  tellback ingest ~/notes
  tellback ask "When does the library close?"
  tellback remember My sister Ana lives in Porto.
  tellback recall "Where does Ana live?"

  tellback COMMAND --help   options of a command
  tellback help --all       all commands
"""
ALL_COMMANDS: Final = "tellback.all_commands"
"""Key in the root context's ``meta``: its help is to list all commands."""
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


class _TakesGlobalOptions:
    """Command or group that takes the options of the root too, and ``--json`` from before it."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return its own options, and those of the root that it does not redefine, hidden."""
        own = super().get_params(ctx)  # type: ignore[misc]  # the other base has it
        taken = {name for option in own for name in option.opts} | {option.name for option in own}
        inherited = []
        for option in () if ctx.find_root() is ctx else ctx.find_root().command.params:
            if option.name != "version" and option.name not in taken and not taken.intersection(option.opts):
                inherited.append(copy.copy(option))
                inherited[-1].hidden = True
        return [*own, *inherited]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse *args*; global options among them become those of the context."""
        rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        if ctx.find_root() is ctx:
            return rest
        before = ctx.find_object(GlobalOptions) or GlobalOptions()
        own = {option.name for option in super().get_params(ctx)}  # type: ignore[misc]
        names = {option.name for option in ctx.find_root().command.params} - own
        inherited = {name: ctx.params.pop(name) for name in names & ctx.params.keys()}
        flags = {name: value for name, value in inherited.items() if name in before.flags and value is not None}
        ctx.obj = replace(
            before,
            flags={**before.flags, **flags},
            debug=before.debug or bool(inherited.get("debug")),
            json=before.json or bool(inherited.get("json")) or bool(ctx.params.get("json")),
        )
        if ctx.obj.json and "json" in ctx.params:
            ctx.params["json"] = True
        return rest


class Command(_TakesGlobalOptions, TyperCommand):
    """Command that takes the global options too, and reports its errors in a line."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with error_report(ctx):
            return super().invoke(ctx)


def load_command(place: str) -> Any:
    """Return the function, or the group, at *place*: module of this package, colon, name."""
    module, _, name = place.partition(":")
    return getattr(import_module(f"tellback.agent.assistant.cli.{module}"), name)


class CommandTable(Mapping[str, Any]):
    """Commands of the group *name*, each built when it is asked for: most processes run one of them."""

    def __init__(self, name: str) -> None:
        self._places = COMMANDS[name]
        self._hidden = ROOT_COMMANDS[_HIDDEN] if name == "tellback" else {}
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            command = load_command(self._places[name])
            if not isinstance(command, typer.Typer):
                single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
                single.command(name, cls=Command, hidden=name in self._hidden)(command)
                self._built[name] = typer.main.get_command(single)
            else:
                self._built[name] = typer.main.get_group(command)
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Group(_TakesGlobalOptions, TyperGroup):
    """Group of commands that takes the global options too."""

    def __init__(self, *, name: str, **options: Any) -> None:
        super().__init__(name=name, **options)
        self.commands = CommandTable(name)  # type: ignore[assignment]  # nothing is added to it


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
        """Write the first commands and examples, or in the help of *all* every group, and the global options."""
        every = {heading: names for heading, names in ROOT_COMMANDS.items() if heading != _HIDDEN}
        groups: Mapping[str, Iterable[str]] = every if ctx.meta.get(ALL_COMMANDS) else {"Commands": FIRST_COMMANDS}
        width = max(map(len, self.commands))
        for heading, names in groups.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), self.commands[name].get_short_help_str(200)) for name in names])
        if groups is not every:
            formatter.write(f"\nExamples:\n{_EXAMPLES}")
        records = [option.get_help_record(ctx) for option in self.get_params(ctx)]
        with formatter.section("Options, before or after a command"):
            formatter.write_dl(list(filter(None, records)))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that *args* begin with; an unknown name fails with the command that may be meant."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            group = next((group for group, names in COMMANDS.items() if name in names), None)
            meant = _OTHER_NAMES.get(name) or (group and f"{group} {name}")
            if meant is not None:
                ctx.fail(f"No such command '{name}'. Did you mean 'tellback {meant}'?")
        return super().resolve_command(ctx, args)
