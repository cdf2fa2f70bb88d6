"""Search of the bytes of files for texts, in a process of its own: what verification and erased backups share."""

from __future__ import annotations

import json
import subprocess  # only our own script is run, by absolute path
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tellback.vectorstore import VectorStoreError

MIN_TEXT_LENGTH: Final = 4
"""Shorter texts stand in any file by chance."""
_SCRIPT: Final = Path(__file__).with_name("bytes_search.py")
_MAX_WHOLE_LENGTH, _PIECE_LENGTH, _MAX_PIECES = 200, 48, 100
"""A long text spans pages of the file: it is searched for in pieces, of which a page's border cuts few."""


def text_pieces(text: str) -> list[str]:
    """Return *text*, or pieces of a long one, to be searched for in the bytes of files."""
    if len(text) <= _MAX_WHOLE_LENGTH:
        return [text]
    starts = range(0, len(text) - _PIECE_LENGTH, max(_PIECE_LENGTH, (len(text) - _PIECE_LENGTH) // _MAX_PIECES))
    return [text[start : start + _PIECE_LENGTH] for start in starts]


def run_search(files: Sequence[str], texts: Sequence[str]) -> dict[str, Any]:
    """Run the search script over *files*; return its answer."""
    search = subprocess.run(  # noqa: S603 - our own interpreter and script, no shell
        [sys.executable, "-I", str(_SCRIPT)],
        input=json.dumps({"files": list(files), "texts": list(texts)}).encode(),
        capture_output=True,
        check=False,
    )
    try:
        answer: dict[str, Any] = json.loads(search.stdout)
    except ValueError as error:
        raise VectorStoreError("the search of the files' bytes did not answer; try again") from error
    return answer
