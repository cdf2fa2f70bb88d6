"""Other forms of the same conversations, made by rules: told to an assistant, and asked in two steps.

*Assistant form*: one of the two people is the user, the other's turns are the assistant's, and the questions that name
the user alone ask in the first person ("What did Ana cook?" becomes "What did I cook?").

*Follow-ups*: of two questions about the same person and session, the second leans on the first: the name becomes
"they", and the words that both hold become "that" ("And when did they paint that?").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from benchmarks.datasets import Conversation, Question
from tellback.vectorstore import Analyzer

_VERBS = {"does": "do", "is": "am", "has": "have", "isn't": "am not", "doesn't": "don't", "hasn't": "haven't"}


def told_to_an_assistant(conversation: Conversation) -> Iterator[Conversation]:
    """Yield the conversation with each of its speakers as the user, where questions name that one alone."""
    speakers = sorted({turn.speaker for turn in conversation.turns if turn.speaker})
    for user in speakers:
        others = [name for name in speakers if name != user]
        asked = [
            replace(question, text=in_first_person(question.text, user))
            for question in conversation.questions
            if _names(question.text, user) and not any(_names(question.text, other) for other in others)
        ]
        turns = [
            replace(turn, role="user" if turn.speaker == user else "assistant", speaker=None)
            for turn in conversation.turns
        ]
        if asked:
            yield Conversation(f"{conversation.name} as {user}", tuple(turns), tuple(asked))


def named_alone(conversation: Conversation) -> list[Question]:
    """Return the questions that the assistant form asks, as they were."""
    speakers = sorted({turn.speaker for turn in conversation.turns if turn.speaker})
    return [
        question for question in conversation.questions if sum(_names(question.text, name) for name in speakers) == 1
    ]


def in_first_person(text: str, name: str) -> str:
    """Return *text* as the person called *name* would ask it."""
    verbs = "|".join(map(re.escape, _VERBS))
    text = re.sub(
        rf"\b({verbs})\s+{re.escape(name)}\b(?!['\u2019])",
        lambda match: f"{_alike(match[1], _VERBS[match[1].lower()])} I",
        text,
        flags=re.IGNORECASE,
    )
    text = re.sub(
        rf"\b{re.escape(name)}\s+({verbs})\b", lambda match: f"I {_VERBS[match[1].lower()]}", text, flags=re.IGNORECASE
    )
    text = re.sub(rf"\b{re.escape(name)}['\u2019]s?\b", "my", text)
    text = re.sub(
        rf"\b(to|for|with|of|about|by|from|at|on|than|like|help|make|gave|give)\s+{re.escape(name)}\b", r"\1 me", text
    )
    text = re.sub(rf"\b{re.escape(name)}\b", "I", text)
    return text[:1].upper() + text[1:]


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Question that leans on the one asked *before* it, and its complete form (*whole*)."""

    before: str
    leaning: Question
    whole: Question


def follow_ups(conversation: Conversation) -> list[FollowUp]:
    """Return, for each question that has one, the earlier question it can lean on best, and its leaning form."""
    terms = Analyzer().terms
    names = {turn.speaker for turn in conversation.turns if turn.speaker}
    of_names = {term for name in names for term in terms(name)}
    session_of = {turn.key: turn.session for turn in conversation.turns}
    asked = [item for item in conversation.questions if item.group != "adversarial"]
    telling = [frozenset(terms(item.text)) - of_names for item in asked]
    sessions = [{session_of[id] for id in item.evidence} for item in asked]
    pairs = []
    for position, whole in enumerate(asked):
        named = [name for name in names if _names(whole.text, name)]
        if len(named) != 1:
            continue
        shared = [
            (telling[position] & telling[other], first)
            for other, first in enumerate(asked)
            if other != position and _names(first.text, named[0]) and sessions[position] & sessions[other]
        ]
        words, first = max(shared, key=lambda item: len(item[0]), default=(frozenset(), whole))
        if words:
            leaning = replace(whole, text=_leaning(whole.text, named[0], words, terms))
            pairs.append(FollowUp(first.text, leaning, whole))
    return pairs


def _leaning(text: str, name: str, words: frozenset[str], terms: Callable[[str], list[str]]) -> str:
    text = re.sub(rf"\b{re.escape(name)}['\u2019]s\b", "their", text)
    text = re.sub(rf"\b{re.escape(name)}\b", "they", text)
    items: list[str] = []
    for word in text.split():
        if not words.intersection(terms(word)):
            items.append(word)
        elif "that" not in items:
            items.append("that")
    text = " ".join(items).rstrip("?") + "?"
    return "And " + text[:1].lower() + text[1:]


def _names(text: str, name: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\b", text) is not None


def _alike(old: str, new: str) -> str:
    return new.capitalize() if old[:1].isupper() else new
