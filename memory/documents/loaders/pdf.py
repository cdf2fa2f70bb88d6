"""The loader of PDF: text by pypdfium2 in reading order, its pages and its outline; running heads are left out.

No analysis of the layout: tables come as lines. Pages without a text layer are recognised by tesseract where it is
installed; a scan is refused elsewhere instead of being indexed as an empty text.
"""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from tellback.memory.documents.loaders.base import DEFAULT_LIMITS, LoadedDocument, LoadLimits
from tellback.memory.documents.loaders.ocr import ocr_installed, picture_text
from tellback.memory.errors import LoadError

_LIGATURES: Final = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬅ": "st", "ﬆ": "st"})
_BROKEN_WORD: Final = re.compile(r"(?<![^\W\d_])(?P<first>[^\W\d_]++)(?:-\n|\ufffe\n?)(?P<rest>[^\W\d_]++)")
_COMPOUND: Final = re.compile(r"(?<![^\W\d_])[^\W\d_]++-[^\W\d_]++")
_SENTENCE_ENDS: Final = (".", "!", "?", ":", ";", "”", '"', ")", "…")
_DIGITS: Final = re.compile(r"\d+|\b[ivxlc]+\b", re.IGNORECASE)
_PARAGRAPH_GAP: Final = 1.3
"""A line this many times the usual distance below the one before begins a paragraph."""
_EDGE_LINES: Final = 2
_HEAD_PAGES: Final = 3
"""A line at the edge of a page is a running head if it stands, but for numbers, at that edge of as many pages."""
_HEAD_REACH: Final = 8
_PASSWORD_NEEDED: Final = 4
_SCAN_SCALE: Final = 300 / 72
"""Dots per point of a page that is recognised: tesseract is made for 300 in an inch."""
_SCAN_PIXELS: Final = 25_000_000
_PDFIUM: Final = threading.Lock()
"""Held while a file is read: pdfium is not thread-safe."""


def read_pdf(data: bytes, source: str, limits: LoadLimits = DEFAULT_LIMITS) -> LoadedDocument:
    """Return the text of all pages, by pypdfium2, with their spans."""
    if b"%PDF-" not in data[:1024]:
        raise LoadError(source, "not a PDF file")
    import pypdfium2

    with _PDFIUM:
        try:
            document = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            encrypted = error.err_code == _PASSWORD_NEEDED
            reason = "encrypted; take the password off first" if encrypted else "not a readable PDF"
            raise LoadError(source, reason) from error
        with document:
            return _read_pages(document, source, limits)


def _read_pages(document: Any, source: str, limits: LoadLimits) -> LoadedDocument:
    pages: list[list[PdfLine]] = []
    characters = unreadable = recognised = unrecognised = 0
    deadline = time.monotonic() + limits.scan_seconds
    recognises = ocr_installed()
    for number in range(len(document)):
        lines: list[PdfLine] = []
        try:
            with closing(document[number]) as page:
                lines = list(_page_lines(page))
                if not lines and recognises:
                    lines = list(_recognised_lines(page, source, deadline))
                    recognised += bool(lines)
                    unrecognised += not lines and time.monotonic() > deadline
        except Exception:  # a damaged page; the others are read
            unreadable += 1
        pages.append(lines)
        characters += sum(len(line.text) for line in lines)
        if characters > limits.characters:
            raise LoadError(source, f"more than {limits.characters:,} characters of text")
    text, spans = join_pages([_page_text(lines) for lines in without_running_heads(pages)])
    if not text.strip():
        reason = "no text in it" if recognises else "no text layer; a scan is read where tesseract is installed"
        raise LoadError(source, reason)
    title = clean_text(document.get_metadata_dict().get("Title", "")).strip()
    counts = (
        (unreadable, "damaged pages, left out"),
        (recognised, "pages recognised by tesseract"),
        (unrecognised, "scanned pages left out, since recognition took too long"),
    )
    notes = tuple(f"{name}: {count}" for count, name in counts if count)
    return LoadedDocument(text=text, title=title, pages=spans, outline=_outline(document, text, spans), notes=notes)


@dataclass(frozen=True, slots=True)
class PdfLine:
    """Line of a page; *gap* is its distance from the line above it (0 for none), in points."""

    text: str
    gap: float = 0.0


def _page_lines(page: Any) -> Iterator[PdfLine]:
    """Yield the lines of a page in the order of its content."""
    import pypdfium2.raw as pdfium

    text_page = page.get_textpage()
    text = text_page.get_text_range().replace("\r\n", "\n\n")  # offsets as pdfium counts them: two for a line end
    x, y = ctypes.c_double(), ctypes.c_double()
    above: float | None = None
    offset = 0
    for line in text.split("\n\n"):
        begins = offset + len(line) - len(line.lstrip())
        offset += len(line) + 2
        if not line.strip():
            continue
        is_placed = pdfium.FPDFText_GetCharOrigin(text_page, begins, ctypes.byref(x), ctypes.byref(y))
        gap = above - y.value if is_placed and above is not None else 0.0
        above = y.value if is_placed else above
        yield PdfLine(clean_text(line).strip(), gap)


def _recognised_lines(page: Any, source: str, deadline: float) -> Iterator[PdfLine]:
    """Yield the lines of a scanned page as tesseract reads them; none past *deadline* or where it fails."""
    seconds = deadline - time.monotonic()
    width, height = page.get_size()
    if seconds <= 0 or width * height <= 0:
        return
    bitmap = page.render(scale=min(_SCAN_SCALE, (_SCAN_PIXELS / (width * height)) ** 0.5), grayscale=True)
    rows, columns, stride, content = bitmap.height, bitmap.width, bitmap.stride, bytes(bitmap.buffer)
    pixels = b"".join(content[row * stride : row * stride + columns] for row in range(rows))
    try:
        text = picture_text(b"P5 %d %d 255\n" % (columns, rows) + pixels, source, seconds=seconds)
    except LoadError:  # the other pages are read
        return
    gap = 0.0
    for line in clean_text(text).split("\n"):
        if line:
            yield PdfLine(line, gap)
        gap = 1.0 if line else 2.0


def _page_text(lines: Sequence[PdfLine]) -> str:
    """Return *lines* with an empty line before each that begins a paragraph."""
    usual = median([line.gap for line in lines if line.gap > 0] or [0.0])
    parts: list[str] = []
    for line in lines:
        if parts:
            parts.append("\n\n" if line.gap > _PARAGRAPH_GAP * usual > 0 else "\n")
        parts.append(line.text)
    return "".join(parts)


def without_running_heads(pages: Sequence[Sequence[PdfLine]]) -> list[list[PdfLine]]:
    """Return *pages* without the lines at their edges that stand on several pages near them."""
    keys = [[_DIGITS.sub("0", line.text.casefold()) for line in lines] for lines in pages]
    kept = [list(lines) for lines in pages]
    for is_top in (True, False):
        for _ in range(_EDGE_LINES):
            edges = [key[0 if is_top else -1] if key else "" for key in keys]
            for number, edge in enumerate(edges):
                near = Counter(edges[max(0, number - _HEAD_REACH) : number + _HEAD_REACH + 1])
                if edge and near[edge] >= _HEAD_PAGES and len(edge) < 200:
                    del kept[number][0 if is_top else -1], keys[number][0 if is_top else -1]
    return kept


def _outline(document: Any, text: str, spans: Sequence[tuple[int, int]]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return where the sections of the document's bookmarks begin: those whose titles stand on their pages."""
    sections: list[tuple[int, tuple[str, ...]]] = []
    path: list[str] = []
    position = 0
    for bookmark in document.get_toc():
        title = " ".join(clean_text(bookmark.get_title()).split())
        destination = bookmark.get_dest()
        page = destination.get_index() if destination is not None else None
        del path[bookmark.level :]
        path.append(title)
        if page is None or not 0 <= page < len(spans) or not title:
            continue
        words = r"\s+".join(map(re.escape, title.split()))
        start, end = spans[page]
        heading = re.compile(rf"(?m)^(?:[\dA-Z.]+\s+|\w+ [\dA-Z]+[.:]?\s+)?{words}$").search(
            text, max(start, position), end
        )
        if heading is not None:
            sections.append((heading.start(), tuple(name for name in path if name)))
            position = heading.end()
    return tuple(sections)


def join_pages(pages: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return the text of all *pages* and their spans.

    A page that ends in the middle of a sentence is followed by a line end, any other by an empty line, so
    that the borders of paragraphs are where they were.
    """
    compounds = {word for page in pages for word in _COMPOUND.findall(page)}
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    position = 0
    for page in pages:
        whole = _BROKEN_WORD.sub(lambda match: _join_word(match, compounds), page).replace("\ufffe", "-")
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


def clean_text(text: str) -> str:
    """Return *text* without what a PDF's fonts leave behind: ligatures, NULs, halves of surrogate pairs."""
    text = text.translate(_LIGATURES).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
