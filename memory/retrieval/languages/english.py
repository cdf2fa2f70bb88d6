"""English: patterns for time, number, person and kind of question, and the names of months."""

from __future__ import annotations

import re
from types import MappingProxyType

from memory.retrieval.languages.base import Lexicon, whole_words

_MONTHS = {
    "january": 1,
    "february": 2,
    "march": 3,
    "april": 4,
    "may": 5,
    "june": 6,
    "july": 7,
    "august": 8,
    "september": 9,
    "october": 10,
    "november": 11,
    "december": 12,
    "jan": 1,
    "feb": 2,
    "apr": 4,
    "jun": 6,
    "jul": 7,
    "aug": 8,
    "sep": 9,
    "sept": 9,
    "oct": 10,
    "nov": 11,
    "dec": 12,
}
_NUMBER_WORDS = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|twenty|thirty|forty"
    "|fifty|hundred|thousand|million|dozen|couple|several|few|once|twice|half"
)
_TIME_WORDS = (
    "yesterday|today|tonight|tomorrow|ago|last|next|recently|lately|soon|since|week|weeks|weekend|weekends|month"
    "|months|year|years|day|days|hour|hours|minute|minutes|morning|afternoon|evening|night|spring|summer|autumn"
    "|winter|birthday|anniversary|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|april"
    "|june|july|august|september|october|november|december"
)
_FRAME_WORDS = (
    "say|said|tell|told|talk|talked|mention|mentioned|discuss|discussed|speak|spoke|chat|chatted|note|noted|write|wrote"
    "|do|did|done|happen|happened|go|went|going|on|remember|know|past|previous|time|new|anything|something|everything"
    "|thing|things|conversation|conversations"
)


ENGLISH = Lexicon(
    first_person=re.compile(r"\b(?:I|I['\u2019](?:m|ve|d|ll)|[Mm]y|[Mm]e|[Mm]ine|[Mm]yself|[Ww]e|[Oo]ur|[Uu]s)\b"),
    second_person=whole_words("you|your|yours|yourself"),
    time=re.compile(rf"(?:\b(?i:{_TIME_WORDS})\b|\bMay\b|\bMarch\b|\b(?:19|20)\d\d\b)"),
    number=re.compile(rf"(?:\d|\b(?i:{_NUMBER_WORDS})\b)"),
    name=re.compile(r"[a-z] [A-Z][a-z]"),
    call=re.compile(
        r"\b(?i:hey|hi|hello|hiya|yo|thanks|thank you|thx|wow|congrats|congratulations|sure|yeah|yes|no worries"
        r"|morning|evening|bye|sorry|cheers|absolutely|definitely|agreed|great|awesome|cool|nice)"
        r"(?i:,? (?:there|so much|a lot|again))?[,!]? ([A-Z][a-z]{1,20})\b"
    ),
    proper=re.compile(r"(?<=[a-z,;] )[\"'\u201c\u2018(]?([A-Z][\w\u2019'-]*)"),
    asks_time=whole_words(
        "when|how long|how recently|what (?:time|day|date|month|year|week|season)"
        "|which (?:day|date|month|year|week|season)"
    ),
    asks_place=whole_words("where|(?:what|which) (?:city|country|town|state|place|area|region|location|street)"),
    asks_number=whole_words("how (?:many|much|often|old|far|big|tall)|what (?:number|amount|age)"),
    asks_several=re.compile(
        r"\b(?:how many|both|all|different|various|several)\b"
        r"|\b(?:what|which)\b(?: (?!is\b|was\b|does\b|has\b|his\b|this\b|as\b|its\b)[\w'-]+){0,3}?"
        r" (?!is\b|was\b|does\b|has\b|his\b|this\b|as\b|its\b|us\b|yes\b)[a-z]+(?<!s)s\b(?! name)",
        re.IGNORECASE,
    ),
    asks_state=re.compile(
        r"^(?!.*\b(?:did|was|were|had|been|ever|will|would|could|should|used to)\b).*\b(?:is|are|am|do|does|'s)\b",
        re.IGNORECASE | re.DOTALL,
    ),
    change=whole_words(
        "now|nowadays|these days|from now on|no longer|any ?more|instead|moved|changed|switched|replaced|gave up"
        "|new|actually|correction|not any longer|since then|has become|have become|became"
    ),
    frame_words=frozenset(f"{_FRAME_WORDS}|{_TIME_WORDS}|{_NUMBER_WORDS}|march|may".split("|")),
    continuation=re.compile(
        r"^\W*(?:and|but|so|or|what about|how about|what else|who else|where else|when else|why not)\b", re.IGNORECASE
    ),
    back_reference=re.compile(
        r"\b(?:he|she|it|they|him|hers?|his|its|them|theirs?|there)\b"
        r"|\b(?:that|this|those|these|one|ones|then|same|else)\b(?=\s*(?:[?.!,]|$))"
        r"|\b(?:is|was|are|were|about|of|for|after|before|like|with) (?:that|this|those|these)\b",
        re.IGNORECASE,
    ),
    months=MappingProxyType(_MONTHS),
)
