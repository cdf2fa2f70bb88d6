"""Documents and questions about them: the format of BEIR, and two collections of the folder of data sets.

BEIR (Thakur et al. 2021): ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/test.tsv``. SQuAD 2.0 (Rajpurkar et
al. 2018): its dev split. Cranfield 1400: ``cran.all.1400``, ``cran.qry``, ``cranqrel``.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from pathlib import Path

from benchmarks.memory.data.dataset import Asked, Corpus, DataError, DataSet, files_of, hash_of
from benchmarks.memory.protocol import Item, Question

_LIMITS = "documents that nobody changes, and questions in their own words: nothing here is a memory of somebody"
_JUDGED_USELESS = -1
_COLUMNS = ["query-id", "corpus-id", "score"]


def beir(path: Path) -> DataSet:
    """Return the collection in the folder *path*, asked the queries of its test split."""
    (corpus,), (queries,) = files_of(path, "corpus.jsonl"), files_of(path, "queries.jsonl")
    (judged,) = files_of(path / "qrels", "test.tsv")
    items = [
        Item(str(row["_id"]), " ".join(filter(None, (row.get("title", ""), row["text"]))), role="document")
        for row in map(json.loads, corpus.read_text("utf-8").splitlines())
    ]
    known, grades = {item.id for item in items}, defaultdict[str, dict[str, int]](dict)
    with judged.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t")
        if rows.fieldnames != _COLUMNS:
            raise DataError(f"{judged}: its columns are {rows.fieldnames}, not {_COLUMNS}")
        for row in rows:
            if int(row["score"]) > 0 and row["corpus-id"] in known:
                grades[row["query-id"]][row["corpus-id"]] = int(row["score"])
    texts = {str(row["_id"]): str(row["text"]) for row in map(json.loads, queries.read_text("utf-8").splitlines())}
    asked = [Asked(Question(id, texts[id]), "all", gold) for id, gold in grades.items() if id in texts]
    corpora = [Corpus(path.resolve().name, items, asked)]
    return DataSet("beir", f"BEIR: {path.resolve().name}", corpora, hash_of([corpus, queries, judged]), _LIMITS)


def squad(path: Path) -> DataSet:
    """Return SQuAD's paragraphs; a question's answer is in its own, and those without an answer are left out."""
    items, asked, files = [], [], files_of(path, "*.json")
    for article in (article for file in files for article in json.loads(file.read_text("utf-8"))["data"]):
        for place, paragraph in enumerate(article["paragraphs"]):
            items.append(Item(f"{article['title']}-{place:03d}", paragraph["context"], role="document"))
            texts = [str(row["question"]) for row in paragraph["qas"] if not row.get("is_impossible")]
            asked += [(text, "answerable", {items[-1].id: 1}) for text in texts]
    return _library("squad", "SQuAD", items, asked, files)


def cranfield(path: Path) -> DataSet:
    """Return Cranfield's abstracts with judgements from 1 (best) to 4, which are grades from 4 to 1."""
    files = files_of(path, "cran*")
    texts = {
        id: "\n".join(part for part in (fields.get("T", ""), fields.get("W", "")) if part)
        for id, fields in _records((path / "cran.all.1400").read_text("utf-8"))
    }
    items = [Item(id, text, role="document") for id, text in texts.items() if text.strip()]
    known, judged = {item.id for item in items}, defaultdict[int, dict[str, int]](dict)
    for line in (path / "cranqrel").read_text("utf-8").splitlines():
        query, document, code = line.split()[:3]
        if int(code) != _JUDGED_USELESS and document in known:
            judged[int(query)][document] = 5 - int(code)
    queries = _records((path / "cran.qry").read_text("utf-8"))
    asked = [  # judgements count the queries, whatever number they carry
        (" ".join(fields["W"].split()), "all", judged[place])
        for place, (_, fields) in enumerate(queries, 1)
        if judged.get(place)
    ]
    return _library("cranfield", "Cranfield", items, asked, files)


def _library(
    name: str, title: str, items: list[Item], asked: list[tuple[str, str, dict[str, int]]], files: list[Path]
) -> DataSet:
    questions = [Asked(Question(f"q{number}", text), kind, gold) for number, (text, kind, gold) in enumerate(asked)]
    return DataSet(name, title, [Corpus(name, items, questions)], hash_of(files), _LIMITS)


def _records(text: str) -> list[tuple[str, dict[str, str]]]:
    """Return (number, fields) of each record of the SMART format: ``.I 1``, then ``.T``, ``.W``, … with lines below."""
    records = []
    for block in re.split(r"^\.I\s+", text, flags=re.MULTILINE)[1:]:
        number, _, rest = block.partition("\n")
        parts = re.split(r"^\.([A-Z])\s*$", rest, flags=re.MULTILINE)
        records.append((number.strip().lstrip("0"), dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True))))
    return records
