"""The loader of presentations (``.pptx``): a page for each slide, with its title, text, tables and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from xml.etree.ElementTree import Element as XmlElement

from tellback.memory.documents.loaders.archive import Archive, attribute, below, child, core_fields, local_name
from tellback.memory.documents.loaders.base import DEFAULT_LIMITS, LoadedDocument, LoadLimits
from tellback.memory.documents.loaders.docx import grouped
from tellback.memory.documents.loaders.html_markdown import write_markdown
from tellback.memory.documents.loaders.html_tree import Element

_PRESENTATION: Final = "ppt/presentation.xml"
_FURNITURE: Final = frozenset({"sldNum", "dt", "ftr", "hdr", "sldImg"})
_TITLES: Final = frozenset({"title", "ctrTitle"})


def read_pptx(data: bytes, source: str, limits: LoadLimits = DEFAULT_LIMITS) -> LoadedDocument:
    """Return the text of all slides in their order; their numbers are the pages."""
    archive = Archive(data, source, limits)
    slides = [write_markdown(grouped(slide)) for slide in _slides(archive)]
    text, pages = join_parts([slide.text for slide in slides])
    fields = core_fields(archive.optional_xml("docProps/core.xml"))
    title = next((slide.first_heading for slide in slides if slide.first_heading), "")
    title = fields.pop("title", "").replace("PowerPoint Presentation", "") or title
    return LoadedDocument(text=text, title=title, pages=pages, metadata=fields)


def join_parts(parts: Iterable[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return *parts* with an empty line between them, and the span of each."""
    spans: list[tuple[int, int]] = []
    end = -2
    whole = list(parts)
    for part in whole:
        spans.append((end + 2, end + 2 + len(part)))
        end = spans[-1][1]
    return "\n\n".join(whole), tuple(spans)


def _slides(archive: Archive) -> Iterator[Element]:
    relations = archive.relations(_PRESENTATION)
    for listed in below(archive.xml(_PRESENTATION), "sldId"):
        ids = [value for key, value in listed.attrib.items() if key.endswith("}id")]
        part = relations.get(ids[0], "") if ids else ""
        if part not in archive.names:
            continue
        slide = Element("body")
        slide.children += _shapes(archive.xml(part))
        notes = [name for name in archive.relations(part).values() if name.startswith("ppt/notesSlides/")]
        if notes and notes[0] in archive.names and (spoken := _shapes(archive.xml(notes[0]), listed=False)):
            slide.children += [Element("p", {}, ["Notes:"]), *spoken]
        yield slide


def _shapes(root: XmlElement, *, listed: bool = True) -> list[Element]:
    """Return title, paragraphs and tables of a slide, the title first."""
    titles: list[Element] = []
    others: list[Element] = []
    for shape in root.iter():
        name = local_name(shape)
        if name == "tbl":
            others.append(_table(shape))
        if name != "sp":
            continue
        place = next(below(shape, "ph"), None)
        kind = attribute(place, "type") if place is not None else ""
        if kind in _FURNITURE:
            continue
        paragraphs = list(below(shape, "p"))
        if kind in _TITLES:
            words = " ".join(filter(None, (_text(paragraph).strip() for paragraph in paragraphs)))
            titles.append(Element("h2", {}, [words]))
        else:
            others += [
                _paragraph(paragraph, listed=listed and kind in ("", "body", "obj") and place is not None)
                for paragraph in paragraphs
            ]
    return [block for block in titles + others if block.text().strip()]


def _paragraph(paragraph: XmlElement, *, listed: bool) -> Element:
    settings = child(paragraph, "pPr")
    level = attribute(settings, "lvl") if settings is not None else ""
    bare = settings is not None and child(settings, "buNone") is not None
    if listed and not bare:
        return Element("li", {"level": level if level.isdecimal() else "0", "ordered": ""}, [_text(paragraph)])
    return Element("p", {}, [_text(paragraph)])


def _table(table: XmlElement) -> Element:
    rows: list[Element | str] = []
    for row in below(table, "tr"):
        cells = [" ".join(_text(paragraph) for paragraph in below(cell, "p")) for cell in below(row, "tc")]
        rows.append(Element("tr", {}, [Element("td", {}, [text]) for text in cells]))
    return Element("table", {}, rows)


def _text(paragraph: XmlElement) -> str:
    parts = []
    for part in paragraph.iter():
        name = local_name(part)
        parts.append((part.text or "") if name == "t" else " " if name in ("br", "tab") else "")
    return "".join(parts)
