"""The loader of RTF by ``striprtf``: paragraphs and tables as plain text; RTF marks no headings."""

from __future__ import annotations

import re

from tellback.memory.documents.loaders.base import LoadedDocument
from tellback.memory.errors import LoadError

_BLANKS = re.compile(r"[ \t\u00a0]+$", re.MULTILINE)
_TITLE = re.compile(rb"\{\\title\s+([^{}\\]+)\}")


def read_rtf(data: bytes, source: str) -> LoadedDocument:
    """Return the text of a document, each of its lines as a paragraph."""
    from striprtf.striprtf import rtf_to_text

    if not data.lstrip().startswith(b"{\\rtf"):
        raise LoadError(source, "not an RTF file")
    text = _BLANKS.sub("", rtf_to_text(data.decode("latin-1"), errors="replace")).strip()
    title = _TITLE.search(data[:4096])
    return LoadedDocument(
        text=re.sub(r"\n+", "\n\n", text), title=title[1].decode("latin-1").strip() if title is not None else ""
    )
