"""Exposure of a server: where it listens, under which names it is asked for, and how requests are kept secret."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from typing import Final

from tellback.agent.assistant.config import ConfigurationError
from tellback.agent.http_listener import host_names
from tellback.memory.internals import is_loopback

LOOPBACK: Final = "127.0.0.1"
_EVERYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - it is compared with


@dataclass(frozen=True, slots=True)
class Exposure:
    """Checked exposure: the *names* in requests, the *certificate* and its key, the networks of *proxies*."""

    host: str = LOOPBACK
    names: frozenset[str] = frozenset(host_names(LOOPBACK))
    certificate: tuple[Path, Path] | None = None
    proxies: tuple[str, ...] = ()

    @property
    def scheme(self) -> str:
        """Scheme of the addresses under which browsers know it."""
        return "http" if self.certificate is None and not self.proxies else "https"

    @property
    def is_local(self) -> bool:
        """Return whether this machine alone reaches it."""
        return not self.proxies and is_loopback(f"http://{self.host}")

    def sentence(self, memory: str) -> str:
        """Return what is exposed, to whom, in one sentence."""
        names = ", ".join(sorted(self.names - host_names(LOOPBACK))) or self.host
        if self.is_local:
            return f"{memory} is served to this machine alone."
        way = f"by HTTPS through the proxy at {', '.join(self.proxies)}" if self.proxies else "by HTTPS"
        return f"{memory} is served to everybody who reaches {names} {way} and has the token, or a user's."

    def admits(self) -> Callable[[socket], bool]:
        """Return the test of a connection: behind a proxy, only its own are taken."""
        if not self.proxies:
            return lambda connection: True
        networks = [ipaddress.ip_network(proxy, strict=False) for proxy in self.proxies]

        def is_of_proxy(connection: socket) -> bool:
            try:
                address = ipaddress.ip_address(connection.getpeername()[0])
            except (OSError, ValueError):
                return False
            address = getattr(address, "ipv4_mapped", None) or address
            return any(address in network for network in networks)

        return is_of_proxy


def checked_exposure(
    host: str = LOOPBACK,
    *,
    names: Sequence[str] = (),
    certificate: Path | None = None,
    key: Path | None = None,
    proxies: str = "",
) -> Exposure:
    """Return the exposure of these options; ``ConfigurationError`` for one that would show what is sent to others."""
    if (certificate is None) != (key is None):
        raise ConfigurationError("--cert and --key go together: the certificate, and its private key")
    for option, file in (("--cert", certificate), ("--key", key)):
        if file is not None and not file.is_file():
            raise ConfigurationError(f"{option} {file}: no such file")
    networks = tuple(part.strip() for part in proxies.split(",") if part.strip())
    for network in networks:
        try:
            prefix = ipaddress.ip_network(network, strict=False).prefixlen
        except ValueError:
            needed = "addresses or networks are needed, such as 127.0.0.1 or 10.0.0.0/24"
            raise ConfigurationError(f"--behind-proxy {network}: {needed}") from None
        if not prefix:
            raise ConfigurationError(f"--behind-proxy {network}: that is everybody; name the proxy's own address")
    local = is_loopback(f"http://{host if ':' not in host else f'[{host}]'}")
    if not local and certificate is None and not networks:
        raise ConfigurationError(
            f"--host {host} is reached by other machines, and HTTP is not encrypted: give --cert and --key, "
            "or --behind-proxy with the address of a proxy that has TLS"
        )
    for name in names:
        if not name or not name.isascii() or any(letter.isspace() or letter in "/@?#*" for letter in name):
            raise ConfigurationError(f"--name {name}: the name in the address is needed, such as memory.example.org")
    if (host in _EVERYWHERE or networks) and not names:
        raise ConfigurationError("--name is needed: the name under which it is asked for, such as memory.example.org")
    own = host_names(host) or host_names(LOOPBACK)
    known = frozenset({*(name.lower() for name in names), *own})
    pair = None if certificate is None or key is None else (certificate, key)
    return Exposure(host, known, pair, networks)
