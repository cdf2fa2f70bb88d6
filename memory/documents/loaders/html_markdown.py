"""Writer of an HTML tree as Markdown: headings, lists, definitions, tables, quotes and code; links keep their words.

Places that a link can name (ids) are marked in the text while it is written and become offsets at the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from tellback.memory.documents.loaders.html_tree import Element, Node

_SPACE: Final = re.compile(r"[ \t\n\r\f\v\u00a0]+")
_BREAK: Final = "\ue002"
_MARK: Final = re.compile("\ue000(\\d+)\ue001")
_PRIVATE: Final = dict.fromkeys((0xE000, 0xE001, 0xE002))
_HEADINGS: Final = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_CODE: Final = frozenset({"code", "tt", "samp", "kbd"})
_REFERENCE: Final = re.compile(r"\[(?:\d+|[a-z]|note \d+)\]")
_LIKE_MARKUP: Final = re.compile(r"(?m)^(?=#|>|```|~~~|[=-]+[ \t]*$)")
_LANGUAGE: Final = re.compile(
    r"(?:language|lang|highlight|brush:?)[-\s]*(?!default\b|notranslate\b|none\b|text\b)([a-z][\w+#-]*)"
)
_MAX_TERM: Final = 240
_PERMALINKS: Final = frozenset({"¶", "#", "§", "🔗", "\uf0c1"})


@dataclass(frozen=True, slots=True)
class MarkdownText:
    """Markdown of a page: its *first_heading* ("" for none) and the offsets of the places that a link can name."""

    text: str
    first_heading: str
    anchors: tuple[tuple[int, str], ...]


@dataclass(slots=True)
class _Writer:
    ids: list[str] = field(default_factory=list)
    first_heading: str = ""

    def blocks(self, element: Element) -> list[str]:
        """Return the blocks of what is in *element*; anchors without words of their own go to what follows."""
        blocks: list[str] = []
        pending = ""
        inline: list[Node] = []

        def flush() -> None:
            nonlocal pending
            text = self._inline_text(inline)
            inline.clear()
            if words := _plain(text).strip():
                blocks.append(pending + (text if words[0] not in "#>`~=-" else _LIKE_MARKUP.sub(r"\\", text)))
                pending = ""
            else:
                pending += text.strip(f" \n{_BREAK}")

        for child in element.children:
            if isinstance(child, str) or not _holds_blocks(child):
                inline.append(child)
                continue
            flush()
            below = self._block(child)
            if below:
                below[0] = pending + below[0]
                pending = ""
                blocks += below
            else:
                pending += self._mark(child)
        flush()
        if pending and blocks:
            blocks[-1] += pending
        return blocks

    def _block(self, element: Element) -> list[str]:
        if element.tag in _HEADINGS:
            blocks = self._heading(element)
        elif element.tag == "pre":
            blocks = self._code(element)
        elif element.tag in ("ul", "ol", "menu"):
            blocks = self._list(element)
        elif element.tag == "dl":
            blocks = self._definitions(element)
        elif element.tag == "table":
            blocks = self._table(element)
        else:
            blocks = self.blocks(element)
            if element.tag == "blockquote" and blocks:
                quoted = "\n\n".join(blocks).split("\n")
                blocks = ["\n".join(f"> {line}".rstrip() for line in quoted)]
        if blocks:
            blocks[0] = self._mark(element) + blocks[0]
        return blocks

    def _heading(self, element: Element) -> list[str]:
        text = self._inline_text(element.children).replace("\n", " ")
        marks = "".join(match[0] for match in _MARK.finditer(text))
        words = _MARK.sub("", text).strip()
        if not words:
            return []
        self.first_heading = self.first_heading or words.replace("`", "")
        return [f"{marks}{'#' * int(element.tag[1])} {words}"]

    def _code(self, element: Element) -> list[str]:
        text = "".join(_breaks_kept(element)).translate(_PRIVATE).strip("\n").rstrip()
        if not text.strip():
            return []
        fence = "```"
        while fence in text:
            fence += "`"
        return [f"{fence}{_language(element)}\n{text}\n{fence}"]

    def _list(self, element: Element) -> list[str]:
        items = []
        number = int(start) if (start := element.attributes.get("start", "1")).isdecimal() and len(start) < 6 else 1
        for child in element.elements():
            if not (blocks := self.blocks(child)):
                continue
            mark = f"{number}. " if element.tag == "ol" else "- "
            number += 1
            body = "\n".join(blocks) if all(_is_tight(block) for block in blocks) else "\n\n".join(blocks)
            items.append(self._mark(child) + mark + body.replace("\n", "\n" + " " * len(mark)))
        return ["\n".join(_line_ends_trimmed(item) for item in items)] if items else []

    def _definitions(self, element: Element) -> list[str]:
        """Write a definition as "term: definition", one of long terms as these and the paragraphs below them."""
        written: list[str] = []
        terms: list[str] = []
        waiting = list(element.elements())
        if any(child.tag == "div" for child in waiting):  # groups of terms and definitions
            waiting = [inner for child in waiting for inner in (child.elements() if child.tag == "div" else [child])]
        for child in waiting:
            blocks = self.blocks(child)
            if blocks:
                blocks[0] = self._mark(child) + blocks[0]
            if child.tag == "dt":
                terms += [f"`{block}`" if "sig" in child.names and "`" not in block else block for block in blocks]
                continue
            term = ", ".join(terms).rstrip(":")
            short = terms and len(_plain(term)) <= _MAX_TERM and all(map(_is_tight, terms))
            if short and blocks and _is_tight(blocks[0]) and "\n" not in blocks[0]:
                written.append(f"{term}: {blocks[0]}")
                written += blocks[1:]
            else:
                written += [*terms, *blocks]
            terms = []
        return written + terms

    def _table(self, element: Element) -> list[str]:
        rows, captions = _rows(element)
        if not rows:
            return self.blocks(element)
        above = [block for caption in captions for block in self.blocks(caption)]
        cells = [[self._cell(cell) for cell in row] for row in rows]
        if element.attributes.get("role") in ("presentation", "none") or _is_layout(element):
            return above + [block for row in cells for cell in row for block in cell]
        grid = _grid(rows, cells)
        columns = [column for column in range(len(grid[0])) if any(_plain(row[column]).strip() for row in grid)]
        if len(columns) < 2:
            return above + [block for row in cells for cell in row for block in cell]
        lines = [
            "| " + " | ".join(row[column] for column in columns) + " |" for row in grid if any(map(str.strip, row))
        ]
        lines.insert(1, "|" + "---|" * len(columns))
        return [*above, "\n".join(lines)]

    def _cell(self, cell: Element) -> list[str]:
        blocks = self.blocks(cell)
        if blocks:
            blocks[0] = self._mark(cell) + blocks[0]
        return blocks

    def _inline_text(self, nodes: list[Node]) -> str:
        """Return the words of *nodes* on one line, or several where the page breaks it."""
        parts: list[str] = []
        for node in nodes:
            self._inline(node, parts)
        text = _SPACE.sub(" ", "".join(parts))
        return "\n".join(line.strip() for line in text.split(_BREAK)).strip()

    def _inline(self, node: Node, parts: list[str]) -> None:
        if isinstance(node, str):
            parts.append(node.translate(_PRIVATE))
            return
        parts.append(self._mark(node))
        if node.tag == "br":
            parts.append(_BREAK)
        elif node.tag in _CODE and "`" not in (code := _SPACE.sub(" ", node.text().translate(_PRIVATE)).strip()):
            parts.append(f"`{code}`" if code and not parts[-1].endswith("`") else code)
        elif (node.tag == "a" and node.text().strip() in _PERMALINKS) or (
            node.tag == "sup" and _REFERENCE.fullmatch(node.text().strip())
        ):
            return
        else:
            for child in node.children:
                self._inline(child, parts)

    def _mark(self, element: Element) -> str:
        name = element.attributes.get("id") or (element.attributes.get("name", "") if element.tag == "a" else "")
        if not name or len(name) > 200:
            return ""
        self.ids.append(name)
        return f"\ue000{len(self.ids) - 1}\ue001"


def write_markdown(element: Element) -> MarkdownText:
    """Return what is in *element* as Markdown."""
    writer = _Writer()
    marked = "\n\n".join(writer.blocks(element))
    parts: list[str] = []
    anchors: list[tuple[int, str]] = []
    end = length = 0
    for match in _MARK.finditer(marked):
        parts.append(marked[end : match.start()])
        length += match.start() - end
        end = match.end()
        anchors.append((length, writer.ids[int(match[1])]))
    parts.append(marked[end:])
    return MarkdownText("".join(parts), writer.first_heading, tuple(anchors))


def _plain(text: str) -> str:
    return _MARK.sub("", text)


def _holds_blocks(element: Element) -> bool:
    """Return whether *element* stands on lines of its own, or holds an element that does."""
    return element.is_block or any(inner.is_block for inner in element.walk())


def _is_tight(block: str) -> bool:
    """Return whether *block* is a paragraph or a list, which need no empty line in a list's item."""
    return not _plain(block).startswith(("#", "```", "|", ">"))


def _line_ends_trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _breaks_kept(element: Element) -> list[str]:
    parts: list[str] = []
    for node in element.children:
        if isinstance(node, str):
            parts.append(node)
        elif node.tag == "br":
            parts.append("\n")
        else:
            parts += _breaks_kept(node)
            if node.is_block and parts and not parts[-1].endswith("\n"):
                parts.append("\n")
    return parts


def _language(element: Element) -> str:
    classes = " ".join(inner.attributes.get("class", "") for inner in (element, *element.elements()))
    match = _LANGUAGE.search(classes)
    return match[1] if match else ""


def _rows(table: Element) -> tuple[list[list[Element]], list[Element]]:
    """Return the cells of each row of *table*, not of tables inside it, and its captions."""
    rows: list[list[Element]] = []
    captions: list[Element] = []
    for part in table.elements():
        if part.tag == "caption":
            captions.append(part)
        groups = part.elements() if part.tag in ("thead", "tbody", "tfoot") else iter([part])
        rows += [[cell for cell in row.elements() if cell.tag in ("td", "th")] for row in groups if row.tag == "tr"]
    return [row for row in rows if row], captions


def _is_layout(table: Element) -> bool:
    """Return whether *table* places parts of a page beside each other instead of holding values."""
    return any(inner.tag in ("table", "pre", *_HEADINGS) for inner in table.walk() if inner is not table)


def _grid(rows: list[list[Element]], cells: list[list[list[str]]]) -> list[list[str]]:
    """Return the texts of all places; a cell over rows stands in each of them, one over columns in the first."""
    grid: list[list[str]] = []
    above: dict[int, tuple[int, str]] = {}  # by column: for how many more rows, and the text
    for row, texts in zip(rows, cells, strict=True):
        line: list[str] = []
        waiting = list(zip(row, texts, strict=True))
        while waiting or len(line) in above:
            column = len(line)
            if column in above:
                more, text = above.pop(column)
                if more > 1:
                    above[column] = (more - 1, _plain(text))
                line.append(_plain(text))
                continue
            cell, blocks = waiting.pop(0)
            text = " ".join(" ".join(blocks).split("\n")).replace("|", "\\|")
            if (rowspan := _span(cell, "rowspan")) > 1:
                above[column] = (rowspan - 1, text)
            line += [text] + [""] * (_span(cell, "colspan") - 1)
        grid.append(line)
    width = max(map(len, grid))
    return [line + [""] * (width - len(line)) for line in grid]


def _span(cell: Element, name: str) -> int:
    number = cell.attributes.get(name, "1")
    return min(max(int(number), 1), 100) if number.isdecimal() and len(number) < 6 else 1
