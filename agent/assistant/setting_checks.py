"""Checks of settings: each takes a value from a flag, the environment or the file, and returns it in its final type.

An unusable value raises ``ValueError`` with what would be right. Written by hand, since every command reads the
settings, and a validation library takes longer to import than most commands take to run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

from tellback.agent.errors import AgentError
from tellback.agent.providers.open import ollama_address
from tellback.memory.internals import is_loopback

Check: TypeAlias = Callable[[Any], Any]
_SWITCHES: Final = {
    **dict.fromkeys(("1", "true", "t", "yes", "y", "on"), True),
    **dict.fromkeys(("0", "false", "f", "no", "n", "off"), False),
}


_ADDRESS: Final = re.compile("[a-z][a-z0-9+.-]+://")
LINE_CLIENTS: Final = ("claude-code", "codex", "gemini-cli")
"""Clients whose own command can write lines, as ``agent.providers.client_command`` knows them."""


class ConfigurationError(AgentError):
    """A setting of the assistant is missing or unusable."""


class Secret:
    """Text that no representation shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "'**********'"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def reveal(self) -> str:
        """Return the text."""
        return self._text


def text(value: object) -> str:
    """Return *value*, which must be a text."""
    if not isinstance(value, str):
        raise ValueError("a text is needed")
    return value


def secret(value: object) -> Secret:
    """Return a text as a ``Secret``, which is never shown."""
    return value if isinstance(value, Secret) else Secret(text(value))


def switch(value: object) -> bool:
    """Return a boolean; the environment gives it as a word, such as "yes"."""
    if isinstance(value, bool):
        return value
    enabled = _SWITCHES.get(str(value).strip().lower()) if isinstance(value, (str, int)) else None
    if enabled is None:
        raise ValueError("a boolean is needed: true or false")
    return enabled


def path(value: object) -> Path:
    """Return a path with the tilde expanded."""
    if not isinstance(value, (str, Path)) or not str(value).strip():
        raise ValueError("the path of a file is needed")
    return Path(value).expanduser()


def place(value: object) -> Path | str:
    """Return the path of a file, or the address of a server as it is."""
    if not isinstance(value, str) or not _ADDRESS.match(value.strip()):
        return path(value)
    address = value.strip()
    if address.startswith("http:") and not is_loopback(address):
        raise ValueError("https:// is needed: what is sent would be read by others on the way")
    return address


def without_password(address: str) -> str:
    """Return *address* without user name and password."""
    parts = urlsplit(address)
    kept = [(name, value) for name, value in parse_qsl(parts.query) if name not in ("user", "password", "sslpassword")]
    query = f"?{urlencode(kept, safe='/')}" if kept else ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{query}"


def integer(least: int) -> Check:
    """Return the check of an integer of at least *least*."""

    def check(value: object) -> int:
        number = _number(value, int)
        if number is None or number < least:
            raise ValueError(f"an integer of at least {least} is needed")
        return int(number)

    return check


def number(*, least: float | None = None, above: float | None = None) -> Check:
    """Return the check of a finite number of at least *least*, or greater than *above*."""

    def check(value: object) -> float:
        amount = _number(value, float)
        if amount is None or (least is not None and amount < least) or (above is not None and amount <= above):
            bound = f"of at least {least:g}" if least is not None else f"above {above:g}"
            raise ValueError(f"a number {bound} is needed")
        return float(amount)

    return check


def _number(value: object, kind: type[int] | type[float]) -> float | None:
    """Return *value*, a number or its text, as a finite number of *kind*; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        parsed = kind(value)
        return parsed if math.isfinite(parsed) and (isinstance(value, str) or parsed == value) else None
    except (ValueError, OverflowError):
        return None


def choice(*words: str) -> Check:
    """Return the check of one of *words*."""

    def check(value: object) -> str:
        if value not in words:
            raise ValueError(f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r} is needed")
        return str(value)

    return check


def stripped(value: object) -> str | None:
    """Return a text without blanks around it, None for a blank one."""
    return text(value).strip() or None


def name(value: object) -> str | None:
    """Return a name on one line, None for a blank one."""
    words = " ".join(text(value).split())
    if len(words) > _LONGEST_NAME or not words.isprintable():
        raise ValueError(f"a name of at most {_LONGEST_NAME} characters on one line is needed")
    return words or None


def zone(value: object) -> str | None:
    """Return the name of a time zone; None for a blank one: the zone of the machine holds then."""
    key = text(value).strip()
    if not key:
        return None
    from zoneinfo import ZoneInfo, available_timezones

    try:
        return ZoneInfo(key).key
    except (OSError, ValueError, KeyError):  # KeyError: no such zone, or no zones at all, as in a plain Windows
        if "/" in key and not available_timezones():
            return key
        raise ValueError("the name of a time zone is needed, such as Europe/Lisbon or UTC") from None


def model(value: object) -> str | None:
    """Return the name of a model; None for 'none'."""
    name = stripped(value)
    return None if name is None or name.lower() == NO_MODEL else name


def lines(value: object) -> str:
    """Return who writes lines: a word, or a client, with a model of it after a colon."""
    words = text(value).strip()
    client, _, model = words.partition(":")
    if words not in ("auto", "on", "off") and (
        client not in LINE_CLIENTS or model.startswith("-") or words[-1:] == ":"
    ):
        raise ValueError(f"'auto', 'on', 'off' or one of {', '.join(LINE_CLIENTS)} is needed")
    return words


def thinking(value: object) -> str | int:
    """Return on, off or a number of tokens."""
    word = str(value).strip().lower()
    word = {"true": "on", "false": "off"}.get(word, word)
    if word in ("on", "off"):
        return word
    if word.isdecimal() and int(word) > 0:
        return int(word)
    raise ValueError("on, off or a number of tokens is needed")


def window(value: object) -> str:
    """Return the window of the conversation that a model sees: all, or a kind of window with its size."""
    chosen = text(value).strip()
    kind, _, size = chosen.partition(":")
    if chosen != "all" and (kind not in WINDOW_KINDS or not size.isdecimal() or int(size) < 1):
        raise ValueError("all, turns:NUMBER, tokens:NUMBER or summary:NUMBER (of tokens) is needed")
    return chosen


def embedder(value: object) -> str:
    """Return the kind of the embedder, with its model where it has one."""
    kind, colon, name = text(value).strip().partition(":")
    has_model = kind in ("ollama", "onnx", "openai")
    if kind not in EMBEDDER_KINDS or (colon and not (has_model and name.strip())):
        kinds = "'auto', 'local', 'static', 'none', 'ollama:MODEL', 'onnx:MODEL' or 'openai:MODEL'"
        raise ValueError(f"{kinds} is needed")
    return text(value).strip()


def reranker(value: object) -> str | None:
    """Return the reranker's kind and model; None for 'none'."""
    kind, _, name = text(value).strip().partition(":")
    if kind in ("", "none") and not name:
        return None
    if kind != "onnx" or not name.strip():
        raise ValueError("'onnx:MODEL' or 'none' is needed")
    return f"{kind}:{name.strip()}"


def http_address(value: object) -> str:
    """Return an http address without a trailing slash."""
    from urllib.parse import urlsplit

    address = text(value).strip().rstrip("/")
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("an address such as http://localhost:8080/v1 is needed")
    return address


def ollama_host(value: object) -> str:
    """Return the value of ``OLLAMA_HOST``, unchanged, if it names an address."""
    http_address(ollama_address(text(value)))
    return text(value)


def tables(value: object) -> Mapping[str, Mapping[str, Any]]:
    """Return the tables of a TOML table by name."""
    if not isinstance(value, Mapping) or not all(isinstance(table, Mapping) for table in value.values()):
        raise ValueError("a table of tables is needed")
    return value


NO_MODEL = "none"
_LONGEST_NAME = 100
WINDOW_KINDS = ("turns", "tokens", "summary")
EMBEDDER_KINDS = ("auto", "local", "static", "none", "ollama", "onnx", "openai")
