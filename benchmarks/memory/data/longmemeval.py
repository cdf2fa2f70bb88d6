"""LongMemEval (Wu et al., ICLR 2025, arXiv 2410.10813), MIT: ``longmemeval_{oracle,s,m}.json``, old and cleaned.

Each question has a history of its own, so that each is a corpus. The official figure counts a session as found when
any of its turns is, drops the questions that nothing answers, and those whose evidence no turn of the user holds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.memory.data.dataset import Asked, Corpus, DataError, DataSet, files_of, hash_of, moment_of
from benchmarks.memory.protocol import Item, Question

_DATE = "%Y/%m/%d (%a) %H:%M"
_NEEDED = ("question_id", "question_type", "question", "answer", "question_date", "haystack_session_ids")
_LIMITS = (
    "chats of one user with an assistant, made by a model around planted evidence; each question searches a history of "
    "its own, which flatters every system against one memory of everything. The official text of a session is its "
    "user's turns alone; here a system gets all turns"
)


def longmemeval(path: Path) -> DataSet:
    """Return the questions of the file *path*."""
    (file,) = files_of(path, "longmemeval*.json")[:1]
    entries = json.loads(file.read_text("utf-8"))
    for number, entry in enumerate(entries):
        if missing := [key for key in _NEEDED if key not in entry]:
            raise DataError(f"{file.name}, entry {number}: no {missing[0]}")
    return DataSet(
        "longmemeval", f"LongMemEval ({file.stem})", [_corpus(entry) for entry in entries], hash_of([file]), _LIMITS
    )


def _corpus(entry: Mapping[str, Any]) -> Corpus:
    name, gold, sessions = str(entry["question_id"]), {}, set()
    items = []
    for item, turn in _turns(entry):
        items.append(item)
        if turn.get("has_answer"):
            gold[item.id] = 1
            if turn["role"] == "user":
                sessions.add(item.session)
    if not gold:  # files without labels of turns name the sessions
        wanted = {f"{name}/{session}" for session in entry.get("answer_session_ids", ())}
        gold = {item.id: 1 for item in items if item.session in wanted}
        sessions = wanted & {item.session for item in items}
    answerable = not name.endswith("_abs")
    asked = Asked(
        Question(name, str(entry["question"]), moment_of(entry["question_date"], "LongMemEval", _DATE)),
        str(entry["question_type"]),
        gold if answerable else {},
        answer=str(entry["answer"]),
        answerable=answerable,
        official=answerable and bool(sessions),
        sessions=frozenset(sessions),
    )
    return Corpus(name, sorted(items, key=lambda item: item.at), [asked])


def _turns(entry: Mapping[str, Any]) -> Iterator[tuple[Item, Mapping[str, Any]]]:
    name, seen = entry["question_id"], set()
    parts = zip(entry["haystack_session_ids"], entry["haystack_dates"], entry["haystack_sessions"], strict=True)
    for session, date, turns in parts:
        if session in seen:  # the old files have a session twice now and then
            continue
        seen.add(session)
        for number, turn in enumerate(turns, 1):
            if turn["content"].strip():
                id = f"{name}/{session}_{number}"
                yield (
                    Item(
                        id,
                        turn["content"],
                        "",
                        turn["role"],
                        f"{name}/{session}",
                        moment_of(date, "LongMemEval", _DATE),
                    ),
                    turn,
                )
