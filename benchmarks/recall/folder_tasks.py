"""Any data as a task: a folder with ``memories.jsonl`` and ``questions.jsonl``, as benchmarks/README.md describes it.

Errors name the file and the line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from benchmarks.recall.task import Asked, Corpus, Task
from tellback.memory import Memory

MEMORIES, QUESTIONS = "memories.jsonl", "questions.jsonl"
_Text = Annotated[str, Field(min_length=1)]
_Line = TypeVar("_Line", bound=BaseModel)


class FolderError(ValueError):
    """A line of the folder is invalid; the message names file and line."""


class MemoryLine(BaseModel):
    """One line of ``memories.jsonl``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: _Text
    text: _Text
    corpus: str = ""
    kind: _Text = "turn"
    role: str | None = None
    speaker: str | None = None
    session: str | None = None
    sequence: int | None = None
    occurred_at: Annotated[datetime | None, Field(strict=False)] = None
    caption: str = ""

    @model_validator(mode="after")
    def _in_its_session(self) -> MemoryLine:
        if self.sequence is not None and self.session is None:
            raise ValueError("a sequence needs the session that it counts in")
        return self

    def item(self) -> Memory:
        """Return it as a memory."""
        return Memory(**self.model_dump(exclude={"corpus"}))


class QuestionLine(BaseModel):
    """One line of ``questions.jsonl``."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: _Text
    evidence: list[str] | dict[str, Annotated[int, Field(ge=1)]]
    id: str | None = None
    corpus: str = ""
    group: _Text = "all"
    context: list[_Text] = []
    as_of: Annotated[datetime | None, Field(strict=False)] = None

    def grades(self) -> dict[str, int]:
        """Return the evidence with its grades, 1 where none is given."""
        return dict(self.evidence) if isinstance(self.evidence, dict) else dict.fromkeys(self.evidence, 1)


def folder_task(folder: Path) -> Task:
    """Return the task of *folder*; raise ``FolderError`` naming the first line that is wrong."""
    corpora = read_folder(folder)
    name = folder.resolve().name
    groups = {asked.group for corpus in corpora for asked in corpus.questions if asked.evidence}
    sessions = any(item.session is not None for corpus in corpora for item in corpus.items)
    return Task(
        f"folder-{name}",
        name,
        "yours",
        "memory",
        lambda: corpora,
        headline=tuple(sorted(groups)),
        sessions=f"{name}, sessions" if sessions else "",
        data=hashlib.sha256(b"".join((folder / each).read_bytes() for each in (MEMORIES, QUESTIONS))).hexdigest()[:12],
    )


def read_folder(folder: Path) -> list[Corpus]:
    """Return the corpora of *folder*, in the order of their first memory."""
    items: dict[str, dict[str, Memory]] = {}
    for place, line in _lines(folder / MEMORIES, MemoryLine):
        held = items.setdefault(line.corpus, {})
        if line.id in held:
            raise FolderError(f"{place}: the id {line.id!r} stands there twice")
        held[line.id] = line.item()
    asked: dict[str, list[Asked]] = {corpus: [] for corpus in items}
    names: set[str] = set()
    for place, asks in _lines(folder / QUESTIONS, QuestionLine):
        if asks.corpus not in items:
            raise FolderError(f"{place}: there is no memory of the corpus {asks.corpus!r}")
        unknown = [id for id in asks.grades() if id not in items[asks.corpus]]
        if unknown:
            raise FolderError(f"{place}: evidence {unknown[0]!r} is the id of no memory of its corpus")
        name = asks.id if asks.id is not None else f"{asks.corpus}/q{len(asked[asks.corpus])}"
        if name in names:
            raise FolderError(f"{place}: the id {name!r} stands there twice")
        names.add(name)
        asked[asks.corpus].append(
            Asked(name, asks.question, asks.group, asks.grades(), tuple(asks.context), asks.as_of)
        )
    return [Corpus(name or "all", tuple(held.values()), tuple(asked[name])) for name, held in items.items()]


def _lines(path: Path, kind: type[_Line]) -> Iterator[tuple[str, _Line]]:
    """Yield each line of *path* with its place; raise ``FolderError`` for a file without lines."""
    if not path.is_file():
        raise FolderError(f"{path}: there is no such file")
    empty = True
    for number, text in enumerate(path.read_text("utf-8").splitlines(), 1):
        if not text.strip():
            continue
        empty = False
        place = f"{path.name}, line {number}"
        try:
            fields: Any = json.loads(text)
        except ValueError as error:
            raise FolderError(f"{place}: not JSON: {error}") from error
        if not isinstance(fields, Mapping):
            raise FolderError(f"{place}: an object is needed, not {text[:40]}")
        try:
            yield place, kind.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise FolderError(f"{place}: {where}: {first['msg']}") from error
    if empty:
        raise FolderError(f"{path.name}: no line in it")
