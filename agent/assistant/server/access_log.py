"""Access log of a server: one line for each request, by the pattern of its path; no word of it, and no token.

``access.log`` is in the state folder (0600), at most two files of a megabyte.
"""

from __future__ import annotations

import logging
import os
from collections.abc import MutableMapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

_BYTES: Final = 1_000_000
_LONGEST: Final = 40


class _SharedFileHandler(RotatingFileHandler):
    """Handler of a file that several workers write: where another one has begun a new file, it goes on there."""

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802 - the name of the standard library
        """Return whether the file is full; it is that which has the name now."""
        path = Path(self.baseFilename)
        if self.stream is not None and not (
            path.exists() and os.path.samestat(os.fstat(self.stream.fileno()), path.stat())
        ):
            self.close()
            self.stream = self._open()
        return bool(super().shouldRollover(record))


class AccessLog:
    """Log in *folder*, which is made; what cannot be written is no reason not to answer."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / "access.log"
        path.touch(mode=0o600)
        self._handler = _SharedFileHandler(path, maxBytes=_BYTES, backupCount=1, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self._log = logging.Logger("tellback.access", logging.INFO)
        self._log.addHandler(self._handler)

    def __call__(self, scope: MutableMapping[str, Any], status: int, seconds: float) -> None:
        """Log a request that has ended; status 0: its client went away before there was an answer."""
        caller = scope.get("state", {}).get("caller")
        who = "-" if caller is None else caller.name or "owner"
        client = (scope.get("client") or ("-",))[0]
        method = scope["method"] if scope["method"].isalpha() else "?"
        path = getattr(scope.get("route"), "path", "?")  # the pattern, which has no id
        line = (client, who, method[:_LONGEST], path, status, round(seconds * 1000))
        self._log.info("%s %s %s %s %d %dms", *(_plain(part) if isinstance(part, str) else part for part in line))

    def close(self) -> None:
        """Release the file."""
        self._handler.close()


def _plain(text: str) -> str:
    return "".join(letter if letter.isprintable() and letter != " " else "_" for letter in text) or "-"
