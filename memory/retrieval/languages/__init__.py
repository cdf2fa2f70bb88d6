"""Language rules of retrieval: a lexicon per language, imported when a memory in it is opened, and dates in texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from memory.errors import ArgumentError
from memory.retrieval.languages.base import NEUTRAL, Lexicon
from memory.retrieval.languages.english import ENGLISH

_CODES: Mapping[str, str] = MappingProxyType(
    {
        "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
        "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish", "fr": "french",
        "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian", "it": "italian",
        "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish", "pt": "portuguese",
        "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil", "tr": "turkish",
        "zh": "chinese",
    }
)  # fmt: skip


def analyzer_language(language: str) -> str:
    """Return the analyzer's name of *language*, given by it or by a code ("de", "de-AT"); an unknown one as it is."""
    if not isinstance(language, str) or not language:
        raise ArgumentError("language", language, "a code such as 'de' or a name such as 'german' is needed")
    return _CODES.get(re.split("[-_]", language.lower())[0], language.lower())


def lexicon_for(language: str) -> Lexicon:
    """Return what is known of *language* (an analyzer's name for it); the neutral lexicon for any without its own."""
    if language == "english":
        return ENGLISH
    if language == "german":
        from memory.retrieval.languages.german import GERMAN

        return GERMAN
    if language == "spanish":
        from memory.retrieval.languages.spanish import SPANISH

        return SPANISH
    if language == "chinese":
        from memory.retrieval.languages.chinese import CHINESE

        return CHINESE
    return NEUTRAL
