"""A question as the signals read it: its words without names, who and when it names, and what kind it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from memory.recall.dates import Dated, dates_in
from memory.recall.index import Index
from memory.recall.lexicon import Lexicon
from memory.recall.names import addressed
from memory.recall.rows import ROLES

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_POSSESSIVE = re.compile("['\u2019]s?$")


@dataclass(frozen=True, slots=True)
class Question:
    """What one namespace makes of a question; *forms* are the words of *terms* as they were written.

    *asks_state*: how something is, and not what happened. *only_when*: it names a date and nothing else that a memory
    could be about. *names* are those of *terms* that are written as names.
    """

    text: str
    bare: str
    terms: tuple[str, ...]
    forms: tuple[str, ...]
    all_terms: tuple[str, ...]
    people: tuple[int, ...]
    dates: tuple[Dated, ...]
    asks_time: bool
    asks_place: bool
    asks_number: bool
    asks_several: bool
    asks_state: bool = False
    only_when: bool = False
    names: frozenset[str] = frozenset()

    @property
    def named(self) -> NDArray[np.bool_]:
        """Which of *terms* are written as names."""
        return np.array([term in self.names for term in self.terms], dtype=np.bool_)


def understood(
    text: str,
    index: Index,
    *,
    lexicon: Lexicon,
    stem: Callable[[str], Sequence[str]],
    today: date,
    last: str | None = None,
) -> Question:
    """Read *text* with what is known of the people of *index*.

    *last* is the end of *text* that asks, where the rest is what it leans on: what kind of question it is, that says.
    """
    asking = text if last is None else last
    bare, people = without_names(text, index, lexicon=lexicon, stem=stem)
    terms = tuple(dict.fromkeys(stem(bare)))
    forms = _forms(bare, terms, stem)
    dates = dates_in(asking, lexicon, today) or dates_in(text, lexicon, today)
    return Question(
        text=text,
        bare=bare,
        terms=terms,
        forms=forms,
        all_terms=tuple(sorted(set(stem(text)))),
        people=people,
        dates=dates,
        asks_time=lexicon.asks_time.search(asking) is not None,
        asks_place=lexicon.asks_place.search(asking) is not None,
        asks_number=lexicon.asks_number.search(asking) is not None,
        asks_several=lexicon.asks_several.search(asking) is not None,
        asks_state=lexicon.asks_state.search(asking) is not None,
        only_when=bool(dates) and all(form in lexicon.frame or form.isdigit() for form in forms),
        names=frozenset(term for word in lexicon.proper.findall(bare) for term in stem(_POSSESSIVE.sub("", word))),
    )


def without_names(
    text: str, index: Index, *, lexicon: Lexicon, stem: Callable[[str], Sequence[str]]
) -> tuple[str, tuple[int, ...]]:
    """Return *text* without the names of participants, and who is named.

    Where one side is a user and the other an assistant, "I" is the one and "you" the other.
    """
    present = index.people.present()
    small = index.stems.small
    found = addressed(
        text,
        [(number, name) for number, name in present if name not in ROLES],
        index.aliases(),
        ordinary=lambda word: not stem(word) or small(word) > 0,
        possessive=lexicon.possessive,
    )
    named = set(found.named)
    for role, pronoun in zip(ROLES, (lexicon.first_person, lexicon.second_person), strict=True):
        named.update(number for number, name in present if name == role and pronoun.search(text))
    return found.bare, tuple(sorted(named))


def _forms(text: str, terms: Sequence[str], stem: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """Return how each of *terms* is written in *text*; a term that is no single word stands for itself."""
    forms: dict[str, str] = {}
    for word in _WORD.findall(text):
        of_word = stem(word)
        if len(of_word) == 1:
            forms.setdefault(of_word[0], word.lower())
    return tuple(forms.get(term, term) for term in terms)
