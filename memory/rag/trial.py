"""Whether anything can be read at all, asked before a memory is begun for it. Writes nothing."""

from __future__ import annotations

from memory.errors import LoadError
from memory.rag.discover import Paths, Skipped, check_paths, discover
from memory.rag.loaders.reading import read_file
from memory.rag.loaders.registry import Loaders
from memory.rag.report import IngestAction, IngestLine, IngestReport
from vectorstore import MissingExtra


def unreadable(paths: Paths) -> IngestReport | None:
    """Return why nothing of *paths* can be read, a line for each file; None as soon as one file can be.

    A path that does not exist raises ``ArgumentError``.
    """
    lines = []
    for item in discover(check_paths(paths), Loaders()):
        if isinstance(item, Skipped):
            lines.append(IngestLine(item.name, IngestAction.SKIPPED, item.reason))
            continue
        try:
            item.loader.load(read_file(item.location, item.name)[0], item.name)
        except (LoadError, MissingExtra) as error:
            lines.append(IngestLine(item.name, IngestAction.FAILED, str(error).removeprefix(f"{item.name}: ")))
        else:
            return None
    return IngestReport(tuple(lines))
