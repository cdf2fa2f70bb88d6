"""Way to the resident server: its private folder and socket, the check of the peer, and one exchange over HTTP.

HTTP is written by hand, and only a little of the standard library is imported: each hook runs through here.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import sys
from collections.abc import Iterator, Mapping
from typing import Any

PROTOCOL = 2
REQUEST_LIMIT = 8 << 20
"""Bytes of a request; a longer one runs without the resident."""
REPLY_LIMIT = 32 << 20
IDLE_VARIABLE = "TELLBACK_RESIDENT_IDLE"
PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
"""Folder of the package ``agent``."""

HANDED_OVER = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OLLAMA_HOST")
"""Variables of settings that a request carries, beside all that begin with ``TELLBACK_``."""
_IDENTIFYING = (
    *("HOME", "USERPROFILE", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "TMPDIR"),
    *("TZ", "LANG", "LC_ALL", "LC_TIME", "PYTHONPATH", "TELLBACK_CACHE", "FASTEMBED_CACHE_PATH"),
    *("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"),
)
"""Variables that libraries read from the process itself: another value needs another resident."""
_PATH_LIMIT = 103
"""Bytes of a socket's path on macOS, the shortest of all."""
_MACOS_LOCAL, _MACOS_PEER = 0, 1
"""``SOL_LOCAL`` and ``LOCAL_PEERCRED``, which ``socket`` does not name."""


class WireError(Exception):
    """The peer is gone, too slow, not this user's, or sends an invalid message."""


def available() -> bool:
    """Return whether this system has what the resident needs."""
    return hasattr(socket, "AF_UNIX") and hasattr(os, "posix_spawn") and hasattr(os, "getuid")


def configuring_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of *environ* that a request hands over."""
    return {name: value for name, value in environ.items() if name.startswith("TELLBACK_") or name in HANDED_OVER}


def identity(environ: Mapping[str, str]) -> list[str]:
    """Return the values that identify a resident: this installation, and the user's folders and locale in *environ*."""
    return [PACKAGES, sys.prefix, *(f"{name}={environ[name]}" for name in _IDENTIFYING if name in environ)]


def socket_path(environ: Mapping[str, str]) -> str | None:
    """Return the path of the socket of *environ*'s resident; None where there is no private folder for it.

    The folder is in the user's XDG runtime folder, or else in ``/tmp``, named by the user's number. It is created where
    it is missing, and used only if it belongs to this user and is closed to all others.
    """
    from binascii import crc32

    name = f"{crc32(os.fsencode(chr(0).join(identity(environ)))):08x}.sock"
    for folder in _runtime_folders(environ):
        path = f"{folder}/{name}"
        if len(os.fsencode(path)) <= _PATH_LIMIT and _is_private(folder):
            return path
    return None


def socket_paths(environ: Mapping[str, str]) -> list[str]:
    """Return the sockets of all residents of this user that can be seen from *environ*."""
    folders = [folder for folder in _runtime_folders(environ) if _is_private(folder, make=False)]
    return [f"{folder}/{name}" for folder in folders for name in sorted(os.listdir(folder)) if name.endswith(".sock")]


def _runtime_folders(environ: Mapping[str, str]) -> Iterator[str]:
    user = os.getuid()
    for parent in (environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{user}"):
        if os.path.isabs(parent) and _is_private(parent, make=False):
            yield f"{parent}/tellback"
    yield f"/tmp/tellback-{user}"  # noqa: S108 - it is used only where it is this user's own


def _is_private(folder: str, *, make: bool = True) -> bool:
    """Return whether *folder* belongs to this user, and nobody else may read it."""
    if make:
        try:
            os.mkdir(folder, 0o700)
        except OSError:
            pass
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def peer_is_own(connection: socket.socket) -> bool:
    """Return whether the process at the other end of *connection* is this user's."""
    if hasattr(socket, "SO_PEERCRED"):
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    else:
        credentials = connection.getsockopt(_MACOS_LOCAL, _MACOS_PEER, 76)
    return int.from_bytes(credentials[4:8], sys.byteorder) == os.getuid()


def connect(path: str, *, seconds: float) -> socket.socket | None:
    """Return a connection to the process that listens at *path*; None where none does, or it is not this user's."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    try:
        connection.connect(path)
        if peer_is_own(connection):
            return connection
    except OSError:
        pass
    connection.close()
    return None


def ask(connection: socket.socket, target: str, request: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return status and object of the answer to *request*, sent to *target*; raise ``WireError`` where none comes."""
    body = json.dumps({"protocol": PROTOCOL, **request}).encode()
    head = f"POST {target} HTTP/1.1\r\nHost: tellback\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    parts, size = [], 0
    try:
        with connection:
            connection.sendall(head.encode() + body)
            while part := connection.recv(65536):
                parts.append(part)
                size += len(part)
                if size > REPLY_LIMIT:
                    raise WireError("the answer is too long")
    except OSError as error:
        raise WireError(f"the other end is gone ({type(error).__name__})") from error
    try:
        start, _, content = b"".join(parts).partition(b"\r\n\r\n")
        status, value = int(start[9:12]), json.loads(content)
    except ValueError:
        raise WireError("the answer is broken off") from None
    if not isinstance(value, dict):
        raise WireError("the answer is broken off")
    return status, value


def terminal_name() -> str | None:
    """Return a name of the terminal and its session, unlike that of a later terminal on the same device."""
    if sys.platform == "win32":
        return f"console of {os.getppid()}" if sys.stdin.isatty() or sys.stdout.isatty() else None
    for stream in (0, 1, 2):
        try:
            return f"{os.ttyname(stream)} {os.getsid(0)}"
        except OSError:
            continue
    return None
