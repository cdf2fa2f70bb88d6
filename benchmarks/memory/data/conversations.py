"""LoCoMo and REALTALK: long conversations of two people, whose questions name the turns that hold the evidence.

LoCoMo (Maharana et al. 2024, arXiv 2402.17753), CC BY-NC 4.0, ``locomo10.json``; REALTALK (Lee et al. 2025, arXiv
2502.13270), a file a conversation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.memory.data.dataset import Asked, Corpus, DataError, DataSet, files_of, hash_of, moment_of
from benchmarks.memory.protocol import Item, Question

_DIALOGUE = re.compile(r"D(\d+):(\d+)")
_TITLE = "LoCoMo or REALTALK"
_DATES = ("%I:%M %p on %d %B, %Y", "%d.%m.%Y, %H:%M:%S")
LOCOMO_KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
REALTALK_KINDS = {1: "multi-hop", 2: "temporal", 3: "commonsense"}
_LIMITS = (
    "two people who tell each other of their lives: no assistant, no corrections of a fact, English alone. Evidence is "
    "incomplete (other turns answer, too), and some labels are wrong: hand a list of their ids to --without"
)


def locomo(path: Path) -> DataSet:
    """Return the conversations of *path*, a file or a folder of them."""
    files = files_of(path, "*.json")
    samples = [sample for file in files for sample in json.loads(file.read_text("utf-8"))]
    corpora = [
        _corpus(str(sample["sample_id"]), sample["conversation"], sample["qa"], LOCOMO_KINDS) for sample in samples
    ]
    return DataSet("locomo", "LoCoMo", corpora, hash_of(files), _LIMITS, f1="locomo", drops=frozenset({"adversarial"}))


def realtalk(path: Path) -> DataSet:
    """Return the conversations of *path*; REALTALK has each in a file of its own, with its questions."""
    files = files_of(path, "*.json")
    samples = [(file.stem, json.loads(file.read_text("utf-8"))) for file in files]
    corpora = [_corpus(name, sample, sample.get("qa", ()), REALTALK_KINDS) for name, sample in samples]
    return DataSet("realtalk", "REALTALK", corpora, hash_of(files), _LIMITS, f1="locomo")


def _corpus(name: str, conversation: Mapping[str, Any], asked: Any, kinds: Mapping[int, str]) -> Corpus:
    items = list(_items(name, conversation))
    if not items:
        raise DataError(f"{name}: no session in it")
    known, now = {item.id: item.session for item in items}, max(item.at for item in items)
    return Corpus(
        name, items, [row for number, one in enumerate(asked) for row in _asked(name, number, one, kinds, known, now)]
    )


def _items(name: str, conversation: Mapping[str, Any]) -> Iterator[Item]:
    numbers = sorted(int(key[8:]) for key in conversation if re.fullmatch(r"session_\d+", key))
    for number in numbers:
        began = moment_of(str(conversation[f"session_{number}_date_time"]), _TITLE, *_DATES)
        for turn in conversation[f"session_{number}"]:
            text = str(turn.get("text") or turn.get("clean_text") or "")
            caption = str(turn.get("blip_caption") or "")
            at = moment_of(turn["date_time"], _TITLE, *_DATES) if "date_time" in turn else began
            if text or caption:
                id = f"{name}/{turn['dia_id']}"
                yield Item(id, text or caption, turn["speaker"], "user", f"{name}/{number}", at, caption=caption)


def _asked(
    name: str, number: int, one: Mapping[str, Any], kinds: Mapping[int, str], known: Mapping[str, str], now: str
) -> Iterator[Asked]:
    """Yield the question; none where its evidence names no turn of the conversation."""
    evidence = one.get("evidence") or []
    found = (f"{name}/D{a}:{int(b)}" for text in evidence for a, b in _DIALOGUE.findall(str(text)))
    gold = {id: 1 for id in found if id in known}
    kind = kinds.get(int(one["category"]), "other")
    answerable = kind != "adversarial"
    if gold or not answerable:
        answer = str(one.get("answer", one.get("adversarial_answer", "")))
        yield Asked(
            Question(f"{name}/q{number}", str(one["question"]), now),
            kind,
            gold,
            answer=answer,
            answerable=answerable,
            official=answerable,
            sessions=frozenset(known[id] for id in gold),
        )
