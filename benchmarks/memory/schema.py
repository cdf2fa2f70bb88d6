"""Schema 1 of the files of a run; ``schema.json`` is written from it by ``python -m benchmarks memory schema``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class DataName(_Line):
    """The data set, with the SHA-256 of its files."""

    name: str
    title: str
    sha256: str = Field(min_length=64, max_length=64)


class _Header(_Line):
    schema_: Literal[1] = Field(alias="schema")
    system: str
    data: DataName
    made: str


class RunHeader(_Header):
    """Header of ``ingest.jsonl`` and ``retrieve.jsonl``."""

    stage: Literal["ingest", "retrieve"]
    title: str
    settings: str
    packages: list[str]
    embedder: str
    limit: int | None
    seed: int
    depth: int
    machine: str
    load: float | None = None
    commit: str = ""


class AnswerHeader(_Header):
    """Header of ``answer.jsonl``; *input* is the hash of the rows that it was made from."""

    stage: Literal["answer", "judge"]
    reader: str
    prompt: str
    input: str
    k: int
    tokens: int
    curve: list[int]


class JudgeHeader(AnswerHeader):
    """Header of ``judge.jsonl``: verdicts an answer (*repeats*), and the rule of the words' F1."""

    judge: str
    repeats: int
    f1: str


class IngestRow(_Line):
    """One corpus that a system took: time, CPU time, most memory, bytes on disk, use of models."""

    corpus: str
    items: int
    tokens: int
    error: str
    seconds: float = 0.0
    cpu: float = 0.0
    rss: int = 0
    bytes: int = 0
    usage: dict[str, float] = {}


class RetrieveRow(_Line):
    """One question: ids of the hits, best first, with scores and tokens; texts of facts by their place."""

    corpus: str
    question: str
    hits: list[str]
    sizes: list[int]
    error: str
    scores: list[float] = []
    facts: dict[str, str] = {}
    confidence: float | None = None
    abstains: bool = False
    ms: float = 0.0
    cpu_ms: float = 0.0
    rss: int = 0


class _OfQuestion(_Line):
    """What a question got within *k* hits and *tokens*."""

    question: str
    k: int
    tokens: int
    error: str


class AnswerRow(_OfQuestion):
    """One answer within *k* hits and *tokens*: lines of its context, text, the quoted id, tokens of the reader."""

    context: int = 0
    answer: str = ""
    quoted: str = ""
    refused: bool = False
    input: int = 0
    output: int = 0


class JudgeRow(_OfQuestion):
    """One verdict on the answer of *k* and *tokens*: 1 or 0, the share of repeats that agree, the words' F1."""

    right: float = 0.0
    agree: float = 1.0
    f1: float = 0.0


SHAPES: dict[str, tuple[type[_Header], type[_Line]]] = {
    "ingest": (RunHeader, IngestRow),
    "retrieve": (RunHeader, RetrieveRow),
    "answer": (AnswerHeader, AnswerRow),
    "judge": (JudgeHeader, JudgeRow),
}
"""Header and row of each stage."""


def json_schema() -> dict[str, Any]:
    """Return the published schema: of each stage that of its header and of its rows."""
    stages = {
        stage: {"header": header.model_json_schema(), "row": row.model_json_schema()}
        for stage, (header, row) in SHAPES.items()
    }
    return {"title": "Files of a run of the memory bench", "version": 1, "stages": stages}
