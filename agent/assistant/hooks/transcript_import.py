"""Import of conversations held in other programs, one at a time, without messages that are known already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tellback.agent.assistant.clients.project import Project, project_of
from tellback.agent.assistant.clients.transcript import ConversationSource
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.hooks.capture import Capture, KeptMessages
from tellback.memory import ArgumentError, LoadError, LongTermMemory
from tellback.vectorstore import MissingExtra


@dataclass(frozen=True, slots=True)
class TranscriptReport:
    """Report of an import: how many *conversations* were read, and how many messages were *kept*, *known*
    already, or *forgotten* since they were said.

    *untyped* counts, by kind, the messages in the user's role that nobody typed; *off* the conversations in projects
    where hooks are off; *unreadable* maps files to the reason.
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
    client: ConversationSource,
    paths: Sequence[Path],
    *,
    memory: LongTermMemory,
    settings: AssistantSettings,
    dry_run: bool = False,
    on_progress: Callable[[int, int, str], object] = lambda done, total, last: None,
) -> TranscriptReport:
    """Keep the prompts and answers in the transcripts *paths* of *client*, as its hooks would have kept them.

    Importing the same again adds nothing. Conversations are read one by one, and kept before the next is read; one that
    cannot be kept, and a file that cannot be read to its end, are named in the report. *on_progress* gets the bytes
    read, those of all files, and the title of the last conversation, or the name of the file.
    """
    seen: set[str] = set()
    counts, untyped, unreadable = KeptMessages(), Counter[str](), dict[str, str]()
    conversations = off = 0
    sizes = [_size(path) for path in paths]
    for number, path in enumerate(paths):
        done = sum(sizes[:number])
        try:
            for transcript in client.conversations(path):
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
                seen.update(entry.id for entry in entries if entry.id)
                capture = Capture(memory, client.name, settings, project, transcript.title)
                try:
                    counts += await capture.keep(entries, dry_run=dry_run)
                except ArgumentError as error:  # a name or a text that no memory keeps: the others are still imported
                    unreadable[f"{path}: {entries[0].session}"] = str(error)
                on_progress(done + min(transcript.end, sizes[number]), sum(sizes), transcript.title or path.name)
        except MissingExtra as error:
            unreadable[str(path)] = str(error)
        except LoadError as error:
            unreadable[str(path)] = error.reason
        except OSError as error:
            unreadable[str(path)] = error.strerror or str(error)
        on_progress(done + sizes[number], sum(sizes), path.name)
    return TranscriptReport(
        client.name, dry_run, conversations, counts.kept, counts.known, counts.forgotten, dict(untyped), off, unreadable
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # gone meanwhile; reading it says so
        return 0
