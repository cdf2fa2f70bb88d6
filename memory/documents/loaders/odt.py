"""The loader of OpenDocument texts (``.odt``): headings, lists and tables as Markdown."""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element as XmlElement

from tellback.memory.documents.loaders.archive import MAX_XML_DEPTH, Archive, attribute, child, core_fields, local_name
from tellback.memory.documents.loaders.base import DEFAULT_LIMITS, LoadedDocument, LoadLimits
from tellback.memory.documents.loaders.html_markdown import write_markdown
from tellback.memory.documents.loaders.html_tree import Element, Node
from tellback.memory.errors import LoadError

_TAGS: Final = {
    "p": "p",
    "list": "ul",
    "list-item": "li",
    "list-header": "li",
    "table": "table",
    "table-row": "tr",
    "table-cell": "td",
    "line-break": "br",
}
_LEFT_OUT: Final = frozenset(
    {"tracked-changes", "annotation", "note-citation", "sequence-decls", "table-of-content", "forms", "bibliography"}
)


def read_odt(data: bytes, source: str, limits: LoadLimits = DEFAULT_LIMITS) -> LoadedDocument:
    """Return the text of a document without tracked deletions, comments and tables of contents."""
    archive = Archive(data, source, limits)
    text = child(archive.xml("content.xml"), "body", "text")
    page = Element("body", {}, _nodes(text, source, 0) if text is not None else [])
    markdown = write_markdown(page)
    fields = core_fields(archive.optional_xml("meta.xml"))
    title = fields.pop("title", "") or markdown.first_heading
    return LoadedDocument(text=markdown.text, title=title, metadata=fields)


def _nodes(parent: XmlElement, source: str, depth: int) -> list[Node]:
    """Return what is in *parent* as elements and texts of a page."""
    if depth > MAX_XML_DEPTH:
        raise LoadError(source, "nested too deeply")
    nodes: list[Node] = [parent.text or ""]
    for part in parent:
        name = local_name(part)
        if name == "s" or name == "tab":
            nodes.append(" ")
        elif name not in _LEFT_OUT:
            nodes += _element(part, name, source, depth)
        nodes.append(part.tail or "")
    return nodes


def _element(part: XmlElement, name: str, source: str, depth: int) -> list[Node]:
    inside = _nodes(part, source, depth + 1)
    if name == "h":
        level = attribute(part, "outline-level")
        return [Element(f"h{min(int(level), 6) if level.isdecimal() and int(level) else 1}", {}, inside)]
    if name == "note":
        return [" (", *inside, ")"]
    tag = _TAGS.get(name)
    if tag is None:
        return inside
    if tag == "p" and "Preformatted" in attribute(part, "style-name"):
        tag = "pre"
    spans = {"colspan": attribute(part, "number-columns-spanned") or "1"} if tag == "td" else {}
    return [Element(tag, spans, inside)]
