"""Agent nouns: names of who does what a verb of a question says, as the founder of what was founded. English rules.

>>> agent_nouns("Who founded the Harbour project?")
{'founder': 'founded', 'foundor': 'founded'}
"""

from __future__ import annotations

import re

_ASKS_WHO = re.compile(r"\W*(?:(?:and|but|so) )?who(?:m|se)?\b", re.IGNORECASE)
_REGULAR_PAST = re.compile(r"\b([a-z]{2,}ed)\b")


def agent_nouns(question: str) -> dict[str, str]:
    """Return the nouns that could say who did what *question* asks, each with its verb; empty unless it asks who.

    They are made by rule: of two that a verb gives, one at most is a word.
    """
    verbs = _REGULAR_PAST.findall(question) if _ASKS_WHO.match(question) else []
    return {noun: verb for verb in verbs for noun in (f"{verb[:-2]}er", f"{verb[:-2]}or")}
