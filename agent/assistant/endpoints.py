"""Addresses of endpoints, normalized from the forms that people write. Pure; nothing is asked."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

_OLLAMA_PORTS = {"http": "80", "https": "443"}
_OLLAMA_PORT = "11434"


def http_address(text: str) -> str:
    """Return *text* without a trailing slash, if it is an http address; else raise ``ValueError``."""
    address = text.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("an address such as http://localhost:8080/v1 is needed")
    return address


def ollama_address(host: str) -> str:
    """Return the address of what ``OLLAMA_HOST`` names, by Ollama's own rules.

    >>> ollama_address("192.168.1.4")
    'http://192.168.1.4:11434'
    """
    scheme, separator, rest = host.strip().strip("\"'").partition("://")
    if not separator:
        scheme, rest = "http", scheme
    port = _OLLAMA_PORTS[scheme] if separator and scheme in _OLLAMA_PORTS else _OLLAMA_PORT
    authority, _, path = rest.partition("/")
    name, named_port = _split_host_port(authority)
    name = name or "127.0.0.1"
    if name in ("0.0.0.0", "::"):  # noqa: S104 - where a server listens; a client asks this machine
        name = "127.0.0.1"
    name = f"[{name}]" if ":" in name else name
    return "/".join(part for part in (f"{scheme}://{name}:{named_port or port}", path.strip("/")) if part)


def _split_host_port(authority: str) -> tuple[str, str]:
    """Return host and port ("" where none is named) of ``host``, ``:port``, ``host:port``, ``[v6]:port`` or ``v6``."""
    try:
        return str(ipaddress.ip_address(authority.strip("[]"))), ""
    except ValueError:
        host, _, port = authority.rpartition(":") if ":" in authority else (authority, "", "")
        return host.strip("[]"), port
