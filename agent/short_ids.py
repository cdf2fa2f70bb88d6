"""Short forms of generated ids: the last five characters, which people and models read and name.

The ids of one hour begin alike, with the time, and end at random.
"""

from __future__ import annotations

import re
from typing import Final

SHORT_LENGTH: Final = 5
MADE_BY_US: Final = re.compile(
    r"[0-9a-hjkmnp-tv-z]{16}|k[0-9a-hjkmnp-tv-z]{20}|c[a-z2-7]{16}"  # a memory, one with a key, a passage
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"  # a session
)
_OF_ANOTHER_PROGRAM: Final = re.compile(r"[a-z-]+:[\w-]{16,}")


def short_id(id: str) -> str:
    """Return the end of a generated id, or of another program's session; a name that a person gave stays whole."""
    if _OF_ANOTHER_PROGRAM.fullmatch(id):
        return f"{id.partition(':')[0]}:{id[-SHORT_LENGTH:]}"
    base, separator, revision = id.partition("@")
    return base[-SHORT_LENGTH:] + separator + revision if MADE_BY_US.fullmatch(base) else id
