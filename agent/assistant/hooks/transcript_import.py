"""Import of a client's transcripts: one file at a time, what is there already left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent.assistant.clients.client import HookClient, Transcript
from agent.assistant.clients.project import Project, project_of
from agent.assistant.hooks.capture import Capture, KeptMessages
from agent.assistant.hooks.hook_settings import HookSettings
from memory import LongTermMemory
from memory.internals import run_in_thread
from vectorstore import MissingExtra


@dataclass(frozen=True, slots=True)
class TranscriptReport:
    """Report of an import: how many *conversations* were read, and how many messages were *kept*, *known*
    already, or *forgotten* since they were said.

    *untyped* counts, by kind, what is in the role of the user and nobody typed; *off* the conversations in projects
    where hooks are off; *unreadable* names files with the reason.
    """

    client: str
    dry_run: bool
    conversations: int
    kept: int
    known: int
    forgotten: int
    untyped: dict[str, int]
    off: int
    unreadable: dict[str, str]


async def import_transcripts(
    client: HookClient,
    paths: Sequence[Path],
    *,
    memory: LongTermMemory,
    settings: HookSettings,
    dry_run: bool = False,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> TranscriptReport:
    """Keep what was typed and answered in the transcripts *paths* of *client*, as its hooks would have kept it.

    Twice the same adds nothing. *on_progress* gets the number of files done, and of all.
    """
    seen: set[str] = set()
    counts, untyped, unreadable = KeptMessages(), Counter[str](), dict[str, str]()
    conversations = off = 0
    for number, path in enumerate(paths, start=1):
        try:
            for transcript in await run_in_thread(partial(_conversations, client, path)):
                conversations += 1
                untyped.update(transcript.skipped)
                project = project_of(transcript.folder) if transcript.folder else None
                if project is None and transcript.project:  # other projects must not see it, whatever folder it is
                    project = Project((transcript.project,))
                if project is not None and project.is_off:
                    off += 1
                    continue
                # A resumed or forked session begins with a copy of the lines before it.
                entries = [entry for entry in transcript.entries if not entry.id or entry.id not in seen]
                seen.update(entry.id for entry in entries)
                counts += await Capture(memory, client, settings, project).keep(entries, dry_run=dry_run)
        except MissingExtra as error:
            unreadable[str(path)] = str(error)
        except OSError as error:
            unreadable[str(path)] = error.strerror or str(error)
        on_progress(number, len(paths))
    return TranscriptReport(
        client.name, dry_run, conversations, counts.kept, counts.known, counts.forgotten, dict(untyped), off, unreadable
    )


def _conversations(client: HookClient, path: Path) -> list[Transcript]:
    """Return the conversations of *path*: what was typed and answered in them is little beside the file."""
    return list(client.conversations(path))
