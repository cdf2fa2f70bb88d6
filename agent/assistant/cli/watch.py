"""``tellback watch``: reads folders, and reads them again whenever something changes in them, until Ctrl-C."""

from __future__ import annotations

from contextlib import ExitStack, aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.agent.assistant.cli.citations import path_from_here
from tellback.agent.assistant.cli.command_context import opened_memory, run
from tellback.agent.assistant.cli.documents import (
    ExcludeOption,
    IncludeOption,
    MaxSizeOption,
    NoIgnoreOption,
    file_selection,
    ingest_progress,
    print_ingest_report,
)
from tellback.agent.assistant.cli.options import IntoCollectionOption, JsonOption
from tellback.agent.assistant.cli.output import format_count, one_line, print_json, print_note, print_text
from tellback.agent.assistant.local_time import local_now

if TYPE_CHECKING:
    from tellback.memory import KnowledgeBase
    from tellback.memory.internals import FileSelection, IngestReport, WatchStep

_CHANGES = ("added", "updated", "removed")


def watch(
    context: typer.Context,
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER...", help="Folders to follow.")],
    include: IncludeOption = None,
    exclude: ExcludeOption = None,
    max_size: MaxSizeOption = None,
    no_ignore: NoIgnoreOption = False,
    collection: IntoCollectionOption = "default",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print only what failed.")] = False,
    json: JsonOption = False,
) -> None:
    """Read folders, and again whenever something changes in them.

    It goes on until Ctrl-C. Only changed files are read anew. A folder that vanishes keeps its documents and is read
    again when it is back. With --json each step is an object on a line of its own.
    """
    for folder in folders:
        if not folder.is_dir():
            raise typer.BadParameter(f"{folder}: no such folder", param_hint="FOLDER")
    selection = file_selection(include, exclude, max_size, no_ignore=no_ignore)
    with opened_memory(context, create=True) as opened:
        following = _Following(opened.knowledge(collection), tuple(folders), selection, quiet=quiet, json=json)
        try:
            run(following.follow())
        except KeyboardInterrupt:
            if not following.caught_up:
                raise
            changes = format_count(following.changes, "document")
            print_note(f"\nstopped; {changes} changed while watching, all of it is in the memory")


@dataclass(slots=True)
class _Following:
    """Watch of *folders*; *changes* counts documents since the first reading, after which it has *caught_up*."""

    knowledge: KnowledgeBase
    folders: tuple[Path, ...]
    selection: FileSelection
    quiet: bool
    json: bool
    changes: int = 0
    caught_up: bool = False
    _problems: dict[str, str] = field(default_factory=dict)

    async def follow(self) -> None:
        """Print each step, until it is interrupted."""
        with ExitStack() as bar:
            on_progress = bar.enter_context(ingest_progress(quiet=self.quiet or self.json))
            steps = self.knowledge.watch(self.folders, on_progress=on_progress, **asdict(self.selection))
            async with aclosing(steps) as watched:
                async for step in watched:
                    if not self.caught_up:
                        bar.close()
                    self._print(step)
                    self.caught_up = True

    def _print(self, step: WatchStep) -> None:
        if self.json:
            print_json({"folders": step.folders, "report": step.report})
        elif step.report is None:
            for folder in step.folders:
                here = path_from_here(str(folder))
                print_note(f"{here} is gone; its documents stay until it is back, or forget them:")
                print_note(f"  tellback documents forget {here}")
        elif not self.caught_up:
            print_ingest_report(step.report, quiet=self.quiet)
            names = ", ".join(map(str, self.folders))
            print_note(f"watching {one_line(names)}; Ctrl-C ends")
        if step.report is not None:
            self._take(step.report)

    def _take(self, report: IngestReport) -> None:
        """Print a line for each document that changed, or that fails in another way than before."""
        for line in report.lines:
            changed = line.action in _CHANGES
            problem = str(line) if line.action == "failed" else ""
            new_problem = problem != self._problems.get(line.source, "")
            self._problems[line.source] = problem
            if not self.caught_up:
                continue
            self.changes += changed
            if self.json:
                continue
            if changed and not self.quiet:
                print_text(one_line(f"{local_now():%H:%M:%S} {line}"))
            elif problem and new_problem:
                print_note(one_line(f"{local_now():%H:%M:%S} {line}"))
