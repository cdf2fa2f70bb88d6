"""Document tools: a model searches passages, lists the documents, and, where that is allowed, adds and removes some."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from tellback.agent.context.control_markup import defuse
from tellback.agent.context.rendering import render_items
from tellback.agent.context_items import item_from_passage
from tellback.agent.errors import ArgumentError, ToolFailed
from tellback.agent.events import MemoryRecalled
from tellback.agent.tools.base import ToolContext
from tellback.agent.tools.function import FunctionTool
from tellback.agent.tools.memory import search_note
from tellback.memory import KnowledgeBase, MemoryLayerError, Trust

READING_KNOWLEDGE_TOOLS = ("search_documents", "list_documents", "document_stats")
CHANGING_KNOWLEDGE_TOOLS = ("add_document", "remove_document")
_MAX_DOCUMENTS = 200
_MAX_PROBLEMS = 5


def knowledge_tools(
    knowledge: KnowledgeBase,
    *,
    prefix: str = "",
    include: Iterable[str] = READING_KNOWLEDGE_TOOLS[:2],
    folder: Path | str | None = None,
) -> tuple[FunctionTool, ...]:
    """Return tools over *knowledge*, those named in *include*; *prefix* tells several collections apart.

    ``search_documents`` and ``list_documents`` are given by default; ``document_stats``, ``add_document`` and
    ``remove_document`` where they are named. The last two need approval each time, and files are added from *folder*
    alone (needed for ``add_document``). What a search shows can be cited by its number, and is an event of the stream.
    """
    wanted = tuple(include)
    known = (*READING_KNOWLEDGE_TOOLS, *CHANGING_KNOWLEDGE_TOOLS)
    if unknown := [name for name in wanted if name not in known]:
        raise ArgumentError("include", unknown[0], f"some of {', '.join(known)} are needed")
    if "add_document" in wanted and folder is None:
        raise ArgumentError("folder", folder, "the folder from which files may be added is needed")
    functions = _KnowledgeFunctions(knowledge, Path(folder).resolve() if folder is not None else Path())
    return tuple(
        FunctionTool(
            getattr(functions, name),
            name=prefix + name,
            trust=Trust.DOCUMENT,
            recalls=name in READING_KNOWLEDGE_TOOLS,
            needs_approval=name in CHANGING_KNOWLEDGE_TOOLS,
        )
        for name in wanted
    )


@dataclass(frozen=True, slots=True)
class _KnowledgeFunctions:
    """The functions of the tools over one collection."""

    knowledge: KnowledgeBase
    folder: Path

    async def search_documents(
        self,
        query: Annotated[str, Field(min_length=1, description="What to look for, in plain words.")],
        context: ToolContext,
        limit: Annotated[int, Field(ge=1, le=20, description="How many passages at most.")] = 5,
        document: Annotated[str | None, Field(description="Search this document alone, by its name.")] = None,
    ) -> str:
        """Search the user's documents, passage by passage."""
        began = time.perf_counter()
        where = None if document is None else {"document": document}
        passages = await self.knowledge.retrieve(query, limit, where=where)
        note = await search_note("knowledge", passages, time.perf_counter() - began, context)
        if not passages:
            return f"No passage was found ({note})." if passages.degraded else "No document has anything about this."
        items = context.scope.number([item_from_passage(passage) for passage in passages])
        event = MemoryRecalled(tuple(items), **context.stamp())
        context.scope.emit(event)
        return render_items(items, f"Passages ({note}):")

    async def list_documents(self) -> str:
        """List the documents that can be searched."""
        documents = await self.knowledge.documents()
        lines = [
            f"{document.source} ({document.title})" if document.title else document.source
            for document in documents[:_MAX_DOCUMENTS]
        ]
        more = [f"… and {len(documents) - _MAX_DOCUMENTS} more"] if len(documents) > _MAX_DOCUMENTS else []
        return defuse("\n".join([*lines, *more])) or "There are no documents."

    async def document_stats(self) -> str:
        """Count the documents and their passages."""
        documents = await self.knowledge.documents()
        newest = max((document.ingested for document in documents if document.ingested is not None), default=None)
        last = "" if newest is None else f", the last one read on {newest:%Y-%m-%d}"
        return f"{len(documents)} documents, {sum(document.chunks for document in documents)} passages{last}."

    async def add_document(
        self, path: Annotated[str, Field(min_length=1, description="File or folder, below the folder for documents.")]
    ) -> str:
        """Read a file or a folder into the documents that can be searched."""
        wanted = (self.folder / path).resolve()
        if not wanted.is_relative_to(self.folder):
            raise ToolFailed(f"{path} is not below the folder for documents")
        try:
            report = await self.knowledge.ingest(wanted)
        except (MemoryLayerError, OSError) as error:
            raise ToolFailed(str(error)) from error
        problems = [str(line) for line in report.lines if line.reason][:_MAX_PROBLEMS]
        return "\n".join([str(report), *problems])

    async def remove_document(
        self, document: Annotated[str, Field(min_length=1, description="Its name, as list_documents shows it.")]
    ) -> str:
        """Remove a document and its passages; the file itself stays."""
        try:
            count = await self.knowledge.remove(document)
        except MemoryLayerError as error:
            raise ToolFailed(str(error)) from error
        return f"Removed {document} with {count} passages."
