"""Proof of a folder of results: every file is of the schema, made of what lies beside it, whole, and replays alike.

Answers and verdicts are made again, from the rows and the recorded calls that lie there, and must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from benchmarks.memory.answer import KEY, READERLESS, Reading, answer, answer_path, judge, judge_path
from benchmarks.memory.data.dataset import DataSet
from benchmarks.memory.models import RecordedModel
from benchmarks.memory.prompts import OURS, Prompts
from benchmarks.memory.registry import BY_KEY, Entry
from benchmarks.memory.run import chosen
from benchmarks.memory.schema import SHAPES
from benchmarks.memory.stage_files import Row, digest, read_stage


def problems(out: Path, data: Sequence[DataSet], prompts: Prompts = OURS) -> Iterator[str]:
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
        data_set = by_name.get(path.parts[-3])
        found = list(_of_file(path, header, rows, data_set))
        if not found and data_set is not None and header["stage"] in ("answer", "judge"):
            found += _replayed(path, header, data_set, out / "calls.jsonl", prompts)
        yield from (f"{path}: {line}" for line in found)


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
    names = {"ingest": ("corpus",), "retrieve": ("question",)}.get(stage, KEY)
    if len({tuple(row.get(name) for name in names) for row in rows}) != len(rows):
        yield "a question or a corpus stands there twice"
    if stage in ("answer", "judge"):
        yield from _made_of(path, header, {str(row["question"]) for row in rows})
    if data is None:
        return
    if header["data"]["sha256"] != data.hash:
        yield f"made with other files of {data.title} than are here"
    elif stage == "retrieve":
        wanted = {asked.question.id for corpus in data.corpora for asked in chosen(corpus, header["limit"])}
        if missing := wanted - {str(row.get("question")) for row in rows}:
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


def _replayed(path: Path, header: Row, data: DataSet, calls: Path, prompts: Prompts) -> Iterator[str]:
    """Yield whether the rows of *path* differ from those that its stage makes of the same rows and recorded calls."""
    if header["prompt"] not in ("", prompts.version):
        yield f"made with the prompts {header['prompt']}, which --prompts must name"
        return
    reader, name = (str(header.get(role, READERLESS)) for role in ("reader", "judge"))
    models = [None if one == READERLESS else RecordedModel(one, calls) for one in (reader, name)]
    reading = Reading(header["k"], header["tokens"], *models, tuple(header["curve"]), prompts)
    entry = BY_KEY.get(str(header["system"])) or Entry(str(header["system"]), "")
    with TemporaryDirectory() as folder:
        again = Path(folder)
        if header["stage"] == "answer":
            copyfile(path.parent / "retrieve.jsonl", again / "retrieve.jsonl")
            answer(data, entry, again, reading)
            made = answer_path(again, reader)
        else:
            copyfile(answer_path(path.parent, reader), answer_path(again, reader))
            judge(data, again, reading)
            made = judge_path(again, reader, name)
        mine, theirs = (place.read_bytes().split(b"\n")[1:] for place in (path, made))
    failed = b'"error": ""'
    changed = {line for line in mine if failed in line} ^ {line for line in theirs if failed in line}
    if changed:
        yield f"{len(changed)} rows are not what its input and the recorded calls give, such as {min(changed)[:120]!r}"
