"""The loader of PDF: text by pypdf in a child process with limits on time and memory. No OCR, no layout analysis.

Two columns may interleave and tables come as lines; a scan without a text layer is refused instead of being indexed as
an empty text.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess  # only our own worker is run, by absolute path
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory.documents.loaders.base import LoadedDocument
from memory.errors import LoadError
from vectorstore import MissingExtra

_WORKER = Path(__file__).with_name("pdf_worker.py")
_PASSED_VARIABLES = [
    "PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "HOME",
    "USERPROFILE",
    "APPDATA",
    "SYSTEMROOT",
    "TMPDIR",
    "TEMP",
    "TMP",
]
"""The worker sees these variables of the environment and no others: no keys."""
_ERROR_MESSAGES = {
    "encrypted": "encrypted; take the password off first",
    "long": "more text than is read from one PDF",
    "memory": "needs too much memory to parse; not read",
    "broken": "not a readable PDF",
}
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
_BROKEN_WORD = re.compile(r"(?<![^\W\d_])(?P<first>[^\W\d_]++)-\n(?P<rest>[^\W\d_]++)")
_COMPOUND = re.compile(r"(?<![^\W\d_])[^\W\d_]++-[^\W\d_]++")
_SENTENCE_ENDS = (".", "!", "?", ":", ";", "”", '"', ")", "…")


@dataclass(frozen=True, slots=True)
class PdfLoader:
    """Loads ``.pdf``; needs the extra ``docs``."""

    seconds: int = 60
    memory: int = 1 << 30
    characters: int = 20_000_000
    worker: Path = _WORKER

    name = "pdf/1"
    media_type = "application/pdf"

    def load(self, data: bytes, source: str) -> LoadedDocument:
        """Return the text of all pages with their spans."""
        if b"%PDF-" not in data[:1024]:
            raise LoadError(source, "not a PDF file")
        if importlib.util.find_spec("pypdf") is None:
            raise MissingExtra("reading a PDF", "docs")
        answer = self._answer(data, source)
        if error := answer.get("error"):
            if error == "missing":
                raise MissingExtra("reading a PDF", "docs")
            raise LoadError(source, _ERROR_MESSAGES[error])
        text, pages = join_pages(answer["pages"])
        if not text.strip():
            raise LoadError(source, "no text layer; OCR is not included")
        return LoadedDocument(text=text, title=_clean_text(answer["title"]).strip(), pages=pages)

    def _answer(self, data: bytes, source: str) -> dict[str, Any]:
        limits = map(str, (self.memory, self.seconds, self.characters))
        command = [sys.executable, "-P", str(self.worker), *limits]
        environment = {name: os.environ[name] for name in _PASSED_VARIABLES if name in os.environ}
        try:
            done = subprocess.run(  # noqa: S603 - our own interpreter and script, no shell
                command, input=data, capture_output=True, timeout=self.seconds, check=False, env=environment
            )
        except subprocess.TimeoutExpired as error:
            raise LoadError(source, f"took more than {self.seconds} seconds to parse; not read") from error
        try:
            answer: dict[str, Any] = json.loads(done.stdout)
        except ValueError as error:  # killed by a limit before it could answer
            raise LoadError(source, "the parser gave up on it (out of memory or time); not read") from error
        return answer


def join_pages(pages: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the text of all *pages* and their spans.

    A page that ends in the middle of a sentence is followed by a line end, any other by an empty line, so
    that the borders of paragraphs are where they were.
    """
    cleaned = [_clean_text(page).strip("\n") for page in pages]
    compounds = {word for page in cleaned for word in _COMPOUND.findall(page)}
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    position = 0
    for page in cleaned:
        whole = _BROKEN_WORD.sub(lambda match: _join_word(match, compounds), page)
        if parts:
            last = parts[-1].rstrip()
            separator = "\n" if last and not last.endswith(_SENTENCE_ENDS) else "\n\n"
            parts.append(separator)
            position += len(separator)
        parts.append(whole)
        spans.append((position, position + len(whole)))
        position += len(whole)
    return "".join(parts), tuple(spans)


def _join_word(match: re.Match[str], compounds: set[str]) -> str:
    """Return a word that a line end cut in two; the hyphen stays if the document has it in mid-line."""
    first, rest = match["first"], match["rest"]
    if not (first[-1].islower() and rest[0].islower()):
        return match[0]
    return f"{first}-{rest}" if f"{first}-{rest}" in compounds else first + rest


def _clean_text(text: str) -> str:
    """Return *text* without what a PDF's fonts leave behind: ligatures, NULs, halves of surrogate pairs."""
    text = text.translate(_LIGATURES).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
