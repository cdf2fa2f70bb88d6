"""Query analysis: mentioned participants and dates, the kind of question, and the turns that a follow-up refers to.

Without a model, the pronouns of a follow-up ("and when was that?") cannot be resolved; searched together with the turn
before, it still finds its answer. Mentions are matched against the participants of one namespace.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from tellback.memory.retrieval.index.record import ROLES
from tellback.memory.retrieval.index.retrieval_index import RetrievalIndex
from tellback.memory.retrieval.languages.dates import find_dates
from tellback.memory.retrieval.languages.lexicon import NEUTRAL, Lexicon
from tellback.memory.retrieval.scoring.features import AnalyzedQuestion

_MIN_NAME_LENGTH = 2
_IDEOGRAPH = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")


class NameMentions(NamedTuple):
    """The *text_without_names* of a question, and the numbers of the *participants* that it names."""

    text_without_names: str
    participants: tuple[int, ...]


def detect_mentions(
    text: str,
    names: Sequence[tuple[int, str]],
    aliases: Mapping[str, int],
    *,
    is_ordinary: Callable[[str], bool],
    possessive: str = NEUTRAL.possessive,
) -> NameMentions:
    """Find participants in *text* by (number, name) and by their *aliases*.

    *is_ordinary* tells whether a small-letter word is more than a name ("will"). *possessive* is the pattern of a
    suffix that a name may have. A word counts as a name where it is written with a capital; in a text without any
    capital, also in small letters unless it is an ordinary word.
    """
    small = text.lower()
    forms = _name_forms(tuple(names), tuple(aliases.items()))
    numbers_of = {form: numbers for form, numbers in forms.items() if form in small}
    if not numbers_of:
        return NameMentions(text, ())
    lower_case = not any(map(str.isupper, text))
    mentioned: set[int] = set()

    def replacement(match: re.Match[str]) -> str:
        word = match["word"]
        is_first = not text[: match.start()].strip()
        is_small = not word[:1].isupper()
        if (is_small and not lower_case and word.isascii()) or ((is_small or is_first) and is_ordinary(word.lower())):
            return match.group()
        mentioned.update(numbers_of.get(word.lower(), ()))
        return " "

    pattern = "|".join(re.escape(form) for form in sorted(numbers_of, key=len, reverse=True))
    start, end = _word_bounds(text)
    rest = re.sub(rf"{start}(?P<word>{pattern}){possessive}{end}", replacement, text, flags=re.IGNORECASE)
    rest = " ".join(rest.split())
    return NameMentions(rest if any(map(str.isalnum, rest)) else text, tuple(sorted(mentioned)))


def _word_bounds(text: str) -> tuple[str, str]:
    """Return the patterns of the start and the end of a word of *text*: in Chinese, a name stands inside a run.

    A pattern with ideographs takes ten milliseconds to compile, so only a text that has some gets it.
    """
    if _IDEOGRAPH.search(text) is None:
        return r"(?<!\w)", r"(?!\w)"
    return rf"(?:(?<!\w)|(?={_IDEOGRAPH.pattern}))", rf"(?:(?!\w)|(?<={_IDEOGRAPH.pattern}))"


@functools.lru_cache(maxsize=16)
def _name_forms(
    names: tuple[tuple[int, str], ...], aliases: tuple[tuple[str, int], ...]
) -> Mapping[str, tuple[int, ...]]:
    """Return the participants by small-letter form: whole names, their parts, aliases."""
    forms: dict[str, set[int]] = {}
    for number, name in names:
        for part in {name, *name.split()}:
            if len(part) >= _MIN_NAME_LENGTH and any(letter.isalpha() for letter in part):
                forms.setdefault(part.lower(), set()).add(number)
    for alias, number in aliases:
        forms.setdefault(alias.lower(), set()).add(number)
    return {form: tuple(sorted(numbers)) for form, numbers in forms.items()}


_MAX_TERMS_ALONE = 1
"""A question of at most so many terms is a follow-up, with a pronoun or without; not one about oneself ("Where do I
work?")."""
_DEFINITE = re.compile(
    r"(?:is|are|was|were|ist|sind|war|es|está|son) (?:the|der|die|das|el|la|los|las) \w"
    r"|^\W*(?:who(?:['\u2019]s| is| was)|wer (?:ist|war)|quién (?:es|era)) \w",
    re.IGNORECASE,
)
"""Words of a question whose one term is a thing or person that is known: "When is the ferry?", "Who is Lore?"."""
_MAX_TERMS_WITH_PRONOUN = 3
"""With more terms, the question mostly holds itself what its pronoun refers to."""
_MAX_CONTEXT_TURNS = 3
"""Turns searched backwards for one that is no follow-up itself."""
_MAX_TURN_CHARACTERS = 400
"""Characters taken of a turn: the first ones, which say what it is about."""


def is_follow_up(text: str, lexicon: Lexicon, terms: Callable[[str], Sequence[str]]) -> bool:
    """Return whether *text* is incomplete by itself: it begins as a continuation, or has few terms and a pronoun.

    A question that names somebody is complete, since its pronouns mean that person; so is one about its asker.
    """
    if lexicon.continuation.search(text) is not None:
        return True
    count = len(set(terms(text)))
    has_pronoun = lexicon.back_reference.search(text) is not None
    if count <= _MAX_TERMS_ALONE:
        names_its_topic = lexicon.first_person.search(text) is not None or _DEFINITE.search(text) is not None
        return has_pronoun or not count or not names_its_topic
    return count <= _MAX_TERMS_WITH_PRONOUN and has_pronoun and lexicon.name.search(text) is None


def follow_up_context(
    text: str, context: Sequence[str], lexicon: Lexicon, terms: Callable[[str], Sequence[str]]
) -> tuple[str, ...]:
    """Return the turns of *context* (oldest first) that *text* refers to, back to one that is no follow-up itself.

    Empty where *text* is no follow-up, or nothing was said before.
    """
    if not is_follow_up(text, lexicon, terms):
        return ()
    turns: list[str] = []
    for turn in [turn for turn in context if turn.strip()][: -_MAX_CONTEXT_TURNS - 1 : -1]:
        turns.append(turn[:_MAX_TURN_CHARACTERS])
        if not is_follow_up(turn, lexicon, terms):
            break
    return tuple(reversed(turns))


_AGREEMENT = tuple(
    (re.compile(rf"\b{wrong}\b"), right)
    for wrong, right in (("does I", "do I"), ("is I", "am I"), ("has I", "have I"), ("were I", "was I"))
)


def in_first_person(text: str, name: str, lexicon: Lexicon) -> str:
    """Return the question *text* as the user called *name* would ask it; *text* itself where it does not name them.

    A first name alone is enough. Names count as they are written: "Will" is no "will".
    """
    if not lexicon.own_words:
        return text
    subject, possessive, oblique = lexicon.own_words.split("|")
    names = "|".join(re.escape(form) for form in dict.fromkeys((name, name.split()[0])))
    start, end = _word_bounds(text)
    word = rf"{start}(?:{names})"
    rest = re.sub(rf"{word}(?:['\u2019]s|['\u2019])(?=\s)", possessive, text)
    rest = re.sub(rf"\b({lexicon.prepositions})\s+{word}{end}", rf"\1 {oblique}", rest)
    rest = re.sub(rf"{word}{end}", subject, rest)
    for wrong, right in _AGREEMENT:
        rest = wrong.sub(right, rest)
    return rest


_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_ASKS_DIGITS = re.compile(r"\b(?:number(?! of)|\w*nummer|número|pin|iban|post ?code|plz)\b", re.IGNORECASE)
_INSTEAD = re.compile(r"\b(?:instead|in place|(?:an)?statt|en vez|en lugar)\b", re.IGNORECASE)
_COMMAS = " ,\uff0c"
_GENITIVE = re.compile("['\u2019]s?$")


def analyze_question(
    text: str,
    index: RetrievalIndex,
    *,
    lexicon: Lexicon,
    terms: Callable[[str], Sequence[str]],
    today: date,
    last_question: str | None = None,
    excluded: frozenset[str] = frozenset(),
) -> AnalyzedQuestion:
    """Analyze *text* with the participants and the vocabulary of *index*.

    *last_question* is the end of *text* that asks, where the rest is the context that it refers to: it alone decides
    the kind of question. *excluded* are the terms of what it sets aside. *terms* is the
    analyzer's split of a text into terms.
    """
    question = text if last_question is None else last_question
    rest, participants = remove_names(text, index, lexicon=lexicon, terms=terms)
    distinct = tuple(dict.fromkeys(terms(lexicon.order.sub(" ", rest)) or terms(rest)))
    forms = _written_forms(rest, distinct, terms)
    dates = find_dates(question, lexicon, today) or find_dates(text, lexicon, today)
    only_when = bool(dates) and all(_is_of_a_date(form, lexicon) for form in forms)
    if dates and not only_when and not _has_several_speakers(index):
        distinct, forms = _without_time(distinct, forms, lexicon)
    return AnalyzedQuestion(
        text=text,
        text_without_names=rest,
        terms=distinct,
        forms=forms,
        all_terms=tuple(sorted(set(terms(text)))),
        participants=participants,
        dates=dates,
        asks_time=lexicon.asks_time.search(question) is not None,
        asks_several=lexicon.asks_several.search(question) is not None,
        only_when=only_when,
        asked=question,
        excluded=excluded,
        asks_digits=_ASKS_DIGITS.search(question) is not None,
        proper_terms=frozenset(
            term for word in lexicon.proper.findall(rest) for term in terms(_GENITIVE.sub("", word))
        ),
    )


def excluded_terms(text: str, lexicon: Lexicon, terms: Callable[[str], Sequence[str]]) -> frozenset[str]:
    """Return the terms of what *text* sets aside ("besides Rome"); not of what has a successor ("instead of coffee").

    *terms* is the analyzer's split of a text into terms.
    """
    excluded = [match.group().strip(_COMMAS) for match in lexicon.exclusion.finditer(text)]
    aside = [words for words in excluded if _INSTEAD.match(words) is None]
    return frozenset(term for words in aside for term in terms(words.partition(" ")[2]))


def remove_exclusions(text: str, lexicon: Lexicon, terms: Callable[[str], Sequence[str]]) -> tuple[str, str | None]:
    """Return *text* without what it sets aside ("besides tea"), and a note on that; *text* and None if there is none.

    *terms* is the analyzer's split of a text into terms.
    """
    excluded = [match.group().strip(_COMMAS) for match in lexicon.exclusion.finditer(text)]
    rest = " ".join(lexicon.exclusion.sub(" ", text).split()).lstrip(_COMMAS)
    if not excluded or not terms(rest):
        return text, None
    return rest, f"not searched for, since the question sets it aside: {' / '.join(excluded)}"


def remove_names(
    text: str, index: RetrievalIndex, *, lexicon: Lexicon, terms: Callable[[str], Sequence[str]]
) -> NameMentions:
    """Find the participants of *index* that *text* names.

    Where one participant is a user and the other an assistant, "I" names the one and "you" the other.
    """
    present = index.participants.present()
    lower_case_count = index.vocabulary.lower_case_count
    mentions = detect_mentions(
        text,
        [(number, name) for number, name in present if name not in ROLES],
        index.aliases(),
        is_ordinary=lambda word: not terms(word) or lower_case_count(word) > 0,
        possessive=lexicon.possessive,
    )
    mentioned = set(mentions.participants)
    for role, pronoun in zip(ROLES, (lexicon.first_person, lexicon.second_person), strict=True):
        mentioned.update(number for number, name in present if name == role and pronoun.search(text))
    return mentions._replace(participants=tuple(sorted(mentioned)))


def _has_several_speakers(index: RetrievalIndex) -> bool:
    return len([name for _, name in index.participants.present() if name not in ROLES]) > 1


def _without_time(
    terms: tuple[str, ...], forms: tuple[str, ...], lexicon: Lexicon
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return *terms* and their *forms* without the words of a date, which say nothing of what was so then.

    A memory of several speakers is asked what was said on a day: there they stay.
    """
    kept = [(term, form) for term, form in zip(terms, forms, strict=True) if not _is_of_a_date(form, lexicon)]
    return tuple(term for term, _ in kept), tuple(form for _, form in kept)


def _is_of_a_date(form: str, lexicon: Lexicon) -> bool:
    return form in lexicon.frame_words or form.isdigit()


def _written_forms(text: str, terms: Sequence[str], split: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """Return the small-letter form of each of *terms* in *text*; the term itself where it is no single word.

    *split* is the analyzer's split of a text into terms.
    """
    forms: dict[str, str] = {}
    for word in _WORD.findall(text):
        of_word = split(word)
        if len(of_word) == 1:
            forms.setdefault(of_word[0], word.lower())
    return tuple(forms.get(term, term) for term in terms)
