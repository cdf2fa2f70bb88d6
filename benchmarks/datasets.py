"""Loaders of the public data sets that recall is measured on; what they are and their licences: ``README.md``."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tellback.memory import Memory

_DATE = "%I:%M %p on %d %B, %Y"
_DIALOGUE = re.compile(r"D(\d+):(\d+)")
_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
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
    conversations = []
    for file in sorted((folder / "locomo").glob("*.json")):
        conversations += [_conversation(sample) for sample in json.loads(file.read_text("utf-8"))]
    return conversations


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


def _conversation(sample: Mapping[str, object]) -> Conversation:
    name = str(sample["sample_id"])
    conversation = sample["conversation"]
    assert isinstance(conversation, dict)
    turns: list[Memory] = []
    sessions = sorted(int(key[8:]) for key in conversation if re.fullmatch(r"session_\d+", key))
    for session in sessions:
        changed = datetime.strptime(conversation[f"session_{session}_date_time"], _DATE).replace(tzinfo=UTC)
        for sequence, turn in enumerate(conversation[f"session_{session}"]):
            turns.append(
                Memory(
                    turn["text"],
                    kind="turn",
                    role="user",
                    speaker=turn["speaker"],
                    session=f"{name}/{session}",
                    sequence=sequence,
                    occurred_at=changed,
                    caption=turn.get("blip_caption", ""),
                    key=f"{name}/{turn['dia_id']}",
                )
            )
    asked = sample["qa"]
    assert isinstance(asked, list)
    keys = {turn.key for turn in turns}
    questions = (_asked(question, name, keys) for question in asked)
    return Conversation(name, tuple(turns), tuple(question for question in questions if question.evidence))


def _asked(question: Mapping[str, object], name: str, keys: set[str | None]) -> Question:
    evidence = question.get("evidence", [])
    assert isinstance(evidence, list)
    ids = (f"{name}/D{a}:{int(b)}" for text in evidence for a, b in _DIALOGUE.findall(text))
    category = question["category"]
    assert isinstance(category, int)
    return Question(str(question["question"]), _CATEGORIES[category], {id: 1 for id in ids if id in keys})


def _records(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return (number, fields) of each record of the SMART format: ``.I 1``, then ``.T``, ``.W``, … with lines below."""
    records = []
    for block in re.split(r"^\.I\s+", text, flags=re.MULTILINE)[1:]:
        number, _, rest = block.partition("\n")
        parts = re.split(r"^\.([A-Z])\s*$", rest, flags=re.MULTILINE)
        records.append((number.strip().lstrip("0"), dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))))
    return records
