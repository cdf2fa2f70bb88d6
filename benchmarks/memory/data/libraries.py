"""Documents and questions about them: the format of BEIR, and two collections of the folder of data sets.

BEIR (Thakur et al. 2021): ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/test.tsv``.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path

from benchmarks import datasets
from benchmarks.memory.data.dataset import Asked, Corpus, DataError, DataSet, files_of, hash_of
from benchmarks.memory.protocol import Item, Question

_LIMITS = "documents that nobody changes, and questions in their own words: nothing here is a memory of somebody"
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
    """Return SQuAD's paragraphs; a question's answer is in its own."""
    return _library("squad", "SQuAD", datasets.squad(path.parent), files_of(path, "*.json"))


def cranfield(path: Path) -> DataSet:
    """Return Cranfield's abstracts with graded judgements."""
    return _library("cranfield", "Cranfield", datasets.cranfield(path.parent), files_of(path, "cran*"))


def _library(name: str, title: str, library: datasets.Library, files: list[Path]) -> DataSet:
    items = [Item(id, text, role="document") for id, text in library.documents.items()]
    asked = [
        Asked(Question(f"q{number}", question.text), question.group, question.evidence)
        for number, question in enumerate(library.questions)
    ]
    return DataSet(name, title, [Corpus(name, items, asked)], hash_of(files), _LIMITS)
