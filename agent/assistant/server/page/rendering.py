"""Rendering of the page's templates: escaped always, with the browser's zone and clock, and a strict policy of content.

What is shown was said by people, models, documents and other programs: it is text here, whatever it looks like.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from tellback.agent.assistant.local_time import zone_of
from tellback.agent.assistant.server.page.browser_sessions import BrowserSession
from tellback.agent.short_ids import short_id
from tellback.agent.word_difference import word_difference

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory

FOLDER: Final = Path(__file__).parent
STATIC_FOLDER: Final = FOLDER / "static"
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    # A form that is sent under "no-referrer" names no origin, and would be refused.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "vary": "HX-Request, Cookie",
    "cache-control": "no-store",
}
PLACE: Final = "in"
"""Parameter of addresses that names a shared namespace; without it a page is of the user's own."""
LONGEST_IN_LIST: Final = 600
"""Characters of a text in a list; the memory's own page has all of it."""
_OVERRIDES: Final = re.compile("[\u202a-\u202e]")
"""Marks that turn the direction of what follows: with them a name can be made to look like another."""
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return the answer that *template* makes of *values*."""
    return HTMLResponse(rendered(request, template, **values), status, headers=HEADERS)


def rendered(request: Request, template: str, **values: Any) -> str:
    """Return the text that *template* makes of *values*."""
    return _environment().get_template(template).render(page=Page.of(request), **values)


def is_partial(request: Request) -> bool:
    """Return whether a part of the page is asked for by a script."""
    return request.headers.get("hx-request") == "true"


@dataclass(frozen=True, slots=True)
class Page:
    """Request as templates need it: the *path*, the browser's session, its *zone*, the hours of its clock, and the
    memory that is *opened*, where one is.
    """

    path: str
    session: BrowserSession | None
    zone: tzinfo
    twelve_hours: bool
    opened: OpenedMemory | None = None

    @classmethod
    def of(cls, request: Request) -> Page:
        """Return the page of *request*."""
        session = getattr(request.state, "browser_session", None)
        opened = getattr(request.state, "opened", None)
        return cls(request.url.path, session, zone_of_browser(request), request.cookies.get("clock") == "12", opened)

    @property
    def form_token(self) -> str:
        """Token that a form of this page must bear."""
        return "" if self.session is None else self.session.form_token

    @property
    def is_owner(self) -> bool:
        """Return whether users, health and settings are shown."""
        return self.session is not None and self.session.account.is_owner

    @property
    def may_write(self) -> bool:
        """Return whether the user may change the memory that is shown; the server asks again."""
        if self.opened is not None:
            return self.opened.writes
        return self.is_member

    @property
    def is_member(self) -> bool:
        """Return whether the user may change their own memory."""
        return self.session is not None and self.session.account.user.role != "reader"

    def here(self, path: str, **query: str) -> str:
        """Return the address of *path* in the place that is shown."""
        words = urlencode(query | ({} if self.opened is None else place_query(self.opened)))
        return f"{path}?{words}" if words else path

    def local(self, moment: datetime) -> datetime:
        """Return *moment* in the browser's zone."""
        return moment.astimezone(self.zone)

    def time(self, moment: datetime) -> str:
        """Return the time of day of *moment*."""
        local = self.local(moment)
        return f"{local:%I:%M %p}".lstrip("0") if self.twelve_hours else f"{local:%H:%M}"

    def day(self, moment: datetime) -> str:
        """Return the day of *moment*, and its year unless it is this one."""
        local, now = self.local(moment), datetime.now(self.zone)
        return f"{local.day} {local:%B}" + ("" if local.year == now.year else f" {local.year}")


def place_query(opened: OpenedMemory) -> dict[str, str]:
    """Return what an address needs to name the place *opened*: nothing for the user's own."""
    return {} if opened.own else {PLACE: opened.namespace}


def place_name(namespace: str) -> str:
    """Return the name of a shared *namespace* for people."""
    return namespace or "the owner's"


def zone_of_browser(request: Request) -> tzinfo:
    """Return the zone that the browser named; UTC for none, and for one that is not known here."""
    name = request.cookies.get("zone", "").replace("%2F", "/")
    try:
        return (zone_of(name) if re.fullmatch(r"[\w+/-]{1,60}", name) else None) or UTC
    except (ValueError, OSError):
        return UTC


@cache
def asset(name: str) -> str:
    """Return the address of a static file, which changes with its content."""
    return f"/static/{name}?v={hashlib.sha256((STATIC_FOLDER / name).read_bytes()).hexdigest()[:12]}"


@pass_context
def _moment(context: Context, moment: datetime | None) -> Markup:
    page: Page = context["page"]
    if moment is None:
        return Markup("")
    return Markup('<time datetime="{}">{}, {}</time>').format(moment.isoformat(), page.day(moment), page.time(moment))


@pass_context
def _day(context: Context, moment: datetime | None) -> Markup:
    page: Page = context["page"]
    if moment is None:
        return Markup("")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        moment.isoformat(), page.time(moment), page.day(moment)
    )


@pass_context
def _last_day(context: Context, end: datetime | None) -> str:
    """Return the last day before *end*: what ends at midnight held until the day before."""
    page: Page = context["page"]
    return "" if end is None else page.day(end - timedelta(microseconds=1))


@pass_context
def _input_day(context: Context, end: datetime | None) -> str:
    page: Page = context["page"]
    return "" if end is None else page.local(end - timedelta(microseconds=1)).date().isoformat()


def harmless(value: Any) -> Any:
    """Return a text without marks that would turn the direction of what follows, and without control characters."""
    if isinstance(value, str):
        clean = _CONTROLS.sub("\ufffd", _OVERRIDES.sub("", value))
        return Markup(clean) if isinstance(value, Markup) else clean  # noqa: S704 - it was markup before
    return value


def marked(text: str, spans: Iterable[tuple[int, int]], element: str) -> Markup:
    """Return *text* with *spans* of it in an *element*; neighbouring ones are joined."""
    parts: list[str] = []
    last = 0
    for start, end in spans:
        if parts and not text[last:start].strip() and start > last:
            opened = parts.pop()
            assert opened.endswith(f"</{element}>")
            parts.append(opened.removesuffix(f"</{element}>") + escape(harmless(text[last:end])) + f"</{element}>")
        else:
            parts += [escape(harmless(text[last:start])), f"<{element}>{escape(harmless(text[start:end]))}</{element}>"]
        last = end
    return Markup("".join([*parts, escape(harmless(text[last:]))]))  # noqa: S704 - its pieces are escaped


def _was(old: str, new: str) -> Markup:
    return marked(old, word_difference(old, new)[0], "del")


def _now(old: str, new: str) -> Markup:
    return marked(new, word_difference(old, new)[1], "ins")


def shortened(text: str, limit: int = LONGEST_IN_LIST) -> str:
    """Return the first *limit* characters of *text*, with a mark where there are more."""
    return text if len(text) <= limit else text[:limit].rstrip() + " …"


@cache
def _markdown() -> MarkdownIt:
    """Return a renderer of paragraphs, lists, tables and code: no HTML, no link and no image, which would call out."""
    renderer = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable(["table", "strikethrough"])
    return renderer.disable(["link", "image", "autolink", "html_inline", "html_block", "reference", "entity"])


def formatted(text: str) -> Markup:
    """Return *text*, which may be Markdown, as HTML; addresses and images in it stay the words that they are."""
    words = _CONTROLS.sub("\ufffd", _OVERRIDES.sub("", text))
    html = _markdown().render(words)
    # Alignment of a table's columns is a style in the element, which the policy of content refuses.
    html = re.sub(r' style="text-align:\w+"', "", html)
    # So is the language of a piece of code the writer's words in an attribute.
    return Markup(re.sub(r'<code class="[^"]*">', "<code>", html))  # noqa: S704 - what the renderer made has no HTML of others


def _count(number: int, noun: str, several: str = "") -> str:
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def _size(number: int) -> str:
    for unit in ("bytes", "kB", "MB"):
        if number < 1_000:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number = number / 1_000  # type: ignore[assignment]
    return f"{number:.1f} GB"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=harmless,
        auto_reload=False,
    )
    environment.filters |= {
        "moment": _moment,
        "day": _day,
        "last_day": _last_day,
        "input_day": _input_day,
        "was": _was,
        "now": _now,
        "shortened": shortened,
        "formatted": formatted,
        "short_id": short_id,
        "count_of": _count,
        "size": _size,
        "place_name": place_name,
        "path_part": lambda text: quote(str(text), safe=""),
    }
    environment.globals |= {"asset": asset}
    return environment
