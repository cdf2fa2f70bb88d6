"""Which participants a question names, and the question without their names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

_SHORTEST = 2
_IDEOGRAPH = "[\u3400-\u4dbf\u4e00-\u9fff]"
_BEGINS = rf"(?:(?<!\w)|(?={_IDEOGRAPH}))"
_ENDS = rf"(?:(?!\w)|(?<={_IDEOGRAPH}))"
"""Chinese is written without spaces: a name stands inside a run."""
_POSSESSIVE = r"(?:['\u2019]s?)?"


@dataclass(frozen=True, slots=True)
class Addressed:
    """The question without names (*bare*), and the numbers of those it names."""

    bare: str
    named: tuple[int, ...]


def addressed(
    text: str,
    people: Sequence[tuple[int, str]],
    aliases: Mapping[str, int],
    *,
    ordinary: Callable[[str], bool],
    possessive: str = _POSSESSIVE,
) -> Addressed:
    """Find people and their aliases in *text*. *ordinary* tells a word that is more than a name ("will").

    *possessive* is a pattern of what a name may carry. A word counts as a name where it is written with a capital; in a
    text without any, also in small letters unless it is an ordinary word.
    """
    names = _forms(people, aliases)
    if not names:
        return Addressed(text, ())
    shouted = not any(letter.isupper() for letter in text)
    named: set[int] = set()

    def judge(match: re.Match[str]) -> str:
        word = match["word"]
        who = names.get(word.lower(), ())
        opening = not text[: match.start()].strip()
        small = not word[:1].isupper()
        if (small and not shouted and word.isascii()) or ((small or opening) and ordinary(word.lower())):
            return match.group()
        named.update(who)
        return " "

    pattern = "|".join(re.escape(form) for form in sorted(names, key=len, reverse=True))
    bare = re.sub(rf"{_BEGINS}(?P<word>{pattern}){possessive}{_ENDS}", judge, text, flags=re.IGNORECASE)
    bare = " ".join(bare.split())
    return Addressed(bare if any(letter.isalnum() for letter in bare) else text, tuple(sorted(named)))


def _forms(people: Sequence[tuple[int, str]], aliases: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Return who is meant by each small-letter form: whole names, their parts, aliases."""
    forms: dict[str, set[int]] = {}
    for number, name in people:
        for part in {name, *name.split()}:
            if len(part) >= _SHORTEST and any(letter.isalpha() for letter in part):
                forms.setdefault(part.lower(), set()).add(number)
    for alias, number in aliases.items():
        forms.setdefault(alias.lower(), set()).add(number)
    return {form: tuple(sorted(who)) for form, who in forms.items()}
