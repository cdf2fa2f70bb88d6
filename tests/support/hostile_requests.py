"""Hostile requests, as data: what is sent byte for byte, and the statuses with one of which it must be refused.

``python -m tests.support.hostile_requests`` prints the table that stands on the page about security.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

API: Final = "/api/v1"
OWNER: Final = "a-token-of-the-test"
READER: Final = "the-token-of-ben"
_PLANTED: Final = '{"text": "planted"}'
NO_ANSWER: Final = 0
"""Status of a connection that is closed without an answer."""


@dataclass(frozen=True, slots=True)
class HostileRequest:
    """Request of a *kind*; *statuses* are those of a refusal, and *raw* the bytes that are sent."""

    kind: str
    name: str
    raw: bytes
    statuses: tuple[int, ...]


def _request(
    method: str = "GET",
    path: str = f"{API}/stats",
    *,
    body: str | bytes = "",
    token: str | None = OWNER,
    **headers: str,
) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    fields = {"Host": "127.0.0.1", "Connection": "close"}
    if token is not None:
        fields["Authorization"] = f"Bearer {token}"
    if data:
        fields |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
    fields |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items() if value)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + data


def _post(body: str | bytes = _PLANTED, path: str = "/memories", **options: str | None) -> bytes:
    return _request("POST", API + path, body=body, **options)  # type: ignore[arg-type]


def _all() -> list[HostileRequest]:
    cases: list[HostileRequest] = []

    def add(kind: str, name: str, raw: bytes, *statuses: int) -> None:
        cases.append(HostileRequest(kind, name, raw, statuses))

    for name, host in {
        "another host": "evil.example",
        "a host that begins like ours": "127.0.0.1.evil.example",
        "our host as the port of another": "evil.example:127.0.0.1",
        "our host with a dot at its end": "localhost.",
        "our host with a user": "localhost@evil.example",
        "another host with us as its user": "127.0.0.1@evil.example",
        "a name that leads here": "localtest.me:80",
        "the address in one number": "2130706433",
        "the address in octal": "0177.0.0.1",
        "the short address": "127.1",
        "another address of this machine": "127.0.0.2",
        "everybody's address": "0.0.0.0",
        "a port that is no number": "127.0.0.1:80a",
        "a port of other digits": "127.0.0.1:\uff18\uff10",
        "a path in the host": "127.0.0.1/evil",
        "two hosts in one header": "127.0.0.1, evil.example",
        "a wildcard": "*",
    }.items():
        coded = host.encode().decode("latin-1")
        add("host", name, _request(Host=coded), 400, 421)
    add("host", "no host", _request(Host=""), 400, 421)
    add("host", "a forwarded host", _request(Host="evil.example", X_Forwarded_Host="localhost"), 421)
    add(
        "host",
        "a forwarded host in the standard's words",
        _request(Host="evil.example", Forwarded="host=localhost"),
        421,
    )
    two = _request().replace(b"Host: 127.0.0.1\r\n", b"Host: 127.0.0.1\r\nHost: evil.example\r\n")
    add("host", "two hosts", two, 400)
    add("host", "a whole address", _request(path=f"http://evil.example{API}/stats", Host="evil.example"), 400, 421)
    add("host", "a whole address with our host", _request(path=f"http://evil.example{API}/stats"), 400)
    add("host", "the authority of a tunnel", _request("CONNECT", "127.0.0.1:22"), 400, 404, 405)

    for name, origin in {
        "another origin": "http://evil.example",
        "no origin, as of a sandboxed page": "null",
        "our origin by another scheme": "https://localhost",
        "an origin that ends like ours": "http://evil.localhost",
        "an origin that begins like ours": "http://localhost.evil.example",
        "an origin with ours as its user": "http://localhost:80@evil.example",
        "a file's origin": "file://",
        "an extension's origin": "chrome-extension://abcdef",
        "an origin with a path": "http://localhost/evil",
        "an origin without a scheme": "localhost",
        "an empty scheme": "://localhost",
        "two origins": "http://localhost http://evil.example",
        "a script as an origin": "javascript:alert(1)",
    }.items():
        add("origin", name, _post(Origin=origin), 403)
        if origin in ("http://evil.example", "null"):
            add("origin", f"{name}, only to read", _request(Origin=origin), 403)
    given_twice = _post(Origin="http://localhost").replace(b"\r\n\r\n", b"\r\nOrigin: http://evil.example\r\n\r\n", 1)
    add("origin", "two headers of origin", given_twice, 400)
    add("origin", "a preflight", _request("OPTIONS", f"{API}/memories", Origin="http://evil.example"), 403)
    allowing = {"Access_Control_Request_Method": "PUT", "Access_Control_Request_Private_Network": "true"}
    add(
        "origin",
        "a preflight to a private network",
        _request("OPTIONS", f"{API}/memories", token=None, **allowing),
        401,
    )
    add("origin", "a preflight of our own", _request("OPTIONS", f"{API}/memories"), 405)

    for name, value in {
        "no token": "",
        "another token": "Bearer a-token-of-the-tesu",
        "the token without its scheme": OWNER,
        "the token by another scheme": f"Basic {OWNER}",
        "the token in other letters": f"Bearer {OWNER.upper()}",
        "the token with a space after it": f"Bearer {OWNER} x",
        "the token twice in a header": f"Bearer {OWNER}, Bearer {OWNER}",
        "half of the token": f"Bearer {OWNER[:9]}",
        "an empty token": "Bearer ",
        "a token of many bytes": f"Bearer {'x' * 20_000}",
        "a token that asks a database": "Bearer ' OR '1'='1",
        "a token of other letters": "Bearer ÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿÿ",
        "the hash of a token": "Bearer 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    }.items():
        add("token", name, _request(token=None, Authorization=value), 401)
    add("token", "the token in the address", _request(path=f"{API}/stats?token={OWNER}", token=None), 401)
    add("token", "the token as a cookie", _request(token=None, Cookie=f"token={OWNER}"), 401)
    add("token", "the token in the body", _post(f'{{"text": "planted", "token": "{OWNER}"}}', token=None), 401)
    add("token", "an unknown path without the token", _request(path="/nothing", token=None), 401)
    add("token", "MCP without the token", _request("POST", "/mcp", body="{}", token=None), 401)
    add("token", "the model without the token", _request("POST", "/v1/chat/completions", body="{}", token=None), 401)
    add("token", "the metrics without the token", _request(path="/metrics", token=None), 401)
    add("token", "the description without the token", _request(path=f"{API}/openapi.json", token=None), 401)
    add("token", "a path that is open as a beginning", _request(path="/healthzz", token=None), 401)
    add("token", "an open path with more behind it", _request(path="/api/docs/../v1/stats", token=None), 401)
    add("token", "two tokens", _request().replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer x\r\n\r\n", 1), 400)
    add("token", "two keys", _request(token=None, X_Api_Key="x").replace(b"\r\n\r\n", b"\r\nX-Api-Key: y\r\n\r\n"), 400)

    reader = {"token": READER}
    for name, raw, status in (
        ("a reader keeps something", _post(**reader), 403),
        ("a reader corrects", _request("PUT", f"{API}/memories/m1", body=_PLANTED, **reader), 403),
        ("a reader forgets", _post('{"everything": true}', "/forget", **reader), 403),
        ("a reader imports", _post("x", "/import", **reader), 403),
        ("a reader uploads", _post("x", "/documents", **reader), 403),
        ("a reader chats", _post(_PLANTED, "/chat", **reader), 403),
        ("a user lists users", _request(path=f"{API}/users", **reader), 403),
        ("a user makes a backup", _post("{}", "/backup", **reader), 403),
        ("a user reads the metrics", _request(path="/metrics", **reader), 403),
        ("a user names the owner's namespace", _request(path=f"{API}/memories?namespace=", **reader), 404),
        ("a user names another's namespace", _request(path=f"{API}/stats?namespace=ana", **reader), 404),
        ("a user names what is not there", _request(path=f"{API}/stats?namespace=nobody", **reader), 404),
        ("a user reads another's memory", _request(path=f"{API}/memories/m1", **reader), 404),
        ("a namespace in the body", _post('{"text": "planted", "namespace": "ana"}'), 422),
        ("an actor in the body", _post('{"text": "planted", "actor": "system"}'), 422),
        ("a trust in the body", _post('{"text": "planted", "trust": "user"}'), 422),
        ("a name of a user in a header", _request(path=f"{API}/users", X_User="ana", **reader), 403),
        ("another's confirmation", _post('{"everything": true, "confirm": "9999999999-0"}', "/forget", **reader), 403),
    ):
        add("user", name, raw, status)

    for name, path in {
        "a path with dots": "/../../../etc/passwd",
        "a path with coded dots": "/%2e%2e/%2e%2e/etc/passwd",
        "a path with twice coded dots": "/%252e%252e/%252e%252e/etc/passwd",
        "a path with backslashes": "/..\\..\\etc\\passwd",
        "a memory with a path for an id": f"{API}/memories/..%2f..%2fetc%2fpasswd",
        "a memory with a null for an id": f"{API}/memories/%00",
        "a static file with a path": "/static/..%2f..%2fapp.py",
        "two slashes": "//evil.example",
        "a slash at the end": f"{API}/stats/",
        "a slash within": "/api//v1/stats",
        "a parameter of a path": f"{API}/stats;x=1",
        "other letters": "/API/V1/stats",
        "a file of the server": "/.env",
        "a redirect to elsewhere": "/redirect?url=http://evil.example",
        "a redirect after signing in": f"{API}/stats/%0d%0aLocation:%20http://evil.example",
        "a next page elsewhere": "//evil.example/%2f..",
    }.items():
        add("path", name, _request(path=path), 400, 404, 422)
    add("path", "a document of this machine", _post('{"url": "file:///etc/passwd"}', "/documents/url"), 422)
    for name, url in {
        "a page of this machine": "http://127.0.0.1:22/",
        "a page of this machine in IPv6": "http://[::1]/",
        "a page of the network": "http://192.168.0.1/",
        "the metadata of a cloud": "http://169.254.169.254/latest/meta-data/",
        "this machine in one number": "http://2130706433/",
        "this machine behind NAT64": "http://[64:ff9b::7f00:1]/",
        "this machine in full width": "http://\uff11\uff12\uff17.0.0.1/",
        "another protocol": "gopher://127.0.0.1/",
    }.items():
        add("path", name, _post(f'{{"url": "{url}"}}', "/documents/url"), 422)

    for name, raw, statuses in (
        ("a method in a header", _post(path="/memories/x", X_HTTP_Method_Override="PUT"), (405,)),
        ("a method in the address", _post(path="/memories/x?_method=PUT"), (405,)),
        ("a change by GET", _request(path=f"{API}/forget"), (405,)),
        ("a change by HEAD", _request("HEAD", f"{API}/forget"), (405,)),
        ("TRACE", _request("TRACE"), (405,)),
        ("a method of the cache", _request("PURGE"), (405,)),
        ("a method of WebDAV", _request("PROPFIND"), (405,)),
        ("an invented method", _request("BREW"), (405,)),
        ("a method in small letters", _request("get"), (400, 405)),
        ("a form", _post(Content_Type="application/x-www-form-urlencoded"), (422,)),
        ("plain text", _post(Content_Type="text/plain"), (422,)),
        ("no type of content", _post(Content_Type=""), (422,)),
        ("a picture", _post(Content_Type="image/png"), (422,)),
        (
            "a form of parts without a boundary",
            _post("x", "/documents", Content_Type="multipart/form-data"),
            (400, 422),
        ),
        ("a form for MCP", _request("POST", "/mcp", body="{}", Content_Type="text/plain"), (400,)),
    ):
        add("method", name, raw, *statuses)

    for name, body, statuses in (
        ("no JSON", '{"text": "planted"', (422,)),
        ("a number for a text", '{"text": 5}', (422,)),
        ("a list", "[]", (422,)),
        ("an empty text", '{"text": ""}', (422,)),
        ("an unknown field", '{"text": "planted", "admin": true}', (422,)),
        ("a prototype", '{"text": "planted", "__proto__": {"admin": true}}', (422,)),
        ("no number", '{"text": "planted", "importance": NaN}', (422,)),
        ("a number without end", f'{{"text": "planted", "importance": {"9" * 400}}}', (400, 422)),
        ("a date that is none", '{"text": "planted", "occurred_at": "0000-00-00"}', (422,)),
        ("a surrogate alone", '{"text": "\\ud800"}', (422,)),
        ("bytes that are no text", b'{"text": "\xff\xfe"}', (400, 422)),
        ("100,000 brackets", "[" * 100_000, (400, 422)),
        ("a text of a megabyte", f'{{"text": "{"x" * 900_000}"}}', (422,)),
        ("100,000 tags", f'{{"text": "planted", "tags": [{",".join(["0"] * 100_000)}]}}', (422,)),
    ):
        add("body", name, _post(body), *statuses)
    deep = '{"$not": ' * 2_000 + "{}" + "}" * 2_000
    for name, body, path in (
        ("a deep filter", f'{{"question": "x", "where": {deep}}}', "/recall"),
        ("an unknown operator", '{"question": "x", "where": {"a": {"$where": "sleep(9)"}}}', "/recall"),
        ("a filter that is code", '{"question": "x", "where": {"$expr": "1"}}', "/recall"),
        ("a million answers", '{"question": "x", "k": 1000000}', "/recall"),
        ("no question", '{"question": ""}', "/recall"),
        ("a question of a megabyte", f'{{"question": "{"x" * 900_000}"}}', "/recall"),
        ("2,000 ids", f'{{"mark": "pin", "ids": [{",".join(["0"] * 2_000)}]}}', "/marks"),
        ("a mark that is a method", '{"mark": "__init__", "ids": ["m1"]}', "/marks"),
        ("a forgetting of nothing", "{}", "/forget"),
        ("a negative time of grace", '{"everything": true, "grace_days": -1}', "/forget"),
    ):
        add("body", name, _post(body, path), 400, 422)

    for name, raw, statuses in (
        ("a length too large", _post("", Content_Length="99999999999"), (413,)),
        ("a negative length", _post("", Content_Length="-1"), (400,)),
        ("a length that is no number", _post("", Content_Length="0x10"), (400,)),
        ("a length with a sign", _post("", Content_Length="+18"), (400,)),
        ("two lengths", _post().replace(b"\r\n\r\n", b"\r\nContent-Length: 4\r\n\r\n", 1), (400,)),
        ("a length and chunks", _post(Transfer_Encoding="chunked"), (400,)),
        ("chunks behind an unknown coding", _post("", Transfer_Encoding="xchunked"), (400, 501)),
        ("two codings", _post("", Transfer_Encoding="gzip, chunked"), (400, 501)),
        ("a chunk of no number", _post("", Transfer_Encoding="chunked") + b"zz\r\nx\r\n0\r\n\r\n", (400,)),
        ("a chunk of an endless number", _post("", Transfer_Encoding="chunked") + b"f" * 40 + b"\r\n", (400,)),
        ("a header folded", _request(X="a\r\n b\r\nOrigin: http://evil.example"), (400, 403)),
        ("a header with a bare newline", _request(X="a\nOrigin: http://evil.example"), (400, 403)),
        ("a header with a null", _request(X="a\0b"), (400,)),
        ("a space before the colon", _request().replace(b"Host:", b"Host :"), (400,)),
        ("a header of 100,000 bytes", _request(X="x" * 100_000), (400, 431)),
        ("9,000 headers", _request().replace(b"\r\n\r\n", b"\r\n" + b"X: y\r\n" * 9_000 + b"\r\n", 1), (400, 431)),
        ("a line of 100,000 bytes", _request(path="/" + "x" * 100_000), (400, 414, 431)),
        ("no version", b"GET /api/v1/stats\r\n\r\n", (400,)),
        ("version 0.9", _request().replace(b"HTTP/1.1", b"HTTP/0.9"), (400, 505)),
        ("HTTP/2 by prior knowledge", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 505)),
        ("TLS to a port without", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), (400, NO_ANSWER)),
        ("a greeting of SSH", b"SSH-2.0-evil\r\n\r\n", (400,)),
        ("an upgrade to HTTP/2", _request(token=None, Upgrade="h2c", Connection="Upgrade, HTTP2-Settings"), (401,)),
        (
            "a websocket",
            _request(token=None, Upgrade="websocket", Connection="Upgrade", Sec_WebSocket_Version="13"),
            (400, 401),
        ),
        (
            "a websocket of another origin",
            _request(Upgrade="websocket", Connection="Upgrade", Origin="http://evil.example"),
            (403,),
        ),
        ("a request behind an other's", _request(token=None, Content_Length="5") + b"GET /", (401,)),
        ("a cache poisoned by a header", _request(X_Original_URL="/healthz", token=None), (401,)),
        ("a path rewritten by a header", _request(X_Rewrite_URL="/healthz", token=None), (401,)),
        ("a client that is trusted by a header", _request(X_Forwarded_For="127.0.0.1", token=None), (401,)),
        ("a scheme by a header", _request(X_Forwarded_Proto="https", Origin="https://localhost"), (403,)),
    ):
        add("protocol", name, raw, *statuses)
    return cases


HOSTILE_REQUESTS: Final = _all()


def table() -> str:
    """Return the table for the page about security: what was tried, by kind, and what came back."""
    lines = ["| kind | request | refused with |", "|---|---|---|"]
    for case in HOSTILE_REQUESTS:
        came = " or ".join("no answer" if status == NO_ANSWER else str(status) for status in case.statuses)
        lines.append(f"| {case.kind} | {case.name} | {came} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(table(), end="")
