"""Files of one folder as tools: a model lists and reads them, and keeps notes of its own there. Nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from agent.errors import ToolFailed
from agent.tools.function import FunctionTool
from agent.tools.rooted import Root
from memory import Trust

_LINES = 400

FilePath = Annotated[str, Field(min_length=1, max_length=500, description="Path inside the folder, from list_files.")]
NoteName = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _-]{0,79}$", description="Name of the note: letters, digits, _ and -.")
]


def file_tools(root: str | Path, *, max_bytes: int = 2_000_000) -> tuple[FunctionTool, ...]:
    """Return ``list_files`` and ``read_file`` over the folder *root*. Links, hidden files and other places are not
    read, nor files above *max_bytes*."""
    tools = _FileTools(Root(root, max_bytes=max_bytes))
    functions: tuple[Callable[..., Any], ...] = (tools.list_files, tools.read_file)
    return tuple(FunctionTool(function, idempotent=True, trust=Trust.DOCUMENT) for function in functions)


def note_tools(root: str | Path, *, max_bytes: int = 200_000) -> tuple[FunctionTool, ...]:
    """Return ``list_notes``, ``read_note`` and ``write_note`` over the folder *root*, each note a Markdown file."""
    tools = _NoteTools(Root(root, max_bytes=max_bytes))
    reading: tuple[Callable[..., Any], ...] = (tools.list_notes, tools.read_note)
    return (*(FunctionTool(function, idempotent=True) for function in reading), FunctionTool(tools.write_note))


class _FileTools:
    def __init__(self, root: Root) -> None:
        self._root = root

    def list_files(self) -> str:
        """List the files that can be read."""
        return "\n".join(self._root.names()) or "There are no files."

    def read_file(
        self,
        path: FilePath,
        start: Annotated[int, Field(ge=1, description="First line to read, from 1.")] = 1,
        lines: Annotated[int, Field(ge=1, le=_LINES, description="How many lines at most.")] = _LINES,
    ) -> str:
        """Read lines of a text file."""
        if any(part.startswith(".") for part in Path(path).parts):
            raise ToolFailed(f"{path}: hidden files are not read")
        content = self._root.read(path)
        if b"\0" in content:
            raise ToolFailed(f"{path} is no text")
        all_lines = content.decode("utf-8", "replace").splitlines()
        shown = all_lines[start - 1 : start - 1 + lines]
        if not shown and all_lines:
            raise ToolFailed(f"{path} has {len(all_lines)} lines")
        end = start - 1 + len(shown)
        more = f"\n({len(all_lines)} lines in all; read on from line {end + 1})" if end < len(all_lines) else ""
        return "\n".join(shown) + more


class _NoteTools:
    def __init__(self, root: Root) -> None:
        self._root = root

    def list_notes(self) -> str:
        """List the notes by name."""
        names = [name.removesuffix(".md") for name in self._root.names() if name.endswith(".md") and "/" not in name]
        return "\n".join(names) or "There are no notes."

    def read_note(self, name: NoteName) -> str:
        """Read a note whole."""
        return self._root.read(f"{name}.md").decode("utf-8", "replace") or "(empty)"

    def write_note(
        self,
        name: NoteName,
        text: Annotated[str, Field(description="What it is to say, as Markdown.")],
        append: Annotated[bool, Field(description="Add to what it says, instead of replacing it.")] = False,
    ) -> str:
        """Write a note, new or in the place of what it said."""
        self._root.write(f"{name}.md", text.encode() + (b"\n" if append else b""), append=append)
        return f"Written: {name}."
