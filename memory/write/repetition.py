"""Repetitions: equal notes are folded into one memory, and what a model only repeats is marked as no evidence.

A note with the words of one that holds (whatever their case and spacing, and the full stop at the end), and with the
same fields, is not stored again: the memory gets the time, session and author of the new saying (``Memory.repeated``).
Turns of a conversation are stored each, and folded by recall. The words are looked up by a keyed hash in the table of
idempotency keys; the memory found is compared whole, so that a stale hash folds nothing.

A model's answer or note that has hardly a term, and no number or name, beside those of the memories that it was made
from is an echo: it is stored, and not recalled by default.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tellback.memory.codec import from_entry, repetition_to_json
from tellback.memory.entry_store import EntryStore
from tellback.memory.models import ORIGIN, Memory, Repetition, UtteranceKind, is_worse_author
from tellback.memory.partitions import CONVERSATION, store_namespace
from tellback.memory.results import KNOWN, Outcome, Report
from tellback.memory.tables.idempotency_keys import IdempotencyKeys
from tellback.memory.timestamps import Clock
from tellback.memory.write.attributes import Attributes
from tellback.memory.write.draft import Draft
from tellback.vectorstore import Analyzer, lifecycle_of

_MAX_REPETITIONS: Final = 100
"""Repetitions that a memory names; of more, the newest."""
_ECHO_SHARE: Final = 0.8
"""Share of its terms that an echo has from what it repeats: an answer has words of its own around it ("you said …")."""
_MIN_ECHO_TERMS: Final = 2
_CLOSING: Final = ".!\u2026\u3002 "


@dataclass(frozen=True, slots=True)
class RepetitionFolder:
    """Folds equal notes. It works in the transaction that stores them."""

    attributes: Attributes
    keys: IdempotencyKeys
    clock: Clock

    def fold(self, drafts: Sequence[Draft], namespace: str) -> list[Draft]:
        """Return *drafts*; one that equals a memory that holds, or one before it, is settled as its duplicate."""
        folded: list[Draft] = []
        place_of: dict[str, int] = {}
        names = [
            self.keys.name_of_text(namespace, comparable_text(draft.memory.text)) if _is_foldable(draft) else None
            for draft in drafts
        ]
        self.keys.read_ahead(namespace, filter(None, names))
        for draft, name in zip(drafts, names, strict=True):
            if name is None:
                folded.append(draft)
                continue
            place = place_of.get(name)
            if place is not None and self._holds(folded[place].memory, draft.memory):
                first = folded[place].memory
                folded[place] = replace(folded[place], memory=replace(first, repeated=_sayings(first, draft.memory)))
                folded.append(draft.settle(_duplicate(first.id)))
                continue
            settled = self._fold_into_stored(draft, name, namespace)
            if settled.settled is None:
                place_of[name] = len(folded)
                self.keys.put(namespace, name, draft.memory.id)
            folded.append(settled)
        return folded

    def _fold_into_stored(self, draft: Draft, name: str, namespace: str) -> Draft:
        id = self.keys.get(namespace, name)
        partition = store_namespace(namespace, CONVERSATION)
        entry = None if id is None else self.attributes.entries.store.get([id], namespace=partition)[0]
        if entry is None:
            return draft
        stored = from_entry(entry)
        if not self._holds(stored, draft.memory):
            return draft
        sayings = [repetition_to_json(saying) for saying in _sayings(stored, draft.memory)]
        fields: dict[str, Any] = {} if len(sayings) == len(stored.repeated) else {"repeated": sayings}
        about, author = draft.memory.about, draft.memory.about_by
        if about and draft.memory.trust == stored.trust and not is_worse_author(author, stored.about_by):
            fields |= {"about": about, "about_by": author}
        changes = self.attributes.patch(entry, fields, namespace, {draft.text: draft.embedded})
        if not changes:
            return draft.settle(_duplicate(stored.id))
        operation = self.attributes.log.record(namespace, "repeat", draft.memory.actor, changes)
        return draft.settle(replace(_duplicate(stored.id), operation=operation.id))

    def _holds(self, stored: Memory, memory: Memory) -> bool:
        """Return whether *stored* says what *memory* does, is trusted as much, and holds now."""
        now = self.clock()
        if stored.disabled or any(end is not None and end <= now for end in (stored.valid_to, stored.expires_at)):
            return False
        same_words = comparable_text(stored.text) == comparable_text(memory.text)
        return same_words and stored.trust.rank <= memory.trust.rank and _fields(stored) == _fields(memory)


def comparable_text(text: str) -> str:
    """Return *text* without what makes no other statement: case, spacing, the full stop at the end."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).rstrip(_CLOSING)


def _is_foldable(draft: Draft) -> bool:
    memory = draft.memory
    return (
        draft.settled is None
        and draft.message is None
        and not draft.named
        and not draft.spans  # what was taken out may have differed
        and memory.key is None
        and not memory.replaces
        and memory.kind != "turn"
        and (memory.source is None or memory.source.document is None)
    )


def _fields(memory: Memory) -> tuple[object, ...]:
    """Return what two memories must share to be one."""
    return (
        memory.kind, memory.role, memory.speaker, frozenset(memory.tags), dict(memory.scopes), memory.importance,
        memory.pinned, memory.sensitive, memory.caption, memory.valid_from, memory.valid_to, memory.expires_at,
        memory.supersedes, memory.derived_from,
        {name: value for name, value in memory.metadata.items() if name != ORIGIN},  # told through another program
    )  # fmt: skip


def _sayings(stored: Memory, memory: Memory) -> tuple[Repetition, ...]:
    """Return the repetitions of *stored* with that of *memory*, unless it is one of them, or the first saying."""
    first, repetition = _saying(stored), _saying(memory)
    if repetition is None or repetition == first or repetition in stored.repeated:
        return stored.repeated
    return (*stored.repeated[1 - _MAX_REPETITIONS :], repetition)


def _saying(memory: Memory) -> Repetition | None:
    moment = memory.occurred_at or memory.recorded_at
    return None if moment is None else Repetition(moment, memory.session, memory.actor)


def _duplicate(id: str) -> Report:
    return Report(Outcome.DUPLICATE, id, KNOWN, of=id)


@dataclass(frozen=True, slots=True)
class EchoGuard:
    """Marks the answers and notes of a model that only repeat memories."""

    entries: EntryStore

    def mark(self, drafts: Sequence[Draft], namespace: str, used: Sequence[str]) -> list[Draft]:
        """Return *drafts*, an answer that repeats the memories *used*, or a note that repeats one, marked as such.

        The words of the question that came with an answer are no words of its own.
        """
        user_texts = [draft.memory.text for draft in drafts if draft.settled is None and draft.memory.actor == "user"]
        known: list[Memory] | None = None
        marked = []
        for draft in drafts:
            if not may_be_echo(draft):
                marked.append(draft)
                continue
            if draft.memory.kind != "turn":
                similar = self._similar(draft.memory, namespace)
            elif used:
                if known is None:
                    known = [from_entry(entry) for _, entry in self.entries.find(used, namespace).values()]
                similar = known
            else:
                similar = []
            repeated = self._repeated(draft.memory, similar, user_texts if draft.memory.kind == "turn" else ())
            marked.append(draft if repeated is None else _as_repetition(draft, repeated))
        return marked

    def _similar(self, memory: Memory, namespace: str) -> list[Memory]:
        where = {"disabled": {"$ne": True}}
        partition = store_namespace(namespace, CONVERSATION)
        matches = self.entries.store.search_text(memory.text, 3, where=where, namespace=partition)
        return [from_entry(match.entry) for match in matches]

    def _repeated(self, memory: Memory, known: Sequence[Memory], questions: Iterable[str]) -> str | None:
        """Return the id of the memory of *known* that *memory* mostly repeats; None if it says something else."""
        lifecycle = lifecycle_of(self.entries.store)
        terms_of: Callable[[str], Sequence[str]] = (Analyzer() if lifecycle is None else lifecycle.analyzer).terms
        terms = set(terms_of(memory.text))
        if len(terms) < _MIN_ECHO_TERMS or not known:
            return None
        shared = {other.id: terms & set(terms_of(other.text)) for other in known}
        best = max(shared, key=lambda id: len(shared[id]))
        covered = set().union(*shared.values()) if memory.kind == "turn" else shared[best]
        own = terms - covered - set().union(*map(set, map(terms_of, questions)))
        names = {term for word in memory.text.split()[1:] if word[:1].isupper() for term in terms_of(word)}
        if not shared[best] or len(own) > (1 - _ECHO_SHARE) * len(terms):
            return None
        return None if any(term in names or any(map(str.isdigit, term)) for term in own) else best


def may_be_echo(draft: Draft) -> bool:
    """Return whether a model wrote *draft*, and nobody said what kind of utterance it is."""
    memory = draft.memory
    return draft.settled is None and "assistant" in (memory.actor, memory.role) and memory.utterance is None


def _as_repetition(draft: Draft, of: str) -> Draft:
    memory = replace(draft.memory, utterance=UtteranceKind.REPETITION, utterance_reason=f"repeats {of}")
    return replace(draft, memory=memory, of=of)
