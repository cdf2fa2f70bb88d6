"""Kinds of question, and how far a sentence has the form of an answer to each: a number, a person, a step, a reason.

Rules for English, German, French and Spanish; what no rule knows is of no kind, and no sentence is preferred for it.

>>> kinds = question_kinds("How do I sign a tag?")
>>> answer_form(kinds, "Use `git tag -s` to make a signed tag."), answer_form(kinds, "Tags are objects.")
(1.0, 0.0)
"""

from __future__ import annotations

import re
from enum import StrEnum

from memory.retrieval.languages.lexicon import Lexicon, lexicon_for


class QuestionKind(StrEnum):
    """Kind of thing that a question asks for."""

    PERSON = "person"
    TIME = "time"
    NUMBER = "number"
    STEP = "step"
    THING = "thing"
    REASON = "reason"
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
_THING = re.compile(
    r"(?:which|what|welche[rsnm]?|quel\w*|qué|cuál)\s+(?:\w+\s+){0,2}?(?:attribute|character|class|command|configuration|"
    r"directory|exception|extension|field|file|flag|folder|function|header|key|keyword|method|mode|module|operator|"
    r"option|package|parameter|program|setting|shell|signal|statement|switch|tool|type|utility|variable|befehl|datei|"
    r"funktion|klasse|paket|programm|commande|fichier|fonction|comando|archivo|función)\w*\b",
    _FLAGS,
)
_REASON = re.compile(r"(?:why|warum|wieso|weshalb|pourquoi|por qué)\b", _FLAGS)
_DEFINITION = re.compile(
    r"what(?:'s| is| are)\s+(?:an?\s+|the\s+)?(?P<term>[\w` .-]+?)\?*$|what does\s+(?P<meant>[\w` .-]+?)\s+mean\?*$"
    r"|was (?:ist|sind)\s+(?:ein\w*\s+)?(?P<begriff>[\w -]+?)\?*$|qué (?:es|son)\s+(?:una?\s+)?(?P<cosa>[\w -]+?)\?*$",
    _FLAGS,
)

_COUNTED = re.compile(
    r"(?:how many|wie viele)\s+(?:\w+\s+){0,2}?(?P<counted>\w+)\s+"
    r"(?:are|is|do|does|did|can|could|may|has|have|had|will|were|sind|hat|haben|kann|gibt)\b",
    _FLAGS,
)
_STEM_LENGTH = 5
_OTHER_NUMBER = 0.7
"""Form of a sentence with a number that counts something else, as it seems."""
_NUMBERS_AHEAD = 5
"""Words between a number and what it counts."""

_NAME = re.compile(r"(?<=[\w,;] )[A-Z\u00c0-\u00de]\w+")
_DIGIT = re.compile(r"\d")
_CODE = re.compile(r"`[^`\n]+`|\"/[\w/.-]+\"|\b\w+\(\)|\b[a-z]+(?:_[a-z]+)+\b|\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b")
_INSTRUCTION = re.compile(
    r"\b(?:you (?:can|may|could|should|must|need)|(?:can|may|must|should) be|(?:is|are) (?:done|made|set) (?:by|with)|"
    r"us(?:e|ing)|run(?:ning)?|call(?:ing)?|executing|type|press|by (?:the following|\w+ing)|"
    r"as follows|following|man kann|Sie können|verwende\w*|mit dem Befehl|on peut|utilise\w*|se puede|us[ae]r?)\b",
    _FLAGS,
)
_IMPERATIVE = re.compile(
    r"(?:[-*\u2022]\s+|\d+[.)]\s+|[^.:\n]{1,60}:\s+)?(?:add|apply|append|boot|change|check|choose|clone|close|configure|convert|copy|"
    r"create|define|delete|disable|download|edit|enable|enter|erase|execute|export|extract|fetch|find|generate|get|import|"
    r"install|list|load|make|merge|mount|move|open|pass|press|print|pull|push|put|read|remove|rename|replace|reset|restore|"
    r"return|run|save|schedule|select|send|set|show|sign|sort|specify|split|start|stop|store|switch|undo|update|use|"
    r"write)s?\b",
    _FLAGS,
)
_BECAUSE = re.compile(
    r"\b(?:because|since|so that|in order to|due to|reason|therefore|this means|is why|caused by|weil|damit|deshalb|"
    r"parce que|porque|once|only)\b",
    _FLAGS,
)
_DEFINES = re.compile(
    r"\b(?:is|are|means|refers? to|stands for|called|denotes|allows?|ist|sind|bedeutet|es|son)\b", _FLAGS
)
_DEFINING_WORDS = 12
"""Words from the beginning of a sentence among which a definition names its term."""


def question_kinds(question: str, lexicon: Lexicon | None = None) -> frozenset[QuestionKind]:
    """Return what *question* asks for; *lexicon* knows its language (None: English)."""
    lexicon = lexicon or lexicon_for("en")
    words = question.strip()
    kinds = {
        QuestionKind.PERSON: _PERSON.match(words),
        QuestionKind.TIME: lexicon.asks_time.search(words),
        QuestionKind.NUMBER: lexicon.asks_number.search(words)
        or (_ASKS_VALUE.match(words) and _NUMBER.search(words) and not _THING.match(words)),
        QuestionKind.STEP: _STEP.match(words) and not lexicon.asks_number.match(words),
        QuestionKind.THING: _THING.match(words),
        QuestionKind.REASON: _REASON.match(words),
        QuestionKind.DEFINITION: _DEFINITION.match(words),
    }
    return frozenset(kind for kind, found in kinds.items() if found)


def answer_form(
    kinds: frozenset[QuestionKind], sentence: str, lexicon: Lexicon | None = None, *, term: str = ""
) -> float:
    """Return from 0 to 1 how far *sentence* has the form of an answer to one of *kinds*.

    *term* is what a question of definition, or one of number, asks about (``asked_term``).
    """
    lexicon = lexicon or lexicon_for("en")
    form = 0.0
    if QuestionKind.PERSON in kinds and _NAME.search(sentence):
        form = 1.0
    if QuestionKind.TIME in kinds and (lexicon.time.search(sentence) or lexicon.number.search(sentence)):
        form = 1.0
    if QuestionKind.NUMBER in kinds and (_DIGIT.search(sentence) or lexicon.number.search(sentence)):
        form = max(form, 1.0 if not term or _counts(sentence, term, lexicon) else _OTHER_NUMBER)
    if QuestionKind.THING in kinds and _CODE.search(sentence):
        form = max(form, 1.0)
    if QuestionKind.REASON in kinds and _BECAUSE.search(sentence):
        form = max(form, 1.0)
    if QuestionKind.STEP in kinds:
        block = "\n```" in sentence or "::\n" in sentence
        code = block or bool(_CODE.search(sentence))
        steps = bool(_INSTRUCTION.search(sentence)) + bool(_IMPERATIVE.match(sentence)) + code + block
        form = max(form, min(1.0, steps / 2))
    if QuestionKind.DEFINITION in kinds and term:
        beginning = " ".join(sentence.casefold().split()[:_DEFINING_WORDS])
        form = max(form, 1.0 if term in beginning and _DEFINES.search(sentence) else 0.0)
    return form


def asked_term(question: str) -> str:
    """Return the term that *question* asks the meaning or the number of, in small letters; "" where it asks neither."""
    words = question.strip()
    match = _DEFINITION.match(words) or _COUNTED.match(words)
    return "" if match is None else next(value for value in match.groupdict().values() if value).casefold().strip()


def _counts(sentence: str, term: str, lexicon: Lexicon) -> bool:
    """Return whether a number stands a few words before *term* in *sentence*."""
    words = sentence.casefold().split()
    places = [place for place, word in enumerate(words) if word.lstrip("`\"'(*").startswith(term[:_STEM_LENGTH])]
    return any(
        lexicon.number.search(" ".join(words[max(0, place - _NUMBERS_AHEAD) : place])) is not None for place in places
    )
