"""Endpoint of the configured model: which wire formats it speaks, and the headers that pass to it and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.server.proxy.wires import CHAT_COMPLETIONS, MESSAGES, Wire
from tellback.agent.providers.open import DEFAULT_OPENAI_URL
from tellback.memory.internals import is_loopback

MODEL_ALIAS: Final = "tellback"
"""Name under which a client may ask the configured model, whichever it is."""
_HOP_BY_HOP: Final = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer"}
    | {"transfer-encoding", "upgrade", "content-length"}
)
_NOT_SENT: Final = _HOP_BY_HOP | {
    "accept-encoding",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "origin",
    "referer",
    "via",
}
_KEYS: Final = ("authorization", "x-api-key", "api-key")
"""Headers in which clients put the token of this server; the key of the model takes its place."""
_NOT_SENT_PREFIXES: Final = ("access-control-", "sec-", "x-forwarded-", "x-real-", "x-openwebui-", "x-tellback-")
_NOT_RETURNED: Final = _HOP_BY_HOP | {"alt-svc", "content-encoding", "date", "server", "set-cookie", "via"}
_NOT_RETURNED_PREFIXES: Final = (
    *("access-control-", "content-security-", "cross-origin-", "referrer-", "strict-transport-"),
    *("x-frame-", "x-xss-", "x-tellback-"),
)
"""Headers that a server says to browsers about itself, which are not about this one."""


class Refusal(Exception):
    """A request cannot be passed on: *code* is the reason in a word, the text says what would be right."""

    def __init__(self, code: str, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.code, self.status = code, status


@dataclass(frozen=True, slots=True)
class Upstream:
    """Endpoint whose paths begin at *root*, which speaks *wires*; *model* is the configured one there ("": none)."""

    root: str
    model: str
    wires: tuple[Wire, ...]
    key: str | None = field(repr=False)

    @property
    def remote(self) -> bool:
        """Return whether requests leave this machine."""
        return not is_loopback(self.root)

    def check(self, wire: Wire, fields: Iterable[str]) -> None:
        """Raise ``Refusal`` unless it speaks *wire*; *fields* of the request are named, since none is translated."""
        if wire not in self.wires:
            own = self.wires[0]
            raise Refusal(
                "other_wire_format",
                f"the configured model speaks {own.title}, and this is a request of {wire.title}, of which nothing is "
                f"translated: its {', '.join(fields)} cannot be carried. Send it to {own.path}, or configure a model "
                f"that speaks {wire.title}",
            )

    def url(self, path: str) -> str:
        """Return the address that answers to *path* of ours."""
        return self.root + path.removeprefix("/v1")

    def headers(self, sent: Mapping[str, str]) -> dict[str, str]:
        """Return the headers *sent* by a client as they are passed on, with the key where its token was."""
        passed = {name: value for name, value in sent.items() if _passes(name, _NOT_SENT, _NOT_SENT_PREFIXES)}
        passed = {name: value for name, value in passed.items() if value.isascii() and value.isprintable()}
        carrier = next((name for name in _KEYS if name in passed), "authorization")
        for name in _KEYS:
            passed.pop(name, None)
        if self.key:
            passed[carrier] = f"Bearer {self.key}" if carrier == "authorization" else self.key
        return passed


def upstream_of(settings: AssistantSettings) -> Upstream:
    """Return the endpoint of the model of *settings*; raise ``Refusal`` where there is none.

    Servers of one's own (llama.cpp, vLLM, Ollama, LM Studio) speak both formats; one that does not says so itself.
    """
    endpoint = settings.model_endpoint
    if not endpoint.named:
        raise Refusal("no_model", "no model is configured here: `tellback init` looks for one, or set TELLBACK_MODEL")
    wires: tuple[Wire, ...] = (CHAT_COMPLETIONS, MESSAGES)
    if endpoint.kind == "anthropic":
        wires = wires[1:]
    elif endpoint.kind == "openai" and endpoint.url == DEFAULT_OPENAI_URL:
        wires = wires[:1]
    root = endpoint.url.rstrip("/") + ("" if endpoint.kind == "openai" else "/v1")
    return Upstream(root, endpoint.name, wires, endpoint.key)


def returned_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the *headers* of an answer that are passed back: its type, request ids, limits, times to wait."""
    return [(name, value) for name, value in headers if _passes(name, _NOT_RETURNED, _NOT_RETURNED_PREFIXES)]


def _passes(name: str, names: frozenset[str], prefixes: tuple[str, ...]) -> bool:
    return name not in names and not name.startswith(prefixes)
