"""Requests in plain words: "forget that …", "no, …", which corrects a memory, and "what do you know about me?".

The words only propose: the memories found are shown, and nothing is done without a yes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tellback.agent.desk.desk import MemoryDesk
    from tellback.memory import Memory
    from tellback.vectorstore import Analyzer

_FORGET: Final = re.compile(
    r"(?:please |bitte )?(?:forget|delete|erase|vergiss|vergesse?n?|lösche|olvida|borra|oublie|efface)"
    r"(?:,)?(?: about| that| dass| que| was)? (?P<what>.+)"
    r"|(?:请)?(?:忘记|忘掉|删除)(?P<chinese>.+)",
    re.IGNORECASE | re.DOTALL,
)
_PROFILE: Final = re.compile(
    r"(?:so,? |and |ok,? )?(?:(?:what|tell me (?:what|everything)) (?:do )?you (?:know|remember|have) about me"
    r"|what (?:is|do you have) (?:known|remembered|stored) about me"
    r"|was wei(?:ß|ss)t du (?:alles )?über mich|qué sabes (?:de|sobre) mí|que sais-tu (?:de|sur) moi)"
    r"|你(?:都)?知道(?:关于)?我(?:的)?(?:什么|哪些)(?:事情?)?|你对我(?:了解|知道)(?:多少|什么)",
    re.IGNORECASE,
)
_REMINDER: Final = re.compile(r"\b(?:remind me|erinner\w* mich|recu[ée]rdame|rappelle-moi)\b|提醒我", re.IGNORECASE)
_NOTHING_NAMED: Final = re.compile(r"(?:it|that|this|about it|das|es|eso|ça|cela)?[\s.!]*", re.IGNORECASE)
_NO: Final = r"(?:no|nope|nah|nein|non|wrong|falsch|actually|correction|sorry|i meant?|korrektur|不对|不是|不)"
_WRONG: Final = r"that's (?:wrong|not right)"
_MORE: Final = rf"(?:wait|sorry|actually|rather|i meant?|{_WRONG}|moment|warte|espera|attends)"
_CORRECTION: Final = re.compile(
    rf"(?:oh[\s,]+)?{_NO}(?:[\s,.:;!–—-]+{_MORE}\b)*(?:[,.:;!–—，。：]+|\s+-+|(?<=wait|ally|tion|orry|eant)(?=\s))\s*(?P<says>.+)"
    rf"|(?:oh[\s,]+)?(?:{_NO}(?:[\s,.:;!–—-]+{_MORE}\b)+|{_WRONG}\b)[\s,.:;!–—-]*(?P<then>.+)",
    re.IGNORECASE | re.DOTALL,
)
_PRONOUN: Final = re.compile(
    r"(?:it's|he's|she's|they're|his|her|its|their|he|she|it|they|sein|seine|ihr|ihre|er|sie|es|su|sus|son|sa|他的|她的|他|她)\b\s*",
    re.IGNORECASE,
)
_CLAUSE: Final = re.compile(r"[^,;.!?。，；]+(?:\.(?=\S)[^,;.!?。，；]+)*")
_JOINT: Final = re.compile(
    r"\s+(?:and|but|because|while|who|which|und|aber|weil|y|pero|porque|et|mais|parce que)\s+", re.IGNORECASE
)
"""Words between two clauses that a comma may be missing from."""
_MONTH: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez)\w*\.?"
_VALUES: Final = (
    re.compile(
        rf"\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{_MONTH}(?:\s+\d{{4}})?"
        rf"|\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+\d{{4}})?"
        r"|\b\d{4}-\d\d-\d\d\b",
        re.IGNORECASE,
    ),
    re.compile(r"\b\d{1,2}:\d\d\b"),
    re.compile(r"\b\d[\d.,]*\d\b|\b\d\b"),
)
"""Shapes of values: a day, a time of day, a number. A bare value replaces a value of the same shape."""


def asks_for_profile(line: str) -> bool:
    """Return whether *line* asks what is known about its speaker."""
    return _PROFILE.fullmatch(line.strip().rstrip("?.!？。 ")) is not None


def asks_for_reminder(line: str) -> bool:
    """Return whether *line* asks to be reminded of something at its time, which a memory does not do by itself."""
    return _REMINDER.search(line) is not None


def forget_request(line: str) -> str | None:
    """Return what *line* asks to forget, "" where it names nothing ("forget that"); None for any other line."""
    match = _FORGET.fullmatch(line.strip())
    if match is None:
        return None
    what = (match["what"] or match["chinese"]).rstrip(".!。 ")
    return "" if _NOTHING_NAMED.fullmatch(what) else what


def correction_request(line: str) -> str | None:
    """Return the statement of a *line* that corrects something ("no, …"); None for any other line."""
    from tellback.agent.quoting import is_question

    match = _CORRECTION.fullmatch(line.strip())
    if match is None:
        return None
    statement = (match["says"] or match["then"]).strip()
    return None if not statement or is_question(statement) else statement


async def propose_correction(
    desk: MemoryDesk, statement: str, focus: Sequence[str], analyzer: Analyzer
) -> tuple[Memory, str] | None:
    """Return the memory that *statement* corrects, with its new text; None where no memory is about it.

    *focus* are the ids of the memories mentioned last, latest first; they come before those that recall finds.
    """
    near = [known for known in await desk.get(focus) if known is not None] if focus else []
    hits = await desk.recall(statement, 5)
    candidates = {known.id: known for known in (*near, *(hit.memory for hit in hits)) if _is_statement(known)}
    terms = set(analyzer.terms(statement))
    shared = {id: len(terms.intersection(analyzer.terms(known.text))) for id, known in candidates.items()}
    best = max(candidates, key=lambda id: shared[id], default=None)
    if best is None:
        return None
    if shared[best]:
        text = corrected_text(candidates[best].text, statement, analyzer)
    else:
        bare = ((known, _with_value(known.text, statement)) for known in near if known.id in candidates)
        known, text = next(((known, changed) for known, changed in bare if changed), (None, ""))
        if known is None:
            return None
        best = known.id
    return None if text == candidates[best].text else (candidates[best], text)


async def memories_about(desk: MemoryDesk, what: str, analyzer: Analyzer) -> list[Memory]:
    """Return the memories that share most words with *what*, best first; the nearest where none do."""
    found = await desk.recall(what, 5, all_utterances=True)
    memories = [hit.memory for hit in found if _is_statement(hit.memory)]
    terms = set(analyzer.terms(what))
    shared = [len(terms.intersection(analyzer.terms(memory.text))) for memory in memories]
    most = max(shared, default=0)
    return [memory for memory, count in zip(memories, shared, strict=True) if count == most]


def corrected_text(old: str, statement: str, analyzer: Analyzer) -> str:
    """Return *old* with the clause replaced that shares most words with *statement*, or the value of the same shape.

    A pronoun at the beginning of *statement* stands for the subject of the clause.

    >>> corrected_text("Marek's birthday is on 14 March.", "his birthday is 15 March", Analyzer())
    "Marek's birthday is 15 March."
    """
    words = statement.rstrip(".!。 ")
    terms = set(analyzer.terms(words))
    clauses = _most_shared([match.span() for match in _CLAUSE.finditer(old)], old, terms, analyzer)
    if not clauses:
        return _with_value(old, words) or statement
    start, end = clauses[0]
    if _JOINT.search(words) is None:
        joints = [place for match in _JOINT.finditer(old, start, end) for place in match.span()]
        parts = list(pairwise([start, *joints, end]))[::2]
        best = _most_shared(parts, old, terms, analyzer)
        start, end = best[0] if len(best) == 1 else (start, end)  # what is said beside it stays
    start, end = end - len(old[start:end].lstrip()), start + len(old[start:end].rstrip())
    if _is_value(words) and (changed := _with_value(old[start:end], words)):
        words = changed
    elif (pronoun := _PRONOUN.match(words)) is not None:
        words = _subject(old[start:end], words[pronoun.end() :], pronoun[0], analyzer) + words[pronoun.end() :]
    if start == 0 and old[:1].isupper():
        words = words[:1].upper() + words[1:]
    return old[:start] + words + old[end:]


def _most_shared(
    spans: Sequence[tuple[int, int]], text: str, terms: set[str], analyzer: Analyzer
) -> list[tuple[int, int]]:
    """Return those of *spans* of *text* that have most of *terms*; none where no span has any."""
    shared = [len(terms.intersection(analyzer.terms(text[start:end]))) for start, end in spans]
    most = max(shared, default=0)
    return [span for span, count in zip(spans, shared, strict=True) if count == most > 0]


def _subject(clause: str, rest: str, pronoun: str, analyzer: Analyzer) -> str:
    """Return the beginning of *clause* before the first word that it shares with *rest*; else the *pronoun*."""
    wanted = set(analyzer.terms(rest))
    first = rest.split(maxsplit=1)[0].casefold() if rest.split() else ""
    for word in re.finditer(r"\S+", clause):
        if word[0].casefold() == first or wanted.intersection(analyzer.terms(word[0])):
            return clause[: word.start()] if word.start() else pronoun
    return pronoun


def _is_value(words: str) -> bool:
    return any(shape.fullmatch(words.strip().rstrip(".")) for shape in _VALUES)


def _with_value(old: str, statement: str) -> str:
    """Return *old* with its only value of the shape of *statement* replaced; "" where it has none, or several."""
    value = statement.strip().rstrip(".!。 ")
    bare = re.sub(r"(?:it's|it is|on|at|am|um|el|le|es ist)\s+", "", value, count=1, flags=re.IGNORECASE)
    for shape in _VALUES:
        if shape.fullmatch(bare):
            places = list(shape.finditer(old))
            if len(places) == 1:
                return old[: places[0].start()] + bare + old[places[0].end() :]
            return ""
    return ""


def _is_statement(memory: Memory) -> bool:
    return memory.source is None or memory.source.document is None
