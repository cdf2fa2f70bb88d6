"""The loader of Word documents (``.docx``): headings, lists, tables, code and footnotes as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final
from xml.etree.ElementTree import Element as XmlElement

from tellback.memory.documents.loaders.archive import (
    MAX_XML_DEPTH,
    Archive,
    attribute,
    below,
    child,
    core_fields,
    local_name,
)
from tellback.memory.documents.loaders.base import DEFAULT_LIMITS, LoadedDocument, LoadLimits
from tellback.memory.documents.loaders.html_markdown import write_markdown
from tellback.memory.documents.loaders.html_tree import Element
from tellback.memory.errors import LoadError

_DOCUMENT: Final = "word/document.xml"
_HEADING: Final = re.compile(r"heading ([1-6])")
_CODE_STYLE: Final = re.compile(r"code|preformatted|source|listing")
_REMOVED: Final = frozenset({"del", "moveFrom", "rPr", "pPr", "instrText", "Fallback", "txbxContent", "tblPr", "trPr"})
_TEXTS: Final = {"tab": " ", "noBreakHyphen": "-", "softHyphen": "", "sym": " "}


def read_docx(data: bytes, source: str, limits: LoadLimits = DEFAULT_LIMITS) -> LoadedDocument:
    """Return the text of a Word document.

    What was deleted with changes tracked, headers, footers and comments are left out.
    """
    archive = Archive(data, source, limits)
    reader = _DocumentReader(archive, source)
    body = child(archive.xml(_DOCUMENT), "body")
    page = Element("body", {}, [*reader.blocks(body if body is not None else (), 0), *reader.footnotes()])
    markdown = write_markdown(grouped(page))
    fields = core_fields(archive.optional_xml("docProps/core.xml"))
    title = fields.pop("title", "") or markdown.first_heading
    return LoadedDocument(text=markdown.text, title=title, metadata=fields)


class _DocumentReader:
    """Paragraphs and tables of a document as elements of a page."""

    def __init__(self, archive: Archive, source: str) -> None:
        self._source = source
        self._archive = archive
        self._styles = _styles(archive.optional_xml("word/styles.xml"))
        self._ordered = _ordered_lists(archive.optional_xml("word/numbering.xml"))

    def blocks(self, container: Iterable[XmlElement], depth: int) -> list[Element]:
        """Return the blocks of *container*, of content controls and the like in it, too."""
        self._check_depth(depth)
        blocks: list[Element] = []
        for part in container:
            name = local_name(part)
            if name == "p":
                blocks.append(self._paragraph(part, depth))
            elif name == "tbl":
                blocks.append(self._table(part, depth))
            elif name not in _REMOVED:
                blocks += self.blocks(part, depth + 1)
        return blocks

    def footnotes(self) -> list[Element]:
        """Return the notes below the pages and at the end."""
        notes: list[Element] = []
        for kind in ("footnote", "endnote"):
            root = self._archive.optional_xml(f"word/{kind}s.xml")
            for note in root if root is not None else ():
                if not attribute(note, "type"):  # the others are the lines between text and notes
                    notes += self.blocks(note, 0)
        return notes

    def _paragraph(self, paragraph: XmlElement, depth: int) -> Element:
        settings = child(paragraph, "pPr")
        style = _value(settings, "pStyle")
        name = self._styles.get(style, style).casefold()
        text: list[Element | str] = []
        self._runs(paragraph, text, depth)
        level = _value(settings, "outlineLvl")
        if match := _HEADING.fullmatch(name):
            return Element(f"h{match[1]}", {}, text)
        if name == "title":
            return Element("h1", {}, text)
        if level.isdecimal() and int(level) < 6:
            return Element(f"h{int(level) + 1}", {}, text)
        if _CODE_STYLE.search(name):
            return Element("pre", {}, text)
        numbering = child(settings, "numPr")
        if numbering is not None or name.startswith("list "):
            number, level = _value(numbering, "numId"), _value(numbering, "ilvl")
            ordered = number in self._ordered or name.startswith("list number")
            if not level.isdecimal():
                level = str(int(name[-1]) - 1) if name[-1:] in set("23456") else "0"
            attributes = {"level": level, "ordered": "1" if ordered else ""}
            return Element("li", attributes, text)
        return Element("p", {}, text)

    def _runs(self, part: XmlElement, text: list[Element | str], depth: int) -> None:
        self._check_depth(depth)
        for inner in part:
            name = local_name(inner)
            if name == "t":
                text.append(inner.text or "")
            elif name in ("br", "cr"):
                text.append(Element("br"))
            elif name in _TEXTS:
                text.append(_TEXTS[name])
            elif name not in _REMOVED:
                self._runs(inner, text, depth + 1)

    def _table(self, table: XmlElement, depth: int) -> Element:
        rows: list[Element] = []
        for row in below(table, "tr") if depth == 0 else table:
            if local_name(row) != "tr":
                continue
            cells: list[Element | str] = []
            for cell in row:
                if local_name(cell) != "tc":
                    continue
                settings = child(cell, "tcPr")
                merged = child(settings, "vMerge")
                above = merged is not None and attribute(merged, "val") != "restart"
                blocks: list[Element | str] = [] if above else list(self.blocks(cell, depth + 1))
                cells.append(Element("td", {"colspan": _value(settings, "gridSpan") or "1"}, blocks))
            rows.append(Element("tr", {}, cells))
        return Element("table", {}, list(rows))

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_XML_DEPTH:
            raise LoadError(self._source, "nested too deeply")


def grouped(page: Element) -> Element:
    """Return *page* with lists made of the items that follow each other, and one code block of such lines."""
    children: list[Element | str] = []
    lists: list[tuple[int, Element]] = []  # the open ones by level
    for block in page.children:
        if not isinstance(block, Element):
            continue
        if block.tag == "li":
            level = int(block.attributes["level"])
            while lists and lists[-1][0] > level:
                lists.pop()
            if not lists or lists[-1][0] < level:
                opened = Element("ol" if block.attributes["ordered"] else "ul")
                above = lists[-1][1].children[-1] if lists else None
                (above.children if isinstance(above, Element) else children).append(opened)
                lists.append((level, opened))
            lists[-1][1].children.append(Element("li", {}, block.children))
            continue
        lists.clear()
        last = children[-1] if children else None
        if block.tag == "pre" and isinstance(last, Element) and last.tag == "pre":
            last.children += ["\n", *block.children]
        else:
            children.append(block)
    return Element(page.tag, {}, children)


def _value(settings: XmlElement | None, name: str) -> str:
    element = child(settings, name)
    return attribute(element, "val") if element is not None else ""


def _styles(root: XmlElement | None) -> dict[str, str]:
    """Return the name of each style of a heading, of code or of a list by its id, inherited ones included."""
    styles = {attribute(style, "styleId"): style for style in (root if root is not None else ())}
    names = {}
    for id, style in styles.items():
        name = _value(style, "name").casefold()
        parent = styles.get(_value(style, "basedOn"))
        inherited = _value(parent, "name").casefold() if parent is not None else ""
        names[id] = inherited if _HEADING.fullmatch(inherited) and not _HEADING.fullmatch(name) else name
    return names


def _ordered_lists(root: XmlElement | None) -> frozenset[str]:
    """Return the numbers of the lists that count their items."""
    if root is None:
        return frozenset()
    counting = {
        attribute(abstract, "abstractNumId")
        for abstract in below(root, "abstractNum")
        if _value(child(abstract, "lvl"), "numFmt") not in ("bullet", "none", "")
    }
    return frozenset(
        attribute(number, "numId") for number in below(root, "num") if _value(number, "abstractNumId") in counting
    )
