"""Proof of a folder of results: every file is of the schema, made of what lies beside it, and whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from benchmarks.memory.data.dataset import DataSet
from benchmarks.memory.run import chosen
from benchmarks.memory.schema import SHAPES
from benchmarks.memory.stage_files import Row, digest, read_stage


def problems(out: Path, data: Sequence[DataSet]) -> Iterator[str]:
    """Yield what is wrong in *out*, a line each; *data* are the sets whose questions must all be there."""
    by_name = {one.name: one for one in data}
    files = sorted(out.glob("*/*/*.jsonl"))
    if not files:
        yield f"{out}: there are no files of a run"
    for path in files:
        try:
            header, rows = read_stage(path)
        except (ValueError, OSError) as error:
            yield str(error)
            continue
        yield from (f"{path}: {line}" for line in _of_file(path, header, rows, by_name.get(path.parts[-3])))


def _of_file(path: Path, header: Row, rows: Sequence[Row], data: DataSet | None) -> Iterator[str]:
    shapes = SHAPES.get(str(header.get("stage")))
    if shapes is None:
        yield f"{header.get('stage')} is no stage"
        return
    for number, (line, shape) in enumerate([(header, shapes[0]), *((row, shapes[1]) for row in rows)], 1):
        try:
            shape.model_validate(line)
        except ValidationError as error:
            first = error.errors()[0]
            yield f"line {number}: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    stage = header["stage"]
    keys = [row.get("corpus" if stage == "ingest" else "question") for row in rows]
    if len(keys) != len(set(keys)):
        yield "a question or a corpus stands there twice"
    if stage in ("answer", "judge"):
        yield from _made_of(path, header, {str(row["question"]) for row in rows})
    if data is None:
        return
    if header["data"]["sha256"] != data.hash:
        yield f"made with other files of {data.title} than are here"
    elif stage == "retrieve":
        wanted = {asked.question.id for corpus in data.corpora for asked in chosen(corpus, header["limit"])}
        if missing := wanted - set(map(str, keys)):
            yield f"{len(missing)} of {len(wanted)} questions are missing, such as {min(missing)}"
        known = {item.id for corpus in data.corpora for item in corpus.items} | {""}
        if strange := [hit for row in rows for hit in row["hits"] if hit not in known]:
            yield f"{strange[0]} is no item of {data.title}"


def _made_of(path: Path, header: Row, questions: set[str]) -> Iterator[str]:
    """Yield whether the rows that this stage was made from are those that lie beside it."""
    inputs = sorted(path.parent.glob("retrieve.jsonl" if header["stage"] == "answer" else "answer*.jsonl"))
    found = [read_stage(place) for place in inputs]
    match = next((rows for _, rows in found if digest(rows) == header["input"]), None)
    if match is None:
        yield "made from rows that do not lie beside it"
    elif missing := {str(row["question"]) for row in match if not row.get("error")} - questions:
        yield f"{len(missing)} questions are missing, such as {min(missing)}"
