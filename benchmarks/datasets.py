"""Loaders of the public data sets that recall is measured on; what they are and their licences: ``README.md``."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.memory.data.conversations import locomo as read_locomo
from benchmarks.memory.data.dataset import Corpus
from tellback.memory import Memory

_JUDGED_USELESS = -1


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its group, and the ids that answer it with their grade."""

    text: str
    group: str
    evidence: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns of one conversation, as memories with ``key`` set to their id, and questions about them."""

    name: str
    turns: tuple[Memory, ...]
    questions: tuple[Question, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """Documents by id, and questions about them."""

    documents: Mapping[str, str]
    questions: tuple[Question, ...]


def locomo(folder: Path) -> list[Conversation]:
    """LoCoMo: long conversations of two people. Evidence that names no turn is dropped, then questions without any."""
    return [_conversation(corpus) for corpus in read_locomo(folder / "locomo").corpora]


def squad(folder: Path) -> Library:
    """SQuAD 2.0: each paragraph is a document; a question's answer is in its own. Unanswerable ones are left out."""
    documents: dict[str, str] = {}
    questions: list[Question] = []
    for file in sorted((folder / "squad").glob("*.json")):
        for article in json.loads(file.read_text("utf-8"))["data"]:
            for position, paragraph in enumerate(article["paragraphs"]):
                id = f"{article['title']}-{position:03d}"
                documents[id] = paragraph["context"]
                asked = (item for item in paragraph["qas"] if not item.get("is_impossible"))
                questions += [Question(item["question"], "answerable", {id: 1}) for item in asked]
    return Library(documents, tuple(questions))


def cranfield(folder: Path) -> Library:
    """Cranfield 1400: abstracts and queries with judgements from 1 (best) to 4; graded here 4 to 1."""
    documents = {}
    for id, fields in _records((folder / "cranfield" / "cran.all.1400").read_text("utf-8")):
        text = "\n".join(part for part in (fields.get("T", ""), fields.get("W", "")) if part)
        if text.strip():
            documents[id] = text
    judged: dict[int, dict[str, int]] = {}
    for line in (folder / "cranfield" / "cranqrel").read_text("utf-8").splitlines():
        query, document, code = line.split()[:3]
        if int(code) != _JUDGED_USELESS and document in documents:
            judged.setdefault(int(query), {})[document] = 5 - int(code)
    queries = _records((folder / "cranfield" / "cran.qry").read_text("utf-8"))
    questions = [  # judgements count the queries, whatever number they carry
        Question(" ".join(fields["W"].split()), "all", judged[position])
        for position, (_, fields) in enumerate(queries, 1)
        if judged.get(position)
    ]
    return Library(documents, tuple(questions))


def fingerprint(folder: Path, names: Sequence[str]) -> str:
    """Return a short hash of the bytes of the data sets *names*."""
    digest = hashlib.sha256()
    for name in sorted(names):
        for file in sorted((folder / name).iterdir()):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def _conversation(corpus: Corpus) -> Conversation:
    numbers: Counter[str] = Counter()
    turns = []
    for item in corpus.items:
        turns.append(
            Memory(
                item.text,
                kind="turn",
                role="user",
                speaker=item.speaker,
                session=item.session,
                sequence=numbers[item.session],
                occurred_at=datetime.fromisoformat(item.at),
                caption=item.caption,
                key=item.id,
            )
        )
        numbers[item.session] += 1
    questions = (Question(asked.question.text, asked.kind, asked.gold) for asked in corpus.questions if asked.gold)
    return Conversation(corpus.name, tuple(turns), tuple(questions))


def _records(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return (number, fields) of each record of the SMART format: ``.I 1``, then ``.T``, ``.W``, … with lines below."""
    records = []
    for block in re.split(r"^\.I\s+", text, flags=re.MULTILINE)[1:]:
        number, _, rest = block.partition("\n")
        parts = re.split(r"^\.([A-Z])\s*$", rest, flags=re.MULTILINE)
        records.append((number.strip().lstrip("0"), dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))))
    return records
