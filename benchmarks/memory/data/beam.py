"""BEAM (Tavakoli et al. 2025, arXiv 2510.27246): folders of ``chat.json`` and ``probing_questions.json``.

Ten abilities are asked for; questions name the messages that hold the evidence, and of an update the old one, too.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.memory.data.dataset import Asked, Corpus, DataError, DataSet, files_of, hash_of, moment_of
from benchmarks.memory.protocol import Item, Question

_PLAN_MARK = re.compile(r"\s*->->.*\Z", re.DOTALL)
"""Index of the plan behind a user's message, which is no part of what was said."""
_ANSWERS = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")
_OLD = "original_info"
_DATES = ("%B-%d-%Y", "%Y-%m-%d", "%B %d, %Y")
_LIMITS = (
    "a user's project with an assistant, written by models; summaries, orders of events and instructions are judged by "
    "their answer alone, and ids of messages are not unique in the longest chats: any message of that id counts"
)


def beam(path: Path) -> DataSet:
    """Return all chats below *path*, such as ``chats/100K``."""
    chats = files_of(path, "**/chat.json")
    questions = [_questions_of(chat) for chat in chats]
    corpora = [_corpus(chat, asked) for chat, asked in zip(chats, questions, strict=True)]
    return DataSet("beam", "BEAM", corpora, hash_of([*chats, *questions]), _LIMITS)


def _questions_of(chat: Path) -> Path:
    places = (chat.parent / "probing_questions" / "probing_questions.json", chat.parent / "probing_questions.json")
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise DataError(f"{chat.parent}: there are no probing_questions.json beside its chat.json")
    return found


def _corpus(chat: Path, questions: Path) -> Corpus:
    name = f"{chat.parent.parent.name}-{chat.parent.name}"
    ids: dict[int, list[str]] = defaultdict(list)
    items, at = [], ""
    for place, (session, message) in enumerate(_messages(json.loads(chat.read_text("utf-8")), "0")):
        at = moment_of(message["time_anchor"], "BEAM", *_DATES) if message.get("time_anchor") else at
        text = _PLAN_MARK.sub("", str(message["content"])).strip()
        if text:
            items.append(Item(f"{name}/{place}", text, "", str(message["role"]), f"{name}/{session}", at))
            ids[int(message.get("id", place))].append(items[-1].id)
    probes = json.loads(questions.read_text("utf-8"))
    asked = [
        _asked(f"{name}/{ability}-{number}", ability, probe, ids, at)
        for ability, group in probes.items()
        for number, probe in enumerate(group)
    ]
    return Corpus(name, items, asked)


def _messages(node: Any, session: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each message with the turn that it is part of, however deep the lists and plans around it are."""
    if isinstance(node, dict) and "role" in node and "content" in node:
        yield session, node
    elif isinstance(node, dict):
        for key in (key for key, value in node.items() if isinstance(value, list | dict)):
            yield from _messages(node[key], f"{session}.{key}" if key.startswith("plan") else session)
    elif isinstance(node, list):
        nested = any(not (isinstance(part, dict) and "role" in part) for part in node)
        for number, part in enumerate(node):
            yield from _messages(part, f"{session}.{number}" if nested else session)


def _asked(id: str, ability: str, probe: Mapping[str, Any], ids: Mapping[int, list[str]], at: str) -> Asked:
    sources = probe.get("source_chat_ids") or {}
    named = {key: set(_numbers(value)) for key, value in sources.items()} if isinstance(sources, dict) else {}
    old = named.get(_OLD, set())
    wanted = (set().union(*named.values()) if named else set(_numbers(sources))) - old
    answerable = ability != "abstention"
    return Asked(
        Question(id, str(probe["question"]), at),
        ability,
        {item: 1 for number in sorted(wanted) for item in ids.get(number, ())} if answerable else {},
        frozenset(item for number in old - wanted for item in ids.get(number, ())),
        answer=next((str(probe[key]) for key in _ANSWERS if probe.get(key)), ""),
        answerable=answerable,
    )


def _numbers(node: Any) -> Iterator[int]:
    if isinstance(node, int):
        yield node
    elif isinstance(node, list | dict):
        for part in node.values() if isinstance(node, dict) else node:
            yield from _numbers(part)
