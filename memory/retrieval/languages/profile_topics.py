"""Topics of a statement in the profile of a person: name, home and work by its analysis, the others by patterns.

The patterns are in ``profile_topics.ini``, for English, German, Spanish and Chinese at once.
"""

from __future__ import annotations

import re
from configparser import ConfigParser
from functools import cache
from pathlib import Path
from typing import Final

from tellback.memory.results import ProfileTopic
from tellback.memory.retrieval.languages.statements import StatementAnalysis, StatementFeature

_ATTRIBUTES: Final = {
    ProfileTopic.NAME: StatementFeature.OWN_NAME,
    ProfileTopic.HOME: StatementFeature.OWN_HOME,
    ProfileTopic.WORK: StatementFeature.OWN_WORK,
}
_THEIR_ATTRIBUTES: Final = {
    ProfileTopic.HOME: StatementFeature.THEIR_HOME,
    ProfileTopic.WORK: StatementFeature.THEIR_WORK,
}
_ANYWHERE: Final = "chinese"
"""Section of a language without blanks between words."""


def profile_topics(text: str, analysis: StatementAnalysis) -> tuple[ProfileTopic, ...]:
    """Return the topics of the statement *text*: every attribute that it tells, else the first topic that fits.

    There are none for a hypothesis, a quotation and a past habit; a plan is one whatever it is about.
    """
    features = analysis.features
    if features & (StatementFeature.HYPOTHESIS | StatementFeature.QUOTATION | StatementFeature.HABIT):
        return ()
    if features & StatementFeature.PLAN:
        return (ProfileTopic.PLANS,)
    topics = tuple(topic for topic, feature in _ATTRIBUTES.items() if features & feature)
    if analysis.subject and not topics:
        topics = tuple(topic for topic, feature in _THEIR_ATTRIBUTES.items() if features & feature)
    if topics:
        return topics
    small = text.lower()
    return next(((topic,) for topic, pattern in _patterns().items() if pattern.search(small)), ())


@cache
def _patterns() -> dict[ProfileTopic, re.Pattern[str]]:
    """Return the pattern of each topic that has one, in the order in which they are tried."""
    file = ConfigParser(delimiters=("=",), interpolation=None)
    file.read(Path(__file__).with_name("profile_topics.ini"), "utf-8")
    words: dict[str, list[str]] = {}
    for language in file.sections():
        for topic, text in file[language].items():
            alternatives = text.replace("\n", "")
            words.setdefault(topic, []).append(alternatives if language == _ANYWHERE else rf"\b(?:{alternatives})\b")
    return {ProfileTopic(topic): re.compile("|".join(patterns)) for topic, patterns in words.items()}
