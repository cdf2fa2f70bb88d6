"""Redaction of what may be shown of an HTTP exchange: addresses without secrets, error messages cut and without keys.

Pure text work. Secrets in memories are the business of write policies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

MAX_MESSAGE_LENGTH = 300
HIDDEN_MARK = "[hidden]"

_KEY_PATTERN = re.compile(
    r"(?i)\b(?:bearer|basic)\s+\S+"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|ghp)[-_][A-Za-z0-9_*.\-]{4,}"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|key|ghp|AIza)[-_]?[A-Za-z0-9_*.\-]{8,}"
    r"|(?=[A-Za-z0-9_\-]*[0-9])(?=[A-Za-z0-9_\-]*[A-Za-z])[A-Za-z0-9_\-]{28,}"
)


def safe_url(url: str) -> str:
    """Return *url* with neither user, password, query nor fragment, any of which may carry a key."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "(unreadable address)"
    if not host:
        if "@" in parts.path:
            return "(unreadable address)"
        return f"{parts.scheme}:{parts.path}" if parts.scheme else parts.path
    bracketed = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{bracketed}{f':{port}' if port is not None else ''}{parts.path}"


def header_secrets(headers: Mapping[str, str]) -> list[str]:
    """Return the parts of request *headers* that a server may echo and nobody should see."""
    hidden = [value for name, value in headers.items() if name == "authorization" or "key" in name or "token" in name]
    return [*hidden, *(value.split()[-1] for value in hidden if value)]


def error_message(body: bytes, secrets: Iterable[str] = ()) -> str:
    """Return what an error *body* says in the known places, cut to one line; nothing of an unknown shape."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    if isinstance(answer, list) and answer:  # Gemini wraps its one error in a list
        answer = answer[0]
    error = answer.get("error", answer) if isinstance(answer, dict) else ""
    if isinstance(error, str):
        return redact_line(error, secrets)
    if not isinstance(error, dict):
        return ""
    text = next((error[name] for name in ("message", "detail") if isinstance(error.get(name), str)), "")
    kinds = [error[name] for name in ("type", "code", "status") if isinstance(error.get(name), str)]
    kind = ", ".join(dict.fromkeys(kinds))
    return redact_line(f"{text} ({kind})" if text and kind else text or kind, secrets)


def redact_line(text: str, secrets: Iterable[str] = ()) -> str:
    """Return *text* on one line, cut, with *secrets* and whatever looks like a key hidden."""
    for secret in secrets:
        if len(secret) >= 4:
            text = text.replace(secret, HIDDEN_MARK)
    line = " ".join(_KEY_PATTERN.sub(HIDDEN_MARK, text).split())
    return line if len(line) <= MAX_MESSAGE_LENGTH else line[: MAX_MESSAGE_LENGTH - 1] + "…"
