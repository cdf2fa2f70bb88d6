"""Whether words are a question or a statement, told without a model, by rules of a few languages. Pure.

A rule that fails costs little: a question taken for a statement is kept and acknowledged, a statement taken for a
question is kept and answered with what is known about it.
"""

from __future__ import annotations

import re

# Question marks: Latin, full width, Arabic, doubled, Greek.
_MARK = re.compile("[?\uff1f\u061f\u2047\u037e](?=[\\s\"'\u201d\u2019\u00bb)\\]]|$)")
_OPENING = re.compile(
    r"(?:[\W_]+|(?:and|but|so|then|ok|okay|well|hey|hi|hello|please|now|also|mneme)\b(?!'))*", re.IGNORECASE
)
_ASKED_ABOUT = (
    r"i|you|he|she|it|we|they|there|this|that|these|those|the|my|your|our|his|her|their|any\w*|some\w*|every\w*|all"
)
_BEGINS = re.compile(
    r"(?:who|whom|whose|what|when|where|why|which|how)(?:'s|'re|'d|'ll)?\b"
    rf"|(?:do|does|did|is|are|was|were|am|can|could|will|would|should|shall|has|have|had)\s+(?:{_ASKED_ABOUT})\b"
    r"|(?:tell|remind|show)\s+me\b(?!\s+to\b)|(?:list|find|search|summari[sz]e|explain|describe|quote)\s"
    r"|(?:wer|wen|wem|wessen|wann|wohin|woher|warum|wieso|weshalb|welche[rsnm]?)\b"
    r"|(?:qui|quoi|quand|où|pourquoi|combien|quels?|quelles?|est-ce)\b"
    r"|(?:quién|quiénes|qué|cuándo|dónde|cómo|cuánto|cuál|cuáles)\b"
    r"|(?:quando|dove|perché|quanto|quale|quali|quem|onde|qual|quais)\b",
    re.IGNORECASE,
)
_STATES = re.compile(r"(?:when|where|how|what)\b.*,|(?:list|find|quote)\s.*\b(?:is|was|are|were)\b", re.IGNORECASE)


def is_question(text: str) -> bool:
    """Whether *text* asks something: a question mark that ends a sentence, or words that begin a question."""
    bare = text.strip()
    if _MARK.search(bare):
        return True
    opened = bare[len(_OPENING.match(bare)[0]) :]  # type: ignore[index]  # it matches the empty text too
    # "When I was young, we lived in Porto." and "What a day!" begin like questions and state something.
    return bool(_BEGINS.match(opened)) and not opened.endswith("!") and not _STATES.match(opened)
