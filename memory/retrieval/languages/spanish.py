"""Spanish: patterns for time, number, person and kind of question, dates, and relative dates."""

from __future__ import annotations

import re
from types import MappingProxyType

from memory.retrieval.languages.base import Lexicon, alternatives, whole_words

_MONTHS = {
    "enero": 1, "febrero": 2, "marzo": 3, "abril": 4, "mayo": 5, "junio": 6, "julio": 7, "agosto": 8,
    "septiembre": 9, "setiembre": 9, "octubre": 10, "noviembre": 11, "diciembre": 12,
}  # fmt: skip
_WEEKDAYS = {
    "lunes": "monday", "martes": "tuesday", "miércoles": "wednesday", "miercoles": "wednesday", "jueves": "thursday",
    "viernes": "friday", "sábado": "saturday", "sabado": "saturday", "domingo": "sunday",
}  # fmt: skip
_DAYS = {
    "hoy": "today", "esta mañana": "this morning", "esta tarde": "this afternoon", "esta noche": "tonight",
    "ayer": "yesterday", "anoche": "last night", "anteayer": "the day before yesterday", "antier":
    "the day before yesterday",
}  # fmt: skip
_COUNTS = {
    "un": "one", "una": "one", "dos": "two", "tres": "three", "cuatro": "four", "cinco": "five", "seis": "six",
    "siete": "seven", "ocho": "eight", "nueve": "nine", "diez": "ten", "once": "eleven", "doce": "twelve",
    "un par de": "a couple of", "unos": "a few", "unas": "a few", "varios": "several", "varias": "several",
}  # fmt: skip
_UNITS = {
    "día": "day", "días": "day", "dia": "day", "dias": "day", "semana": "week", "semanas": "week", "mes": "month",
    "meses": "month", "año": "year", "años": "year", "fin de semana": "weekend",
}  # fmt: skip


_COUNT = rf"\d{{1,3}}|{alternatives(_COUNTS)}"
_TIME_WORDS = (
    "ayer|anteayer|hoy|mañana|anoche|recientemente|pronto|desde|antes|hace|días?|semanas?|mes|meses|años?|horas?"
    "|minutos?|tarde|noche|primavera|verano|otoño|invierno|cumpleaños|aniversario"
    f"|{alternatives(_WEEKDAYS)}|{alternatives(_MONTHS)}"
)
_FRAME_WORDS = (
    "dije|dijo|dijimos|dicho|decir|conté|contó|contado|hablé|habló|hablamos|hablado|mencioné|mencionó|anoté|escribí"
    "|hice|hizo|hicimos|hecho|pasó|pasado|pasada|pasados|pasadas|sucedió|ocurrió|fui|fue|fuimos|recuerdas|nuevo"
    "|último|últimos|última|últimas|conversación|tiempo|fin"
)

SPANISH = Lexicon(
    first_person=whole_words(
        r"yo|me|mí|mi|mis|conmigo|mío|mía|nosotros|nosotras|nos|nuestr[oa]s?|estoy|soy|tengo|voy|fui|he|compré|empecé"
    ),
    second_person=whole_words(r"tú|te|ti|tu|tus|contigo|usted|ustedes|vosotros|vosotras|os|vuestr[oa]s?"),
    time=re.compile(rf"(?:\b(?i:{_TIME_WORDS})\b|\b(?:19|20)\d\d\b)"),
    number=re.compile(
        r"(?:\d|\b(?i:dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce|quince|veinte|treinta|cuarenta"
        r"|cincuenta|cien|ciento|mil|docena|varios|varias|mitad|medio|media)\b)"
    ),
    name=re.compile(r"[a-záéíóúñ] [A-ZÁÉÍÓÚÑ][a-záéíóúñ]"),
    call=re.compile(
        r"\b(?i:hola|oye|gracias|muchas gracias|buenos días|buenas tardes|buenas noches|adiós|claro|sí|perdona|genial"
        r"|felicidades|vale)[,!]? ([A-ZÁÉÍÓÚÑ][a-záéíóúñ]{1,20})\b"
    ),
    proper=re.compile("(?<=[a-záéíóúñ,;] )[\"'\u201c\u2018(\u00ab]?([A-ZÁÉÍÓÚÑ][\\w-]*)"),
    asks_time=whole_words(
        r"cuándo|cuanto tiempo|cuánto tiempo|desde cuándo|a qué hora|(?:en )?qué (?:día|fecha|mes|año|semana)"
    ),
    asks_place=whole_words(r"dónde|adónde|(?:en )?qué (?:ciudad|país|pueblo|lugar|calle|barrio|zona)"),
    asks_number=whole_words(r"cuánt[oa]s?|con qué frecuencia|qué edad|cada cuánto|cómo de (?:lejos|grande|alto)"),
    asks_several=whole_words(
        r"cuántos|cuántas|ambos|ambas|todos|todas|diferentes|distint[oa]s|vari[oa]s|cuáles|qué \w+s"
    ),
    asks_state=re.compile(
        r"^(?!.*\b(?:fue|era|eran|fueron|estaba|había|hizo|hubo|sería|podría|será)\b)"
        r".*\b(?:es|son|está|están|estoy|soy|vivo|vive|viven|trabaj[oa]|tiene|tengo|se llama|aprend[oe]|conduce"
        r"|conduzco)\b",
        re.IGNORECASE | re.DOTALL,
    ),
    change=whole_words(
        r"ahora|actualmente|ya no|desde ahora|en vez|en lugar|mud[éóa]\w*|cambi[éóa]\w*|nuev[oa]s?|dejé|corrección"
        r"|en realidad"
    ),
    frame_words=frozenset(_FRAME_WORDS.split("|"))
    | {word for table in (_DAYS, _UNITS, _WEEKDAYS, _MONTHS, _COUNTS) for word in table},
    continuation=re.compile(
        r"^\W*(?:y|pero|o|entonces|qué hay de|qué tal|quién más|qué más|dónde más)\b", re.IGNORECASE
    ),
    back_reference=re.compile(
        r"\b(?:él|ella|ellos|ellas|ello|lo|la|los|las|le|les|suy[oa]s?|allí|ahí|allá|entonces)\b(?=\s*(?:[?.!,]|$))"
        r"|\b(?:él|ella|ellos|ellas|eso|esto|aquello)\b|\b(?:lo|la|le|les) [a-záéíóúñ]+(?:ó|aron|ieron|é|í)\b",
        re.IGNORECASE,
    ),
    months=MappingProxyType(_MONTHS),
    ordinal=r"(?:\.?º)?(?!\w)",
    of=" del?",
    relative_dates=re.compile(
        rf"\b(?:(?P<day>{alternatives(_DAYS)})"
        rf"|hace (?P<count>{_COUNT}) (?P<unit>días?|dias?|semanas?|mes(?:es)?|años?)"
        rf"|(?:en|durante) (?:el|la|los|las) últim[oa]s? (?:(?P<length>{_COUNT}) )?"
        r"(?P<of>días?|dias?|semanas?|mes(?:es)?|años?)"
        r"|(?:el|la) (?P<past>semana|mes|año|fin de semana) pasad[oa]"
        rf"|(?:el )?(?P<weekday>{alternatives(_WEEKDAYS)}) pasado|(?:en )?(?P<month>{alternatives(_MONTHS)}) pasado"
        r"|est[ea] (?P<this>semana|mes|año|fin de semana))\b",
        re.IGNORECASE,
    ),
    english_words=MappingProxyType({**_DAYS, **_COUNTS, **_UNITS, **_WEEKDAYS}),
)
