"""Ways to damage a file, by name: each a function of its bytes and a seeded generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

_PAGE = 4096
Wound = Callable[[bytearray, random.Random], bytearray]


def _one_bit(content: bytearray, rng: random.Random) -> bytearray:
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return content


def _some_bytes(content: bytearray, rng: random.Random) -> bytearray:
    for _ in range(rng.randint(2, 40)):
        if content:
            content[rng.randrange(len(content))] = rng.randrange(256)
    return content


def _in_a_head(content: bytearray, rng: random.Random) -> bytearray:
    """Where the structure of pages is: their first bytes, and those of the file."""
    pages = max(1, len(content) // _PAGE)
    position = rng.randrange(pages) * _PAGE + rng.choice([rng.randrange(100), rng.randrange(16)])
    if position < len(content):
        content[position] ^= rng.randrange(1, 256)
    return content


def _cut(content: bytearray, rng: random.Random) -> bytearray:
    return content[: rng.choice([rng.randrange(len(content) + 1), rng.randrange(len(content) // _PAGE + 1) * _PAGE])]


def _emptied(content: bytearray, rng: random.Random) -> bytearray:
    return bytearray()


def _page(new: Callable[[bytearray, random.Random], bytes]) -> Wound:
    def wound(content: bytearray, rng: random.Random) -> bytearray:
        position = rng.randrange(max(1, len(content) // _PAGE)) * _PAGE
        size = len(content[position : position + _PAGE])
        content[position : position + size] = new(content, rng)[:size]
        return content

    return wound


def _another_page(content: bytearray, rng: random.Random) -> bytes:
    position = rng.randrange(max(1, len(content) // _PAGE)) * _PAGE
    return bytes(content[position : position + _PAGE]).ljust(_PAGE, b"\0")


def _lengthened(content: bytearray, rng: random.Random) -> bytearray:
    return content + rng.randbytes(rng.randint(1, 3 * _PAGE))


WOUNDS: Mapping[str, Wound] = {
    "one bit": _one_bit,
    "some bytes": _some_bytes,
    "a byte in a head": _in_a_head,
    "cut": _cut,
    "emptied": _emptied,
    "a page of noise": _page(lambda _, rng: rng.randbytes(_PAGE)),
    "a page of zeros": _page(lambda *_: bytes(_PAGE)),
    "a page over another": _page(_another_page),
    "lengthened": _lengthened,
}
