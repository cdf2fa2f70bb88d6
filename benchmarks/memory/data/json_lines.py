"""Data of one's own: a folder with ``memories.jsonl`` and ``questions.jsonl``. Errors name the file and the line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchmarks.memory.data.dataset import Asked, Corpus, DataError, DataSet, hash_of
from benchmarks.memory.protocol import Item, Question

MEMORIES, QUESTIONS = "memories.jsonl", "questions.jsonl"
_Text = Annotated[str, Field(min_length=1)]
_Moment = Annotated[datetime | None, Field(strict=False)]
_Line = TypeVar("_Line", bound=BaseModel)


class MemoryLine(BaseModel):
    """One line of ``memories.jsonl``; all lines with the same *corpus* are one memory."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: _Text
    text: _Text
    corpus: str = ""
    speaker: str = ""
    role: str = "user"
    session: str = ""
    occurred_at: _Moment = None
    about: str = ""

    def item(self) -> Item:
        """Return it as an item."""
        at = self.occurred_at.isoformat() if self.occurred_at else ""
        return Item(self.id, self.text, self.speaker, self.role, self.session, at, self.about)


class QuestionLine(BaseModel):
    """One line of ``questions.jsonl``. *evidence* is ids, or ids with grades; ``[]``: nothing there answers it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    question: _Text
    evidence: list[str] | dict[str, Annotated[int, Field(ge=1)]]
    id: str | None = None
    corpus: str = ""
    group: _Text = "all"
    stale: list[str] = []
    answer: str = ""
    asked_at: _Moment = None

    def asked(self, id: str) -> Asked:
        """Return it as a question under *id*."""
        gold = self.evidence if isinstance(self.evidence, dict) else dict.fromkeys(self.evidence, 1)
        question = Question(id, self.question, self.asked_at.isoformat() if self.asked_at else "")
        return Asked(question, self.group, gold, frozenset(self.stale), self.answer, answerable=bool(gold))


def json_lines(path: Path) -> DataSet:
    """Return the data of the folder *path*; raise ``DataError`` naming the first line that is wrong."""
    items: dict[str, dict[str, Item]] = {}
    for place, line in _lines(path / MEMORIES, MemoryLine):
        held = items.setdefault(line.corpus, {})
        if line.id in held:
            raise DataError(f"{place}: the id {line.id!r} stands there twice")
        held[line.id] = line.item()
    asked: dict[str, list[Asked]] = {corpus: [] for corpus in items}
    names: set[str] = set()
    for place, row in _lines(path / QUESTIONS, QuestionLine):
        if row.corpus not in items:
            raise DataError(f"{place}: there is no memory of the corpus {row.corpus!r}")
        if unknown := [id for id in (*row.evidence, *row.stale) if id not in items[row.corpus]]:
            raise DataError(f"{place}: {unknown[0]!r} is the id of no memory of its corpus")
        name = row.id if row.id is not None else f"{row.corpus}/q{len(asked[row.corpus])}"
        if name in names:
            raise DataError(f"{place}: the id {name!r} stands there twice")
        names.add(name)
        asked[row.corpus].append(row.asked(name))
    corpora = [Corpus(name or "all", tuple(held.values()), asked[name]) for name, held in items.items()]
    name = path.resolve().name
    return DataSet(
        name, name, corpora, hash_of([path / MEMORIES, path / QUESTIONS]), "the judgement of whoever labelled it"
    )


def _lines(path: Path, kind: type[_Line]) -> Iterator[tuple[str, _Line]]:
    """Yield each line of *path* with its place; raise ``DataError`` for a file without lines."""
    if not path.is_file():
        raise DataError(f"{path}: there is no such file")
    lines = [(number, text) for number, text in enumerate(path.read_text("utf-8").splitlines(), 1) if text.strip()]
    if not lines:
        raise DataError(f"{path.name}: no line in it")
    for number, text in lines:
        place = f"{path.name}, line {number}"
        try:
            fields: Any = json.loads(text)
            if not isinstance(fields, Mapping):
                raise DataError(f"{place}: an object is needed, not {text[:40]}")
            yield place, kind.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise DataError(f"{place}: {where}: {first['msg']}") from error
        except json.JSONDecodeError as error:
            raise DataError(f"{place}: not JSON: {error}") from error
