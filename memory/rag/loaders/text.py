"""Plain text, logs and source code: the text as it stands. Splits nothing and highlights nothing."""

from __future__ import annotations

from memory.rag.loaders.decoding import decode
from memory.rag.loaders.protocol import Loaded


class TextLoader:
    """Loads what is text and has no structure that we read."""

    name = "text/1"
    media_type = "text/plain"

    def load(self, data: bytes, source: str) -> Loaded:
        """Return the file's text; it has no title."""
        text, notes = decode(data, source)
        return Loaded(text=text, notes=notes)
