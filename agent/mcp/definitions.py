"""Definitions of tools that an MCP server offers: names and descriptions made safe to show, and fingerprints that show
a change after the user agreed to a tool."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import unicodedata
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tellback.agent.errors import shorten

if TYPE_CHECKING:
    import mcp_types

_NAME_LENGTH: Final = 64
_DESCRIPTION_LENGTH: Final = 2_000
_UNSAFE_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_INVISIBLE: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn"})
"""Unicode categories of invisible characters: controls, direction marks, zero widths, tags, private use."""


def shown_name(prefix: str, name: str) -> str:
    """Return the name of a tool as a model sees it: with the prefix, and only ASCII letters, digits, _ and -."""
    whole = _UNSAFE_NAME.sub("_", f"{prefix}_{name}" if prefix else name)
    if len(whole) <= _NAME_LENGTH:
        return whole
    return f"{whole[: _NAME_LENGTH - 9]}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def shown_description(text: str) -> str:
    """Return a description without invisible characters, shortened to 2,000 characters."""
    visible = "".join(letter for letter in text if letter in "\n\t" or unicodedata.category(letter) not in _INVISIBLE)
    return shorten(visible.strip(), _DESCRIPTION_LENGTH)


def fingerprint(tool: mcp_types.Tool) -> str:
    """Return a hash of the definition of *tool*, as a model and its user see it."""
    annotations = None if tool.annotations is None else tool.annotations.model_dump(mode="json", exclude_none=True)
    definition: dict[str, Any] = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "schema": tool.input_schema,
        "annotations": annotations,
    }
    return hashlib.sha256(json.dumps(definition, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


@dataclass(slots=True)
class DefinitionRegister:
    """Fingerprints of the tools that the user agreed to, by server and name; in the private file *path*, or without one
    in this process."""

    path: Path | None = None
    _known: dict[str, dict[str, str]] = field(default_factory=dict)

    def agreed(self, server: str) -> Mapping[str, str]:
        """Return the fingerprints of *server*; empty where it was never connected before."""
        return self._read().get(server, {})

    def record(self, server: str, fingerprints: Mapping[str, str]) -> None:
        """Record that the user agreed to the tools with these *fingerprints*, by name."""
        known = self._read()
        known[server] = {**known.get(server, {}), **fingerprints}
        self._known = known
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name)  # made with mode 0600
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(known, file, indent=1, sort_keys=True)
        Path(name).replace(self.path)

    def _read(self) -> dict[str, dict[str, str]]:
        if self.path is None:
            return self._known
        with suppress(OSError, ValueError):
            known = json.loads(self.path.read_text(encoding="utf-8"))
            if isinstance(known, dict) and all(isinstance(tools, dict) for tools in known.values()):
                return known
        return {}
