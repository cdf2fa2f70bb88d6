"""Fetch of one web page for an ingest: public addresses only, and bounds on size, time and redirects.

A host is resolved once, every address it has is checked, and the connection goes to an address that was checked, so
that no answer of a name server can lead into one's own network. Each redirect is under the same rules. Proxies of the
environment are not used: they would resolve the name again.
"""

from __future__ import annotations

import asyncio
import codecs
import ipaddress
import re
import socket
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

import httpx

from tellback.memory.errors import ArgumentError, LoadError
from tellback.memory.http.redaction import safe_url
from tellback.memory.http.requests import checked_url

_MAX_REDIRECTS: Final = 5
_CONNECT_SECONDS: Final = 10.0
_CHARSET: Final = re.compile(r"""charset=["']?([\w.:-]+)""", re.IGNORECASE)
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_METADATA: Final = frozenset({ipaddress.ip_address("168.63.129.16")})
"""Public addresses under which a cloud tells its machines their secrets."""
_BAD_PORTS: Final = frozenset(
    {0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109}
    | {110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530}
    | {531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190}
    | {5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080}
)
"""The bad ports of the Fetch standard: servers of mail, files and the like, which could take a request for a command
of theirs."""
_HEADERS: Final = {"user-agent": "tellback", "accept": "text/html,text/*;q=0.9,*/*;q=0.5", "accept-encoding": "gzip"}

_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class WebPage:
    """Page as it was received: *url* is where it was found at last, *name* the last part of its path."""

    url: str
    name: str
    content: bytes
    media_type: str = ""
    modified: datetime | None = None


def checked_page_url(url: str) -> str:
    """Return *url* without its fragment if it is an http or https address without a password."""
    plain = checked_url(url).partition("#")[0]
    parts = urlsplit(plain)
    if parts.username is not None or parts.password is not None:
        raise ArgumentError("url", safe_url(url), "an address without user name and password is needed")
    return plain


async def fetch_page(
    url: str, *, allowed_hosts: Collection[str] = (), size: int = 50_000_000, seconds: float = 60.0
) -> WebPage:
    """Return the page at *url*; what cannot or must not be fetched raises ``LoadError``.

    *allowed_hosts* may lie in one's own network. *size* bounds the bytes as sent and as unpacked, *seconds* all of it.
    """
    first = checked_page_url(url)
    transport = _PinnedTransport(frozenset(host.casefold() for host in allowed_hosts))
    client = httpx.AsyncClient(
        transport=transport, trust_env=False, headers=_HEADERS, follow_redirects=True, max_redirects=_MAX_REDIRECTS
    )
    try:
        async with asyncio.timeout(seconds), client, client.stream("GET", first) as response:
            if response.status_code != httpx.codes.OK:
                raise LoadError(first, f"the server answered {response.status_code} {response.reason_phrase}".rstrip())
            content, media_type = await _body(response, first, size), response.headers.get("content-type", "")
    except TimeoutError as error:
        raise LoadError(url, f"took more than {seconds:g} seconds; not read") from error
    except httpx.TooManyRedirects as error:
        raise LoadError(url, f"leads on more than {_MAX_REDIRECTS} times") from error
    except httpx.DecodingError as error:
        raise LoadError(url, "is damaged: it cannot be unpacked") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise LoadError(url, f"cannot be fetched ({type(error).__name__}: {str(error)[:200]})") from error
    final = str(response.url)
    name = unquote(urlsplit(final).path.rpartition("/")[2])
    return WebPage(final, name, _in_utf8(content, media_type), media_type, _modified(response))


async def _body(response: httpx.Response, url: str, size: int) -> bytes:
    encoding = response.headers.get("content-encoding", "identity").strip().casefold()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise LoadError(url, f"is packed in a way that was not asked for ({encoding[:40]!r})")
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if max(len(body), response.num_bytes_downloaded) > size:
            raise LoadError(url, f"more than the {size / 1e6:.0f} MB that are read of one file")
    return bytes(body)


def _in_utf8(content: bytes, media_type: str) -> bytes:
    """Return *content* in UTF-8 with a mark where the server names the encoding of a text, else as it is."""
    charset = _CHARSET.search(media_type)
    if charset is None or not media_type.startswith(("text/", "application/xhtml")):
        return content
    try:
        return codecs.BOM_UTF8 + content.decode(charset[1]).removeprefix("\ufeff").encode()
    except (LookupError, ValueError):  # it is not what the server says; the loader looks for itself
        return content


def _modified(response: httpx.Response) -> datetime | None:
    try:
        return parsedate_to_datetime(response.headers.get("last-modified", ""))
    except (ValueError, TypeError):
        return None


class _PinnedTransport(httpx.AsyncBaseTransport):
    """Transport that connects to an address that it has checked itself; the server sees the name as usual."""

    def __init__(self, allowed_hosts: Collection[str]) -> None:
        self._allowed = allowed_hosts
        self._inner = httpx.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        if request.url.scheme not in ("http", "https") or request.url.userinfo:
            raise LoadError(str(request.url), "leads to an address that is not of the web")
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        if port in _BAD_PORTS:
            raise LoadError(str(request.url), f"port {port} is none of the web's: no browser reads it either")
        addresses = await _resolve(host, port)
        if host.casefold() not in self._allowed:
            for address in addresses:
                if not is_public(address):
                    raise LoadError(
                        str(request.url), f"{host} lies in a private network ({address}); allow the host if it is yours"
                    )
        timeouts = {**request.extensions.get("timeout", {}), "connect": _CONNECT_SECONDS}
        for number, address in enumerate(addresses):
            pinned = httpx.Request(
                request.method,
                request.url.copy_with(host=str(address)),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host, "timeout": timeouts},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if number + 1 == len(addresses):
                    raise
        raise AssertionError("a name that resolves has an address")

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _resolve(host: str, port: int) -> list[_Address]:
    """Return all addresses of *host*, each once."""
    with suppress(ValueError):
        return [ipaddress.ip_address(host)]
    try:
        addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in addresses))
    except (OSError, UnicodeError, ValueError) as error:
        raise LoadError(host, "no such host") from error


def is_public(address: _Address) -> bool:
    """Return whether *address* is one of the public network; one that carries another inside has to be so twice."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if address.teredo is not None:
            inner = address.teredo[1]
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast and address not in _METADATA
