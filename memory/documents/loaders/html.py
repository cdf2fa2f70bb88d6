"""The loader of HTML: the main text of a page as Markdown; navigation, page furniture and hidden parts are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tellback.memory.documents.loaders.base import LoadedDocument
from tellback.memory.documents.loaders.html_markdown import MarkdownText, write_markdown
from tellback.memory.documents.loaders.html_tree import Element, parse_html
from tellback.memory.documents.loaders.text import decode_text
from tellback.memory.errors import LoadError

_CHARSET: Final = re.compile(rb"""(?:<meta[^>]+?charset=["']?|<\?xml[^>]+?encoding=["'])\s*([\w.:-]+)""", re.IGNORECASE)
_SCANNED: Final = 4096
_ROLE_TEXT: Final = "navigation banner contentinfo search complementary menu menubar toolbar dialog alertdialog"
_FURNITURE_ROLES: Final = frozenset(_ROLE_TEXT.split())
_FURNITURE_TAGS: Final = frozenset(
    ["nav", "dialog", "button", "select", "input", "textarea", "label", "datalist", "head", "title"]
)
_PAGE_TAGS: Final = frozenset({"header", "footer", "aside"})
"""Furniture, unless they stand inside of an article."""
_FURNITURE_NAMES: Final = frozenset(
    {"nav", "navbar", "navigation", "navheader", "navfooter", "docnav", "sphinxsidebar", "breadcrumb", "breadcrumbs"}
    | {"footer", "site-footer", "page-footer", "site-header", "page-header", "localtoc", "toctree-wrapper", "navbox"}
    | {"cookie", "cookies", "cookie-banner", "advertisement", "ads", "pagination", "pager", "prev-next", "prevnext"}
    | {"skip-link", "skiplink", "headerlink", "permalink", "noprint", "printfooter", "catlinks", "mw-jump-link"}
    | {"mw-editsection", "linenos", "linenodiv", "back-to-top", "edit-this-page"}
)
_DOUBTFUL_NAMES: Final = frozenset(
    {"sidebar", "menu", "related", "toc", "table-of-contents", "tableofcontents", "contents-list", "share", "social"}
    | {"banner"}
)
"""Names of furniture that some writers give to boxes of text, too: left out unless they hold prose."""
_PROSE: Final = 100
"""Characters outside of links that make a box prose."""
_HIDDEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])", re.IGNORECASE)
_STEP: Final = r"prev(?:ious)?|next|up|home|top|contents|index|back|forward|[<>«»←→↑|·\s\[\]-]+"
_STEPS_ONLY: Final = re.compile(rf"(?:\s*(?:{_STEP})\s*)+", re.IGNORECASE)
_SPACE: Final = re.compile(r"\s+")
_CONTAINERS: Final = frozenset(["body", "main", "article", "section", "div", "center", "form"])
_MAX_LINK_TEXT: Final = 60
"""A list of links is navigation if its links have at most this many characters on average."""


def read_html(data: bytes, source: str) -> LoadedDocument:
    """Return a page's main text as Markdown; all text where it has only navigation."""
    text, notes = decode_html(data, source)
    tree = parse_html(text)
    markdown = main_text(tree)
    return LoadedDocument(
        text=markdown.text,
        title=_title(tree, markdown),
        anchors=markdown.anchors,
        metadata=_fields(tree),
        notes=notes,
    )


def decode_html(data: bytes, source: str) -> tuple[str, tuple[str, ...]]:
    """Return the text of *data* in the encoding that it names, else as ``decode_text`` does; and notes."""
    charset = _CHARSET.search(data[:_SCANNED])
    try:
        return decode_text(data, source)
    except LoadError:
        if charset is None:
            raise
    encoding = charset[1].decode("ascii")
    try:
        return decode_text(data.decode(encoding).encode(), source)
    except (LookupError, UnicodeDecodeError) as error:
        raise LoadError(source, f"not the {encoding} that it says it is") from error


def main_text(tree: Element) -> MarkdownText:
    """Return the main text of a page as Markdown; all of its text where nothing is left without its furniture."""
    page = next((element for element in tree.walk() if element.tag == "body"), tree)
    main = _main_element(page)
    content = _without_furniture(main, in_article=main is not page)
    markdown = write_markdown(_without_link_borders(content))
    return markdown if markdown.text.strip() else write_markdown(_without_furniture(page, in_article=True, names=False))


def _main_element(page: Element) -> Element:
    """Return the element that the page marks as its main part, or the page."""
    marked = [
        element for element in page.walk() if element.tag == "main" or element.attributes.get("role") == "main"
    ] or [element for element in page.walk() if element.tag == "article"]
    if not marked:
        return page
    largest = max(marked, key=_length)
    share = 2 if largest.tag == "article" else 10  # several articles side by side are all of them the main part
    return largest if _length(largest) * share >= _length(page) else page


def _length(element: Element) -> int:
    return len(_SPACE.sub("", element.text()))


def _without_furniture(element: Element, *, in_article: bool, names: bool = True) -> Element:
    """Return *element* without what is no text of the page; *names* tell furniture by class and id, too."""
    children: list[Element | str] = []
    for child in element.children:
        if isinstance(child, str):
            children.append(child)
        elif not _is_furniture(child, in_article=in_article, names=names):
            inside = in_article or child.tag in ("article", "main", "section")
            children.append(_without_furniture(child, in_article=inside, names=names))
    return Element(element.tag, element.attributes, children)


def _is_furniture(element: Element, *, in_article: bool, names: bool) -> bool:
    attributes = element.attributes
    if "hidden" in attributes or attributes.get("aria-hidden") == "true" or _HIDDEN.search(attributes.get("style", "")):
        return True
    if element.tag in _FURNITURE_TAGS or attributes.get("role", "").casefold() in _FURNITURE_ROLES:
        return True
    if element.tag in _PAGE_TAGS and not in_article:
        return True
    if not names or element.tag in ("body", "html"):
        return False
    if not _FURNITURE_NAMES.isdisjoint(element.names):
        return True
    return not _DOUBTFUL_NAMES.isdisjoint(element.names) and not _is_prose(element)


def _is_prose(element: Element) -> bool:
    """Return whether *element* has a text of its own, and not mostly links."""
    links = sum(_length(link) for link in element.walk() if link.tag == "a" and "href" in link.attributes)
    return (whole := _length(element)) - links >= _PROSE and links < 0.3 * whole


def _without_link_borders(element: Element, levels: int = 20) -> Element:
    """Return *element* without the blocks of links that stand before its first heading or text and after its last."""
    meaningful = [child for child in element.children if _has_content(child)]
    if levels and len(meaningful) == 1 and isinstance(meaningful[0], Element) and meaningful[0].tag in _CONTAINERS:
        return Element(element.tag, element.attributes, [_without_link_borders(meaningful[0], levels - 1)])
    children = list(element.children)
    while children and not _is_text(children[0]):
        children.pop(0)
    while children and not _is_text(children[-1]):
        children.pop()
    return Element(element.tag, element.attributes, children or element.children)


def _has_content(child: Element | str) -> bool:
    return bool(child.strip() if isinstance(child, str) else child.text().strip() or "id" in child.attributes)


def _is_text(child: Element | str) -> bool:
    """Return whether *child* is more than blanks, links, and the names of navigation."""
    text = _SPACE.sub(" ", child if isinstance(child, str) else child.text()).strip()
    if not text or _STEPS_ONLY.fullmatch(text):
        return False
    if isinstance(child, str) or child.tag in ("h1", "h2", "h3", "h4", "h5", "h6", "pre", "table"):
        return True
    links = [
        _SPACE.sub(" ", link.text()).strip() for link in child.walk() if link.tag == "a" and "href" in link.attributes
    ]
    short = sum(map(len, links)) <= _MAX_LINK_TEXT * max(len(links), 1)
    return not (
        short
        and sum(map(len, links)) >= 0.8 * len(text)
        and not any(e.tag.startswith("h") and e.tag[1:].isdigit() for e in child.walk())
    )


def _title(tree: Element, written: MarkdownText) -> str:
    """Return the page's first heading where its title holds it, too; else its title."""
    title = next((_SPACE.sub(" ", e.text()).strip() for e in tree.walk() if e.tag == "title"), "")
    heading = written.first_heading
    return heading if heading and (not title or heading.casefold() in title.casefold()) else title or heading


def _fields(tree: Element) -> dict[str, str]:
    """Return author and date of publication where the page names them."""
    keys = {"author": "author", "article:published_time": "published", "date": "published", "dc.date": "published"}
    fields: dict[str, str] = {}
    for name, content in _meta(tree):
        if content and (key := keys.get(name)):
            fields.setdefault(key, content[:200])
    return fields


def _meta(tree: Element) -> Iterable[tuple[str, str]]:
    for element in tree.walk():
        if element.tag == "meta":
            name = element.attributes.get("name") or element.attributes.get("property") or ""
            yield name.casefold(), element.attributes.get("content", "").strip()
