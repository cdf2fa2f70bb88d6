"""Query analysis: mentioned participants and dates, the kind of question, and the turns that a follow-up refers to.

Without a model, the pronouns of a follow-up ("and when was that?") cannot be resolved; searched together with the turn
before, it still finds its answer. Mentions are matched against the participants of one namespace.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from memory.retrieval.index.record import ROLES
from memory.retrieval.index.retrieval_index import RetrievalIndex
from memory.retrieval.languages.base import Lexicon
from memory.retrieval.languages.dates import find_dates
from memory.retrieval.scoring.question import AnalyzedQuestion

_MIN_NAME_LENGTH = 2
_IDEOGRAPH = "[\u3400-\u4dbf\u4e00-\u9fff]"
_WORD_START = rf"(?:(?<!\w)|(?={_IDEOGRAPH}))"
_WORD_END = rf"(?:(?!\w)|(?<={_IDEOGRAPH}))"
"""Chinese is written without spaces: a name stands inside a run."""
_POSSESSIVE = r"(?:['\u2019]s?)?"


@dataclass(frozen=True, slots=True)
class NameMentions:
    """The question without names (*bare*), and the numbers of those it names."""

    bare: str
    named: tuple[int, ...]


def detect_mentions(
    text: str,
    people: Sequence[tuple[int, str]],
    aliases: Mapping[str, int],
    *,
    ordinary: Callable[[str], bool],
    possessive: str = _POSSESSIVE,
) -> NameMentions:
    """Find people and their aliases in *text*. *ordinary* tells a word that is more than a name ("will").

    *possessive* is a pattern of what a name may carry. A word counts as a name where it is written with a capital; in a
    text without any, also in small letters unless it is an ordinary word.
    """
    names = _name_forms(people, aliases)
    if not names:
        return NameMentions(text, ())
    shouted = not any(letter.isupper() for letter in text)
    named: set[int] = set()

    def judge(match: re.Match[str]) -> str:
        word = match["word"]
        who = names.get(word.lower(), ())
        opening = not text[: match.start()].strip()
        small = not word[:1].isupper()
        if (small and not shouted and word.isascii()) or ((small or opening) and ordinary(word.lower())):
            return match.group()
        named.update(who)
        return " "

    pattern = "|".join(re.escape(form) for form in sorted(names, key=len, reverse=True))
    bare = re.sub(rf"{_WORD_START}(?P<word>{pattern}){possessive}{_WORD_END}", judge, text, flags=re.IGNORECASE)
    bare = " ".join(bare.split())
    return NameMentions(bare if any(letter.isalnum() for letter in bare) else text, tuple(sorted(named)))


def _name_forms(people: Sequence[tuple[int, str]], aliases: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return who is meant by each small-letter form: whole names, their parts, aliases."""
    forms: dict[str, set[int]] = {}
    for number, name in people:
        for part in {name, *name.split()}:
            if len(part) >= _MIN_NAME_LENGTH and any(letter.isalpha() for letter in part):
                forms.setdefault(part.lower(), set()).add(number)
    for alias, number in aliases.items():
        forms.setdefault(alias.lower(), set()).add(number)
    return {form: tuple(sorted(who)) for form, who in forms.items()}


_MAX_TERMS_ALONE = 1
"""A question of no more telling words leans on something, pronoun or not; but of one's own ("Where do I work?")."""
_MAX_TERMS_WITH_PRONOUN = 3
"""With more telling words, what a pronoun points to mostly stands in the question itself."""
_MAX_CONTEXT_TURNS = 3
"""Turns looked back for one that stands by itself."""
_MAX_TURN_CHARACTERS = 400
"""Characters of a turn that are taken; the first ones, which say what it is about."""


def is_follow_up(text: str, lexicon: Lexicon, terms: Callable[[str], Sequence[str]]) -> bool:
    """Whether *text* says too little by itself: it goes on from something, has hardly a word, or few and points back.

    A question that names somebody stands by itself: its pronouns mean that one. So does one about whoever asks.
    """
    if lexicon.goes_on.search(text) is not None:
        return True
    telling = len(set(terms(text)))
    points_back = lexicon.points_back.search(text) is not None
    if telling <= _MAX_TERMS_ALONE:
        return points_back or not telling or lexicon.first_person.search(text) is None
    return telling <= _MAX_TERMS_WITH_PRONOUN and points_back and lexicon.name.search(text) is None


def follow_up_context(
    text: str, context: Sequence[str], lexicon: Lexicon, terms: Callable[[str], Sequence[str]]
) -> tuple[str, ...]:
    """Return the turns of *context* (oldest first) that *text* leans on, oldest first: back to one that stands alone.

    Empty where *text* stands by itself, or nothing was said before.
    """
    if not is_follow_up(text, lexicon, terms):
        return ()
    taken: list[str] = []
    for turn in [turn for turn in context if turn.strip()][: -_MAX_CONTEXT_TURNS - 1 : -1]:
        taken.append(turn[:_MAX_TURN_CHARACTERS])
        if not is_follow_up(turn, lexicon, terms):
            break
    return tuple(reversed(taken))


_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_GENITIVE = re.compile("['\u2019]s?$")


def analyze_question(
    text: str,
    index: RetrievalIndex,
    *,
    lexicon: Lexicon,
    stem: Callable[[str], Sequence[str]],
    today: date,
    last: str | None = None,
) -> AnalyzedQuestion:
    """Read *text* with what is known of the people of *index*.

    *last* is the end of *text* that asks, where the rest is what it leans on: what kind of question it is, that says.
    """
    asking = text if last is None else last
    bare, people = remove_names(text, index, lexicon=lexicon, stem=stem)
    terms = tuple(dict.fromkeys(stem(bare)))
    forms = _written_forms(bare, terms, stem)
    dates = find_dates(asking, lexicon, today) or find_dates(text, lexicon, today)
    return AnalyzedQuestion(
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
        names=frozenset(term for word in lexicon.proper.findall(bare) for term in stem(_GENITIVE.sub("", word))),
    )


def remove_names(
    text: str, index: RetrievalIndex, *, lexicon: Lexicon, stem: Callable[[str], Sequence[str]]
) -> tuple[str, tuple[int, ...]]:
    """Return *text* without the names of participants, and who is named.

    Where one side is a user and the other an assistant, "I" is the one and "you" the other.
    """
    present = index.people.present()
    small = index.stems.small
    found = detect_mentions(
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


def _written_forms(text: str, terms: Sequence[str], stem: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """Return how each of *terms* is written in *text*; a term that is no single word stands for itself."""
    forms: dict[str, str] = {}
    for word in _WORD.findall(text):
        of_word = stem(word)
        if len(of_word) == 1:
            forms.setdefault(of_word[0], word.lower())
    return tuple(forms.get(term, term) for term in terms)
