"""The loader of e-books (``.epub``): the chapters in the order of reading, as Markdown."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from tellback.memory.documents.loaders.archive import Archive, below, child, core_fields, resolve
from tellback.memory.documents.loaders.base import DEFAULT_LIMITS, LoadedDocument, LoadLimits
from tellback.memory.documents.loaders.html import decode_html, main_text
from tellback.memory.documents.loaders.html_tree import parse_html
from tellback.memory.errors import LoadError

_CONTAINER: Final = "META-INF/container.xml"
_PROTECTED: Final = frozenset({"META-INF/rights.xml", "META-INF/sinf.xml"})
_PAGES: Final = frozenset({"application/xhtml+xml", "text/html"})


def read_epub(data: bytes, source: str, limits: LoadLimits = DEFAULT_LIMITS) -> LoadedDocument:
    """Return the text of all chapters of an e-book; a protected one is refused."""
    archive = Archive(data, source, limits)
    if not _PROTECTED.isdisjoint(archive.names):
        raise LoadError(source, "protected against reading")
    package_name = next((file.get("full-path", "") for file in below(archive.xml(_CONTAINER), "rootfile")), "")
    package = archive.xml(package_name)
    items = {item.get("id", ""): item for item in below(package, "item")}
    parts: list[str] = []
    notes: list[str] = []
    for reference in below(package, "itemref"):
        item = items.get(reference.get("idref", ""))
        if item is None or item.get("media-type") not in _PAGES or "nav" in item.get("properties", "").split():
            continue
        name = resolve(package_name, unquote(item.get("href", "")))
        if name not in archive.names:
            notes.append(f"{name} is missing in the book")
            continue
        page, _ = decode_html(archive.read(name), source)
        if text := main_text(parse_html(page)).text.strip():
            parts.append(text)
    fields = core_fields(child(package, "metadata"))
    return LoadedDocument(text="\n\n".join(parts), title=fields.pop("title", ""), metadata=fields, notes=tuple(notes))
