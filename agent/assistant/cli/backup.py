"""``tellback backup``, ``restore`` and ``migrate``: copies of the whole memory, their way back, and another home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tellback.agent.assistant.cli.command_context import (
    compute_in_one_thread,
    global_options,
    opened_memory,
    required_file,
    run,
)
from tellback.agent.assistant.cli.options import JsonOption, QuietOption
from tellback.agent.assistant.cli.output import (
    format_count,
    format_minute,
    print_json,
    print_note,
    print_table,
    print_text,
    progress_bar,
    shown_path,
)
from tellback.agent.assistant.cli.resident import end_residents
from tellback.agent.assistant.local_time import local_now

_SHOWN_BYTES = 50_000_000
"""Size of a memory from which a progress bar is shown; a smaller one is copied before the bar could be read."""


def backup(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where nothing is yet, or a folder; else beside the memory.")
    ] = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Copy the whole memory to FILE.

    Everything is in the copy: memories, documents, conversations, the log. Others may go on writing. The copy is
    checked, and private. It is the way to another machine: there, `tellback restore FILE`.
    """
    compute_in_one_thread()
    with opened_memory(context) as opened:
        memory = required_file(opened.settings, "backup")
        path = None if file is None else _target(Path(Path.cwd(), file.expanduser()), memory)
        is_small = memory.stat().st_size < _SHOWN_BYTES
        with progress_bar("backup", quiet=quiet or json or is_small, in_bytes=True) as on_progress:
            copy = run(opened.memory.backup(path, on_progress=on_progress))
    if json:
        print_json(copy)
        return
    print_text(f"{shown_path(copy.path)}: {copy.bytes / 1e6:.1f} MB, checked")
    if file is not None:
        print_note("     -> memories forgotten later stay in this copy; the receipt of each `tellback forget` names it")


def restore(
    context: typer.Context,
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A backup; alone, list those that are known.")
    ] = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Put the backup FILE in the place of the memory.

    FILE is checked first, page by page and row by row; a damaged one is refused, and nothing is changed. The memory
    that was there stays beside it under another name.
    """
    if file is None:
        _list_backups(context, json=json)
        return
    from tellback.memory.internals import restore_memory

    path = required_file(global_options(context).configuration().settings, "restore")
    source = Path(Path.cwd(), file.expanduser())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    end_residents()
    is_small = not source.is_file() or source.stat().st_size < _SHOWN_BYTES
    with progress_bar("restore", quiet=quiet or json or is_small, in_bytes=True) as on_progress:
        report = restore_memory(source, path, on_progress=on_progress)
    if json:
        print_json(report)
        return
    contents = format_count(report.entries, "memory or passage", "memories and passages")
    print_text(f"{shown_path(report.path)} is {shown_path(report.source)} now: {contents}")
    if report.kept is not None:
        print_text(f"the memory that was there: {shown_path(report.kept)}")
        print_note("     -> memories forgotten since the backup was made are back; delete the old file when done")


def migrate(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help="A memory: a file, or postgresql://HOST/NAME.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Where none is yet: a file, or postgresql://HOST/NAME.")],
    json: JsonOption = False,
) -> None:
    """Copy a whole memory to another home.

    From a file to a PostgreSQL server, or back. Everything is copied, with its ids, and each row is checked. FROM stays
    as it is; let nobody write to it meanwhile. Where it fails, nothing is left at TO, and it can be run again.
    """
    from tellback.memory import migrate_memory

    rows = migrate_memory(_place(source), _place(target))
    if json:
        print_json({"rows": rows})
        return
    contents = format_count(rows["entries"], "memory, version or passage", "memories, versions and passages")
    print_text(f"copied {contents} ({format_count(sum(rows.values()), 'row')}), and checked each row")


def _place(name: str) -> str | Path:
    """Return an address as it is, and a file by its path."""
    return name if "://" in name else Path.cwd() / Path(name).expanduser()


def _target(path: Path, memory: Path) -> Path:
    """Return the file of a backup at *path*, which may be a folder."""
    if not path.is_dir():
        return path
    return path / f"{memory.stem}-{local_now():%Y-%m-%d}{memory.suffix}"


def _list_backups(context: typer.Context, *, json: bool) -> None:
    from tellback.memory.internals import known_backups
    from tellback.vectorstore import NotAStore

    path = required_file(global_options(context).configuration().settings, "restore")
    backups = known_backups(path)
    if not backups and not path.exists():
        raise NotAStore(str(path), "no memory is here yet, and no backup of one; name its file: tellback restore FILE")
    if json:
        print_json({"backups": backups})
        return
    print_table(
        ("made", "MB", "file", ""),
        [(format_minute(backup.at), f"{backup.bytes / 1e6:.1f}", str(backup.path), backup.note) for backup in backups],
    )
    print_text("tellback restore FILE puts one back" if backups else "There are no backups yet: tellback backup")
