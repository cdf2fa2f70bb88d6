"""Parts of an HTTP request, checked before anything is sent: address, headers, JSON body. No I/O.

An address or another endpoint, such as an embedder, is local if what it is given does not leave this machine.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tellback.memory.errors import ArgumentError
from tellback.memory.http.redaction import safe_url


def checked_url(url: str, argument: str = "url") -> str:
    """Return *url* if it is an http or https address with a host; raise ``ArgumentError`` if not."""
    expected = "an address such as https://host/v1 is needed"
    if not isinstance(url, str):
        raise ArgumentError(argument, url, expected)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or any(character <= " " or character == "\x7f" for character in url):
        raise ArgumentError(argument, safe_url(url), expected)
    return url


def is_loopback(url: str) -> bool:
    """Return whether *url* names this very machine by a name or address that no resolver can point elsewhere."""
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_remote(endpoint: object) -> bool:
    """Return whether what is given to *endpoint* (an embedder, a provider, None) leaves this machine.

    It says so by an attribute ``remote``; one that says nothing is taken to be remote.
    """
    return endpoint is not None and bool(getattr(endpoint, "remote", True))


def checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Return *headers* with small-letter names; a value that HTTP cannot carry raises, and is not shown."""
    checked: dict[str, str] = {}
    for name, value in (headers or {}).items():
        plain = value.isascii() and value.isprintable() and value == value.strip()
        if not plain:
            raise ArgumentError("headers", name, "its value must be plain ASCII with no space or line end around it")
        checked[name.lower()] = value
    return checked


def encode_json(payload: Any) -> bytes:
    """Return *payload* as JSON; numbers that are not finite, lone surrogates and other types raise."""
    try:
        return json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError("payload", type(payload), "JSON of finite numbers and whole text is needed") from error
