"""Checks whether words of the right shape can be a secret: checksums, placeholders, and ordinary words.

Pure. Each function takes what a pattern of ``patterns`` found.
"""

from __future__ import annotations

import re
from hashlib import sha256
from itertools import pairwise
from typing import Final

# Patterns are texts: re compiles one when a text first looks like a secret, which few processes see.
_PLACEHOLDER: Final = (
    r"(?i)[<{\[(].*|\$(?:[{(].*|[A-Z_]{3,}[0-9]*)|(?-i:%(?:[sdr]|\(.*))|\$(?:2[aby]|argon2\w*|[156]|scrypt)\$.*"
    r"|your[_\- ][a-z_\- ]*|(?:(?:an?|my|the|example|sample|dummy|fake|placeholder|redacted|insert|enter|put|api|access"
    r"|secret|key|token|password|here)[_\- .]?)+|[x*.…•#_\-]+|\W*"
    r"|(?-i:AKIAIOSFODNN7EXAMPLE|wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY)"  # AWS's own, in thousands of manuals
    r"|(?:pass(?:word|wd|phrase)?|pw|pwd|secret|token|key|user|username|none|null|nil|true|false|undefined|changeme"
    r"|hidden|empty|unknown|required|optional|string|str|bytes|int|bool|object|any|todo|tbd|n/a)[\"'`,;.)\]]*"
)
_CODE_EXPRESSION: Final = (
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Za-z_][\w.]*[(\[{].*|.*\)\.?.*\(.*|[a-z]+(?:[_\-][a-z]+)+"
)
_CAMEL_CASE: Final = r"_*[A-Z]*[a-z]{2,}(?:[A-Z]+[a-z]{2,})*[A-Z]*[0-9]?"
"""A name in code, such as ``SecretsOption``: no password has to look otherwise, but a key does."""
_CLOSING_SIGNS: Final = "\"'`,;.)]}>"
_ATTRIBUTE_TEXT: Final = """\
about above accepted again allowed already also always another around attached available because below better
blank called case changed checked clear compromised configured confidential correct created default deleted
different disabled displayed easy empty enabled encrypted enough entered everywhere exactly expired expiring fine
forgotten found generated given gone good hashed here hidden identical important incorrect inside invalid issued
known leaked likely locked long longer lost mandatory missing mine needed never nothing often okay only optional
outdated personal posted printed private protected public random read ready recommended redacted rejected
required reset right rotated safe salted same saved secret secure sensitive sent shared short shown simple
somewhere stale static still stolen stored strong stronger synced temporary terrible their there these those
though transmitted typed unchanged unclear undefined unique unknown unset unsafe updated useless users using valid
visible weak weaker where which whatever without working written wrong yours"""
_ATTRIBUTES: Final = frozenset(_ATTRIBUTE_TEXT.split())
_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_CARD_ISSUERS: Final = (  # first digits from, to, and the lengths that they have
    ("4", "4", {13, 16, 19}),
    ("51", "55", {16}),
    ("2221", "2720", {16}),
    ("34", "34", {15}),
    ("37", "37", {15}),
    ("6011", "6011", {16, 19}),
    ("644", "659", {16, 19}),
    ("3528", "3589", {16, 19}),
    ("300", "305", {14}),
    ("36", "36", {14}),
    ("38", "39", {14}),
    ("62", "62", {16, 17, 18, 19}),
)
IBAN_LENGTHS: Final = {  # by country, from the registry of ISO 13616
    15: "NO", 16: "BE", 18: "DK FI FK FO GL NL SD", 19: "MK SI", 20: "AT BA EE KZ LT LU MN XK", 21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA", 23: "AE GI IL IQ OM SO TL", 24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST", 26: "IS TR", 27: "BI DJ FR GR IT MC MR SM", 28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip
_CARD_GROUPS: Final = ([4, 4, 4, 4], [4, 6, 5], [4, 6, 4], [4, 4, 4, 4, 3], [4, 4, 4, 1])


def is_no_placeholder(value: str) -> bool:
    """Return whether *value* is more than a place to put a secret (``<password>``, ``$TOKEN``, ``****``)."""
    return re.fullmatch(_PLACEHOLDER, value) is None


def is_key(value: str) -> bool:
    """Return whether *value*, found in the position of a key, looks drawn at random and is no piece of code."""
    stripped = value.rstrip(_CLOSING_SIGNS)
    if (
        not is_no_placeholder(stripped)
        or re.fullmatch(_CODE_EXPRESSION, stripped)
        or re.fullmatch(_CAMEL_CASE, stripped)
        or len(stripped) < 8
    ):
        return False
    return count_kind_changes(stripped) >= (3 if len(stripped) >= 12 else 4) or bool(
        re.search(r"[!@#$%^&*]", stripped) and count_kind_changes(stripped)
    )


def is_password(value: str) -> bool:
    """Return whether *value*, found in the position of a password, is one and not the rest of a sentence."""
    stripped = value.strip("\"'`“”").rstrip(_CLOSING_SIGNS)
    if len(stripped) < 4 or not is_no_placeholder(stripped) or re.fullmatch(_CODE_EXPRESSION, stripped):
        return False
    if re.fullmatch(r"[0-9]{1,3}-[0-9]{1,3}|(?:~|\.{0,2})/.*|https?:.*", stripped):
        return False  # "12-16 characters"; a folder; where it can be looked up
    return bool(re.search(r"[0-9!@#$%^&*_+=~]", stripped) or re.search(r"[a-z][A-Z]", stripped))


def is_password_word(value: str) -> bool:
    """Return whether a word that ends "my password is …" can be the password: not what one says about passwords."""
    return is_no_placeholder(value) and value.lower() not in _ATTRIBUTES


def is_card_number(value: str) -> bool:
    """Return whether *value* can be a payment card's number: first digits, length, grouping and Luhn's checksum."""
    digits = re.sub("[ -]", "", value)
    groups = [len(part) for part in re.split("[ -]", value)]
    if len(groups) > 1 and groups not in _CARD_GROUPS:
        return False
    issued = any(low <= digits[: len(low)] <= high and len(digits) in lengths for low, high, lengths in _CARD_ISSUERS)
    return issued and has_luhn_checksum(digits)


def has_luhn_checksum(digits: str) -> bool:
    """Return whether the last of *digits* is the checksum of the others (ISO/IEC 7812-1, annex B)."""
    doubled = [2 * int(digit) if index % 2 else int(digit) for index, digit in enumerate(reversed(digits))]
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def is_iban(value: str) -> bool:
    """Return whether *value*, which may be grouped, has the checksum of an IBAN: 1 modulo 97 (ISO 13616)."""
    letters = "".join(character for character in value if character.isalnum())
    return (
        2 <= int(letters[2:4]) <= 98
        and int("".join(str(int(character, 36)) for character in letters[4:] + letters[:4])) % 97 == 1
    )


def is_wallet_key(value: str) -> bool:
    """Return whether *value* is base58 that ends with its checksum (Bitcoin's Base58Check)."""
    number = 0
    for character in value:
        number = number * 58 + _BASE58.index(character)
    data = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return len(data) > 4 and sha256(sha256(data[:-4]).digest()).digest()[:4] == data[-4:]


def count_kind_changes(value: str) -> int:
    """Return the number of changes from one kind of character (small, capital, digit) to another in *value*."""
    kinds = [
        "d" if character.isdigit() else "u" if character.isupper() else "l"
        for character in value
        if character.isalnum()
    ]
    return sum(a != b for a, b in pairwise(kinds))
