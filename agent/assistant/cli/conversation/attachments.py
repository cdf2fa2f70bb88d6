"""Attachments of a conversation: files and piped text, given to a model whole or searched as passages.

A model gets a file whole, with the question it is attached to. A file that would take more than half of the token
budget, and every file where no model answers, is cut into passages in a knowledge base of its own, which lasts as long
as the conversation.
"""

from __future__ import annotations

import mimetypes
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import typer

from tellback.agent.assistant.cli.output import format_count, one_line

if TYPE_CHECKING:
    from tellback.agent.assistant.config import AssistantSettings
    from tellback.memory import Embedder, KnowledgeBase, LongTermMemory
    from tellback.memory.internals import Block, Passages

STANDARD_INPUT: Final = "standard input"
_MAX_BYTES: Final = 50_000_000
_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")
_CHARACTERS_PER_TOKEN: Final = 4
"""Estimate for English text; it only decides whether an attachment is sent whole or searched."""


@dataclass(slots=True)
class Attachments:
    """Attachments of one conversation: ``blocks`` wait for the next turn, ``names`` are those of all so far.

    It is a ``PassageRetriever``, which an agent takes as its knowledge.
    """

    blocks: list[Block] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    _memory: LongTermMemory | None = None
    _knowledge: KnowledgeBase | None = None

    @property
    def is_searched(self) -> bool:
        """Return whether there are passages to search."""
        return self._knowledge is not None

    async def retrieve(self, question: str, k: int = 5) -> Passages:
        """Return the passages that are most about *question*, best first."""
        from tellback.memory.internals import Passages

        return Passages(()) if self._knowledge is None else await self._knowledge.retrieve(question, k)

    async def add(self, name: str, data: bytes, settings: AssistantSettings, embedder: Embedder | None) -> str:
        """Attach the file *name* with the content *data*; return in words how it is used.

        An unreadable file raises ``LoadError`` or ``MissingExtra``, an image without a model ``BadParameter``.
        """
        from tellback.memory import DocumentBlock, ImageBlock, load_document

        shown = one_line(name)
        kind, _ = mimetypes.guess_type(name)
        if kind in _IMAGES:
            if settings.model is None:
                raise typer.BadParameter("an image needs a model that reads images", param_hint=shown)
            self.blocks.append(ImageBlock(media_type=cast("Any", kind), data=data, name=Path(name).name))
            self.names.append(shown)
            return f"attached to your next prompt: {shown}"
        document = load_document(data, name, media_type="text/plain" if name == STANDARD_INPUT else "")
        tokens = len(document.text) // _CHARACTERS_PER_TOKEN
        if settings.model is not None and tokens <= settings.token_budget // 2:
            text = document.text.encode() or b" "
            self.blocks.append(DocumentBlock(media_type="text/plain", data=text, name=Path(name).name))
            how = f"attached to your next prompt, whole (about {tokens:,} tokens): {shown}"
        else:
            content = document.text if name == STANDARD_INPUT else data
            passages = await self._ingest(name, content, embedder)
            how = f"attached, {format_count(passages, 'passage')} to search: {shown}"
        self.names.append(shown)
        return how

    async def _ingest(self, name: str, content: str | bytes, embedder: Embedder | None) -> int:
        """Cut *content* into passages; return their number."""
        from tellback.memory import KnowledgeBase, open_memory

        if self._knowledge is None:
            self._memory = open_memory("numpy:", embedder=embedder)
            self._knowledge = KnowledgeBase(self._memory)
        await self._knowledge.ingest_text(content, source=name)
        documents = await self._knowledge.documents()
        return sum(document.chunks for document in documents if document.source == name)

    def take_blocks(self) -> list[Block]:
        """Return the waiting blocks, and empty the list: each block goes to one turn."""
        taken, self.blocks = self.blocks, []
        return taken

    async def close(self) -> None:
        """Release the passages."""
        if self._memory is not None:
            await self._memory.close()


def read_attachment(path: str) -> tuple[str, bytes]:
    """Return name and content of the file at *path*; an unreadable or too large file raises ``BadParameter``."""
    file = Path(path).expanduser()
    try:
        if file.stat().st_size > _MAX_BYTES:
            raise typer.BadParameter(f"{path} has more than {_MAX_BYTES // 1_000_000} MB", param_hint="--attach")
        return path, file.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise typer.BadParameter(f"{path} cannot be read ({reason.lower()})", param_hint="--attach") from error
