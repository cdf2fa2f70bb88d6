"""Web pages in an ingest: public addresses only, the checked address is the one connected to, all within bounds.

Inner part, on no face: ``tellback.memory.http.web_page``.
"""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from tellback.memory import ArgumentError, KnowledgeBase, LoadError, LongTermMemory
from tellback.memory.http.web_page import fetch_page, is_public
from tellback.memory.internals import IngestAction
from tests.support.embedders import FakeEmbedder

pytestmark = pytest.mark.anyio

PAGE = b"<title>Trees</title><nav>Menu</nav><h1>Trees</h1><p>Oaks grow slowly."
HOSTS = ("127.0.0.1",)


class Pages(BaseHTTPRequestHandler):
    """Answers by path with what ``answers`` says: status, headers, body."""

    answers: ClassVar[dict[str, tuple[int, dict[str, str], bytes]]] = {}
    hosts: ClassVar[list[str]] = []

    def do_GET(self):
        self.hosts.append(self.headers["host"])
        status, headers, body = self.answers[self.path]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def answer(path: str, body: bytes = b"", status: int = 200, **headers: str) -> None:
    Pages.answers[path] = (status, {name.replace("_", "-"): value for name, value in headers.items()}, body)


@pytest.fixture
def memory(store):
    return LongTermMemory(store, embedder=FakeEmbedder())


async def test_a_page_is_ingested_and_read_anew_only_when_it_changed(memory, address):
    answer("/trees", PAGE, content_type="text/html; charset=utf-8", last_modified="Mon, 02 Nov 2026 10:00:00 GMT")
    knowledge = KnowledgeBase(memory)
    first = await knowledge.ingest_url(f"{address}/trees#top", allowed_hosts=HOSTS)
    assert [(line.source, line.action) for line in first.lines] == [(f"{address}/trees", IngestAction.ADDED)]
    assert (await knowledge.ingest_url(f"{address}/trees", allowed_hosts=HOSTS)).totals[IngestAction.UNCHANGED] == 1
    (info,) = await knowledge.documents()
    assert (info.title, info.location, info.modified.day) == ("Trees", f"{address}/trees", 2)
    answer("/trees", PAGE + b"<p>Elms, too.", content_type="text/html")
    assert (await knowledge.ingest_url(f"{address}/trees", allowed_hosts=HOSTS)).totals[IngestAction.UPDATED] == 1


async def test_the_media_type_and_encoding_sent_by_the_server_are_used(address):
    answer("/a", "Größe".encode("latin-1"), content_type="text/plain; charset=iso-8859-1", content_encoding="identity")
    answer("/b", gzip.compress(b"packed"), content_encoding="gzip")
    assert (await fetch_page(f"{address}/a", allowed_hosts=HOSTS)).content == "\ufeffGröße".encode()
    assert (await fetch_page(f"{address}/b", allowed_hosts=HOSTS)).content == b"packed"


async def test_the_dns_address_that_was_checked_is_connected_to(address, monkeypatch):
    asked = []
    original = asyncio.get_running_loop().getaddrinfo

    async def resolve(host, port, **options):
        asked.append(host)
        return await original("127.0.0.1" if host == "trees.example" else host, port, **options)

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    answer("/trees", PAGE)
    url = f"{address}/trees".replace("127.0.0.1", "trees.example")
    Pages.hosts.clear()
    with pytest.raises(LoadError, match=r"private network \(127.0.0.1\)"):
        await fetch_page(url)
    assert Pages.hosts == []
    assert (await fetch_page(url, allowed_hosts=["Trees.example"])).content == PAGE
    assert [host.partition(":")[0] for host in Pages.hosts] == ["trees.example"]
    assert [host for host in asked if host == "trees.example"] == ["trees.example"] * 2


@pytest.mark.parametrize(
    ("path", "answered", "reason"),
    [
        ("/gone", (404, {}, b""), "answered 404"),
        ("/loop", (302, {"location": "/loop"}, b""), "leads on more than 5 times"),
        ("/inside", (302, {"location": "http://localhost/admin"}, b""), "private network"),
        ("/metadata", (302, {"location": "http://169.254.169.254/latest"}, b""), "private network"),
        ("/mail", (302, {"location": "http://127.0.0.1:25/"}, b""), "port 25"),
        ("/file", (301, {"location": "file:///etc/passwd"}, b""), "not of the web"),
        ("/large", (200, {}, b"x" * 2_000_000), "more than the 1 MB"),
        ("/bomb", (200, {"content-encoding": "gzip"}, gzip.compress(bytes(30_000_000))), "more than the 1 MB"),
        ("/odd", (200, {"content-encoding": "br"}, b"x"), "not asked for"),
        ("/broken", (200, {"content-encoding": "gzip"}, b"x" * 100), "cannot be unpacked"),
    ],
)
async def test_a_page_outside_the_rules_is_reported_as_failed(memory, address, path, answered, reason):
    Pages.answers[path] = answered
    knowledge = KnowledgeBase(memory, limits={"size": 1_000_000})
    (line,) = (await knowledge.ingest_url(address + path, allowed_hosts=HOSTS)).lines
    assert (line.action, line.source) == (IngestAction.FAILED, address + path)
    assert reason in line.reason


@pytest.mark.parametrize(
    "url", ["ftp://example.org/a", "file:///etc/passwd", "/a.html", "http://me:pw@example.org/", "http://"]
)
async def test_an_unsupported_form_of_url_is_refused(memory, url):
    with pytest.raises(ArgumentError):
        await KnowledgeBase(memory).ingest_url(url)


@pytest.mark.parametrize("begun", [b"", b"HTTP/1.1 200 OK\r\nx: ", b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n"])
async def test_a_server_that_is_silent_or_sends_byte_by_byte_times_out(begun):
    left = asyncio.Event()

    async def drip(reader, writer):
        request = asyncio.gather(reader.read(), return_exceptions=True)  # ends as the client leaves
        writer.write(begun)
        while not request.done():
            writer.write(b"x" * bool(begun))
            await asyncio.sleep(0.01)
        writer.close()
        left.set()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(LoadError, match=r"more than 0\.3 seconds"):
            await fetch_page(f"http://127.0.0.1:{port}/", allowed_hosts=HOSTS, seconds=0.3)
        await left.wait()


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.20.0.1", False),
        ("192.168.1.1", False),
        ("100.100.100.200", False),
        ("169.254.169.254", False),
        ("168.63.129.16", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::1", False),
        ("fd00:ec2::254", False),
        ("fe80::1", False),
        ("::ffff:10.0.0.1", False),
        ("64:ff9b::a00:1", False),
        ("2002:7f00:1::", False),
    ],
)
async def test_private_loopback_and_metadata_addresses_are_not_public(address, public):
    assert is_public(ipaddress.ip_address(address)) is public
