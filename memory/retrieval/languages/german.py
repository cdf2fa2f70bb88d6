"""German: patterns for time, number, person and kind of question, dates, and relative dates."""

from __future__ import annotations

import re
from types import MappingProxyType

from memory.retrieval.languages.base import Lexicon, alternatives, whole_words

_MONTHS = {
    "januar": 1, "jänner": 1, "februar": 2, "märz": 3, "april": 4, "mai": 5, "juni": 6, "juli": 7, "august": 8,
    "september": 9, "oktober": 10, "november": 11, "dezember": 12,
}  # fmt: skip
_WEEKDAYS = {
    "montag": "monday", "dienstag": "tuesday", "mittwoch": "wednesday", "donnerstag": "thursday",
    "freitag": "friday", "samstag": "saturday", "sonnabend": "saturday", "sonntag": "sunday",
}  # fmt: skip
_DAYS = {
    "heute": "today", "heute morgen": "this morning", "heute früh": "this morning", "heute abend": "this evening",
    "heute nacht": "tonight", "gestern": "yesterday", "gestern abend": "last night", "vorgestern":
    "the day before yesterday",
}  # fmt: skip
_COUNTS = {
    "ein": "one", "eine": "one", "einem": "one", "einer": "one", "zwei": "two", "drei": "three", "vier": "four",
    "fünf": "five", "sechs": "six", "sieben": "seven", "acht": "eight", "neun": "nine", "zehn": "ten", "elf": "eleven",
    "zwölf": "twelve", "ein paar": "a few", "einigen": "a few", "mehreren": "several",
}  # fmt: skip
_UNITS = {
    "tag": "day", "tage": "day", "tagen": "day", "woche": "week", "wochen": "week", "monat": "month", "monats": "month",
    "monate": "month", "monaten": "month", "jahr": "year", "jahre": "year", "jahren": "year", "jahres": "year",
    "wochenende": "weekend",
}  # fmt: skip


_COUNT = rf"\d{{1,3}}|{alternatives(_COUNTS)}"
_LAST = r"(?:letzte|vergangene|vorige)[nmrs]?"
_TIME_WORDS = (
    "gestern|vorgestern|heute|morgen|übermorgen|neulich|kürzlich|bald|seit|damals|früher|tage?n?|wochen?|wochenende"
    "|monate?n?|jahre?n?s?|stunden?|minuten?|vormittags?|nachmittags?|abends?|nachts?|frühling|sommer|herbst|winter"
    f"|geburtstag|{alternatives(_WEEKDAYS)}|{alternatives(_MONTHS)}"
)
_FRAME_WORDS = (
    "sagen|sagte|gesagt|erzählen|erzählt|erzählte|reden|geredet|gesprochen|erwähnt|besprochen|notiert|geschrieben"
    "|gemacht|getan|tun|tat|passiert|passierte|geschehen|los|ging|gegangen|weißt|neues|vergangene|vergangenen|letzte"
    "|letzten|letzter|letztes|alles|gespräch|zeit|um"
)

GERMAN = Lexicon(
    first_person=re.compile(r"\b(?:[Ii]ch|[Mm]ich|[Mm]ir|[Mm]ein(?:e[mnrs]?)?|[Ww]ir|[Uu]ns(?:er(?:e[mnrs]?)?)?)\b"),
    second_person=re.compile(
        r"\b(?:[Dd]u|[Dd]ich|[Dd]ir|[Dd]ein(?:e[mnrs]?)?|[Ii]hr|[Ee]uch|[Ee]uer|Sie|Ihnen|Ihre?[mnrs]?)\b"
    ),
    time=re.compile(rf"(?:\b(?i:{_TIME_WORDS})\b|\b(?:19|20)\d\d\b)"),
    number=re.compile(
        r"(?:\d|\b(?i:eins|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|zwanzig|dreißig|vierzig|fünfzig"
        r"|hundert|tausend|dutzend|einige|mehrere|einmal|zweimal|dreimal|halbe?[nrs]?|paar)\b)"
    ),
    call=re.compile(
        r"\b(?i:hallo|hi|hey|servus|moin|danke|vielen dank|guten morgen|guten abend|guten tag|tschüss|ja|nein|klar"
        r"|genau|super|toll|entschuldige|glückwunsch)[,!]? ([A-ZÄÖÜ][a-zäöüß]{1,20})\b"
    ),
    asks_time=whole_words(
        r"wann|wie lange|wie spät|seit wann|um wie ?viel uhr"
        r"|(?:an )?welche[mnrs]? (?:tag|datum|monat|jahr|woche|uhrzeit)"
    ),
    asks_place=whole_words(r"wo|wohin|woher|welche[mnrs]? (?:stadt|land|ort|gegend|straße|dorf|stadtteil)"),
    asks_number=whole_words(r"wie ?viele?[nr]?|wie oft|wie alt|wie weit|wie groß|wie hoch|wie lang|wie teuer"),
    asks_several=whole_words(
        r"wie ?viele|beide[nrs]?|alle[nrs]?|verschiedene[nr]?|mehrere|welche (?:[a-zäöüß]+ )?[a-zäöüß]+(?:en|er|e|s)"
    ),
    asks_state=re.compile(
        r"^(?!.*\b(?:war|waren|warst|hatte|hatten|wurde|wurden|gewesen|würde|könnte|sollte|wird)\b)"
        r".*\b(?:ist|sind|bin|bist|hei(?:ß|ss)en?|hei(?:ß|ss)t|wohn\w*|arbeite\w*|hab\w*|hat|fahr\w*|lern\w*|mag)\b",
        re.IGNORECASE | re.DOTALL,
    ),
    change=whole_words(
        "jetzt|nun|inzwischen|mittlerweile|neuerdings|ab sofort|nicht mehr|kein\\w* mehr|stattdessen|umgezogen"
        "|gewechselt|geändert|neue[mnrs]?|aufgegeben|korrektur|eigentlich|geworden"
    ),
    frame_words=frozenset(_FRAME_WORDS.split("|"))
    | {word for table in (_DAYS, _UNITS, _WEEKDAYS, _MONTHS, _COUNTS) for word in table},
    continuation=re.compile(
        r"^\W*(?:und|aber|oder|also|was ist mit|wie ist es mit|wer noch|wo noch|was noch)\b", re.IGNORECASE
    ),
    back_reference=re.compile(
        r"\b(?:er|sie|es|ihn|ihm|ihr|ihnen|sein(?:e[mnrs]?)?|dort|dorthin|dabei|damit|dafür|davon|darüber|dann|damals)\b"
        r"|\b(?:das|dies|diese[mnrs]?|jene[mnrs]?)\b(?=\s*(?:[?.!,]|$))",
        re.IGNORECASE,
    ),
    months=MappingProxyType(_MONTHS),
    possessive="(?:['\u2019]?s|['\u2019])?",
    ordinal=r"\.?(?!\d)",
    of="",
    date_patterns=(re.compile(r"\b(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>(?:19|20)\d\d)?(?!\d)"),),
    relative_dates=re.compile(
        rf"\b(?:(?P<day>{alternatives(_DAYS)})"
        rf"|vor (?P<count>{_COUNT}) (?P<unit>tage?n?|wochen?|monate?n?|jahre?n?)"
        rf"|(?:in|während) (?:den|der|dem) (?:letzten|vergangenen) (?:(?P<length>{_COUNT}) )?"
        r"(?P<of>tagen|wochen?|monate?n?|jahre?n?)"
        rf"|{_LAST} (?P<past>woche|monats?|jahre?s?|wochenende)"
        rf"|{_LAST} (?P<weekday>{alternatives(_WEEKDAYS)})|{_LAST} (?P<month>{alternatives(_MONTHS)})"
        r"|diese[mnrs]? (?P<this>woche|monats?|jahre?s?|wochenende))\b",
        re.IGNORECASE,
    ),
    english_words=MappingProxyType({**_DAYS, **_COUNTS, **_UNITS, **_WEEKDAYS}),
)
