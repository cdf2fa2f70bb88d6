"""The tree of an HTML page: elements and texts as browsers nest them, from any text, in linear time.

The parser is that of the standard library, which accepts everything; closing tags that HTML lets out are added.
Elements deeper than ``MAX_DEPTH`` are put beside each other, so that nothing that walks the tree runs out of stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final, TypeAlias

MAX_DEPTH: Final = 200
_VOID_TAGS: Final = "area base br col embed hr img input link meta param source track wbr"
_TEXTLESS_TAGS: Final = "script style template noscript svg math object iframe canvas audio video map"
_BLOCK_TAGS: Final = """\
address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure footer form h1 h2 h3
h4 h5 h6 header hr html li main menu nav ol p pre section summary table tbody td tfoot th thead tr ul"""
VOID: Final = frozenset(_VOID_TAGS.split())
_NO_TEXT: Final = frozenset(_TEXTLESS_TAGS.split())
"""Elements whose inside is never text of the page."""
_BLOCKS: Final = frozenset(_BLOCK_TAGS.split())
_CLOSED_BY: Final = {
    "li": ({"li"}, {"ul", "ol", "menu"}),
    "dt": ({"dt", "dd"}, {"dl"}),
    "dd": ({"dt", "dd"}, {"dl"}),
    "tr": ({"tr", "td", "th"}, {"table"}),
    "td": ({"td", "th"}, {"table", "tr"}),
    "th": ({"td", "th"}, {"table", "tr"}),
    "tbody": ({"thead", "tbody", "tfoot", "tr", "td", "th"}, {"table"}),
    "tfoot": ({"thead", "tbody", "tfoot", "tr", "td", "th"}, {"table"}),
    "option": ({"option"}, {"select"}),
}
"""By a new tag: the open elements that it closes, and those at which the search for them ends."""
_XHTML_SELF_CLOSED: Final = frozenset({"a", "span", "script", "i", "em", "p", "div", "td", "th"})


@dataclass(slots=True)
class Element:
    """Element with its attributes (names in small letters) and what is in it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node] = field(default_factory=list)

    @property
    def is_block(self) -> bool:
        """True if it stands on lines of its own."""
        return self.tag in _BLOCKS

    @property
    def names(self) -> frozenset[str]:
        """The words of its id and classes."""
        words = f"{self.attributes.get('id', '')} {self.attributes.get('class', '')}"
        return frozenset(words.casefold().replace("_", "-").split())

    def elements(self) -> Iterator[Element]:
        """Yield the elements directly in it."""
        return (child for child in self.children if isinstance(child, Element))

    def walk(self) -> Iterator[Element]:
        """Yield it and every element below it, in the order of the page."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting.extend(reversed(list(element.elements())))

    def text(self) -> str:
        """Return all text in it, with white space as written."""
        parts: list[str] = []
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            if isinstance(node, str):
                parts.append(node)
            else:
                waiting.extend(reversed(node.children))
        return "".join(parts)


Node: TypeAlias = Element | str


class _TreeBuilder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("#root")
        self._open = [self.root]
        self._silent = ""  # the element without text that is being passed over
        self._nested = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._silent:
            self._nested += tag == self._silent
            return
        if tag in _NO_TEXT:
            self._silent, self._nested = tag, 1
            return
        if tag in ("html", "body") and any(element.tag == tag for element in self._open[:4]):
            return
        self._close_implied(tag)
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in VOID and len(self._open) < MAX_DEPTH:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID and (tag in _XHTML_SELF_CLOSED or self._silent == tag):
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._silent:
            self._nested -= tag == self._silent
            if not self._nested:
                self._silent = ""
            return
        for depth in range(len(self._open) - 1, 0, -1):
            if self._open[depth].tag == tag:
                del self._open[depth:]
                return
            if self._open[depth].tag in ("table", "td", "th") and tag not in _BLOCKS:
                return  # a stray closing tag of a phrase does not end the cell around it

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self._open[-1].children.append(data)

    def _close_implied(self, tag: str) -> None:
        if tag in _BLOCKS and self._open[-1].tag == "p":
            self._open.pop()
        closes, border = _CLOSED_BY.get(tag, (frozenset(), frozenset()))
        if not closes:
            return
        for depth in range(len(self._open) - 1, 0, -1):
            if self._open[depth].tag in border:
                break
            if self._open[depth].tag in closes:
                cut = depth
                while self._open[cut - 1].tag in closes and cut > 1:
                    cut -= 1
                del self._open[cut:]
                break


def parse_html(text: str) -> Element:
    """Return the tree of *text*; its scripts, styles, pictures and comments are not in it."""
    builder = _TreeBuilder()
    builder.feed(text)
    builder.close()
    return builder.root
