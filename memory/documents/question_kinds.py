"""Kinds of question, and how far a sentence has the form of an answer to each: a number, a person, a step.

Rules for English, German, French and Spanish; what no rule knows is of no kind, and no sentence is preferred for it.

>>> QuestionKind.NUMBER in question_kinds("How many keys are there?")
True
>>> kinds = question_kinds("How do I sign a tag?")
>>> answer_form(kinds, "Use `git tag -s` to make a signed tag."), answer_form(kinds, "Tags are objects.")
(1.0, 0.0)
"""

from __future__ import annotations

import re
from enum import StrEnum

from tellback.memory.retrieval.languages.lexicon import Lexicon, lexicon_for


class QuestionKind(StrEnum):
    """Kind of thing that a question asks for."""

    PERSON = "person"
    TIME = "time"
    NUMBER = "number"
    STEP = "step"
    DEFINITION = "definition"


_FLAGS = re.IGNORECASE
_PERSON = re.compile(r"(?:who|whom|whose|wer|wen|wem|wessen|qui|quién|quiénes|chi|quem)\b", _FLAGS)
_NUMBER = re.compile(
    r"\b(?:default|maximum|minimum|most|least|limit|port|size|length|version|standardm\w+|höchstens|maximal\w*|port|"
    r"défaut|máxim\w+|predeterminad\w+)\b",
    _FLAGS,
)
_ASKS_VALUE = re.compile(
    r"(?:what|which|how (?:long|large|deep|wide|high)|since which|welche[rsn]?|quel\w*|cuál)\b", _FLAGS
)
_STEP = re.compile(
    r"how (?:do|can|could|should|to|would|does|may|might|must|is|are)\b"
    r"|wie (?:kann|mach\w*|lass\w*|lässt|wird|werden|\w+e ich)\b|comment\b|cómo\b",
    _FLAGS,
)
_DEFINITION = re.compile(
    r"what(?:'s| is| are)\s+(?:an?\s+|the\s+)?(?P<term>[\w` .-]+?)\?*$|what does\s+(?P<meant>[\w` .-]+?)\s+mean\?*$"
    r"|was (?:ist|sind)\s+(?:ein\w*\s+)?(?P<begriff>[\w -]+?)\?*$|qué (?:es|son)\s+(?:una?\s+)?(?P<cosa>[\w -]+?)\?*$",
    _FLAGS,
)

_COUNTED = re.compile(
    r"(?:how many|wie viele)\s+(?:(?:kinds|types|sorts)\s+of\s+)?(?:[\w.-]+\s+){0,2}?(?P<counted>\w+)\s+"
    r"(?:are|is|do|does|did|can|could|may|has|have|had|will|were|sind|hat|haben|kann|gibt)\b",
    _FLAGS,
)
_STEM_LENGTH = 5
_OTHER_NUMBER = 0.5
"""Form of a sentence with a number that counts something else, as it seems."""
_NUMBERS_AHEAD = 5
"""Words between a number and what it counts."""

_NAME = re.compile(
    r"[A-Z\u00c0-\u00de][\w'\u2019-]+(?: [A-Z\u00c0-\u00de][\w'\u2019-]+)+|(?<=[\w,;] )[A-Z\u00c0-\u00de]\w+"
)
_NUMBER_TOKEN = re.compile(r"\w*\d[\w.,]*")
_DURATION = re.compile(
    r"(?:\d|\b(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|half)\b)[\w.,\s-]{0,12}?"
    r"\b(?:(?:milli|micro)?seconds?|ms|minutes?|hours?|days?|weeks?|months?|years?|sekunden?|minuten?|stunden?|tagen?|"
    r"wochen?|monaten?|jahren?|segundos?|minutos?|horas?|días?|semanas?|mes(?:es)?|años?|heures?|jours?|semaines?|mois)\b",
    _FLAGS,
)
_ASKS_DURATION = re.compile(r"(?:how (?:long|often)|wie (?:lange|oft)|cuánto tiempo|combien de temps)\b", _FLAGS)
_WORDS = re.compile(r"\w+")
_CODE = re.compile(r"`[^`\n]+`|\"/[\w/.-]+\"|\b\w+\(\)|\b[a-z]+(?:_[a-z]+)+\b|\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b")
_INSTRUCTION = re.compile(
    r"\b(?:you (?:can|may|could|should|must|need)|(?:can|may|must|should) be|(?:is|are) (?:done|made|set) (?:by|with)|"
    r"us(?:e|ing)|run(?:ning)?|call(?:ing)?|executing|type|press|by (?:the following|\w+ing)|"
    r"as follows|following|man kann|Sie können|verwende\w*|mit dem Befehl|on peut|utilise\w*|se puede|us[ae]r?)\b",
    _FLAGS,
)
_IMPERATIVE = re.compile(
    r"(?:[-*\u2022]\s+|\d+[.)]\s+|(?!\W*(?:example|note|warning|see)\b)[^.:\n]{1,60}:\s+)?(?:add|apply|append|boot|change|check|choose|clone|close|configure|convert|copy|"
    r"create|define|delete|disable|download|edit|enable|enter|erase|execute|export|extract|fetch|find|generate|get|import|"
    r"install|list|load|make|merge|mount|move|open|pass|press|print|pull|push|put|read|remove|rename|replace|reset|restore|"
    r"return|run|save|schedule|select|send|set|show|sign|sort|specify|split|start|stop|store|switch|undo|update|use|"
    r"write)s?\b",
    _FLAGS,
)
_DEFINES = re.compile(
    r"\b(?:is|are|was|were|means|refers? to|stands for|called|denotes|allows?|ist|sind|bedeutet|es|son)\b", _FLAGS
)
_DEFINING_WORDS = 12
"""Words from the beginning of a sentence among which a definition names its term."""
_TERM_FIRST = (
    r"\b{}s?[`\"'\u201d*_)]*(?: \([^)]*\))?,? (?:is|are|was|were|means|refers? to|stands for|denotes|allows?|lets|"
    r"ist|sind|bedeutet|es|son) (?!also\b|not\b|often\b|done\b|then\b)"
)
_TERM_LAST = r"\b(?:called|known as|named|referred to as|genannt|llamad[oa]s?) (?:an? |the )?[`\"'\u201c*_]*{}\b"
_LOOSE = 0.5
"""Form of a sentence that may be of the kind: a definition not in its usual form, a time that is no duration."""


def question_kinds(question: str, lexicon: Lexicon | None = None) -> frozenset[QuestionKind]:
    """Return what *question* asks for; *lexicon* knows its language (None: English)."""
    lexicon = lexicon or lexicon_for("english")
    words = question.strip()
    kinds = {
        QuestionKind.PERSON: _PERSON.match(words),
        QuestionKind.TIME: lexicon.asks_time.search(words),
        QuestionKind.NUMBER: lexicon.asks_number.search(words) or (_ASKS_VALUE.match(words) and _NUMBER.search(words)),
        QuestionKind.STEP: _STEP.match(words) and not lexicon.asks_number.match(words),
        QuestionKind.DEFINITION: _DEFINITION.match(words),
    }
    return frozenset(kind for kind, found in kinds.items() if found)


def answer_form(
    kinds: frozenset[QuestionKind], sentence: str, lexicon: Lexicon | None = None, *, term: str = "", question: str = ""
) -> float:
    """Return from 0 to 1 how far *sentence* has the form of an answer to one of *kinds*.

    *term* is what a question of definition, or one of number, asks about (``asked_term``). Names and numbers that stand
    in the *question* answer nothing.
    """
    lexicon = lexicon or lexicon_for("english")
    known = frozenset(_WORDS.findall(question.casefold()))
    form = 0.0
    if QuestionKind.PERSON in kinds and _is_new(_NAME, sentence, known):
        form = 1.0
    if kinds & {QuestionKind.TIME, QuestionKind.NUMBER}:
        number = _is_new(_NUMBER_TOKEN, sentence, known) or _is_new(
            lexicon.number, _NUMBER_TOKEN.sub("", sentence), known
        )
        if QuestionKind.TIME in kinds and (number or lexicon.time.search(sentence)):
            form = _LOOSE if _ASKS_DURATION.match(question) and not _DURATION.search(sentence) else 1.0
        if QuestionKind.NUMBER in kinds and number:
            form = max(form, 1.0 if not term or _counts(sentence, term, lexicon) else _OTHER_NUMBER)
    if QuestionKind.STEP in kinds:
        block = "\n```" in sentence or "::\n" in sentence
        code = block or bool(_CODE.search(sentence))
        steps = bool(_INSTRUCTION.search(sentence)) + bool(_IMPERATIVE.match(sentence)) + code + block
        form = max(form, min(1.0, steps / 2))
    if QuestionKind.DEFINITION in kinds and term:
        form = max(form, _defines(sentence, term))
    return form


def asked_term(question: str) -> str:
    """Return the term that *question* asks the meaning or the number of, in small letters; "" where it asks neither."""
    words = question.strip()
    match = _DEFINITION.match(words) or _COUNTED.match(words)
    return "" if match is None else next(value for value in match.groupdict().values() if value).casefold().strip()


def _is_new(pattern: re.Pattern[str], sentence: str, known: frozenset[str]) -> bool:
    """Return whether *sentence* has a match of *pattern* that is not made of *known* words alone."""
    return any(not known.issuperset(_WORDS.findall(match[0].casefold())) for match in pattern.finditer(sentence))


def _defines(sentence: str, term: str) -> float:
    """Return 1 where *sentence* defines *term* in the usual form, ``_LOOSE`` where it may do so, else 0."""
    words, name = " ".join(sentence.casefold().split()), re.escape(term)
    if re.search(_TERM_FIRST.format(name), words[: 8 * _DEFINING_WORDS]) or re.search(_TERM_LAST.format(name), words):
        return 1.0
    return _LOOSE if term in " ".join(words.split()[:_DEFINING_WORDS]) and _DEFINES.search(words) else 0.0


def _counts(sentence: str, term: str, lexicon: Lexicon) -> bool:
    """Return whether a number stands a few words before *term* in *sentence*."""
    words = sentence.casefold().split()
    places = [place for place, word in enumerate(words) if word.lstrip("`\"'(*").startswith(term[:_STEM_LENGTH])]
    return any(
        lexicon.number.search(" ".join(words[max(0, place - _NUMBERS_AHEAD) : place])) is not None for place in places
    )
